"""Finds the processes below a supervisor where the system keeps no orphans for it: by parent ids and environment.

For macOS, and on any system for what is left when a supervisor was killed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

import psutil

from livetrap.targets.reaping import TOKEN


class Finder:
    """Finds live processes that descend from the caller, or have the token in their environment."""

    def __init__(self, token: str, *, spare: Iterable[int] = ()) -> None:
        self._token = token
        self._spare = frozenset(spare)
        self._strangers: set[int] = set()

    def find(self) -> list[int]:
        """Their ids. A process once seen to be a stranger's is not looked at again while it lives."""
        pids = set(psutil.pids())
        self._strangers &= pids
        found = {process.pid for process in psutil.Process().children(recursive=True) if _alive(process)}
        for pid in pids - self._strangers - found:
            if self._is_marked(pid):
                found.add(pid)
            else:
                self._strangers.add(pid)
        return sorted(found - self._spare)

    def _is_marked(self, pid: int) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            return process.environ().get(TOKEN) == self._token and _alive(process)
        return False


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_gone(process: psutil.Process, *, within_s: float) -> None:
    """Waits until a process that is not our child has ended, reaped or not, or until that time is over."""
    end = time.monotonic() + within_s
    while process.is_running() and _alive(process) and time.monotonic() < end:
        time.sleep(0.002)


def kill_marked(token: str, *, deadline_s: float) -> list[int]:
    """Kills every process that has the token in its environment, again and again; returns those that are left.

    For the harness, when its supervisor has gone without doing so.
    """
    end = time.monotonic() + deadline_s
    me = os.getpid()
    while True:
        # A new Finder each time: one that was just being born may have had its parent's environment, or none to read.
        left = [pid for pid in psutil.pids() if pid != me and Finder(token)._is_marked(pid)]
        for pid in left:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()
        if not left or time.monotonic() >= end:
            return left
        time.sleep(0.005)
