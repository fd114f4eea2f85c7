/*
 * team_size_change_phase.h: a phase: how it is published, how workers see it, and what it does.
 *
 * `publish` and `look` are the two sides of the bug: a number and a size that belong together, in two words or in one.
 * The leader publishes under the lock, so that a worker that sleeps, and looks under the lock, sees whole phases only;
 * one that polls takes no lock.
 */
#ifndef TEAM_SIZE_CHANGE_PHASE_H
#define TEAM_SIZE_CHANGE_PHASE_H
#include <livetrap.h>
#include <sched.h>

#define LOOKS_BEFORE_YIELD 200u

enum { SITE_STEP = 1, SITE_SERIAL };
enum serial { SERIAL_COMPUTE, SERIAL_SLEEP };
enum words { WORDS_NUMBER_FIRST, WORDS_SIZE_FIRST, WORDS_PACKED };

struct phase {
    uint32_t number, size; /* from 1; how many threads take part, from thread 0 on */
};

/* What a worker knows of phases: the last that it saw. */
struct worker {
    uint32_t seen, size;
};

struct share {
    uint64_t done;     /* steps; relaxed, as the barrier has to bring the order */
    uint64_t expected; /* the leader's */
} __attribute__((aligned(LT_LINE)));

struct pool {
    enum words words;
    enum serial serial;
    uint32_t threads, phases, steps, polls;
    uint64_t serial_us, delay_us;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    uint32_t stop;
    uint32_t number __attribute__((aligned(LT_LINE)));
    uint32_t size __attribute__((aligned(LT_LINE)));
    uint64_t packed __attribute__((aligned(LT_LINE))); /* number in the upper half, size in the lower */
    uint32_t arrived __attribute__((aligned(LT_LINE)));
    uint32_t generation __attribute__((aligned(LT_LINE)));
    struct share shares[];
};

static inline void relax(uint32_t looks) {
    if (looks % LOOKS_BEFORE_YIELD != LOOKS_BEFORE_YIELD - 1) {
        lt_pause();
    } else {
        sched_yield();
    }
}

static inline void hold_up(const struct pool *pool) {
    if (pool->delay_us > 0) {
        lt_sleep_us(pool->delay_us);
    }
}

static inline void publish(struct pool *pool, uint32_t number, uint32_t size) {
    pthread_mutex_lock(&pool->lock);
    __atomic_store_n(&pool->arrived, 0, __ATOMIC_RELAXED); /* a phase begins with a barrier that nobody has reached */
    if (pool->words == WORDS_PACKED) {
        __atomic_store_n(&pool->packed, (uint64_t)number << 32 | size, __ATOMIC_RELEASE);
    } else if (pool->words == WORDS_SIZE_FIRST) {
        __atomic_store_n(&pool->size, size, __ATOMIC_RELEASE); /* BUG: one may read this beside the number before */
        __atomic_store_n(&pool->number, number, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&pool->number, number, __ATOMIC_RELEASE); /* BUG: one may read the size before beside this */
        hold_up(pool);
        __atomic_store_n(&pool->size, size, __ATOMIC_RELEASE);
    }
    pthread_cond_broadcast(&pool->woken);
    pthread_mutex_unlock(&pool->lock);
}

/* The phase that is published; only its number where that is the one `seen` already. */
static inline struct phase look(const struct pool *pool, uint32_t seen) {
    struct phase phase = {0, 0};
    if (pool->words == WORDS_PACKED) {
        uint64_t packed = __atomic_load_n(&pool->packed, __ATOMIC_ACQUIRE);
        phase.number = (uint32_t)(packed >> 32);
        phase.size = (uint32_t)packed;
        return phase;
    }
    phase.number = __atomic_load_n(&pool->number, __ATOMIC_ACQUIRE);
    if (phase.number != seen) {
        if (pool->words == WORDS_SIZE_FIRST && phase.number % 2 == 1) {
            hold_up(pool); /* after the number of a phase on one thread, which does not wait for this one */
        }
        phase.size = __atomic_load_n(&pool->size, __ATOMIC_ACQUIRE); /* BUG: of this phase, or of another one */
    }
    return phase;
}

static inline void stop(struct pool *pool) {
    pthread_mutex_lock(&pool->lock);
    __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&pool->woken);
    pthread_mutex_unlock(&pool->lock);
}

/* Not inlined, so that a hang has a place with a name. */
__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    uint32_t looks = 0;
    while (__atomic_load_n(generation, __ATOMIC_ACQUIRE) == seen) {
        relax(looks++);
    }
}

static inline void wait_for_all(struct pool *pool, uint32_t size) {
    uint32_t seen = __atomic_load_n(&pool->generation, __ATOMIC_RELAXED);
    if (size == 1) {
        return;
    }
    lt_wait_begin(SITE_STEP, LT_WAIT_SPIN);
    if (__atomic_add_fetch(&pool->arrived, 1, __ATOMIC_ACQ_REL) == size) {
        __atomic_store_n(&pool->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&pool->generation, seen + 1, __ATOMIC_RELEASE);
    } else {
        spin_until(&pool->generation, seen);
    }
    lt_wait_end();
}

/* A thread's part in a phase. */
static inline void work(struct pool *pool, uint32_t index, uint32_t size) {
    uint32_t step;
    for (step = 0; step < pool->steps; step++) {
        uint64_t done = __atomic_load_n(&pool->shares[index].done, __ATOMIC_RELAXED);
        __atomic_store_n(&pool->shares[index].done, done + 1, __ATOMIC_RELAXED);
        wait_for_all(pool, size);
    }
}

#endif
