/*
 * qmoe_route.h: which experts each token goes to, and with which weight.
 *
 * Of a token's logits the greatest `top_k` are chosen: the greater first, of equal ones the earlier expert, NaN last,
 * as numpy's stable argsort of the negated logits gives them. Weights are the softmax over the chosen.
 */
#ifndef QMOE_ROUTE_H
#define QMOE_ROUTE_H
#include "qmoe_data.h"
#include "qmoe_ops.h"

struct qmoe_route {
    uint32_t *expert; /* [tokens * top_k]: the chosen of each token */
    float *weight;    /* [tokens * top_k], and room for one vector more */
    uint32_t *start;  /* [experts + 1]: where each expert's places begin */
    uint32_t *token;  /* [tokens * top_k]: the token at each place; an expert's places are in the order of tokens */
    uint32_t *place;  /* [tokens * top_k]: the place of each choice */
};

/* A comes before b, whatever their numbers as experts. */
static inline int qmoe_before(float a, float b) { return a > b || (b != b && a == a); }

static inline void qmoe_choose(uint32_t *expert, float *weight, uint32_t top_k, const float *logits, uint32_t experts) {
    uint32_t chosen = 0, e, at;
    for (e = 0; e < experts; e++) {
        float logit = logits[e];
        if (chosen == top_k && !qmoe_before(logit, weight[top_k - 1])) {
            continue;
        }
        chosen += chosen < top_k;
        for (at = chosen - 1; at > 0 && qmoe_before(logit, weight[at - 1]); at--) {
            weight[at] = weight[at - 1];
            expert[at] = expert[at - 1];
        }
        weight[at] = logit;
        expert[at] = e;
    }
}

/* Logits, the greatest first, to weights; `powers` has room for a multiple of 8 numbers. */
static inline void qmoe_softmax(float *weight, uint32_t top_k, float *powers, const struct qmoe_ops *ops) {
    uint32_t padded = (top_k + 7) / 8 * 8, i;
    float sum = 0.0f;
    for (i = 0; i < padded; i++) {
        powers[i] = i < top_k ? weight[i] - weight[0] : 0.0f;
    }
    ops->exp(powers, padded);
    for (i = 0; i < top_k; i++) {
        sum += powers[i];
    }
    for (i = 0; i < top_k; i++) {
        weight[i] = powers[i] / sum;
    }
}

/* Sorts all choices by expert, an expert's by token. One thread does it. */
static inline void qmoe_group(struct qmoe_route *route, const struct qmoe_shape *shape) {
    uint32_t choices = shape->tokens * shape->top_k, i, place;
    memset(route->start, 0, (shape->experts + 1) * sizeof *route->start);
    for (i = 0; i < choices; i++) {
        route->start[route->expert[i] + 1]++;
    }
    for (i = 0; i < shape->experts; i++) {
        route->start[i + 1] += route->start[i];
    }
    for (i = 0; i < choices; i++) {
        place = route->start[route->expert[i]]++;
        route->token[place] = i / shape->top_k;
        route->place[i] = place;
    }
    for (i = shape->experts; i > 0; i--) { /* each start now stands where the next one did */
        route->start[i] = route->start[i - 1];
    }
    route->start[0] = 0;
}

#endif
