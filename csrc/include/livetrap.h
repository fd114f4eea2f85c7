/*
 * livetrap.h: heartbeats and wait marks for livetrap, the livelock harness.
 *
 * The one header that a kernel, or a program of your own, needs: header alone, C11 or C++11, GCC or Clang, Linux or
 * macOS, nothing to link but pthreads. Started by livetrap, the program finds a *page* of shared memory and writes its
 * beats and marks there; started by anything else, every call below does nothing and costs about a nanosecond.
 *
 *     lt_run();                               this thread computes from here on
 *     lt_beat();                              one unit of work is COMPLETE (never "still alive")
 *     lt_wait_begin(site, LT_WAIT_SPIN);      it waits for something here; `site` names the place, any number you like
 *     lt_wait_end();                          it has it, and goes on as it was marked before the wait
 *     lt_parked();                            idle, wants nothing (waiting for others to end, or for new work)
 *     lt_done();                              this thread's work is over
 *
 * The first call of a thread claims a slot in the page; the thread's exit frees it and adds its beats to the header.
 * Every store is relaxed and made by the slot's own thread, so a beat costs a few ns and adds no ordering that could
 * hide the bug under test.
 *
 * THE PAGE (ABI version 1). Little-endian, shared memory: a header of 1024 bytes, then `slot_count` slots of 128 bytes
 * (Apple's cache line). It reaches the program as the environment variable
 *
 *     LIVETRAP_PAGE=1:FD:NONCE:PATH           NONCE in hexadecimal; PATH may be empty
 *
 * Descriptors get lost on the way and their numbers reused, so magic, version, nonce and size are read with pread
 * before anything is mapped writable; if FD is not the page, PATH is opened; if that is not it either, the program
 * runs on without one. The harness writes line 0 of the header before the program starts, later only `request`; all
 * else it only reads.
 */
#ifndef LIVETRAP_H
#define LIVETRAP_H

#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* under -std=c11, pread and syscall are hidden without */
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#if defined(__GLIBC__) && !defined(__USE_MISC)
/* Under -std=c11, and a header of the system was included before this one: what it has hidden. */
#ifdef __cplusplus
extern "C" {
#endif
extern long syscall(long number, ...);
extern ssize_t pread(int fd, void *buffer, size_t size, off_t offset);
#ifdef __cplusplus
}
#endif
#endif
#ifndef O_CLOEXEC
#define O_CLOEXEC 02000000 /* hidden likewise */
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LT_ABI_VERSION 1u
#define LT_PAGE_MAGIC UINT64_C(0x454741505054524c) /* the bytes "LRTPPAGE" */
#define LT_HEADER_BYTES 1024u
#define LT_SLOT_BYTES 128u
#define LT_MESSAGE_BYTES 640u

/* What a thread is doing (slot field `mark`). */
enum lt_mark {
    LT_MARK_NONE = 0,   /* says nothing: the default */
    LT_MARK_RUN = 1,    /* computes */
    LT_MARK_WAIT = 2,   /* wants something that another thread, a timer or the outside must bring */
    LT_MARK_PARKED = 3, /* idle, wants nothing */
    LT_MARK_DONE = 4    /* its work is over */
};

/* How a thread waits (slot field `kind`); meaningful while the mark is LT_MARK_WAIT. */
enum lt_wait_kind {
    LT_WAIT_SPIN = 1,    /* polls memory, with or without pause, yield or short sleeps */
    LT_WAIT_UNTIMED = 2, /* sleeps until another thread wakes it */
    LT_WAIT_TIMED = 3,   /* sleeps until a timer ends it */
    LT_WAIT_OUTSIDE = 4  /* sleeps until something outside the process ends it */
};

/* Whether a thread runs, as the probe saw it (slot field `run_state`); 0 where there is no probe. */
enum lt_run_state { LT_STATE_UNKNOWN = 0, LT_STATE_RUNNING = 1, LT_STATE_ASLEEP = 2, LT_STATE_STOPPED = 3 };

/* What livetrap's own runtime reports of a kernel (header field `result`). */
enum lt_result {
    LT_RESULT_NONE = 0,    /* not finished */
    LT_RESULT_RIGHT = 1,   /* finished, the result is right */
    LT_RESULT_WRONG = 2,   /* finished, the result is wrong: `message` says how */
    LT_RESULT_SKIPPED = 3, /* this machine cannot do it: `message` says why */
    LT_RESULT_ERROR = 4    /* could not be set up: `message` says why */
};

