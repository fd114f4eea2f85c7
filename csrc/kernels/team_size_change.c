/*
 * team_size_change: a pool runs phases, by turns on one thread and on all; idle workers poll for the next one.
 *
 * Thread 0 leads. It publishes a phase as a number and a team size. A worker that sees a new number looks at the size,
 * and takes part if it is within it; else it polls on, and after a while sleeps. A phase on one thread waits for no
 * worker, so the next one may be published while a worker is between its two looks. What `words` makes of it:
 *
 *     number_first  hangs    the number is published first: a worker sees the new number with the *old* size, 1, takes
 *                            the phase for one that it has no part in, and goes to sleep. The others wait for it. Or it
 *                            sees a phase on one thread with the size before that, and waits in a barrier by itself
 *     size_first    hangs    the right order, release and acquire: a worker sees the number of a phase on one thread
 *                            with the size of the *next* phase. It takes part in that one, finds its number to be new
 *                            again, and takes part a second time: in the barrier of a phase that is over
 *     packed        passes   number and size in one word, which is read once
 *
 * A phase has a few steps with a barrier after each, set up with the phase. `delay_us` holds up whoever is between the
 * two words: the leader with number_first, the workers with size_first. With long serial phases and endless polling,
 * the pool burns all CPUs and finishes all the same: waste, no hang. What each thread did is checked after each phase.
 *
 * Source: ggml-org/llama.cpp#17515, fixed by #17748.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "team_size_change_phase.h"

static const struct lt_param params[] = {
    {"words", "how number and size are published", "number_first|size_first|packed", 0, 0, WORDS_NUMBER_FIRST},
    {"phases", "how many phases, by turns on one thread and on all", NULL, 1, 1000000000, 20000},
    {"steps", "steps of a phase on all", NULL, 1, 1000000, 3},
    {"polls", "how often an idle worker looks before it sleeps", NULL, 0, 4000000000, 20000},
    {"serial", "what the leader does in a phase on one thread", "compute|sleep", 0, 0, SERIAL_COMPUTE},
    {"serial_us", "for how long, in microseconds", NULL, 0, 600000000, 0},
    {"delay_us", "how long one is held up between the two words", NULL, 0, 1000000, 0},
    {"most_ms", "no new phases after so many milliseconds; 0: all phases", NULL, 0, 600000, 0},
};

static void *setup(struct lt_team *team) {
    struct pool *pool = (struct pool *)lt_alloc_lines(sizeof *pool + lt_team_size(team) * sizeof pool->shares[0]);
    if (pool == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    pool->words = (enum words)lt_team_param(team, "words");
    pool->threads = lt_team_size(team);
    pool->phases = (uint32_t)lt_team_param(team, "phases");
    pool->steps = (uint32_t)lt_team_param(team, "steps");
    pool->polls = (uint32_t)lt_team_param(team, "polls");
    pool->serial = (enum serial)lt_team_param(team, "serial");
    pool->serial_us = (uint64_t)lt_team_param(team, "serial_us");
    pool->delay_us = (uint64_t)lt_team_param(team, "delay_us");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->woken, NULL);
    return pool;
}

/* A worker: whether there is a phase that it has not seen yet and that it has a part in. */
static int has_work(struct pool *pool, struct worker *self, uint32_t index) {
    struct phase phase = look(pool, self->seen);
    if (phase.number == self->seen) {
        return 0;
    }
    self->seen = phase.number;
    self->size = phase.size;
    return index < phase.size;
}

/* Polls, then sleeps, until there is work, or none any more. Returns 0 at the end. Idle: it wants nothing. */
static int await_work(struct pool *pool, struct worker *self, uint32_t index) {
    uint32_t polls, stop = 0, found = 0;
    lt_parked();
    for (polls = 0; polls < pool->polls && !stop && !found; polls++) {
        stop = __atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE);
        found = !stop && has_work(pool, self, index);
        relax(polls);
    }
    if (!stop && !found) {
        pthread_mutex_lock(&pool->lock);
        while (!(stop = pool->stop) && !(found = has_work(pool, self, index))) {
            pthread_cond_wait(&pool->woken, &pool->lock);
        }
        pthread_mutex_unlock(&pool->lock);
    }
    lt_run();
    return !stop;
}

/* The leader's own work in a phase on one thread. */
static void work_alone(const struct pool *pool) {
    if (pool->serial == SERIAL_COMPUTE) {
        lt_compute_us(pool->serial_us);
    } else {
        lt_wait_begin(SITE_SERIAL, LT_WAIT_TIMED);
        lt_sleep_us(pool->serial_us);
        lt_wait_end();
    }
}

/* Publishes the phase and takes part in it, and checks what came of it: no thread did more or less than its part. */
static void lead(struct lt_team *team, struct pool *pool, uint32_t number) {
    uint32_t size = number % 2 == 0 ? pool->threads : 1, i;
    publish(pool, number, size);
    if (size == 1 && pool->serial_us > 0) {
        work_alone(pool);
    }
    work(pool, 0, size);
    for (i = 0; i < size; i++) {
        pool->shares[i].expected += pool->steps;
    }
    for (i = 0; i < pool->threads; i++) {
        uint64_t done = __atomic_load_n(&pool->shares[i].done, __ATOMIC_RELAXED);
        if (done != pool->shares[i].expected) {
            lt_wrong(team, "after phase %u, thread %u has done %llu steps, not %llu", number, i,
                     (unsigned long long)done, (unsigned long long)pool->shares[i].expected);
        }
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct pool *pool = (struct pool *)state;
    struct worker self = {0, 0};
    uint64_t until = lt_now_ns() + (uint64_t)lt_team_param(team, "most_ms") * 1000000u;
    int bounded = lt_team_param(team, "most_ms") > 0;
    uint32_t number;
    if (index == 0) {
        for (number = 1; number <= pool->phases && !(bounded && lt_now_ns() > until); number++) {
            lead(team, pool, number);
            lt_beat();
        }
        stop(pool);
        return;
    }
    while (await_work(pool, &self, index)) {
        work(pool, index, self.size);
        lt_beat();
    }
}

static void finish(struct lt_team *team, void *state) {
    struct pool *pool = (struct pool *)state;
    (void)team;
    if (pool != NULL) {
        pthread_cond_destroy(&pool->woken);
        pthread_mutex_destroy(&pool->lock);
    }
    free(pool);
}

const struct lt_kernel lt_kernel_team_size_change = {
    .name = "team_size_change",
    .summary = "phases by turns on one thread and on all of a pool whose idle workers poll",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
