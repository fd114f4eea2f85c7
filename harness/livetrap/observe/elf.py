"""What naming a place in an ELF file needs of it: where its bytes are loaded, and which code its symbols cover."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_MOST_SEGMENTS = 128
_MOST_SECTIONS = 4096
_MOST_SYMBOL_BYTES = 64 << 20
_PT_LOAD = 1
_SYMBOL_TABLES = frozenset({2, 11})
"""SHT_SYMTAB and SHT_DYNSYM."""
_CODE = frozenset({0, 2, 10})
"""STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC."""
_SYMBOL = struct.Struct("<IBBHQQ")


def virtual_address(path: Path, offset: int) -> int | None:
    """The address at which the ELF file wants the byte at `offset` to be loaded: what addr2line asks for.

    The two differ by a constant for each loaded segment (elf(5)); None for anything but a little-endian ELF-64 file.
    """
    try:
        with path.open("rb") as file:
            segments = _table(file, start_at=32, sizes_at=54, least=56, most=_MOST_SEGMENTS)
    except (OSError, ValueError):
        return None
    for segment in segments:
        kind, _, start, address, _, length = struct.unpack_from("<IIQQQQ", segment)
        if kind == _PT_LOAD and start <= offset < start + length:
            return int(address + offset - start)
    return None


def has_symbol(path: Path, address: int) -> bool:
    """Whether a symbol of the file covers the code at this address.

    In a stripped library addr2line names the nearest exported symbol, however far away: a name to be believed only if
    that symbol reaches so far.
    """
    try:
        with path.open("rb") as file:
            for section in _table(file, start_at=40, sizes_at=58, least=64, most=_MOST_SECTIONS):
                _, kind, _, _, start, length = struct.unpack_from("<IIQQQQ", section)
                if kind in _SYMBOL_TABLES:
                    file.seek(start)
                    if _covers(file.read(min(length, _MOST_SYMBOL_BYTES)), address):
                        return True
    except (OSError, ValueError, OverflowError):
        pass
    return False


def _table(file: BinaryIO, *, start_at: int, sizes_at: int, least: int, most: int) -> list[bytes]:
    """Entries of a table of the file; where it begins, how long an entry is and how many there are stand in the header.

    Empty for anything but a little-endian ELF-64 file.
    """
    header = file.read(64)
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        return []
    (start,) = struct.unpack_from("<Q", header, start_at)
    size, count = struct.unpack_from("<HH", header, sizes_at)
    file.seek(start)
    table = file.read(size * min(count, most))
    return [table[at : at + size] for at in range(0, len(table) - least + 1, max(size, least))]


def _covers(table: bytes, address: int) -> bool:
    whole = table[: len(table) - len(table) % _SYMBOL.size]
    return any(
        value <= address < value + size and info & 15 in _CODE and section
        for _, info, _, section, value, size in _SYMBOL.iter_unpack(whole)
    )
