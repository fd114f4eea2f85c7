"""The memory of processes, read through /proc/PID/mem while they run."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Self

from livetrap.observe.proctree import Tree
from livetrap.observe.stops_linux import Stop

assert sys.platform == "linux"

Read = Callable[[int, int], bytes]
Seen = dict[tuple[int, int], bytes]


class Memory:
    """The memory of a tree's processes for one gathering; a context manager that closes what it opened."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._fds: dict[int, int] = {}
        self._words: dict[tuple[int, int, int], bytes] = {}

    def reader(self, pid: int, stop: Stop | None = None) -> Read:
        """Reads one process's memory: b"" or fewer bytes where there is none.

        The part of the stack that was copied at a stop reads as it was then.
        """
        fd = self._open(pid)

        def read(address: int, size: int) -> bytes:
            if stop is not None and stop.stack_at <= address and address + size <= stop.stack_at + len(stop.stack):
                return stop.stack[address - stop.stack_at :][:size]
            try:
                return os.pread(fd, size, address)
            except (OSError, OverflowError, ValueError):
                return b""

        return read

    def word(self, pid: int, address: int, size: int) -> bytes:
        """The same for a word that many threads may poll: read once, until `forget`."""
        key = (pid, address, size)
        piece = self._words.get(key)
        if piece is None:
            piece = self._words[key] = self.reader(pid)(address, size)
        return piece

    def forget(self) -> None:
        """Words are read anew from now on."""
        self._words.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds.values():
            if fd >= 0:
                os.close(fd)
        self._fds.clear()

    def _open(self, pid: int) -> int:
        if pid not in self._fds:
            self._fds[pid] = -1
            for process in self._tree.processes:
                if process.pid == pid:
                    with contextlib.suppress(OSError):
                        self._fds[pid] = os.open("../mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process.task)
        return self._fds[pid]


class Recorded:
    """Reads memory, and keeps what was read: whoever reads the same again comes to the same result."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.seen: Seen = {}
        """What there was, by address and size."""

    def read(self, address: int, size: int) -> bytes:
        """The bytes at the address, as far as there are any; the same each time."""
        piece = self.seen.get((address, size))
        if piece is None:
            piece = self.seen[address, size] = self._read(address, size)
        return piece


def still(seen: Seen, read: Read) -> bool:
    """Whether `read` gives for everything what it gave then."""
    return all(read(*at) == piece for at, piece in seen.items())
