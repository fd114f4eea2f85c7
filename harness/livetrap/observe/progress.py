"""What shows that a target goes on: its output, its I/O, or lines of its output, as was asked for.

`output`: the output's size alone. `io`: reads and writes of the process tree alone. `beats`: neither, only beats.
`regex:RE`: lines of the output in which RE is found, and nothing else. Empty: output and I/O, whatever there is.
"""

from __future__ import annotations

import contextlib
import os
import re

from livetrap.errors import HarnessError

MOST_READ = 1 << 20
"""Bytes of output that are read for one look; of an output that grew by more, only the last are looked through."""
_LONGEST_LINE = 4096
"""A line is looked through up to here."""
_CHUNK = 1 << 16
_REGEX = "regex:"


def pattern(progress: str) -> re.Pattern[bytes] | None:
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
            return re.compile(text.encode())
        except re.error as error:
            raise HarnessError(f"progress regex:{text}: not a regular expression: {error}") from error
    if progress not in {"", "output", "io", "beats"}:
        raise HarnessError(f"progress {progress}: not one of output, io, beats, regex:RE")
    return None


class Progress:
    """Reads it of one target; `output_fd` is the file that takes the target's output, None where there is none."""

    def __init__(self, progress: str = "", *, output_fd: int | None = None) -> None:
        """Raises HarnessError as `pattern` does."""
        self._pattern = pattern(progress)
        self._output_fd = output_fd if progress not in {"io", "beats"} else None
        self.counts_io = progress in {"", "io"}
        """I/O of the process tree counts."""
        self._lines = 0
        self._at = 0
        self._rest = b""

    def output(self) -> int | None:
        """A number that moves with the output that counts: its bytes, or its lines; None: none counts."""
        if self._output_fd is None:
            return None
        with contextlib.suppress(OSError):
            size = os.fstat(self._output_fd).st_size
            if self._pattern is None:
                return size
            self._read(self._output_fd, size, self._pattern)
            return self._lines
        return None

    def _read(self, fd: int, size: int, wanted: re.Pattern[bytes]) -> None:
        if size < self._at:
            self._at, self._rest = 0, b""  # begun anew by the target
        if size - self._at > MOST_READ:
            self._at, self._rest = size - MOST_READ, b""
        while self._at < size:
            piece = os.pread(fd, min(_CHUNK, size - self._at), self._at)
            if not piece:
                break
            self._at += len(piece)
            *lines, rest = (self._rest + piece).split(b"\n")
            self._lines += sum(1 for line in lines if wanted.search(_line(line)))
            self._rest = _line(rest)


def _line(raw: bytes) -> bytes:
    """A line as it is looked through. What is no longer kept of the output reads as zeros."""
    return raw.lstrip(b"\0")[:_LONGEST_LINE]
