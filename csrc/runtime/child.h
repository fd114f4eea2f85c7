/*
 * child.h: how the forker starts the process of a trial.
 *
 * Plain declarations and nothing else: cffi reads this file once the lines that start with '#' are dropped.
 */
#ifndef LIVETRAP_CHILD_H
#define LIVETRAP_CHILD_H

struct lt_trial;

/* The descriptors of a child: `output` becomes its stdout and stderr, `page` its descriptor 3 (-1: none); all others
 * are closed, the highest of them being `highest`. */
struct lt_child_fds {
    int output;
    int page;
    int highest;
};

/*
 * Forks. The child has a session of its own, default signal handlers and no signal blocked, dies with its parent, runs
 * the trial and exits with what lt_trial_run returned. The caller gets the child's pid, or -errno when there is none.
 */
int lt_child_start(const struct lt_trial *trial, const struct lt_child_fds *fds);

/* Orphans among the caller's descendants become its children: 0, or -errno where the system cannot do that. */
int lt_child_adopt_orphans(void);

#endif
