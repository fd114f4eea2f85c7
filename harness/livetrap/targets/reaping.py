"""Kills all that the calling process owns, and reaps it. Imports next to nothing, see the package.

On Linux both are subreapers: when a process dies, what it had started becomes a child of the nearer of the two. So it
is enough to kill *children*, again and again, until there is none: then there is no descendant either, in whatever
session. And a child's number cannot be taken by another process before we have reaped it, so no stranger is ever hit.
"""

# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable

    Found = Callable[[], list[int]]
    OnExit = Callable[[int, int, float], None]
    """Called with pid, wait status and CPU time in s for each child reaped."""
else:
    import _signal as signal  # the same without its enums

TOKEN = "LIVETRAP_SUPERVISOR"
"""Environment variable that marks every process below a supervisor; where nothing else finds a process, this does."""


_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>


def children(pid: int) -> list[int]:
    """Children of a process with one thread, by the kernel's own list; in its absence, by looking at every process.

    The list may miss one while another exits: ask again until wait() says that there is none.
    """
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return [child for child in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(child) == pid]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


class Bell:
    """Becomes readable when a child has exited: SIGCHLD writes into a pipe."""

    def __init__(self) -> None:
        self.fd, writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def silence(self) -> None:
        """Takes note of what has rung so far. Do this before reaping."""
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            pass

    def wait(self, at_most_s: float) -> None:
        """Until it rings, or that long."""
        self._poll.poll(max(1, round(at_most_s * 1000)))
        self.silence()


def adopt_orphans() -> bool:
    """True: orphans among the caller's descendants become its children from here on (Linux)."""
    import ctypes  # noqa: PLC0415  late: a forker that only runs kernels must not carry it

    return bool(ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0)


def ignore_terminal_signals() -> None:
    """Who is asked to end is the harness; these two end when it has gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def reap(on_exit: OnExit) -> bool:
    """Reaps every child that has exited; True: no child is left."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        on_exit(pid, status, usage.ru_utime + usage.ru_stime)


def kill_all(*, found: Found, bell: Bell, on_exit: OnExit, deadline_s: float | None) -> tuple[int, list[int]]:
    """Kills what `found` finds until it finds nothing and no child is left: how many were killed, and who is left.

    `deadline_s`: give up after that; None: never.
    """
    end = None if deadline_s is None else time.monotonic() + deadline_s
    killed: set[int] = set()
    count = 0

    def gone(pid: int, status: int, cpu_s: float) -> None:
        killed.discard(pid)  # from here on the number may be another's
        on_exit(pid, status, cpu_s)

    while True:
        bell.silence()
        no_child = reap(gone)
        alive = found()
        if no_child and not alive:
            return count, []
        killed.intersection_update(alive)
        for pid in alive:
            if pid not in killed:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
                killed.add(pid)
                count += 1
        if end is not None and time.monotonic() >= end:
            return count, alive
        bell.wait(0.005)


def finder(token: str, *, portable: bool, spare: Iterable[int] = ()) -> Found:
    """What finds the processes that the caller owns, but for those to spare.

    `portable`: for a system without subreapers, as macOS.
    """
    me = os.getpid()
    if not portable:
        return lambda: children(me)
    from livetrap.targets.portable import Finder  # noqa: PLC0415  it needs psutil, which Linux does without here

    return Finder(token, spare=(me, *spare)).find


def is_portable() -> bool:
    """Whether this system has no subreapers and no /proc."""
    return not sys.platform.startswith("linux")
