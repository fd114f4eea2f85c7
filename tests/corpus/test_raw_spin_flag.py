"""Scenario raw-spin-flag: the plain flag is caught, its form that only -flto shows too, and what is right passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.csrc.driver import compilers
from tests.end_to_end.running import livetrap

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not compilers(), reason="no C compiler is installed")]


def run(folder: Path, *words: str) -> list[tuple[str, str, str]]:
    """Flags, variant and verdict of each conclusive trial, sorted."""
    narrowed = ("--threads", "2", "--compiler", compilers()[0], "--trials", "1", "--json", "-")
    done = livetrap("run", "raw-spin-flag", *words, *narrowed, folder=folder, limit_s=60)
    assert done.status == 0, done.err
    told = [trial for trial in done.trials if trial["verdict"] != "skipped"]
    return sorted((trial["cell"]["flags"], trial["variant"], trial["verdict"]) for trial in told)


def test_the_plain_flag(tmp_path: Path) -> None:
    """On one core as on many."""
    found = run(tmp_path, "--variant", "buggy,fixed", "--flags", "-O2")
    assert found == [("-O2", "buggy", "livelock")] * 2 + [("-O2", "fixed", "passed")] * 2


def test_a_getter_in_another_file(tmp_path: Path) -> None:
    """It hides the plain read from the compiler, and not from link-time optimisation."""
    found = run(tmp_path, "--variant", "getter,fixed-getter")
    if not any("-flto" in flags for flags, _, _ in found):
        pytest.skip(f"{compilers()[0]} cannot link with -flto here")
    assert found == [
        ("-O2", "fixed-getter", "passed"),
        ("-O2", "getter", "passed"),
        ("-O2 -flto", "fixed-getter", "passed"),
        ("-O2 -flto", "getter", "livelock"),
    ]
