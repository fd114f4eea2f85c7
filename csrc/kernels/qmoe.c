/*
 * qmoe: one step of a quantised mixture of experts, as inference runtimes run it: each token goes through the few
 * experts that its router picks, and their outputs are added up.
 *
 *     router      the greatest top_k logits of each token, softmax over them               split by tokens
 *     grouping    the choices sorted by expert                                            one thread
 *     product 1   input times weights of 4 or 8 bits with a scale a block, then SwiGLU    split by expert and rows
 *     product 2   that times weights                                                      split by expert and rows
 *     sum         of each token's experts, weighted; compared with what is expected       split by tokens
 *
 * After each phase the team waits by the technique, and that is all that can hang: with raw_spin it does, as told
 * there. The arithmetic is the same for all techniques. `dtype` is what inputs, logits, scales, SwiGLU's results and
 * outputs are kept in; sums are floats. Weights, inputs and expected outputs come from the file that qmoe_data.h
 * describes.
 *
 * Source: microsoft/onnxruntime#29047, fixed by #29081; operator com.microsoft::QMoE, whose packing of weights and
 * whose SwiGLU (interleaved, alpha 1.702, limit 7) these are.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "qmoe_check.h"
#include "qmoe_data.h"
#include "qmoe_expert.h"
#include "qmoe_ops.h"
#include "qmoe_route.h"

enum { SITE_ROUTED = 1, SITE_GROUPED, SITE_ACTIVATED, SITE_PROJECTED, SITE_SUMMED };

static const struct lt_param params[] = {
    {"dtype", "what numbers are kept in", "fp32|fp16", 0, 0, QMOE_FP32},
    {"tokens", "tokens of a step", NULL, 1, 4096, 16},
    {"hidden", "width of a token, a multiple of the block", NULL, 16, 8192, 64},
    {"inter", "width between the two products, a multiple of the block", NULL, 16, 8192, 64},
    {"experts", "how many experts there are", NULL, 1, 1024, 8},
    {"top_k", "how many of them each token goes to", NULL, 1, 64, 4},
    {"bits", "of a weight: 4 or 8", NULL, 4, 8, 4},
    {"block", "weights that share a scale: a power of two", NULL, 16, 8192, 32},
    {"inputs", "what the inputs are", "normal|nan|inf|large|denormal", 0, 0, 0},
    {"steps", "steps of a trial, each of them checked", NULL, 1, 1000000, 2},
};

static void finish(struct lt_team *team, void *state) {
    struct qmoe *q = (struct qmoe *)state;
    uint32_t i;
    if (q == NULL) {
        return;
    }
    for (i = 0; q->scratch != NULL && i < lt_team_size(team); i++) {
        free(q->scratch[i].rows);
        free(q->scratch[i].tokens);
        free(q->scratch[i].logits);
    }
    if (q->data != NULL) {
        munmap((void *)(uintptr_t)q->data, (size_t)q->data->size);
    }
    free(q->scratch);
    free(q->route.expert);
    free(q->route.weight);
    free(q->route.start);
    free(q->route.token);
    free(q->route.place);
    free(q->activated);
    free(q->projected);
    free(q);
}

/* 0: out of memory. */
static int allocate(struct qmoe *q, uint32_t threads) {
    const struct qmoe_shape *shape = &q->shape;
    size_t choices = (size_t)shape->tokens * shape->top_k, i;
    size_t wide = shape->hidden > shape->inter ? shape->hidden : shape->inter;
    size_t in_floats = shape->dtype == QMOE_FP16 ? QMOE_TOKENS * wide : 1;
    int whole = 1;
    q->route.expert = (uint32_t *)lt_alloc_lines(choices * sizeof(uint32_t));
    q->route.weight = (float *)lt_alloc_lines(choices * sizeof(float));
    q->route.start = (uint32_t *)lt_alloc_lines((shape->experts + 1) * sizeof(uint32_t));
    q->route.token = (uint32_t *)lt_alloc_lines(choices * sizeof(uint32_t));
    q->route.place = (uint32_t *)lt_alloc_lines(choices * sizeof(uint32_t));
    q->activated = lt_alloc_lines(choices * shape->inter * qmoe_real_size(q));
    q->projected = (float *)lt_alloc_lines(choices * shape->hidden * sizeof(float));
    q->scratch = (struct qmoe_scratch *)lt_alloc_lines(threads * sizeof *q->scratch);
    for (i = 0; q->scratch != NULL && i < threads; i++) {
        struct qmoe_scratch *scratch = &q->scratch[i];
        scratch->rows = (float *)lt_alloc_lines(4 * wide * sizeof(float));
        scratch->tokens = (float *)lt_alloc_lines(in_floats * sizeof(float));
        scratch->logits = (float *)lt_alloc_lines((shape->experts + shape->top_k + 8) * sizeof(float));
        whole = whole && scratch->rows != NULL && scratch->tokens != NULL && scratch->logits != NULL;
    }
    return whole && q->route.expert != NULL && q->route.weight != NULL && q->route.start != NULL &&
           q->route.token != NULL && q->route.place != NULL && q->activated != NULL && q->projected != NULL &&
           q->scratch != NULL;
}

