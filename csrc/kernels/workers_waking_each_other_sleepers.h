/*
 * workers_waking_each_other_sleepers.h: who sleeps, and who is woken next: the one that has slept for longest.
 *
 * A worker that is about to sleep puts itself on a list, looks round for the last time, and sleeps until its bell is
 * rung. Who wakes it takes it off the list and rings, both under the list's lock. If it finds work in that last look,
 * it takes itself off the list again; unless somebody has done that already, to wake it. */
#ifndef WORKERS_WAKING_EACH_OTHER_SLEEPERS_H
#define WORKERS_WAKING_EACH_OTHER_SLEEPERS_H
#include <livetrap.h>

#include <sched.h>

enum books { BOOKS_BLIND, BOOKS_CHECKED, BOOKS_EXACT };
#define BOOKS_CHOICES "blind|checked|exact"

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rings;
    int rung;
} __attribute__((aligned(LT_LINE)));

struct sleepers {
    enum books books;
    uint32_t window_us;
    pthread_mutex_t lock; /* guards the list */
    uint32_t count;
    uint32_t *list; /* [count], the one that has slept for longest first */
    struct bell *bells;
};

static inline void window(const struct sleepers *sleepers) {
    if (sleepers->window_us > 0) {
        lt_sleep_us(sleepers->window_us);
    }
}

static inline void ring(struct bell *bell) {
    pthread_mutex_lock(&bell->lock);
    bell->rung = 1;
    pthread_cond_signal(&bell->rings);
    pthread_mutex_unlock(&bell->lock);
}

/* Not inlined, so that a hang has a place with a name. */
__attribute__((noinline)) static void sleep_until_rung(struct bell *bell) {
    pthread_mutex_lock(&bell->lock);
    if (bell->rung) {
        sched_yield(); /* no sleep, then; but who has the work may want this CPU */
    }
    while (!bell->rung) {
        pthread_cond_wait(&bell->rings, &bell->lock);
    }
    bell->rung = 0;
    pthread_mutex_unlock(&bell->lock);
}

static inline void announce_sleep(struct sleepers *sleepers, uint32_t me) {
    pthread_mutex_lock(&sleepers->lock);
    sleepers->list[sleepers->count++] = me;
    pthread_mutex_unlock(&sleepers->lock);
    if (sleepers->books != BOOKS_CHECKED) {
        window(sleepers);
    }
}

/* Where on the list it is; `count`: nowhere. The caller holds the lock. */
static inline uint32_t place_of(const struct sleepers *sleepers, uint32_t worker) {
    uint32_t at;
    for (at = 0; at < sleepers->count && sleepers->list[at] != worker; at++) {
    }
    return at;
}

/* The caller holds the lock, and counts. */
static inline void close_gap(struct sleepers *sleepers, uint32_t at) {
    for (; at + 1 < sleepers->count; at++) {
        sleepers->list[at] = sleepers->list[at + 1];
    }
}

/* Off the list again, and awake. 1: it was taken off meanwhile, to be woken; the ring is used up. */
static inline int withdraw_sleep(struct sleepers *sleepers, uint32_t me) {
    struct bell *bell = &sleepers->bells[me];
    uint32_t at, listed;
    int rung;
    pthread_mutex_lock(&sleepers->lock);
    at = place_of(sleepers, me);
    listed = at < sleepers->count;
    if (sleepers->books == BOOKS_BLIND) {
        listed = sleepers->count > 0; /* BUG: one less, also where a waker has taken it off, and counted, before */
    } else if (sleepers->books == BOOKS_CHECKED) {
        pthread_mutex_unlock(&sleepers->lock); /* BUG: a waker may take it off after it has looked */
        window(sleepers);
        pthread_mutex_lock(&sleepers->lock);
        at = place_of(sleepers, me);
        listed = listed && sleepers->count > 0;
    }
    close_gap(sleepers, at);
    sleepers->count -= listed;
    pthread_mutex_unlock(&sleepers->lock);
    pthread_mutex_lock(&bell->lock);
    rung = bell->rung;
    bell->rung = 0;
    pthread_mutex_unlock(&bell->lock);
    return rung;
}

/* 0: there is none on the list. */
static inline int wake_one(struct sleepers *sleepers) {
    int found;
    pthread_mutex_lock(&sleepers->lock);
    found = sleepers->count > 0;
    if (found) {
        struct bell *bell = &sleepers->bells[sleepers->list[0]];
        close_gap(sleepers, 0);
        sleepers->count--;
        ring(bell);
    }
    pthread_mutex_unlock(&sleepers->lock);
    return found;
}

/* 0: out of memory. */
static inline int sleepers_init(struct sleepers *sleepers, uint32_t workers) {
    uint32_t i;
    sleepers->list = (uint32_t *)lt_alloc_lines(workers * sizeof(uint32_t));
    sleepers->bells = (struct bell *)lt_alloc_lines(workers * sizeof(struct bell));
    if (sleepers->list == NULL || sleepers->bells == NULL) {
        return 0;
    }
    pthread_mutex_init(&sleepers->lock, NULL);
    for (i = 0; i < workers; i++) {
        pthread_mutex_init(&sleepers->bells[i].lock, NULL);
        pthread_cond_init(&sleepers->bells[i].rings, NULL);
    }
    return 1;
}

#endif
