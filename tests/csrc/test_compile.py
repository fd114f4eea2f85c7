"""Everything in csrc compiles without a warning."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.csrc.driver import (
    COMMON,
    CSRC,
    KERNELS,
    PARTS,
    RUNTIME,
    TECHNIQUES,
    WARNINGS,
    compile_c,
    compilers,
    registry,
)

RUNTIME_INCLUDE = f"-I{CSRC / 'runtime'}"
ZIG_TARGETS = ("aarch64-macos", "x86_64-macos", "aarch64-linux-gnu")


def sources(folder: Path) -> list[str]:
    table = folder / "registry.c"
    table.write_text(registry())
    return [str(file) for file in (*RUNTIME, *KERNELS, *PARTS, *TECHNIQUES, table)]


@pytest.mark.parametrize("compiler", compilers()[:1])
def test_syntax(tmp_path: Path, compiler: str) -> None:
    compile_c([compiler, *COMMON, RUNTIME_INCLUDE, *WARNINGS, "-fsyntax-only", *sources(tmp_path)])


@pytest.mark.slow
@pytest.mark.parametrize("compiler", compilers())
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_no_warnings(driver_of: Callable[[str, str], Path], compiler: str, level: str) -> None:
    assert driver_of(compiler, level).exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
@pytest.mark.parametrize("target", ZIG_TARGETS)
def test_cross_compiled(tmp_path: Path, target: str) -> None:
    """One file at a time: zig's linker for macOS crashes on many sources at once. Its first build takes a minute."""
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-fno-sanitize=undefined"]
    objects = []
    for place, source in enumerate(sources(tmp_path)):
        objects.append(str(tmp_path / f"{place}.o"))
        compile_c([*zig, *COMMON, RUNTIME_INCLUDE, *WARNINGS, "-O2", "-c", source, "-o", objects[-1]], timeout_s=300)
    compile_c([*zig, "-shared", "-pthread", *objects, "-o", str(tmp_path / "module.so")], timeout_s=300)
