"""Scenario fork-with-live-pool: the child spins, and its parent's whole process sleeps; the fixed ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
def test_the_child_spins_and_the_parent_sleeps(tmp_path: Path) -> None:
    words = ("--axis", "workers=3", "--placement", "free", "--trials", "1", "--json", "-")
    variants = "buggy,forget-widened,reset,stop,alone"
    done = livetrap("run", "fork-with-live-pool", "--variant", variants, *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    assert {name: trial["verdict"] for name, trial in found.items()} == {
        "buggy": "livelock",
        "forget-widened": "deadlock",
        "reset": "passed",
        "stop": "passed",
        "alone": "passed",
    }
    assert {name: count for name, count in found["buggy"]["shape"].items() if count} == {"spinning": 1, "parked": 4}
    roles: dict[int, set[str]] = {}
    for thread in found["buggy"]["evidence"]["threads"]:
        roles.setdefault(thread["id"]["pid"], set()).add(thread["role"])
    assert sorted(map(sorted, roles.values())) == [["parked"], ["spinning"]]
