"""Standard output and error, made fit for use: closed ones, and such as cannot be written, end in one line."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO

from livetrap.errors import HarnessError
from livetrap.plaintext import plain
from livetrap.report.text import one_line

BROKEN_PIPE = 141
"""What a shell says of a command that SIGPIPE ended."""


class _Stream(io.TextIOWrapper):
    """A stream of text whose own failures are told apart from those of all other files; a broken pipe stays one."""

    title = "standard output"

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> HarnessError:
        why = f"{self.title} cannot be written ({error.strerror or error})"
        return HarnessError(f"{why}; give it a place to go", status=3)


class _ErrorStream(_Stream):
    title = "standard error"


def prepare() -> None:
    """Makes the streams ready. HarnessError, status 3: standard output is closed."""
    _fill_closed()
    sys.stdout = _tellable(sys.stdout, _Stream)
    sys.stderr = _tellable(sys.stderr, _ErrorStream)
    if sys.stdout is None:  # closed by whoever started us
        raise HarnessError("standard output is closed; give it a place to go, such as >/dev/null", status=3)


def _tellable(stream: TextIO, kind: type[_Stream]) -> TextIO:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a terminal that cannot show a letter is no reason to fail
    if type(stream) is not io.TextIOWrapper:  # ours already, or a test's
        return stream
    encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
    return kind(
        stream.detach(), encoding=encoding, errors="replace", newline="\n", line_buffering=lines, write_through=through
    )


def _fill_closed() -> None:
    """Puts /dev/null where one of the three is closed, else the next file that is opened takes its number."""
    if None not in {sys.stdin, sys.stdout, sys.stderr}:
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  it lives as long as we do


def finish(status: int) -> int:
    """Flushes both; what cannot be written shows here at the latest, not while the interpreter ends.

    Takes the exit status as it is so far, and returns it as it ends.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        status = broken_pipe()
    except HarnessError as error:
        if status != error.status:  # else it was told
            tell(str(error))
        status = error.status
    for stream in (sys.stdout, sys.stderr):
        _hush(stream)
    return status


def broken_pipe() -> int:
    """Whoever read our output has left; the status for that."""
    _hush(sys.stdout)
    return BROKEN_PIPE


def _hush(stream: TextIO | None) -> None:
    """Lets a stream that cannot be written go nowhere, so that the interpreter's last flush does not fail aloud."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError, HarnessError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
            os.close(nowhere)


def tell(message: str, detail: str = "") -> None:
    """One line on standard error, and the detail below it. Where that too is gone, there is nobody left to tell."""
    with contextlib.suppress(OSError, ValueError, HarnessError):
        print(f"livetrap: {one_line(message, most=2000)}", file=sys.stderr)
        if detail:
            print(plain(detail).rstrip("\n"), file=sys.stderr)
        sys.stderr.flush()