struct lt_slot {
    uint64_t beats;       /*   0  units of work completed */
    uint32_t mark;        /*   8  enum lt_mark */
    uint32_t kind;        /*  12  enum lt_wait_kind */
    uint64_t site;        /*  16  where it waits, or last waited: the caller's number */
    uint64_t arrivals;    /*  24  waits that it has begun so far */
    uint32_t pid;         /*  32  */
    uint32_t generation;  /*  36  grows each time the slot is claimed */
    uint64_t tid;         /*  40  Linux: gettid(); macOS: pthread_threadid_np() */
    uint64_t cpu_ns;      /*  48  CPU time, by the probe; 0 = unknown */
    uint32_t run_state;   /*  56  enum lt_run_state, by the probe; 0 = unknown */
    uint32_t pc_signal;   /*  60  number of the signal that has `pc` stored; 0: no handler, never signal */
    uint64_t switches;    /*  64  times scheduled in, by the probe; 0 = unknown */
    uint64_t pc;          /*  72  last program counter stored */
    uint64_t pc_count;    /*  80  how many were stored */
    uint32_t claimed;     /*  88  0 free, 1 claimed */
    uint32_t resume;      /*  92  mark to go back to after the wait */
    int32_t placed;       /*  96  0 no placement asked for, 1 read back as asked, else -errno */
    uint32_t team_index;  /* 100  1 + this thread's number in livetrap's own team; 0 = not in one */
    uint32_t depth;       /* 104  waits that it is in, one within the other */
    uint32_t outer_kind;  /* 108  kind and ... */
    uint64_t outer_site;  /* 112  ... site of the outermost of several */
    uint8_t reserved[8];  /* 120  */
};

struct lt_page_header {
    /* Line 0: written by the harness. */
    uint64_t magic;
    uint32_t version;
    uint32_t slot_count;
    uint64_t nonce;
    uint64_t size;    /* of the whole page in bytes */
    uint32_t request; /* the harness's word to the probe; 0 = nothing */
    uint8_t reserved0[92];
    /* Line 1: threads that have gone. */
    uint64_t departed_beats; /* 128  sum of the beats of threads that have gone */
    uint64_t departed;       /* 136  how many have gone */
    uint32_t overflow;       /* 144  1: some thread found no free slot */
    uint32_t slots_used;     /* 148  no slot at or above this index was ever claimed */
    uint8_t reserved1[104];
    /* Line 2: livetrap's own runtime. */
    uint32_t probe_pid;    /* 256  the process, and ... */
    uint32_t team;         /* 260  size of the team; 0 = none */
    uint64_t probe_tid;    /* 264  ... the thread, which is the harness's own and not counted; 0 = none */
    uint64_t probe_passes; /* 272  passes of a probe that fills cpu_ns and run_state; 0 = it does not */
    uint64_t started_ns;   /* 280  CLOCK_MONOTONIC when the start line was released; 0 = not yet */
    uint64_t finished_ns;  /* 288  CLOCK_MONOTONIC when the whole team had ended; 0 = not yet */
    uint32_t result;       /* 296  enum lt_result */
    uint8_t reserved2[84];
    char message[LT_MESSAGE_BYTES]; /* 384  zero-terminated UTF-8, beside `result` */
};

#ifdef __cplusplus
static_assert(sizeof(struct lt_slot) == LT_SLOT_BYTES, "a slot is one Apple cache line");
static_assert(sizeof(struct lt_page_header) == LT_HEADER_BYTES, "the header is 1024 bytes");
#else
_Static_assert(sizeof(struct lt_slot) == LT_SLOT_BYTES, "a slot is one Apple cache line");
_Static_assert(sizeof(struct lt_page_header) == LT_HEADER_BYTES, "the header is 1024 bytes");
#endif

#define LT_LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define LT_STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
/* One definition for the whole program, from however many files include this header. */
#define LT_SHARED __attribute__((weak, visibility("hidden")))
#define LT_UNUSED __attribute__((unused))

/* Process-wide state; per-thread state. Not part of the ABI. */
struct lt_process {
    pthread_once_t once;
    struct lt_page_header *page; /* NULL: none */
    pthread_key_t key;           /* its destructor frees the slot at thread exit */
    uint32_t pc_signal;          /* what new slots say; set by livetrap's runtime only */
};
LT_SHARED struct lt_process lt_process = {PTHREAD_ONCE_INIT, NULL, 0, 0};
LT_SHARED __thread struct lt_slot *lt_thread_slot = NULL; /* NULL: not asked for yet */
#define LT_NO_SLOT ((struct lt_slot *)(uintptr_t)1) /* asked for and not got: no page, or none free */

static inline struct lt_slot *lt_slots(struct lt_page_header *page) {
    return (struct lt_slot *)(void *)((char *)page + LT_HEADER_BYTES);
}

