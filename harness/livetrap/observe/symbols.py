"""Turns an offset in a program file into `function at file:line`, through addr2line where that is installed."""

from __future__ import annotations

import functools
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from livetrap import tools
from livetrap.model import Frozen
from livetrap.observe.elf import has_symbol, virtual_address
from livetrap.page import one_line

DEADLINE_S = 2.0
_MEMORY_BYTES = 2 << 30
_MOST_INLINED = 8
"""So many levels of inlining are told."""
_ADDRESS = re.compile(r"0x[0-9a-f]{8,16}")


class Frame(Frozen, kw_only=True):
    """A place in the source."""

    function: str
    file: str = ""
    """Empty: not known."""
    line: int = 0
    """0: not known."""

    def __str__(self) -> str:
        if not self.file:
            return self.function
        return f"{self.function} at {self.file}:{self.line}" if self.line else f"{self.function} in {self.file}"


Chain = tuple[Frame, ...]
"""The function that the compiler inlined last, then each that it was inlined into; empty: not known."""


def described(chain: Chain) -> str | None:
    """`inner at file:line, inlined into outer at file:line`; None for an empty one."""
    return ", inlined into ".join(str(frame) for frame in chain[:_MOST_INLINED]) or None


def resolve_site(site: str, modules: Mapping[str, str]) -> str | None:
    """The same as `resolve` for a `pc_site` (`module+0xOFFSET`), `modules` giving each module's path."""
    name, _, offset = site.rpartition("+")
    try:
        return resolve(modules[name], int(offset, 16))
    except (KeyError, ValueError):
        return None


def resolve(path: str, offset: int) -> str | None:
    """`function at file:line` of the code at `offset` bytes in the file at `path`; None where that is not known."""
    return described(chains(path, (offset,))[0])


def chains(path: str, offsets: Sequence[int], *, deadline_s: float | None = None) -> tuple[Chain, ...]:
    """The places of the code at these offsets in a file, one chain each."""
    nothing: tuple[Chain, ...] = ((),) * len(offsets)
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return nothing
    tool = tools.find("addr2line")
    if tool is None or not offsets or not stat.S_ISREG(found.st_mode):
        return nothing
    limit_s = DEADLINE_S if deadline_s is None else min(deadline_s, DEADLINE_S)
    # A file that was built anew since is another one.
    stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return _chains(tool, path, stamp, tuple(offsets), limit_s)


@functools.lru_cache(maxsize=1024)
def _chains(
    tool: str, path: str, _stamp: tuple[int, ...], offsets: tuple[int, ...], limit_s: float
) -> tuple[Chain, ...]:
    addresses = [virtual_address(Path(path), offset) for offset in offsets]
    known = [address for address in addresses if address is not None]
    if not known:
        return ((),) * len(offsets)
    done = tools.run(
        [tool, "-a", "-f", "-C", "-i", "-e", path, "--", *(f"{address:#x}" for address in known)],
        deadline_s=limit_s,
        errors=False,
        memory_bytes=_MEMORY_BYTES,
    )
    answers = [] if done.status != 0 or done.late or done.cut else parse(done.text)
    if len(answers) != len(known):
        return ((),) * len(offsets)
    told = dict(zip(known, answers, strict=True))
    return tuple(() if address is None else _believed(told[address], path, address) for address in addresses)


def _believed(chain: Chain, path: str, address: int) -> Chain:
    """A name without a line comes from the symbol table, where it may be that of another function."""
    return chain if not chain or chain[0].line or has_symbol(Path(path), address) else ()


def parse(text: str) -> list[Chain]:
    """The answers of `addr2line -a -f -i`, one for each address: pairs of lines, a function and its file:line."""
    answers: list[list[str]] = []
    for line in text.splitlines():
        if _ADDRESS.fullmatch(line):
            answers.append([])
        elif answers:
            answers[-1].append(line)
    return [_chain(lines) for lines in answers]


def _chain(lines: Sequence[str]) -> Chain:
    frames = []
    for function, place in zip(lines[::2], lines[1::2], strict=False):
        if function == "??":
            break
        file, _, line = place.partition(" (discriminator")[0].rpartition(":")
        known = file not in {"", "??"}
        frames.append(
            Frame(
                function=one_line(function),
                file=one_line(file) if known else "",
                line=int(line) if known and line.isdecimal() else 0,
            )
        )
    return tuple(frames)
