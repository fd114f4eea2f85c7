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
        """Their ids. A process once seen to have another environment is not looked at again while it lives."""
        pids = set(psutil.pids())
        self._strangers &= pids
        found = {process.pid for process in psutil.Process().children(recursive=True) if alive(process)}
        for pid in pids - self._strangers - found:
            marked = is_marked(pid, self._token)
            if marked:
                found.add(pid)
            elif marked is not None:
                self._strangers.add(pid)
        return sorted(found - self._spare)


def is_marked(pid: int, token: str) -> bool | None:
    """Whether a live process has the token in its environment; None: it has none now (it is just being born, say)."""
    try:
        process = psutil.Process(pid)
        environment = process.environ()
        if not environment:
            return None
        return environment.get(TOKEN) == token and alive(process)
    except psutil.AccessDenied:  # another user's
        return False
    except (psutil.Error, OSError):
        return None


def marked(token: str) -> list[int]:
    """All live processes that have the token in their environment."""
    return [pid for pid in psutil.pids() if is_marked(pid, token)]


def alive(process: psutil.Process) -> bool:
    """It is there and no zombie."""
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_gone(process: psutil.Process, *, within_s: float) -> None:
    """Waits until a process that is not our child has ended, reaped or not, or until that time is over."""
    end = time.monotonic() + within_s
    while process.is_running() and alive(process) and time.monotonic() < end:
        time.sleep(0.002)


def kill_marked(token: str, *, deadline_s: float) -> list[int]:
    """Kills every process that has the token in its environment, again and again; returns those that are left.

    For the harness, when its supervisor has gone without doing so.
    """
    end = time.monotonic() + deadline_s
    me = os.getpid()
    while True:
        left = [pid for pid in marked(token) if pid != me]
        for pid in left:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()
        if not left or time.monotonic() >= end:
            return left
        time.sleep(0.005)
