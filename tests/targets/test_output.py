"""The file that takes a trial's output: bounded whoever writes to it, and whatever is done to it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator

import pytest

from livetrap.targets.output import Output

MIB = 1 << 20
LINUX = sys.platform.startswith("linux")


@pytest.fixture
def output() -> Iterator[Output]:
    made = Output()
    yield made
    made.close()


def room(output: Output) -> int:
    return os.fstat(output.fd).st_blocks * 512


@pytest.mark.skipif(not LINUX, reason="no holes are made on this system")
def test_trimmed_while_it_grows(output: Output) -> None:
    for number in range(1, 17):
        os.write(output.fd, bytes([number]) * MIB)
        output.trim()
        assert room(output) <= 2 * MIB
        assert output.size() == number * MIB
    os.write(output.fd, b"the end")
    output.trim()
    assert output.tail().endswith("the end")
    assert os.pread(output.fd, 4, 0) == bytes(4)
    assert os.pread(output.fd, MIB, output.size() - MIB)[0] == 16
    output.empty()
    assert (output.size(), output.tail(), room(output)) == (0, "", 0)


def test_little_is_kept_whole(output: Output) -> None:
    text = b"x" * (2 * MIB - (1 << 16))
    os.write(output.fd, text)
    output.trim()
    assert os.pread(output.fd, len(text) + 1, 0) == text


@pytest.mark.skipif(not LINUX, reason="no holes are made on this system")
def test_trimmed_after_it_was_truncated(output: Output) -> None:
    os.write(output.fd, bytes(8 * MIB))
    output.trim()
    os.ftruncate(output.fd, 0)
    output.trim()
    os.write(output.fd, b"y" * (8 * MIB))
    assert room(output) == 8 * MIB
    output.trim()
    assert room(output) == MIB


def test_what_a_trial_sets_is_not_the_next_one_s(output: Output) -> None:
    """It shares the open file with us: its flags, and its place in it."""
    os.write(output.fd, b"before")
    fcntl.fcntl(output.fd, fcntl.F_SETFL, os.O_NONBLOCK)
    output.empty()
    assert fcntl.fcntl(output.fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND) == os.O_APPEND
    os.write(output.fd, b"after")
    assert output.tail() == "after"
