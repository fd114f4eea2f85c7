"""JSON lines: one object a trial, written as the trials finish."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from livetrap.errors import HarnessError
from livetrap.model import Frozen

STDOUT = "-"
"""The target that stands for standard output."""
_MOST_LINE = 1 << 24


class Lines:
    """Writes objects to a stream, each a line of JSON that is flushed at once."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._encoder = msgspec.json.Encoder()

    def write(self, document: Frozen) -> None:
        """Writes one object. Raises HarnessError (status 3) when the file takes no more; BrokenPipeError as it is."""
        try:
            self._stream.write(self._encoder.encode(document) + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise HarnessError(f"{self._name} cannot be written: {error.strerror or error}", status=3) from error


def check_lines(target: str) -> None:
    """Raises the HarnessError that opening `target` would, and one for a file that would be lost; changes nothing."""
    if target == STDOUT:
        return
    if not target:
        raise HarnessError("--json is empty; give a file, or - for standard output")
    path = Path(target)
    try:
        if path.is_dir():
            raise HarnessError(f"--json: {path} is a folder; give a file, such as {path / 'trials.json'}")
        if not path.exists():
            _check_folder(path)
        elif not os.access(path, os.W_OK):
            raise HarnessError(f"--json: {path} cannot be written ({os.strerror(errno.EACCES)}); give another file")
        elif path.is_file() and path.stat().st_size > 0 and not _ours(path):
            raise HarnessError(f"--json: {path} has something else in it than lines of livetrap's; give a new file")
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error


def _check_folder(path: Path) -> None:
    folder = path.resolve().parent  # a link's: the file comes to be where it leads
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _ours(path: Path) -> bool:
    """The first line is an object with a `schema`, as all that `Lines` writes."""
    with path.open("rb") as file:
        first = file.readline(_MOST_LINE)
    try:
        document = msgspec.json.decode(first)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return isinstance(document, dict) and "schema" in document


def _unwritable(path: Path, error: OSError | ValueError) -> HarnessError:
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return HarnessError(f"--json: {path} cannot be written ({reason}); give a file in a folder that can")


@contextlib.contextmanager
def open_lines(target: str) -> Iterator[Lines]:
    """Lines to a file, or to standard output for `-`; a file with such lines is written anew.

    Raises HarnessError when the file cannot be made, or has something else in it.
    """
    check_lines(target)
    if target == STDOUT:
        yield Lines(sys.stdout.buffer, "standard output")
        return
    path = Path(target)
    try:
        stream = path.open("wb")
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error
    try:
        yield Lines(stream, str(path))
    finally:
        with contextlib.suppress(OSError):  # what matters was flushed, and told of, line by line
            stream.close()
