"""Whatever the bytes and the registers: an answer, and soon."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livetrap.loops import Registers, find_loop
from livetrap.loops.follow import ARCHES
from livetrap.model import LoopKind

pytest.importorskip("capstone")

BASE = 0x40_0000
# Pieces of loops beside random bytes: mere noise seldom loops.
PIECES = {
    "x86_64": ("75f0", "ebf6", "74fe", "ebfe", "8b07", "85c0", "f390", "0f05", "c3", "50", "58", "f00fb10f", "870f"),
    "arm64": ("00000014", "c0ffff54", "000040b9", "3f2003d5", "c0035fd6", "1f000071", "00fcdf88", "017c0088"),
}


def _registers(arch: str, pc: int, some: list[int]) -> Registers:
    names = [name for name in ARCHES[arch].REGISTERS if name != "sp"]
    values = {name: some[at % len(some)] for at, name in enumerate(names)} | {"rflags": some[0], "nzcv": some[-1]}
    return Registers(arch=arch, pc=pc, sp=values.get("rsp", BASE + 0x800), values=values)


@pytest.mark.parametrize("arch", list(ARCHES))
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_never_raises(arch: str, data: st.DataObject) -> None:
    piece = st.sampled_from([bytes.fromhex(each) for each in PIECES[arch]]) | st.binary(min_size=4, max_size=4)
    code = b"".join(data.draw(st.lists(piece, min_size=1, max_size=24)))
    pc = BASE + data.draw(st.integers(-4, len(code)).map(lambda at: at & ~3 if arch == "arm64" else at))
    near = st.integers(BASE - 64, BASE + 200) | st.integers(0, (1 << 64) - 1)
    entry = data.draw(st.sampled_from([None, BASE, pc]))

    def read(address: int, size: int) -> bytes:
        at = address - BASE
        return code[at : at + size] if 0 <= at < len(code) else b""

    registers = _registers(arch, pc, data.draw(st.lists(near, min_size=1, max_size=6)))
    found = find_loop(registers, read, entry_of=lambda _: entry)
    assert isinstance(found.kind, LoopKind)
    assert found.start <= found.end
    assert bool(found.polled) == (found.kind is LoopKind.POLL)
    assert found.why


def test_an_odd_architecture_and_a_missing_register() -> None:
    odd = Registers(arch="riscv64", pc=BASE, sp=0, values={})
    assert find_loop(odd, lambda _a, _s: b"", entry_of=lambda _: None).kind is LoopKind.UNKNOWN
    bare = Registers(arch="x86_64", pc=BASE, sp=0, values={})
    spin = bytes.fromhex("8b0785c074fa")
    found = find_loop(bare, lambda a, s: spin[a - BASE :][:s] if a >= BASE else b"", entry_of=lambda _: BASE)
    assert found.kind is LoopKind.UNKNOWN


def test_without_capstone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "capstone", None)
    found = find_loop(
        Registers(arch="x86_64", pc=BASE, sp=0, values={}), lambda _a, _s: b"\xeb\xfe", entry_of=lambda _: BASE
    )
    assert (found.kind, found.why) == (LoopKind.UNKNOWN, "capstone is not installed")


@pytest.mark.parametrize("code", ["ebfe", "90ebfd", "48ffc0ebfb"])
def test_a_jump_to_itself_needs_no_entry(code: str) -> None:
    raw = bytes.fromhex(code)

    def read(address: int, size: int) -> bytes:
        return raw[address - BASE :][:size] if address >= BASE else b""

    found = find_loop(_registers("x86_64", BASE, [1]), read, entry_of=lambda _: None)
    assert (found.kind, found.start, found.end) == (LoopKind.ENDLESS, BASE, BASE + len(raw))
