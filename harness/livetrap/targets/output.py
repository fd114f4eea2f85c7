"""What a trial wrote to stdout and stderr: one anonymous file for all trials of a supervisor, emptied between them."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile

_TAIL_BYTES = 16 << 10
# Escape sequences of terminals: CSI, OSC and other strings (ended by BEL or ST, or by nothing), and the two-byte ones.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?|\x9b[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])"
    r"[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?"
)
# Controls, and what would reverse or hide text; tabs and new lines stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(data: bytes) -> str:
    """Bytes of a target as text that is safe to print: no escape sequences, no controls but tabs and new lines."""
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
    return _CONTROL.sub("", _ESCAPE.sub("", text))


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
        return plain(os.pread(self.fd, _TAIL_BYTES, max(0, self.size() - _TAIL_BYTES))).strip()

    def close(self) -> None:
        """Closes the harness's descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
