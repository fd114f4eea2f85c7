"""Scenario park-store-buffer: a lost wake-up; one fence is not enough, two are."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.end_to_end.running import livetrap

CPUS = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0


@pytest.mark.slow
@pytest.mark.skipif(CPUS < 2, reason="needs threads pinned to two CPUs")
def test_the_leader_spins_and_the_worker_sleeps(tmp_path: Path) -> None:
    words = ("--variant", "buggy,half-fenced,fixed", "--placement", "spread", "--trials", "1", "--json", "-")
    done = livetrap("run", "park-store-buffer", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    verdicts = {name: trial["verdict"] for name, trial in found.items()}
    assert verdicts == {"buggy": "livelock", "half-fenced": "livelock", "fixed": "passed"}
    assert (found["buggy"]["shape"]["spinning"], found["buggy"]["shape"]["parked"]) == (1, 1)
