"""What lies where, from the text of /proc/PID/maps."""

from __future__ import annotations

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

import os
from types import SimpleNamespace
from typing import Any

from livetrap.observe.mappings import Keeper, Mappings
from livetrap.observe.proctree import Budget, ProcessFiles

TEXT = """\
555500000000-555500001000 r--p 00000000 08:01 12 /opt/a b/prog
555500001000-555500003000 r-xp 00001000 08:01 12 /opt/a b/prog
7f0000000000-7f0000001000 r--p 00000000 08:01 13 /lib/libx.so
7f0000001000-7f0000002000 r-xp 00001000 08:01 13 /lib/libx.so
7f0000005000-7f0000006000 rw-p 00000000 00:00 0
7f0000006000-7f0000007000 rw-s 00000000 00:01 99                         /dev/shm/x (deleted)
7f0000007000-7f0000008000 rw-p 00000000 00:06 99                         /dev/some
7f0000008000-7f0000009000 r--p 00000000 08:01 14                         /data/words
7f0000009000-7f000000a000 rw-p 00000000 08:01 15                         /data/mine
7f000000a000-7f000000b000 r-xp 00000000 00:00 0
7f000000b000-7f000000c000 rwxp 00000000 00:00 0
7f000000c000-7f000000d000 r-xp 00000000 00:01 98                         /memfd:jit (deleted)
7f000000d000-7f000000e000 rwxp 00000000 08:01 13                         /lib/libx.so
7ffd00000000-7ffd00001000 r--p 00000000 00:00 0                          [vvar]
7ffd00001000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
"""


@pytest.mark.parametrize(
    ("address", "base"),
    [
        (0x555500002000, 0x555500000000),
        (0x555500000000, 0x555500000000),
        (0x7F0000001FFF, 0x7F0000000000),
        (0x7F0000005000, None),
        (0x7F0000004000, None),
        (0x7FFD00001100, 0x7FFD00001000),
        (0, None),
    ],
)
def test_where_a_file_begins(address: int, base: int | None) -> None:
    assert Mappings(TEXT).base(address) == base


@pytest.mark.parametrize(
    ("address", "shared"),
    [
        (0x555500000000, False),
        (0x7F0000005FFF, False),
        (0x7F0000006000, True),
        (0x7F0000007000, True),
        (0x7F0000008000, True),  # its file may be written
        (0x7F0000009000, False),
        (0x7F0000000000, False),  # constants of a library
        (0x7FFD00000000, True),
    ],
)
def test_who_may_write_there(address: int, shared: bool) -> None:
    mapping = Mappings(TEXT).at(address)
    assert mapping is not None
    assert mapping.shared is shared


@pytest.mark.parametrize(
    ("address", "generated"),
    [
        (0x555500001000, False),
        (0x7F0000001000, False),
        (0x7FFD00001000, False),
        (0x7F000000A000, True),
        (0x7F000000B000, True),
        (0x7F000000C000, True),
        (0x7F000000D000, True),
        (0x7F0000006000, True),
    ],
)
def test_whose_code_may_change(address: int, generated: bool) -> None:
    mapping = Mappings(TEXT).at(address)
    assert mapping is not None
    assert mapping.generated is generated


def test_without_mappings_nothing_is_anywhere() -> None:
    for text in ("", "junk", "1-2\n"):
        assert Mappings(text).at(1) is None
        assert Mappings(text).base(1) is None


def test_they_are_read_again_when_the_size_changes() -> None:
    files = {"statm": b"10 5 4", "maps": TEXT.encode()}
    read: list[str] = []

    def give(name: str, size: int) -> bytes:
        read.append(name)
        return files[name][:size]

    process: Any = SimpleNamespace(pid=1, read=give)
    keeper = Keeper()
    first = keeper.of(process)
    assert keeper.of(process) is first
    assert read.count("maps") == 1
    assert keeper.of(process, fresh=True) is not first
    files["statm"], files["maps"] = b"11 5 4", b""
    assert keeper.of(process).at(0x7F0000005000) is None
    assert read.count("maps") == 3


def test_our_own() -> None:
    process = ProcessFiles(os.getpid(), Budget())
    try:
        mappings = Keeper().of(process)
        address = id(mappings)
        found = mappings.at(address)
        assert found is not None
        assert not found.shared
        assert found.start <= address < found.end
    finally:
        process.close()
