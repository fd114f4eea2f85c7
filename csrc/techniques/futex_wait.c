/*
 * futex_wait: sleeps in the kernel on the generation word itself.
 *
 * Does not hang: the kernel compares the word with the value that was seen before it lets the thread sleep, so that a
 * release which comes first is not missed, and the generation is published before anybody is woken. One word, no mutex;
 * a waiter costs no CPU time. Linux has the futex, macOS os_sync_wait_on_address from 14.4 on; elsewhere this technique
 * says that it is not available.
 *
 * Source: futex(2); Ulrich Drepper, "Futexes Are Tricky"; os_sync_wait_on_address(3).
 */
#include "../runtime/platform.h"
#include "arrival.h"

static void wait_for_all(void *state, uint32_t index) {
    struct lt_arrival *arrival = (struct lt_arrival *)state;
    uint32_t seen = __atomic_load_n(&arrival->generation, __ATOMIC_RELAXED);
    (void)index;
    if (lt_arrive(arrival)) {
        __atomic_store_n(&arrival->generation, seen + 1, __ATOMIC_RELEASE);
        lt_word_wake_all(&arrival->generation);
        return;
    }
    while (__atomic_load_n(&arrival->generation, __ATOMIC_ACQUIRE) == seen) {
        lt_word_wait(&arrival->generation, seen);
    }
}

const struct lt_technique lt_technique_futex_wait = {
    .name = "futex_wait",
    .summary = "sleeps in the kernel on the generation word",
    .kind = LT_WAIT_UNTIMED,
    .unavailable = lt_word_unavailable,
    .init = lt_arrival_new,
    .wait = wait_for_all,
    .destroy = free,
};
