"""A kernel that misbehaves in any way that is asked for, and what runs it. Thread 0 acts; the others end at once."""

from __future__ import annotations

from pathlib import Path

import psutil

from livetrap.build import Built, Compiler, build, find_compiler
from livetrap.model import BuildSpec, Placement, PlannedTrial, Rules, VariantRole
from livetrap.page import Page
from livetrap.targets.reaping import TOKEN
from livetrap.targets.supervisor import Launched, Supervisor

ACTS = (
    *("end", "spin", "family", "daemon", "close_all", "abort", "say", "flood", "look", "patricide", "chain", "orphan"),
    *("stop", "everyone"),
)

SOURCE = r"""
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int nothing;
static void spin(void) { for (;;) lt_pause(); }

/* A process in a session of its own, whose parent is gone. */
static void daemonise(void) {
    if (fork() == 0) {
        (void)setsid();
        if (fork() != 0) _exit(0);
        signal(SIGTERM, SIG_IGN);
        for (int fd = 0; fd < 100; fd++) close(fd);
        spin();
    }
    (void)wait(NULL);
}

/* A child, a grandchild in another session, an orphaned daemon, and a program without our environment. */
static void family(void) {
    daemonise();
    if (fork() == 0) {
        if (fork() == 0) { (void)setsid(); spin(); }
        if (fork() == 0) {
            char *words[] = {"sleep", "1000", NULL}, *none[] = {NULL};
            (void)setsid();
            execve("/bin/sleep", words, none);
            _exit(1);
        }
        spin();
    }
    puts("born");
    spin();
}

/* Each process starts the next and ends: a list of them is always out of date. */
static void chain(void) {
    if (fork() == 0) {
        (void)setsid();
        for (;;) {
            usleep(300);
            if (fork() > 0) _exit(0);
        }
    }
}

static void look(void) {
    struct rlimit core, size;
    sigset_t blocked;
    struct sigaction interrupt, cut;
    int open_fds = 0, blocked_count = 0;
    for (int fd = 0; fd < 1000; fd++) open_fds += fcntl(fd, F_GETFD) >= 0;
    getrlimit(RLIMIT_CORE, &core);
    getrlimit(RLIMIT_FSIZE, &size);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number < 32; number++) blocked_count += sigismember(&blocked, number) == 1;
    sigaction(SIGINT, NULL, &interrupt);
    sigaction(SIGXFSZ, NULL, &cut);
    printf("fds=%d leader=%d blocked=%d interrupt=%d cut=%d core=%d size=%ld page=%s mine=%s stdin=%d\n", open_fds,
           getsid(0) == getpid(), blocked_count, interrupt.sa_handler == SIG_DFL, cut.sa_handler == SIG_IGN,
           core.rlim_cur <= 1, (long)size.rlim_cur, getenv("LIVETRAP_PAGE"), getenv("MINE"), (int)read(0, &core, 1));
}

static void act(int64_t what) {
    static char block[1 << 16];
    switch (what) {
    case 1: spin(); break;
    case 2: family(); break;
    case 3: daemonise(); break;
    case 4: for (int fd = 0; fd < 1000; fd++) close(fd); spin(); break;
    case 5: fputs("this is why\n", stderr); abort();
    case 6: printf("\033[31mred\033[0m \033]0;title\007and \a\342\200\256plain\n"); spin(); break;
    case 7:
        memset(block, 'x', sizeof block);
        for (int i = 0; i < 512 && write(1, block, sizeof block) > 0; i++) {}
        break;
    case 8: look(); break;
    case 9: kill(getppid(), SIGKILL); spin(); break;
    case 10: chain(); break;
    case 11: if (fork() == 0) { usleep(20000); _exit(0); } break;
    case 12: raise(SIGSTOP); break;
    default: break;
    }
}

static void *setup(struct lt_team *team) { (void)team; return &nothing; }
static void thread(struct lt_team *team, void *state, uint32_t index) {
    (void)state;
    int64_t what = lt_team_param(team, "act");
    if (what == 13) spin();
    if (index == 0) act(what);
}
static void finish(struct lt_team *team, void *state) { (void)team; (void)state; }
static const struct lt_param params[] = {{"act", "what thread 0 does", NULL, 0, 100, 0}};
const struct lt_kernel lt_kernel_acts = {.name = "acts", .summary = "misbehaves", .params = params, .param_count = 1,
                                         .setup = setup, .thread = thread, .finish = finish};
"""


def built(folder: Path) -> Built | None:
    """The kernel, built with whatever compiler there is; None: there is none."""
    folder.mkdir(exist_ok=True)
    file = folder / "acts.c"
    if not file.exists():
        file.write_text(SOURCE)
    for name in ("gcc", "clang"):
        compiler = find_compiler(name)
        if isinstance(compiler, Compiler):
            spec = BuildSpec(compiler=name, flags=("-O1",), kernel="acts", kernel_file=str(file))
            return build(spec, compiler=compiler, cache=folder / "cache")
    return None


def trial(threads: int = 1, *, placement: Placement | None = None) -> PlannedTrial:
    """A trial of the kernel."""
    return PlannedTrial(
        ordinal=0,
        scenario="acts",
        variant="acts",
        role=VariantRole.BUGGY,
        cell={},
        build=BuildSpec(compiler="gcc", flags=("-O1",), kernel="acts"),
        kernel="acts",
        technique="",
        parameters={},
        threads=threads,
        align="none",
        seed=(1 << 64) - 1,
        placement=placement or Placement(requested="free"),
        rules=Rules(),
        expected=(),
    )


def launch(supervisor: Supervisor, module: Built, page: Page, act: str, *, threads: int = 1) -> Launched:
    """Starts a trial that does that."""
    return supervisor.launch(built=module, trial=trial(threads), page=page, arguments={"act": ACTS.index(act)})


def lives(process: psutil.Process) -> bool:
    """It is there and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def marked(token: str) -> list[int]:
    """Live processes that have a supervisor's token in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TOKEN) == token and lives(process):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def token_of(pid: int) -> str:
    """The token of a supervisor's process."""
    return psutil.Process(pid).environ()[TOKEN]


def below(pid: int) -> list[psutil.Process]:
    """Everything that descends from a process now."""
    return psutil.Process(pid).children(recursive=True)
