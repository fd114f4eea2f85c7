/*
 * team.h: the team of one trial, as the files of the runtime share it.
 */
#ifndef LIVETRAP_TEAM_H
#define LIVETRAP_TEAM_H
#ifndef LIVETRAP_KERNEL
#define LIVETRAP_KERNEL
#endif
#include <livetrap.h>

#include "trial.h"

enum lt_align { LT_ALIGN_NONE, LT_ALIGN_SPIN, LT_ALIGN_CLOCK };
enum lt_gate { LT_GATE_SHUT, LT_GATE_OPEN, LT_GATE_ABANDONED };

struct lt_member {
    struct lt_team *team;
    uint32_t index;
    pthread_t thread;
};

struct lt_team {
    const struct lt_trial *trial;
    const struct lt_kernel *kernel;
    const struct lt_technique *technique; /* NULL: none */
    void *technique_state;
    void *kernel_state;
    enum lt_align align;
    int silent;
    struct lt_page_header *page; /* NULL: none */
    struct lt_member *members;

    pthread_mutex_t lock; /* guards the four below */
    pthread_cond_t changed;
    enum lt_gate gate;
    uint32_t ready;
    uint32_t ended;

    uint32_t arrived; /* at the aligned start line */
    uint64_t go_ns;   /* its release: 0 not yet, else the clock time to start at */

    uint32_t outcome; /* enum lt_result, NONE until the first lt_wrong, lt_skip or lt_error */
    char message[LT_MESSAGE_BYTES];
};

/* Makes the team's threads, lets them run, and returns once all have ended. */
void lt_team_run(struct lt_team *team);

/* Before the team is made: the greatest delay of jitter, and the seed; then each thread, with its place in the team. */
void lt_jitter_prepare(uint32_t us, uint64_t seed);
void lt_jitter_seed(uint64_t place);

/* The kernel's parameter of that name, or NULL; the least and the greatest value that it can be given. */
const struct lt_param *lt_param_find(const struct lt_kernel *kernel, const char *name);
int64_t lt_param_least(const struct lt_param *param);
int64_t lt_param_most(const struct lt_param *param);

#endif
