"""A thread's registers and memory as far as they are known while its loop is followed."""

from __future__ import annotations

from typing import NamedTuple

from livetrap.loops.found import Puzzle, Read
from livetrap.loops.values import (
    MASK,
    OPAQUE,
    OUTSIDE,
    REWRITTEN,
    UNRESOLVED,
    Flags,
    Place,
    State,
    Value,
    Word,
    cut,
    number,
    opaque,
)

ZERO = number(0)
_BELOW, _ABOVE = 1024, 4096
"""Bytes about the stack pointer that are taken for the loop's own frame."""
DIVIDES, DIVIDES_BY = "divides", "divides by"
"""Traits that are not told: it divides by a fixed number, or by what may be 0. Both may fault (a large quotient)."""


class Access(NamedTuple):
    """One access to memory; `how`: `plain`, `atomic` (ordered), `cas`, `swap`, or `exclusive` (a conditional store)."""

    where: Value
    size: int
    how: str
    value: Value | None = None

    @property
    def address(self) -> int | None:
        return self.where.number


class Branch(NamedTuple):
    """A conditional way: whether it is taken (None: it cannot be told) and what that rests on."""

    taken: bool | None
    on: Value


class Machine:
    """Executes instructions over `state`; what else they do is collected in the lists."""

    def __init__(self, *, read: Read) -> None:
        self.state: State = {}
        self.read = read
        self.symbolic = False
        """Addresses may be a head's register plus an offset: no memory is read yet."""
        self.frame: int | None = None
        """The stack pointer at the loop's head, once it is known."""
        self.written: set[tuple[int, int]] = set()
        """(address, size) of all plain stores of the loop."""
        self.decide = False
        """Compare-and-swaps are decided by what memory holds now."""
        self._memory: dict[tuple[int, int], int | None] = {}
        self.begin()

    def begin(self) -> None:
        """Forgets what the last instruction did."""
        self.loads: list[Access] = []
        self.stores: list[Access] = []
        self.traits: set[str] = set()

    # --- registers ---

    def get(self, name: str) -> Value:
        value = self.state[name]
        assert isinstance(value, Value)
        low = self.state.get(f"{name}:l")
        if isinstance(low, Value):
            if value.base is None and low.base is None:
                return number((value.offset & ~0xFF) | low.offset, value.sources | low.sources)
            return opaque(value, low)
        return value

    def low(self, name: str) -> Value:
        """The low byte."""
        low = self.state.get(f"{name}:l")
        return low if isinstance(low, Value) else cut(self.get(name), 8)

    def put(self, name: str, value: Value) -> None:
        self.state[name] = value
        self.state.pop(f"{name}:l", None)

    def put_low(self, name: str, value: Value) -> None:
        self.state[f"{name}:l"] = cut(value, 8)

    @property
    def flags(self) -> Flags:
        flags = self.state["flags"]
        assert isinstance(flags, Flags)
        return flags

    def set_flags(self, kind: str, left: Value, right: Value = ZERO, bits: int = 64) -> None:
        self.state["flags"] = Flags(kind, left, right, bits)

    # --- memory ---

    def load(self, address: Value, size: int, how: str = "plain") -> Value:
        """What a load finds. `how` only tells traits apart."""
        if self.symbolic and address.base != OPAQUE:
            found = self.state.get(("m", address.base, address.offset, size))
            return found if isinstance(found, Value) else opaque(address, also=frozenset({UNRESOLVED}))
        place = address.number
        self.loads.append(Access(address, size, how))
        if place is None:
            return opaque(address, also=frozenset({UNRESOLVED}))
        key: Place = ("m", None, place, size)
        own = self._own(place)
        also = address.sources if own else frozenset({REWRITTEN})
        found = self.state.get(key)
        if isinstance(found, Value):
            return Value(found.base, found.offset, found.sources | also)
        if (place, size) in self.written:
            return Value(key, 0, also)
        if any(overlap(place, size, *other) for other in self.written):
            return opaque(address, also=frozenset({OUTSIDE}))
        held = self.word(place, size)
        sources = address.sources | {Word(place, size)}
        return Value(OPAQUE, 0, sources) if held is None else number(held, sources)

    def word(self, address: int, size: int) -> int | None:
        """What memory holds now; None: it cannot be read."""
        key = (address, size)
        if key not in self._memory:
            data = self.read(address, size) if 0 <= address <= MASK - size and 0 < size <= 8 else b""
            self._memory[key] = int.from_bytes(data[:size], "little") if len(data) >= size else None
        return self._memory[key]

    def store(self, address: Value, size: int, value: Value, how: str = "plain") -> None:
        """Notes a store; a plain one to a known address can be loaded again."""
        if self.symbolic:
            if address.base != OPAQUE:
                self.state["m", address.base, address.offset, size] = cut(value, size * 8)
            return
        place = address.number
        self.stores.append(Access(address, size, how, value))
        if place is None or how != "plain":
            return
        self.written.add((place, size))
        for key in [each for each in self.state if isinstance(each, tuple) and self._touches(each, place, size)]:
            self.state[key] = Value(OPAQUE, 0, frozenset({OUTSIDE}))
        self.state["m", None, place, size] = cut(value, size * 8)

    def _touches(self, key: Place, address: int, size: int) -> bool:
        if not isinstance(key, tuple):
            return False
        _, base, start, length = key
        if base is not None or not isinstance(start, int) or not isinstance(length, int):
            return True
        return (start, length) != (address, size) and overlap(start, length, address, size)

    def _own(self, address: int) -> bool:
        return self.frame is not None and self.frame - _BELOW <= address < self.frame + _ABOVE

    def is_own(self, access: Access) -> bool:
        """It lies in the loop's own stack frame."""
        return access.address is not None and self._own(access.address)

    # --- atomic updates ---

    def compare_and_swap(self, address: Value, size: int, expected: Value, new: Value) -> tuple[Value, bool | None]:
        """(what memory held, whether it was swapped); a failing one is no more than a load."""
        held = self.load(address, size, "cas")
        left, right = cut(expected, size * 8).number, held.number
        equal = None if left is None or right is None else left == right
        if not (self.decide and equal is False):
            self.store(address, size, new, "cas")
        return held, equal

    def swap(self, address: Value, size: int, new: Value) -> Value:
        """What memory held."""
        held = self.load(address, size, "swap")
        self.store(address, size, cut(new, size * 8), "swap")
        return held

    def update(self, address: Value, size: int, *values: Value) -> Value:
        """An atomic update: what memory held; it now holds something made of that and `values`."""
        held = self.load(address, size, "atomic")
        self.store(address, size, opaque(held, *values))
        return held


def outside(*also: Value) -> Value:
    """Something that is not followed."""
    return opaque(*also, also=frozenset({OUTSIDE}))


def cannot(what: str) -> Puzzle:
    """What to raise for an instruction that is not followed."""
    return Puzzle(f"it cannot be followed: {what}")


def overlap(start: int, size: int, other: int, its_size: int) -> bool:
    """Two pieces of memory have a byte in common."""
    return start < other + its_size and other < start + size