static inline uint64_t lt_thread_id(void) {
#if defined(__linux__)
    return (uint64_t)syscall(SYS_gettid);
#elif defined(__APPLE__)
    uint64_t id = 0;
    pthread_threadid_np(NULL, &id);
    return id;
#else
    return (uint64_t)(uintptr_t)pthread_self();
#endif
}

/* The page behind a descriptor, mapped; NULL when the descriptor is not that page. */
LT_UNUSED static struct lt_page_header *lt_page_map(int fd, uint64_t nonce) {
    struct lt_page_header seen;
    struct stat status;
    void *at;
    if (pread(fd, &seen, 32, 0) != 32 || seen.magic != LT_PAGE_MAGIC || seen.version != LT_ABI_VERSION ||
        seen.nonce != nonce || fstat(fd, &status) != 0 || (uint64_t)status.st_size != seen.size ||
        seen.size != LT_HEADER_BYTES + (uint64_t)seen.slot_count * LT_SLOT_BYTES) {
        return NULL;
    }
    at = mmap(NULL, (size_t)seen.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : (struct lt_page_header *)at;
}

/* Finds the page that LIVETRAP_PAGE names; NULL without one. */
LT_UNUSED static struct lt_page_header *lt_page_find(const char *spec) {
    char *end;
    long fd;
    uint64_t nonce;
    struct lt_page_header *page;
    int opened;
    if (spec == NULL || strncmp(spec, "1:", 2) != 0) {
        return NULL;
    }
    fd = strtol(spec + 2, &end, 10);
    if (*end != ':') {
        return NULL;
    }
    nonce = (uint64_t)strtoull(end + 1, &end, 16);
    if (*end != ':') {
        return NULL;
    }
    page = fd >= 0 ? lt_page_map((int)fd, nonce) : NULL;
    if (page != NULL || end[1] == '\0') {
        return page;
    }
    opened = open(end + 1, O_RDWR | O_CLOEXEC);
    if (opened >= 0) {
        page = lt_page_map(opened, nonce);
        close(opened);
    }
    return page;
}

/* Thread exit: the slot's beats go to the header, the slot becomes free. */
LT_UNUSED static void lt_slot_free(void *at) {
    struct lt_slot *slot = (struct lt_slot *)at;
    struct lt_page_header *page = lt_process.page;
    lt_thread_slot = NULL;
    if (page == NULL || slot == NULL) {
        return;
    }
    __atomic_fetch_add(&page->departed_beats, LT_LOAD(slot->beats), __ATOMIC_RELAXED);
    __atomic_fetch_add(&page->departed, 1, __ATOMIC_RELAXED);
    LT_STORE(slot->pc_signal, 0u);
    LT_STORE(slot->mark, (uint32_t)LT_MARK_DONE);
    __atomic_store_n(&slot->claimed, 0u, __ATOMIC_RELEASE);
}

/* After fork the child has one thread, which drops its parent's slot and claims its own at its next call. */
LT_UNUSED static void lt_after_fork(void) {
    if (lt_thread_slot != NULL) {
        lt_thread_slot = NULL;
        pthread_setspecific(lt_process.key, NULL);
    }
}

LT_UNUSED static void lt_process_attach(void) {
    struct lt_page_header *page = lt_page_find(getenv("LIVETRAP_PAGE"));
    if (page != NULL && pthread_key_create(&lt_process.key, lt_slot_free) == 0) {
        pthread_atfork(NULL, NULL, lt_after_fork);
        lt_process.page = page;
    }
}

/* Claims a slot for the calling thread; LT_NO_SLOT without a page, or with none free. */
LT_UNUSED __attribute__((noinline)) static struct lt_slot *lt_slot_claim(void) {
    struct lt_page_header *page;
    uint32_t i, used, free_word, count;
    pthread_once(&lt_process.once, lt_process_attach);
    page = lt_process.page;
    lt_thread_slot = LT_NO_SLOT;
    if (page == NULL) {
        return LT_NO_SLOT;
    }
    count = page->slot_count;
    for (i = 0; i < count; i++) {
        struct lt_slot *slot = lt_slots(page) + i;
        free_word = 0;
        if (LT_LOAD(slot->claimed) != 0 || !__atomic_compare_exchange_n(&slot->claimed, &free_word, 1u, 0,
                                                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            continue;
        }
        LT_STORE(slot->beats, (uint64_t)0);
        LT_STORE(slot->mark, (uint32_t)LT_MARK_NONE);
        LT_STORE(slot->kind, 0u);
        LT_STORE(slot->site, (uint64_t)0);
        LT_STORE(slot->arrivals, (uint64_t)0);
        LT_STORE(slot->cpu_ns, (uint64_t)0);
        LT_STORE(slot->run_state, 0u);
        LT_STORE(slot->switches, (uint64_t)0);
        LT_STORE(slot->pc, (uint64_t)0);
        LT_STORE(slot->pc_count, (uint64_t)0);
        LT_STORE(slot->resume, (uint32_t)LT_MARK_NONE);
        LT_STORE(slot->placed, 0);
        LT_STORE(slot->team_index, 0u);
        LT_STORE(slot->depth, 0u);
        LT_STORE(slot->pid, (uint32_t)getpid());
        LT_STORE(slot->tid, lt_thread_id());
        LT_STORE(slot->pc_signal, lt_process.pc_signal);
        __atomic_store_n(&slot->generation, LT_LOAD(slot->generation) + 1u, __ATOMIC_RELEASE);
        used = LT_LOAD(page->slots_used);
        while (used < i + 1 && !__atomic_compare_exchange_n(&page->slots_used, &used, i + 1, 1, __ATOMIC_RELEASE,
                                                            __ATOMIC_RELAXED)) {
        }
        pthread_setspecific(lt_process.key, slot);
        lt_thread_slot = slot;
        return slot;
    }
    LT_STORE(page->overflow, 1u);
    return LT_NO_SLOT;
}

/* The calling thread's slot, which its first call claims; NULL: it has none. */
static inline struct lt_slot *lt_self(void) {
    struct lt_slot *slot = lt_thread_slot;
    if (__builtin_expect(slot == NULL, 0)) {
        slot = lt_slot_claim();
    }
    return __builtin_expect(slot != LT_NO_SLOT, 1) ? slot : NULL;
}

/* One unit of work is complete. */
LT_UNUSED static inline void lt_beat(void) {
    struct lt_slot *slot = lt_self();
    if (slot != NULL) {
        LT_STORE(slot->beats, LT_LOAD(slot->beats) + 1u);
    }
}

/* Whatever wait it was in is over. */
LT_UNUSED static inline void lt_set_mark(enum lt_mark mark) {
    struct lt_slot *slot = lt_self();
    if (slot != NULL) {
        LT_STORE(slot->depth, 0u);
        LT_STORE(slot->mark, (uint32_t)mark);
    }
}

/* This thread computes from here on. */
LT_UNUSED static inline void lt_run(void) { lt_set_mark(LT_MARK_RUN); }

/* This thread is idle and wants nothing. */
LT_UNUSED static inline void lt_parked(void) { lt_set_mark(LT_MARK_PARKED); }

/* This thread's work is over. */
LT_UNUSED static inline void lt_done(void) { lt_set_mark(LT_MARK_DONE); }

/*
 * This thread waits at `site`, in the manner of `kind`. Waits may lie within one another: while two do, the inner one
 * shows; a third and further ones only count.
 */
LT_UNUSED static inline void lt_wait_begin(uint64_t site, enum lt_wait_kind kind) {
    struct lt_slot *slot = lt_self();
    uint32_t depth;
    if (slot == NULL) {
        return;
    }
    depth = LT_LOAD(slot->depth);
    LT_STORE(slot->depth, depth + 1u);
    if (depth > 1u) {
        return;
    }
    if (depth == 0u) {
        LT_STORE(slot->resume, LT_LOAD(slot->mark));
    } else {
        LT_STORE(slot->outer_site, LT_LOAD(slot->site));
        LT_STORE(slot->outer_kind, LT_LOAD(slot->kind));
    }
    LT_STORE(slot->site, site);
    LT_STORE(slot->kind, (uint32_t)kind);
    LT_STORE(slot->arrivals, LT_LOAD(slot->arrivals) + 1u);
    LT_STORE(slot->mark, (uint32_t)LT_MARK_WAIT);
}

/* The wait is over: back to the wait around it, or to the mark before it. Without a wait it does nothing. */
LT_UNUSED static inline void lt_wait_end(void) {
    struct lt_slot *slot = lt_self();
    uint32_t depth = slot != NULL ? LT_LOAD(slot->depth) : 0u;
    if (depth == 0u) {
        return;
    }
    LT_STORE(slot->depth, depth - 1u);
    if (depth == 2u) {
        LT_STORE(slot->site, LT_LOAD(slot->outer_site));
        LT_STORE(slot->kind, LT_LOAD(slot->outer_kind));
    } else if (depth == 1u) {
        LT_STORE(slot->mark, LT_LOAD(slot->resume));
    }
}

#ifdef LIVETRAP_KERNEL /* for the files of csrc/kernels and csrc/techniques, and for a scenario's own kernel */
#include "livetrap_kernel.h"
#endif

#ifdef __cplusplus
}
#endif
#endif /* LIVETRAP_H */
