/*
 * nested_pool_section.h: parallel sections on the pool: loops whose items are shared out.
 *
 * The thread that leads a section offers tasks to the workers, takes items itself until none is left, takes back what
 * nobody has started, and spins until what was started has finished. If it wants more than one task it offers a single
 * one, the dispatcher, which offers the others from a worker: then the leader need not wake them all. So tasks of a
 * section may be offered at any time until its end, on behalf of a leader that is busy with something else: with
 * another section, for example, inside an item of this one.
 *
 * `finished < offered - revoked` is what the leader spins on. A task that another section takes back is counted there;
 * here it is one that never finishes, and the wait has no end. A section that takes back more than it offered waits for
 * a number just below 2^32.
 */
#ifndef NESTED_POOL_SECTION_H
#define NESTED_POOL_SECTION_H
#include "nested_pool_guard.h"

#define SPINS_BEFORE_YIELD 1000u

enum { SITE_FINISHED = 1, SITE_SECTION };

/* One item of a loop; of a loop within an item, `outer` is that item. */
typedef void (*pool_body)(struct pool_self *self, void *state, uint32_t outer, uint32_t item);

struct pool_section {
    pool_body body;
    void *state;
    uint32_t outer, items;
    uint32_t next; /* item that nobody has taken yet */
    uint32_t threads;
    uint64_t tag;
    uint32_t users; /* its leader and its tasks: the last one frees it */
    uint32_t dispatching, dispatch_started, dispatch_done;
    struct pool_place dispatcher;
    uint32_t finished;
    uint32_t offered, revoked;
    struct pool_place places[]; /* of the tasks offered */
};

static inline void pool_leave(struct pool_section *section) {
    if (__atomic_sub_fetch(&section->users, 1, __ATOMIC_ACQ_REL) == 0) {
        free(section);
    }
}

/* Takes items until none is left. */
static inline void pool_share(struct pool_self *self, struct pool_section *section) {
    uint32_t item;
    while ((item = __atomic_fetch_add(&section->next, 1, __ATOMIC_RELAXED)) < section->items) {
        section->body(self, section->state, section->outer, item);
    }
}

static inline void pool_run_task(struct pool_self *self, struct pool_section *section) {
    pool_share(self, section);
    __atomic_fetch_add(&section->finished, 1, __ATOMIC_RELEASE);
    pool_leave(section);
}

/* Offers a task to a worker, and wakes another one too if that one has more to do already. Returns 0: no room. */
static inline int pool_offer(struct pool_self *self, struct pool_section *section,
                             void (*run)(struct pool_self *, struct pool_section *), struct pool_place *place) {
    struct pool *pool = self->pool;
    struct pool_task task = {run, section, section->tag};
    uint32_t waiting;
    place->queue = pool_random(self, pool->workers);
    __atomic_fetch_add(&section->users, 1, __ATOMIC_RELAXED);
    waiting = pool_push(&pool->queues[place->queue], task, &place->slot);
    if (waiting > 1) {
        pool_nudge(&pool->queues[pool_random(self, pool->workers)]);
    } else if (waiting == 0) {
        pool_leave(section);
    }
    return waiting > 0;
}

static inline void pool_offer_others(struct pool_self *self, struct pool_section *section, uint32_t others) {
    for (; others > 0; others--) {
        section->offered += (uint32_t)pool_offer(self, section, pool_run_task, &section->places[section->offered]);
    }
}

static inline void pool_dispatch(struct pool_self *self, struct pool_section *section) {
    __atomic_store_n(&section->dispatch_started, 1, __ATOMIC_RELEASE);
    pool_offer_others(self, section, section->threads - 2);
    __atomic_store_n(&section->dispatch_done, 1, __ATOMIC_RELEASE);
    pool_run_task(self, section);
}

static inline uint32_t pool_take_back(struct pool *pool, const struct pool_section *section, struct pool_place place) {
    struct pool_task task = pool_revoke(&pool->queues[place.queue], place.slot, section->tag);
    if (task.run == NULL) {
        return 0;
    }
    pool_leave(task.section);
    return 1;
}

/* Not inlined, so that a hang has a place with a name. */
__attribute__((noinline)) static void pool_await(const uint32_t *count, uint32_t enough) {
    uint32_t spins = 0;
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < enough) {
        if (++spins < SPINS_BEFORE_YIELD) {
            lt_pause();
        } else {
            sched_yield();
        }
    }
}

/* Takes the dispatcher back, or waits until it has offered all. In its place may lie a task that it offered itself. */
static inline void pool_end_dispatch(struct pool *pool, struct pool_section *section) {
    if (section->dispatching && pool_take_back(pool, section, section->dispatcher)) {
        if (__atomic_load_n(&section->dispatch_started, __ATOMIC_ACQUIRE) == 0) {
            section->dispatching = 0;
        } else {
            section->revoked++;
        }
    }
    pool_await(&section->dispatch_done, section->dispatching);
}

static inline void pool_end(struct pool *pool, struct pool_section *section) {
    uint32_t i;
    lt_wait_begin(SITE_FINISHED, LT_WAIT_SPIN);
    pool_end_dispatch(pool, section);
    for (i = section->offered; i > 0; i--) {
        section->revoked += pool_take_back(pool, section, section->places[i - 1]);
    }
    pool_await(&section->finished, section->offered + section->dispatching - section->revoked);
    lt_wait_end();
}

/* NULL: out of memory. */
static inline struct pool_section *pool_section_new(struct pool_self *self, uint32_t threads) {
    size_t bytes = sizeof(struct pool_section) + threads * sizeof(struct pool_place);
    struct pool_section *section = (struct pool_section *)calloc(1, bytes);
    if (section != NULL) {
        section->threads = threads;
        section->users = 1;
        if (self->pool->nesting == NESTING_THREAD_TAG) {
            section->tag = self->tag; /* BUG: the tag of every section that this thread leads, at the same time too */
        } else {
            section->tag = __atomic_add_fetch(&self->pool->tags, 1, __ATOMIC_RELAXED);
        }
    }
    return section;
}

static inline void pool_lead(struct pool_self *self, struct pool_section *section) {
    if (section->threads > 2) {
        section->dispatching = (uint32_t)pool_offer(self, section, pool_dispatch, &section->dispatcher);
    } else {
        pool_offer_others(self, section, 1);
    }
    pool_share(self, section);
    pool_end(self->pool, section);
}

/* Runs all items, on as many threads as are of use, and beats. */
static inline void pool_loop(struct pool_self *self, pool_body body, void *state, uint32_t outer, uint32_t items) {
    struct pool *pool = self->pool;
    uint32_t threads = items <= pool->workers ? items : pool->workers + 1, item;
    struct pool_section *section = threads > 1 ? pool_section_new(self, threads) : NULL;
    for (item = 0; section == NULL && item < items; item++) {
        body(self, state, outer, item);
    }
    if (section != NULL) {
        section->body = body;
        section->state = state;
        section->outer = outer;
        section->items = items;
        pool_guard_enter(pool, SITE_SECTION); /* BUG: held while items run, and an item may be a loop itself */
        pool_lead(self, section);
        pool_guard_leave(pool);
        pool_leave(section);
    }
    lt_beat();
}

#endif
