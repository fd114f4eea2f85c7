"""What arm64 instructions do, as far as wait loops use them. Whatever is not here cannot be followed.

Operands are read by their kind, never by capstone's access data: that is wrong for compares and atomics.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from livetrap.loops.arm64_memory import bits_of, memory, put, read, register
from livetrap.loops.code import Step
from livetrap.loops.machine import Branch, Machine, cannot, outside
from livetrap.loops.operands import NUMBER, REGISTER, Insn
from livetrap.loops.values import OPAQUE, Flags, Value, cut, holds, number, opaque, plus, signed

SCHED_YIELD = 124
REGISTERS = (*(f"x{n}" for n in range(31)), "sp")
STACK = "sp"
_ONES = (1 << 64) - 1
# arm64's carry after a compare is x86's, inverted: `lo` is below.
_CONDITIONS = {
    "eq": "e", "ne": "ne", "hs": "nb", "cs": "nb", "lo": "b", "cc": "b", "mi": "s", "pl": "ns", "vs": "o", "vc": "no",
    "hi": "nbe", "ls": "be", "ge": "nl", "lt": "l", "gt": "nle", "le": "le",
}  # fmt: skip


def execute(machine: Machine, step: Step, insn: Insn) -> Branch | None:
    """Does one instruction; of a branch, whether it is taken."""
    name = step.mnemonic
    if step.kind == "branch":
        return _branch(machine, name, insn)
    if step.kind in {"jump", "away"}:
        return None
    if name in _TABLE:
        _TABLE[name](machine, insn)
    elif not memory(machine, name, insn):
        raise cannot(name)
    return None


def call(machine: Machine, after: int) -> None:
    """Sets the link register."""
    machine.put("x30", number(after))


def come_back(machine: Machine) -> Value:
    """What the link register holds."""
    return machine.get("x30")


def system(machine: Machine) -> None:
    """A system call: only sched_yield, which never fails."""
    if machine.get("x8").number != SCHED_YIELD:
        raise cannot("a system call")
    machine.traits.add("yield")
    machine.put("x0", number(0))


def initial_flags(values: dict[str, int]) -> Flags | None:
    """The flags as they were read, if they were: NZCV in bits 31 to 28."""
    if "nzcv" not in values:
        return None
    word = values["nzcv"]
    carry = not word >> 29 & 1
    bits = int(carry) | (word >> 30 & 1) << 1 | (word >> 31 & 1) << 2 | (word >> 28 & 1) << 3
    return Flags("raw", number(bits), number(0), 64)


# --- the rest ---


def _branch(machine: Machine, name: str, insn: Insn) -> Branch:
    if name in {"cbz", "cbnz"}:
        value = register(machine, insn.operands[0].register)
        return Branch(None if value.number is None else (value.number == 0) == (name == "cbz"), value)
    if name in {"tbz", "tbnz"}:
        value = register(machine, insn.operands[0].register)
        bit = None if value.number is None else value.number >> insn.operands[1].number & 1
        return Branch(None if bit is None else bool(bit) == (name == "tbnz"), value)
    condition = name.partition(".")[2]
    taken = True if condition in {"al", "nv"} else None
    if condition in _CONDITIONS:
        taken = holds(_CONDITIONS[condition], machine.flags)
    return Branch(taken, Value(OPAQUE, 0, machine.flags.all_sources))


def _set(machine: Machine, insn: Insn, value: Value) -> None:
    put(machine, insn.operands[0].register, value)


def _mov(machine: Machine, insn: Insn) -> None:
    _set(machine, insn, read(machine, insn, 1))


def _movn(machine: Machine, insn: Insn) -> None:
    value = read(machine, insn, 1)
    _set(machine, insn, number(~value.offset, value.sources) if value.base is None else opaque(value))


def _movk(machine: Machine, insn: Insn) -> None:
    old, part = register(machine, insn.operands[0].register), insn.operands[1]
    by = part.by
    if old.base is None:
        old = number((old.offset & ~(0xFFFF << by)) | (part.number & 0xFFFF) << by, old.sources)
    _set(machine, insn, old if old.base is None else opaque(old))


def _adr(machine: Machine, insn: Insn) -> None:
    _set(machine, insn, number(insn.operands[1].number))


def _three(insn: Insn) -> tuple[int, int]:
    return (1, 2) if len(insn.operands) > 2 else (0, 1)


def _add(machine: Machine, insn: Insn) -> None:
    left, right = (read(machine, insn, at) for at in _three(insn))
    bits = bits_of(insn)
    total = cut(plus(left, right), bits)
    _set(machine, insn, total)
    if insn.mnemonic == "adds":
        machine.set_flags("zero", total, bits=bits)


def _difference(left: Value, right: Value, bits: int) -> Value:
    if right.base is None:
        return cut(plus(left, number(-signed(right.offset, bits), right.sources)), bits)
    return opaque(left, right, worked=True)


def _sub(machine: Machine, insn: Insn) -> None:
    left, right = (read(machine, insn, at) for at in _three(insn))
    bits = bits_of(insn)
    _set(machine, insn, _difference(left, right, bits))
    if insn.mnemonic == "subs":
        machine.set_flags("sub", left, right, bits)


def _neg(machine: Machine, insn: Insn) -> None:
    bits = bits_of(insn)
    value = read(machine, insn, 1)
    _set(machine, insn, _difference(number(0), value, bits))
    if insn.mnemonic == "negs":
        machine.set_flags("sub", number(0), value, bits)


def _cmp(machine: Machine, insn: Insn) -> None:
    machine.set_flags("sub", read(machine, insn, 0), read(machine, insn, 1), bits_of(insn))


def _cmn(machine: Machine, insn: Insn) -> None:
    """Compares with the negative. With a number other than 0 that is a compare, of all but overflow's corner."""
    left, right, bits = read(machine, insn, 0), read(machine, insn, 1), bits_of(insn)
    if right.base is None and 0 < right.offset < 1 << 31:
        machine.set_flags("sub", left, cut(number(-right.offset), bits), bits)
    else:
        machine.set_flags("zero", cut(plus(left, right), bits), bits=bits)


