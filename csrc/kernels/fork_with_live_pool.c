/*
 * fork_with_live_pool: a process with a pool of threads forks, and the child uses the pool, whose threads did not come.
 *
 * fork copies the memory, and only the thread that calls it. So the child finds a pool that is marked as running, with
 * a mutex and a condition variable in whatever state they were, and no workers. The caller sums with the pool, forks,
 * has the child sum with it too, and waits for the child. What `at_fork` does about it:
 *
 *     nothing   hangs    the child gives its job to nobody, does its own share, and spins for the others' for ever,
 *                        while the parent sleeps until the child ends, and the parent's workers until there is a job
 *     forget    hangs    the child is told that nothing runs, and starts workers of its own. The mutex is as it was:
 *                        if a worker held it at the fork, it is held for ever in the child, by nobody. Child asleep
 *     reset     passes   the child starts anew: mutex, condition variable and all
 *     stop      passes   the pool is stopped before each fork, and starts again on either side when it is used
 *
 * With `child` alone it does not use the pool, but computes by itself for a while: no hang, however busy it is.
 * `hold_us` is for how long a worker holds the mutex, asleep, after each job; 0: as short as can be. Each sum is
 * checked.
 *
 * Source: nothing: OpenMathLib/OpenBLAS#294, #240. stop: OpenMathLib/OpenBLAS#343.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include <errno.h>
#include <sys/wait.h>

#include "fork_with_live_pool_pool.h"

enum at_fork { AT_FORK_NOTHING, AT_FORK_FORGET, AT_FORK_RESET, AT_FORK_STOP };
enum { CHILD_POOL, CHILD_ALONE };
enum { SAID_RIGHT, SAID_WRONG }; /* statuses of the child */

struct forks {
    enum at_fork at_fork;
    int64_t child;
    uint32_t forks, alone_ms;
    uint64_t expected;
    struct pool pool;
};

static struct forks *in_handler; /* the handlers of a fork get no argument */

static const struct lt_param params[] = {
    {"at_fork", "what is done about the pool", "nothing|forget|reset|stop", 0, 0, AT_FORK_NOTHING},
    {"child", "what the child sums with", "pool|alone", 0, 0, CHILD_POOL},
    {"workers", "threads of the pool", NULL, 1, MOST_WORKERS, 3},
    {"forks", "how many, one after the other", NULL, 1, 1000000, 20},
    {"numbers", "how many are summed", NULL, 1, 1000000000, 20000},
    {"alone_ms", "child alone: for how long it computes, in milliseconds", NULL, 0, 600000, 800},
    {"hold_us", "for how long a worker holds the mutex after each job, in microseconds", NULL, 0, 1000000, 0},
};

static void before_fork(void) {
    if (in_handler->at_fork == AT_FORK_STOP) {
        pool_stop(&in_handler->pool);
    }
}

static void in_child(void) {
    struct pool *pool = &in_handler->pool;
    switch (in_handler->at_fork) {
    case AT_FORK_NOTHING:
        break; /* BUG: nobody says that the workers stay behind */
    case AT_FORK_FORGET:
        pool->jobs = 0;
        pool->running = 0; /* BUG: and the mutex is as some worker had it */
        break;
    default:
        pool_reset(pool);
    }
}

static void *setup(struct lt_team *team) {
    struct forks *forks = (struct forks *)lt_alloc_lines(sizeof *forks);
    if (forks == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    forks->at_fork = (enum at_fork)lt_team_param(team, "at_fork");
    forks->child = lt_team_param(team, "child");
    forks->forks = (uint32_t)lt_team_param(team, "forks");
    forks->alone_ms = (uint32_t)lt_team_param(team, "alone_ms");
    forks->pool.workers = (uint32_t)lt_team_param(team, "workers");
    forks->pool.numbers = (uint32_t)lt_team_param(team, "numbers");
    forks->pool.hold_us = (uint32_t)lt_team_param(team, "hold_us");
    forks->expected = sum_share(0, 1, forks->pool.numbers);
    pool_reset(&forks->pool);
    in_handler = forks;
    if (pthread_atfork(before_fork, NULL, in_child) != 0) {
        lt_error(team, "no handlers for a fork");
    }
    return forks;
}

/* The child's life: one sum. It never returns into a program whose other threads are not there. */
__attribute__((noreturn)) static void be_child(struct forks *forks) {
    uint64_t sum;
    lt_run();
    if (forks->child == CHILD_ALONE) {
        lt_compute_us((uint64_t)forks->alone_ms * 1000);
        sum = sum_share(0, 1, forks->pool.numbers);
    } else {
        sum = pool_sum(&forks->pool);
    }
    lt_beat();
    lt_done();
    _exit(sum == forks->expected ? SAID_RIGHT : SAID_WRONG);
}

/* The child's status; -1: it could not be had. */
static int await_child(pid_t child) {
    int status = 0;
    pid_t ended;
    lt_parked();
    do {
        ended = waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR);
    lt_run();
    return ended == child ? status : -1;
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct forks *forks = (struct forks *)state;
    uint32_t fork_number;
    for (fork_number = 1; index == 0 && fork_number <= forks->forks; fork_number++) {
        pid_t child;
        int status;
        if (pool_sum(&forks->pool) != forks->expected) {
            lt_wrong(team, "before fork %u the sum is wrong", fork_number);
        }
        lt_beat();
        child = fork();
        if (child == 0) {
            be_child(forks);
        }
        status = child > 0 ? await_child(child) : -1;
        if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == SAID_WRONG) {
            lt_wrong(team, "the child of fork %u has a wrong sum", fork_number);
        } else if (status != SAID_RIGHT) {
            lt_error(team, "fork %u: %s (status %d)", fork_number, child < 0 ? "no child" : "no sum from it", status);
        }
    }
    if (index == 0) {
        pool_stop(&forks->pool);
    }
}

static void finish(struct lt_team *team, void *state) {
    (void)team;
    in_handler = NULL;
    free(state);
}

const struct lt_kernel lt_kernel_fork_with_live_pool = {
    .name = "fork_with_live_pool",
    .summary = "a process with a pool of threads forks, and the child uses the pool",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
