"""Scenario workers-waking-each-other: a livelock in which nobody is near 100 % of a CPU; the fixed one passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
def test_workers_that_sleep_most_of_the_time_are_in_a_livelock(tmp_path: Path) -> None:
    words = ("--variant", "widened,fixed", "--threads", "3", "--placement", "free", "--trials", "1", "--json", "-")
    done = livetrap("run", "workers-waking-each-other", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    assert {name: trial["verdict"] for name, trial in found.items()} == {"widened": "livelock", "fixed": "passed"}
    shape = found["widened"]["shape"]
    assert shape["spinning"] >= 1
    assert shape["parked"] >= 1
    assert shape["spinning"] + shape["parked"] == 3
