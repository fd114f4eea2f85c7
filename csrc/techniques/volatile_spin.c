/*
 * volatile_spin: raw_spin with a volatile variable.
 *
 * Does not hang: a volatile variable is read at each step. It orders nothing by itself, on the compiler's side or on
 * the CPU's, so that without the two fences what was written before the barrier could be missed after it, on arm64
 * above all. In C11 it is still a data race; relaxed_spin says the same in the language's own terms. It burns its CPU,
 * and where threads share one, a waiter spends its whole time slice before the thread that it waits for gets on.
 *
 * Source: mariadb-corporation/MaxScale#123 (the bug that it is a cure for).
 */
#include "arrival.h"

__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    volatile uint32_t spins = 0;
    while (*(const volatile uint32_t *)generation == seen) {
        spins++;
    }
}

__attribute__((noinline)) static void publish(uint32_t *generation, uint32_t next) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *(volatile uint32_t *)generation = next;
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

const struct lt_technique lt_technique_volatile_spin = {
    .name = "volatile_spin",
    .summary = "spins on a volatile variable, with fences",
    .kind = LT_WAIT_SPIN,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
