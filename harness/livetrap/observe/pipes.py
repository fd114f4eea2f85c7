"""Whether a sleeper waits for pipes that nobody outside the target's tree has open. Nobody is stopped or signalled.

Anonymous pipes only: anybody may open a named one (a FIFO) at any time, and a socket or an eventfd does not show who
else has it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from livetrap import wake
from livetrap.model import ThreadState
from livetrap.observe.proctree import PROC, ProcessFiles, read_at, stat_field, state_of

assert sys.platform == "linux"

_PIPE = re.compile(r"pipe:\[(\d+)\]", re.ASCII)
_INFO_BYTES = 1 << 16
_FIRST_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of include/linux/proc_ns.h."""
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of include/linux/sched.h, in field 9 of /proc/PID/stat."""


def awaited(process: ProcessFiles, tid: int, arch: str, syscall_line: str) -> list[str]:
    """What the descriptors point to that the thread's untimed call waits for (`pipe:[123]`); empty: not known."""
    instance = wake.epoll_descriptor(arch, syscall_line)
    if instance is not None:
        return _watched(process, tid, instance)
    pieces = []
    for address, size in wake.poll_memory(arch, syscall_line):
        piece = process.memory(address, size)
        if len(piece) < size:
            return []
        pieces.append(piece)
    return [process.link(f"task/{tid}/fd/{fd}") for fd in wake.descriptors(arch, syscall_line, pieces)]


def _watched(process: ProcessFiles, tid: int, instance: int) -> list[str]:
    """The same for all that an epoll instance watches."""
    text = process.read(f"task/{tid}/fdinfo/{instance}", _INFO_BYTES)
    if len(text) == _INFO_BYTES:
        return []
    found = []
    for fd, inode in wake.epoll_watches(text.decode("ascii", errors="replace")):
        link = process.link(f"task/{tid}/fd/{fd}")
        # The number may have been given to another file since: what is watched is the file.
        found.append(link if link == f"pipe:[{inode}]" else "")
    return found


class Outside:
    """Pipes that processes outside the tree have open: looked up once, when first asked for, until a deadline.

    A process outside that shares a pipe with the tree had it before (then it still has an end of it), or was sent it
    through a socket. So one whose descriptors may not be read (another user's, mostly) might have any pipe if a process
    of the tree has a socket, and has none if not. That holds for a tree that we have started, which was given no pipe
    of others; of a `foreign` one nothing is known where a process may not be read, or may not even be seen.
    """

    def __init__(
        self, tree_pids: Collection[int], *, deadline_ns: int, proc: str = PROC, foreign: bool = False
    ) -> None:
        self._foreign = foreign
        self._tree_pids = tree_pids
        self._deadline_ns = deadline_ns
        self._proc = proc
        self._asked = False
        self._held: set[str] | None = None

    def has_none(self, links: Sequence[str]) -> bool:
        """Whether all of these are pipes of which no process outside has an end; False where that is not known."""
        if not links or not all(map(_PIPE.fullmatch, links)):
            return False
        if not self._asked:
            self._asked = True
            with contextlib.suppress(_NotKnown):
                self._held = self._look()
        return self._held is not None and self._held.isdisjoint(links)

    def _look(self) -> set[str]:
        if self._foreign and not self._sees_all():
            raise _NotKnown
        trusting = not self._foreign and not any(self._may_send(pid) for pid in self._tree_pids)
        found: set[str] = set()
        for name in os.listdir(self._proc):  # noqa: PTH208
            if name.isdecimal() and int(name) not in self._tree_pids:
                held = self._open_in(int(name))
                if held is None and not trusting:
                    raise _NotKnown
                found.update(link for link in held or () if link.startswith("pipe:"))
        return found

    def _sees_all(self) -> bool:
        """We see the processes of the whole machine: not from within a container, nor where others' are hidden."""
        try:
            namespace = str(Path(self._proc, "self", "ns", "pid").readlink())
        except OSError:
            return False
        return namespace == _FIRST_NAMESPACE and Path(self._proc, "1").is_dir()

    def _may_send(self, pid: int) -> bool:
        held = self._open_in(pid)
        return held is None or any(link.startswith("socket:") for link in held)

    def _open_in(self, pid: int) -> list[str] | None:
        """What a process has open; None where that may not be read. Raises _NotKnown where it takes too long."""
        folder = f"{self._proc}/{pid}"
        found = []
        try:
            fds = os.open(f"{folder}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for fd in os.listdir(fds):  # noqa: PTH208
                    found.append(_link(fds, fd))
                    if time.monotonic_ns() > self._deadline_ns:
                        raise _NotKnown
            finally:
                os.close(fds)
        except (FileNotFoundError, ProcessLookupError):
            return []
        except OSError:
            return [] if _has_no_files(read_at(None, f"{folder}/stat", 1024)) else None
        return found


class _NotKnown(Exception):
    """It cannot be told, or not in time."""


def _link(folder: int, name: str) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return ""  # closed since


def _has_no_files(stat: bytes) -> bool:
    """Whether it is a thread of the kernel, or has ended: then it has none, though that may not be read."""
    flags = stat_field(stat, 9)
    return state_of(stat) is ThreadState.GONE or (flags > 0 and bool(flags & _KERNEL_THREAD))
