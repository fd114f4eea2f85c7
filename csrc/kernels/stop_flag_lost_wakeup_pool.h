/*
 * stop_flag_lost_wakeup_pool.h: the pool: what a worker does, how it goes to sleep, and how it is told to stop.
 */
#ifndef STOP_FLAG_LOST_WAKEUP_POOL_H
#define STOP_FLAG_LOST_WAKEUP_POOL_H
#include <livetrap.h>

#include <time.h>

#define MOST_WORKERS 8
#define TIMED_NS 10000000L /* how long a timed sleep lasts at most */

enum stop { STOP_UNLOCKED, STOP_SEQ_CST, STOP_LOCKED };
enum { WAIT_UNTIMED, WAIT_TIMED };

struct pool {
    enum stop how;
    int timed;
    uint32_t workers, rounds, jobs, window_us;
    pthread_t threads[MOST_WORKERS];
    pthread_mutex_t lock; /* guards the jobs queued; held from a worker's look to its sleep */
    pthread_cond_t moved;
    uint32_t queued;
    uint64_t sum __attribute__((aligned(LT_LINE))); /* of the results of jobs ... */
    uint32_t done;                                  /* ... and how many those are */
    uint32_t stopping __attribute__((aligned(LT_LINE)));
};

static inline uint64_t do_job(uint32_t job) {
    uint64_t value = job;
    int i;
    for (i = 0; i < 100; i++) {
        value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    return value;
}

static inline int is_stopping(const struct pool *pool) {
    if (pool->how == STOP_SEQ_CST) {
        return __atomic_load_n(&pool->stopping, __ATOMIC_SEQ_CST) != 0;
    }
    return __atomic_load_n(&pool->stopping, __ATOMIC_RELAXED) != 0;
}

/* The worker holds the lock, and has seen neither a job nor the flag. Not inlined, so that a hang has a place. */
__attribute__((noinline)) static void go_to_sleep(struct pool *pool) {
    lt_parked();
    if (pool->window_us > 0) {
        lt_sleep_us(pool->window_us);
    }
    if (pool->timed) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += until.tv_nsec + TIMED_NS >= 1000000000L;
        until.tv_nsec = (until.tv_nsec + TIMED_NS) % 1000000000L;
        pthread_cond_timedwait(&pool->moved, &pool->lock, &until);
    } else {
        pthread_cond_wait(&pool->moved, &pool->lock);
    }
    lt_run();
}

static inline void *work(void *at) {
    struct pool *pool = (struct pool *)at;
    lt_run();
    pthread_mutex_lock(&pool->lock);
    while (pool->queued > 0 || !is_stopping(pool)) {
        if (pool->queued > 0) {
            uint32_t job = pool->queued--;
            pthread_mutex_unlock(&pool->lock);
            __atomic_fetch_add(&pool->sum, do_job(job), __ATOMIC_RELAXED);
            __atomic_fetch_add(&pool->done, 1, __ATOMIC_RELEASE);
            pthread_mutex_lock(&pool->lock);
        } else {
            go_to_sleep(pool);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static inline void tell_to_stop(struct pool *pool) {
    if (pool->how == STOP_UNLOCKED) {
        __atomic_store_n(&pool->stopping, 1, __ATOMIC_RELAXED); /* BUG: between a worker's look and its sleep, too */
    } else if (pool->how == STOP_SEQ_CST) {
        __atomic_store_n(&pool->stopping, 1, __ATOMIC_SEQ_CST); /* BUG: the same, in whatever order */
    } else {
        pthread_mutex_lock(&pool->lock);
        __atomic_store_n(&pool->stopping, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_cond_broadcast(&pool->moved);
}

#endif
