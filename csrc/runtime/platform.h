/*
 * platform.h: what differs between Linux and macOS. platform_linux.c and platform_macos.c each define all of it; both
 * are always compiled, and the one of the other system is empty. So does lt_lower_priority of livetrap_kernel.h.
 */
#ifndef LIVETRAP_PLATFORM_H
#define LIVETRAP_PLATFORM_H
#ifndef LIVETRAP_KERNEL
#define LIVETRAP_KERNEL
#endif
#include <livetrap.h>

/* 1: this system has no reading of threads from outside, so that the main thread must call lt_platform_probe. */
#if defined(__APPLE__)
#define LT_PLATFORM_PROBES 1
#define LT_OS_BARRIER "mutex and condition variable, as macOS has no pthread_barrier_t"
#else
#define LT_PLATFORM_PROBES 0
#define LT_OS_BARRIER "pthread_barrier_t"
#endif

/* Before the team is made: the handler that stores a thread's program counter, where there is one. */
void lt_platform_prepare(void);

/*
 * Places the calling thread and reads the placement back. `mask` has `words` words, or is NULL or all 0: anywhere;
 * `qos` 0: unchanged. Returns what goes into the slot: 0 nothing was asked, 1 read back as asked, else -errno.
 */
int32_t lt_platform_place(const uint64_t *mask, size_t words, int32_t qos);

/* One pass over this process's threads: CPU time and run state into their slots. */
void lt_platform_probe(struct lt_page_header *page);

/* Sleeps while `*word` is `seen`; may return early. Wakes all that sleep so. Why there is no such call, or NULL. */
void lt_word_wait(uint32_t *word, uint32_t seen);
void lt_word_wake_all(uint32_t *word);
const char *lt_word_unavailable(void);

/* The system's own barrier. */
void *lt_os_barrier_new(uint32_t n);
void lt_os_barrier_wait(void *barrier);
void lt_os_barrier_free(void *barrier);

#endif
