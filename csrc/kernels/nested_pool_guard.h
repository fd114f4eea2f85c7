/*
 * nested_pool_guard.h: what keeps a second section off the pool while one runs, where `nesting` asks for that.
 *
 * The pool that takes one section at a time is simple, and right as long as no item of a section opens another one:
 *
 *     mutex       whoever opens a section within a section waits, asleep, for the section that waits for it
 *     spinlock    the same, awake
 *     recursive   tempting, and no better: the thread that holds the lock may pass, but its items run on other threads
 *                 too. Those sleep in the mutex until the outer section ends, and it spins until their items have
 */
#ifndef LIVETRAP_NESTED_POOL_GUARD_H
#define LIVETRAP_NESTED_POOL_GUARD_H
#include "nested_pool_workers.h"

#include <sched.h>

static inline void pool_guard_init(struct pool *pool, enum pool_nesting nesting) {
    int type = nesting == NESTING_RECURSIVE ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL;
    pthread_mutexattr_t kind;
    pool->nesting = nesting;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, type);
    pthread_mutex_init(&pool->one_section, &kind);
    pthread_mutexattr_destroy(&kind);
}

static inline void pool_guard_destroy(struct pool *pool) {
    pthread_mutex_destroy(&pool->one_section);
}

/* Not inlined, so that a hang has a place with a name. */
__attribute__((noinline)) static void pool_guard_spin(uint32_t *taken) {
    while (__atomic_exchange_n(taken, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
}

static inline void pool_guard_enter(struct pool *pool, uint64_t site) {
    if (pool->nesting == NESTING_SPINLOCK) {
        lt_wait_begin(site, LT_WAIT_SPIN);
        pool_guard_spin(&pool->taken);
        lt_wait_end();
    } else if (pool->nesting == NESTING_MUTEX || pool->nesting == NESTING_RECURSIVE) {
        lt_wait_begin(site, LT_WAIT_UNTIMED);
        pthread_mutex_lock(&pool->one_section);
        lt_wait_end();
    }
}

static inline void pool_guard_leave(struct pool *pool) {
    if (pool->nesting == NESTING_SPINLOCK) {
        __atomic_store_n(&pool->taken, 0, __ATOMIC_RELEASE);
    } else if (pool->nesting == NESTING_MUTEX || pool->nesting == NESTING_RECURSIVE) {
        pthread_mutex_unlock(&pool->one_section);
    }
}

#endif
