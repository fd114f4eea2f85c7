/*
 * healthy.c: programs that are well and look as if they hung: they say nothing, and burn CPU or sleep for as long as
 * they are told. `healthy CASE SECONDS` runs one of them; it ends by itself after that time, with status 0.
 */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "threads.h"

enum { TEAM = 4, NODES = 1 << 20 };

static double until;
static volatile uint64_t sink;
static int stop, arrived, generation, done;

/* Integer arithmetic, a long stretch of it between two readings of the clock. */
static uint64_t arithmetic(uint64_t x, long steps) {
    long i;
    for (i = 0; i < steps; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        x ^= x >> 33;
    }
    return x;
}

static void integers(void) {
    uint64_t x = 1;
    while (now_s() < until) {
        x = arithmetic(x, 400 * 1000 * 1000); /* about half a second */
    }
    sink = x;
}

struct node {
    struct node *next;
    uint64_t value;
};

/* Through memory, one node after the other, until the end of the list; again and again. */
static void chase(void) {
    struct node *nodes = calloc(NODES, sizeof *nodes);
    size_t i, at = 0;
    for (i = 0; nodes != NULL && i + 1 < NODES; i++) {
        size_t to = (at + 7919) & (NODES - 1); /* odd: it comes by all of them */
        nodes[at].next = &nodes[to];
        nodes[at].value = i;
        at = to;
    }
    while (nodes != NULL && now_s() < until) {
        int rounds;
        for (rounds = 0; rounds < 4; rounds++) {
            const struct node *each;
            uint64_t sum = 0;
            for (each = nodes; each != NULL; each = each->next) {
                sum += each->value;
            }
            sink += sum;
        }
    }
    free(nodes);
}

/* The loop's own call sets what it waits for. */
static int steps_left;
__attribute__((noinline)) static void step(void) {
    sink = arithmetic(sink, 50 * 1000 * 1000);
    if (now_s() > until) {
        done = 1;
    }
    steps_left++;
}

static void while_not_done(void) {
    while (!done) {
        step();
    }
}

/* A spin barrier, crossed again and again, nothing between two rounds. */
static void barrier(void) {
    int mine = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == TEAM) {
        __atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&generation, mine + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&generation, __ATOMIC_ACQUIRE) == mine) {
        sched_yield();
    }
}

static void *crosses(void *unused) {
    int over;
    do {
        over = now_s() > until;
        if (over) {
            __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
        }
        barrier();
        over = __atomic_load_n(&stop, __ATOMIC_ACQUIRE); /* the same for all: nobody sets it between the two barriers */
        barrier();
    } while (!over);
    return unused;
}

static void with_team(void *(*run)(void *)) {
    pthread_t team[TEAM];
    int i;
    for (i = 0; i < TEAM; i++) {
        team[i] = started(run, NULL);
    }
    for (i = 0; i < TEAM; i++) {
        pthread_join(team[i], NULL);
    }
}

static void spin_barrier(void) { with_team(crosses); }

/* A word that two set in turn, each spinning until the other has. */
static int whose;

static void *plays(void *me) {
    int mine = me != NULL;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&whose, __ATOMIC_ACQUIRE) != mine && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        }
        __atomic_store_n(&whose, !mine, __ATOMIC_RELEASE);
        if (now_s() > until) {
            __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

static void spin_ping_pong(void) {
    pthread_t other = started(plays, &whose);
    plays(NULL);
    pthread_join(other, NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;

static void *hands_over(void *me) {
    int mine = me != NULL, over = 0;
    while (!over) {
        pthread_mutex_lock(&mutex);
        while (whose != mine && !stop) {
            pthread_cond_wait(&turned, &mutex);
        }
        whose = !mine;
        stop = stop || now_s() > until;
        over = stop;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void condition_ping_pong(void) {
    pthread_t other = started(hands_over, &whose);
    hands_over(NULL);
    pthread_join(other, NULL);
}

/* Idle workers spin for work beside one that has some. */
static void *spins_for_work(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    }
    return unused;
}

static void *works(void *unused) {
    integers();
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    return unused;
}

static void idle_pool(void) {
    pthread_t idle[2] = {started(spins_for_work, NULL), started(spins_for_work, NULL)}, worker = started(works, NULL);
    pthread_join(worker, NULL);
    pthread_join(idle[0], NULL);
    pthread_join(idle[1], NULL);
}

/* A mutex as a semaphore: locked twice, and unlocked by another, who computes before that. */
static void *posts(void *unused) {
    integers();
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void mutex_as_semaphore(void) {
    pthread_t poster = started(posts, NULL);
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
    pthread_join(poster, NULL);
}

/* A thread that burns for ever beside one that naps, and then ends the process. */
static void *burns(void *unused) {
    for (;;) {
        sink++;
    }
    return unused;
}

static void naps(void);

static void burner(void) {
    started(burns, NULL);
    naps();
}

/* One that spins until another, which naps, sets its flag. */
static void late_flag(void) {
    pthread_t waiter = started(spins_for_work, NULL);
    naps();
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(waiter, NULL);
}

static void naps(void) { nap_ms((long)((until - now_s()) * 1000)); }

static void poll_loop(void) {
    while (now_s() < until) {
        (void)poll(NULL, 0, 5);
    }
}

/* A server that idles in accept, and its client, a process of its own, that comes when the time is over. */
static void server(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), peer;
    struct sockaddr_in here = {0};
    socklen_t size = sizeof here;
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&here, &size) != 0) {
        exit(2);
    }
    if (fork() == 0) {
        naps();
        peer = socket(AF_INET, SOCK_STREAM, 0);
        _exit(connect(peer, (struct sockaddr *)&here, sizeof here) != 0);
    }
    peer = accept(listener, NULL, NULL);
    if (peer < 0) {
        exit(2);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"integers", integers},
    {"chase", chase},
    {"while-not-done", while_not_done},
    {"spin-barrier", spin_barrier},
    {"spin-ping-pong", spin_ping_pong},
    {"condition-ping-pong", condition_ping_pong},
    {"idle-pool", idle_pool},
    {"mutex-as-semaphore", mutex_as_semaphore},
    {"burner", burner},
    {"late-flag", late_flag},
    {"naps", naps},
    {"poll-loop", poll_loop},
    {"server", server},
};

int main(int argc, char **argv) {
    size_t i;
    until = now_s() + (argc == 3 ? atof(argv[2]) : 0);
    for (i = 0; argc == 3 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "healthy CASE SECONDS\n");
    return 2;
}
