/*
 * priority_inversion: a thread of the lowest priority holds a spin lock, and one of normal priority spins on it.
 *
 * Both are on one CPU. The spinner wants the CPU all the time, and outranks the holder, which could release it: so the
 * holder gets next to none, and the wait lasts hundreds of times as long as the work that it waits for. To yield helps
 * where the scheduler passes the CPU to a lower priority too; with real-time priorities it goes to equals only. A lock
 * that sleeps takes the spinner out of the way, though nobody else who outranks the holder.
 *
 * Thread 0 holds: it takes the lock, lowers its own priority (unless `holder` says not to), and goes through its steps.
 * The last thread, where there are three or more, is a bystander that never wants the lock. With naps it shows that a
 * total of beats says nothing; without, that a lock that sleeps is no cure: it takes the spinner's place. All between
 * are spinners, which nap after each step: while they do, the holder takes the lock again. Fixed: only equals share it.
 *
 * Linux: nice 19. macOS: the quality-of-service class `background`; threads cannot be put on one CPU there, so that it
 * takes as many spinners as there are CPUs.
 *
 * Source: google/sanitizers#614; Kotlin/kotlinx-atomicfu#462 (macOS, iOS).
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include <sched.h>

#define SITE_LOCK 1u
#define NAP_US 5000u
#define POLL_US 50u

enum { LOCK_SPIN, LOCK_YIELD, LOCK_SLEEP };
enum { HOLDER_LOWERED, HOLDER_EQUAL };
enum { BYSTANDER_NAPS, BYSTANDER_COMPUTES };

struct inversion {
    int64_t lock_kind, holder, bystander;
    uint32_t steps, spinner_steps, work;
    uint32_t held __attribute__((aligned(LT_LINE)));
    uint32_t running __attribute__((aligned(LT_LINE))); /* threads that still have steps to make */
    uint32_t begun; /* the holder has the lock, and its priority */
    uint64_t made;  /* steps of all threads; guarded by the lock */
    pthread_mutex_t mutex;
};

static const struct lt_param params[] = {
    {"lock", "how a thread waits for the lock", "spin|yield|sleep", 0, 0, LOCK_SPIN},
    {"holder", "the priority of the thread that has it first", "lowered|equal", 0, 0, HOLDER_LOWERED},
    {"bystander", "what the last of three or more threads does between two beats", "naps|computes", 0, 0, 0},
    {"steps", "how often thread 0 takes the lock; the spinners a hundredth of that", NULL, 1, 1000000000, 1000},
    {"work", "steps of arithmetic while it has it", NULL, 1, 1000000000, 100000},
};

static void *setup(struct lt_team *team) {
    struct inversion *inversion = (struct inversion *)lt_alloc_lines(sizeof *inversion);
    if (inversion == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    inversion->lock_kind = lt_team_param(team, "lock");
    inversion->holder = lt_team_param(team, "holder");
    inversion->bystander = lt_team_param(team, "bystander");
    inversion->steps = (uint32_t)lt_team_param(team, "steps");
    inversion->spinner_steps = inversion->steps / 100 + 1;
    inversion->work = (uint32_t)lt_team_param(team, "work");
    inversion->running = lt_team_size(team) - (lt_team_size(team) > 2 ? 1 : 0);
    pthread_mutex_init(&inversion->mutex, NULL);
    return inversion;
}

static void lock(struct inversion *inversion) {
    if (inversion->lock_kind == LOCK_SLEEP) {
        lt_wait_begin(SITE_LOCK, LT_WAIT_UNTIMED);
        pthread_mutex_lock(&inversion->mutex);
        lt_wait_end();
        return;
    }
    lt_wait_begin(SITE_LOCK, LT_WAIT_SPIN);
    while (__atomic_exchange_n(&inversion->held, 1, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&inversion->held, __ATOMIC_RELAXED)) {
            if (inversion->lock_kind == LOCK_YIELD) {
                sched_yield();
            } else {
                lt_pause();
            }
        }
    }
    lt_wait_end();
}

static void unlock(struct inversion *inversion) {
    if (inversion->lock_kind == LOCK_SLEEP) {
        pthread_mutex_unlock(&inversion->mutex);
    } else {
        __atomic_store_n(&inversion->held, 0, __ATOMIC_RELEASE);
    }
}

static void compute(uint32_t steps) {
    uint64_t value = steps + 1;
    for (; steps > 0; steps--) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        __asm__ volatile("" : "+r"(value)); /* the work is not to be thought away */
    }
}

static void step(struct inversion *inversion) {
    uint64_t made = inversion->made;
    compute(inversion->work);
    inversion->made = made + 1;
}

/* The first step is the one in which the priority goes down, so that the others find the lock taken. */
static void hold(struct lt_team *team, struct inversion *inversion) {
    int failure = 0;
    uint32_t i;
    for (i = 0; i < inversion->steps; i++) {
        lock(inversion);
        if (i == 0) {
            if (inversion->holder == HOLDER_LOWERED) { /* BUG: below those who will wait for it */
                failure = lt_lower_priority();
            }
            if (failure != 0) {
                lt_skip(team, "the priority of a thread could not be lowered: %s", strerror(failure));
            }
            __atomic_store_n(&inversion->begun, 1, __ATOMIC_RELEASE);
        }
        step(inversion);
        unlock(inversion);
        lt_beat();
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct inversion *inversion = (struct inversion *)state;
    uint32_t i, last = lt_team_size(team) - 1;
    if (index == 0) {
        hold(team, inversion);
        __atomic_fetch_sub(&inversion->running, 1, __ATOMIC_RELEASE);
        return;
    }
    while (!__atomic_load_n(&inversion->begun, __ATOMIC_ACQUIRE)) {
        lt_sleep_us(POLL_US); /* marked RUN: on its way, and no part of any wait */
    }
    if (index == last && last > 1) {
        while (__atomic_load_n(&inversion->running, __ATOMIC_ACQUIRE) > 0) {
            compute(inversion->work);
            lt_beat();
            if (inversion->bystander == BYSTANDER_NAPS) {
                lt_sleep_us(NAP_US);
            }
        }
        return;
    }
    for (i = 0; i < inversion->spinner_steps; i++) {
        lock(inversion);
        step(inversion);
        unlock(inversion);
        lt_beat();
        lt_sleep_us(NAP_US);
    }
    __atomic_fetch_sub(&inversion->running, 1, __ATOMIC_RELEASE);
}

static void finish(struct lt_team *team, void *state) {
    struct inversion *inversion = (struct inversion *)state;
    uint32_t spinners = lt_team_size(team) - (lt_team_size(team) > 2 ? 2 : 1);
    uint64_t expected;
    if (inversion == NULL) {
        return;
    }
    expected = inversion->steps + (uint64_t)spinners * inversion->spinner_steps;
    if (inversion->made != expected) {
        lt_wrong(team, "%llu steps were counted, not %llu", (unsigned long long)inversion->made,
                 (unsigned long long)expected);
    }
    pthread_mutex_destroy(&inversion->mutex);
    free(inversion);
}

const struct lt_kernel lt_kernel_priority_inversion = {
    .name = "priority_inversion",
    .summary = "a thread of lowest priority holds a lock that others of normal priority spin on",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
