/*
 * support.c: clock, sleep, work and memory for kernels, and what a beat costs.
 */
#include <errno.h>
#include <time.h>

#include "team.h"

#define BATCHES 20

uint64_t lt_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void lt_sleep_us(uint64_t us) {
    struct timespec left;
    left.tv_sec = (time_t)(us / 1000000u);
    left.tv_nsec = (long)(us % 1000000u) * 1000L;
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

uint64_t lt_compute_us(uint64_t us) {
    uint64_t until = lt_now_ns() + us * 1000u;
    uint64_t value = until | 1u;
    do {
        int i;
        for (i = 0; i < 512; i++) {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
        __asm__ volatile("" : "+r"(value)); /* the work is not to be thought away */
    } while (lt_now_ns() < until);
    return value;
}

void *lt_alloc_lines(size_t bytes) {
    void *at = NULL;
    size_t rounded = (bytes + LT_LINE - 1) / LT_LINE * LT_LINE;
    if (rounded < bytes || posix_memalign(&at, LT_LINE, rounded) != 0) {
        return NULL;
    }
    return memset(at, 0, rounded);
}

/* Calls of their own, so that the loop around them cannot work out the slot's address once for all beats. */
__attribute__((noinline)) static void beat_once(void) {
    lt_beat();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void do_nothing(void) { __asm__ volatile("" ::: "memory"); }

/* The fastest of some batches, as others may disturb the rest of them. */
static double cost_ns(void (*call)(void), uint64_t calls) {
    uint64_t best = UINT64_MAX;
    int batch;
    for (batch = 0; batch < BATCHES; batch++) {
        uint64_t i, took, began = lt_now_ns();
        for (i = 0; i < calls; i++) {
            call();
        }
        took = lt_now_ns() - began;
        best = took < best ? took : best;
    }
    return (double)best / (double)calls;
}

double lt_beat_cost_ns(uint64_t beats) {
    uint64_t calls = beats / BATCHES + 1;
    beat_once(); /* claims the slot */
    return cost_ns(beat_once, calls) - cost_ns(do_nothing, calls);
}
