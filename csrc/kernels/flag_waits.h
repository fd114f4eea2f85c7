/*
 * flag_waits.h: the ways in which flag_handoff waits for its flag: four kinds of flag, six bodies of the loop.
 *
 * Each is a function of its own that gets the flag's address, and is never inlined, so that a compiler makes of it what
 * it makes of a wait in a library. What they make of the *plain* flag, which they may read once for all:
 *
 *     body               -O0      gcc -O1 and up    clang 14 -O1    clang 14 -O2, -O3; clang 22
 *     empty              waits    for ever          for ever        not at all: the loop is deleted
 *     volatile_counter   waits    for ever          for ever        for ever
 *     plain_counter      waits    for ever          for ever        not at all: the loop is deleted
 *     pause, yield       waits    waits             waits           waits
 *     getter             waits    waits             waits           waits
 *     getter, -flto      waits    for ever          for ever        for ever
 *
 * (C11 lets a compiler assume that a loop ends when its condition is no constant and its body has no side effect.)
 * `getter` steps a volatile counter as well, but reads the flag through a function of flag_handoff.getter.c.
 * A volatile, relaxed or acquire flag is read at each step, whatever the body.
 */
#ifndef LIVETRAP_FLAG_WAITS_H
#define LIVETRAP_FLAG_WAITS_H
#include <livetrap.h>
#include <sched.h>

#include "flag_reads.h"

enum flag_body { BODY_EMPTY, BODY_VOLATILE_COUNTER, BODY_PLAIN_COUNTER, BODY_PAUSE, BODY_YIELD, BODY_GETTER,
                 FLAG_BODIES };
#define BODY_CHOICES "empty|volatile_counter|plain_counter|pause|yield|getter"

#define FLAG_WAIT(kind, READ, body, counter, step)                                       \
    __attribute__((noinline)) static void wait_##kind##_##body(const uint32_t *flag) {   \
        counter;                                                                         \
        while (READ(flag) == 0) {                                                        \
            step;                                                                        \
        }                                                                                \
    }

#define FLAG_WAITS(kind, READ)                                                \
    FLAG_WAIT(kind, READ, empty, , )                                          \
    FLAG_WAIT(kind, READ, volatile_counter, volatile uint32_t n = 0, n++)     \
    FLAG_WAIT(kind, READ, plain_counter, LT_UNUSED uint32_t n = 0, n++)       \
    FLAG_WAIT(kind, READ, pause, , lt_pause())                                \
    FLAG_WAIT(kind, READ, yield, , sched_yield())                             \
    FLAG_WAIT(kind, flag_handoff_get_##kind, getter, volatile uint32_t n = 0, n++)

FLAG_WAITS(plain, READ_PLAIN)
FLAG_WAITS(volatile, READ_VOLATILE)
FLAG_WAITS(relaxed, READ_RELAXED)
FLAG_WAITS(acquire, READ_ACQUIRE)

#define FLAG_ROW(kind)                                                                       \
    { wait_##kind##_empty, wait_##kind##_volatile_counter, wait_##kind##_plain_counter,      \
      wait_##kind##_pause, wait_##kind##_yield, wait_##kind##_getter }

static void (*const flag_waits[FLAG_KINDS][FLAG_BODIES])(const uint32_t *) = {
    FLAG_ROW(plain), FLAG_ROW(volatile), FLAG_ROW(relaxed), FLAG_ROW(acquire)};

#endif
