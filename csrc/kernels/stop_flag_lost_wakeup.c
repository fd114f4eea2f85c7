/*
 * stop_flag_lost_wakeup: a pool is started, given some jobs and stopped, again and again; once, a worker sleeps on.
 *
 * A worker looks under the mutex whether there is a job, and whether it is to stop, and if neither, sleeps in a
 * condition variable. Look and sleep are one step only for those who hold the mutex. What `stop` makes of it:
 *
 *     unlocked  hangs    the flag is set, and all are notified, without the mutex. Where that falls between a worker's
 *                        look and its sleep, it has seen no flag and hears no notification: nobody is asleep yet. It
 *                        sleeps for ever, and whoever stops the pool joins it for ever
 *     seq_cst   hangs    the same with the strongest order there is: the gap is one of time, not of order
 *     locked    passes   the flag is set under the mutex: before the look, or after the worker has gone to sleep
 *
 * With `wait` timed the worker looks again after a while. The wake-up is lost as often, but is only late.
 * `window_us` is a sleep in the gap; 0: none. Each round's results are checked.
 *
 * Source: babbaj/nether-pathfinder#32; wpilibsuite/allwpilib#9423.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "stop_flag_lost_wakeup_pool.h"

#include <sched.h>

#define SITE_JOBS 1u
#define SPINS_BEFORE_YIELD 200u

static const struct lt_param params[] = {
    {"stop", "how the workers are told to stop", "unlocked|seq_cst|locked", 0, 0, STOP_UNLOCKED},
    {"wait", "how a worker sleeps", "untimed|timed", 0, 0, WAIT_UNTIMED},
    {"workers", "of a pool", NULL, 1, MOST_WORKERS, 4},
    {"rounds", "how many pools, one after the other", NULL, 1, 1000000000, 5000},
    {"jobs", "most jobs for one pool", NULL, 0, 1000000, 3},
    {"window_us", "a sleep between a worker's look and its sleep, in microseconds", NULL, 0, 1000000, 0},
};

static void *setup(struct lt_team *team) {
    struct pool *pool = (struct pool *)lt_alloc_lines(sizeof *pool);
    if (pool == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    pool->how = (enum stop)lt_team_param(team, "stop");
    pool->timed = lt_team_param(team, "wait") == WAIT_TIMED;
    pool->workers = (uint32_t)lt_team_param(team, "workers");
    pool->rounds = (uint32_t)lt_team_param(team, "rounds");
    pool->jobs = (uint32_t)lt_team_param(team, "jobs");
    pool->window_us = (uint32_t)lt_team_param(team, "window_us");
    return pool;
}

static void give_and_await(struct pool *pool, uint32_t jobs) {
    uint32_t spins = 0;
    pthread_mutex_lock(&pool->lock);
    pool->queued = jobs;
    pthread_cond_broadcast(&pool->moved);
    pthread_mutex_unlock(&pool->lock);
    lt_wait_begin(SITE_JOBS, LT_WAIT_SPIN);
    while (__atomic_load_n(&pool->done, __ATOMIC_ACQUIRE) < jobs) {
        if (++spins < SPINS_BEFORE_YIELD) {
            lt_pause();
        } else {
            sched_yield();
        }
    }
    lt_wait_end();
}

/* One pool's life. */
static void run_round(struct lt_team *team, struct pool *pool, uint32_t round) {
    uint32_t jobs = round % (pool->jobs + 1), made, i;
    uint64_t expected = 0;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->moved, NULL);
    pool->queued = pool->done = pool->stopping = 0;
    pool->sum = 0;
    for (made = 0; made < pool->workers; made++) {
        if (pthread_create(&pool->threads[made], NULL, work, pool) != 0) {
            lt_error(team, "no thread for worker %u of round %u", made, round);
            break;
        }
    }
    give_and_await(pool, made > 0 ? jobs : 0);
    tell_to_stop(pool);
    lt_parked();
    for (i = 0; i < made; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    lt_run();
    for (i = 1; i <= jobs; i++) {
        expected += do_job(i);
    }
    if (pool->sum != expected && made > 0) {
        lt_wrong(team, "round %u: the sum of %u jobs is %llx, not %llx", round, jobs, (unsigned long long)pool->sum,
                 (unsigned long long)expected);
    }
    pthread_cond_destroy(&pool->moved);
    pthread_mutex_destroy(&pool->lock);
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct pool *pool = (struct pool *)state;
    uint32_t round;
    for (round = 0; index == 0 && round < pool->rounds; round++) {
        run_round(team, pool, round);
        lt_beat();
    }
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_stop_flag_lost_wakeup = {
    .name = "stop_flag_lost_wakeup",
    .summary = "a pool is started and stopped, again and again",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
