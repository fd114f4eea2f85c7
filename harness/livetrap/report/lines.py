"""JSON lines: one object a trial, written as the trials finish."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from livetrap.errors import HarnessError
from livetrap.model import Frozen


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


@contextlib.contextmanager
def open_lines(target: str) -> Iterator[Lines]:
    """Lines to a new file, or to standard output for `-`. Raises HarnessError when the file cannot be made."""
    if target == "-":
        yield Lines(sys.stdout.buffer, "standard output")
        return
    path = Path(target)
    try:
        stream = path.open("wb")
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise HarnessError(f"--json: {path} cannot be written ({reason}); give a file in a folder that can") from error
    try:
        yield Lines(stream, str(path))
    finally:
        with contextlib.suppress(OSError):  # what matters was flushed, and told of, line by line
            stream.close()
