/*
 * acquire_backoff: spins with acquire loads that grow rarer: first pause hints, then yields, then short sleeps.
 *
 * Does not hang: each step reads the variable. A short wait ends within the pauses, at no system call; one that lasts a
 * little longer gives the CPU away; a long one costs next to nothing, and comes to see the release late by one nap at
 * most. It polls all the same: nobody wakes it, so that from outside a hung one looks like a thread with a timer.
 *
 * Source: the usual ladder for spins that may last; ggml-org/llama.cpp#13079 is what happens without one.
 */
#include <sched.h>

#include "arrival.h"

#define PAUSE_STEPS 8u /* 1, 2, 4 ... 128 pauses */
#define YIELD_STEPS 32u
#define NAP_US 50u

__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    uint32_t step;
    for (step = 0; __atomic_load_n(generation, __ATOMIC_ACQUIRE) == seen; step++) {
        uint32_t pauses;
        if (step >= PAUSE_STEPS + YIELD_STEPS) {
            step = PAUSE_STEPS + YIELD_STEPS; /* the count must not come round to the pauses again */
            lt_sleep_us(NAP_US);
        } else if (step >= PAUSE_STEPS) {
            sched_yield();
        } else {
            for (pauses = 0; pauses < 1u << step; pauses++) {
                lt_pause();
            }
        }
    }
}

__attribute__((noinline)) static void publish(uint32_t *generation, uint32_t next) {
    __atomic_store_n(generation, next, __ATOMIC_RELEASE);
}

static void wait_for_all(void *state, uint32_t index) {
    struct lt_arrival *arrival = (struct lt_arrival *)state;
    uint32_t seen = __atomic_load_n(&arrival->generation, __ATOMIC_RELAXED);
    (void)index;
    if (lt_arrive(arrival)) {
        publish(&arrival->generation, seen + 1);
    } else {
        spin_until(&arrival->generation, seen);
    }
}

const struct lt_technique lt_technique_acquire_backoff = {
    .name = "acquire_backoff",
    .summary = "spins with acquire loads: pauses, then yields, then naps of 50 us",
    .kind = LT_WAIT_SPIN,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
