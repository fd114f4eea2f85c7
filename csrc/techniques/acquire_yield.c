/*
 * acquire_yield: spins on an atomic variable with acquire loads, and gives the CPU away at each step.
 *
 * Does not hang: each step reads the variable, and a thread that is still missing gets the CPU even where many threads
 * share it. This is the fix to put in the place of raw_spin and of the spins that only burn. It still never sleeps, so
 * a long wait costs CPU time whenever nobody else wants it; and under SCHED_FIFO a yield reaches equal priorities
 * only.
 *
 * Source: ggml-org/llama.cpp#13079 tells what becomes of a barrier that does not yield where threads outnumber CPUs.
 */
#include <sched.h>

#include "arrival.h"

__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    while (__atomic_load_n(generation, __ATOMIC_ACQUIRE) == seen) {
        sched_yield();
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

const struct lt_technique lt_technique_acquire_yield = {
    .name = "acquire_yield",
    .summary = "spins with acquire loads and yields the CPU at each step",
    .kind = LT_WAIT_SPIN,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
