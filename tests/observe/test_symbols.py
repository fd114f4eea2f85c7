"""Offsets in program files as function and line."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from livetrap.observe import symbols


def elf(path: Path, segments: list[tuple[int, int, int]]) -> Path:
    """An ELF-64 file of headers alone; a segment is its offset, address and length."""
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, len(segments))
    table = b"".join(struct.pack("<IIQQQQQQ", 1, 5, at, to, to, size, size, 4096) for at, to, size in segments)
    path.write_bytes(bytes(header) + table)
    return path


def test_offsets_become_addresses(tmp_path: Path) -> None:
    path = elf(tmp_path / "program", [(0, 0, 0x500), (0x500, 0x1500, 0x100), (0x600, 0x400600, 0x10)])
    for offset, address in ((0x10, 0x10), (0x510, 0x1510), (0x60F, 0x40060F), (0x610, None)):
        assert symbols.virtual_address(path, offset) == address


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(58), b"\x7fELF\x02\x01" + b"\xff" * 58]
)
def test_what_is_no_program_has_no_addresses(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert symbols.virtual_address(path, 0) is None
    assert symbols.virtual_address(tmp_path / "absent", 0) is None
    assert symbols.virtual_address(tmp_path, 0) is None


@pytest.mark.parametrize("site", ["", "x", "x+", "x+0xZZ", "y+0x10"])
def test_a_site_that_is_not_known(site: str, tmp_path: Path) -> None:
    assert symbols.resolve_site(site, {"x": str(tmp_path / "absent")}) is None


def test_without_addr2line_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols.shutil, "which", lambda _: None)
    path = elf(tmp_path / "program", [(0, 0, 0x500)])
    assert symbols.resolve(str(path), 0x10) is None


@pytest.mark.parametrize("script", ["sleep 5", "exit 1", "echo ??; echo ??:0", "true", "echo a; echo b; echo c"])
def test_a_tool_that_hangs_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = tmp_path / "addr2line"
    tool.write_text(f"#!/bin/sh\nexec 2>&1\n{script.replace('sleep', 'exec sleep')}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(symbols.shutil, "which", lambda _: str(tool))
    monkeypatch.setattr(symbols, "DEADLINE_S", 0.1)
    assert symbols.resolve(str(elf(tmp_path / "program", [(0, 0, 0x500)])), 0x10) is None


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("cc") and shutil.which("addr2line") and shutil.which("nm")),
    reason="needs cc and binutils",
)
@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-no-pie",), ("-shared", "-fPIC")])
def test_a_real_function(tmp_path: Path, flags: tuple[str, ...]) -> None:
    source, program = tmp_path / "odd name.c", tmp_path / "program"
    source.write_text("int twice(int n) {\n    return 2 * n;\n}\nint main(void) { return twice(0); }\n")
    subprocess.run(["cc", "-g", "-O0", *flags, source, "-o", program], check=True, timeout=60)
    listing = subprocess.run(["nm", program], check=True, timeout=10, capture_output=True, text=True).stdout
    address = next(int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(" twice"))
    offset = next(at for at in range(program.stat().st_size) if symbols.virtual_address(program, at) == address)
    assert symbols.resolve(str(program), offset) == f"twice at {source}:1"
