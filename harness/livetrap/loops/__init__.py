"""Which loop is a thread in, and can it end? Pure: registers and memory in, a classified loop out.

The innermost loop around the program counter is followed once around, over what its registers and the words that it
reads are known to hold; the kinds are those of `LoopKind`. Whatever cannot be followed is unknown, never a poll or
endless: those convict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from livetrap.loops.callers import calls_above
from livetrap.loops.classify import Classified, classify
from livetrap.loops.code import Code
from livetrap.loops.follow import ARCHES, Body, Node
from livetrap.loops.found import EntryOf, Found, Puzzle, Read, Registers
from livetrap.loops.graph import flow_from, loops_around
from livetrap.model import LoopKind

__all__ = ["EntryOf", "Found", "Read", "Registers", "find_loop"]

MOST_INSTRUCTIONS = 6000
"""Decoded at most for one answer."""


def find_loop(registers: Registers, read: Read, *, entry_of: EntryOf) -> Found:
    """The loop that the program counter lies in, or that calls the harmless leaf that it lies in. Never raises."""
    try:
        import capstone  # noqa: F401, PLC0415 - optional
    except ImportError:
        return _unknown(registers.pc, "capstone is not installed")
    try:
        if registers.arch not in ARCHES:
            return _unknown(registers.pc, f"loops cannot be told on {registers.arch}")
        return _find(registers, read, entry_of)
    except Puzzle as puzzle:
        return _unknown(registers.pc, str(puzzle))
    except Exception as problem:  # whatever the bytes are: a loop that cannot be told convicts nobody
        return _unknown(registers.pc, f"it cannot be followed ({type(problem).__name__})")


def _find(registers: Registers, read: Read, entry_of: EntryOf) -> Found:
    code = Code(arch=registers.arch, read=read, most=MOST_INSTRUCTIONS)
    innermost: Found | None = None
    for candidate in _candidates(code, registers, read, entry_of):
        here = classify(registers=registers, code=code, body=candidate.body, read=read, at=candidate.at)
        if here.found.kind in {LoopKind.ENDLESS, LoopKind.POLL}:
            return here.found
        innermost = innermost or here.found
        if not _looked_through(here, candidate):
            break
    return innermost or _unknown(registers.pc, "no loop around the program counter")


class _Candidate(NamedTuple):
    at: Node
    body: Body
    natural: bool


def _looked_through(here: Classified, candidate: _Candidate) -> bool:
    """A back-off, a bounded spin, or the retry of an atomic update: the loop around it tells what it waits for. A cycle
    that is no natural loop may be a part of one that can be told."""
    return here.idle or (not candidate.natural and here.found.kind is LoopKind.UNKNOWN)


def _candidates(code: Code, registers: Registers, read: Read, entry_of: EntryOf) -> Iterator[_Candidate]:
    """Loops that hold the thread, from the innermost outwards, through at most two calls."""
    yield from _around(code, Node((), registers.pc), registers.pc, entry_of)
    calls: tuple[int, ...] = ()
    for call in calls_above(code, registers=registers, read=read):
        calls = (call, *calls)
        yield from _around(code, Node(calls, registers.pc), call, entry_of)


def _around(code: Code, at: Node, address: int, entry_of: EntryOf) -> Iterator[_Candidate]:
    entry = entry_of(address)
    ways = flow_from(code, address if entry is None else entry)
    if address not in ways:
        ways = flow_from(code, address)
        entry = None
    for head, body, natural in loops_around(ways, entry=address if entry is None else entry, pc=address):
        yield _Candidate(at, Body(head, frozenset(body)), natural)


def _unknown(pc: int, why: str) -> Found:
    return Found(kind=LoopKind.UNKNOWN, start=pc, end=pc, why=why)
