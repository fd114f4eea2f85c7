/*
 * barrier_rounds: a team goes through `rounds` rounds with a barrier between them, and checks that the barrier is one.
 *
 * In each round every thread writes down the round it is in, waits with the technique under test, and then reads what
 * the others wrote: nobody may still be in an earlier round, and nobody more than one ahead. So it hangs only where
 * the technique does, and is wrong where the technique lets somebody through too soon. One thread can be made to
 * compute for a while in each round, before its wait, while the others already wait: a long wait that is no hang.
 *
 * Source: the usual test of a reusable barrier; ARM-software/synchronization-benchmarks#62 is one that fails it.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#define SITE_BARRIER 1u

struct place {
    uint32_t round; /* from 1; relaxed, as the barrier itself has to bring the order */
} __attribute__((aligned(LT_LINE)));

struct rounds {
    uint32_t rounds;
    uint64_t compute_us;
    uint32_t compute_thread;
    struct place places[];
};

static const struct lt_param params[] = {
    {"rounds", "how many rounds", NULL, 1, 1000000000, 20},
    {"compute_us", "how long one thread computes in each round, in microseconds", NULL, 0, 600000000, 0},
    {"compute_thread", "which thread that is, from 0", NULL, 0, 1000000, 0},
    {"silent", "no beats, no marks, no slots", "no|yes", 0, 0, 0},
};

static void *setup(struct lt_team *team) {
    uint32_t n = lt_team_size(team);
    int64_t compute_us = lt_team_param(team, "compute_us");
    int64_t compute_thread = lt_team_param(team, "compute_thread");
    struct rounds *rounds;
    if (compute_us > 0 && compute_thread >= (int64_t)n) {
        lt_error(team, "compute_thread is %lld, and the team has threads 0 to %u", (long long)compute_thread, n - 1);
        return NULL;
    }
    rounds = (struct rounds *)lt_alloc_lines(sizeof *rounds + n * sizeof rounds->places[0]);
    if (rounds == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    rounds->rounds = (uint32_t)lt_team_param(team, "rounds");
    rounds->compute_us = (uint64_t)compute_us;
    rounds->compute_thread = (uint32_t)compute_thread;
    return rounds;
}

static void check(struct lt_team *team, struct rounds *rounds, uint32_t index, uint32_t round) {
    uint32_t n = lt_team_size(team);
    uint32_t other;
    for (other = 0; other < n; other++) {
        uint32_t theirs = __atomic_load_n(&rounds->places[other].round, __ATOMIC_RELAXED);
        if (theirs < round || theirs > round + 1) {
            lt_wrong(team, "thread %u is through the barrier of round %u while thread %u is in round %u", index, round,
                     other, theirs);
        }
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct rounds *rounds = (struct rounds *)state;
    int silent = lt_team_silent(team);
    uint32_t round;
    for (round = 1; round <= rounds->rounds; round++) {
        if (rounds->compute_us > 0 && index == rounds->compute_thread) {
            lt_compute_us(rounds->compute_us);
        }
        __atomic_store_n(&rounds->places[index].round, round, __ATOMIC_RELAXED);
        lt_team_wait(team, index, SITE_BARRIER);
        check(team, rounds, index, round);
        if (!silent) {
            lt_beat();
        }
    }
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_barrier_rounds = {
    .name = "barrier_rounds",
    .summary = "rounds with a barrier between them; checks that nobody is let through too soon",
    .uses_technique = 1,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
