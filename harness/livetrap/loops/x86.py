"""What x86-64 instructions do, as far as wait loops use them. Whatever is not here cannot be followed."""

from __future__ import annotations

import operator
from collections.abc import Callable

from livetrap.loops.code import Step
from livetrap.loops.machine import DIVIDES, DIVIDES_BY, Branch, Machine, cannot, outside
from livetrap.loops.operands import MEMORY, NUMBER, REGISTER, Insn
from livetrap.loops.values import CHANGES, OPAQUE, Flags, Value, cut, holds, number, opaque, plus, signed
from livetrap.loops.x86_operands import REGISTERS, address_of, bits_of, negated_in, read, write

__all__ = ["REGISTERS", "STACK", "call", "come_back", "execute", "initial_flags", "system"]

SCHED_YIELD = 24
STACK = "rsp"
_CONDITIONS = {
    "o": "o", "no": "no", "b": "b", "ae": "nb", "e": "e", "ne": "ne", "be": "be", "a": "nbe",
    "s": "s", "ns": "ns", "l": "l", "ge": "nl", "le": "le", "g": "nle",
}  # fmt: skip


def execute(machine: Machine, step: Step, insn: Insn) -> Branch | None:
    """Does one instruction; of a branch, whether it is taken."""
    name = insn.name
    if step.kind == "branch":
        return _branch(machine, name)
    if step.kind in {"jump", "away"}:
        return None
    if name.startswith("set") and name[3:] in _CONDITIONS:
        write(machine, insn, 0, _flag_value(machine, name[3:]))
    elif name.startswith("cmov") and name[4:] in _CONDITIONS:
        _cmov(machine, insn, name[4:])
    elif name in _TABLE:
        _TABLE[name](machine, insn)
    elif step.mnemonic.startswith("prefetch"):
        pass
    else:
        raise cannot(step.mnemonic)
    return None


def call(machine: Machine, after: int) -> None:
    """Pushes the return address."""
    _push(machine, number(after))


def come_back(machine: Machine) -> Value:
    """Pops the return address."""
    return _pop(machine)


def system(machine: Machine) -> None:
    """A system call: only sched_yield, which never fails."""
    if machine.get("rax").number != SCHED_YIELD:
        raise cannot("a system call")
    machine.traits.add("yield")
    machine.put("rax", number(0))
    machine.put("rcx", outside())
    machine.put("r11", outside())


def initial_flags(values: dict[str, int]) -> Flags | None:
    """The flags as they were read, if they were."""
    if "rflags" not in values:
        return None
    word = values["rflags"]
    bits = (word & 1) | (word >> 6 & 1) << 1 | (word >> 7 & 1) << 2 | (word >> 11 & 1) << 3
    return Flags("raw", number(bits), number(0), 64)


# --- kinds of instruction ---


def _branch(machine: Machine, name: str) -> Branch:
    if name in {"loop", "loope", "loopne"}:
        machine.put("rcx", plus(machine.get("rcx"), number(-1)))
        return Branch(None, Value(OPAQUE, 0, frozenset({CHANGES})))
    if name in {"jrcxz", "jecxz"}:
        value = cut(machine.get("rcx"), 64 if name == "jrcxz" else 32)
        return Branch(None if value.number is None else value.number == 0, value)
    if name[1:] in _CONDITIONS:
        return Branch(holds(_CONDITIONS[name[1:]], machine.flags), _on_flags(machine))
    return Branch(None, _on_flags(machine))  # parity


def _on_flags(machine: Machine) -> Value:
    return Value(OPAQUE, 0, machine.flags.all_sources)


def _flag_value(machine: Machine, condition: str) -> Value:
    held = holds(_CONDITIONS[condition], machine.flags)
    sources = machine.flags.all_sources
    return Value(OPAQUE, 0, sources) if held is None else number(int(held), sources)


