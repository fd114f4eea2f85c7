/*
 * flag_handoff.getter: the getters of flag_handoff's flag, which its body `getter` calls at each step of the wait.
 *
 * Compiled one by one, this file and the kernel's cannot see into each other, and even the plain getter's wait ends.
 * With -flto the getter is inlined into the wait, its plain read is made once, before the loop: the wait never ends.
 *
 * Source: OpenDataPlane/odp#986.
 */
#define LIVETRAP_KERNEL
#include <livetrap.h>

#include "flag_reads.h"

uint32_t flag_handoff_get_plain(const uint32_t *flag) {
    return READ_PLAIN(flag); /* BUG: right only as long as no compiler sees the loop around the call */
}

uint32_t flag_handoff_get_volatile(const uint32_t *flag) {
    return READ_VOLATILE(flag);
}

uint32_t flag_handoff_get_relaxed(const uint32_t *flag) {
    return READ_RELAXED(flag);
}

uint32_t flag_handoff_get_acquire(const uint32_t *flag) {
    return READ_ACQUIRE(flag);
}
