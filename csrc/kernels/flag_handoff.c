/*
 * flag_handoff: one thread publishes a payload behind a flag; the others wait for the flag and check the payload.
 *
 * With a *plain* flag the waiters hang wherever the compiler reads it once, before the loop, and they come before it is
 * set; or, where the compiler deletes the loop, they go on too early and find the payload stale. `moment` decides who
 * comes first: `late` publishes when all the others have reached their wait, and some time later still, so that every
 * trial shows what the build does; `early` publishes at once, so that a hang is rare. A volatile or atomic flag passes.
 * flag_waits.h has the loops, and what compilers make of them; flag_handoff.getter.c has the getters for one of them.
 *
 * Fences stand on both sides of the flag, of whatever kind it is: order is never the reason here. Payload and flag are
 * otherwise written as the kind of flag says, one after the other, with nothing in between.
 *
 * Source: mariadb-corporation/MaxScale#123; OpenDataPlane/odp#986.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "flag_waits.h"

#define SITE_FLAG 1u
#define SITE_DELAY 2u
#define REACH_POLL_US 50u

enum { MOMENT_EARLY, MOMENT_LATE };
enum { DELAY_SLEEP, DELAY_COMPUTE };

struct handoff {
    enum flag_kind kind;
    int64_t moment, delay_us, delay_how;
    void (*await_flag)(const uint32_t *);
    uint64_t expected;
    uint32_t reached __attribute__((aligned(LT_LINE))); /* waiters that are at their wait, or all but */
    uint64_t payload __attribute__((aligned(LT_LINE)));
    uint32_t flag __attribute__((aligned(LT_LINE)));
};

static const struct lt_param params[] = {
    {"flag", "how the flag is read and written", FLAG_CHOICES, 0, 0, FLAG_PLAIN},
    {"body", "what the wait loop does at each step", BODY_CHOICES, 0, 0, BODY_VOLATILE_COUNTER},
    {"moment", "publish at once, or after the others have reached their wait", "early|late", 0, 0, MOMENT_LATE},
    {"delay_us", "late: how much later than that, in microseconds", NULL, 0, 600000000, 2000},
    {"delay_how", "late: what the publisher does in that time", "sleep|compute", 0, 0, DELAY_SLEEP},
};

static void *setup(struct lt_team *team) {
    struct handoff *handoff = (struct handoff *)lt_alloc_lines(sizeof *handoff);
    if (handoff == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    handoff->kind = (enum flag_kind)lt_team_param(team, "flag");
    handoff->await_flag = flag_waits[handoff->kind][lt_team_param(team, "body")];
    handoff->moment = lt_team_param(team, "moment");
    handoff->delay_us = lt_team_param(team, "delay_us");
    handoff->delay_how = lt_team_param(team, "delay_how");
    handoff->expected = lt_team_seed(team) | 1u; /* never the 0 that a stale payload is */
    return handoff;
}

/*
 * Late: first, all the others. The publisher stays marked RUN while it looks out for them: it is on its way to publish,
 * and however long a busy machine keeps it from its next look, it is no part of a hang.
 */
static void let_others_wait(const struct handoff *handoff, uint32_t others) {
    while (__atomic_load_n(&handoff->reached, __ATOMIC_RELAXED) < others) {
        lt_sleep_us(REACH_POLL_US);
    }
    if (handoff->delay_how == DELAY_COMPUTE) {
        lt_compute_us((uint64_t)handoff->delay_us);
    } else {
        lt_wait_begin(SITE_DELAY, LT_WAIT_TIMED);
        lt_sleep_us((uint64_t)handoff->delay_us);
        lt_wait_end();
    }
}

__attribute__((noinline)) static void publish(uint32_t *flag, enum flag_kind kind) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    switch (kind) {
    case FLAG_VOLATILE:
        *(volatile uint32_t *)flag = 1;
        break;
    case FLAG_RELAXED:
        __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
        break;
    case FLAG_ACQUIRE:
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        break;
    default:
        *flag = 1; /* BUG: a plain write */
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct handoff *handoff = (struct handoff *)state;
    uint64_t found;
    if (index == 0) {
        if (handoff->moment == MOMENT_LATE) {
            let_others_wait(handoff, lt_team_size(team) - 1);
        }
        handoff->payload = handoff->expected;
        publish(&handoff->flag, handoff->kind);
        lt_beat();
        return;
    }
    lt_wait_begin(SITE_FLAG, LT_WAIT_SPIN);
    __atomic_fetch_add(&handoff->reached, 1, __ATOMIC_RELAXED);
    handoff->await_flag(&handoff->flag);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    lt_wait_end();
    found = handoff->payload;
    if (found != handoff->expected) {
        lt_wrong(team, "thread %u went past the flag and found a stale payload: %llu, not %llu", index,
                 (unsigned long long)found, (unsigned long long)handoff->expected);
    }
    lt_beat();
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_flag_handoff = {
    .name = "flag_handoff",
    .summary = "one thread publishes a payload behind a flag, the others wait for it",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