static void *setup(struct lt_team *team) {
    struct qmoe *q = (struct qmoe *)lt_alloc_lines(sizeof *q);
    if (q == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    q->steps = (uint32_t)lt_team_param(team, "steps");
    q->ops = qmoe_choose_ops();
    if (!qmoe_shape_read(team, &q->shape)) {
        return q;
    }
    q->data = qmoe_data_map(team, &q->shape);
    if (q->data != NULL && !allocate(q, lt_team_size(team))) {
        lt_error(team, "no memory for %u tokens of width %u", q->shape.tokens, q->shape.hidden);
    }
    return q;
}

static void route(struct qmoe *q, struct qmoe_scratch *s, uint32_t token) {
    uint32_t experts = q->shape.experts, top_k = q->shape.top_k;
    uint32_t *expert = q->route.expert + (size_t)token * top_k;
    float *weight = q->route.weight + (size_t)token * top_k;
    const float *logits = qmoe_row(q, qmoe_array(q, AT_LOGITS), (size_t)token * experts, experts, s->logits);
    qmoe_choose(expert, weight, top_k, logits, experts);
    qmoe_softmax(weight, top_k, s->logits + experts, q->ops);
}

/* This thread's share of one product: of all chunks of all experts every n-th. A beat a chunk. */
static void multiply(struct lt_team *team, struct qmoe *q, uint32_t index, int first) {
    uint32_t rows = first ? 2 * q->shape.inter : q->shape.hidden, columns = first ? q->shape.hidden : q->shape.inter;
    uint32_t chunks = (rows + QMOE_CHUNK - 1) / QMOE_CHUNK, items = chunks * q->shape.experts, item;
    struct qmoe_task task = {.columns = columns};
    for (item = index; item < items; item += lt_team_size(team)) {
        uint32_t expert = item / chunks, end = q->route.start[expert + 1];
        qmoe_find(q, &task, first ? AT_W1 : AT_W2, expert, rows);
        task.first = item % chunks * QMOE_CHUNK;
        task.last = task.first + QMOE_CHUNK < rows ? task.first + QMOE_CHUNK : rows;
        for (task.place = q->route.start[expert]; task.place < end; task.place += task.count) {
            task.count = end - task.place < QMOE_TOKENS ? end - task.place : QMOE_TOKENS;
            (first ? qmoe_activate : qmoe_project)(q, &q->scratch[index], &task);
        }
        lt_beat();
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct qmoe *q = (struct qmoe *)state;
    struct qmoe_scratch *scratch = &q->scratch[index];
    uint32_t threads = lt_team_size(team), step, token;
    for (step = 1; step <= q->steps; step++) {
        for (token = index; token < q->shape.tokens; token += threads) {
            route(q, scratch, token);
        }
        lt_beat();
        lt_team_wait(team, index, SITE_ROUTED);
        if (index == 0) {
            qmoe_group(&q->route, &q->shape);
        }
        lt_beat();
        lt_team_wait(team, index, SITE_GROUPED);
        multiply(team, q, index, 1);
        lt_team_wait(team, index, SITE_ACTIVATED);
        multiply(team, q, index, 0);
        lt_team_wait(team, index, SITE_PROJECTED);
        for (token = index; token < q->shape.tokens; token += threads) {
            qmoe_check(team, q, scratch, token, step);
        }
        lt_beat();
        lt_team_wait(team, index, SITE_SUMMED); /* only now may the next step's routes take the place of these */
    }
}

const struct lt_kernel lt_kernel_qmoe = {
    .name = "qmoe",
    .summary = "a quantised mixture of experts, a wait after each phase; fp16 by " QMOE_HALF_BY,
    .uses_technique = 1,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
