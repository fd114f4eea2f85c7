/*
 * writer_starvation: readers and one writer share a lock; readers go on as long as the writer has writes to make.
 *
 * The lock is one word: a count of the readers inside, and a bit that the writer claims. While the claim is up, no new
 * reader goes in. The buggy writer takes its claim back whenever it finds readers inside, and tries again later: with
 * several readers there is hardly ever a moment with none, so that it never gets in. Nothing stands still: the readers
 * go on, the sum of all beats grows, and only the writer's own beats tell. The fixed one leaves its claim up: those
 * inside leave, nobody follows, and it is its turn.
 *
 * With `read_ms`, the readers go on for that long only: the buggy lock then passes, as the writer gets in once they are
 * gone, however long it took. A single reader leaves the lock free between two reads, and two or three do now and then:
 * it takes several. Each reader checks that it never sees half a write.
 *
 * Source: netdata/netdata#22550.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#define SITE_WRITE 1u
#define SITE_READ 2u
#define CLAIM 0x80000000u
#define READER 1u
#define POLL_US 50u

enum { CLAIM_DROPPED, CLAIM_KEPT };

struct shared {
    int64_t claim;
    uint32_t writes, hold_us, nap_us;
    uint64_t read_ns;
    uint32_t word __attribute__((aligned(LT_LINE)));
    uint32_t reading __attribute__((aligned(LT_LINE))); /* readers that have begun */
    uint32_t done __attribute__((aligned(LT_LINE)));    /* the writer has made all its writes */
    uint64_t left, right; /* the writer's; the same wherever nobody is in the middle of a write */
};

static const struct lt_param params[] = {
    {"claim", "what the writer does with its claim while readers are inside", "dropped|kept", 0, 0, CLAIM_DROPPED},
    {"writes", "how many writes", NULL, 1, 1000000000, 20},
    {"read_ms", "for how long the readers read, in milliseconds; 0: until all writes are made", NULL, 0, 600000, 0},
    {"hold_us", "how long a reader stays inside, in microseconds", NULL, 0, 1000000, 50},
    {"nap_us", "how long the writer sleeps before it tries again, in microseconds", NULL, 0, 1000000, 200},
};

static void *setup(struct lt_team *team) {
    struct shared *shared = (struct shared *)lt_alloc_lines(sizeof *shared);
    if (shared == NULL) {
        lt_error(team, "no memory for the kernel");
        return NULL;
    }
    shared->claim = lt_team_param(team, "claim");
    shared->writes = (uint32_t)lt_team_param(team, "writes");
    shared->read_ns = (uint64_t)lt_team_param(team, "read_ms") * 1000000u;
    shared->hold_us = (uint32_t)lt_team_param(team, "hold_us");
    shared->nap_us = (uint32_t)lt_team_param(team, "nap_us");
    return shared;
}

static int try_read(struct shared *shared) {
    uint32_t seen = __atomic_load_n(&shared->word, __ATOMIC_RELAXED);
    return (seen & CLAIM) == 0 && __atomic_compare_exchange_n(&shared->word, &seen, seen + READER, 0, __ATOMIC_ACQUIRE,
                                                              __ATOMIC_RELAXED);
}

static void read_lock(struct shared *shared) {
    if (try_read(shared)) {
        return;
    }
    lt_wait_begin(SITE_READ, LT_WAIT_SPIN);
    while (!try_read(shared)) {
        lt_pause();
    }
    lt_wait_end();
}

static void read_unlock(struct shared *shared) { __atomic_fetch_sub(&shared->word, READER, __ATOMIC_RELEASE); }

static void write_lock(struct shared *shared) {
    lt_wait_begin(SITE_WRITE, LT_WAIT_SPIN);
    while ((__atomic_fetch_or(&shared->word, CLAIM, __ATOMIC_ACQUIRE) & ~CLAIM) != 0) {
        if (shared->claim == CLAIM_DROPPED) {
            __atomic_fetch_and(&shared->word, ~CLAIM, __ATOMIC_RELAXED); /* BUG: lets the next readers in */
        }
        lt_sleep_us(shared->nap_us);
    }
    lt_wait_end();
}

static void write_unlock(struct shared *shared) { __atomic_fetch_and(&shared->word, ~CLAIM, __ATOMIC_RELEASE); }

/* Begins when all readers have: the lock is contended from the first write on. */
static void write_all(struct shared *shared, uint32_t readers) {
    uint32_t i;
    while (__atomic_load_n(&shared->reading, __ATOMIC_RELAXED) < readers) {
        lt_sleep_us(POLL_US);
    }
    for (i = 0; i < shared->writes; i++) {
        write_lock(shared);
        shared->left++;
        lt_compute_us(1);
        shared->right++;
        write_unlock(shared);
        lt_beat();
    }
    __atomic_store_n(&shared->done, 1, __ATOMIC_RELAXED);
}

static void thread(struct lt_team *team, void *state, uint32_t index) {
    struct shared *shared = (struct shared *)state;
    uint64_t began = lt_now_ns();
    uint32_t reads;
    if (index == 0) {
        write_all(shared, lt_team_size(team) - 1);
        return;
    }
    for (reads = 0; shared->read_ns == 0 || lt_now_ns() - began < shared->read_ns; reads++) {
        if (__atomic_load_n(&shared->done, __ATOMIC_RELAXED)) {
            return;
        }
        read_lock(shared);
        if (reads == 0) {
            __atomic_fetch_add(&shared->reading, 1, __ATOMIC_RELAXED);
        }
        if (shared->left != shared->right) {
            lt_wrong(team, "reader %u is inside during a write: %llu and %llu", index,
                     (unsigned long long)shared->left, (unsigned long long)shared->right);
        }
        lt_compute_us(shared->hold_us);
        read_unlock(shared);
        lt_beat();
    }
}

static void finish(struct lt_team *team, void *state) {
    struct shared *shared = (struct shared *)state;
    if (shared != NULL && shared->left != shared->writes) {
        lt_wrong(team, "%llu writes were made, not %u", (unsigned long long)shared->left, shared->writes);
    }
    free(shared);
}

const struct lt_kernel lt_kernel_writer_starvation = {
    .name = "writer_starvation",
    .summary = "readers and one writer share a lock of one word",
    .uses_technique = 0,
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .setup = setup,
    .thread = thread,
    .finish = finish,
};
