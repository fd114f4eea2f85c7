/*
 * park_store_buffer_sleep.h: how a worker sleeps, and is woken. Nothing is wrong with it: a wake-up that comes before
 * the sleep is not lost, it leaves a permit, and one too many only makes the worker look again.
 */
#ifndef LIVETRAP_PARK_STORE_BUFFER_SLEEP_H
#define LIVETRAP_PARK_STORE_BUFFER_SLEEP_H
#include <time.h>

struct sleeper {
    pthread_mutex_t lock; /* guards permit */
    pthread_cond_t woken;
    int permit;
};

static void sleeper_init(struct sleeper *sleeper) {
    pthread_mutex_init(&sleeper->lock, NULL);
    pthread_cond_init(&sleeper->woken, NULL);
}

static void sleeper_destroy(struct sleeper *sleeper) {
    pthread_cond_destroy(&sleeper->woken);
    pthread_mutex_destroy(&sleeper->lock);
}

static struct timespec from_now(uint32_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(ms % 1000u) * 1000000L;
    until.tv_sec += (time_t)(ms / 1000u) + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

/* Sleeps until it is woken, but no longer than `ms`, unless that is 0. */
static void sleeper_sleep(struct sleeper *sleeper, uint32_t ms) {
    struct timespec until = from_now(ms);
    lt_parked();
    pthread_mutex_lock(&sleeper->lock);
    while (!sleeper->permit) {
        if (ms == 0) {
            pthread_cond_wait(&sleeper->woken, &sleeper->lock);
        } else if (pthread_cond_timedwait(&sleeper->woken, &sleeper->lock, &until) != 0) {
            break;
        }
    }
    sleeper->permit = 0;
    pthread_mutex_unlock(&sleeper->lock);
    lt_run();
}

static void sleeper_wake(struct sleeper *sleeper) {
    pthread_mutex_lock(&sleeper->lock);
    sleeper->permit = 1;
    pthread_cond_signal(&sleeper->woken);
    pthread_mutex_unlock(&sleeper->lock);
}

#endif
