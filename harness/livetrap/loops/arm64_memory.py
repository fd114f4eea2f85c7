"""Operands of arm64 instructions, and what its loads, stores and atomics do.

Operands are read by their kind, never by capstone's access data: that is wrong for compares and atomics.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from livetrap.loops.machine import Machine, cannot
from livetrap.loops.operands import MEMORY, NUMBER, REGISTER, Insn, Operand
from livetrap.loops.values import RETRIED, Value, cut, number, opaque, plus, signed

_LOAD = re.compile(r"^(ld(?:a|ap|ax|x)?u?r)(s?)([bhw]?)$")
_STORE = re.compile(r"^(stl?u?r)([bh]?)$")
_EXCLUSIVE_STORE = re.compile(r"^stl?xr([bh]?)$")
_CAS = re.compile(r"^casa?l?([bh]?)$")
_SWAP = re.compile(r"^swpa?l?([bh]?)$")
_UPDATE = re.compile(r"^ld(?:add|clr|eor|set|smax|smin|umax|umin)a?l?([bh]?)$")
_UPDATE_ONLY = re.compile(r"^st(?:add|clr|eor|set|smax|smin|umax|umin)l?([bh]?)$")
_SIZES = {"b": 1, "h": 2, "w": 4}


@functools.lru_cache(maxsize=256)
def whole_of(register: str) -> tuple[str, int]:
    """A register's whole and its bits; the zero register is ``."""
    name = {"fp": "x29", "lr": "x30", "wsp": "sp"}.get(register, register)
    if name in {"xzr", "wzr"}:
        return "", 64 if name == "xzr" else 32
    if name == "sp" or re.fullmatch(r"x\d+", name):
        return name, 64
    if re.fullmatch(r"w\d+", name):
        return f"x{name[1:]}", 32
    raise cannot(f"register {name}")


def register(machine: Machine, register: str) -> Value:
    """What a register, or the low half of one, holds."""
    whole, bits = whole_of(register)
    return cut(machine.get(whole), bits) if whole else number(0)


def put(machine: Machine, register: str, value: Value) -> None:
    """Writes a register; its low half clears the rest."""
    whole, bits = whole_of(register)
    if whole:
        machine.put(whole, cut(value, bits))


def bits_of(insn: Insn, at: int = 0) -> int:
    """How wide an operand is."""
    return whole_of(insn.operands[at].register)[1]


def moved(value: Value, operand: Operand) -> Value:
    """An operand's extension and shift."""
    if operand.extend:
        # capstone: 1 to 8 are uxtb uxth uxtw uxtx sxtb sxth sxtw sxtx
        bits = 8 << ((operand.extend - 1) % 4)
        if operand.extend > 4 and bits < 64:
            value = number(signed(value.offset, bits), value.sources) if value.base is None else opaque(value)
        else:
            value = cut(value, bits)
    if operand.shift and operand.by:
        if value.base is None and operand.shift in {1, 3}:
            by = operand.by
            shifted = value.offset << by if operand.shift == 1 else value.offset >> by
            return number(shifted, value.sources)
        return opaque(value)
    return value


def read(machine: Machine, insn: Insn, at: int) -> Value:
    """What an operand holds that is no memory."""
    found = insn.operands[at]
    if found.kind == REGISTER:
        return moved(register(machine, found.register), found)
    if found.kind == NUMBER:
        return moved(number(found.number), found)
    raise cannot(insn.mnemonic)


def address_of(machine: Machine, insn: Insn) -> Value:
    """The address of the memory operand, its base register written back where it says so."""
    at = next((at for at, each in enumerate(insn.operands) if each.kind == MEMORY), None)
    if at is None:
        # A literal: the address itself is an operand.
        if insn.operands[-1].kind == NUMBER:
            return number(insn.operands[-1].number)
        raise cannot(insn.mnemonic)
    found = insn.operands[at]
    base = register(machine, found.base)
    address = plus(base, number(found.displacement))
    if found.scaled:
        address = plus(address, moved(register(machine, found.scaled), found))
    if insn.writeback:
        later = insn.operands[at + 1 :]
        if later:  # the base moves after the access
            by = later[0]
            step = number(by.number) if by.kind == NUMBER else register(machine, by.register)
            put(machine, found.base, plus(base, step))
            return base
        put(machine, found.base, address)
    return address


def memory(machine: Machine, name: str, insn: Insn) -> bool:
    """Loads, stores and atomics; False: it is none of them."""
    for pattern, do in _MEMORY:
        if found := pattern.match(name):
            do(machine, insn, found)
            return True
    return False


def _size(insn: Insn, suffix: str, at: int = 0) -> int:
    return _SIZES.get(suffix) or bits_of(insn, at) // 8


def _load(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    base, sign, suffix = found.groups()
    size = _size(insn, suffix)
    how = "plain" if base in {"ldr", "ldur"} else "atomic"
    value = machine.load(address_of(machine, insn), size, how)
    if sign:
        value = number(signed(value.offset, size * 8), value.sources) if value.base is None else opaque(value)
    put(machine, insn.operands[0].register, value)


def _store(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    value = register(machine, insn.operands[0].register)
    size = _size(insn, found[2])
    machine.store(address_of(machine, insn), size, value)


def _exclusive_store(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    """Stores if nobody else did since the load: now and then it fails, so that a loop around it ends."""
    value = register(machine, insn.operands[1].register)
    machine.store(address_of(machine, insn), _size(insn, found[1], 1), value, "exclusive")
    put(machine, insn.operands[0].register, opaque(also=frozenset({RETRIED})))
    machine.traits.add("exclusive")


def _cas(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    size = _size(insn, found[1])
    expected = register(machine, insn.operands[0].register)
    new = register(machine, insn.operands[1].register)
    held, _ = machine.compare_and_swap(address_of(machine, insn), size, expected, new)
    put(machine, insn.operands[0].register, held)


def _swap(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    new = register(machine, insn.operands[0].register)
    held = machine.swap(address_of(machine, insn), _size(insn, found[1]), new)
    put(machine, insn.operands[1].register, held)


def _update(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    value = register(machine, insn.operands[0].register)
    held = machine.update(address_of(machine, insn), _size(insn, found[1]), value)
    put(machine, insn.operands[1].register, held)


def _update_only(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    value = register(machine, insn.operands[0].register)
    machine.update(address_of(machine, insn), _size(insn, found[1]), value)


def _pair(machine: Machine, insn: Insn, found: re.Match[str]) -> None:
    size = bits_of(insn) // 8
    names = [insn.operands[at].register for at in (0, 1)]
    values = [register(machine, each) for each in names]
    address = address_of(machine, insn)
    for place, name in enumerate(names):
        where = plus(address, number(place * size))
        if found[0] == "stp":
            machine.store(where, size, values[place])
        else:
            put(machine, name, machine.load(where, size))


_MEMORY: tuple[tuple[re.Pattern[str], Callable[[Machine, Insn, re.Match[str]], None]], ...] = (
    (_LOAD, _load),
    (_STORE, _store),
    (_EXCLUSIVE_STORE, _exclusive_store),
    (_CAS, _cas),
    (_SWAP, _swap),
    (_UPDATE, _update),
    (_UPDATE_ONLY, _update_only),
    (re.compile(r"^(?:ldp|stp)$"), _pair),
)
