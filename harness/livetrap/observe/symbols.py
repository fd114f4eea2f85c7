"""Turns an offset in a program file into `function at file:line`, through addr2line where that is installed."""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from livetrap.page import one_line

DEADLINE_S = 2.0
_MOST_SEGMENTS = 128
_PT_LOAD = 1


def resolve_site(site: str, modules: Mapping[str, str]) -> str | None:
    """The same for a `pc_site` (`module+0xOFFSET`), `modules` giving each module's path."""
    name, _, offset = site.rpartition("+")
    try:
        return resolve(modules[name], int(offset, 16))
    except (KeyError, ValueError):
        return None


@functools.lru_cache(maxsize=1024)
def resolve(path: str, offset: int) -> str | None:
    """`function at file:line` of the code at `offset` bytes in the file at `path`; None where that is not known."""
    tool = shutil.which("addr2line")
    address = virtual_address(Path(path), offset)
    if tool is None or address is None:
        return None
    try:
        done = subprocess.run(
            [tool, "-f", "-C", "-e", path, "--", f"{address:#x}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=DEADLINE_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode != 0 or len(lines) != 2 or lines[0] == "??":
        return None
    function, place = one_line(lines[0]), one_line(lines[1].partition(" (discriminator")[0])
    return function if place.startswith("??") else f"{function} at {place}"


def virtual_address(path: Path, offset: int) -> int | None:
    """The address at which the ELF file wants the byte at `offset` to be loaded: what addr2line asks for.

    The two differ by a constant for each loaded segment (elf(5)); None for anything but a little-endian ELF-64 file.
    """
    try:
        with path.open("rb") as file:
            header = file.read(64)
            if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
                return None
            (table,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            file.seek(table)
            segments = file.read(size * min(count, _MOST_SEGMENTS))
    except (OSError, ValueError):
        return None
    for at in range(0, len(segments) - 55, max(size, 56)):
        kind, _, start, address, _, length = struct.unpack_from("<IIQQQQ", segments, at)
        if kind == _PT_LOAD and start <= offset < start + length:
            return int(address + offset - start)
    return None
