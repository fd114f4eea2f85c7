"""Operands of x86-64 instructions: registers and their parts, numbers, memory."""

from __future__ import annotations

from livetrap.loops.machine import Machine, cannot
from livetrap.loops.operands import MEMORY, NUMBER, REGISTER, Insn, Operand
from livetrap.loops.values import OPAQUE, Value, cut, number, opaque, plus, signed

REGISTERS = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)))
_LOWS = {"rax": "a", "rbx": "b", "rcx": "c", "rdx": "d"}


def _names() -> dict[str, tuple[str, int]]:
    """Each register's name -> (its whole, bits); 9 stands for the second byte (ah)."""
    table: dict[str, tuple[str, int]] = {}
    for whole in REGISTERS[:8]:
        short = whole[1:]
        low = f"{short[0]}l" if whole in _LOWS else f"{short}l"
        table |= {whole: (whole, 64), f"e{short}": (whole, 32), short: (whole, 16), low: (whole, 8)}
        if whole in _LOWS:
            table[f"{short[0]}h"] = (whole, 9)
    for whole in REGISTERS[8:]:
        table |= {whole: (whole, 64), f"{whole}d": (whole, 32), f"{whole}w": (whole, 16), f"{whole}b": (whole, 8)}
    return table


_NAMES = _names()


def address_of(machine: Machine, insn: Insn, operand: Operand) -> Value:
    """Where a memory operand lies."""
    if operand.segment in {"fs", "gs"}:
        return Value(OPAQUE, 0)  # thread-local: fixed, but where is not known
    if _NAMES.get(operand.base or operand.scaled, ("", 64))[1] != 64:
        raise cannot("a 32-bit address")
    if operand.base == "rip":
        return number(insn.address + insn.size + operand.displacement)
    total = number(operand.displacement)
    if operand.base:
        total = plus(register(machine, operand.base), total)
    if operand.scaled in _NAMES:
        total = plus(total, scaled(register(machine, operand.scaled), operand.scale))
    return total


def scaled(value: Value, by: int) -> Value:
    """A value times a small number."""
    if by == 1:
        return value
    return number(value.offset * by, value.sources) if value.base is None else opaque(value)


def register(machine: Machine, name: str) -> Value:
    """What a register, or a part of one, holds."""
    if name not in _NAMES:
        raise cannot(f"register {name}")
    whole, bits = _NAMES[name]
    if bits == 8:
        return machine.low(whole)
    value = machine.get(whole)
    if bits == 9:
        return number(value.offset >> 8 & 0xFF, value.sources) if value.base is None else opaque(value)
    return cut(value, bits)


def read(machine: Machine, insn: Insn, at: int, how: str = "plain") -> Value:
    """What an operand holds; `how` as in Machine.load."""
    operand = insn.operands[at]
    if operand.kind == REGISTER:
        return register(machine, operand.register)
    if operand.kind == NUMBER:
        return cut(number(operand.number), bits_of(insn))  # as wide as what it is combined with
    return machine.load(address_of(machine, insn, operand), operand.size, how)


def write(machine: Machine, insn: Insn, at: int, value: Value) -> None:
    """Writes to an operand: a register's 32 bits clear those above, 16 and 8 do not."""
    operand = insn.operands[at]
    if operand.kind == MEMORY:
        machine.store(address_of(machine, insn, operand), operand.size, value)
        return
    name = operand.register
    if name not in _NAMES:
        raise cannot(f"register {name}")
    whole, bits = _NAMES[name]
    if bits >= 32 and bits != 9:
        machine.put(whole, cut(value, bits))
    elif bits == 8:
        machine.put_low(whole, value)
    else:
        machine.put(whole, opaque(machine.get(whole), value))


def bits_of(insn: Insn, at: int = 0) -> int:
    """How wide an operand is."""
    return int(insn.operands[at].size) * 8


def negated_in(value: Value, bits: int) -> Value:
    """Minus a known number, of that many bits, as a 64 bit number."""
    return number(-signed(value.offset, bits), value.sources)
