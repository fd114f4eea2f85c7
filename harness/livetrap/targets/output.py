"""What a trial wrote to stdout and stderr: one anonymous file for all trials of a supervisor, emptied between them."""

from __future__ import annotations

import fcntl
import os
import tempfile

from livetrap.plaintext import plain

_TAIL_BYTES = 16 << 10


def harmless(data: bytes) -> str:
    """Bytes of a target as text that is safe to print."""
    return plain(data.decode("utf-8", errors="replace"))


class Output:
    """The file. Everything is appended to it, so that emptying it is enough."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("livetrap-output")
        else:
            with tempfile.TemporaryFile(prefix="livetrap-") as file:
                self.fd = os.dup(file.fileno())
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_APPEND)

    def empty(self) -> None:
        """Forgets what was written."""
        if self.size():
            os.ftruncate(self.fd, 0)

    def size(self) -> int:
        """Bytes written since it was emptied."""
        return os.fstat(self.fd).st_size

    def tail(self) -> str:
        """The last 16 KiB, as text that is safe to print."""
        return harmless(os.pread(self.fd, _TAIL_BYTES, max(0, self.size() - _TAIL_BYTES))).strip()

    def close(self) -> None:
        """Closes the harness's descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
