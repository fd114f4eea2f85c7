/*
 * divergent_abort: a team goes through a call step by step, with a barrier after each, and its leader breaks it off.
 *
 * Thread 0 leads; the others sleep between two calls. In some step of each call the leader decides to stop. All have to
 * leave after the *same* step, as whoever leaves earlier is missing in the barrier of those that do not. What `abort`
 * makes of it:
 *
 *     flag          hangs    the leader sets a flag in the middle of its step and goes on to the barrier; each thread
 *                            tests it at the top of a step. One that comes late from the barrier before sees a flag
 *                            that was set in the step that it has not begun, and leaves; the leader waits for it
 *     leader_first  hangs    the leader sets the flag and leaves at once, and does not wait for anybody: now it is the
 *                            others, past their test already, that wait for the leader
 *     step          passes   the leader writes down the first step that nobody is to do. Whoever reads it, however
 *                            late, does all the steps before
 *
 * The barrier is a technique and has no part in it: with one that sleeps the same is a deadlock. `delay_us` holds the
 * others up between barrier and test. When all have left a call, the leader checks that all completed the same steps.
 *
 * Source: ggml-org/ggml#1065.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

enum { SITE_STEP = 1, SITE_LEFT };
enum abort_how { ABORT_FLAG, ABORT_LEADER_FIRST, ABORT_STEP };

struct share {
    uint64_t sum; /* over all steps that it completed */
} __attribute__((aligned(LT_LINE)));

struct calls {
    enum abort_how how;
    uint32_t calls, steps, work;
    uint64_t seed, delay_us;
    pthread_mutex_t lock; /* guards the next three */
    pthread_cond_t changed;
    uint32_t call, left; /* the call that runs, from 1; how many of the others have left it */
    uint32_t aborted __attribute__((aligned(LT_LINE)));    /* flag: 1 once the call is broken off */
    uint32_t first_undone __attribute__((aligned(LT_LINE))); /* step: the first one that nobody is to do */
    uint64_t expected;                                       /* what each thread's sum is, by now */
    struct share shares[];
};

static const struct lt_param params[] = {
    {"abort", "how the leader breaks a call off", "flag|leader_first|step", 0, 0, ABORT_FLAG},
    {"calls", "how many calls", NULL, 1, 1000000000, 1000},
    {"steps", "how many steps a call would have", NULL, 2, 1000000, 8},
    {"work", "turns of arithmetic for each step", NULL, 1, 1000000000, 20},
    {"delay_us", "how long all but the leader are held up before they test the flag", NULL, 0, 1000000, 0},
};