def _cmov(machine: Machine, insn: Insn, condition: str) -> None:
    old, new = read(machine, insn, 0), read(machine, insn, 1)
    held = holds(_CONDITIONS[condition], machine.flags)
    on = _on_flags(machine)
    if held is None:
        write(machine, insn, 0, opaque(old, new, on))
        return
    taken = new if held else old
    write(machine, insn, 0, Value(taken.base, taken.offset, taken.sources | on.sources))


def _push(machine: Machine, value: Value) -> None:
    top = plus(machine.get("rsp"), number(-8))
    machine.put("rsp", top)
    machine.store(top, 8, value)


def _pop(machine: Machine) -> Value:
    top = machine.get("rsp")
    value = machine.load(top, 8)
    machine.put("rsp", plus(top, number(8)))
    return value


def _do_push(machine: Machine, insn: Insn) -> None:
    if bits_of(insn) != 64 and insn.operands[0].kind != NUMBER:
        raise cannot("push of a part")
    _push(machine, number(insn.operands[0].number) if insn.operands[0].kind == NUMBER else read(machine, insn, 0))


def _do_pop(machine: Machine, insn: Insn) -> None:
    if bits_of(insn) != 64:
        raise cannot("pop of a part")
    write(machine, insn, 0, _pop(machine))


def _leave(machine: Machine, insn: Insn) -> None:
    del insn
    machine.put("rsp", machine.get("rbp"))
    machine.put("rbp", _pop(machine))


def _mov(machine: Machine, insn: Insn) -> None:
    write(machine, insn, 0, read(machine, insn, 1))


def _movsx(machine: Machine, insn: Insn) -> None:
    value = read(machine, insn, 1)
    wide = number(signed(value.offset, bits_of(insn, 1)), value.sources) if value.base is None else opaque(value)
    write(machine, insn, 0, wide)


def _lea(machine: Machine, insn: Insn) -> None:
    write(machine, insn, 0, address_of(machine, insn, insn.operands[1]))


def _how(insn: Insn) -> str:
    return "atomic" if insn.mnemonic.startswith("lock") else "plain"


def _add(machine: Machine, insn: Insn) -> None:
    left, right = read(machine, insn, 0, _how(insn)), read(machine, insn, 1)
    bits = bits_of(insn)
    total = cut(plus(left, right), bits)
    write(machine, insn, 0, total)
    machine.set_flags("zero", total, bits=bits)


def _sub(machine: Machine, insn: Insn) -> None:
    left, right = read(machine, insn, 0, _how(insn)), read(machine, insn, 1)
    bits = bits_of(insn)
    write(machine, insn, 0, _difference(insn, left, right, bits))
    machine.set_flags("sub", left, right, bits)


def _difference(insn: Insn, left: Value, right: Value, bits: int) -> Value:
    if right.base is None:
        return cut(plus(left, negated_in(right, bits)), bits)
    if (
        insn.operands[0].kind == insn.operands[1].kind == REGISTER
        and insn.operands[0].register == insn.operands[1].register
    ):
        return number(0)
    return opaque(left, right, worked=True)


def _counted(by: int) -> Callable[[Machine, Insn], None]:
    def do(machine: Machine, insn: Insn) -> None:
        value = cut(plus(read(machine, insn, 0, _how(insn)), number(by)), bits_of(insn))
        write(machine, insn, 0, value)
        machine.set_flags("zero", value, bits=bits_of(insn))

    return do


def _logic(do: Callable[[int, int], int], name: str) -> Callable[[Machine, Insn], None]:
    def run(machine: Machine, insn: Insn) -> None:
        left, right = read(machine, insn, 0, _how(insn)), read(machine, insn, 1)
        bits = bits_of(insn)
        if name == "xor" and left == right and insn.operands[0].kind == insn.operands[1].kind == REGISTER:
            result = (
                number(0)
                if insn.operands[0].register == insn.operands[1].register
                else opaque(left, right, worked=True)
            )
        elif left.base is None and right.base is None:
            result = cut(number(do(left.offset, right.offset), left.sources | right.sources), bits)
        elif name in {"and", "or"} and left == right:
            result = left
        else:
            result = opaque(left, right, worked=right.base is not None or name == "xor")
        write(machine, insn, 0, result)
        machine.set_flags("and", result, number((1 << 64) - 1), bits)

    return run


