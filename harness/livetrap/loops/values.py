"""What is known of a value: a number, a register as it was at the loop's head plus an offset, or what it depends on."""

from __future__ import annotations

from typing import NamedTuple

MASK = (1 << 64) - 1

Place = str | tuple[object, ...]
"""A register by its name, `name:l` for its low byte, `flags`, or a word of memory as ("m", base, offset, size)."""

CHANGES = "changes"
"""It depends on something that the loop itself changes from round to round."""
RETRIED = "retried"
"""It depends on whether an exclusive store went through: now and then it does not."""
MERGED = "merged"
"""It depends on which way was taken to a place where two ways meet."""
OUTSIDE = "outside"
"""It depends on something that is not followed: a clock, a call's result."""
UNRESOLVED = "unresolved"
"""It was loaded from an address that is not known."""
REWRITTEN = "rewritten"
"""It was loaded from a word off the stack that the loop itself writes."""


class Word(NamedTuple):
    """Memory that the loop reads and does not write."""

    address: int
    size: int


class Head(NamedTuple):
    """What a place held at the loop's head; `worked`: it went through more than counting since."""

    place: Place
    worked: bool = False


Source = str | Word | Head
Sources = frozenset[Source]
NOTHING: Sources = frozenset()

OPAQUE = "?"


class Value(NamedTuple):
    """`base` None: the number `offset`; a Head's place: what that held, plus `offset`; OPAQUE: only `sources` count."""

    base: Place | None
    offset: int
    sources: Sources = NOTHING

    @property
    def number(self) -> int | None:
        return self.offset if self.base is None else None

    @property
    def all_sources(self) -> Sources:
        if self.base is None or self.base == OPAQUE:
            return self.sources
        return self.sources | {Head(self.base)}


class Flags(NamedTuple):
    """Where condition flags come from: `sub`, `and` or `test` of two values, `zero` of one; `raw` ones; or OPAQUE."""

    kind: str
    left: Value
    right: Value
    bits: int

    @property
    def all_sources(self) -> Sources:
        return self.left.all_sources | self.right.all_sources


def number(value: int, sources: Sources = NOTHING) -> Value:
    """A known number."""
    return Value(None, value & MASK, sources)


def opaque(*values: Value, worked: bool = False, also: Sources = NOTHING) -> Value:
    """Something made of these values; `worked`: by more than counting."""
    sources = also.union(*(value.all_sources for value in values))
    if worked:
        sources = frozenset(Head(each.place, True) if isinstance(each, Head) else each for each in sources)
    return Value(OPAQUE, 0, sources)


def plus(left: Value, right: Value) -> Value:
    """The sum; still a place plus an offset where one of them is a number."""
    if left.base is None:
        left, right = right, left
    if right.base is not None:
        return opaque(left, right, worked=left != right)
    if left.base == OPAQUE:
        return opaque(left, right)
    offset = left.offset + right.offset
    return Value(left.base, offset & MASK if left.base is None else signed(offset, 64), left.sources | right.sources)


def negated(value: Value) -> Value:
    """Two's complement of a number; all else is opaque."""
    return number(-value.offset, value.sources) if value.base is None else opaque(value)


def cut(value: Value, bits: int) -> Value:
    """The low `bits`, zero above."""
    if bits >= 64:
        return value
    if value.base is None:
        return Value(None, value.offset & ((1 << bits) - 1), value.sources)
    return opaque(value)


def signed(value: int, bits: int) -> int:
    """The low `bits` read as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


State = dict[Place, "Value | Flags"]


def joined(old: Value | Flags, new: Value | Flags, mark: str) -> Value | Flags:
    """What holds where two ways meet: the same, or something that depends on both and on `mark`."""
    if old == new:
        return old
    if isinstance(old, Flags) or isinstance(new, Flags):
        both = Value(OPAQUE, 0, old.all_sources | new.all_sources | {mark})
        return Flags(OPAQUE, both, number(0), 64)
    if old.base == new.base and old.offset == new.offset:
        return Value(old.base, old.offset, old.sources | new.sources)
    return Value(OPAQUE, 0, old.all_sources | new.all_sources | {mark})


def _sub_holds(condition: str, left: int, right: int, bits: int) -> bool | None:
    less = signed(left, bits) < signed(right, bits)
    table = {
        "e": left == right,
        "b": left < right,
        "be": left <= right,
        "l": less,
        "le": less or left == right,
        "s": bool((left - right) >> (bits - 1) & 1),
        "o": less != bool((left - right) >> (bits - 1) & 1),
    }
    return table.get(condition)


def holds(condition: str, flags: Flags) -> bool | None:
    """Whether a condition holds: `e b be l le s o`, with `n` in front the opposite; None: it cannot be told.

    `b` is below, unsigned: the carry of x86's subtraction; arm64's `lo`.
    """
    wanted = True
    if condition.startswith("n"):
        wanted, condition = False, condition[1:]
    left, right = flags.left.number, flags.right.number
    if left is None or right is None or flags.kind == OPAQUE:
        return None
    mask = (1 << flags.bits) - 1
    left, right = left & mask, right & mask
    held: bool | None = None
    if flags.kind == "sub":
        held = _sub_holds(condition, left, right, flags.bits)
    elif flags.kind == "and":
        result = left & right
        held = {"b": False, "o": False}.get(condition, _sub_holds(condition, result, 0, flags.bits))
    elif flags.kind == "test":  # arm64 clears its carry, which is x86's, inverted
        held = {"b": True, "be": True, "o": False}.get(condition, _sub_holds(condition, left & right, 0, flags.bits))
    elif flags.kind == "zero":  # of the result alone zero and sign are known
        held = _sub_holds(condition, left, 0, flags.bits) if condition in {"e", "s"} else None
    elif flags.kind == "raw":
        held = _raw_holds(condition, left)
    return None if held is None else held == wanted


def _raw_holds(condition: str, bits: int) -> bool | None:
    """`bits`: carry (of x86) 1, zero 2, sign 4, overflow 8."""
    carry, zero, sign, overflow = (bool(bits & bit) for bit in (1, 2, 4, 8))
    table = {
        "e": zero,
        "b": carry,
        "be": carry or zero,
        "l": sign != overflow,
        "le": zero or sign != overflow,
        "s": sign,
        "o": overflow,
    }
    return table.get(condition)
