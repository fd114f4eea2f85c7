/*
 * asleep: threads that sleep, each in a way that something can, or cannot, end; and one that spins beside them.
 *
 * The cases of JUDGING.md that turn on wake sources: a lost wake-up (nothing is left that could wake anybody) against a
 * sleep and an accept (a timer, somebody outside); one spinning thread beside a parked pool, beside an idle thread that
 * polls, and beside one in accept.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

enum { LOST_WAKE_UP, SLEEP, ACCEPT, SPIN_POOL, SPIN_TIMER, SPIN_ACCEPT };

struct asleep {
    int64_t scene;
    pthread_mutex_t lock;
    pthread_cond_t never;
    volatile uint32_t flag;
};

static const struct lt_param params[] = {
    {"scene", "who sleeps in what", "lost_wake_up|sleep|accept|spin_pool|spin_timer|spin_accept", 0, 0, LOST_WAKE_UP},
    {"silent", "neither beats nor marks", "no|yes", 0, 0, 0},
};

static void *setup(struct lt_team *team) {
    struct asleep *asleep = (struct asleep *)lt_alloc_lines(sizeof *asleep);
    if (asleep == NULL) {
        lt_error(team, "no memory");
        return NULL;
    }
    asleep->scene = lt_team_param(team, "scene");
    pthread_mutex_init(&asleep->lock, NULL);
    pthread_cond_init(&asleep->never, NULL);
    return asleep;
}

static void wait_for_ever(struct asleep *asleep) {
    pthread_mutex_lock(&asleep->lock);
    for (;;) {
        pthread_cond_wait(&asleep->never, &asleep->lock);
    }
}

static void wait_with_timer(struct asleep *asleep) {
    struct timespec until;
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_mutex_lock(&asleep->lock);
        pthread_cond_timedwait(&asleep->never, &asleep->lock, &until);
        pthread_mutex_unlock(&asleep->lock);
    }
}

static void accept_for_ever(struct lt_team *team) {
    struct sockaddr_in any;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    memset(&any, 0, sizeof any);
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (server < 0 || bind(server, (struct sockaddr *)&any, sizeof any) != 0 || listen(server, 1) != 0) {
        lt_error(team, "no socket");
        return;
    }
    accept(server, NULL, NULL);
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct asleep *asleep = (struct asleep *)state;
    int spins = asleep->scene >= SPIN_POOL;
    if (spins && index == 0) {
        lt_beat();
        lt_wait_begin(1, LT_WAIT_SPIN);
        while (asleep->flag == 0) {
        }
    }
    if (index == 1 && (asleep->scene == SPIN_TIMER || asleep->scene == SPIN_ACCEPT)) {
        lt_set_mark(LT_MARK_NONE);
        if (asleep->scene == SPIN_TIMER) {
            wait_with_timer(asleep);
        }
        accept_for_ever(team);
    }
    if (index == 0 && asleep->scene == SLEEP) {
        lt_sleep_us(1000000000);
    }
    if (index == 0 && asleep->scene == ACCEPT) {
        accept_for_ever(team);
    }
    if (!lt_team_silent(team)) {
        if (spins) {
            lt_parked();
        } else {
            lt_wait_begin(2, LT_WAIT_UNTIMED);
        }
    }
    wait_for_ever(asleep);
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_asleep = {
    .name = "asleep",
    .summary = "threads that sleep in different ways",
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
