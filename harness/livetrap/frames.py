"""Where functions begin, by the unwind table that compilers put into every program: no symbols are needed. Pure.

The table is .eh_frame_hdr, found by its program header PT_GNU_EH_FRAME (Linux Standard Base, "Exception Frames"): a
sorted list of (first address, frame description), as mapped in the process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

Read = Callable[[int, int], bytes]
"""(address, size) -> that much of the process's memory; fewer bytes, or none, where it is not mapped."""

_PT_LOAD, _PT_GNU_EH_FRAME = 1, 0x6474E550
_MOST_HEADERS = 128
_MOST_ENTRIES = 1 << 24
_DATA_RELATIVE_4 = 0x3B  # how all linkers encode the table: signed 4 bytes, relative to its header
_SIZES = {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}  # DW_EH_PE_*, the low four bits, and their bytes


class _Odd(Exception):
    """The image is not as it should be."""


def function_start(read: Read, *, base: int, pc: int) -> int | None:
    """The first address of the function that holds `pc`, in the ELF image whose header is mapped at `base`.

    None where the table has none: no table, no such function (generated code, some assembly), or not readable. A part
    that a compiler moved away (cold code) counts as a function of its own.
    """
    try:
        header = _table(read, base)
        return None if header is None else _lookup(read, header, pc)
    except (_Odd, struct.error, OverflowError, ValueError, LookupError):
        return None


def _exactly(read: Read, address: int, size: int) -> bytes:
    if not 0 <= address <= (1 << 64) - size:
        raise _Odd
    data = read(address, size)
    if len(data) < size:
        raise _Odd
    return data[:size]


def _table(read: Read, base: int) -> int | None:
    """Where .eh_frame_hdr is mapped."""
    header = _exactly(read, base, 64)
    if header[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return None
    start, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
    if size != 56 or count > _MOST_HEADERS:
        return None
    table: int | None = None
    bias: int | None = None
    for kind, _, offset, address, _, _, length, _ in struct.iter_unpack(
        "<IIQQQQQQ", _exactly(read, base + start, size * count)
    ):
        if kind == _PT_LOAD and offset == 0 and length:
            bias = base - address
        elif kind == _PT_GNU_EH_FRAME:
            table = address
    return None if table is None or bias is None else table + bias


def _lookup(read: Read, header: int, pc: int) -> int | None:
    version, pointer, counted, table = _exactly(read, header, 4)
    if version != 1 or table != _DATA_RELATIVE_4 or counted & 0x0F not in {3, 11} or pointer & 0x0F not in _SIZES:
        return None
    at = header + 4 + _SIZES[pointer & 0x0F]
    count = struct.unpack("<I", _exactly(read, at, 4))[0]
    if not 0 < count <= _MOST_ENTRIES:
        return None
    low, high = 0, count  # the last entry that begins at or before pc lies in [low, high)
    first = at + 4
    while high - low > 1:
        middle = (low + high) // 2
        start = struct.unpack("<i", _exactly(read, first + 8 * middle, 4))[0]
        low, high = (middle, high) if header + start <= pc else (low, middle)
    start, frame = struct.unpack("<ii", _exactly(read, first + 8 * low, 8))
    begin = header + start
    return begin if begin <= pc < begin + _length(read, header + frame) else None


def _length(read: Read, frame: int) -> int:
    """How many bytes of code a frame description covers."""
    size, back = struct.unpack("<II", _exactly(read, frame, 8))
    if size in {0, 0xFFFFFFFF} or back == 0:
        raise _Odd
    width = _SIZES.get(_encoding(read, frame + 4 - back) & 0x0F)
    if width is None:
        raise _Odd
    return int.from_bytes(_exactly(read, frame + 8 + width, width), "little")


def _encoding(read: Read, common: int) -> int:
    """How the addresses of a frame description are encoded, by its common part."""
    size = struct.unpack("<I", _exactly(read, common, 4))[0]
    if not 9 <= size <= 4096:
        raise _Odd
    data = _exactly(read, common + 8, min(size - 4, 64))
    text = data[1 : data.index(0, 1)]
    if not text.startswith(b"z"):
        return 0
    at = 2 + len(text)
    for _ in range(4):  # alignments, return register, and the length of what follows
        at = _after_leb(data, at)
    for letter in text[1:]:
        if letter == ord("R"):
            return data[at]
        if letter == ord("L"):
            at += 1
        elif letter == ord("P"):
            at += 1 + _SIZES[data[at] & 0x0F]
        elif letter not in b"SB":
            raise _Odd
    return 0


def _after_leb(data: bytes, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1
