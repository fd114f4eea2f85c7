/*
 * beating.c: programs that tell what they have completed (lt_beat), and mark nothing: a pool whose caller, after some
 * calls, waits for a count that never comes, and healthy ones beside it. `beating CASE` runs one of them.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "livetrap.h"

#include "threads.h"

enum { WORKERS = 5, CALLS = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static int work_left, finished, stop;
static volatile uint64_t sink;

static void *works(void *unused) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (work_left == 0 && !stop) {
            pthread_cond_wait(&wanted, &mutex);
        }
        if (stop) {
            break;
        }
        work_left--;
        pthread_mutex_unlock(&mutex);
        __atomic_add_fetch(&finished, 1, __ATOMIC_RELEASE);
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

/* Offers that many tasks and spins until `awaited` have finished. */
static void call(int tasks, int awaited) {
    __atomic_store_n(&finished, 0, __ATOMIC_RELAXED);
    pthread_mutex_lock(&mutex);
    work_left = tasks;
    pthread_cond_broadcast(&wanted);
    pthread_mutex_unlock(&mutex);
    while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < awaited) {
    }
}

static void *ticks(void *unused) {
    for (;;) {
        nap_ms(100);
    }
    return unused;
}

static void *serves(void *unused) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = {0};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 1) != 0) {
        exit(2);
    }
    (void)accept(listener, NULL, NULL);
    return unused;
}

static void compute(double seconds) {
    double until = now_s() + seconds;
    uint64_t x = 1;
    while (now_s() < until) {
        long i;
        for (i = 0; i < 100 * 1000 * 1000; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
        }
    }
    sink = x;
}

static void calls(int count) {
    int i;
    for (i = 0; i < count; i++) {
        call(2, 2);
        lt_beat();
    }
}

int main(int argc, char **argv) {
    const char *name = argc == 2 ? argv[1] : "";
    pthread_t workers[WORKERS];
    int i;
    for (i = 0; i < WORKERS; i++) {
        workers[i] = started(works, NULL);
    }
    if (strcmp(name, "caller-and-ticker") == 0) {
        started(ticks, NULL);
    } else if (strcmp(name, "caller-and-acceptor") == 0) {
        started(serves, NULL);
    }
    if (strcmp(name, "load") == 0) {
        compute(4.0);
    }
    calls(CALLS);
    if (strncmp(name, "caller", 6) == 0) {
        call(2, 3); /* BUG: one task more than was offered */
    } else if (strcmp(name, "one-long-call") == 0) {
        compute(4.0);
    } else if (strcmp(name, "load") != 0) {
        fprintf(stderr, "beating CASE\n");
        return 2;
    }
    calls(1);
    pthread_mutex_lock(&mutex);
    stop = 1;
    pthread_cond_broadcast(&wanted);
    pthread_mutex_unlock(&mutex);
    for (i = 0; i < WORKERS; i++) {
        pthread_join(workers[i], NULL);
    }
    return 0;
}
