"""How the forker starts a command: a program of its own, in a session of its own. Imports next to nothing, see the
package."""

from __future__ import annotations

import fcntl
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from livetrap.targets.messages import Message
else:
    import _signal as signal  # the same without its enums

PAGE_FD = 3
"""The page's descriptor in a trial's process."""
_ABOVE = 10
"""Descriptors from here on are in nobody's way."""


def spawn(message: Message, *, page: int, output: int) -> int:
    """Starts the command of a message (`command.launch_message`); its process id. OSError: it cannot be started.

    It finds nothing but /dev/null, the output twice and the page; all that is the forker's closes on exec. It starts
    without a fork (glibc: vfork), so it costs the same however large the forker is.
    """
    values: Any = message
    _, path, argv, environment, folder, cpus, limits = values
    fds = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in (page, output)]
    try:
        return _placed(path, argv, dict(environment), folder, cpus, dict(limits), fds)
    finally:
        for fd in fds:
            os.close(fd)


def _placed(
    path: bytes,
    argv: tuple[bytes, ...],
    environment: dict[bytes, bytes],
    folder: bytes,
    cpus: tuple[int, ...],
    limits: dict[int, int],
    fds: list[int],
) -> int:
    """Folder, limits and CPUs are handed on by having them: they are put back once the command has started."""
    home = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    before = [(which, resource.getrlimit(which)) for which in limits]
    ours = _pin(cpus) if cpus else None
    try:
        os.chdir(folder)
        for which, (_, hard) in before:
            resource.setrlimit(which, (limits[which], hard))
        return _start(path, argv, environment, *fds)
    finally:
        for which, both in before:
            resource.setrlimit(which, both)
        os.fchdir(home)
        os.close(home)
        if sys.platform == "linux" and ours is not None:
            os.sched_setaffinity(0, ours)


def _pin(cpus: tuple[int, ...]) -> set[int] | None:
    """Moves this process to those CPUs; where it was allowed before. OSError: not all of them may be had."""
    if sys.platform != "linux":
        raise OSError("this system cannot place a process on chosen CPUs")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    got = os.sched_getaffinity(0)
    if got != set(cpus):
        os.sched_setaffinity(0, before)
        raise OSError(f"of the CPUs {sorted(cpus)} it may have {sorted(got)} only")
    return before


def _start(path: bytes, argv: tuple[bytes, ...], environment: dict[bytes, bytes], page: int, output: int) -> int:
    unmovable = {signal.SIGKILL, signal.SIGSTOP}
    return os.posix_spawn(
        path,
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, b"/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
            (os.POSIX_SPAWN_DUP2, page, PAGE_FD),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - unmovable,
    )
