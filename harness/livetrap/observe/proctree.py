"""The process tree of a target on Linux, its /proc files kept open and read with pread.

A descriptor opened under /proc/PID/task belongs to that very process or thread: once it is gone, every read through it
fails (ESRCH), even if its number has been given to another. So a number that is used again is never mistaken for what
it named before.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from livetrap.model import ThreadId, ThreadState

PROC = "/proc"
STATES: dict[int, ThreadState] = {
    ord("R"): ThreadState.RUNNABLE,
    ord("S"): ThreadState.ASLEEP,
    ord("D"): ThreadState.UNINTERRUPTIBLE,
    ord("T"): ThreadState.STOPPED,
    ord("t"): ThreadState.STOPPED,
    ord("Z"): ThreadState.GONE,
    ord("X"): ThreadState.GONE,
    ord("x"): ThreadState.GONE,
}
"""The state letter of /proc/PID/stat (proc_pid_stat(5))."""

_STATE_BYTES = 64
"""The state stands within these first bytes: number, name of at most 15 bytes in brackets, letter."""
_SPARE_FILES = 256
"""Descriptors left to the rest of the harness."""
_MANY_THREADS = 64
"""Each thread has a list of children of its own: from so many on it is cheaper to look through all processes."""
_ROUNDS = 3
"""How often a process is read again whose parent went meanwhile."""
_SCAN_SHARE = 50
"""Looking through all processes of the machine may take one part in so many of the time."""


class Budget:
    """How many descriptors may be kept open; raises the soft limit to the hard one when that is used up."""

    def __init__(self, most: int | None = None) -> None:
        self._fixed = most is not None
        self._most = most if most is not None else resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES
        self.kept = 0

    def take(self) -> bool:
        """Whether one more may be kept; counted if so."""
        if self.kept >= self._most and not self._fixed:
            self._fixed = True
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft < hard:
                with contextlib.suppress(OSError, ValueError):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
                    self._most = hard - _SPARE_FILES
        if self.kept >= self._most:
            return False
        self.kept += 1
        return True


class KeptFile:
    """A small file of /proc, kept open where the budget allows, else opened for each read."""

    __slots__ = ("_budget", "_fd", "_folder", "_name")

    def __init__(self, folder: int, name: str, budget: Budget) -> None:
        self._folder, self._name, self._budget = folder, name, budget
        self._fd = -1
        if budget.take():
            try:
                self._fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                budget.kept -= 1

    def read(self, size: int) -> bytes:
        """The file's first bytes; b"" when what it tells of is gone, or when it may not be read."""
        try:
            if self._fd >= 0:
                return os.pread(self._fd, size, 0)
        except OSError:
            return b""
        return read_at(self._folder, self._name, size)

    def close(self) -> None:
        """Closes it; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._budget.kept -= 1


class ThreadFiles:
    """One thread of the tree."""

    __slots__ = ("id", "schedstat", "stat")

    def __init__(self, folder: int, pid: int, tid: int, budget: Budget) -> None:
        self.id = ThreadId(pid, tid)
        self.stat = KeptFile(folder, f"{tid}/stat", budget)
        self.schedstat = KeptFile(folder, f"{tid}/schedstat", budget)

    def state(self) -> ThreadState | None:
        """What the thread does at this moment; None when it is gone."""
        return state_of(self.stat.read(_STATE_BYTES))

    def close(self) -> None:
        self.stat.close()
        self.schedstat.close()


class ProcessFiles:
    """One process of the tree with its threads."""

    def __init__(self, pid: int, budget: Budget) -> None:
        """Raises OSError when there is no such process."""
        self.pid = pid
        self.task = os.open(f"{PROC}/{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.threads: dict[int, ThreadFiles] = {}
        self._budget = budget
        budget.kept += 1
        self._links = -1

    def read(self, name: str, size: int) -> bytes:
        """A file of /proc/PID; b"" when the process is gone or it may not be read."""
        return read_at(self.task, f"../{name}", size)

    def try_read(self, name: str, size: int) -> tuple[bytes, str]:
        """The same, and why it could not be read ("" if it could)."""
        try:
            return _read(self.task, f"../{name}", size), ""
        except OSError as error:
            return b"", error.strerror or str(error)

    def link(self, name: str) -> str:
        """Where a link in /proc/PID points; "" when that cannot be read."""
        try:
            return os.readlink(f"../{name}", dir_fd=self.task)
        except OSError:
            return ""

    def memory(self, address: int, size: int) -> bytes:
        """Up to `size` bytes of its memory, read without stopping it; b"" when that cannot be had."""
        try:
            fd = os.open("../mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.task)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, address)
        except (OSError, OverflowError):
            return b""
        finally:
            os.close(fd)

    def renew(self, *, lost: bool) -> bool:
        """Finds threads that were born or are gone (`lost`: a read failed); False when the process is gone."""
        try:
            # The folder has a link for each thread: cheaper than a listing, which is then rarely needed.
            links = os.fstat(self.task).st_nlink
            if links == self._links and not lost:
                return True
            tids = {int(name) for name in os.listdir(self.task)}  # noqa: PTH208
        except OSError:
            return False
        self._links = links
        for tid in self.threads.keys() - tids:
            self.threads.pop(tid).close()
        for tid in sorted(tids - self.threads.keys()):
            self.threads[tid] = ThreadFiles(self.task, self.pid, tid, self._budget)
        return bool(tids)

    def children(self) -> list[int] | None:
        """Its child processes; None where the kernel does not list them (CONFIG_PROC_CHILDREN)."""
        found: list[int] = []
        for tid in self.threads:
            try:
                found += map(int, _read(self.task, f"{tid}/children", 1 << 16).split())
            except FileNotFoundError:
                # Missing for a thread that has gone, too.
                if self.threads[tid].state() is not None:
                    return None
            except OSError:
                continue
        return found

    def close(self) -> None:
        """Closes all of its files."""
        for thread in self.threads.values():
            thread.close()
        self.threads.clear()
        os.close(self.task)
        self._budget.kept -= 1


class Tree:
    """All processes that descend from `pid`, itself included, as long as they live.

    An orphan is lost from the tree when its parent goes before it was seen. So every child of an adopter belongs to it
    too: a process of the harness that takes in the orphans, and has no children but the target and other adopters.
    """

    def __init__(
        self, pid: int, *, budget: Budget | None = None, list_children: bool = True, adopters: Collection[int] = ()
    ) -> None:
        self._budget = budget or Budget()
        self._processes: dict[int, ProcessFiles] = {}
        self._adopters: dict[int, ProcessFiles] = {}
        self._list_children = list_children
        self._strangers: set[tuple[int, int]] = set()
        self._next_scan_ns = 0
        self._session: int | None = None
        for adopter in adopters:
            self._add(adopter, self._adopters)
        self._add(pid, self._processes)
        root = self._processes.get(pid)
        if root is not None and stat_field(root.read("stat", 1024), 6) == pid:
            self._session = pid
        self.renew(search=True)

    @property
    def processes(self) -> Sequence[ProcessFiles]:
        """Those known at the last renewal."""
        return list(self._processes.values())

    def threads(self) -> Iterator[ThreadFiles]:
        """All threads known at the last renewal."""
        for process in self._processes.values():
            yield from process.threads.values()

    def find(self, thread: ThreadId) -> tuple[ProcessFiles, ThreadFiles] | None:
        """A thread by its id."""
        process = self._processes.get(thread.pid)
        files = process.threads.get(thread.tid) if process else None
        return (process, files) if process and files else None

    def renew(self, *, search: bool, lost: bool = False) -> None:
        """Finds what was born or is gone: threads always, processes too if `search`."""
        for process in self.processes:
            if not process.renew(lost=lost):
                self._processes.pop(process.pid).close()
        if search and self._processes and not self._walk() and time.monotonic_ns() >= self._next_scan_ns:
            self._scan()

    def search_now(self) -> None:
        """Renews everything, whatever it costs; where orphans have no adopter, finds those of the session too."""
        self.renew(search=False, lost=True)
        if self._processes:
            self._walk()
            self._scan()

    def close(self) -> None:
        """Closes all files."""
        for process in [*self._processes.values(), *self._adopters.values()]:
            process.close()
        self._processes.clear()
        self._adopters.clear()

    def _add(self, pid: int, to: dict[int, ProcessFiles]) -> bool:
        try:
            process = ProcessFiles(pid, self._budget)
        except OSError:
            return False
        if process.renew(lost=False):
            to[pid] = process
            return True
        process.close()
        return False

    def _walk(self) -> bool:
        """Finds processes by the kernel's lists of children; False where it has none, or where they are too many."""
        if sum(len(process.threads) for process in self._processes.values()) > _MANY_THREADS:
            return False
        waiting = self.processes
        while waiting and self._list_children:
            # Adopters come last: whoever lost its parent while we read is theirs by then.
            waiting = self._children_of(waiting) or self._children_of(list(self._adopters.values()))
        return self._list_children

    def _children_of(self, parents: Sequence[ProcessFiles]) -> list[ProcessFiles]:
        """Children that are new to the tree, and now in it."""
        born: list[ProcessFiles] = []
        for parent in parents:
            children = parent.children()
            if children is None:
                self._list_children = False
                break
            new = [pid for pid in children if not self._known(pid) and self._add(pid, self._processes)]
            born += [self._processes[pid] for pid in new]
        return born

    def _known(self, pid: int) -> bool:
        return pid in self._processes or pid in self._adopters

    def _scan(self) -> None:
        """The same by parent and session of all processes of the machine that are not known to be strangers."""
        began = time.monotonic_ns()
        with os.scandir(PROC) as entries:
            # The inode tells a process from another that had the same number before.
            listed = {(int(entry.name), entry.inode()) for entry in entries if entry.name.isdecimal()}
        self._strangers &= listed
        undecided = {key for key in listed - self._strangers if not self._known(key[0])}
        for _ in range(_ROUNDS):
            undecided = self._decide(undecided)
            if not undecided:
                break
        now = time.monotonic_ns()
        self._next_scan_ns = now + _SCAN_SHARE * (now - began)

    def _decide(self, keys: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Takes in those that belong to the tree and notes strangers; the others, whose parent went meanwhile."""
        parents: dict[tuple[int, int], tuple[int, int]] = {}
        for key in keys:
            stat = read_at(None, f"{PROC}/{key[0]}/stat", 1024)
            if stat:
                parents[key] = stat_field(stat, 4), stat_field(stat, 6)
        strange = {pid for pid, _ in self._strangers} | {0}
        found = True
        while found:
            found = False
            for key, (parent, session) in list(parents.items()):
                # The target leads a session of its own: an orphan of it keeps that when it loses its parent.
                if self._known(parent) or session == self._session:
                    del parents[key]
                    found |= self._add(key[0], self._processes)
                elif parent in strange:
                    # Who descends from strangers alone stays one: only the tree's own orphans get another parent.
                    del parents[key]
                    strange.add(key[0])
                    self._strangers.add(key)
                    found = True
        return set(parents)


def state_of(stat: bytes) -> ThreadState | None:
    """The state in the text of /proc/PID/stat, whatever the thread's name; None for no text."""
    at = stat.rfind(b")") + 2
    return STATES.get(stat[at], ThreadState.UNKNOWN) if 1 < at < len(stat) else None


def stat_field(stat: bytes, number: int) -> int:
    """Field `number` (from 1, as in proc_pid_stat(5); 4 or more) of /proc/PID/stat; -1 where there is none."""
    fields = stat[stat.rfind(b")") + 2 :].split()
    try:
        return int(fields[number - 3])
    except (IndexError, ValueError):
        return -1


def read_at(folder: int | None, name: str, size: int) -> bytes:
    """A file's first bytes, b"" if it cannot be read."""
    try:
        return _read(folder, name, size)
    except OSError:
        return b""


def _read(folder: int | None, name: str, size: int) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        # A long file of /proc comes in pieces.
        parts: list[bytes] = []
        while size > 0 and (part := os.read(fd, size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def available() -> bool:
    """Whether this system has the /proc that all of this needs."""
    return Path(PROC, "self", "task").is_dir() and state_of(read_at(None, f"{PROC}/self/stat", 64)) is not None


def status_number(status: bytes, name: str) -> int | None:
    """The first number of a field of /proc/PID/status, e.g. `TracerPid`; None where there is no such field."""
    match = re.search(rb"^%s:\s*([0-9]+)" % name.encode(), status, re.MULTILINE)
    return int(match[1]) if match else None
