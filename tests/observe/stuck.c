/* A process that knows of no page. Its threads each do one thing for ever, as its arguments say; ends after 30 s. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static volatile int never, ticks;
static volatile int *shared;
static volatile sig_atomic_t handled;

__attribute__((noinline)) static void jump_here(void) {
    for (;;) {
    }
}

__attribute__((noinline)) static void poll_here(void) {
    while (!never) {
    }
}

__attribute__((noinline)) static void yield_here(void) {
    while (!never) {
        sched_yield();
    }
}

__attribute__((noinline)) static void poll_shared(void) {
    while (!*shared) {
    }
}

/* Waits again and again for a word that another thread changes every 5 milliseconds. */
__attribute__((noinline)) static void follow_here(void) {
    while (!never) {
        int seen = ticks;
        while (ticks == seen) {
        }
    }
}

static void tick_here(void) {
    struct timespec pause = {0, 5000000};
    for (;;) {
        ticks++;
        nanosleep(&pause, NULL);
    }
}

__attribute__((noinline)) static uint64_t compute_here(uint64_t value, uint64_t times) {
    for (uint64_t i = 0; i < times; i++) {
        value = (value ^ i) * 0x9E3779B97F4A7C15u;
    }
    return value;
}

static void lock_both(pthread_mutex_t *one, pthread_mutex_t *other) {
    pthread_mutex_lock(one);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(other);
}

static void lock_twice(int protocol, int robust) {
    static pthread_mutex_t mutex;
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setprotocol(&how, protocol);
    pthread_mutexattr_setrobust(&how, robust);
    pthread_mutex_init(&mutex, &how);
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
}

/* One thread holds a mutex for ever, another waits for it: no cycle. */
static void hold_here(void) {
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    pause();
}

static void want_here(void) {
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first);
}

static void *thread(void *argument);

/* Threads that come and go. */
static void churn_here(void) {
    pthread_t one;
    for (;;) {
        if (pthread_create(&one, NULL, thread, "brief") == 0) {
            pthread_join(one, NULL);
        }
    }
}

static void count(int number) { (void)number, handled++; }

static void signals_here(void) {
    signal(SIGRTMIN + 1, count);
    while (handled < 200) {
    }
    _exit(42);
}

static void *thread(void *argument) {
    const char *role = argument;
    if (!strcmp(role, "jump")) { jump_here(); }
    if (!strcmp(role, "poll")) { poll_here(); }
    if (!strcmp(role, "yield")) { yield_here(); }
    if (!strcmp(role, "shared")) { poll_shared(); }
    if (!strcmp(role, "follow")) { follow_here(); }
    if (!strcmp(role, "tick")) { tick_here(); }
    if (!strcmp(role, "compute")) { never = (int)compute_here(1, UINT64_MAX / 2); }
    if (!strcmp(role, "ab")) { lock_both(&first, &second); }
    if (!strcmp(role, "ba")) { lock_both(&second, &first); }
    if (!strcmp(role, "twice")) { lock_twice(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
    if (!strcmp(role, "robust")) { lock_twice(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST); }
    if (!strcmp(role, "hold")) { hold_here(); }
    if (!strcmp(role, "want")) { want_here(); }
    if (!strcmp(role, "churn")) { churn_here(); }
    if (!strcmp(role, "signals")) { signals_here(); }
    if (!strcmp(role, "brief")) { for (volatile int i = 0; i < 100000; i++) { } return NULL; }
    pause();
    return NULL;
}

int main(int count, char **roles) {
    pthread_t threads[128];
    alarm(30);
    pthread_barrier_init(&both, NULL, 2);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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
