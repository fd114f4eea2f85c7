/*
 * trial.h: what the harness calls in a built module.
 *
 * Plain declarations and nothing else: cffi reads this file once the lines that start with '#' are dropped.
 * Which kernels and techniques there are comes from registry.c, which the build writes.
 */
#ifndef LIVETRAP_TRIAL_H
#define LIVETRAP_TRIAL_H
#include <stddef.h>
#include <stdint.h>

/* A kernel's parameter. Of a choice ("one|other"), the least value is 0 and the greatest its last place. */
struct lt_param_info {
    const char *name;
    const char *summary;
    const char *choices;
    int64_t least;
    int64_t most;
    int64_t fallback;
};

/* A value for a kernel's parameter; a choice is passed as its place, counted from 0. */
struct lt_argument {
    const char *name;
    int64_t value;
};

/*
 * One trial. `technique` may be NULL or "" for a kernel that uses none. `align` is how the threads leave the start
 * line: "none" (as the system wakes them), "spin" (all awake, released by one word) or "clock" (all awake, at one
 * clock time). `cpu_masks` has threads * mask_words words, bit b of word w being CPU 64 w + b; no words, or a thread's
 * words all 0: it may run anywhere. `qos` has a macOS quality-of-service class a thread, 0 for unchanged; NULL: all
 * unchanged. `jitter_us`: the disturbance of that name, 0 for none.
 */
struct lt_trial {
    const char *kernel;
    const char *technique;
    const char *align;
    uint32_t threads;
    uint64_t seed;
    const struct lt_argument *arguments;
    size_t argument_count;
    const uint64_t *cpu_masks;
    size_t mask_words;
    const int32_t *qos;
    uint32_t jitter_us;
};

/*
 * Runs one trial with the calling thread as the probe, and returns once the team has ended: 0 right, 1 wrong, 3
 * skipped, 4 error. The page is the one that LIVETRAP_PAGE names; its header has the result and a message. Without a
 * page the trial runs all the same.
 */
int lt_trial_run(const struct lt_trial *trial);

/* The same numbers, and why: the message of the last lt_trial_run of this process, "" where there was none. */
const char *lt_trial_message(void);

size_t lt_kernel_count(void);
const char *lt_kernel_name(size_t kernel);
const char *lt_kernel_summary(size_t kernel);
int lt_kernel_uses_technique(size_t kernel);
size_t lt_kernel_param_count(size_t kernel);
/* Fills `info` and returns 1; 0: there is no such parameter. */
int lt_kernel_param(size_t kernel, size_t param, struct lt_param_info *info);

size_t lt_technique_count(void);
const char *lt_technique_name(size_t technique);
const char *lt_technique_summary(size_t technique);
/* Why it does not work on this machine; NULL: it works. */
const char *lt_technique_unavailable(size_t technique);

/* What one lt_beat() costs here in nanoseconds, the call left out: the fastest of 20 batches of `beats` in all. */
double lt_beat_cost_ns(uint64_t beats);

#endif
