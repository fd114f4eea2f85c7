"""Machine code, decoded as far as its flow: where each instruction leads. By capstone."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from livetrap.loops.found import Puzzle, Read
from livetrap.loops.operands import Insn, decoder, instruction

_CHUNK = 4096
_RUN = 512
"""Bytes that are decoded at once, at most."""


class Step(NamedTuple):
    """One instruction as far as its flow."""

    address: int
    size: int
    mnemonic: str
    operands: str
    kind: str
    """`plain`, `jump`, `branch` (conditional), `call`, `return`, `system`, `stop` (a trap), or `away` (an indirect
    jump)."""
    target: int | None
    """Of a direct jump, branch or call."""

    @property
    def after(self) -> int:
        return self.address + self.size

    @property
    def flows_on(self) -> bool:
        return self.kind in {"plain", "branch", "call", "system"}

    def ways(self) -> tuple[int, ...]:
        """Where control may go next inside the function; a call is taken to return."""
        ways: tuple[int, ...] = (self.after,) if self.flows_on else ()
        if self.kind in {"jump", "branch"} and self.target is not None and self.target not in ways:
            ways += (self.target,)
        return ways


_DIRECT = re.compile(r"(?:^|[ ,])#?(0x[0-9a-f]+|\d+)$")
_X86_KINDS = {
    "jmp": "jump",
    "ljmp": "away",
    "call": "call",
    "lcall": "stop",
    "ret": "return",
    "retf": "stop",
    "retfq": "stop",
    "iret": "stop",
    "iretd": "stop",
    "iretq": "stop",
    "syscall": "system",
    "sysenter": "stop",
    "sysexit": "stop",
    "sysret": "stop",
    "int": "stop",
    "int1": "stop",
    "int3": "stop",
    "into": "stop",
    "ud0": "stop",
    "ud1": "stop",
    "ud2": "stop",
    "ud2b": "stop",
    "hlt": "stop",
    "loop": "branch",
    "loope": "branch",
    "loopne": "branch",
    "xbegin": "stop",
}
_ARM64_KINDS = {
    "b": "jump",
    "bl": "call",
    "br": "away",
    "ret": "return",
    "svc": "system",
    "cbz": "branch",
    "cbnz": "branch",
    "tbz": "branch",
    "tbnz": "branch",
    "udf": "stop",
    "brk": "stop",
    "hlt": "stop",
    "hvc": "stop",
    "smc": "stop",
    "eret": "stop",
    "drps": "stop",
    "blr": "call",
    "retaa": "return",
    "retab": "return",
}


def _x86_kind(mnemonic: str) -> str:
    name = mnemonic.rsplit(" ", 1)[-1]
    if name.startswith("j") and name != "jmp":
        return "branch"
    return _X86_KINDS.get(name, "plain")


def _arm64_kind(mnemonic: str) -> str:
    if mnemonic.startswith(("b.", "bc.")):
        return "branch"
    if mnemonic.startswith(("bra", "blra")):
        return "away" if mnemonic.startswith("bra") else "call"
    return _ARM64_KINDS.get(mnemonic, "plain")


@functools.lru_cache(maxsize=512)
def _run(arch: str, data: bytes, address: int) -> tuple[Step, ...]:
    """The instructions from there on, up to one that does not flow on: the same code is met again at each look."""
    steps = []
    for place, size, mnemonic, operands in decoder(arch, False).disasm_lite(data, address):
        steps.append(step := _step(arch, place, size, mnemonic, operands))
        if not step.flows_on:
            break
    return tuple(steps)


def _step(arch: str, address: int, size: int, mnemonic: str, operands: str) -> Step:
    kind = _x86_kind(mnemonic) if arch == "x86_64" else _arm64_kind(mnemonic)
    target = None
    if kind in {"jump", "branch", "call"}:
        # A number alone (x86), or as the last operand (arm64); a register or memory leads elsewhere.
        direct = _DIRECT.search(operands) if "[" not in operands else None
        target = int(direct[1], 0) if direct else None
        if target is None and kind != "call":
            kind = "away"
    if kind == "return" and operands not in {"", "x30", "lr"}:
        kind = "stop"  # it pops more, or goes elsewhere
    return Step(address, size, mnemonic, operands, kind, target)


class Code:
    """A process's code, read in chunks and decoded once; bounded by `most` instructions."""

    def __init__(self, *, arch: str, read: Read, most: int) -> None:
        self.arch = arch
        self.left = most
        self._read = read
        self._chunks: dict[int, bytes] = {}
        self._steps: dict[int, Step | None] = {}
        self._details: dict[int, Insn] = {}

    def at(self, address: int) -> Step | None:
        """The instruction there; None: not mapped, or none."""
        if address not in self._steps:
            self._decode_from(address)
        return self._steps[address]

    def detail(self, address: int) -> Insn:
        """The instruction there, with its operands."""
        if address not in self._details:
            step = self.at(address)
            if step is None:
                raise Puzzle(f"no instruction at {address:#x}")
            self._details[address] = instruction(self.arch, self._bytes(address, step.size), address)
        return self._details[address]

    def _decode_from(self, address: int) -> None:
        """Decodes a run of instructions up to one that does not flow on."""
        self._steps[address] = None
        for step in _run(self.arch, self._bytes(address, _RUN), address):
            if self._steps.get(step.address) is not None:
                return
            self.left -= 1
            if self.left < 0:
                raise Puzzle("too much code to decode")
            self._steps[step.address] = step

    def _bytes(self, address: int, size: int) -> bytes:
        """Read by whole chunks, where these are mapped whole: one reading of memory serves many instructions."""
        start = address - address % _CHUNK
        if start < 0 or start + 2 * _CHUNK > 1 << 64:
            return b""
        data = self._chunk(start)[address - start : address - start + size]
        if data and len(data) < size:
            data += self._chunk(start + _CHUNK)[: size - len(data)]
        return data or self._read(address, size)[:size]

    def _chunk(self, start: int) -> bytes:
        if start not in self._chunks:
            self._chunks[start] = self._read(start, _CHUNK)[:_CHUNK]
        return self._chunks[start]
