"""Jumps and calls through the linker's tables: where a stub leads."""

from __future__ import annotations

from livetrap.loops.code import Code, Step
from livetrap.loops.machine import Machine, cannot
from livetrap.loops.operands import MEMORY

_STUB = 12  # bytes from the first instruction of arm64's stub to its jump


def table_jump(machine: Machine, code: Code, step: Step) -> int:
    """Where an indirect jump or call leads that goes through a word at a fixed address. Raises Puzzle for any other."""
    target = _arm64(machine, code, step) if code.arch == "arm64" else _x86(machine, code, step)
    if not target:
        raise cannot("an indirect jump" if step.kind == "away" else "an indirect call")
    return target


def _x86(machine: Machine, code: Code, step: Step) -> int | None:
    """`jmp` or `call` of `[rip + n]`."""
    insn = code.detail(step.address)
    operand = insn.operands[0] if len(insn.operands) == 1 else None
    if operand is None or operand.kind != MEMORY or (operand.base, operand.scaled, operand.segment) != ("rip", "", ""):
        return None
    return machine.word(insn.address + insn.size + operand.displacement, 8)


def _arm64(machine: Machine, code: Code, step: Step) -> int | None:
    """adrp x16, page; ldr x17, [x16, n]; add x16, x16, n; br x17."""
    if step.mnemonic != "br" or step.operands not in {"x16", "x17"}:
        return None
    page, load = code.at(step.address - _STUB), code.at(step.address - _STUB + 4)
    if page is None or load is None or (page.mnemonic, load.mnemonic) != ("adrp", "ldr"):
        return None
    base, operands = code.detail(page.address).operands[1].number, code.detail(load.address).operands
    if not load.operands.startswith(f"{step.operands}, [x16"):
        return None
    return machine.word(base + operands[1].displacement, 8)
