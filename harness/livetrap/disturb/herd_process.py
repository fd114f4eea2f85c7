"""The process that keeps the hogs: run as a script, by no more than the interpreter itself.

Reads lines `COUNT CPU,CPU...` (no CPUs: anywhere) and sees to it that so many processes burn, answering each with a
dot. When whoever writes the lines is gone, it kills the hogs and ends; when it is killed itself, they end.
"""

import os
import signal
import sys

_STEPS = 100_000
"""Of a loop that does nothing, between two looks for the parent: a few ms."""


def burn(parent: int, cpus: tuple[int, ...]) -> None:
    """Burns CPU until `parent` is gone."""
    if cpus and sys.platform == "linux":
        os.sched_setaffinity(0, cpus)
    while os.getppid() == parent:
        for _ in range(_STEPS):
            pass


def fork(parent: int, cpus: tuple[int, ...]) -> int:
    """One more hog."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()  # Linux shares the CPU out among sessions first: all hogs in one would weigh no more than one
            burn(parent, cpus)
        finally:
            os._exit(0)
    return pid


def end(hogs: list[int]) -> None:
    """Kills them and waits for them."""
    for pid in hogs:
        os.kill(pid, signal.SIGKILL)
    for pid in hogs:
        os.waitpid(pid, 0)
    hogs.clear()


def main() -> None:
    """Serves until its input ends."""
    if sys.platform == "linux":
        try:  # noqa: SIM105  contextlib takes longer to import than all else here
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except OSError:
            pass  # it may not, then it stays as its parent is
    hogs: list[int] = []
    try:
        for line in sys.stdin:
            count, _, cpus = line.strip().partition(" ")
            end(hogs)
            for _ in range(int(count)):
                hogs.append(fork(os.getpid(), tuple(map(int, cpus.split(",") if cpus else ()))))  # noqa: PERF401
            sys.stdout.write(".")
            sys.stdout.flush()
    finally:
        end(hogs)


if __name__ == "__main__":
    main()
