/*
 * process: what a target does with processes.
 *
 * stopped: stops itself. continued: stops itself, and a child lets it go on after a second.
 * fork_pool: the child of a fork believes that the parent's pool came along and spins for it; the parent waits for it.
 * orphan: leaves a grandchild behind, in a session of its own, that spins for ever, and ends well.
 * crash: ends by a signal. leave: calls exit in the middle of its work.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include <signal.h>
#include <sys/wait.h>

enum { STOPPED, CONTINUED, FORK_POOL, ORPHAN, CRASH, LEAVE };

static const struct lt_param params[] = {
    {"scene", "what it does", "stopped|continued|fork_pool|orphan|crash|leave", 0, 0, STOPPED},
};

static void *setup(struct lt_team *team) {
    (void)team;
    return lt_alloc_lines(LT_LINE);
}

static void stop_and_be_continued(void) {
    pid_t parent = getpid();
    if (fork() == 0) {
        lt_sleep_us(1000000);
        kill(parent, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    wait(NULL);
}

static void wait_for_the_pool(volatile uint32_t *threads) {
    lt_run();
    lt_beat();
    lt_wait_begin(1, LT_WAIT_SPIN);
    while (*threads == 0) {
    }
}

static void leave_an_orphan(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (;;) {
                lt_pause();
            }
        }
        _exit(0);
    }
    wait(NULL);
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    (void)team;
    if (index != 0) {
        return;
    }
    switch (lt_team_param(team, "scene")) {
    case STOPPED:
        raise(SIGSTOP);
        break;
    case CONTINUED:
        stop_and_be_continued();
        break;
    case FORK_POOL:
        if (fork() == 0) {
            wait_for_the_pool((volatile uint32_t *)state);
        }
        wait(NULL);
        break;
    case ORPHAN:
        leave_an_orphan();
        break;
    case CRASH:
        raise(SIGSEGV);
        break;
    default:
        exit(0);
    }
    lt_beat();
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    free(state);
}

const struct lt_kernel lt_kernel_process = {
    .name = "process",
    .summary = "a target that stops, forks, or leaves processes behind",
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