static void *setup(struct lt_team *team) {
    struct calls *calls = (struct calls *)lt_alloc_lines(sizeof *calls + lt_team_size(team) * sizeof calls->shares[0]);
    if (calls == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    calls->how = (enum abort_how)lt_team_param(team, "abort");
    calls->calls = (uint32_t)lt_team_param(team, "calls");
    calls->steps = (uint32_t)lt_team_param(team, "steps");
    calls->work = (uint32_t)lt_team_param(team, "work");
    calls->delay_us = (uint64_t)lt_team_param(team, "delay_us");
    calls->seed = lt_team_seed(team);
    pthread_mutex_init(&calls->lock, NULL);
    pthread_cond_init(&calls->changed, NULL);
    return calls;
}

static uint64_t compute(uint64_t value, uint32_t turns) {
    for (value += 1; turns > 0; turns--) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    return value;
}

/* In which step the leader breaks that call off: never the first, in which all set out together. */
static uint32_t last_step(const struct calls *calls, uint32_t call) {
    return 1 + (uint32_t)((compute(calls->seed + call, 9) >> 20) % (calls->steps - 1));
}

static int over(const struct calls *calls, uint32_t step) {
    if (calls->how == ABORT_STEP) {
        return step >= __atomic_load_n(&calls->first_undone, __ATOMIC_ACQUIRE);
    }
    return step >= calls->steps || __atomic_load_n(&calls->aborted, __ATOMIC_ACQUIRE); /* BUG: set for which step? */
}

/* The leader breaks the call off in that step; 1: it leaves at once. */
static int break_off(struct calls *calls, uint32_t step) {
    if (calls->how == ABORT_STEP) {
        __atomic_store_n(&calls->first_undone, step + 1, __ATOMIC_RELEASE);
        return 0;
    }
    __atomic_store_n(&calls->aborted, 1, __ATOMIC_RELEASE); /* BUG: some have not begun this step, others have */
    return calls->how == ABORT_LEADER_FIRST;                /* BUG: and those that have will wait for the leader */
}

/* A thread's part in a call. A step counts once all have done it. */
static void run(struct lt_team *team, struct calls *calls, uint32_t index, uint32_t call) {
    uint32_t last = last_step(calls, call), step;
    uint64_t value;
    for (step = 0; !over(calls, step); step++) {
        value = compute(step, calls->work);
        if (index == 0 && step == last && break_off(calls, step)) {
            return;
        }
        lt_team_wait(team, index, SITE_STEP);
        calls->shares[index].sum += value;
        if (index > 0 && calls->delay_us > 0) {
            lt_sleep_us(calls->delay_us);
        }
    }
}

/* When all have left: each thread completed the same steps, and with the fix all steps up to the one of the abort. */
static void check(struct lt_team *team, struct calls *calls, uint32_t call) {
    uint32_t done = last_step(calls, call) + (calls->how != ABORT_LEADER_FIRST), step, i;
    for (step = 0; step < done; step++) {
        calls->expected += compute(step, calls->work);
    }
    for (i = 0; i < lt_team_size(team); i++) {
        if (calls->shares[i].sum != calls->expected) {
            lt_wrong(team, "after call %u, thread %u has %llx, not %llx", call, i,
                     (unsigned long long)calls->shares[i].sum, (unsigned long long)calls->expected);
        }
    }
}

static void lead(struct lt_team *team, struct calls *calls, uint32_t call) {
    pthread_mutex_lock(&calls->lock);
    calls->left = 0;
    calls->aborted = 0;
    calls->first_undone = calls->steps;
    calls->call = call;
    pthread_cond_broadcast(&calls->changed);
    pthread_mutex_unlock(&calls->lock);
    run(team, calls, 0, call);
    lt_wait_begin(SITE_LEFT, LT_WAIT_UNTIMED);
    pthread_mutex_lock(&calls->lock);
    while (calls->left < lt_team_size(team) - 1) {
        pthread_cond_wait(&calls->changed, &calls->lock);
    }
    pthread_mutex_unlock(&calls->lock);
    lt_wait_end();
    check(team, calls, call);
}

static void follow(struct lt_team *team, struct calls *calls, uint32_t index, uint32_t call) {
    pthread_mutex_lock(&calls->lock);
    lt_parked();
    while (calls->call < call) {
        pthread_cond_wait(&calls->changed, &calls->lock);
    }
    lt_run();
    pthread_mutex_unlock(&calls->lock);
    run(team, calls, index, call);
    pthread_mutex_lock(&calls->lock);
    calls->left++;
    pthread_cond_broadcast(&calls->changed);
    pthread_mutex_unlock(&calls->lock);
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct calls *calls = (struct calls *)state;
    uint32_t call;
    for (call = 1; call <= calls->calls; call++) {
        if (index == 0) {
            lead(team, calls, call);
        } else {
            follow(team, calls, index, call);
        }
        lt_beat();
    }
}

static void finish(struct lt_team *team, void *state) {
    struct calls *calls = (struct calls *)state;
    (void)team;
    if (calls != NULL) {
        pthread_cond_destroy(&calls->changed);
        pthread_mutex_destroy(&calls->lock);
    }
    free(calls);
}

const struct lt_kernel lt_kernel_divergent_abort = {
    .name = "divergent_abort",
    .summary = "a team goes through steps with a barrier after each, and its leader breaks it off",
    .uses_technique = 1,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
