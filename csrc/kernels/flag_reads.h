/*
 * flag_reads.h: how flag_handoff's flag is read, by its kind: in place, or by a getter that lies in a file of its own.
 *
 * A getter in another file hides a plain read as long as files are compiled one by one: a compiler must take it that a
 * call which it cannot see into may return something else each time. Link-time optimisation sees into it.
 */
#ifndef LIVETRAP_FLAG_READS_H
#define LIVETRAP_FLAG_READS_H
#include <livetrap.h>

enum flag_kind { FLAG_PLAIN, FLAG_VOLATILE, FLAG_RELAXED, FLAG_ACQUIRE, FLAG_KINDS };
#define FLAG_CHOICES "plain|volatile|relaxed|acquire"

#define READ_PLAIN(flag) (*(flag)) /* BUG: a plain read, which the compiler may make once for all */
#define READ_VOLATILE(flag) (*(const volatile uint32_t *)(flag))
#define READ_RELAXED(flag) __atomic_load_n((flag), __ATOMIC_RELAXED)
#define READ_ACQUIRE(flag) __atomic_load_n((flag), __ATOMIC_ACQUIRE)

uint32_t flag_handoff_get_plain(const uint32_t *flag);
uint32_t flag_handoff_get_volatile(const uint32_t *flag);
uint32_t flag_handoff_get_relaxed(const uint32_t *flag);
uint32_t flag_handoff_get_acquire(const uint32_t *flag);

#endif
