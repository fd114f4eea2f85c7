/*
 * nested_pool: a parallel loop whose items are parallel loops themselves, on one work-stealing pool.
 *
 * A call is a loop over the experts of a layer; inside each expert, a loop over its rows. Thread 0 calls, the others
 * are the pool's workers, asleep when there is nothing to do. What `nesting` makes of the loop within the loop:
 *
 *     thread_tag    hangs    all sections that a thread leads have the thread's tag. The caller leads the outer section
 *                            and, inside an item, an inner one. A worker steals the inner one's task; the dispatcher of
 *                            the outer one then puts a task into the same place; the inner section ends, takes back
 *                            "its" task by place and tag, and takes the outer one's. The caller waits for that one for
 *                            ever, spinning, while all workers sleep: none of the queues holds anything
 *     section_tag   passes   each section has a tag of its own
 *     serial        passes   only the outer loop uses the pool
 *     mutex         hangs    one section at a time, by a plain mutex: an inner one waits for the outer one, which waits
 *                            for its items, and all sleep
 *     spinlock      hangs    the same by a spin lock: those who want it spin
 *     recursive     hangs    the same by a recursive mutex: the caller's inner sections pass, the workers' do not. They
 *                            sleep, and the caller spins until their items have finished
 *
 * The tags' bug needs an outer section with a dispatcher, hence three threads; a lock needs two. Each result is checked
 * after each call.
 *
 * Source: thread_tag: microsoft/onnxruntime#29047, fixed by #29081. mutex: nntrainer/nntrainer#4154.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "nested_pool_section.h"

struct nested {
    uint32_t calls, experts, rows, work;
    uint64_t *sums;     /* [experts * rows]: the results of all calls added up */
    uint64_t *expected; /* [experts * rows]: of one call */
    struct pool *pool;
    struct pool_self selves[];
};

static const struct lt_param params[] = {
    {"nesting", "what comes of a section within a section", NESTING_CHOICES, 0, 0, NESTING_THREAD_TAG},
    {"calls", "how many calls", NULL, 1, 1000000000, 10000},
    {"experts", "items of the outer loop", NULL, 1, 4096, 8},
    {"rows", "items of the inner loop", NULL, 1, 4096, 8},
    {"work", "steps of arithmetic for each of those", NULL, 1, 1000000000, 100},
    {"take", "which end of its own queue a worker takes from", "front|back", 0, 0, 0},
};

static uint64_t compute(uint64_t seed, uint32_t steps) {
    uint64_t value = seed + 1;
    for (; steps > 0; steps--) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    return value;
}

static void finish(struct lt_team *team, void *state) {
    struct nested *nested = (struct nested *)state;
    (void)team;
    if (nested == NULL) {
        return;
    }
    if (nested->pool != NULL) {
        pool_guard_destroy(nested->pool);
        pool_free(nested->pool);
    }
    free(nested->sums);
    free(nested->expected);
    free(nested);
}

static void *setup(struct lt_team *team) {
    uint32_t threads = lt_team_size(team), i;
    struct nested *nested = (struct nested *)lt_alloc_lines(sizeof *nested + threads * sizeof nested->selves[0]);
    size_t items;
    if (nested == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    nested->calls = (uint32_t)lt_team_param(team, "calls");
    nested->experts = (uint32_t)lt_team_param(team, "experts");
    nested->rows = (uint32_t)lt_team_param(team, "rows");
    nested->work = (uint32_t)lt_team_param(team, "work");
    items = (size_t)nested->experts * nested->rows;
    nested->sums = (uint64_t *)lt_alloc_lines(items * sizeof(uint64_t));
    nested->expected = (uint64_t *)lt_alloc_lines(items * sizeof(uint64_t));
    nested->pool = pool_new(threads - 1);
    if (nested->pool != NULL) {
        pool_guard_init(nested->pool, (enum pool_nesting)lt_team_param(team, "nesting"));
    }
    if (nested->sums == NULL || nested->expected == NULL || nested->pool == NULL) {
        lt_error(team, "no memory for %u experts of %u rows", nested->experts, nested->rows);
        return nested;
    }
    nested->pool->from_back = lt_team_param(team, "take") == 1;
    for (i = 0; i < items; i++) {
        nested->expected[i] = compute(i, nested->work);
    }
    for (i = 0; i < threads; i++) {
        nested->selves[i].pool = nested->pool;
        nested->selves[i].tag = ++nested->pool->tags;
        nested->selves[i].random = compute(lt_team_seed(team) + i, 9);
    }
    return nested;
}

static void run_row(struct pool_self *self, void *state, uint32_t expert, uint32_t row) {
    struct nested *nested = (struct nested *)state;
    uint32_t place = expert * nested->rows + row;
    (void)self;
    nested->sums[place] += compute(place, nested->work);
}

static void run_expert(struct pool_self *self, void *state, uint32_t none, uint32_t expert) {
    struct nested *nested = (struct nested *)state;
    uint32_t row;
    (void)none;
    if (nested->pool->nesting != NESTING_SERIAL) {
        pool_loop(self, run_row, nested, expert, nested->rows);
        return;
    }
    for (row = 0; row < nested->rows; row++) {
        run_row(self, nested, expert, row);
    }
}

/* After so many calls each item was computed that often, no more and no less. */
static void check(struct lt_team *team, const struct nested *nested, uint32_t calls) {
    uint32_t items = nested->experts * nested->rows, i;
    for (i = 0; i < items; i++) {
        if (nested->sums[i] != calls * nested->expected[i]) {
            lt_wrong(team, "after call %u, row %u of expert %u is %llx, not %llx", calls, i % nested->rows,
                     i / nested->rows, (unsigned long long)nested->sums[i],
                     (unsigned long long)(calls * nested->expected[i]));
        }
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct nested *nested = (struct nested *)state;
    struct pool_self *self = &nested->selves[index];
    uint32_t call;
    if (index > 0) {
        pool_work(self, index - 1);
        return;
    }
    for (call = 1; call <= nested->calls; call++) {
        pool_loop(self, run_expert, nested, 0, nested->experts);
        check(team, nested, call);
    }
    pool_stop(nested->pool);
}

const struct lt_kernel lt_kernel_nested_pool = {
    .name = "nested_pool",
    .summary = "a parallel loop within a parallel loop, on one work-stealing pool",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
