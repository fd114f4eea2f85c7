"""Writes recorded.jsonl anew: `python -m tests.loops.record`. For each loop all bytes that its classification reads."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from livetrap.loops import Found, Registers, find_loop
from livetrap.loops.code import _CHUNK
from tests.loops.images import Image, built, run
from tests.loops.test_compiled import COMPILERS, SOURCE, Made

WHERE = Path(__file__).with_name("recorded.jsonl")
CONFIGURATIONS = ("clang -O0", "clang -O2", "arm64 -O0", "arm64 -O2", "arm64, atomics -O2")
FUNCTIONS = (
    "plain",
    "acquire",
    "with_yield",
    "with_getter",
    "two_words",
    "difference",
    "compare_and_swap",
    "test_test_and_set",
    "backoff",
    "spin_then_yield",
    "forever_counting",
    "bounded_spin",
    "chase",
    "steps",
    "work_until_told",
    "calls_what_writes",
)
_AT = 171


def main() -> None:
    """Compiles, runs and records."""
    with tempfile.TemporaryDirectory() as folder, WHERE.open("w", encoding="utf-8") as file:
        for configuration in CONFIGURATIONS:
            name, level = configuration.rsplit(" ", 1)
            output = Path(folder) / f"{name}{level}.so"
            flags = (level, "-g0", "-shared", "-fPIC", "-w", "-o", str(output))
            subprocess.run([*COMPILERS[name], *flags, str(SOURCE)], check=True, timeout=60)
            built(output)
            for function in FUNCTIONS:
                if function == "plain" and configuration == "clang -O2":
                    continue  # the loop is deleted
                entry = _recorded(Made(name, level, output), function)
                file.write(json.dumps({"configuration": configuration, "function": function, **entry}) + "\n")


def _recorded(made: Made, function: str) -> dict[str, object]:
    image = made.image(function)
    start = image.symbols[function][0]
    argument = image.symbols["nodes"][0]
    registers = list(run(image, start, arguments=(argument,), steps=_AT))[-1]
    found, pieces = _needed(image, registers)
    return {
        "arch": registers.arch,
        "pc": registers.pc,
        "sp": registers.sp,
        "values": registers.values,
        "entry": start,
        "memory": {f"{at:#x}": data.hex() for at, data in pieces.items()},
        "kind": found.kind.value,
        "polled": found.polled,
        "traits": found.traits,
        "lines": found.lines,
    }


def _needed(image: Image, registers: Registers) -> tuple[Found, dict[int, bytes]]:
    """What is found, and the memory that it takes: code in runs of 64 bytes, words as they are read."""
    taken: dict[int, bytes] = {}

    def read(address: int, size: int) -> bytes:
        if size >= _CHUNK:
            return b""  # so that no more is read than is needed
        data = image.read(address, min(size, 96))
        if len(data) > len(taken.get(address, b"")):
            taken[address] = data
        return data

    found = find_loop(registers, read, entry_of=image.entry_of)
    return found, taken


if __name__ == "__main__":
    main()
