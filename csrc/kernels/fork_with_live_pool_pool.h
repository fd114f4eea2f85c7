/*
 * fork_with_live_pool_pool.h: the pool: started when it is first used, and then there for the rest of the process.
 *
 * A job is a range of numbers, shared out: the caller does one share, each worker one, and the caller spins until all
 * have done theirs. It takes it that workers that were started once are still there.
 */
#ifndef FORK_WITH_LIVE_POOL_POOL_H
#define FORK_WITH_LIVE_POOL_POOL_H
#include <livetrap.h>

#include <sched.h>

#define MOST_WORKERS 16
#define SITE_SHARES 1u
#define SITE_LOCK 2u
#define SPINS_BEFORE_YIELD 1000u

struct share {
    struct pool *pool;
    uint32_t index;
    uint64_t sum;
} __attribute__((aligned(LT_LINE)));

struct pool {
    uint32_t workers, numbers, hold_us;
    int running; /* the workers were started; used by the caller alone */
    pthread_t threads[MOST_WORKERS];
    pthread_mutex_t lock; /* guards the next two */
    pthread_cond_t given;
    uint64_t jobs; /* given so far */
    int stopping;
    uint32_t done __attribute__((aligned(LT_LINE))); /* shares of this job, of workers */
    struct share shares[MOST_WORKERS + 1];
};

/* Share `index` of `shares` of the numbers below `numbers`, each put through some arithmetic, and added up. */
static inline uint64_t sum_share(uint32_t index, uint32_t shares, uint32_t numbers) {
    uint64_t sum = 0, number;
    for (number = index; number < numbers; number += shares) {
        sum += (number * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) >> 7;
    }
    return sum;
}

static inline void do_share(struct share *share) {
    share->sum = sum_share(share->index, share->pool->workers + 1, share->pool->numbers);
}

/* Sleeps until there is another job than those seen. Returns how many there were then; 0: there will be none. */
static inline uint64_t await_job(struct pool *pool, uint64_t seen) {
    uint64_t jobs;
    pthread_mutex_lock(&pool->lock);
    lt_parked();
    if (pool->hold_us > 0) {
        lt_sleep_us(pool->hold_us);
    }
    while (pool->jobs == seen && !pool->stopping) {
        pthread_cond_wait(&pool->given, &pool->lock);
    }
    lt_run();
    jobs = pool->stopping ? 0 : pool->jobs;
    pthread_mutex_unlock(&pool->lock);
    return jobs;
}

static inline void *work(void *at) {
    struct share *share = (struct share *)at;
    struct pool *pool = share->pool;
    uint64_t seen = 0;
    while ((seen = await_job(pool, seen)) != 0) {
        do_share(share);
        __atomic_fetch_add(&pool->done, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Of a pool that has no workers, or none any more. */
static inline void pool_reset(struct pool *pool) {
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->given, NULL);
    pool->jobs = 0;
    pool->stopping = 0;
    pool->running = 0;
}

static inline void pool_stop(struct pool *pool) {
    uint32_t i;
    if (!pool->running) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->stopping = 1;
    pthread_cond_broadcast(&pool->given);
    pthread_mutex_unlock(&pool->lock);
    lt_parked();
    for (i = 0; i < pool->workers; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    lt_run();
    pool_reset(pool);
}

/* As many workers as can be had, up to those asked for. */
static inline void pool_start(struct pool *pool) {
    uint32_t made;
    for (made = 0; made < pool->workers; made++) {
        pool->shares[made + 1].pool = pool;
        pool->shares[made + 1].index = made + 1;
        if (pthread_create(&pool->threads[made], NULL, work, &pool->shares[made + 1]) != 0) {
            break;
        }
    }
    pool->workers = made;
    pool->running = 1;
}

/* Not inlined, so that a hang has a place with a name. */
__attribute__((noinline)) static void await_shares(struct pool *pool) {
    uint32_t spins = 0;
    lt_wait_begin(SITE_SHARES, LT_WAIT_SPIN);
    while (__atomic_load_n(&pool->done, __ATOMIC_ACQUIRE) < pool->workers) {
        if (++spins < SPINS_BEFORE_YIELD) {
            lt_pause();
        } else {
            sched_yield();
        }
    }
    lt_wait_end();
}

/* The sum of all shares. */
static inline uint64_t pool_sum(struct pool *pool) {
    uint64_t sum = 0;
    uint32_t i;
    if (!pool->running) {
        pool_start(pool);
    }
    pool->shares[0].pool = pool;
    __atomic_store_n(&pool->done, 0, __ATOMIC_RELAXED);
    lt_wait_begin(SITE_LOCK, LT_WAIT_UNTIMED);
    pthread_mutex_lock(&pool->lock);
    lt_wait_end();
    pool->jobs++;
    pthread_cond_broadcast(&pool->given);
    pthread_mutex_unlock(&pool->lock);
    do_share(&pool->shares[0]);
    await_shares(pool);
    for (i = 0; i <= pool->workers; i++) {
        sum += pool->shares[i].sum;
    }
    return sum;
}

#endif
