/* threads.h: what the programs beside it share. */
#ifndef THREADS_H
#define THREADS_H
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static inline pthread_t started(void *(*run)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) != 0) {
        exit(2);
    }
    return thread;
}

static inline void nap_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static inline double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
#endif
