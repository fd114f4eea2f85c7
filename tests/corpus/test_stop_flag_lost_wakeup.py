"""Scenario stop-flag-lost-wakeup: a worker sleeps past its stop flag; fixed, or woken by a timer, it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
def test_all_sleep(tmp_path: Path) -> None:
    words = ("--variant", "widened,fixed-widened,timed", "--placement", "free", "--trials", "1", "--json", "-")
    done = livetrap("run", "stop-flag-lost-wakeup", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    assert {name: trial["verdict"] for name, trial in found.items()} == {
        "widened": "deadlock",
        "fixed-widened": "passed",
        "timed": "passed",
    }
    shape = found["widened"]["shape"]
    assert shape["parked"] >= 2
    assert shape["spinning"] == 0
