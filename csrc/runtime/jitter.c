/*
 * jitter: the disturbance of our own kernels: random short delays before and after each wait.
 *
 * They fall where the interleavings are made: just before a thread arrives at a wait, and just after it has left it.
 * Both lie outside the wait's mark, so that a delay is never counted as waiting. About half of the times there is no
 * delay; else the thread is busy for a random time, or, one time in eight, asleep for it, and lets go of its CPU.
 * Each thread draws from a sequence of its own, which follows from the trial's seed and the thread's place in the team.
 */
#include <sched.h>

#include "team.h"

enum { BUSY_OR_ASLEEP = 8 };

static uint64_t trial_seed;
static uint64_t strangers; /* threads that the kernel made itself and that have come by */
static __thread uint64_t thread_state; /* 0: not yet seeded */

uint32_t lt_jitter_us = 0;

/* splitmix64, Steele, Lea and Flood (2014), https://doi.org/10.1145/2660193.2660195 */
static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t next(void) { return mixed(thread_state += UINT64_C(0x9e3779b97f4a7c15)); }

void lt_jitter_prepare(uint32_t us, uint64_t seed) {
    trial_seed = seed;
    strangers = 0;
    lt_jitter_us = us;
}

void lt_jitter_seed(uint64_t place) { thread_state = mixed(mixed(trial_seed) + place) | 1u; }

static void busy_us(uint64_t us) {
    uint64_t until = lt_now_ns() + us * 1000u;
    while (lt_now_ns() < until) {
        lt_pause();
    }
}

void lt_jitter(void) {
    uint64_t drawn, us;
    if (thread_state == 0) {
        lt_jitter_seed(UINT64_C(1) << 32 | __atomic_fetch_add(&strangers, 1, __ATOMIC_RELAXED));
    }
    drawn = next();
    if ((drawn & 1u) != 0) {
        return;
    }
    us = (drawn >> 32) % lt_jitter_us + 1u;
    if ((drawn >> 1) % BUSY_OR_ASLEEP == 0) {
        lt_sleep_us(us);
    } else {
        busy_us(us);
    }
}
