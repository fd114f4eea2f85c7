/*
 * nested_pool_workers.h: the pool: a queue for each worker, and what a worker does between two tasks.
 *
 * A worker takes from its own queue, else steals from another's, else sleeps in a condition variable until somebody
 * pushes to its queue or nudges it. It looks for the last time under its queue's lock, so no wake-up is lost.
 */
#ifndef NESTED_POOL_WORKERS_H
#define NESTED_POOL_WORKERS_H
#include "nested_pool_queue.h"

enum pool_nesting {
    NESTING_THREAD_TAG,
    NESTING_SECTION_TAG,
    NESTING_SERIAL,
    NESTING_MUTEX,
    NESTING_SPINLOCK,
    NESTING_RECURSIVE
};
#define NESTING_CHOICES "thread_tag|section_tag|serial|mutex|spinlock|recursive"

struct pool {
    enum pool_nesting nesting;
    int from_back;               /* workers take their own tasks from the back, as thieves do */
    uint64_t tags;               /* how many were given away */
    pthread_mutex_t one_section; /* only where `nesting` says so; and so is the next */
    uint32_t taken;
    uint32_t stop;
    uint32_t workers;
    struct pool_queue queues[];
};

/* What a thread knows of itself. */
struct pool_self {
    struct pool *pool;
    uint64_t tag;
    uint64_t random;
} __attribute__((aligned(LT_LINE)));

static inline struct pool *pool_new(uint32_t workers) {
    struct pool *pool = (struct pool *)lt_alloc_lines(sizeof *pool + workers * sizeof pool->queues[0]);
    uint32_t i;
    if (pool == NULL) {
        return NULL;
    }
    pool->workers = workers;
    for (i = 0; i < workers; i++) {
        pool_queue_init(&pool->queues[i]);
    }
    return pool;
}

static inline void pool_free(struct pool *pool) {
    uint32_t i;
    for (i = 0; pool != NULL && i < pool->workers; i++) {
        pool_queue_destroy(&pool->queues[i]);
    }
    free(pool);
}

static inline uint32_t pool_random(struct pool_self *self, uint32_t below) {
    self->random = self->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(self->random >> 33) % below;
}

/* A task of its own, else of another's; one whose `run` is NULL where there is none. */
static inline struct pool_task pool_find(struct pool_self *self, struct pool_queue *own) {
    struct pool *pool = self->pool;
    struct pool_task task = pool->from_back ? pool_steal(own) : pool_take(own);
    uint32_t start = pool_random(self, pool->workers), i;
    for (i = 0; task.run == NULL && i < pool->workers; i++) {
        task = pool_steal(&pool->queues[(start + i) % pool->workers]);
    }
    return task;
}

static inline void pool_sleep(struct pool_queue *own) {
    pthread_mutex_lock(&own->lock);
    if (own->front == own->back && !own->nudged) {
        lt_parked();
        do {
            pthread_cond_wait(&own->woken, &own->lock);
        } while (own->front == own->back && !own->nudged);
        lt_run();
    }
    own->nudged = 0;
    pthread_mutex_unlock(&own->lock);
}

/* A worker's life. */
static inline void pool_work(struct pool_self *self, uint32_t worker) {
    struct pool_queue *own = &self->pool->queues[worker];
    while (!__atomic_load_n(&self->pool->stop, __ATOMIC_ACQUIRE)) {
        struct pool_task task = pool_find(self, own);
        if (task.run != NULL) {
            task.run(self, task.section);
        } else {
            pool_sleep(own);
        }
    }
}

static inline void pool_stop(struct pool *pool) {
    uint32_t i;
    __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
    for (i = 0; i < pool->workers; i++) {
        pool_nudge(&pool->queues[i]);
    }
}

#endif
