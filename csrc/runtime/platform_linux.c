/*
 * platform_linux.c: affinity with read back, the handler that stores a program counter, futexes, pthread_barrier_t.
 * Clocks and states of threads are read from outside on Linux (schedstat), so there is no probe.
 */
#include "platform.h"

#if defined(__linux__)

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/resource.h>
#include <ucontext.h>

#define MASK_WORDS 128 /* 8192 CPUs, the most that Linux can be built for */
#define PC_SIGNAL (SIGRTMIN + 5)

#if defined(__x86_64__) || defined(__aarch64__)
/*
 * Runs in a thread that was found awake, and only ever stores. It reads the thread's slot without claiming one: a
 * thread is only signalled when its slot says so, so that its thread-local storage is there already.
 */
static void store_pc(int signal, siginfo_t *info, void *at) {
    const ucontext_t *context = (const ucontext_t *)at;
    struct lt_slot *slot = lt_thread_slot;
    (void)signal;
    (void)info;
    if (slot == NULL || slot == LT_NO_SLOT) {
        return;
    }
#if defined(__x86_64__)
    LT_STORE(slot->pc, (uint64_t)context->uc_mcontext.gregs[REG_RIP]);
#else
    LT_STORE(slot->pc, (uint64_t)context->uc_mcontext.pc);
#endif
    __atomic_store_n(&slot->pc_count, LT_LOAD(slot->pc_count) + 1u, __ATOMIC_RELEASE);
}

void lt_platform_prepare(void) {
    struct sigaction action;
    sigset_t unblocked;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = store_pc;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigemptyset(&unblocked);
    sigaddset(&unblocked, PC_SIGNAL);
    if (sigaction(PC_SIGNAL, &action, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &unblocked, NULL) == 0) {
        lt_process.pc_signal = (uint32_t)PC_SIGNAL;
    }
}
#else
void lt_platform_prepare(void) {}
#endif

static int is_empty(const uint64_t *mask, size_t words) {
    size_t i;
    for (i = 0; i < words; i++) {
        if (mask[i] != 0) {
            return 0;
        }
    }
    return 1;
}

/* The system calls themselves: glibc's cpu_set_t ends at 1024 CPUs, and Linux writes its masks as words. */
int32_t lt_platform_place(const uint64_t *mask, size_t words, int32_t qos) {
    unsigned long want[MASK_WORDS] = {0}, got[MASK_WORDS] = {0};
    size_t i, per_word = sizeof(uint64_t) / sizeof(unsigned long);
    if (mask == NULL || is_empty(mask, words)) {
        return qos == 0 ? 0 : -ENOTSUP;
    }
    for (i = 0; i < words * per_word; i++) {
        unsigned long bits = (unsigned long)(mask[i / per_word] >> (i % per_word * 8 * sizeof(unsigned long)));
        if (i < MASK_WORDS) {
            want[i] = bits;
        } else if (bits != 0) {
            return -EINVAL;
        }
    }
    if (syscall(SYS_sched_setaffinity, 0, sizeof want, want) != 0 ||
        syscall(SYS_sched_getaffinity, 0, sizeof got, got) < 0) {
        return -errno;
    }
    return memcmp(want, got, sizeof want) == 0 ? 1 : -ENODEV; /* some CPU of the mask is not there for us */
}

/*
 * Linux has a priority for each thread, whatever POSIX says of processes. SCHED_IDLE would be lower still, but a thread
 * that gets so little CPU time needs seconds to die when it is killed on a busy machine.
 */
int lt_lower_priority(void) {
    return setpriority(PRIO_PROCESS, (id_t)lt_thread_id(), 19) == 0 ? 0 : errno;
}

void lt_platform_probe(struct lt_page_header *page) { (void)page; }

void lt_word_wait(uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void lt_word_wake_all(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

const char *lt_word_unavailable(void) { return NULL; }

void *lt_os_barrier_new(uint32_t n) {
    pthread_barrier_t *barrier = (pthread_barrier_t *)calloc(1, sizeof *barrier);
    if (barrier != NULL && pthread_barrier_init(barrier, NULL, n) != 0) {
        free(barrier);
        return NULL;
    }
    return barrier;
}

void lt_os_barrier_wait(void *barrier) { pthread_barrier_wait((pthread_barrier_t *)barrier); }

void lt_os_barrier_free(void *barrier) {
    pthread_barrier_destroy((pthread_barrier_t *)barrier);
    free(barrier);
}

#endif /* __linux__ */
