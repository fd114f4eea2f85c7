"""What shows that a target goes on: output, I/O, or lines of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import livetrap.observe.progress as module
from livetrap import expressions
from livetrap.errors import HarnessError
from livetrap.observe.progress import MOST_READ, Progress, pattern


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "output", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("progress", "output", "counts_io"),
    [("", 5, True), ("output", 5, False), ("io", None, True), ("beats", None, False), ("regex:two", 1, False)],
)
def test_what_counts(file: int, progress: str, output: int | None, counts_io: bool) -> None:
    os.write(file, b"two\n\n")
    made = Progress(progress, output_fd=file)
    assert made.output() == output
    assert made.counts_io is counts_io
    assert Progress(progress).output() is None


def test_lines_are_counted_once_whole(file: int) -> None:
    progress = Progress("regex:^step [0-9]+$", output_fd=file)
    seen = []
    for piece in (b"", b"step 1\nno\nste", b"p 2", b"\nstep 3\nstep x\n"):
        os.write(file, piece)
        seen.append(progress.output())
    assert seen == [0, 1, 1, 3]


def test_of_much_output_only_the_last_is_read(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 60.0)
    progress = Progress("regex:x", output_fd=file)
    line = b"x" * 63 + b"\n"
    os.write(file, line * (MOST_READ // 32))
    assert progress.output() == MOST_READ // 64
    assert progress.output() == MOST_READ // 64
    os.write(file, line)
    assert progress.output() == MOST_READ // 64 + 1


def test_what_one_look_has_no_time_for_is_for_the_next(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", -1.0)
    progress = Progress("regex:x", output_fd=file)
    os.write(file, b"x\nx\ny\n")
    assert progress.output() == 0
    monkeypatch.setattr(module, "LOOK_S", 60.0)
    assert progress.output() == 2


def test_an_expression_that_takes_too_long_ends_the_trial(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "LINE_S", 0.02)
    progress = Progress("regex:^(a|aa)+$", output_fd=file)
    os.write(file, b"a" * 60 + b"b\n")
    with pytest.raises(HarnessError, match=r"progress regex:\^\(a\|aa\)\+\$: took longer than 0.02 s with one line"):
        progress.output()


def test_output_without_lines_costs_no_memory(file: int) -> None:
    progress = Progress("regex:x", output_fd=file)
    for _ in range(4):
        os.write(file, b"y" * 300_000)
        assert progress.output() == 0
    assert len(progress._rest) < 10_000


def test_what_is_no_longer_kept_is_no_part_of_a_line(file: int) -> None:
    progress = Progress("regex:^x$", output_fd=file)
    os.write(file, b"\0" * 100_000 + b"x\nx\n")
    assert progress.output() == 2


def test_a_target_that_empties_its_output_begins_anew(file: int) -> None:
    progress = Progress("regex:x", output_fd=file)
    os.write(file, b"x\nx\nx\n")
    assert progress.output() == 3
    os.ftruncate(file, 0)
    os.write(file, b"x\n")
    assert progress.output() == 4


@pytest.mark.parametrize("progress", ["", "output", "io", "beats"])
def test_ways_without_an_expression(progress: str) -> None:
    assert pattern(progress) is None


@pytest.mark.parametrize(
    ("progress", "words"),
    [("inputs", "one of output, io"), ("regex:(", "no regular expression"), ("regex:", "without an expression")],
)
def test_what_is_refused(progress: str, words: str) -> None:
    with pytest.raises(HarnessError, match=words):
        Progress(progress)


def test_a_file_that_is_gone_says_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "output", os.O_RDWR | os.O_CREAT, 0o600)
    progress = Progress("output", output_fd=fd)
    os.close(fd)
    assert progress.output() is None
