/*
 * rounds_window.h: how long a round takes, measured inside the team, for the kernels of `livetrap compare`.
 *
 * Thread 0 keeps the time. After a warm-up it opens a window, and before the first round that begins once the window is
 * over it says, by the number of that round, that this one is the last. The barrier under test itself brings that word
 * to the others, so that the whole team leaves after one and the same round; who left after another one has seen a
 * broken barrier. The clock is read seldom where rounds are short, so that it costs next to nothing.
 *
 * What was measured is printed, one line each time the number of rounds has doubled and one at the end. So the last
 * line of a team that had to be killed still says how far it came: after a line with N rounds at most 4 N + 1 were
 * begun before the next line would have come.
 */
#ifndef ROUNDS_WINDOW_H
#define ROUNDS_WINDOW_H
#include <livetrap.h>
#include <stdio.h>
#include <time.h>

#define WARM_ROUNDS 1000u
#define WARM_SHARE 8u   /* the warm-up takes at most this part of the window, and one round */
#define CHECK_SHARE 64u /* the clock is read about so often in a window, ... */
#define MOST_STRIDE 64u /* ... and after so many rounds at the latest: they may grow slow all at once */
#define WINDOW_PARAM {"window_us", "how long to measure, in microseconds", NULL, 1, 600000000, 100000}
#define SILENT_PARAM {"silent", "no beats, no marks, no slots", "no|yes", 0, 0, 1}

struct leaver {
    uint64_t round; /* the last that the thread went through; 0: it took no part */
} __attribute__((aligned(LT_LINE)));

struct window {
    uint64_t last __attribute__((aligned(LT_LINE))); /* the last round of all; atomic; UINT64_MAX: not known yet */

    uint64_t window_ns __attribute__((aligned(LT_LINE))); /* from here on, thread 0's alone */
    uint64_t first; /* round of the window; 0: the warm-up still goes on */
    uint64_t check; /* the round before which the clock is read next */
    uint64_t stride;
    uint64_t told; /* rounds at the last line */
    uint64_t rounds, wall_ns, cpu_ns;

    struct leaver leavers[];
};

/* CPU time of all threads of this process. */
static inline uint64_t window_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* NULL: out of memory. */
static inline struct window *window_new(uint32_t threads, int64_t window_us) {
    struct window *window = (struct window *)lt_alloc_lines(sizeof *window + threads * sizeof window->leavers[0]);
    if (window != NULL) {
        window->last = UINT64_MAX;
        window->window_ns = (uint64_t)window_us * 1000u;
        window->check = 1;
        window->stride = 1;
    }
    return window;
}

static inline void window_tell(struct window *window, uint64_t rounds, uint64_t wall_ns, uint64_t cpu_ns) {
    printf("rounds=%llu wall_ns=%llu cpu_ns=%llu at_ns=%llu\n", (unsigned long long)rounds,
           (unsigned long long)wall_ns, (unsigned long long)cpu_ns, (unsigned long long)lt_now_ns());
    window->told = rounds;
}

/* The window opens before `round`. */
static inline void window_open(struct window *window, uint64_t round) {
    window_tell(window, 0, 0, 0);
    window->first = round;
    window->cpu_ns = window_cpu_ns();
    window->wall_ns = lt_now_ns();
    window->check = round + 1;
}

/* Thread 0 before `round`, where a look at the clock is due. */
__attribute__((noinline)) LT_UNUSED static void window_check(struct window *window, uint64_t round) {
    uint64_t now = lt_now_ns();
    uint64_t done, spent;
    if (window->first == 0) { /* wall_ns: when the warm-up began */
        window->wall_ns = round == 1 ? now : window->wall_ns;
        window->check = round + 1;
        if (round > 1 && (round > WARM_ROUNDS || now - window->wall_ns >= window->window_ns / WARM_SHARE)) {
            window_open(window, round);
        }
        return;
    }
    done = round - window->first;
    spent = now - window->wall_ns;
    if (spent >= window->window_ns) {
        __atomic_store_n(&window->last, round, __ATOMIC_RELAXED); /* the barrier of this round has to bring the order */
        return;
    }
    if (done > 2 * window->told) {
        window_tell(window, done, spent, window_cpu_ns() - window->cpu_ns);
    }
    window->stride *= window->stride < MOST_STRIDE && spent < window->window_ns / CHECK_SHARE ? 2 : 1;
    window->check = round + window->stride;
}

/* Each thread before it waits in `round`, from 1 on. */
static inline void window_before(struct window *window, uint32_t index, uint64_t round) {
    if (index == 0 && round == window->check) {
        window_check(window, round);
    }
}

/* Each thread after it waited in `round`; 1: it was the last, and thread 0 has measured. */
static inline int window_over(struct window *window, uint32_t index, uint64_t round) {
    if (__builtin_expect(round < __atomic_load_n(&window->last, __ATOMIC_RELAXED), 1)) {
        return 0;
    }
    if (index == 0) {
        window->wall_ns = lt_now_ns() - window->wall_ns;
        window->cpu_ns = window_cpu_ns() - window->cpu_ns;
        window->rounds = round - window->first + 1;
    }
    window->leavers[index].round = round;
    return 1;
}

/* When all have ended: the last line, and whether all left after the same round. Frees the window. */
static inline void window_finish(struct lt_team *team, struct window *window) {
    uint32_t n = lt_team_size(team);
    uint32_t index;
    if (window == NULL) {
        return;
    }
    for (index = 0; index < n && window->rounds > 0; index++) {
        if (window->leavers[index].round != window->last) {
            lt_wrong(team, "thread %u left after round %llu, and thread 0 after round %llu", index,
                     (unsigned long long)window->leavers[index].round, (unsigned long long)window->last);
        }
    }
    if (window->rounds > 0) {
        window_tell(window, window->rounds, window->wall_ns, window->cpu_ns);
    }
    free(window);
}

#endif
