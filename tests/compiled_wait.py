"""What a compiler made of a technique's wait: its object, disassembled, and the loops in it."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from livetrap.build.compilers import Compiler, installed_compilers
from livetrap.build.sources import units
from livetrap.model import BuildSpec
from livetrap.resources import csrc_dir

ARM64 = "arm64"
HERE = ARM64 if platform.machine().lower() in {"arm64", "aarch64"} else platform.machine().lower()
_LIMIT_S = 60.0
_CROSS_LIMIT_S = 300.0  # zig's first build for a target takes a minute

_FUNCTION = re.compile(r"^([0-9a-f]+) <([^>+]+)>:\s*$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*$")
_RELOCATION = re.compile(r"^\s*[0-9a-f]+:\s+(?:R_\w+|ARM64_RELOC_\w+|X86_64_RELOC_\w+)\s+([A-Za-z_.$][\w.$]*)")
_TARGET = re.compile(r"(?:^|\s|,)(?:0x)?([0-9a-f]+)\s+<")
_JUMP = re.compile(r"^(?:j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z)$")
_ACQUIRE = re.compile(r"^lda(?:pu?r|r)s?[bhw]?$")  # ldar, ldapr, ldapur and their narrow forms
_EXCLUSIVE_STORE = re.compile(r"^stl?xr[bh]?$")


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """A compiler, and the disassembler that reads what it makes."""

    name: str
    arch: str
    command: tuple[str, ...]
    objdump: tuple[str, ...]
    limit_s: float = _LIMIT_S


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction; `calls` is the outer name that its relocation names, without macOS's leading underscore."""

    address: int
    text: str
    calls: str = ""

    @property
    def mnemonic(self) -> str:
        return self.text.split()[0]


@dataclasses.dataclass(frozen=True)
class Loop:
    """The instructions from a backward jump's target to that jump."""

    function: str
    body: tuple[Instruction, ...]

    @property
    def calls(self) -> set[str]:
        return {each.calls for each in self.body if each.calls}

    @property
    def acquires(self) -> bool:
        """On arm64: some load in it has acquire semantics."""
        return any(_ACQUIRE.match(each.mnemonic) for each in self.body)

    @property
    def retries(self) -> bool:
        """On arm64: an atomic update by exclusive load and store, no wait."""
        return any(_EXCLUSIVE_STORE.match(each.mnemonic) for each in self.body)

    def __str__(self) -> str:
        return "\n".join([f"<{self.function}>", *(f"{each.text}  {each.calls}".rstrip() for each in self.body)])


Functions = dict[str, tuple[Instruction, ...]]


@functools.cache
def native() -> tuple[Toolchain, ...]:
    """The compilers of this machine, where there is a disassembler beside them."""
    path = shutil.which("objdump") or shutil.which("llvm-objdump")
    if path is None:
        return ()
    found = installed_compilers().values()
    return tuple(Toolchain(compiler.name, HERE, (compiler.path,), _disassembler(path, HERE)) for compiler in found)


@functools.cache
def for_arm64() -> Toolchain | None:
    """What compiles for arm64 here: this machine's own compiler if it is one, else a cross compiler, else nothing."""
    if HERE == ARM64:
        return native()[0] if native() else None
    gcc, its_objdump = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("aarch64-linux-gnu-objdump")
    if gcc and its_objdump:
        return Toolchain("aarch64-linux-gnu-gcc", ARM64, (gcc,), _disassembler(its_objdump, ARM64))
    objdump = shutil.which("llvm-objdump")
    if importlib.util.find_spec("ziglang") is not None and objdump:
        zig = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos", "-fno-sanitize=undefined")
        return Toolchain("zig for aarch64-macos", ARM64, zig, _disassembler(objdump, ARM64), _CROSS_LIMIT_S)
    return None


def compiled(technique: str, toolchain: Toolchain, *, flags: str, folder: Path) -> Functions:
    """The functions of csrc/techniques/TECHNIQUE.c as the project's own build compiles it with these flags."""
    spec = BuildSpec(compiler=toolchain.name, flags=tuple(flags.split()), kernel="barrier_rounds")
    unit = next(each for each in units(spec, csrc_dir()) if each.name == f"technique_{technique}")
    assert unit.source is not None
    stand_in = Compiler(name=toolchain.name, family="", path="", version="")
    output = folder / f"{technique}.o"
    ours = unit.command(compiler=stand_in, source=unit.source, output=output)[1:]
    _run(*toolchain.command, *ours, limit_s=toolchain.limit_s)
    return parsed(_run(*toolchain.objdump, str(output)))


def parsed(listing: str) -> Functions:
    """The functions in what GNU's or LLVM's `objdump -d -r --no-show-raw-insn` prints."""
    functions: dict[str, list[Instruction]] = {}
    body: list[Instruction] = []
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            body = functions.setdefault(_plain(head[2]), [])
        elif relocation := _RELOCATION.match(line):
            if body:
                body[-1] = dataclasses.replace(body[-1], calls=_plain(relocation[1]))
        elif instruction := _INSTRUCTION.match(line):
            body.append(Instruction(int(instruction[1], 16), instruction[2]))
    return {name: tuple(instructions) for name, instructions in functions.items()}


def waits(functions: Functions) -> list[Loop]:
    """All loops of the technique's own functions (those of our headers are called lt_...), but for atomic retries."""
    own = {name: body for name, body in functions.items() if not name.startswith("lt_")}
    return [loop for name, body in own.items() for loop in _loops(name, body) if not loop.retries]


def called(functions: Functions) -> set[str]:
    """The outer names that the functions call or jump to."""
    return {each.calls for body in functions.values() for each in body if each.calls}


def _loops(name: str, body: tuple[Instruction, ...]) -> Iterator[Loop]:
    for place, instruction in enumerate(body):
        if not _JUMP.match(instruction.mnemonic) or instruction.calls:
            continue
        target = _TARGET.search(instruction.text)
        start = int(target[1], 16) if target else -1
        if body[0].address <= start <= instruction.address:
            yield Loop(name, tuple(each for each in body[: place + 1] if each.address >= start))


def _disassembler(path: str, arch: str) -> tuple[str, ...]:
    command = (path, "-d", "-r", "--no-show-raw-insn")
    # LLVM's knows of the later acquire loads (ldapr) only when told, up to version 14.
    return (*command, "--mattr=+rcpc,+rcpc-immo") if arch == ARM64 and "LLVM" in _run(path, "--version") else command


def _plain(name: str) -> str:
    """A symbol as C has it: no underscore of macOS in front, no offset or version behind."""
    bare = re.split(r"[-+@]|\.(?:constprop|isra|part|cold)", name)[0]
    return bare if bare.startswith("__") else bare.removeprefix("_")


def _run(*command: str, limit_s: float = _LIMIT_S) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return done.stdout
