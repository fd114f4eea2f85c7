"""The supervisor: owns the forker and, through it, all trials.

It does nothing until the harness or the forker has gone, for whatever reason; then it kills every descendant, in any
session, again and again until none is left, and ends. Only when the harness has said that the trial is to be left alive
does it wait for the forker to end, and kills nobody.

It never loads a module, so no kernel can harm it, and it is in a session of its own, so no terminal can. Imports next
to nothing, see the package.
"""

from __future__ import annotations

import os
import resource
import select
import sys
from _socket import socket

from livetrap.targets import forker
from livetrap.targets.messages import pack
from livetrap.targets.reaping import Bell, adopt_orphans, finder, ignore_terminal_signals, is_portable, kill_all, reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the same without its enums

OUTPUT_BYTES = 16 << 20
"""A trial's output is cut here; so is any file that it writes."""


def _limit() -> None:
    """For all trials: no core dumps, no endless output."""
    # With 0, Linux still makes a dump that core_pattern pipes to a program; a limit of 1 is its word for none at all.
    core = 1 if sys.platform.startswith("linux") else 0
    for which, soft in ((resource.RLIMIT_CORE, core), (resource.RLIMIT_FSIZE, OUTPUT_BYTES)):
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)  # noqa: PLW2901
        resource.setrlimit(which, (soft, hard))


def _harness_watch(pid: int) -> int | None:
    """A descriptor that becomes readable when the harness has gone, even if something else holds its socket open."""
    if os.getppid() != pid or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _fork_forker(control: socket, link: int, output: int, token: str, portable: bool) -> tuple[int, int]:
    """Process id of the forker, and the end of a pipe that tells it, by closing, that we have gone."""
    guard, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            control.close()
            os.close(ours)
            forker.main(harness=link, guard=guard, output=output, token=token, portable=portable)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(guard)
    os.close(link)
    return pid, ours


def _watch(control: socket, harness: int | None, forker_pid: int, bell: Bell) -> bool:
    """Returns when the harness or the forker has gone; True: all that is left is to be left alive."""
    poll = select.poll()
    ends = (control.fileno(), *(() if harness is None else (harness,)))
    for fd in (*ends, bell.fd):
        poll.register(fd, select.POLLIN)
    gone: list[int] = []
    leave = False
    while forker_pid not in gone:
        ready = {fd for fd, _ in poll.poll()}
        bell.silence()
        if ready - {bell.fd}:
            if control.fileno() not in ready or not control.recv(64):
                return False
            leave = True  # the one thing that the harness ever says to us
            control.sendall(pack(("leaving",)))
            for fd in ends:
                poll.unregister(fd)
        reap(lambda pid, *_: gone.append(pid))
    return leave


def main(arguments: list[str]) -> None:
    """`arguments`: descriptors of control, link and output, the token, the harness's pid, 1 for the portable way."""
    control_fd, link, output, harness_pid = map(int, (*arguments[:3], arguments[4]))
    token = arguments[3]
    portable = is_portable() or arguments[5] == "1"
    ignore_terminal_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _limit()
    control = socket(fileno=control_fd)
    forker_pid, _guard = _fork_forker(control, link, output, token, portable)
    bell = Bell()
    portable = portable or not adopt_orphans()
    harness = _harness_watch(harness_pid)
    try:
        control.sendall(pack(("ready", forker_pid)))
        if _watch(control, harness, forker_pid, bell):
            return
    except ConnectionError:
        pass
    kill_all(found=finder(token, portable=portable), bell=bell, on_exit=lambda *_: None, deadline_s=None)
