"""What is mapped where in a process, from the text of Linux's /proc/PID/maps (proc_pid_maps(5)).

Reading that text is cheap for a small program and takes a millisecond for a large one, so it is kept for a moment as
long as the process's size stays the same.
"""

from __future__ import annotations

import bisect
import re
import time
from typing import NamedTuple

from livetrap.observe.proctree import ProcessFiles

_LINE = re.compile(
    r"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) ([0-9a-f]{1,16}) \S+ \d+[^\S\n]*(.*)$",
    re.MULTILINE | re.ASCII,
)
_BYTES = 1 << 22
_KEPT_NS = 1_000_000_000
_WRITTEN_BY_OTHERS = ("[vvar", "/dev/")
"""Names of mappings that are private by their flag, and yet written by the kernel or a device."""


class Mapping(NamedTuple):
    """One mapping: addresses from `start` to `end`, exclusive, hold `name` from `offset` on."""

    start: int
    end: int
    flags: str
    offset: int
    name: str
    """The path of the file, `[vdso]` and the like, or `[anonymous]`."""
    of_program: bool = False
    """The same file is mapped to be run, too."""

    @property
    def shared(self) -> bool:
        """Whether something outside the process may write to it. A private mapping that the process cannot write shows
        its file, which others may write; but not those of programs and libraries: their constants stay as they are, and
        their linker's tables, made unwritable once they are filled in, are the process's own."""
        if self.flags[3] == "s" or self.name.startswith(_WRITTEN_BY_OTHERS):
            return True
        return self.name.startswith("/") and self.flags[1] == "-" and not self.of_program

    @property
    def generated(self) -> bool:
        """Whether code in it may be changed while it runs: it is not a program file's, or it can be written."""
        of_file = self.name.startswith(("/", "[vdso")) and not self.name.startswith("/memfd:")
        return self.flags[1] == "w" or self.shared or not of_file


class Mappings:
    """All mappings of one process at one moment."""

    def __init__(self, text: str) -> None:
        self.text = text
        rows = [
            Mapping(int(start, 16), int(end, 16), flags, int(offset, 16), name or "[anonymous]")
            for start, end, flags, offset, name in _LINE.findall(text)
        ]
        run = {row.name for row in rows if row.flags[2] == "x"}
        self._rows = sorted(row._replace(of_program=row.name in run) for row in rows)
        self._starts = [row.start for row in self._rows]

    def at(self, address: int) -> Mapping | None:
        """The mapping that holds the address."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._rows[index].end:
            return None
        return self._rows[index]

    def locate(self, address: int) -> tuple[str, int] | None:
        """The name of what is mapped at the address, and the offset in that."""
        mapping = self.at(address)
        return (mapping.name, address - mapping.start + mapping.offset) if mapping else None

    def base(self, address: int) -> int | None:
        """Where the first bytes are mapped of the file that holds the address; None where they are not."""
        mapping = self.at(address)
        if mapping is None or not mapping.name.startswith(("/", "[vdso")):
            return None
        for row in reversed(self._rows[: bisect.bisect_right(self._starts, address)]):
            if row.name == mapping.name and row.offset == 0:
                return row.start
        return None


class Keeper:
    """Mappings of several processes, each kept for a second while the process's size stays the same."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[bytes, int, Mappings]] = {}

    def of(self, process: ProcessFiles, *, fresh: bool = False) -> Mappings:
        """Those of one process, read anew if `fresh`; nothing is mapped in one that has gone."""
        size = process.read("statm", 64).partition(b" ")[0]
        kept = self._kept.get(process.pid)
        if kept is not None and not fresh and kept[0] == size and time.monotonic_ns() - kept[1] < _KEPT_NS:
            return kept[2]
        if kept is None and len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        found = Mappings(process.read("maps", _BYTES).decode(errors="replace"))
        self._kept[process.pid] = (size, time.monotonic_ns(), found)
        return found


_MOST_KEPT = 64
