/*
 * relaxed_spin: spins on an atomic variable with relaxed loads, and a fence once it is through.
 *
 * Does not hang: an atomic variable is read at each step, in every memory order. Relaxed loads order nothing, so the
 * acquire fence after the loop does; it is paid once, not at each step. It burns its CPU, and where threads share one,
 * a waiter spends its whole time slice before the thread that it waits for gets on.
 *
 * Source: mariadb-corporation/MaxScale#123 (the bug that it is a cure for); C11, 7.17.4 (fences).
 */
#include "arrival.h"

__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    volatile uint32_t spins = 0;
    while (__atomic_load_n(generation, __ATOMIC_RELAXED) == seen) {
        spins++;
    }
}

__attribute__((noinline)) static void publish(uint32_t *generation, uint32_t next) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(generation, next, __ATOMIC_RELAXED);
}

static void wait_for_all(void *state, uint32_t index) {
    struct lt_arrival *arrival = (struct lt_arrival *)state;
    uint32_t seen = __atomic_load_n(&arrival->generation, __ATOMIC_RELAXED);
    (void)index;
    if (lt_arrive(arrival)) {
        publish(&arrival->generation, seen + 1);
    } else {
        spin_until(&arrival->generation, seen);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
}

const struct lt_technique lt_technique_relaxed_spin = {
    .name = "relaxed_spin",
    .summary = "spins with relaxed loads, and a fence once through",
    .kind = LT_WAIT_SPIN,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
