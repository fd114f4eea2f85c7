"""Scenario divergent-abort: some leave before a barrier in which the others wait, in the manner of the barrier."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
def test_who_waits_spins_or_sleeps_as_the_barrier_does(tmp_path: Path) -> None:
    words = ("--variant", "leader-first,fixed", "--threads", "4", "--trials", "1", "--json", "-")
    done = livetrap("run", "divergent-abort", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {(trial["variant"], trial["cell"]["technique"]): trial for trial in done.trials}
    assert {key: trial["verdict"] for key, trial in found.items()} == {
        ("leader-first", "acquire_yield"): "livelock",
        ("leader-first", "condition_variable"): "deadlock",
        ("fixed", "acquire_yield"): "passed",
        ("fixed", "condition_variable"): "passed",
    }
    shape = found["leader-first", "acquire_yield"]["shape"]
    assert shape["spinning"] >= 1
    assert shape["spinning"] + shape["parked"] == 4
    assert found["leader-first", "condition_variable"]["shape"]["parked"] == 4
