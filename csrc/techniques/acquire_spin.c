/*
 * acquire_spin: spins on an atomic variable with acquire loads, as fast as it can.
 *
 * Does not hang: each step reads the variable, and the load that sees the release also sees all that came before it. It
 * burns its CPU. With more threads than CPUs a waiter spends its whole time slice before the thread that it waits for
 * gets on: slow, by a factor of hundreds, yet no livelock. acquire_yield is the cure for that.
 *
 * Source: ggml-org/llama.cpp#13079, ggml-org/llama.cpp#29258 (a correct spin, oversubscribed).
 */
#include "arrival.h"

__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    volatile uint32_t spins = 0;
    while (__atomic_load_n(generation, __ATOMIC_ACQUIRE) == seen) {
        spins++;
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

const struct lt_technique lt_technique_acquire_spin = {
    .name = "acquire_spin",
    .summary = "spins with acquire loads; correct, and burns its CPU",
    .kind = LT_WAIT_SPIN,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
