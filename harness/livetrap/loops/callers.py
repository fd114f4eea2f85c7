"""From inside a leaf to the call that led there: the code is followed forward to its return."""

from __future__ import annotations

from livetrap.loops.code import Code, Step
from livetrap.loops.follow import ARCHES
from livetrap.loops.found import Puzzle, Read, Registers
from livetrap.loops.linkage import table_jump
from livetrap.loops.machine import Machine
from livetrap.loops.values import OPAQUE, Flags, State, Value, number

_MOST = 64  # instructions to the return


def calls_above(code: Code, *, registers: Registers, read: Read, most: int = 2) -> list[int]:
    """Addresses of the calls that led to the program counter, the nearest first; fewer where one cannot be told."""
    arch = ARCHES[registers.arch]
    machine = Machine(read=read)
    known = {**registers.values, arch.STACK: registers.sp}
    nothing = Value(OPAQUE, 0)
    state: State = {name: number(known[name]) if name in known else nothing for name in arch.REGISTERS}
    state["flags"] = arch.initial_flags(registers.values) or Flags(OPAQUE, nothing, nothing, 64)
    machine.state = state
    found: list[int] = []
    address = registers.pc
    try:
        while len(found) < most:
            back = _return_from(code, machine, registers.arch, address)
            call = None if back is None else _call_before(code, registers.arch, back)
            if back is None or call is None:
                break
            found.append(call)
            address = back
    except Puzzle:
        pass
    return found


def _return_from(code: Code, machine: Machine, arch_name: str, address: int) -> int | None:
    """Executes from `address` to a return, and gives where that leads."""
    arch = ARCHES[arch_name]
    seen: set[int] = set()
    for _ in range(_MOST):
        step = code.at(address)
        if step is None or address in seen or step.kind in {"stop", "call"}:
            return None
        seen.add(address)
        machine.begin()
        if step.kind == "away":
            address = table_jump(machine, code, step)
            continue
        if step.kind == "system":
            arch.system(machine)
            address = step.after
            continue
        if step.kind == "return":
            back: Value = arch.come_back(machine)
            return back.number
        branch = arch.execute(machine, step, code.detail(address))
        address = _next(step, None if branch is None else branch.taken, seen)
    return None


def _next(step: Step, taken: bool | None, seen: set[int]) -> int:
    """A branch that cannot be told goes on ahead; a loop is left by the way that is new."""
    ways = step.ways()
    if len(ways) == 1:
        return ways[0]
    after, target = ways[0], ways[-1]
    if taken is not None and (target if taken else after) not in seen:
        return target if taken else after
    return after if after not in seen else target


def _call_before(code: Code, arch_name: str, back: int) -> int | None:
    """The call instruction that ends where a return leads to."""
    for size in (5, 6) if arch_name == "x86_64" else (4,):
        step = code.at(back - size)
        if step is not None and step.kind == "call" and step.after == back:
            return step.address
    return None
