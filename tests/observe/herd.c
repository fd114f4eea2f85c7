/* A process whose threads each do one thing for ever, as its arguments say; ends by itself after 30 s. */
#define _GNU_SOURCE
#include "livetrap.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void store_pc(int number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    struct lt_slot *slot = lt_thread_slot;
    (void)number, (void)info;
    if (slot != NULL && slot != LT_NO_SLOT) {
#if defined(__x86_64__)
        LT_STORE(slot->pc, (uint64_t)at->uc_mcontext.gregs[REG_RIP]);
#else
        LT_STORE(slot->pc, (uint64_t)at->uc_mcontext.pc);
#endif
        LT_STORE(slot->pc_count, LT_LOAD(slot->pc_count) + 1);
    }
}

__attribute__((noinline)) static void spin_here(void) {
    static volatile int stop;
    lt_wait_begin(1, LT_WAIT_SPIN);
    while (!stop) {
    }
}

static void sleep_here(void) {
    struct timespec long_time = {1000, 0};
    lt_wait_begin(2, LT_WAIT_SPIN); /* says spin, and sleeps all the same: every interruption is a beat */
    for (;;) {
        if (nanosleep(&long_time, NULL) != 0) {
            lt_beat();
        }
    }
}

static void wait_here(int timed) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1000;
    lt_wait_begin(3, timed ? LT_WAIT_TIMED : LT_WAIT_UNTIMED);
    pthread_mutex_lock(&mutex);
    for (;;) {
        timed ? pthread_cond_timedwait(&condition, &mutex, &until) : pthread_cond_wait(&condition, &mutex);
    }
}

static void accept_here(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sa_family_t family = AF_UNIX; /* autobind: an abstract name of the kernel's choice */
    bind(fd, (struct sockaddr *)&family, sizeof family);
    listen(fd, 1);
    accept(fd, NULL, NULL);
}

static void read_here(int timer) {
    char bytes[8];
    int ends[2] = {timerfd_create(CLOCK_MONOTONIC, 0), -1};
    struct itimerspec once = {{0, 0}, {1000, 0}};
    if (timer) {
        timerfd_settime(ends[0], 0, &once, NULL);
    } else if (pipe(ends) != 0) {
        abort();
    }
    (void)!read(ends[0], bytes, sizeof bytes);
}

static void poll_here(const char *how) {
    int ends[2];
    if (pipe(ends) != 0) {
        abort();
    }
    if (!strcmp(how, "poll")) {
        struct pollfd polled[2] = {{-1, POLLIN, 0}, {ends[0], POLLIN, 0}};
        poll(polled, 2, -1);
    } else if (!strcmp(how, "select")) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        select(ends[0] + 1, &set, NULL, NULL, NULL);
    } else {
        struct epoll_event event = {.events = EPOLLIN};
        int instance = epoll_create1(0);
        epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event);
        epoll_wait(instance, &event, 1, -1);
    }
}

/* Two processes, each of which waits for a byte of the other. */
static void pair_here(void) {
    int there[2], back[2];
    char byte;
    if (pipe(there) != 0 || pipe(back) != 0) {
        abort();
    }
    if (fork() == 0) {
        alarm(30);
        close(there[1]), close(back[0]);
        (void)!read(there[0], &byte, 1);
        _exit(0);
    }
    close(there[0]), close(back[1]);
    (void)!read(back[0], &byte, 1);
}

static void handle(int number) { (void)number; }

static void timer_here(int notify) {
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = SIGUSR1};
    struct itimerspec once = {{0, 0}, {1000, 0}};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &once, NULL);
    pause();
}

/* A grandchild in a session of its own, whose parent has gone. */
static void daemon_here(void) {
    int child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) {
            _exit(0);
        }
        setsid();
        alarm(30);
        spin_here();
    }
    waitpid(child, NULL, 0);
    lt_parked();
    pause();
}

static void fork_here(int orphan) {
    int child = fork();
    if (child == 0) {
        alarm(30);
        if (orphan && fork() != 0) {
            _exit(0);
        }
        alarm(30);
        spin_here();
    }
    lt_parked();
    waitpid(child, NULL, 0);
    pause();
}

static void *thread(void *argument) {
    const char *role = argument;
    if (!strcmp(role, "spin")) { spin_here(); }
    if (!strcmp(role, "yield")) { for (;;) { sched_yield(); } }
    if (!strcmp(role, "beat")) { for (;;) { lt_beat(); } }
    if (!strcmp(role, "brief")) { usleep(200000); lt_beat(); lt_beat(); return NULL; }
    if (!strcmp(role, "sleep")) { sleep_here(); }
    if (!strcmp(role, "condition")) { wait_here(0); }
    if (!strcmp(role, "timed")) { wait_here(1); }
    if (!strcmp(role, "accept")) { accept_here(); }
    if (!strcmp(role, "read")) { read_here(0); }
    if (!strcmp(role, "timer")) { read_here(1); }
    if (!strcmp(role, "fork")) { fork_here(0); }
    if (!strcmp(role, "orphan")) { fork_here(1); }
    if (!strcmp(role, "poll") || !strcmp(role, "select") || !strcmp(role, "epoll")) { poll_here(role); }
    if (!strcmp(role, "pair")) { pair_here(); }
    if (!strncmp(role, "from", 4)) { char byte; (void)!read(atoi(role + 4), &byte, 1); }
    if (!strcmp(role, "handler")) { signal(SIGPROF, handle); pause(); }
    if (!strcmp(role, "posix")) { timer_here(SIGEV_SIGNAL); }
    if (!strcmp(role, "mute")) { timer_here(SIGEV_NONE); }
    if (!strcmp(role, "daemon")) { daemon_here(); }
    if (!strcmp(role, "name")) { prctl(PR_SET_NAME, "a) R 1 (\n) Z 2"); pause(); }
    pause();
    return NULL;
}

int main(int count, char **roles) {
    struct sigaction action = {0};
    pthread_t threads[128];
    alarm(30);
    action.sa_sigaction = store_pc;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigaction(SIGRTMIN + 5, &action, NULL);
    pthread_once(&lt_process.once, lt_process_attach);
    lt_process.pc_signal = (uint32_t)(SIGRTMIN + 5);
    for (int i = 1; i < count && i < 128; i++) {
        pthread_create(&threads[i], NULL, thread, roles[i]);
    }
    printf("ready\n");
    fflush(stdout);
    for (int i = 1; i < count && i < 128; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
