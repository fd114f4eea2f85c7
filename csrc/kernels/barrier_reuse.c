/*
 * barrier_reuse: a spin barrier used again at once, whose threads read the counter a second time to see who is last.
 *
 * A thread arrives by an atomic addition. Whoever is last takes the counter back to 0 and moves the generation word on;
 * the others spin until it has moved. What `decide` makes of "last":
 *
 *     reread           hangs    the thread adds, and then reads the counter. Two threads that have both added can both
 *                               read the full count, and both reset. The faster one is in the next round by the time
 *                               that the slower one resets: its arrival is wiped out, one is missing in that round
 *                               for ever, and all spin
 *     reread_seq_cst   hangs    the same in the strictest memory order: each access was in order before
 *     returned         passes   the value that the addition returned: one thread alone gets the full count
 *
 * Nobody is ever let through too soon; that is checked in each round, with the rounds that the others are in. `linger`
 * yields where a thread must be held up for it: between addition and decision, and between decision and reset. One
 * thread may be late once, and computes while all others spin: a long wait that is no hang. On a busy machine a round
 * can take milliseconds, so `most_ms` ends it early: thread 0 names the last round before it arrives in that round.
 *
 * Source: ARM-software/synchronization-benchmarks#62.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include <sched.h>

#define SITE_BARRIER 1u
#define SPINS_BEFORE_YIELD 200u
#define ROUNDS_A_CLOCK 16u /* between two looks at the clock */

enum decide { DECIDE_REREAD, DECIDE_REREAD_SEQ_CST, DECIDE_RETURNED };

struct place {
    uint32_t round; /* from 1; relaxed, as the barrier itself has to bring the order */
} __attribute__((aligned(LT_LINE)));

struct reuse {
    uint32_t threads;
    enum decide decide;
    int linger;
    uint32_t late_round;
    uint64_t late_us, most_ns;
    uint32_t rounds __attribute__((aligned(LT_LINE))); /* the last one's number; thread 0 may bring it forward */
    uint32_t arrived __attribute__((aligned(LT_LINE)));
    uint32_t generation __attribute__((aligned(LT_LINE)));
    struct place places[];
};

static const struct lt_param params[] = {
    {"decide", "how a thread learns that it is the last", "reread|reread_seq_cst|returned", 0, 0, DECIDE_REREAD},
    {"rounds", "how many rounds", NULL, 1, 1000000000, 100000},
    {"linger", "yield after the addition, and before the reset", "no|yes", 0, 0, 0},
    {"late_us", "how long thread 0 computes before the middle round, in microseconds", NULL, 0, 600000000, 0},
    {"most_ms", "no new rounds after so many milliseconds; 0: all rounds", NULL, 0, 600000, 0},
};

static void *setup(struct lt_team *team) {
    uint32_t threads = lt_team_size(team);
    struct reuse *reuse = (struct reuse *)lt_alloc_lines(sizeof *reuse + threads * sizeof reuse->places[0]);
    if (reuse == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    reuse->threads = threads;
    reuse->decide = (enum decide)lt_team_param(team, "decide");
    reuse->rounds = (uint32_t)lt_team_param(team, "rounds");
    reuse->linger = lt_team_param(team, "linger") != 0;
    reuse->late_us = (uint64_t)lt_team_param(team, "late_us");
    reuse->late_round = reuse->late_us > 0 ? reuse->rounds / 2 + 1 : 0;
    reuse->most_ns = (uint64_t)lt_team_param(team, "most_ms") * 1000000u;
    return reuse;
}

static void linger(const struct reuse *reuse) {
    if (reuse->linger) {
        sched_yield();
    }
}

/* Arrives; 1 for the last of the round. */
static int arrive(struct reuse *reuse) {
    uint32_t count;
    if (reuse->decide == DECIDE_RETURNED) {
        count = __atomic_add_fetch(&reuse->arrived, 1, __ATOMIC_ACQ_REL);
        linger(reuse);
    } else if (reuse->decide == DECIDE_REREAD_SEQ_CST) {
        __atomic_add_fetch(&reuse->arrived, 1, __ATOMIC_SEQ_CST);
        linger(reuse);
        count = __atomic_load_n(&reuse->arrived, __ATOMIC_SEQ_CST); /* BUG: others have added meanwhile, in any order */
    } else {
        __atomic_add_fetch(&reuse->arrived, 1, __ATOMIC_ACQ_REL);
        linger(reuse);
        count = __atomic_load_n(&reuse->arrived, __ATOMIC_ACQUIRE); /* BUG: others have added meanwhile */
    }
    return count == reuse->threads;
}

/* Not inlined, so that a hang has a place with a name. */
__attribute__((noinline)) static void spin_until(const uint32_t *generation, uint32_t seen) {
    uint32_t spins = 0;
    while (__atomic_load_n(generation, __ATOMIC_ACQUIRE) == seen) {
        if (++spins < SPINS_BEFORE_YIELD) {
            lt_pause();
        } else {
            sched_yield();
        }
    }
}

static void wait_for_all(struct reuse *reuse) {
    uint32_t seen = __atomic_load_n(&reuse->generation, __ATOMIC_RELAXED);
    lt_wait_begin(SITE_BARRIER, LT_WAIT_SPIN);
    if (arrive(reuse)) {
        linger(reuse);
        __atomic_store_n(&reuse->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&reuse->generation, seen + 1, __ATOMIC_RELEASE);
    } else {
        spin_until(&reuse->generation, seen);
    }
    lt_wait_end();
}

/* Through the barrier, nobody may still be in an earlier round, and nobody more than one ahead. */
static void check(struct lt_team *team, const struct reuse *reuse, uint32_t index, uint32_t round) {
    uint32_t other;
    for (other = 0; other < reuse->threads; other++) {
        uint32_t theirs = __atomic_load_n(&reuse->places[other].round, __ATOMIC_RELAXED);
        if (theirs < round || theirs > round + 1) {
            lt_wrong(team, "thread %u is through the barrier of round %u while thread %u is in round %u", index, round,
                     other, theirs);
        }
    }
}

/* Thread 0, before its wait. It alone sets the last round, to one that the others cannot have left yet. */
static void pace(struct reuse *reuse, uint64_t until, uint32_t round) {
    if (round == reuse->late_round) {
        lt_compute_us(reuse->late_us);
    }
    if (reuse->most_ns > 0 && round % ROUNDS_A_CLOCK == 0 && lt_now_ns() > until) {
        __atomic_store_n(&reuse->rounds, round, __ATOMIC_RELAXED);
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct reuse *reuse = (struct reuse *)state;
    uint64_t until = lt_now_ns() + reuse->most_ns;
    uint32_t round;
    for (round = 1; round <= __atomic_load_n(&reuse->rounds, __ATOMIC_RELAXED); round++) {
        if (index == 0) {
            pace(reuse, until, round);
        }
        __atomic_store_n(&reuse->places[index].round, round, __ATOMIC_RELAXED);
        wait_for_all(reuse);
        check(team, reuse, index, round);
        lt_beat();
    }
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_barrier_reuse = {
    .name = "barrier_reuse",
    .summary = "a barrier used again at once, with two ways to tell who is the last to arrive",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
