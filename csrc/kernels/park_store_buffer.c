/*
 * park_store_buffer: a leader publishes requests; its workers answer, and sleep when there is none.
 *
 *     worker: parked = 1; is there a request? no: sleep        leader: request = n; is one parked? no: wake nobody
 *
 * Each stores one word and then reads the other's. A CPU puts its store into a buffer and may read before the store is
 * out, so that both can read the old value: the worker sleeps, the leader has woken nobody, and spins on the answer for
 * ever. Neither acquire nor release forbids it, on x86 as little as on arm64; a full fence between store and load does,
 * and it takes one on *both* sides. It hangs only where the two run at the same time: needs two CPUs.
 *
 * `fences` says which side has one. A worker polls a few times before it parks, and the leader takes a random time that
 * may be as long, so that the two meet often. With `park_ms` the sleep is a timed one: a lost wake-up then costs that
 * long, and is no hang. The check is a relaxed load, as the loop around it acquires: an acquire load of arm64 (ldar)
 * happens to wait for the store before it, which the language does not promise.
 *
 * Source: ClickHouse/silk#76, ClickHouse/silk#85; ooples/AiDotNet.Tensors#498; timed: kvcache-ai/Mooncake#1932.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include <sched.h>

#include "park_store_buffer_sleep.h"

#define SITE_ANSWERS 1u
#define SPINS_BEFORE_YIELD 2000u

enum { FENCES_NONE, FENCES_LEADER, FENCES_BOTH };

struct line {
    uint32_t word;
} __attribute__((aligned(LT_LINE)));

struct worker {
    struct line answered; /* the last request that it has answered */
    struct line parked;   /* it sleeps, or is about to */
    uint64_t answer;
    struct sleeper sleeper;
};

struct park {
    uint32_t rounds, park_ms, polls;
    int64_t fences;
    struct line request;
    uint64_t question;
    struct worker workers[];
};

static const struct lt_param params[] = {
    {"rounds", "how many requests", NULL, 1, 1000000000, 5000},
    {"fences", "who has a full fence between its store and its load", "none|leader|both", 0, 0, FENCES_NONE},
    {"park_ms", "how long a worker sleeps at most, in milliseconds; 0: until it is woken", NULL, 0, 600000, 0},
    {"polls", "how often a worker polls before it parks", NULL, 1, 1000000, 32},
};

static void *setup(struct lt_team *team) {
    uint32_t workers = lt_team_size(team) - 1, i;
    struct park *park = (struct park *)lt_alloc_lines(sizeof *park + workers * sizeof park->workers[0]);
    if (park == NULL) {
        lt_error(team, "no memory for %u workers", workers);
        return NULL;
    }
    park->rounds = (uint32_t)lt_team_param(team, "rounds");
    park->fences = lt_team_param(team, "fences");
    park->park_ms = (uint32_t)lt_team_param(team, "park_ms");
    park->polls = (uint32_t)lt_team_param(team, "polls");
    for (i = 0; i < workers; i++) {
        sleeper_init(&park->workers[i].sleeper);
    }
    return park;
}

static void finish(struct lt_team *team, void *state) {
    struct park *park = (struct park *)state;
    uint32_t i;
    for (i = 0; park != NULL && i + 1 < lt_team_size(team); i++) {
        sleeper_destroy(&park->workers[i].sleeper);
    }
    free(park);
}

/* Polls a few times, as it costs less than to sleep. */
static int requested(const struct park *park, uint32_t round) {
    uint32_t polls;
    for (polls = 0; polls < park->polls; polls++) {
        if (__atomic_load_n(&park->request.word, __ATOMIC_ACQUIRE) >= round) {
            return 1;
        }
        lt_pause();
    }
    return 0;
}

static void work(struct park *park, struct worker *worker) {
    uint32_t round;
    for (round = 1; round <= park->rounds; round++) {
        while (!requested(park, round)) {
            __atomic_store_n(&worker->parked.word, 1, __ATOMIC_RELEASE);
            if (park->fences == FENCES_BOTH) { /* BUG: without the fence, the load overtakes the store */
                __atomic_thread_fence(__ATOMIC_SEQ_CST);
            }
            if (__atomic_load_n(&park->request.word, __ATOMIC_RELAXED) < round) {
                sleeper_sleep(&worker->sleeper, park->park_ms);
            }
            __atomic_store_n(&worker->parked.word, 0, __ATOMIC_RELEASE);
        }
        worker->answer = ~park->question;
        __atomic_store_n(&worker->answered.word, round, __ATOMIC_RELEASE);
    }
}

static void await_answer(struct lt_team *team, struct park *park, uint32_t index, uint32_t round) {
    struct worker *worker = &park->workers[index];
    uint32_t spins = 0;
    while (__atomic_load_n(&worker->answered.word, __ATOMIC_ACQUIRE) != round) {
        lt_pause();
        if (++spins % SPINS_BEFORE_YIELD == 0) {
            sched_yield();
        }
    }
    if (worker->answer != ~park->question) {
        lt_wrong(team, "worker %u answered request %u with %llx, not %llx", index + 1, round,
                 (unsigned long long)worker->answer, (unsigned long long)~park->question);
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct park *park = (struct park *)state;
    uint32_t workers = lt_team_size(team) - 1, round, i;
    uint64_t random = lt_team_seed(team) | 1u;
    if (index > 0) {
        work(park, &park->workers[index - 1]);
        return;
    }
    for (round = 1; round <= park->rounds; round++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        for (i = 0; i < (random >> 33) % (2 * park->polls); i++) {
            lt_pause();
        }
        park->question = random;
        __atomic_store_n(&park->request.word, round, __ATOMIC_RELEASE);
        if (park->fences != FENCES_NONE) { /* BUG: without the fence, the loads overtake the store */
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
        }
        for (i = 0; i < workers; i++) {
            if (__atomic_load_n(&park->workers[i].parked.word, __ATOMIC_RELAXED)) {
                sleeper_wake(&park->workers[i].sleeper);
            }
        }
        lt_wait_begin(SITE_ANSWERS, LT_WAIT_SPIN);
        for (i = 0; i < workers; i++) {
            await_answer(team, park, i, round);
        }
        lt_wait_end();
        lt_beat();
    }
}

const struct lt_kernel lt_kernel_park_store_buffer = {
    .name = "park_store_buffer",
    .summary = "a leader wakes workers that say when they sleep: two words, each stored by one and read by the other",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
