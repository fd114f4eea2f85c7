"""Instructions with their operands, taken from capstone once and kept by their bytes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from livetrap.loops.found import Puzzle

REGISTER, NUMBER, MEMORY = 1, 2, 3
"""Kinds of operand that are followed; any other number is something else."""


class Operand(NamedTuple):
    """One operand. capstone's data on what is read and written is left out: it is wrong for too many instructions."""

    kind: int
    register: str = ""
    number: int = 0
    size: int = 0
    """In bytes; x86 only."""
    base: str = ""
    scaled: str = ""
    """The index register."""
    scale: int = 1
    displacement: int = 0
    segment: str = ""
    extend: int = 0
    """arm64: 1 to 8 are uxtb uxth uxtw uxtx sxtb sxth sxtw sxtx; 0 none."""
    shift: int = 0
    """arm64: 1 lsl, 3 lsr, 0 none; others are not followed."""
    by: int = 0


class Insn(NamedTuple):
    """One instruction."""

    address: int
    size: int
    mnemonic: str
    text: str
    """Its operands as text."""
    operands: tuple[Operand, ...]
    writeback: bool = False
    """arm64: the base register of its memory operand moves."""

    @property
    def name(self) -> str:
        """The mnemonic without prefixes."""
        return self.mnemonic.rsplit(" ", 1)[-1]


@functools.cache
def decoder(arch: str, detail: bool) -> Any:
    """capstone's decoder. Raises Puzzle where it has none."""
    import capstone  # noqa: PLC0415 - optional: without it every loop is unknown

    modes = {
        "x86_64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        "arm64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    if arch not in modes:
        raise Puzzle(f"no decoder for {arch}")
    made = capstone.Cs(*modes[arch])
    made.detail = detail
    return made


@functools.lru_cache(maxsize=4096)
def instruction(arch: str, data: bytes, address: int) -> Insn:
    """The instruction that these bytes are at that address."""
    for raw in decoder(arch, True).disasm(data, address, 1):
        operands = tuple(_operand(arch, raw, each) for each in raw.operands)
        return Insn(address, raw.size, raw.mnemonic, raw.op_str, operands, arch == "arm64" and bool(raw.writeback))
    raise Puzzle(f"no instruction at {address:#x}")


def _operand(arch: str, raw: Any, each: Any) -> Operand:
    x86 = arch == "x86_64"
    size = each.size if x86 else 0
    extra = {} if x86 else {"extend": each.ext, "shift": each.shift.type, "by": each.shift.value}
    if each.type == REGISTER:
        return Operand(REGISTER, register=raw.reg_name(each.reg), size=size, **extra)
    if each.type == NUMBER:
        return Operand(NUMBER, number=each.imm, size=size, **extra)
    if each.type == MEMORY:
        memory = each.mem
        return Operand(
            MEMORY,
            size=size,
            base=raw.reg_name(memory.base) if memory.base else "",
            scaled=raw.reg_name(memory.index) if memory.index else "",
            scale=memory.scale if x86 else 1,
            displacement=memory.disp,
            segment=raw.reg_name(memory.segment) if x86 and memory.segment else "",
            **extra,
        )
    return Operand(each.type)
