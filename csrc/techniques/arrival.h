/*
 * arrival.h: the half that all counting techniques share, so that they differ only in how they wait.
 *
 * Threads arrive by one atomic addition, and the *returned* value tells who was last: reading the counter again would
 * see the next round's arrivals. The last one takes the counter back to 0 before it moves the generation word on, and
 * nobody can arrive for the next round before that. Each technique publishes and awaits the generation in its own way.
 */
#ifndef LIVETRAP_ARRIVAL_H
#define LIVETRAP_ARRIVAL_H
#ifndef LIVETRAP_KERNEL
#define LIVETRAP_KERNEL
#endif
#include <livetrap.h>

struct lt_arrival {
    uint32_t n;
    uint32_t arrived __attribute__((aligned(LT_LINE)));
    uint32_t generation __attribute__((aligned(LT_LINE)));
};

static inline void *lt_arrival_new(uint32_t n) {
    struct lt_arrival *arrival = (struct lt_arrival *)lt_alloc_lines(sizeof *arrival);
    if (arrival != NULL) {
        arrival->n = n;
    }
    return arrival;
}

/* Arrives; 1 for the last of the round, who has to publish the next generation. */
static inline int lt_arrive(struct lt_arrival *arrival) {
    if (__atomic_add_fetch(&arrival->arrived, 1, __ATOMIC_ACQ_REL) != arrival->n) {
        return 0;
    }
    __atomic_store_n(&arrival->arrived, 0, __ATOMIC_RELAXED);
    return 1;
}

#endif
