/*
 * team.c: the team's threads and their start line.
 *
 * Every thread claims its slot, places itself, and sleeps at a gate that the last of them opens; then all of them leave
 * the start line together, in the manner that the trial asks for. Sleeping first keeps a team of hundreds from spinning
 * while it is still being made. The sleep is a timed one on purpose: a team that is only half made on a busy machine
 * must not look like threads that nothing can wake.
 *
 * The main thread is the probe. It is the harness's own, and not one of the team.
 */
#include "team.h"

#include <sched.h>
#include <time.h>

#include "platform.h"

#define STACK_BYTES ((size_t)256 * 1024)
#define GATE_POLL_NS 20000000 /* how long a thread sleeps at the gate at a time */
#define PROBE_NS 2000000      /* between two passes of the probe */
#define CLOCK_LEAD_NS 50000   /* how far ahead of the last arrival the clock alignment starts */
#define SPINS_BEFORE_YIELD 1000u

/* Sleeps until the team changes, but not much longer than `ns`. The caller holds the lock. */
static void await_change(struct lt_team *team, long ns) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec += 1;
    }
    pthread_cond_timedwait(&team->changed, &team->lock, &until);
}

static void note_start(struct lt_team *team, uint64_t at_ns) {
    if (team->page != NULL) {
        LT_STORE(team->page->started_ns, at_ns);
    }
}

/* Returns 1 once the whole team is ready, 0 if it never will be. */
static int pass_gate(struct lt_team *team) {
    int open;
    pthread_mutex_lock(&team->lock);
    if (++team->ready == team->trial->threads && team->gate == LT_GATE_SHUT) {
        if (team->align == LT_ALIGN_NONE) {
            note_start(team, lt_now_ns());
        }
        team->gate = LT_GATE_OPEN;
        pthread_cond_broadcast(&team->changed);
    }
    while (team->gate == LT_GATE_SHUT) {
        await_change(team, GATE_POLL_NS);
    }
    open = team->gate == LT_GATE_OPEN;
    pthread_mutex_unlock(&team->lock);
    return open;
}

/* All are awake; the last to arrive releases the others. They spin a little, then yield: they may share a CPU. */
static void leave_start_line(struct lt_team *team) {
    uint64_t go;
    uint32_t spins = 0;
    if (team->align == LT_ALIGN_NONE) {
        return;
    }
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == team->trial->threads) {
        go = lt_now_ns() + (team->align == LT_ALIGN_CLOCK ? CLOCK_LEAD_NS : 0);
        note_start(team, go);
        __atomic_store_n(&team->go_ns, go, __ATOMIC_RELEASE);
    }
    while ((go = __atomic_load_n(&team->go_ns, __ATOMIC_ACQUIRE)) == 0) {
        if (spins < SPINS_BEFORE_YIELD) {
            spins++;
            lt_pause();
        } else {
            sched_yield();
        }
    }
    while (team->align == LT_ALIGN_CLOCK && lt_now_ns() < go) {
        lt_pause();
    }
}

/* Nobody sets off: what was asked for cannot be had. */
static void abandon(struct lt_team *team) {
    pthread_mutex_lock(&team->lock);
    team->gate = LT_GATE_ABANDONED;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

/* Claims the slot, if the team has slots, and places the thread; a placement that takes no effect ends the trial. */
static void settle_in(struct lt_team *team, uint32_t index) {
    const struct lt_trial *trial = team->trial;
    const uint64_t *mask = trial->mask_words > 0 ? trial->cpu_masks + index * trial->mask_words : NULL;
    int32_t placed = lt_platform_place(mask, trial->mask_words, trial->qos != NULL ? trial->qos[index] : 0);
    lt_jitter_seed(index);
    if (!team->silent) {
        struct lt_slot *slot = lt_self();
        if (slot != NULL) {
            LT_STORE(slot->team_index, index + 1);
            LT_STORE(slot->placed, placed);
        }
    }
    if (placed < 0) {
        lt_skip(team, "thread %u could not be placed: %s", index, strerror(-placed));
        abandon(team);
    }
}

static void *member_main(void *at) {
    struct lt_member *member = (struct lt_member *)at;
    struct lt_team *team = member->team;
    settle_in(team, member->index);
    if (pass_gate(team)) {
        leave_start_line(team);
        if (!team->silent) {
            lt_run();
        }
        team->kernel->thread(team, team->kernel_state, member->index);
    }
    if (!team->silent) {
        lt_done();
    }
    pthread_mutex_lock(&team->lock);
    team->ended++;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Makes the threads; those made before one that cannot be are sent home. Returns how many there are. */
static uint32_t make_members(struct lt_team *team, uint32_t threads) {
    pthread_attr_t attributes;
    uint32_t made;
    int failure = pthread_attr_init(&attributes);
    if (failure == 0) {
        failure = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    }
    for (made = 0; failure == 0 && made < threads; made++) {
        struct lt_member *member = &team->members[made];
        member->team = team;
        member->index = made;
        failure = pthread_create(&member->thread, &attributes, member_main, member);
        if (failure != 0) {
            break;
        }
    }
    if (failure != 0) {
        lt_error(team, "thread %u of %u could not be made: %s", made + 1, threads, strerror(failure));
        abandon(team);
    }
    pthread_attr_destroy(&attributes);
    return made;
}

/* The main thread's part where threads can only be read from inside: one pass, a short sleep, until all have ended. */
static void probe_until_ended(struct lt_team *team, uint32_t made) {
    pthread_mutex_lock(&team->lock);
    while (team->ended < made) {
        pthread_mutex_unlock(&team->lock);
        lt_platform_probe(team->page);
        LT_STORE(team->page->probe_passes, LT_LOAD(team->page->probe_passes) + 1);
        pthread_mutex_lock(&team->lock);
        if (team->ended < made) {
            await_change(team, PROBE_NS);
        }
    }
    pthread_mutex_unlock(&team->lock);
}

void lt_team_run(struct lt_team *team) {
    uint32_t i, made;
    lt_platform_prepare();
    made = make_members(team, team->trial->threads);
    if (LT_PLATFORM_PROBES && team->page != NULL) {
        probe_until_ended(team, made);
    }
    for (i = 0; i < made; i++) {
        pthread_join(team->members[i].thread, NULL);
    }
}
