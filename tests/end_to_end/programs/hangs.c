/*
 * hangs.c: programs that never end, or look as if they did not, and say nothing of themselves: no header of livetrap's,
 * no output. `hangs CASE` runs one of them; all of them end by SIGALRM's default after 60 s if nobody ends them before.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "threads.h"

static int plain_flag;
static volatile int counter;
static int atomic_flag;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;

/* The flag is set too late to be seen: the optimiser has read it once. */
static void *waits_for_a_plain_flag(void *unused) {
    while (!plain_flag) { /* LINE: plain flag */
    }
    return unused;
}

static void plain(void) {
    pthread_t waiter = started(waits_for_a_plain_flag, NULL);
    nap_ms(100);
    plain_flag = 1;
    pthread_join(waiter, NULL);
}

/* The same with a volatile counter in the body: no compiler may delete it. */
static void *counts_while_it_waits(void *unused) {
    while (!plain_flag) {
        counter++;
    }
    return unused;
}

static void counting(void) {
    pthread_t waiter = started(counts_while_it_waits, NULL);
    nap_ms(100);
    plain_flag = 1;
    pthread_join(waiter, NULL);
}

/* Nobody sets this one. */
static void *polls(void *yields) {
    while (!__atomic_load_n(&atomic_flag, __ATOMIC_ACQUIRE)) {
        if (yields != NULL) {
            sched_yield();
        }
    }
    return NULL;
}

static void forgotten_flag(void *yields) {
    pthread_t waiters[2] = {started(polls, yields), started(polls, yields)};
    pthread_join(waiters[0], NULL);
    pthread_join(waiters[1], NULL);
}

static void poll_only(void) { forgotten_flag(NULL); }
static void poll_and_yield(void) { forgotten_flag(&atomic_flag); }

static void spins_itself(void) { waits_for_a_plain_flag(NULL); }

static void grandchild(void) {
    pid_t child = fork();
    if (child == 0) {
        child = fork();
        if (child == 0) {
            spins_itself();
        }
        waitpid(child, NULL, 0);
    }
    waitpid(child, NULL, 0);
}

/* The spinner has left for a session of its own, and its parent has gone. */
static void daemon_spins(void) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0) {
        exit(2);
    }
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            close(ends[0]);
            spins_itself();
        }
        _exit(0);
    }
    close(ends[1]);
    wait(NULL);
    (void)!read(ends[0], &byte, 1); /* until the daemon has gone */
}

static void *locks_in_opposite_order(void *unused) {
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first);
    return unused;
}

static void deadlock(void) {
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    other = started(locks_in_opposite_order, NULL);
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&second);
    pthread_join(other, NULL);
}

static void *ticks(void *unused) {
    for (;;) {
        nap_ms(1000);
    }
    return unused;
}

static void deadlock_beside_a_timer(void) {
    started(ticks, NULL);
    deadlock();
}

static void locks_twice(void) {
    pthread_mutex_lock(&first);
    pthread_mutex_lock(&first);
}

/* The signal came before the wait, and no predicate remembers it. */
static void *waits_for_a_signal(void *unused) {
    pthread_mutex_lock(&first);
    pthread_cond_wait(&condition, &first);
    pthread_mutex_unlock(&first);
    return unused;
}

static void lost_wakeup(void) {
    pthread_t waiter;
    pthread_cond_signal(&condition);
    waiter = started(waits_for_a_signal, NULL);
    pthread_join(waiter, NULL);
}

static void stops_itself(void) { raise(SIGSTOP); }

/* Two that wake each other for ever: from outside it cannot be told from a healthy ping-pong. */
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;

static void *wakes_the_other(void *me) {
    int mine = me != NULL;
    for (;;) {
        pthread_mutex_lock(&first);
        while (turn != mine) {
            pthread_cond_wait(&turned, &first);
        }
        turn = !mine;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&first);
    }
    return NULL;
}

static void wake_each_other(void) {
    pthread_t other = started(wakes_the_other, &turn);
    wakes_the_other(NULL);
    pthread_join(other, NULL);
}

/* Another process traces the spinner, so that nobody else may read its registers. */
static void traced(void) {
    pid_t spinner = getpid(), tracer;
    int ends[2];
    char byte;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (pipe(ends) != 0) {
        exit(2);
    }
    tracer = fork();
    if (tracer == 0) {
        if (ptrace(PTRACE_SEIZE, spinner, NULL, NULL) != 0) {
            _exit(2);
        }
        (void)!write(ends[1], "x", 1);
        for (;;) {
            pause();
        }
    }
    (void)!read(ends[0], &byte, 1);
    spins_itself();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"plain", plain},
    {"counting", counting},
    {"poll", poll_only},
    {"poll-and-yield", poll_and_yield},
    {"spins-itself", spins_itself},
    {"grandchild", grandchild},
    {"daemon", daemon_spins},
    {"deadlock", deadlock},
    {"deadlock-beside-a-timer", deadlock_beside_a_timer},
    {"locks-twice", locks_twice},
    {"lost-wakeup", lost_wakeup},
    {"stops-itself", stops_itself},
    {"wake-each-other", wake_each_other},
    {"traced", traced},
};

int main(int argc, char **argv) {
    size_t i;
    for (i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "hangs CASE\n");
    return 2;
}
