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

/* Some rows of one matrix of one expert, for some of its tokens. */
struct qmoe_task {
    const uint8_t *weights; /* of the whole matrix */
    const char *scales;
    uint32_t columns;
    uint32_t first, last;  /* rows from the one up to, not including, the other: multiples of 16 */
    uint32_t place, count; /* the tokens at these places, at least 1 and at most QMOE_TOKENS */
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

/* Numbers as floats: where they are, or converted into `buffer`. */
static inline const float *qmoe_row(const struct qmoe *q, const void *array, size_t place, size_t count,
                                    float *buffer) {
    if (q->shape.dtype != QMOE_FP16) {
        return (const float *)array + place;
    }
    q->ops->load_half(buffer, (const uint16_t *)array + place, count);
    return buffer;
}

/* The task's matrix: `weights` names the array, behind which its scales come. */
static inline void qmoe_find(const struct qmoe *q, struct qmoe_task *task, int weights, uint32_t expert,
                             uint32_t rows) {
    size_t numbers = (size_t)expert * rows * task->columns;
    task->weights = (const uint8_t *)qmoe_array(q, weights) + numbers * q->shape.bits / 8;
    task->scales = qmoe_array(q, weights + 1) + numbers / q->shape.block * qmoe_real_size(q);
}

static inline void qmoe_dequantise_four(const struct qmoe *q, float *rows, const struct qmoe_task *task,
                                        uint32_t first) {
    uint32_t block = q->shape.block, bits = q->shape.bits;
    size_t number = (size_t)first * task->columns, end = number + (size_t)4 * task->columns;
    for (; number < end; number += block, rows += block) {
        float scale = qmoe_real(q, task->scales, number / block);
        if (bits == 4) {
            q->ops->dequantise4(rows, task->weights + number / 2, block, scale);
        } else {
            q->ops->dequantise8(rows, task->weights + number, block, scale);
        }
    }
}

/* The task's rows of the first product, through SwiGLU. */
static inline void qmoe_activate(struct qmoe *q, struct qmoe_scratch *s, const struct qmoe_task *task) {
    const float *token[QMOE_TOKENS + 2];
    uint32_t hidden = q->shape.hidden, width = (task->last - task->first) / 2, row, t, i;
    const uint32_t *tokens = q->route.token + task->place;
    float product[3][4];
    for (t = 0; t < task->count; t++) {
        float *buffer = s->tokens + (size_t)t * hidden;
        token[t] = qmoe_row(q, qmoe_array(q, AT_INPUT), (size_t)tokens[t] * hidden, hidden, buffer);
    }
    token[t] = token[t + 1] = token[t - 1]; /* the last three may be one or two: those are done again */
    for (row = task->first; row < task->last; row += 4) {
        uint32_t column = (row - task->first) / 2; /* even rows are gates, odd ones linear */
        qmoe_dequantise_four(q, s->rows, task, row);
        for (t = 0; t < task->count; t += 3) {
            q->ops->multiply(product, token + t, s->rows, hidden);
            for (i = 0; i < 3 && t + i < task->count; i++) {
                s->gate[t + i][column] = product[i][0];
                s->linear[t + i][column] = product[i][1];
                s->gate[t + i][column + 1] = product[i][2];
                s->linear[t + i][column + 1] = product[i][3];
            }
        }
    }
    for (t = 0; t < task->count; t++) {
        size_t at = (size_t)(task->place + t) * q->shape.inter + task->first / 2;
        q->ops->swiglu(s->gate[t], s->linear[t], width);
        if (q->shape.dtype == QMOE_FP16) {
            q->ops->store_half((uint16_t *)q->activated + at, s->gate[t], width);
        } else {
            memcpy((float *)q->activated + at, s->gate[t], width * sizeof(float));
        }
    }
}

/* The task's rows of the second product. */
static inline void qmoe_project(struct qmoe *q, struct qmoe_scratch *s, const struct qmoe_task *task) {
    const float *token[QMOE_TOKENS + 2];
    uint32_t inter = q->shape.inter, hidden = q->shape.hidden, row, t, i;
    float product[3][4];
    for (t = 0; t < task->count; t++) {
        float *buffer = s->tokens + (size_t)t * inter;
        token[t] = qmoe_row(q, q->activated, (size_t)(task->place + t) * inter, inter, buffer);
    }
    token[t] = token[t + 1] = token[t - 1];
    for (row = task->first; row < task->last; row += 4) {
        qmoe_dequantise_four(q, s->rows, task, row);
        for (t = 0; t < task->count; t += 3) {
            q->ops->multiply(product, token + t, s->rows, inter);
            for (i = 0; i < 3 && t + i < task->count; i++) {
                memcpy(q->projected + (size_t)(task->place + t + i) * hidden + row, product[i], sizeof product[i]);
            }
        }
    }
}

#endif