def _tst(machine: Machine, insn: Insn) -> None:
    machine.set_flags("test", read(machine, insn, 0), read(machine, insn, 1), bits_of(insn))


def _logic(do: Callable[[int, int], int], *, heavy: bool = False) -> Callable[[Machine, Insn], None]:
    def run(machine: Machine, insn: Insn) -> None:
        left, right = (read(machine, insn, at) for at in _three(insn))
        bits = bits_of(insn)
        if left.base is None and right.base is None:
            result = cut(number(do(left.offset, right.offset), left.sources | right.sources), bits)
        else:
            result = opaque(left, right, worked=heavy or right.base is not None)
        _set(machine, insn, result)
        if insn.mnemonic.endswith("s"):
            machine.set_flags("test", result, number(_ONES), bits)

    return run


def _shift(machine: Machine, insn: Insn) -> None:
    left, right = (read(machine, insn, at) for at in _three(insn))
    bits = bits_of(insn)
    if left.base is None and right.base is None:
        by = right.offset % bits
        wide = signed(left.offset, bits)
        done = {"lsl": left.offset << by, "lsr": left.offset >> by}.get(insn.mnemonic, wide >> by)
        _set(machine, insn, number(done, left.sources | right.sources))
    else:
        _set(machine, insn, opaque(left, right))


def _extend(bits: int, *, sign: bool) -> Callable[[Machine, Insn], None]:
    def run(machine: Machine, insn: Insn) -> None:
        value = cut(read(machine, insn, 1), bits)
        if sign:
            value = number(signed(value.offset, bits), value.sources) if value.base is None else opaque(value)
        _set(machine, insn, value)

    return run


def _bitfield(machine: Machine, insn: Insn) -> None:
    """ubfx: some bits of it."""
    value, low, width = read(machine, insn, 1), insn.operands[2].number, insn.operands[3].number
    if insn.mnemonic == "ubfx" and value.base is None:
        _set(machine, insn, number(value.offset >> low & ((1 << width) - 1), value.sources))
    else:
        _set(machine, insn, opaque(value))


def _worked(machine: Machine, insn: Insn) -> None:
    """Something made of all operands."""
    last = [at for at in range(1, len(insn.operands)) if insn.operands[at].kind in {REGISTER, NUMBER}]
    _set(machine, insn, opaque(*(read(machine, insn, at) for at in last), worked=True))


def _insert(machine: Machine, insn: Insn) -> None:
    """bfi, bfxil: keeps some of what it writes."""
    _set(machine, insn, opaque(read(machine, insn, 0), read(machine, insn, 1), worked=True))


def _condition(insn: Insn) -> str:
    return _CONDITIONS.get(insn.text.rsplit(",", 1)[-1].strip(), "")


def _cset(machine: Machine, insn: Insn) -> None:
    held = holds(_condition(insn), machine.flags) if _condition(insn) else None
    sources = machine.flags.all_sources
    true = 1 if insn.mnemonic == "cset" else _ONES
    _set(machine, insn, Value(OPAQUE, 0, sources) if held is None else number(true * held, sources))


