"""Which threads there are below a process."""

from __future__ import annotations

import os
import sys
import time

import psutil

from livetrap.model import ThreadId

_SEARCH_NS = (2_000_000, 100_000_000)
"""Least and greatest time between two searches for new processes: the first ones come soon. New threads are found at
each call."""


class TreeThreads:
    """Lists the threads of a process and of its descendants, ascending. Orphans are not found."""

    def __init__(self, pid: int) -> None:
        self._root = pid
        self._pids = [pid]
        self._born_ns = time.monotonic_ns()
        self._next_ns = 0

    def __call__(self) -> list[ThreadId]:
        """All threads there are at this moment; on other systems than Linux one entry a process, for its main one."""
        now = time.monotonic_ns()
        if now >= self._next_ns:
            self._pids = [self._root, *_descendants(self._root)]
            least, most = _SEARCH_NS
            self._next_ns = now + min(most, max(least, (now - self._born_ns) // 4))
        if sys.platform != "linux":
            return [ThreadId(pid, pid) for pid in sorted(self._pids)]
        return [ThreadId(pid, tid) for pid in sorted(self._pids) for tid in thread_ids(pid)]


def thread_ids(pid: int) -> list[int]:
    """Threads of one process on Linux, ascending; none when it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))  # noqa: PTH208  twice as fast
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    if sys.platform == "linux":
        found: list[int] = []
        rest = [pid]
        while rest:
            born = _children(rest.pop())
            if born is None:
                break
            found += born
            rest += born
        else:
            return found
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def _children(pid: int) -> list[int] | None:
    """Child processes on Linux; None where the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    found: list[int] = []
    for tid in thread_ids(pid):
        try:
            with open(f"/proc/{pid}/task/{tid}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{tid}"):  # noqa: PTH110
                return None
        except OSError:
            continue
    return found
