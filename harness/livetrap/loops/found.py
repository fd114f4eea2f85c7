"""What goes in and what comes out: memory, registers, a classified loop."""

from __future__ import annotations

from collections.abc import Callable

from livetrap.model import Frozen, LoopKind

Read = Callable[[int, int], bytes]
"""(address, size) -> that much of the process's memory, or of a file; fewer bytes, or none, where it is not mapped."""
EntryOf = Callable[[int], int | None]
"""The first address of the function that holds an address; None where that is not known (generated code)."""


class Registers(Frozen, kw_only=True):
    """A thread's registers at one stop."""

    arch: str
    """`x86_64` or `arm64`."""
    pc: int
    sp: int
    values: dict[str, int]
    """The general registers, 64 bits each: `rax` .. `r15`; `x0` .. `x30`. The flags too, where they are known, as
    `rflags` or `nzcv` (the whole word of the system: they decide loops that only jump on flags)."""


class Found(Frozen, kw_only=True):
    """The loop that a program counter lies in, or why none can be told."""

    kind: LoopKind
    start: int
    """Its lowest address ..."""
    end: int
    """... and the first one behind its highest instruction."""
    instructions: tuple[int, ...] = ()
    """Addresses in the loop, without those of functions that it calls."""
    polled: tuple[tuple[int, int], ...] = ()
    """Of a poll, and of one that is on its way out: (address, size in bytes) of all memory that its way depends on."""
    stores: tuple[tuple[int, int], ...] = ()
    """Of a poll or an endless loop: (address, size in bytes) of all that it writes."""
    frame: str = ""
    """The loop's first address, its frame's stack pointer and all registers that it only reads, as one short text."""
    traits: tuple[str, ...] = ()
    """Of `plain load`, `atomic`, `compare-and-swap`, `pause`, `yield`."""
    why: str = ""
    """What made it this kind, in a few words."""
    lines: tuple[str, ...] = ()
    """The disassembled loop, `address: mnemonic operands` each; a polled load has `  <- polls` behind it."""


class Puzzle(Exception):
    """The code cannot be followed; the message says why. Never leaves this package."""
