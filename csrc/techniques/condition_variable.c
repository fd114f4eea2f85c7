/*
 * condition_variable: sleeps in pthread_cond_wait until the generation moves on.
 *
 * Does not hang: the generation is written and tested under one mutex, so that no wake-up falls between a waiter's test
 * and its sleep, and the test is a loop, as a wake-up may be spurious. Arrival needs no mutex: it is the addition that
 * all techniques here share. A waiter costs no CPU time, however long it waits; a round costs the system calls of a
 * sleep and a wake-up for each thread.
 *
 * Source: what babbaj/nether-pathfinder#32 and wpilibsuite/allwpilib#9423 leave out (their lost wake-up: the flag is
 * set without the mutex).
 */
#include "arrival.h"

struct sleepers {
    struct lt_arrival *arrival;
    pthread_mutex_t lock; /* guards arrival->generation */
    pthread_cond_t moved_on;
};

static void destroy(void *state) {
    struct sleepers *sleepers = (struct sleepers *)state;
    pthread_cond_destroy(&sleepers->moved_on);
    pthread_mutex_destroy(&sleepers->lock);
    free(sleepers->arrival);
    free(sleepers);
}

static void *init(uint32_t n) {
    struct sleepers *sleepers = (struct sleepers *)lt_alloc_lines(sizeof *sleepers);
    if (sleepers == NULL) {
        return NULL;
    }
    pthread_mutex_init(&sleepers->lock, NULL);
    pthread_cond_init(&sleepers->moved_on, NULL);
    sleepers->arrival = (struct lt_arrival *)lt_arrival_new(n);
    if (sleepers->arrival == NULL) {
        destroy(sleepers);
        return NULL;
    }
    return sleepers;
}

static void wait_for_all(void *state, uint32_t index) {
    struct sleepers *sleepers = (struct sleepers *)state;
    struct lt_arrival *arrival = sleepers->arrival;
    uint32_t seen = __atomic_load_n(&arrival->generation, __ATOMIC_RELAXED);
    int last = lt_arrive(arrival);
    (void)index;
    pthread_mutex_lock(&sleepers->lock);
    if (last) {
        __atomic_store_n(&arrival->generation, seen + 1, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&sleepers->moved_on);
    }
    while (__atomic_load_n(&arrival->generation, __ATOMIC_RELAXED) == seen) {
        pthread_cond_wait(&sleepers->moved_on, &sleepers->lock);
    }
    pthread_mutex_unlock(&sleepers->lock);
}

const struct lt_technique lt_technique_condition_variable = {
    .name = "condition_variable",
    .summary = "sleeps in a condition variable",
    .kind = LT_WAIT_UNTIMED,
    .init = init,
    .wait = wait_for_all,
    .destroy = destroy,
};
