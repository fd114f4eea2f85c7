/*
 * raw_rounds: the same rounds as timed_rounds, of a barrier that is called directly: yardsticks of `livetrap compare`.
 *
 * `pthread` is pthread_barrier_t, which not every system has. `openmp` is the barrier of the compiler's OpenMP
 * (libgomp, libomp): it holds for OpenMP's own threads only, so that thread 0 opens a parallel region of the team's
 * size, each of whose threads is placed as the one of the team in whose stead it runs; those have nothing to do.
 * Neither hangs. How long OpenMP's threads spin before they sleep is up to its own variables, such as OMP_WAIT_POLICY.
 *
 * Source: POSIX.1-2017, pthread_barrier_wait; the OpenMP API specification 5.2, barrier construct.
 */
#include "../runtime/platform.h"
#include "../runtime/team.h"
#include "rounds_window.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#define SITE_BARRIER 1u

enum { BARRIER_PTHREAD, BARRIER_OPENMP };

struct raw {
    struct window *window;
    int barrier;
#if defined(_POSIX_BARRIERS) && _POSIX_BARRIERS > 0
    pthread_barrier_t pthread;
#endif
};

static const struct lt_param params[] = {
    {"barrier", "whose barrier", "pthread|openmp", 0, 0, BARRIER_PTHREAD}, WINDOW_PARAM, SILENT_PARAM};

#if defined(_POSIX_BARRIERS) && _POSIX_BARRIERS > 0
static void pthread_make(struct lt_team *team, struct raw *raw) {
    if (pthread_barrier_init(&raw->pthread, NULL, lt_team_size(team)) != 0) {
        lt_error(team, "no pthread_barrier_t for %u threads", lt_team_size(team));
    }
}

static void pthread_rounds(struct lt_team *team, struct raw *raw, uint32_t index) {
    int silent = lt_team_silent(team);
    uint64_t round = 0;
    do {
        window_before(raw->window, index, ++round);
        if (silent) {
            pthread_barrier_wait(&raw->pthread);
            continue;
        }
        lt_wait_begin(SITE_BARRIER, LT_WAIT_UNTIMED);
        pthread_barrier_wait(&raw->pthread);
        lt_wait_end();
        lt_beat();
    } while (!window_over(raw->window, index, round));
}
#else
static void pthread_make(struct lt_team *team, struct raw *raw) {
    (void)raw;
    lt_skip(team, "this system has no pthread_barrier_t");
}

static void pthread_rounds(struct lt_team *team, struct raw *raw, uint32_t index) {
    (void)team, (void)raw, (void)index;
}
#endif

#ifdef _OPENMP
static void openmp_make(struct lt_team *team) {
    if (!lt_team_silent(team)) {
        lt_error(team, "threads of OpenMP's are not the team's: with barrier=openmp it is silent");
    }
}

/* Every thread of the region; a short region is one that is not whole. */
static void openmp_thread(struct lt_team *team, struct raw *raw) {
    const struct lt_trial *trial = team->trial;
    uint32_t index = (uint32_t)omp_get_thread_num();
    const uint64_t *mask = trial->mask_words > 0 ? trial->cpu_masks + index * trial->mask_words : NULL;
    uint64_t round = 0;
    if ((uint32_t)omp_get_num_threads() != trial->threads) {
        lt_error(team, "OpenMP gave %d threads of %u", omp_get_num_threads(), trial->threads);
        return;
    }
    if (lt_platform_place(mask, trial->mask_words, trial->qos != NULL ? trial->qos[index] : 0) < 0) {
        lt_error(team, "thread %u of OpenMP could not be placed", index);
    }
    do {
        window_before(raw->window, index, ++round);
#pragma omp barrier
    } while (!window_over(raw->window, index, round));
}

static void openmp_rounds(struct lt_team *team, struct raw *raw, uint32_t index) {
    if (index != 0) {
        return;
    }
    omp_set_dynamic(0);
#pragma omp parallel num_threads((int)lt_team_size(team))
    openmp_thread(team, raw);
}
#else
static void openmp_make(struct lt_team *team) { lt_skip(team, "not compiled with -fopenmp"); }

static void openmp_rounds(struct lt_team *team, struct raw *raw, uint32_t index) {
    (void)team, (void)raw, (void)index;
}
#endif

static void *setup(struct lt_team *team) {
    struct raw *raw = (struct raw *)lt_alloc_lines(sizeof *raw);
    if (raw == NULL || (raw->window = window_new(lt_team_size(team), lt_team_param(team, "window_us"))) == NULL) {
        lt_error(team, "no memory for the kernel");
        return raw;
    }
    raw->barrier = (int)lt_team_param(team, "barrier");
    if (raw->barrier == BARRIER_OPENMP) {
        openmp_make(team);
    } else {
        pthread_make(team, raw);
    }
    return raw;
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct raw *raw = (struct raw *)state;
    if (raw->barrier == BARRIER_OPENMP) {
        openmp_rounds(team, raw, index);
    } else {
        pthread_rounds(team, raw, index);
    }
}

static void finish(struct lt_team *team, void *state) {
    struct raw *raw = (struct raw *)state;
    if (raw != NULL) {
        window_finish(team, raw->window);
        free(raw);
    }
}

const struct lt_kernel lt_kernel_raw_rounds = {
    .name = "raw_rounds",
    .summary = "the same rounds of a barrier of the system's or of OpenMP's, with no interface between",
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