def _csel(machine: Machine, insn: Insn) -> None:
    registers = [at for at in range(1, len(insn.operands)) if insn.operands[at].kind == REGISTER]
    values = [read(machine, insn, at) for at in registers]
    on = Value(OPAQUE, 0, machine.flags.all_sources)
    held = holds(_condition(insn), machine.flags) if _condition(insn) else None
    if insn.mnemonic != "csel" or held is None:
        _set(machine, insn, opaque(*values, on))
        return
    taken = values[0] if held else values[1]
    _set(machine, insn, Value(taken.base, taken.offset, taken.sources | on.sources))


def _ccmp(machine: Machine, insn: Insn) -> None:
    left, right, bits = read(machine, insn, 0), read(machine, insn, 1), bits_of(insn)
    on = Value(OPAQUE, 0, machine.flags.all_sources)
    held = holds(_condition(insn), machine.flags) if _condition(insn) else None
    if held is None or insn.mnemonic != "ccmp":
        machine.set_flags(OPAQUE, opaque(left, right, on))
    elif held:
        machine.set_flags("sub", Value(left.base, left.offset, left.sources | on.sources), right, bits)
    else:
        nzcv = insn.operands[2].number
        taken = (not nzcv >> 1 & 1) | (nzcv >> 2 & 1) << 1 | (nzcv >> 3 & 1) << 2 | (nzcv & 1) << 3
        machine.set_flags("raw", number(taken, on.sources))


def _pause(machine: Machine, insn: Insn) -> None:
    del insn
    machine.traits.add("pause")


def _system_register(machine: Machine, insn: Insn) -> None:
    name = insn.text.rsplit(",", 1)[-1].strip().lower()
    # The thread pointer is fixed; all else (clocks, counters) is not followed.
    _set(machine, insn, Value(OPAQUE, 0) if name in {"tpidr_el0", "tpidrro_el0"} else outside())


def _nothing(machine: Machine, insn: Insn) -> None:
    del machine, insn


_TABLE: dict[str, Callable[[Machine, Insn], None]] = {
    "mov": _mov, "movz": _mov, "movn": _movn, "movk": _movk, "adr": _adr, "adrp": _adr,
    "add": _add, "adds": _add, "sub": _sub, "subs": _sub, "neg": _neg, "negs": _neg,
    "cmp": _cmp, "cmn": _cmn, "tst": _tst,
    "and": _logic(operator.and_), "ands": _logic(operator.and_), "orr": _logic(operator.or_),
    "eor": _logic(operator.xor, heavy=True), "bic": _logic(lambda a, b: a & ~b), "bics": _logic(lambda a, b: a & ~b),
    "orn": _logic(lambda a, b: a | ~b), "eon": _logic(lambda a, b: a ^ ~b, heavy=True), "mvn": _movn,
    "lsl": _shift, "lsr": _shift, "asr": _shift, "ror": _worked, "extr": _worked,
    "uxtb": _extend(8, sign=False), "uxth": _extend(16, sign=False), "uxtw": _extend(32, sign=False),
    "sxtb": _extend(8, sign=True), "sxth": _extend(16, sign=True), "sxtw": _extend(32, sign=True),
    "ubfx": _bitfield, "sbfx": _bitfield, "ubfiz": _bitfield, "sbfiz": _bitfield, "bfi": _insert, "bfxil": _insert,
    "mul": _worked, "madd": _worked, "msub": _worked, "mneg": _worked, "umull": _worked, "smull": _worked,
    "umaddl": _worked, "smaddl": _worked, "umulh": _worked, "smulh": _worked, "udiv": _worked, "sdiv": _worked,
    "clz": _worked, "rbit": _worked, "rev": _worked,
    "cset": _cset, "csetm": _cset, "csel": _csel, "csinc": _csel, "csinv": _csel, "csneg": _csel, "cinc": _csel,
    "cinv": _csel, "cneg": _csel, "ccmp": _ccmp, "ccmn": _ccmp,
    "yield": _pause, "isb": _pause, "wfe": _pause, "sevl": _nothing, "sev": _nothing,
    "nop": _nothing, "dmb": _nothing, "dsb": _nothing, "bti": _nothing, "prfm": _nothing, "clrex": _nothing,
    "paciasp": _nothing, "autiasp": _nothing, "xpaclri": _nothing,
    "mrs": _system_register,
}  # fmt: skip
