/*
 * qmoe_check.h: the last phase of kernel qmoe: each token's weighted sum, and whether it is what the reference says.
 */
#ifndef QMOE_CHECK_H
#define QMOE_CHECK_H
#include <float.h>

#include "qmoe_expert.h"

/* Right: within the file's tolerance, or the same infinity, or NaN where NaN is expected. */
static inline int qmoe_is_right(float found, float expected, float rtol, float atol) {
    float off = found - expected, size = expected < 0 ? -expected : expected;
    if ((off < 0 ? -off : off) <= atol + rtol * size && size <= FLT_MAX) {
        return 1;
    }
    return found == expected || (found != found && expected != expected);
}

/* The output of one token, as it lies in memory; in `out`, as floats. */
static inline void qmoe_sum(const struct qmoe *q, uint32_t token, float *out, uint16_t *halves) {
    uint32_t hidden = q->shape.hidden, top_k = q->shape.top_k, j;
    memset(out, 0, hidden * sizeof *out);
    for (j = 0; j < top_k; j++) {
        size_t choice = (size_t)token * top_k + j;
        const float *values = q->projected + (size_t)q->route.place[choice] * hidden;
        q->ops->add_weighted(out, values, q->route.weight[choice], hidden);
    }
    if (q->shape.dtype == QMOE_FP16) {
        q->ops->store_half(halves, out, hidden);
        q->ops->load_half(out, halves, hidden);
    }
}

static inline void qmoe_check(struct lt_team *team, const struct qmoe *q, struct qmoe_scratch *s, uint32_t token,
                              uint32_t step) {
    uint32_t hidden = q->shape.hidden, i;
    float rtol = (float)q->data->rtol, atol = (float)q->data->atol;
    float *out = s->rows;
    const float *expected;
    qmoe_sum(q, token, out, (uint16_t *)(void *)(s->rows + hidden));
    expected = qmoe_row(q, qmoe_array(q, AT_EXPECTED), (size_t)token * hidden, hidden, s->rows + 2 * (size_t)hidden);
    for (i = 0; i < hidden; i++) {
        if (!qmoe_is_right(out[i], expected[i], rtol, atol)) {
            lt_wrong(team, "step %u: element %u of token %u is %.9g, not %.9g", step, i, token, (double)out[i],
                     (double)expected[i]);
            return;
        }
    }
}

#endif
