"""A compiled shared object as a process would have it in memory, and a thread that runs in it. Pure but for files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from livetrap.loops import Registers
from livetrap.loops.code import Code
from livetrap.loops.follow import ARCHES
from livetrap.loops.linkage import table_jump
from livetrap.loops.machine import Machine
from livetrap.loops.values import MASK, RETRIED, Flags, Value, number

BASE = 0x5000_0000
STACK = 0x7000_0000
OUTSIDE = 0x6000_0000
"""Where functions of other libraries lie."""
_STACK_SIZE = 0x4000

# What glibc's sched_yield is, and one that leads nobody knows where.
_YIELDS = {
    "x86_64": "f30f1efa" "b818000000" "0f05" "483d01f0ffff" "7301" "c3"
    "488b0d00000000" "f7d8" "648901" "4883c8ff" "c3",
    "arm64": "5f2403d5" "880f80d2" "010000d4" "1ffc3fb1" "42000054" "c0035fd6" "e00300aa" "c0035fd6",
}  # fmt: skip
_STEPS = {"x86_64": "ffe0", "arm64": "00001fd6"}


class Image:
    """The segments of an ELF file at BASE, its relocations done; symbols by name."""

    def __init__(self, data: bytes) -> None:
        machine = struct.unpack_from("<H", data, 18)[0]
        self.arch = {62: "x86_64", 183: "arm64"}[machine]
        self.memory: dict[int, bytearray] = {
            STACK: bytearray(_STACK_SIZE),
            OUTSIDE: bytearray(bytes.fromhex(_YIELDS[self.arch]).ljust(0x100, b"\0")),
            OUTSIDE + 0x100: bytearray(bytes.fromhex(_STEPS[self.arch]).ljust(0x100, b"\0")),
        }
        self.symbols: dict[str, tuple[int, int]] = {}
        offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        headers = [struct.unpack_from("<IIQQQQQQ", data, offset + 56 * at) for at in range(count)]
        size = max(header[3] + header[6] for header in headers if header[0] == 1)
        self.memory[BASE] = bytearray(size)
        for kind, _, start, address, _, length, _, _ in headers:
            if kind == 1:
                self.memory[BASE][address : address + length] = data[start : start + length]
        dynamic = next(header for header in headers if header[0] == 2)
        self._relocate(dict(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]])))

    def _relocate(self, tags: dict[int, int]) -> None:
        image = self.memory[BASE]
        symbols, strings = tags[6], tags[5]
        names: list[str] = []
        for at in range(symbols, strings, 24):
            name, _, _, section, value, size = struct.unpack_from("<IBBHQQ", image, at)
            text = bytes(image[strings + name : image.index(b"\0", strings + name)]).decode()
            names.append(text)
            outer = OUTSIDE if text == "sched_yield" else OUTSIDE + 0x100
            self.symbols[text] = (BASE + value, size) if section else (outer, 0)
        for table, length in ((7, 8), (23, 2)):
            for at in range(tags.get(table, 0), tags.get(table, 0) + tags.get(length, 0), 24):
                where, info, addend = struct.unpack_from("<QQq", image, at)
                named = names[info >> 32]
                value = BASE + addend if info & 0xFFFF_FFFF in {8, 1027} else self.symbols[named][0] + addend
                struct.pack_into("<Q", image, where, value & MASK)

    def read(self, address: int, size: int) -> bytes:
        for start, data in self.memory.items():
            if start <= address < start + len(data):
                return bytes(data[address - start : address - start + size])
        return b""

    def write(self, address: int, size: int, value: int) -> None:
        for start, data in self.memory.items():
            if start <= address <= start + len(data) - size:
                data[address - start : address - start + size] = (value & ((1 << size * 8) - 1)).to_bytes(
                    size, "little"
                )

    def entry_of(self, pc: int) -> int | None:
        """The first address of the function that holds `pc`."""
        for start, size in self.symbols.values():
            if start <= pc < start + size:
                return start
        return None


class _Real(Machine):
    """Every load finds a number and every store is done."""

    def __init__(self, image: Image) -> None:
        super().__init__(read=image.read)
        self.image = image

    def load(self, address: Value, size: int, how: str = "plain") -> Value:  # noqa: ARG002
        assert address.number is not None
        return number(int.from_bytes(self.image.read(address.number, size), "little"))

    def store(self, address: Value, size: int, value: Value, how: str = "plain") -> None:  # noqa: ARG002
        assert address.number is not None
        # What this little machine does not work out (a product on arm64) may be anything: no test rests on it.
        self.image.write(address.number, size, value.offset)

    def compare_and_swap(self, address: Value, size: int, expected: Value, new: Value) -> tuple[Value, bool | None]:
        held = self.load(address, size)
        equal = held.number == expected.number & ((1 << size * 8) - 1) if expected.number is not None else None
        if equal:
            self.store(address, size, new)
        return held, equal

    def update(self, address: Value, size: int, *values: Value) -> Value:
        held = self.load(address, size)
        self.store(address, size, number(held.offset + values[0].offset))
        return held


def run(image: Image, start: int, *, arguments: tuple[int, ...] = (), steps: int) -> Iterator[Registers]:
    """A thread's registers before each of so many instructions from `start` on."""
    arch = ARCHES[image.arch]
    code = Code(arch=image.arch, read=image.read, most=100_000)
    machine = _Real(image)
    for place, name in enumerate(arch.REGISTERS):
        machine.state[name] = number(0x1111 * (place + 1))
    names = ("rdi", "rsi") if image.arch == "x86_64" else ("x0", "x1")
    machine.state |= {name: number(value) for name, value in zip(names, arguments, strict=False)}
    machine.state[arch.STACK] = number(STACK + _STACK_SIZE - 0x800)
    machine.state["flags"] = Flags("raw", number(0), number(0), 64)
    pc = start
    for _ in range(steps):
        values = {name: value.offset for name in arch.REGISTERS if isinstance(value := machine.get(name), Value)}
        yield Registers(
            arch=image.arch, pc=pc, sp=values[arch.STACK], values={k: v for k, v in values.items() if k != "sp"}
        )
        step = code.at(pc)
        assert step is not None, hex(pc)
        pc = _advance(arch, machine, code, pc)


def _advance(arch: ModuleType, machine: _Real, code: Code, pc: int) -> int:
    step = code.at(pc)
    assert step is not None
    if step.kind == "call" and (step.target is None or _leads_away(machine, code, step.target)):
        return step.after  # what is not known to be harmless is not run
    if step.kind == "call":
        assert step.target is not None
        arch.call(machine, step.after)
        return step.target
    if step.kind == "return":
        return int(arch.come_back(machine).offset)
    if step.kind == "system":
        arch.system(machine)
        return step.after
    if step.kind == "away":
        return table_jump(machine, code, step)
    branch = arch.execute(machine, step, code.detail(pc))
    if branch is None:
        return step.ways()[0]
    taken = branch.taken
    if taken is None:  # an exclusive store always goes through here
        assert branch.on.all_sources == {RETRIED}, step
        taken = step.mnemonic == "cbz"
    assert step.target is not None
    return step.target if taken else step.after


def _leads_away(machine: _Real, code: Code, target: int) -> bool:
    """It is the stub of a function other than sched_yield, or that function."""
    for _ in range(4):
        step = code.at(target)
        if step is None or step.kind == "away":
            break
        target = step.after
    return step is None or (step.kind == "away" and table_jump(machine, code, step) != OUTSIDE)


def built(path: Path) -> Image:
    """The image of a shared object."""
    return Image(path.read_bytes())
