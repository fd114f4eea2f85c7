/*
 * nested_pool_queue.h: a worker's queue of tasks, where tasks can be taken back by where they lie.
 *
 * Others push at the back; the worker itself takes from the front, thieves from the back. Whoever pushed a task may
 * take it back while it waits: `pool_revoke` finds it by its place (a queue, a slot of it) and by its tag. The tag is
 * there since places are used again: a theft moves the back of the queue to the slot just emptied, so that the next
 * push lands in the very same place. Each queue is under a lock of its own, and correct in itself; what can go wrong is
 * that two tasks which lie in one place, one after the other, have the same tag.
 */
#ifndef NESTED_POOL_QUEUE_H
#define NESTED_POOL_QUEUE_H
#include <livetrap.h>

#define POOL_SLOTS 256u /* a power of two */

struct pool_self;
struct pool_section;

struct pool_task {
    void (*run)(struct pool_self *self, struct pool_section *section); /* NULL: no task */
    struct pool_section *section;
    uint64_t tag;
};

struct pool_queue {
    pthread_mutex_t lock; /* guards all of it */
    pthread_cond_t woken;
    uint32_t nudged;      /* its worker is to look round, whether or not there is a task of its own */
    uint32_t front, back; /* back <= places with tasks < front, modulo 2^32 */
    struct pool_task tasks[POOL_SLOTS];
} __attribute__((aligned(LT_LINE)));

struct pool_place {
    uint32_t queue, slot;
};

static inline void pool_queue_init(struct pool_queue *queue) {
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->woken, NULL);
}

static inline void pool_queue_destroy(struct pool_queue *queue) {
    pthread_cond_destroy(&queue->woken);
    pthread_mutex_destroy(&queue->lock);
}

/* Has the queue's worker look round. */
static inline void pool_nudge(struct pool_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->nudged = 1;
    pthread_cond_signal(&queue->woken);
    pthread_mutex_unlock(&queue->lock);
}

/* Returns how many tasks wait then, and where this one lies; 0: no room. */
static inline uint32_t pool_push(struct pool_queue *queue, struct pool_task task, uint32_t *slot) {
    uint32_t waiting;
    pthread_mutex_lock(&queue->lock);
    waiting = queue->front - queue->back;
    if (waiting < POOL_SLOTS) {
        *slot = --queue->back % POOL_SLOTS;
        queue->tasks[*slot] = task;
        pthread_cond_signal(&queue->woken);
    }
    pthread_mutex_unlock(&queue->lock);
    return waiting < POOL_SLOTS ? waiting + 1 : 0;
}

/* Leaves no task in the slot, and returns what was there. */
static inline struct pool_task pool_empty_slot(struct pool_queue *queue, uint32_t slot) {
    static const struct pool_task none;
    struct pool_task task = queue->tasks[slot];
    queue->tasks[slot] = none;
    return task;
}

/* For the worker itself: the task at the front. */
static inline struct pool_task pool_take(struct pool_queue *queue) {
    struct pool_task task = {NULL, NULL, 0};
    pthread_mutex_lock(&queue->lock);
    while (task.run == NULL && queue->front != queue->back) {
        task = pool_empty_slot(queue, --queue->front % POOL_SLOTS);
    }
    pthread_mutex_unlock(&queue->lock);
    return task;
}

/* For another: the task at the back. The next push will fill its slot again. */
static inline struct pool_task pool_steal(struct pool_queue *queue) {
    struct pool_task task = {NULL, NULL, 0};
    pthread_mutex_lock(&queue->lock);
    while (task.run == NULL && queue->front != queue->back) {
        task = pool_empty_slot(queue, queue->back++ % POOL_SLOTS);
    }
    pthread_mutex_unlock(&queue->lock);
    return task;
}

/* Takes a task back that has not been taken; its `run` is NULL where none with that tag lies in that slot. */
static inline struct pool_task pool_revoke(struct pool_queue *queue, uint32_t slot, uint64_t tag) {
    struct pool_task task = {NULL, NULL, 0};
    pthread_mutex_lock(&queue->lock);
    if (queue->tasks[slot].run != NULL && queue->tasks[slot].tag == tag) {
        task = pool_empty_slot(queue, slot);
        if (slot == queue->back % POOL_SLOTS) {
            queue->back++;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return task;
}

#endif
