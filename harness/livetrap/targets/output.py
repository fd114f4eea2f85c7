"""What a trial wrote to stdout and stderr: one anonymous file for all trials of a supervisor, emptied between them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import sys
import tempfile

from livetrap.plaintext import plain

_TAIL_BYTES = 16 << 10
_KEPT_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
"""Holes begin and end at multiples of this: of any page's size."""


def harmless(data: bytes) -> str:
    """Bytes of a target as text that is safe to print."""
    return plain(data.decode("utf-8", errors="replace"))


class Output:
    """The file. Everything is appended to it, so that emptying it is enough.

    A trial may do with it what it likes: truncate it, or open it anew and write elsewhere in it (`> /dev/stdout`).
    """

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("livetrap-output")
        else:
            with tempfile.TemporaryFile(prefix="livetrap-") as file:
                self.fd = os.dup(file.fileno())
        self._trimmed = 0
        self._append()

    def empty(self) -> None:
        """Forgets what was written."""
        if self.size():
            os.ftruncate(self.fd, 0)
        self._trimmed = 0
        self._append()

    def size(self) -> int:
        """Bytes written since it was emptied."""
        return os.fstat(self.fd).st_size

    def trim(self) -> None:
        """Gives back the room of all but the last 1 MiB: it reads as zeros from here on, and the size stays.

        Called again and again, it bounds what a trial that writes without end can take. Only on Linux; elsewhere the
        file grows until the trial ends. (Cutting the file from its start is nowhere possible, and cutting its end
        would take away what was written last.)
        """
        size = self.size()
        until = (size - _KEPT_BYTES) // _BLOCK_BYTES * _BLOCK_BYTES
        if until < self._trimmed:
            self._trimmed = 0  # it has been truncated
        if until - self._trimmed >= _KEPT_BYTES:
            _punch(self.fd, self._trimmed, until - self._trimmed)
            self._trimmed = until

    def tail(self) -> str:
        """The last 16 KiB, as text that is safe to print."""
        return harmless(os.pread(self.fd, _TAIL_BYTES, max(0, self.size() - _TAIL_BYTES))).strip()

    def close(self) -> None:
        """Closes the harness's descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _append(self) -> None:
        # A trial shares the flags with us, and so with the next trial.
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)


def _punch(fd: int, at: int, size: int) -> None:
    """Makes a hole of those bytes of a file, where the system can."""
    if not sys.platform.startswith("linux"):
        return
    punch, keep_size = 2, 1  # FALLOC_FL_* of <linux/falloc.h>
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
        fallocate(fd, punch | keep_size, ctypes.c_int64(at), ctypes.c_int64(size))
