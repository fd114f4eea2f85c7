"""Holds processes still while a debugger reads them, and sees to it that they go on afterwards.

A debugger stops thread after thread; each stop waits until that thread gets a CPU, while the others spin on. With 64
spinning threads on 2 CPUs that took eu-stack 23 s, and 0.3 s with the process stopped as a whole before.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from livetrap import tools

_STOP_S = 0.5
"""Longest wait until all threads have stopped."""
_POLL_S = 0.002
_TRIES = 3
_AWAKE = frozenset("RS")
# Goes on when the harness has ended, by whatever: nothing stays stopped.
_GUARD = 'read _; kill -CONT "$@" 2>/dev/null'


@contextlib.contextmanager
def held(pids: Iterable[int]) -> Iterator[None]:
    """Stops those processes that are not stopped yet (Linux), and lets these, and only these, go on at the end.

    That they go on is also mended where a debugger was ended between sending a SIGSTOP and taking it.
    """
    if sys.platform != "linux":
        yield
        return
    mine = [pid for pid in dict.fromkeys(pids) if pid != os.getpid() and not is_stopped(pid)]
    handles: dict[int, int] = {}
    for pid in mine:
        with contextlib.suppress(OSError):
            handles[pid] = os.pidfd_open(pid)
    guard = None
    try:
        # Before the guard, whose start its spinning threads would delay.
        sent = [pid for pid, handle in handles.items() if _send(handle, signal.SIGSTOP)]
        guard = tools.start_guard(_GUARD, sent) if sent else None
        _wait_until_still(sent)
        yield
    finally:
        for pid, handle in handles.items():
            _go_on(pid, handle)
            os.close(handle)
        tools.end_guard(guard)


def is_stopped(pid: int) -> bool:
    """Whether it is stopped by a signal: that stops all its threads."""
    first = status(pid, "State")[:1]
    return first == "T" or (first == "Z" and "T" in _states(pid))


def status(pid: int, name: str, tid: int | None = None) -> str:
    """A field of /proc/PID/status, or of one thread's; empty: not known."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{tid or pid}/status").read_text(errors="replace")
        found = re.search(rf"^{name}:\s*(.*)$", text, re.MULTILINE)
        return found[1] if found else ""
    return ""


def _wait_until_still(pids: Sequence[int]) -> None:
    end = time.monotonic() + _STOP_S
    while any(_AWAKE & _states(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(_POLL_S)


def _go_on(pid: int, handle: int) -> None:
    """Continues it, and looks for a moment whether a signal that was still on its way has stopped it again."""
    for _ in range(_TRIES):
        _send(handle, signal.SIGCONT)
        time.sleep(_POLL_S)
        if not is_stopped(pid):
            break


def _send(handle: int, number: signal.Signals) -> bool:
    assert sys.platform == "linux"
    try:
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    return True


def _states(pid: int) -> set[str]:
    """The states of its threads, one letter each."""
    try:
        with os.scandir(f"/proc/{pid}/task") as tids:
            return {status(pid, "State", int(tid.name))[:1] for tid in tids}
    except OSError:
        return set()
