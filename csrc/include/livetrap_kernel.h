/*
 * livetrap_kernel.h: what a kernel and a technique are, and what they may ask for.
 *
 * Their files define LIVETRAP_KERNEL and include livetrap.h, which includes this one. They are linked into livetrap's
 * own runtime, and each defines one constant that carries its file's stem: csrc/kernels/X.c defines `const struct
 * lt_kernel lt_kernel_X` with the name "X", csrc/techniques/X.c `const struct lt_technique lt_technique_X`. A program
 * that only beats needs none of it.
 */
#ifndef LIVETRAP_KERNEL_H
#define LIVETRAP_KERNEL_H

struct lt_team; /* the threads of one trial, and what they were asked to do */

/* A barrier for `n` threads, for any number of rounds. */
struct lt_technique {
    const char *name;
    const char *summary;              /* one line */
    enum lt_wait_kind kind;           /* how its threads wait */
    const char *(*unavailable)(void); /* why it does not work on this machine, or NULL; no function: it always does */
    void *(*init)(uint32_t n);        /* NULL: out of memory */
    void (*wait)(void *state, uint32_t index);
    void (*destroy)(void *state);
};

/* A parameter of a kernel. A choice is passed as its place in `choices`, and `least` and `most` are not looked at. */
struct lt_param {
    const char *name;
    const char *summary;
    const char *choices; /* "one|other", or NULL: a number from `least` to `most` */
    int64_t least, most, fallback;
};

/*
 * A workload that a team of threads runs once. A parameter named "silent" is the runtime's too: when it is not 0, the
 * team claims no slots and makes no marks, and the kernel must not beat (ask lt_team_silent).
 */
struct lt_kernel {
    const char *name;
    const char *summary;
    int uses_technique;
    const struct lt_param *params;
    size_t param_count;
    void *(*setup)(struct lt_team *team); /* before any thread is made; lt_error or lt_skip here end the trial */
    void (*thread)(struct lt_team *team, void *state, uint32_t index);
    void (*finish)(struct lt_team *team, void *state); /* when all have ended; frees `state`: what setup returned */
};

uint32_t lt_team_size(const struct lt_team *team);
uint64_t lt_team_seed(const struct lt_team *team);
int lt_team_silent(const struct lt_team *team);
/* The value given for the parameter, or its fallback. */
int64_t lt_team_param(struct lt_team *team, const char *name);
/* Marks the wait at `site`, waits for the whole team with the technique, unmarks. */
void lt_team_wait(struct lt_team *team, uint32_t index, uint64_t site);

/* What came of it; the first call wins, with none the result is right. The team goes on to its end all the same. */
__attribute__((format(printf, 2, 3))) void lt_wrong(struct lt_team *team, const char *format, ...);
__attribute__((format(printf, 2, 3))) void lt_skip(struct lt_team *team, const char *format, ...);
__attribute__((format(printf, 2, 3))) void lt_error(struct lt_team *team, const char *format, ...);

/*
 * Jitter, a disturbance: random delays of at most that many microseconds before and after each wait; 0: none. In a file
 * that defines LIVETRAP_KERNEL, lt_wait_begin and lt_wait_end have them, and so has lt_team_wait.
 */
extern uint32_t lt_jitter_us;
void lt_jitter(void);

static inline void lt_jittered(void) {
    if (__builtin_expect(lt_jitter_us != 0, 0)) {
        lt_jitter();
    }
}

static inline void lt_wait_begin_jittered(uint64_t site, enum lt_wait_kind kind) {
    lt_jittered();
    lt_wait_begin(site, kind);
}

static inline void lt_wait_end_jittered(void) {
    lt_wait_end();
    lt_jittered();
}

#define lt_wait_begin lt_wait_begin_jittered
#define lt_wait_end lt_wait_end_jittered

uint64_t lt_now_ns(void);            /* CLOCK_MONOTONIC */
void lt_sleep_us(uint64_t us);       /* sleeps the whole time, signals or not */
uint64_t lt_compute_us(uint64_t us); /* integer work, for that long on the wall clock, without a sleep */

/*
 * The calling thread is outranked, from now on, by all others that want its CPU: nice 19 on Linux, the class
 * `background` of quality of service on macOS. Needs no rights; without them there is no way back. 0, or an errno.
 */
int lt_lower_priority(void);

/* A zeroed block on a cache line of its own; free() frees it. NULL: out of memory. */
void *lt_alloc_lines(size_t bytes);

#define LT_LINE 128 /* Apple's cache line, and twice Intel's: neighbours this far apart do not disturb each other */

/* Tells the CPU that this is a wait loop. */
static inline void lt_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

#endif
