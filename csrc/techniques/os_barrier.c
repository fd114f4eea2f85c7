/*
 * os_barrier: the barrier that the system's threads library brings, arrival and all.
 *
 * Does not hang: POSIX lets a pthread_barrier_t be used for the next round at once. It is here as the yardstick. macOS
 * has none, so a mutex and a condition variable stand in for it there, and the summary says so.
 *
 * Source: POSIX.1-2017, pthread_barrier_wait.
 */
#include "../runtime/platform.h"

static void wait_for_all(void *state, uint32_t index) {
    (void)index;
    lt_os_barrier_wait(state);
}

const struct lt_technique lt_technique_os_barrier = {
    .name = "os_barrier",
    .summary = "the system's own barrier: " LT_OS_BARRIER,
    .kind = LT_WAIT_UNTIMED,
    .init = lt_os_barrier_new,
    .wait = wait_for_all,
    .destroy = lt_os_barrier_free,
};
