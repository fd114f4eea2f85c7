"""Loops of compilers that are not everywhere, as recorded by record.py: bytes, registers and what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from livetrap.loops import Found, Registers, find_loop
from livetrap.model import LoopKind

pytest.importorskip("capstone")

CASES = [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text("utf-8").splitlines()]
# Written by hand, not recorded: what each has to be.
KINDS = {
    "plain": {LoopKind.POLL, LoopKind.ENDLESS},
    "forever_counting": {LoopKind.ENDLESS},
    "bounded_spin": {LoopKind.COMPUTE},
    "chase": {LoopKind.COMPUTE},
    "work_until_told": {LoopKind.COMPUTE},
    "steps": {LoopKind.UNKNOWN},
    "calls_what_writes": {LoopKind.UNKNOWN},
}
WORDS = {"plain": (0, 1), "two_words": (2,), "difference": (3,)}


def _find(case: dict[str, Any], **changed: int) -> Found:
    memory = {int(at, 0): bytes.fromhex(data) for at, data in case["memory"].items()}

    def read(address: int, size: int) -> bytes:
        if address in memory:
            return memory[address][:size]
        for at, data in memory.items():
            if at <= address < at + len(data):
                return data[address - at : address - at + size]
        return b""

    registers = Registers(arch=case["arch"], pc=case["pc"], sp=case["sp"], values=case["values"] | changed)
    return find_loop(registers, read, entry_of=lambda pc: case["entry"] if pc >= case["entry"] else None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['configuration']} {case['function']}")
def test_recorded(case: dict[str, Any]) -> None:
    found = _find(case)
    assert found.kind in KINDS.get(case["function"], {LoopKind.POLL}), found
    assert found.kind.value == case["kind"]
    assert [list(each) for each in found.polled] == case["polled"]
    assert list(found.traits) == case["traits"]
    assert list(found.lines) == case["lines"]
    if found.kind is LoopKind.POLL and case["configuration"].endswith("-O2"):
        got = sum(size == 4 for _, size in found.polled)
        assert got in WORDS.get(case["function"], (1,)), found.polled
        assert any(line.endswith("<- polls") for line in found.lines)


def test_the_frame_tells_registers_apart() -> None:
    case = next(each for each in CASES if each["function"] == "acquire" and each["configuration"] == "clang -O2")
    before = _find(case).frame
    assert before == _find(case).frame
    assert before != _find(case, r15=12345).frame
    assert before != _find(case | {"sp": case["sp"] + 16}, rsp=case["sp"] + 16).frame
