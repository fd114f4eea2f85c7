/*
 * workers_waking_each_other: workers that wake one another for ever, as the one that could work is not on their list.
 *
 * A few tokens go from worker to worker, each by a way of its own, and gain something at each step. Who passes a token
 * on puts it into the next one's inbox, and wakes a sleeper: not that one, but whoever has slept for longest. A worker
 * that is woken and finds that there is work left wakes the next sleeper, so that in the end the right one is reached.
 * That rests on the list of sleepers. A worker that has put itself on it, and then finds a token after all, takes
 * itself off again; what `books` makes of the case that a waker has done that before:
 *
 *     blind     hangs    the count of sleepers goes down twice for one sleeper, and whoever came last is off the list,
 *                        and asleep. When a token lies in that one's inbox, all the others wake one another, look, find
 *                        nothing and sleep again, for ever. None of them uses much of a CPU, and none ever works
 *     checked   hangs    it looks first whether it is on the list, but lets go of the lock before it takes itself off
 *     exact     passes   looks and takes itself off in one step
 *
 * `window_us` is a sleep where that may go wrong: before the last look, or between the steps of `checked`; 0: none.
 * What comes of each token is checked.
 *
 * Source: lewissbaker/cppcoro#114, andreasbuhr/cppcoro#71 (there the count of sleepers is one too many).
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "workers_waking_each_other_sleepers.h"

#define MOST_TOKENS 32
#define SITE_WORK 1u

struct token {
    uint32_t step;
    uint64_t value;
} __attribute__((aligned(LT_LINE)));

struct worker {
    uint32_t tokens; /* in its inbox, a bit for each */
    int owes;        /* a wake-up to somebody else; its own business */
} __attribute__((aligned(LT_LINE)));

struct pool {
    uint32_t workers, tokens, steps, work;
    uint64_t seed;
    struct sleepers sleepers;
    uint32_t pending __attribute__((aligned(LT_LINE))); /* tokens that lie in inboxes */
    uint32_t under_way __attribute__((aligned(LT_LINE)));
    struct token token[MOST_TOKENS];
    struct worker *worker;
};

static const struct lt_param params[] = {
    {"books", "how a worker takes itself off the list of sleepers", BOOKS_CHOICES, 0, 0, BOOKS_BLIND},
    {"tokens", "how many go round", NULL, 1, MOST_TOKENS, 2},
    {"steps", "of each token", NULL, 1, 1000000000, 50000},
    {"work", "steps of arithmetic for each of those", NULL, 1, 1000000000, 20},
    {"window_us", "a sleep where the list may go wrong, in microseconds", NULL, 0, 1000000, 0},
};

static uint64_t mixed(uint64_t value, uint32_t times) {
    for (; times > 0; times--) {
        value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        value ^= value >> 29;
    }
    return value;
}

/* Who does that step of that token. */
static uint32_t worker_of(const struct pool *pool, uint32_t token, uint32_t step) {
    return (uint32_t)(mixed(pool->seed ^ ((uint64_t)token << 32 | step), 2) >> 32) % pool->workers;
}

static void finish(struct lt_team *team, void *state) {
    struct pool *pool = (struct pool *)state;
    uint32_t token, step;
    for (token = 0; pool != NULL && token < pool->tokens; token++) {
        uint64_t expected = token;
        for (step = 0; step < pool->steps; step++) {
            expected = mixed(expected + worker_of(pool, token, step), pool->work);
        }
        if (pool->token[token].value != expected) {
            lt_wrong(team, "token %u ends as %llx, not %llx", token, (unsigned long long)pool->token[token].value,
                     (unsigned long long)expected);
        }
    }
    if (pool != NULL) {
        free(pool->worker);
        free(pool->sleepers.bells);
        free(pool->sleepers.list);
        free(pool);
    }
}

