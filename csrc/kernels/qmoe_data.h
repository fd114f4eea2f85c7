/*
 * qmoe_data.h: the file with weights, inputs and expected outputs that kernel qmoe is given.
 *
 * The environment variable LIVETRAP_DATA names it; livetrap's data provider `qmoe` (harness/livetrap/data) writes it.
 * Little-endian: the header below, then seven arrays, each on a multiple of 64 bytes. `real` is 2 bytes a number for
 * fp16 and 4 for fp32; E experts, T tokens, H hidden, I inter, B block:
 *
 *     input real[T][H]      logits real[T][E]
 *     w1 uint8[E][2I][H * bits / 8]      s1 real[E][2I][H / B]
 *     w2 uint8[E][H][I * bits / 8]       s2 real[E][H][I / B]
 *     expected real[T][H]
 */
#ifndef QMOE_DATA_H
#define QMOE_DATA_H
#ifndef LIVETRAP_KERNEL
#define LIVETRAP_KERNEL
#endif
#include <livetrap.h>

#define QMOE_MAGIC UINT64_C(0x4c4d524f464c5451)
#define QMOE_VERSION 1u

enum { QMOE_FP32, QMOE_FP16 };
enum { AT_INPUT, AT_LOGITS, AT_W1, AT_S1, AT_W2, AT_S2, AT_EXPECTED, QMOE_ARRAYS };
enum { SHAPE_DTYPE, SHAPE_TOKENS, SHAPE_HIDDEN, SHAPE_INTER, SHAPE_EXPERTS, SHAPE_TOP_K, SHAPE_BITS, SHAPE_BLOCK,
       SHAPE_INPUTS, QMOE_SHAPES };

struct qmoe_header {
    uint64_t magic;
    uint32_t version;
    uint32_t shape[QMOE_SHAPES]; /* as the parameters of those names */
    uint64_t size;               /* of the whole file in bytes */
    uint64_t at[QMOE_ARRAYS];    /* where each array begins */
    double rtol, atol;           /* right: |found - expected| <= atol + rtol * |expected| */
    uint32_t crc;                /* of all behind the header; the provider's own matter */
    uint8_t reserved[4];
};
_Static_assert(sizeof(struct qmoe_header) == 136, "the provider packs it so");

static const char *const qmoe_shape_names[QMOE_SHAPES] = {"dtype",   "tokens", "hidden", "inter", "experts",
                                                          "top_k", "bits",   "block",  "inputs"};

struct qmoe_shape {
    uint32_t dtype, tokens, hidden, inter, experts, top_k, bits, block;
};

/* Bytes of each array. */
static inline void qmoe_sizes(const struct qmoe_shape *s, uint64_t size[QMOE_ARRAYS]) {
    uint64_t real = s->dtype == QMOE_FP16 ? 2 : 4, tokens = s->tokens, experts = s->experts;
    uint64_t weights = experts * s->hidden * s->inter;
    size[AT_INPUT] = size[AT_EXPECTED] = tokens * s->hidden * real;
    size[AT_LOGITS] = tokens * experts * real;
    size[AT_W1] = 2 * weights * s->bits / 8;
    size[AT_S1] = 2 * weights / s->block * real;
    size[AT_W2] = weights * s->bits / 8;
    size[AT_S2] = weights / s->block * real;
}

static inline int qmoe_is_power_of_two(uint32_t number) { return number != 0 && (number & (number - 1)) == 0; }

/* Reads the shape from the parameters; 0 when it can be none, which lt_error has told. */
static inline int qmoe_shape_read(struct lt_team *team, struct qmoe_shape *shape) {
    uint32_t value[QMOE_SHAPES], i;
    for (i = 0; i < QMOE_SHAPES; i++) {
        value[i] = (uint32_t)lt_team_param(team, qmoe_shape_names[i]);
    }
    memcpy(shape, value, sizeof *shape);
    if (shape->bits != 4 && shape->bits != 8) {
        lt_error(team, "qmoe: bits %u: must be 4 or 8", shape->bits);
    } else if (shape->block < 16 || !qmoe_is_power_of_two(shape->block)) {
        lt_error(team, "qmoe: block %u: must be a power of two, 16 or more", shape->block);
    } else if (shape->hidden % shape->block != 0 || shape->inter % shape->block != 0) {
        lt_error(team, "qmoe: hidden %u and inter %u: must be multiples of the block, %u", shape->hidden, shape->inter,
                 shape->block);
    } else if (shape->top_k > shape->experts) {
        lt_error(team, "qmoe: top_k %u: must be at most the number of experts, %u", shape->top_k, shape->experts);
    } else {
        return 1;
    }
    return 0;
}

/* What is wrong with a mapped file for this team, as lt_error tells it; 0 when something is. */
static inline int qmoe_data_check(struct lt_team *team, const struct qmoe_header *header, uint64_t size,
                                  const struct qmoe_shape *shape) {
    uint64_t sizes[QMOE_ARRAYS];
    uint32_t i;
    if (size < sizeof *header || header->magic != QMOE_MAGIC || header->version != QMOE_VERSION ||
        header->size != size) {
        lt_error(team, "qmoe: the file of LIVETRAP_DATA is none that provider qmoe of this version has written whole");
        return 0;
    }
    for (i = 0; i < QMOE_SHAPES; i++) {
        uint32_t wanted = (uint32_t)lt_team_param(team, qmoe_shape_names[i]);
        if (header->shape[i] != wanted) {
            lt_error(team, "qmoe: the file of LIVETRAP_DATA is for %s %u, not %u", qmoe_shape_names[i],
                     header->shape[i], wanted);
            return 0;
        }
    }
    qmoe_sizes(shape, sizes);
    for (i = 0; i < QMOE_ARRAYS; i++) {
        if (header->at[i] % 64 != 0 || header->at[i] > size || sizes[i] > size - header->at[i]) {
            lt_error(team, "qmoe: array %u of the file of LIVETRAP_DATA does not lie inside it", i);
            return 0;
        }
    }
    return 1;
}

/* The file, mapped for reading; NULL when there is none that fits, which lt_error has told. */
static inline const struct qmoe_header *qmoe_data_map(struct lt_team *team, const struct qmoe_shape *shape) {
    const char *path = getenv("LIVETRAP_DATA");
    struct stat status;
    void *at;
    int fd;
    if (path == NULL || *path == '\0') {
        lt_error(team, "qmoe: no LIVETRAP_DATA: its scenario must say data = \"qmoe\" under [target]");
        return NULL;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size <= 0) {
        lt_error(team, "qmoe: the file of LIVETRAP_DATA, %s, cannot be read or is empty", path);
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        lt_error(team, "qmoe: the file of LIVETRAP_DATA, %s, cannot be mapped", path);
        return NULL;
    }
    if (!qmoe_data_check(team, (const struct qmoe_header *)at, (uint64_t)status.st_size, shape)) {
        munmap(at, (size_t)status.st_size);
        return NULL;
    }
    return (const struct qmoe_header *)at;
}

#endif
