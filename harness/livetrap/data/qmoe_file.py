"""The file that kernel qmoe reads, as `csrc/kernels/qmoe_data.h` describes it: header, then seven arrays."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

MAGIC = 0x4C4D524F464C5451
VERSION = 1
"""Grows whenever other content is written, so that the cache makes files anew."""
LAYOUT = 1
"""What the kernel checks."""
ALIGNMENT = 64
HEADER = struct.Struct("<QI9IQ7QddI4x")
"""Magic, layout, shape, size, where each array begins, relative and absolute tolerance, crc32 of all behind it."""
_SHAPE = slice(2, 11)


def pack(*, numbers: Sequence[int], arrays: Sequence[bytes], tolerance: tuple[float, float]) -> bytes:
    """The file of a shape's numbers, its arrays in their order, and its relative and absolute tolerance."""
    body = bytearray(_padding(HEADER.size))
    places: list[int] = []
    for array in arrays:
        places.append(HEADER.size + len(body))
        body += array
        body += bytes(_padding(len(array)))
    size = HEADER.size + len(body)
    return HEADER.pack(MAGIC, LAYOUT, *numbers, size, *places, *tolerance, zlib.crc32(body)) + bytes(body)


def is_whole(path: Path, *, numbers: Sequence[int]) -> bool:
    """Whether a file is there, is for this shape, and has what was written into it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    if len(data) < HEADER.size:
        return False
    fields = HEADER.unpack_from(data)
    head = (MAGIC, LAYOUT, tuple(numbers), len(data), zlib.crc32(data[HEADER.size :]))
    return head == (fields[0], fields[1], fields[_SHAPE], fields[11], fields[-1])


def _padding(size: int) -> int:
    return -size % ALIGNMENT
