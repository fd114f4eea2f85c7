/*
 * busy: threads that run and beat, or run and do not.
 *
 * starvation: all but the last beat for ever, the last waits for its turn and never gets it.
 * wakers: two workers hand each other the same stale work through a condition variable, for ever: neither is ever near
 *     100 % CPU. With `turns` it ends: a healthy ping-pong, which from outside looks the same.
 * compute: computes in one call for `ms`, then ends; with `step`, in a loop around a function that sets the flag.
 * load: loads for `ms` without a beat, then beats a hundred times.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

enum { STARVATION, WAKERS, COMPUTE, STEP, LOAD };

struct busy {
    int64_t scene, ms, turns;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint32_t turn;
    int64_t taken;
    volatile uint32_t never;
};

static const struct lt_param params[] = {
    {"scene", "what they do", "starvation|wakers|compute|step|load", 0, 0, STARVATION},
    {"ms", "for how long", NULL, 0, 600000, 1000},
    {"turns", "wakers: after how many turns they end; 0: never", NULL, 0, 1000000000, 0},
    {"silent", "neither beats nor marks", "no|yes", 0, 0, 0},
};

static void *setup(struct lt_team *team) {
    struct busy *busy = (struct busy *)lt_alloc_lines(sizeof *busy);
    if (busy == NULL) {
        lt_error(team, "no memory");
        return NULL;
    }
    busy->scene = lt_team_param(team, "scene");
    busy->ms = lt_team_param(team, "ms");
    busy->turns = lt_team_param(team, "turns");
    pthread_mutex_init(&busy->lock, NULL);
    pthread_cond_init(&busy->moved, NULL);
    return busy;
}

static void starve(struct lt_team *team, struct busy *busy, uint32_t index) {
    if (index == lt_team_size(team) - 1) {
        lt_wait_begin(1, LT_WAIT_SPIN);
        while (busy->never == 0) {
            lt_pause();
        }
    }
    for (;;) {
        lt_compute_us(1000);
        lt_beat();
    }
}

static void wake_each_other(struct lt_team *team, struct busy *busy, uint32_t index) {
    int silent = lt_team_silent(team);
    pthread_mutex_lock(&busy->lock);
    while (busy->turns == 0 || busy->taken < busy->turns) {
        if (busy->turn != index) {
            if (!silent) {
                lt_wait_begin(1, LT_WAIT_UNTIMED);
            }
            pthread_cond_wait(&busy->moved, &busy->lock);
            if (!silent) {
                lt_wait_end();
            }
            continue;
        }
        busy->turn = (busy->turn + 1) % lt_team_size(team);
        busy->taken++;
        pthread_cond_broadcast(&busy->moved);
    }
    pthread_cond_broadcast(&busy->moved);
    pthread_mutex_unlock(&busy->lock);
}

/* Keeps its loop in the caller: the flag is set in here. */
__attribute__((noinline)) static void step(struct busy *busy, uint64_t until_ns) {
    lt_compute_us(10);
    if (lt_now_ns() >= until_ns) {
        busy->never = 1;
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct busy *busy = (struct busy *)state;
    uint64_t until_ns = lt_now_ns() + (uint64_t)busy->ms * 1000000;
    int i;
    switch (busy->scene) {
    case STARVATION:
        starve(team, busy, index);
        break;
    case WAKERS:
        wake_each_other(team, busy, index);
        break;
    case STEP:
        while (busy->never == 0) {
            step(busy, until_ns);
        }
        break;
    default:
        if (!lt_team_silent(team)) {
            lt_set_mark(LT_MARK_NONE);
        }
        lt_compute_us((uint64_t)busy->ms * 1000);
        for (i = 0; i < 100 && busy->scene == LOAD; i++) {
            lt_compute_us(1000);
            lt_beat();
        }
    }
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_busy = {
    .name = "busy",
    .summary = "threads that run, with beats or without",
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
