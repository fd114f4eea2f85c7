"""A core dump of a process that goes on living, through gdb."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import sys
from pathlib import Path

from livetrap import tools
from livetrap.evidence.held import held
from livetrap.evidence.stacks import HOW_TO_TRACE, why_not
from livetrap.model import Frozen
from livetrap.page import one_line

_SPARE_BYTES = 64 << 20
"""Left free on the disk."""


class Dumped(Frozen, kw_only=True):
    """What came of it."""

    path: str = ""
    """The core; empty: there is none."""
    size: int = 0
    """In bytes."""
    took_s: float = 0.0
    """For so long the process was stopped, at most."""
    why: str = ""
    """Why there is none, in one line."""


def dump_core(pid: int, folder: Path, *, deadline_s: float) -> str:
    """Dumps a core into the folder, as `core.PID`, where no other is replaced: its path, or `not written: ...`."""
    path = folder / f"core.{pid}"
    count = 0
    while path.exists():
        count += 1
        path = folder / f"core.{pid}.{count}"
    dumped = dump(pid, path, deadline_s=deadline_s)
    return dumped.path or f"not written: {dumped.why}"


def dump(pid: int, path: Path, *, deadline_s: float) -> Dumped:
    """Writes the memory of `pid` to `path` (mode 0600: it may hold secrets). The process is stopped meanwhile.

    What is there already is replaced only by a whole core.
    """
    gdb = tools.find("gdb")
    if gdb is None:
        return Dumped(why="gdb is not installed")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # gdb takes file names apart in ways of its own: it is given a plain one.
        folder = path.parent.resolve() / f".livetrap-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
    except OSError as error:
        return Dumped(why=f"{one_line(str(path.parent))} cannot be written: {error.strerror}")
    try:
        return _dump(gdb, pid, folder, path, deadline_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _dump(gdb: str, pid: int, folder: Path, path: Path, deadline_s: float) -> Dumped:
    needed, free = _resident_bytes(pid), shutil.disk_usage(folder).free
    if needed > free - _SPARE_BYTES:
        return Dumped(why=f"it takes about {needed >> 20} MiB, {one_line(str(path.parent))} has {free >> 20} MiB left")
    argv = [gdb, "-nx", "-nh", "-batch", "-readnever", "-iex", "set auto-load off", "-p", str(pid)]
    with held([pid]):
        done = tools.run([*argv, "-ex", "generate-core-file core"], deadline_s=deadline_s, folder=folder)
    made = folder / "core"
    if done.late or not made.is_file() or "Saved corefile" not in done.text:
        refused = "not permitted" in done.text.lower()
        why = f"gdb {why_not(done, deadline_s)}{f'; {HOW_TO_TRACE}' if refused else ''}"
        return Dumped(took_s=done.took_s, why=why)
    try:
        made.chmod(0o600)
        size = made.stat().st_size
        made.replace(path)
    except OSError as error:
        return Dumped(took_s=done.took_s, why=f"{one_line(str(path))} cannot be written: {error.strerror}")
    return Dumped(path=str(path.absolute()), size=size, took_s=done.took_s)


def _resident_bytes(pid: int) -> int:
    """About what a core will take; 0 where it is not known."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text(errors="replace")
            kilobytes = re.findall(r"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB", status, re.MULTILINE)
            return sum(map(int, kilobytes)) << 10
    return 0
