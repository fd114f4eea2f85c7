"""Functions' first addresses from a hand-made unwind table, from the C library's, and from broken ones."""

from __future__ import annotations

import ctypes
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap.frames import function_start

BASE = 0x7F00_0000_0000
FUNCTIONS = ((0x1000, 0x40), (0x1040, 0x10), (0x1100, 0x200), (0x2000, 1))
"""(first address, bytes), relative to the image."""
_HEADER, _COMMON = 0x3000, 0x3100


def _image(*, first: int = 0, count: int | None = None, table: int = 0x3B, width: str = "<i") -> bytes:
    """An image whose segments were linked from `first` on."""
    image = bytearray(0x4000)
    image[:16] = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    struct.pack_into("<Q", image, 32, 64)
    struct.pack_into("<HH", image, 54, 56, 2)
    struct.pack_into("<IIQQQQQQ", image, 64, 1, 5, 0, first, first, 0x4000, 0x4000, 0x1000)
    struct.pack_into("<IIQQQQQQ", image, 120, 0x6474E550, 4, _HEADER, first + _HEADER, 0, 0x100, 0x100, 4)
    image[_HEADER : _HEADER + 4] = bytes((1, 0x1B, 3, table))
    struct.pack_into("<iI", image, _HEADER + 4, 0, len(FUNCTIONS) if count is None else count)
    # Common part: version, "zPLR", alignments, register, and of what follows the encodings.
    encodings = bytes((0x9B, 1, 2, 3, 4, 0x1B, 0x1B if width == "<i" else 0x1C))
    common = b"\x01zPLR\0\x01\x78\x10" + bytes((len(encodings),)) + encodings
    struct.pack_into("<II", image, _COMMON, 4 + len(common), 0)
    image[_COMMON + 8 : _COMMON + 8 + len(common)] = common
    frame = _COMMON + 0x40
    for at, (start, size) in enumerate(FUNCTIONS):
        struct.pack_into("<ii", image, _HEADER + 12 + 8 * at, start - _HEADER, frame - _HEADER)
        struct.pack_into("<II", image, frame, 24, frame + 4 - _COMMON)
        step = struct.calcsize(width)
        struct.pack_into(width, image, frame + 8, start - frame - 8)
        struct.pack_into(width, image, frame + 8 + step, size)
        frame += 32
    return bytes(image)


def _start(image: bytes, offset: int) -> int | None:
    def read(address: int, size: int) -> bytes:
        return image[address - BASE :][:size] if address >= BASE else b""

    found = function_start(read, base=BASE, pc=BASE + offset)
    return None if found is None else found - BASE


@pytest.mark.parametrize("image", [_image(), _image(first=0x40_0000), _image(width="<q")])
def test_every_address_of_a_function_leads_to_its_first(image: bytes) -> None:
    inside = {start + at: start for start, size in FUNCTIONS for at in (0, size // 2, size - 1)}
    assert {offset: _start(image, offset) for offset in inside} == inside


@pytest.mark.parametrize("offset", [0, 0xFFF, 0x1050, 0x10FF, 0x1300, 0x1FFF, 0x2001, 0x3FFF])
def test_between_functions_there_is_none(offset: int) -> None:
    assert _start(_image(), offset) is None


@pytest.mark.parametrize(
    "image",
    [
        b"",
        b"\x7fELF",
        _image()[:200],
        _image()[:_HEADER],
        _image(count=0),
        _image(count=1 << 31),
        _image(table=0xFF),
        _image().replace(b"\x7fELF\x02", b"\x7fELF\x01", 1),
        _image().replace(struct.pack("<I", 0x6474E550), bytes(4), 1),
        _image().replace(b"zPLR", b"zQLR"),
    ],
)
def test_a_table_that_cannot_be_read_has_none(image: bytes) -> None:
    assert _start(image, 0x1010) is None


@given(at=st.integers(0, 0x3200), value=st.binary(min_size=1, max_size=8), offset=st.integers(0, 0x4000))
def test_a_broken_image_never_raises(at: int, value: bytes, offset: int) -> None:
    image = bytearray(_image())
    image[at : at + len(value)] = value
    found = _start(bytes(image), offset)
    assert found is None or isinstance(found, int)


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory through /proc")
@pytest.mark.parametrize("name", ["sched_yield", "qsort", "malloc", "snprintf"])
def test_the_c_library(name: str) -> None:
    address = ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
    assert address is not None
    with open("/proc/self/maps", encoding="utf-8") as file:  # noqa: PTH123
        lines = [line.split() for line in file]
    spans: list[tuple[int, int, str]] = []
    for line in lines:
        start, end = (int(each, 16) for each in line[0].split("-"))
        spans.append((start, end, line[-1]))
    path = next(path for start, end, path in spans if start <= address < end)
    if not path.startswith("/"):
        pytest.skip("no library is mapped there")
    base = min(start for start, _, other in spans if other == path)
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123

        def read(at: int, size: int) -> bytes:
            memory.seek(at)
            return memory.read(size)

        assert function_start(read, base=base, pc=address) == address
        assert function_start(read, base=base, pc=address + 3) == address