def _cmp(machine: Machine, insn: Insn) -> None:
    machine.set_flags("sub", read(machine, insn, 0), read(machine, insn, 1), bits_of(insn))


def _test(machine: Machine, insn: Insn) -> None:
    machine.set_flags("and", read(machine, insn, 0), read(machine, insn, 1), bits_of(insn))


def _shift(machine: Machine, insn: Insn) -> None:
    value = read(machine, insn, 0)
    by = read(machine, insn, 1) if len(insn.operands) > 1 else number(1)
    bits = bits_of(insn)
    name = insn.name
    if value.base is None and by.base is None:
        count = by.offset & (63 if bits == 64 else 31)
        result = {"shl": value.offset << count, "sal": value.offset << count, "shr": value.offset >> count}.get(
            name, signed(value.offset, bits) >> count
        )
        done = cut(number(result, value.sources | by.sources), bits)
    else:
        done = opaque(value, by)
    write(machine, insn, 0, done)
    if by.base is None and by.offset & 31:
        machine.set_flags("zero", done, bits=bits)
    else:
        machine.set_flags(OPAQUE, opaque(done, Value(OPAQUE, 0, machine.flags.all_sources)))


def _worked(machine: Machine, insn: Insn) -> None:
    """Something made of all operands, written to the first."""
    values = [read(machine, insn, at) for at in range(len(insn.operands))]
    old = Value(OPAQUE, 0, machine.flags.all_sources)
    result = opaque(*values, old, worked=True)
    write(machine, insn, 0, result)
    machine.set_flags(OPAQUE, result)


def _one_way(do: Callable[[int], int]) -> Callable[[Machine, Insn], None]:
    """not, neg: one operand; flags of neg are not told."""

    def run(machine: Machine, insn: Insn) -> None:
        value = read(machine, insn, 0, _how(insn))
        bits = bits_of(insn)
        result = cut(number(do(value.offset), value.sources), bits) if value.base is None else opaque(value)
        write(machine, insn, 0, result)
        if insn.mnemonic.endswith("neg"):
            machine.set_flags("sub", number(0), value, bits)

    return run


def _imul(machine: Machine, insn: Insn) -> None:
    if len(insn.operands) == 1:
        _wide(machine, insn)
        return
    first = 1 if len(insn.operands) == 3 else 0
    left, right = read(machine, insn, first), read(machine, insn, first + 1)
    result = opaque(left, right, worked=True)
    if left.base is None and right.base is None:
        result = cut(number(left.offset * right.offset, left.sources | right.sources), bits_of(insn))
    write(machine, insn, 0, result)
    machine.set_flags(OPAQUE, opaque(left, right))


def _wide(machine: Machine, insn: Insn) -> None:
    """mul, div: rdx:rax with an operand."""
    values = [machine.get("rax"), machine.get("rdx"), read(machine, insn, 0)]
    for name in ("rax", "rdx"):
        machine.put(name, opaque(*values, worked=True))
    machine.set_flags(OPAQUE, opaque(*values))


def _divide(machine: Machine, insn: Insn) -> None:
    """div, idiv: they fault where the divisor is 0, or where the quotient does not fit."""
    divisor = read(machine, insn, 0)
    fixed = divisor.number not in {None, 0} and not divisor.sources
    machine.traits.add(DIVIDES if fixed else DIVIDES_BY)
    _wide(machine, insn)


def _extend_a(machine: Machine, insn: Insn) -> None:
    """cdqe and its like: rax of its lower half, or rdx of rax's sign."""
    value = machine.get("rax")
    name = insn.mnemonic
    if name in {"cdqe", "cwde"}:
        bits = 32 if name == "cdqe" else 16
        wide = number(signed(value.offset, bits), value.sources) if value.base is None else opaque(value)
        machine.put("rax", cut(wide, 64 if name == "cdqe" else 32))
    else:
        machine.put("rdx", opaque(value))


