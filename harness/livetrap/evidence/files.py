"""Finds the program files of a running process: where it, not the harness, sees them, and after they were deleted."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from livetrap.model import Frozen
from livetrap.page import one_line

_DELETED = " (deleted)"
_MAPS_BYTES = 1 << 22


class Readable(Frozen, kw_only=True):
    """Where a mapped file can be read."""

    path: str = ""
    """Empty: nowhere."""
    why: str = ""
    """Why not; empty also for what is no file (`[vdso]`, generated code)."""


def readable(path: str, *, pid: int) -> Readable:
    """Where the file that process `pid` has mapped under this name (as /proc/PID/maps says it) can be read.

    A process in a container has another root; a file that was replaced, as by a compiler, lives on in the mapping.
    """
    if not path.startswith("/"):
        return Readable()
    if sys.platform != "linux":
        return Readable(path=path) if os.access(path, os.R_OK) else Readable(why=f"{one_line(path)} cannot be read")
    if not path.endswith(_DELETED):
        seen = path if _same_root(pid) else f"/proc/{pid}/root{path}"
        if os.access(seen, os.R_OK):
            return Readable(path=seen)
    return _mapped(path, pid)


def _same_root(pid: int) -> bool:
    """Whether the process sees the files that the harness sees; a process that has gone is taken to have."""
    for name in ("ns/mnt", "root"):
        try:
            theirs = Path(f"/proc/{pid}/{name}").stat()
            ours = Path(f"/proc/self/{name}").stat()
        except OSError:
            continue
        if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):
            return False
    return True


def _mapped(path: str, pid: int) -> Readable:
    """The file as the mapping itself holds it."""
    folder = Path(f"/proc/{pid}")
    tries: list[Path] = []
    try:
        with (folder / "maps").open("rb") as file:
            maps = file.read(_MAPS_BYTES).decode(errors="surrogateescape")
        if str((folder / "exe").readlink()) == path:
            tries.append(folder / "exe")
    except OSError as error:
        return Readable(why=f"{one_line(path)} cannot be read, nor the process's mappings: {error.strerror}")
    for line in maps.splitlines():
        match = re.match(r"0*([0-9a-f]+)-0*([0-9a-f]+) \S{4} \S+ \S+ \d+\s+(.*)", line)
        if match and match[3] == path:
            tries.append(folder / "map_files" / f"{match[1]}-{match[2]}")
            break
    for place in tries:
        if os.access(place, os.R_OK):
            return Readable(path=str(place))
    why = "was deleted or replaced while it ran" if path.endswith(_DELETED) else "cannot be read"
    return Readable(why=f"{one_line(path.removesuffix(_DELETED))} {why} (reading it there needs CAP_SYS_ADMIN)")
