/* rounds.c: a barrier-bound command: `rounds THREADS ROUNDS` crosses a spin barrier and prints how long that took in s. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int threads, rounds, arrived, generation;

static void barrier(void) {
    int mine = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == threads) {
        __atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&generation, mine + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&generation, __ATOMIC_ACQUIRE) == mine) {
        sched_yield();
    }
}

static void *crosses(void *unused) {
    int i;
    for (i = 0; i < rounds; i++) {
        barrier();
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t team[64];
    struct timespec from, to;
    int i;
    if (argc != 3 || (threads = atoi(argv[1])) < 1 || threads > 64 || (rounds = atoi(argv[2])) < 1) {
        fprintf(stderr, "rounds THREADS ROUNDS\n");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (i = 0; i < threads; i++) {
        if (pthread_create(&team[i], NULL, crosses, NULL) != 0) {
            return 2;
        }
    }
    for (i = 0; i < threads; i++) {
        pthread_join(team[i], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.6f\n", (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    return 0;
}
