/*
 * child.c: from the forker's fork to the trial, in C, so that the child never enters the interpreter again: what it
 * would touch there it would first have to copy, page by page, and a kernel's threads would share it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "child.h"
#include "trial.h"

enum { PAGE_FD = 3, LAST_SIGNAL = 64 };

/* The interpreter ignores some signals and handles others. Too much output is cut (EFBIG), it does not kill. */
static void reset_signals(void) {
    struct sigaction action = {0};
    int number;
    action.sa_handler = SIG_DFL;
    for (number = 1; number <= LAST_SIGNAL; number++) {
        (void)sigaction(number, &action, NULL); /* SIGKILL, SIGSTOP and libc's own refuse: no matter */
    }
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGXFSZ, &action, NULL);
}

static void close_from(int first, int highest) {
    int fd;
#if defined(__linux__) && defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) {
        return;
    }
#endif
    for (fd = first; fd <= highest; fd++) {
        (void)close(fd);
    }
}

static int arrange_descriptors(const struct lt_child_fds *fds) {
    if (dup2(fds->output, STDOUT_FILENO) < 0 || dup2(fds->output, STDERR_FILENO) < 0) {
        return -1;
    }
    if (fds->page == PAGE_FD) { /* dup2 onto itself would leave close-on-exec as it is */
        (void)fcntl(PAGE_FD, F_SETFD, 0);
    } else if (fds->page >= 0 && dup2(fds->page, PAGE_FD) < 0) {
        return -1;
    }
    close_from(fds->page >= 0 ? PAGE_FD + 1 : PAGE_FD, fds->highest);
    return 0;
}

/* The forker has one thread, so "when the parent's thread ends" means "when the forker ends". */
static void die_with(pid_t parent) {
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) { /* it died before that took effect */
        _exit(127);
    }
}

__attribute__((noreturn)) static void run_child(const struct lt_trial *trial, const struct lt_child_fds *fds,
                                                pid_t parent) {
    sigset_t none;
    int code;
    reset_signals();
    die_with(parent);
    (void)setsid();
    if (arrange_descriptors(fds) != 0) {
        _exit(127);
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a hung trial is killed: what it printed must be out by then */
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    code = lt_trial_run(trial);
    (void)fflush(NULL);
    _exit(code);
}

int lt_child_start(const struct lt_trial *trial, const struct lt_child_fds *fds) {
    sigset_t all, before;
    pid_t parent = getpid();
    pid_t child;
    int error;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before); /* none of the forker's handlers may run in the child */
    child = fork();
    if (child == 0) {
        run_child(trial, fds, parent);
    }
    error = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return child > 0 ? (int)child : -error;
}

int lt_child_adopt_orphans(void) {
#if defined(__linux__)
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 ? 0 : -errno;
#else
    return -ENOSYS;
#endif
}