def _xchg(machine: Machine, insn: Insn) -> None:
    memory = next((at for at in (0, 1) if insn.operands[at].kind == MEMORY), None)
    if memory is None:
        left, right = read(machine, insn, 0), read(machine, insn, 1)
        write(machine, insn, 0, right)
        write(machine, insn, 1, left)
        return
    operand = insn.operands[memory]
    new = read(machine, insn, 1 - memory)
    write(machine, insn, 1 - memory, machine.swap(address_of(machine, insn, operand), operand.size, new))


def _cmpxchg(machine: Machine, insn: Insn) -> None:
    operand, bits = insn.operands[0], bits_of(insn)
    if operand.kind != MEMORY:
        raise cannot("cmpxchg of registers")
    expected = machine.low("rax") if bits == 8 else cut(machine.get("rax"), bits)
    held, equal = machine.compare_and_swap(
        address_of(machine, insn, operand), operand.size, expected, read(machine, insn, 1)
    )
    machine.set_flags("sub", expected, held, bits)
    if equal is not True:  # failing, it loads rax; swapped, both are equal
        if bits == 8:
            machine.put_low("rax", held)
        elif bits == 16:
            machine.put("rax", opaque(machine.get("rax"), held))
        else:
            machine.put("rax", held)


def _xadd(machine: Machine, insn: Insn) -> None:
    operand = insn.operands[0]
    if operand.kind != MEMORY:
        raise cannot("xadd of registers")
    held = machine.update(address_of(machine, insn, operand), operand.size, read(machine, insn, 1))
    write(machine, insn, 1, held)
    machine.set_flags(OPAQUE, opaque(held))


def _pause(machine: Machine, insn: Insn) -> None:
    del insn
    machine.traits.add("pause")


def _timed_pause(machine: Machine, insn: Insn) -> None:
    """tpause and umwait: a pause with a limit of some microseconds; the carry tells why it ended."""
    _pause(machine, insn)
    machine.set_flags(OPAQUE, outside())


def _clock(machine: Machine, insn: Insn) -> None:
    for name in ("rax", "rdx", *(("rcx",) if insn.mnemonic == "rdtscp" else ())):
        machine.put(name, outside())


def _nothing(machine: Machine, insn: Insn) -> None:
    del machine, insn


_TABLE: dict[str, Callable[[Machine, Insn], None]] = {
    "mov": _mov, "movabs": _mov, "movzx": _mov, "movsx": _movsx, "movsxd": _movsx, "lea": _lea,
    "add": _add, "sub": _sub, "inc": _counted(1), "dec": _counted(-1), "cmp": _cmp, "test": _test,
    "and": _logic(operator.and_, "and"), "or": _logic(operator.or_, "or"), "xor": _logic(operator.xor, "xor"),
    "not": _one_way(operator.invert), "neg": _one_way(operator.neg),
    "shl": _shift, "sal": _shift, "shr": _shift, "sar": _shift,
    "rol": _worked, "ror": _worked, "adc": _worked, "sbb": _worked, "bswap": _worked, "bsf": _worked, "bsr": _worked,
    "tzcnt": _worked, "lzcnt": _worked, "popcnt": _worked,
    "imul": _imul, "mul": _wide, "div": _divide, "idiv": _divide,
    "cdqe": _extend_a, "cwde": _extend_a, "cdq": _extend_a, "cqo": _extend_a,
    "push": _do_push, "pop": _do_pop, "leave": _leave,
    "xchg": _xchg, "cmpxchg": _cmpxchg, "xadd": _xadd,
    "pause": _pause, "tpause": _timed_pause, "umwait": _timed_pause, "umonitor": _nothing,
    "rdtsc": _clock, "rdtscp": _clock,
    "nop": _nothing, "endbr64": _nothing, "mfence": _nothing, "lfence": _nothing, "sfence": _nothing,
}  # fmt: skip
