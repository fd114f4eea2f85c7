/*
 * timed_rounds: nothing but rounds of a technique's barrier, and how long one takes.
 *
 * `livetrap compare` runs it. There is no work between two rounds, so that the figure is the barrier's own;
 * rounds_window.h says how it is taken, and checks that the whole team leaves after the same round. It hangs only where
 * the technique does.
 *
 * Source: the usual microbenchmark of barriers, e.g. syncbench in J. M. Bull, "Measuring Synchronisation and Scheduling
 * Overheads in OpenMP" (1999).
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "rounds_window.h"

#define SITE_BARRIER 1u

static const struct lt_param params[] = {WINDOW_PARAM, SILENT_PARAM};

static void *setup(struct lt_team *team) {
    struct window *window = window_new(lt_team_size(team), lt_team_param(team, "window_us"));
    if (window == NULL) {
        lt_error(team, "no memory for the kernel");
    }
    return window;
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct window *window = (struct window *)state;
    int silent = lt_team_silent(team);
    uint64_t round = 0;
    do {
        window_before(window, index, ++round);
        lt_team_wait(team, index, SITE_BARRIER);
        if (!silent) {
            lt_beat();
        }
    } while (!window_over(window, index, round));
}

static void finish(struct lt_team *team, void *state) { window_finish(team, (struct window *)state); }

const struct lt_kernel lt_kernel_timed_rounds = {
    .name = "timed_rounds",
    .summary = "nothing but rounds of a barrier; prints how many it went through, in which time",
    .uses_technique = 1,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
