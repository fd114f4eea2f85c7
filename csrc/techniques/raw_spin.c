/*
 * raw_spin: waits in a loop that reads a plain variable.
 *
 * Hangs wherever the compiler optimises (-O1 and up): a plain variable may be assumed not to change under a thread's
 * feet, so gcc and clang both read it once, before the loop, and what is left is a loop with no way out: every waiter
 * spins for ever, but for those that come after the release. At -O0 each step reads it again, and the barrier works.
 * The loop's body steps a volatile counter, as real ones count their spins; without it, clang may assume that the loop
 * ends, and delete it. The fences see to it that nothing else is wrong: order is never the reason here. Fixed twin:
 * volatile_spin or relaxed_spin, which differ in the marked lines only.
 *
 * Source: mariadb-corporation/MaxScale#123; across files, with link-time optimisation: OpenDataPlane/odp#986.
 */
#include "arrival.h"

__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    volatile uint32_t spins = 0;
    while (*generation == seen) { /* BUG: a plain read, which the compiler makes once for all */
        spins++;
    }
}

__attribute__((noinline)) static void publish(uint32_t *generation, uint32_t next) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *generation = next; /* BUG: a plain write */
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

const struct lt_technique lt_technique_raw_spin = {
    .name = "raw_spin",
    .summary = "BUGGY: spins on a plain variable; hangs at -O1 and up",
    .kind = LT_WAIT_SPIN,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
