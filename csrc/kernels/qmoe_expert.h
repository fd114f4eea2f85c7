/*
 * qmoe_expert.h: the two matrix products of kernel qmoe, one expert and one chunk of output rows at a time.
 *
 * A chunk's weights are dequantised four rows at a time into a buffer that stays in the cache, and multiplied by three
 * tokens at a time. Sums are floats in both types, as in onnxruntime's reference; fp16 is what lies in memory.
 */
#ifndef QMOE_EXPERT_H
#define QMOE_EXPERT_H
#include "qmoe_data.h"
#include "qmoe_ops.h"
#include "qmoe_route.h"

/* What one thread computes in. */
struct qmoe_scratch {
    float *rows;   /* four dequantised rows */
    float *tokens; /* fp16: QMOE_TOKENS rows as floats */
    float *logits; /* those of one token, and the powers of its chosen */
    float gate[QMOE_TOKENS][QMOE_CHUNK / 2], linear[QMOE_TOKENS][QMOE_CHUNK / 2];
};

struct qmoe {
    struct qmoe_shape shape;
    const struct qmoe_header *data;
    const struct qmoe_ops *ops;
    struct qmoe_route route;
    void *activated;  /* [tokens * top_k][inter], in the data's type: SwiGLU's results by place */
    float *projected; /* [tokens * top_k][hidden]: the second product by place */
    struct qmoe_scratch *scratch;
    uint32_t steps;
};

/* One matrix of one expert. */
struct qmoe_matrix {
    const uint8_t *weights;
    const char *scales;
    uint32_t columns;
};

static inline const char *qmoe_array(const struct qmoe *q, int array) {
    return (const char *)q->data + q->data->at[array];
}

static inline size_t qmoe_real_size(const struct qmoe *q) { return q->shape.dtype == QMOE_FP16 ? 2 : 4; }

static inline float qmoe_real(const struct qmoe *q, const char *array, size_t place) {
    uint16_t half;
    float real;
    if (q->shape.dtype == QMOE_FP16) {
        memcpy(&half, array + 2 * place, sizeof half);
        return qmoe_from_half(half);
    }
    memcpy(&real, array + 4 * place, sizeof real);
    return real;
}

/* A row of numbers as floats: where they are, or converted into `buffer`. */
static inline const float *qmoe_row(const struct qmoe *q, const void *array, size_t place, size_t count,
                                    float *buffer) {
    if (q->shape.dtype != QMOE_FP16) {
        return (const float *)array + place;
    }
    q->ops->load_half(buffer, (const uint16_t *)array + place, count);
    return buffer;
}

static inline struct qmoe_matrix qmoe_matrix(const struct qmoe *q, int weights, uint32_t expert, uint32_t rows,
                                             uint32_t columns) {
    struct qmoe_matrix matrix;
    size_t numbers = (size_t)expert * rows * columns;
    matrix.weights = (const uint8_t *)qmoe_array(q, weights) + numbers * q->shape.bits / 8;
    matrix.scales = qmoe_array(q, weights + 1) + numbers / q->shape.block * qmoe_real_size(q);
    matrix.columns = columns;
    return matrix;
}

static inline void qmoe_dequantise_four(const struct qmoe *q, float *rows, const struct qmoe_matrix *m, uint32_t first) {
    uint32_t block = q->shape.block, bits = q->shape.bits;
    size_t number = (size_t)first * m->columns, end = number + (size_t)4 * m->columns;
    for (; number < end; number += block, rows += block) {
        float scale = qmoe_real(q, m->scales, number / block);
        if (bits == 4) {
            q->ops->dequantise4(rows, m->weights + number / 2, block, scale);
        } else {
            q->ops->dequantise8(rows, m->weights + number, block, scale);
        }
    }
}

/* Rows `first` to `last` of the first product for the tokens at these places, through SwiGLU. */
static inline void qmoe_activate(struct qmoe *q, struct qmoe_scratch *s, const struct qmoe_matrix *m,
                                 const uint32_t bounds[2], uint32_t place, uint32_t count) {
    const float *token[QMOE_TOKENS + 2];
    uint32_t hidden = q->shape.hidden, row, t, i, width = (bounds[1] - bounds[0]) / 2;
    float product[3][4];
    for (t = 0; t < count; t++) {
        token[t] = qmoe_row(q, qmoe_array(q, AT_INPUT), (size_t)q->route.token[place + t] * hidden, hidden,
                            s->tokens + (size_t)t * hidden);
    }
    token[t] = token[t + 1] = token[t - 1]; /* the last three may be one or two: those are done again */
    for (row = bounds[0]; row < bounds[1]; row += 4) {
        qmoe_dequantise_four(q, s->rows, m, row);
        for (t = 0; t < count; t += 3) {
            q->ops->multiply(product, token + t, s->rows, hidden);
            for (i = 0; i < 3 && t + i < count; i++) { /* even rows are gates, odd ones linear */
                float *gate = &s->gate[t + i][(row - bounds[0]) / 2], *linear = &s->linear[t + i][(row - bounds[0]) / 2];
                gate[0] = product[i][0];
                linear[0] = product[i][1];
                gate[1] = product[i][2];
                linear[1] = product[i][3];
            }
        }
    }
    for (t = 0; t < count; t++) {
        size_t at = (size_t)(place + t) * q->shape.inter + bounds[0] / 2;
        q->ops->swiglu(s->gate[t], s->linear[t], width);
        if (q->shape.dtype == QMOE_FP16) {
            q->ops->store_half((uint16_t *)q->activated + at, s->gate[t], width);
        } else {
            memcpy((float *)q->activated + at, s->gate[t], width * sizeof(float));
        }
    }
}

/* Rows `first` to `last` of the second product for the tokens at these places. */
static inline void qmoe_project(struct qmoe *q, struct qmoe_scratch *s, const struct qmoe_matrix *m,
                                const uint32_t bounds[2], uint32_t place, uint32_t count) {
    const float *token[QMOE_TOKENS + 2];
    uint32_t inter = q->shape.inter, hidden = q->shape.hidden, row, t, i;
    float product[3][4];
    for (t = 0; t < count; t++) {
        token[t] = qmoe_row(q, q->activated, (size_t)(place + t) * inter, inter, s->tokens + (size_t)t * inter);
    }
    token[t] = token[t + 1] = token[t - 1];
    for (row = bounds[0]; row < bounds[1]; row += 4) {
        qmoe_dequantise_four(q, s->rows, m, row);
        for (t = 0; t < count; t += 3) {
            q->ops->multiply(product, token + t, s->rows, inter);
            for (i = 0; i < 3 && t + i < count; i++) {
                memcpy(q->projected + (size_t)(place + t + i) * hidden + row, product[i], sizeof product[i]);
            }
        }
    }
}

#endif
