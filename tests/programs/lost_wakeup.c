/*
 * lost_wakeup: a helper that sleeps without looking whether it was woken already: a rare hang.
 *
 * For each job, the main thread starts a helper, fetches the job, and signals that it is there. The helper makes itself
 * ready and waits for that signal. If it comes to its wait after the signal, it waits for ever, as a condition variable
 * remembers nothing. Fetching takes 100 ms of time, making ready 18 ms of a CPU: on a quiet machine the helper is there
 * long before; where others want the CPU, too, 18 ms of it may take longer than 100 ms.
 * With -DFIXED it looks first, and in a loop: the flag remembers.
 *
 *     lost_wakeup [JOBS [FETCH_MS]]
 *
 * Source: a wait without a predicate, which pthread_cond_wait of POSIX warns of. Lost wake-ups of this family in the
 * field: babbaj/nether-pathfinder#32, wpilibsuite/allwpilib#9423.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define READY_US 18000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int there; /* the job */

static uint64_t cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Integer work for that much CPU time. */
static void work(uint64_t us) {
    uint64_t value = us | 1u, until = cpu_us() + us;
    while (cpu_us() < until) {
        int i;
        for (i = 0; i < 512; i++) {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
        __asm__ volatile("" : "+r"(value)); /* the work is not to be thought away */
    }
}

static void *help(void *unused) {
    work(READY_US);
    pthread_mutex_lock(&lock);
#ifdef FIXED
    while (!there) {
        pthread_cond_wait(&came, &lock);
    }
#else
    pthread_cond_wait(&came, &lock); /* BUG: it may be there already, and nobody signals twice */
#endif
    pthread_mutex_unlock(&lock);
    return unused;
}

static int do_job(long fetch_ms) {
    struct timespec left = {fetch_ms / 1000, fetch_ms % 1000 * 1000000L};
    pthread_t helper;
    there = 0;
    if (pthread_create(&helper, NULL, help, NULL) != 0) {
        return 0;
    }
    nanosleep(&left, NULL);
    pthread_mutex_lock(&lock);
    there = 1;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&lock);
    return pthread_join(helper, NULL) == 0;
}

int main(int count, char **words) {
    unsigned long job, jobs = count > 1 ? strtoul(words[1], NULL, 10) : 5;
    long fetch_ms = count > 2 ? strtol(words[2], NULL, 10) : 100;
    for (job = 0; job < jobs; job++) {
        if (!do_job(fetch_ms)) {
            return 2;
        }
    }
    puts("done");
    return 0;
}
