"""Offsets in program files as function and line."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from livetrap import tools
from livetrap.observe import symbols
from livetrap.observe.elf import has_symbol


def elf(path: Path, segments: list[tuple[int, int, int]]) -> Path:
    """An ELF-64 file of headers alone; a segment is its offset, address and length."""
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, len(segments))
    table = b"".join(struct.pack("<IIQQQQQQ", 1, 5, at, to, to, size, size, 4096) for at, to, size in segments)
    path.write_bytes(bytes(header) + table)
    return path


def with_exports(path: Path, symbols_: list[tuple[int, int, int]]) -> None:
    """Gives the file a symbol table; a symbol is its address, size and type."""
    content = bytearray(path.read_bytes())
    table = b"".join(struct.pack("<IBBHQQ", 0, kind, 0, 1, value, size) for value, size, kind in symbols_)
    struct.pack_into("<Q", content, 40, len(content) + len(table))
    struct.pack_into("<HH", content, 58, 64, 1)
    section = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, len(content), len(table), 0, 0, 8, 24)
    path.write_bytes(bytes(content) + table + section)


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
    monkeypatch.setattr(tools, "find", lambda _: None)
    path = elf(tmp_path / "program", [(0, 0, 0x500)])
    assert symbols.resolve(str(path), 0x10) is None


@pytest.mark.parametrize("script", ["sleep 5", "exit 1", "echo ??; echo ??:0", "true", "echo a; echo b; echo c"])
def test_a_tool_that_hangs_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = tmp_path / "addr2line"
    tool.write_text(f"#!/bin/sh\nexec 2>&1\n{script.replace('sleep', 'exec sleep')}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(tools, "find", lambda _: str(tool))
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


ANSWERS = """\
0x0000000000001010
inner(int)
/x/a b.c:12 (discriminator 2)
outer
/x/c.c:7
0x0000000000001020
??
??:0
0x0000000000001030
name
??:?
0x0000000000001040
\x1b[31modd
C:/x.c:?
"""


def test_answers_of_addr2line() -> None:
    inlined, unknown, bare, odd = symbols.parse(ANSWERS)
    assert symbols.described(inlined) == "inner(int) at /x/a b.c:12, inlined into outer at /x/c.c:7"
    assert symbols.described(unknown) is None
    assert symbols.described(bare) == "name"
    assert symbols.described(odd) == "odd in C:/x.c"
    assert symbols.parse("no address\nat all") == []


def test_a_name_is_believed_only_of_a_symbol_that_reaches_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = elf(tmp_path / "stripped", [(0, 0, 0x10000)])
    with_exports(path, [(0x1000, 0x40, 2), (0x2000, 0x40, 1), (0x3000, 0x40, 2)])
    assert has_symbol(path, 0x1000)
    assert has_symbol(path, 0x103F)
    assert not has_symbol(path, 0x1040)
    assert not has_symbol(path, 0x2000), "an object"
    tool = tmp_path / "addr2line"
    tool.write_text("#!/bin/sh\nfor last; do :; done\necho 0x00000000\necho exported\necho '??:?'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(tools, "find", lambda _: str(tool))
    assert symbols.resolve(str(path), 0x3010) == "exported"
    assert symbols.resolve(str(path), 0x5000) is None


def test_a_file_that_is_built_anew_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, tool = elf(tmp_path / "program", [(0, 0, 0x500)]), tmp_path / "addr2line"
    tool.write_text('#!/bin/sh\necho 0x00000010\necho f\nwc -c <"$6" | sed s/^/x.c:/\n')
    tool.chmod(0o755)
    monkeypatch.setattr(tools, "find", lambda _: str(tool))
    assert symbols.resolve(str(path), 0x10) == "f at x.c:120"
    path.write_bytes(path.read_bytes() + b"more")
    assert symbols.resolve(str(path), 0x10) == "f at x.c:124"
