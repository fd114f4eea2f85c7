/*
 * odd: healthy programs that look like hangs, each of which once convicted this harness of a wrong verdict; and a hang
 * that it once missed.
 *
 * layers: many barriers to a beat, with work between them. nested: a wait within a wait, then work. alarm: spins for
 * what a signal handler of its own sets. daemon: a helper in a session of its own, orphaned, releases the spinners.
 * deadline: busy-waits for a time. crowd: more spinners than the machine could ever give five per cent of a CPU each.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LAYERS, NESTED, ALARM, DAEMON, DEADLINE, CROWD };

static const struct lt_param params[] = {
    {"scene", "what looks like a hang", "layers|nested|alarm|daemon|deadline|crowd", 0, 0, LAYERS},
    {"ms", "for how long", NULL, 0, 60000, 700},
};

static uint32_t rung;

static void ring(int number) {
    (void)number;
    __atomic_store_n(&rung, 1, __ATOMIC_RELEASE);
}

/* Shared with the children: a helper of another process must be able to set it. */
static void *setup(struct lt_team *team) {
    void *flag = mmap(NULL, LT_LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (flag == MAP_FAILED) {
        lt_error(team, "no memory");
        return NULL;
    }
    return flag;
}

static void spin(const uint32_t *flag, enum lt_wait_kind kind, uint64_t until_ns) {
    lt_wait_begin(1, kind);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0 && (until_ns == 0 || lt_now_ns() < until_ns)) {
        lt_pause();
    }
    lt_wait_end();
}

static void layers(struct lt_team *team, uint32_t index) {
    uint32_t layer;
    for (layer = 0; layer < 60; layer++) {
        if (layer % lt_team_size(team) == index) {
            lt_compute_us(15000);
        }
        lt_team_wait(team, index, 1);
    }
}

static void wait_within_a_wait(uint64_t ms) {
    lt_wait_begin(1, LT_WAIT_UNTIMED);
    lt_wait_begin(2, LT_WAIT_TIMED);
    lt_sleep_us(1000);
    lt_wait_end();
    lt_wait_end();
    lt_compute_us(ms * 1000);
}

static void start_daemon(uint32_t *flag, uint64_t ms) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            lt_sleep_us(ms * 1000);
            __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        }
        _exit(0);
    }
    wait(NULL);
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    uint32_t *flag = (uint32_t *)state;
    uint64_t ms = (uint64_t)lt_team_param(team, "ms");
    switch (lt_team_param(team, "scene")) {
    case LAYERS:
        layers(team, index);
        break;
    case NESTED:
        wait_within_a_wait(ms);
        break;
    case ALARM:
        if (index == 0) {
            signal(SIGALRM, ring);
            alarm(1);
        }
        spin(&rung, LT_WAIT_SPIN, 0);
        break;
    case DAEMON:
        if (index == 0) {
            start_daemon(flag, ms);
        }
        spin(flag, LT_WAIT_SPIN, 0);
        break;
    case DEADLINE:
        spin(flag, LT_WAIT_TIMED, lt_now_ns() + ms * 1000000);
        break;
    default:
        lt_beat();
        if (index == 0) {
            lt_sleep_us(3600000000u);
        }
        spin(flag, LT_WAIT_SPIN, 0);
    }
    lt_beat();
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    munmap(state, LT_LINE);
}

const struct lt_kernel lt_kernel_odd = {
    .name = "odd",
    .summary = "healthy programs that look like hangs",
    .uses_technique = 1,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
