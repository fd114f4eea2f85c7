"""Where a report is written: what can be wrong with the place, told before anything is run, and writing it whole."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from livetrap.errors import HarnessError

_HEAD_BYTES = 4096


def check_target(target: str, *, option: str, example: str, what: str, generator: str) -> None:
    """Raises HarnessError where a file could not be written to `target`, or would replace what is none of ours.

    Changes nothing. `option` is what the user gave it by, `example` a name, `what` what it holds; `generator` stands
    near the beginning of each of ours.
    """
    if not target:
        raise HarnessError(f"{option} is empty; give a file, such as {example}")
    path = Path(target)
    try:
        if path.is_dir():
            raise HarnessError(f"{option}: {path} is a folder; give a file, such as {path / example}")
        if path.exists():
            if not path.is_file():
                raise HarnessError(f"{option}: {path} is not a regular file; give a file, such as {example}")
            if path.stat().st_size > 0 and not _has(path, generator):
                raise HarnessError(f"{option}: {path} is no {what} of livetrap's; give a new file")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise HarnessError(f"{option}: {path} cannot be written (its folder is not there); give a folder that is")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise HarnessError(f"{option}: {path} cannot be written (its folder cannot); give another file")
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of links
        raise HarnessError(f"{option}: {path} cannot be written ({error}); give a file in a folder that can") from error


def _has(path: Path, generator: str) -> bool:
    with path.open("rb") as file:
        return generator.encode() in file.read(_HEAD_BYTES)


def write_whole(file: Path, text: str) -> None:
    """Writes a file so that others see either what was there before, or all of it.

    Raises HarnessError (status 3) where it cannot be written; nothing is left of it then.
    """
    try:
        place = file.resolve()
        part = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            part.write_bytes(text.encode("utf-8", "replace"))
            part.replace(place)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise HarnessError(f"{file} cannot be written: {reason or error}", status=3) from error
