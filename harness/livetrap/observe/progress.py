"""What shows that a target goes on: its output, its I/O, or lines of its output, as was asked for.

`output`: the output's size alone. `io`: reads and writes of the process tree alone. `beats`: neither, only beats.
`regex:RE`: lines of the output in which RE is found, and nothing else. Empty: output and I/O, whatever there is.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque

from livetrap import expressions
from livetrap.errors import HarnessError
from livetrap.expressions import Expression

MOST_READ = 1 << 20
"""Bytes of output that are read for one look; of an output that grew by more, only the last are looked through."""
_LONGEST_LINE = 4096
"""A line is looked through up to here."""
LOOK_S = 0.1
"""How long lines are looked through at one look, in seconds; the rest is for the next look."""
_CHUNK = 1 << 14
_REGEX = "regex:"


def pattern(progress: str) -> Expression | None:
    """The expression of `regex:RE`; None for all other ways.

    Raises HarnessError for a way that there is not, and an expression that is none.
    """
    if progress.startswith(_REGEX):
        text = progress.removeprefix(_REGEX)
        if not text:
            raise HarnessError(
                "progress regex: without an expression: `regex:RE` counts output lines that RE is found in"
            )
        try:
            return expressions.compiled(text)
        except HarnessError as error:
            raise HarnessError(f"progress regex:{text}: {error}") from error
    if progress not in {"", "output", "io", "beats"}:
        raise HarnessError(f"progress {progress}: not one of output, io, beats, regex:RE")
    return None


class Progress:
    """Reads it of one target; `output_fd` is the file that takes the target's output, None where there is none."""

    def __init__(self, progress: str = "", *, output_fd: int | None = None) -> None:
        """Raises HarnessError as `pattern` does."""
        self._pattern = pattern(progress)
        self._text = progress.removeprefix(_REGEX)
        self._output_fd = output_fd if progress not in {"io", "beats"} else None
        self.counts_io = progress in {"", "io"}
        """I/O of the process tree counts."""
        self._lines = 0
        self._at = 0
        self._rest = b""
        self._whole: deque[bytes] = deque()
        """Lines that were read and not yet looked through."""

    def output(self) -> int | None:
        """A number that moves with the output that counts: its bytes, or its lines; None: none counts.

        Raises HarnessError where the expression takes too long to say whether a line has it.
        """
        if self._output_fd is None:
            return None
        with contextlib.suppress(OSError):
            size = os.fstat(self._output_fd).st_size
            if self._pattern is None:
                return size
            self._read(self._output_fd, size, self._pattern)
            return self._lines
        return None

    def _read(self, fd: int, size: int, wanted: Expression) -> None:
        if size < self._at:
            self._jump(0)  # begun anew by the target
        if size - self._at > MOST_READ:
            self._jump(size - MOST_READ)
        end = time.monotonic() + LOOK_S
        while True:
            while self._whole:
                if time.monotonic() > end:
                    return
                self._lines += expressions.found_in(wanted, _line(self._whole.popleft()), text=self._text)
            if self._at >= size:
                return
            piece = os.pread(fd, min(_CHUNK, size - self._at), self._at)
            if not piece:
                return
            self._at += len(piece)
            *lines, rest = (self._rest + piece).split(b"\n")
            self._whole.extend(lines)
            self._rest = _line(rest)

    def _jump(self, at: int) -> None:
        self._at, self._rest = at, b""
        self._whole.clear()


def _line(raw: bytes) -> bytes:
    """A line as it is looked through. What is no longer kept of the output reads as zeros."""
    return raw.lstrip(b"\0")[:_LONGEST_LINE]