static void *setup(struct lt_team *team) {
    struct pool *pool = (struct pool *)lt_alloc_lines(sizeof *pool);
    uint32_t token;
    if (pool == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    pool->workers = lt_team_size(team);
    pool->seed = lt_team_seed(team);
    pool->tokens = pool->under_way = pool->pending = (uint32_t)lt_team_param(team, "tokens");
    pool->steps = (uint32_t)lt_team_param(team, "steps");
    pool->work = (uint32_t)lt_team_param(team, "work");
    pool->sleepers.books = (enum books)lt_team_param(team, "books");
    pool->sleepers.window_us = (uint32_t)lt_team_param(team, "window_us");
    pool->worker = (struct worker *)lt_alloc_lines(pool->workers * sizeof(struct worker));
    if (pool->worker == NULL || !sleepers_init(&pool->sleepers, pool->workers)) {
        lt_error(team, "no memory for %u workers", pool->workers);
        return pool;
    }
    for (token = 0; token < pool->tokens; token++) {
        pool->token[token].value = token;
        pool->worker[worker_of(pool, token, 0)].tokens |= 1u << token;
    }
    return pool;
}

static int is_over(const struct pool *pool) { return __atomic_load_n(&pool->under_way, __ATOMIC_SEQ_CST) == 0; }

static uint32_t take(struct pool *pool, uint32_t me) {
    uint32_t tokens = __atomic_exchange_n(&pool->worker[me].tokens, 0, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&pool->pending, (uint32_t)__builtin_popcount(tokens), __ATOMIC_SEQ_CST);
    return tokens;
}

/* A wake-up that it cannot use itself, or could give to nobody, goes to the next sleeper, if there is work left. */
static void pass_on(struct pool *pool, struct worker *self) {
    int work_left = __atomic_load_n(&pool->pending, __ATOMIC_SEQ_CST) > 0;
    self->owes = self->owes && work_left && !wake_one(&pool->sleepers);
}

/* Sleeps until there are tokens for it, which it returns; 0: all is over. */
static uint32_t await_tokens(struct pool *pool, uint32_t me) {
    struct worker *self = &pool->worker[me];
    uint32_t tokens = 0;
    int waits = 0;
    while (tokens == 0 && !is_over(pool)) {
        announce_sleep(&pool->sleepers, me);
        if (!waits) {
            lt_wait_begin(SITE_WORK, LT_WAIT_UNTIMED); /* jitter, where asked for, holds it up here */
            waits = 1;
        }
        tokens = take(pool, me);
        if (tokens != 0 || is_over(pool)) {
            self->owes |= withdraw_sleep(&pool->sleepers, me);
            pass_on(pool, self);
        } else {
            pass_on(pool, self);
            sleep_until_rung(&pool->sleepers.bells[me]);
            tokens = take(pool, me);
            self->owes = tokens == 0;
        }
    }
    lt_wait_end();
    return tokens;
}

/* One step of one token, which then goes to the next worker. */
static void take_step(struct pool *pool, uint32_t me, uint32_t number) {
    struct token *token = &pool->token[number];
    token->value = mixed(token->value + me, pool->work);
    token->step++;
    lt_beat();
    if (token->step < pool->steps) {
        uint32_t next = worker_of(pool, number, token->step);
        __atomic_fetch_add(&pool->pending, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_or(&pool->worker[next].tokens, 1u << number, __ATOMIC_SEQ_CST);
        pool->worker[me].owes |= !wake_one(&pool->sleepers);
    } else if (__atomic_sub_fetch(&pool->under_way, 1, __ATOMIC_SEQ_CST) == 0) {
        uint32_t worker;
        for (worker = 0; worker < pool->workers; worker++) {
            ring(&pool->sleepers.bells[worker]);
        }
    }
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct pool *pool = (struct pool *)state;
    (void)team;
    while (!is_over(pool)) {
        uint32_t tokens = take(pool, index);
        if (tokens == 0) {
            tokens = await_tokens(pool, index);
        }
        for (; tokens != 0; tokens &= tokens - 1) {
            take_step(pool, index, (uint32_t)__builtin_ctz(tokens));
        }
    }
}

const struct lt_kernel lt_kernel_workers_waking_each_other = {
    .name = "workers_waking_each_other",
    .summary = "workers that pass tokens, and wake whoever has slept for longest",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
