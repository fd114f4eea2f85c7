"""Scenario oversubscribed-spin: a correct spin with eight threads a core is slow and no hang; a yield cures it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.end_to_end.running import livetrap

CPUS = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0


@pytest.mark.slow
@pytest.mark.skipif(CPUS < 2, reason="needs threads pinned to two CPUs")
def test_slow_is_no_hang(tmp_path: Path) -> None:
    words = ("--variant", "buggy,fixed", "--technique", "acquire_spin,acquire_yield", "--placement", "confined:2")
    done = livetrap("run", "oversubscribed-spin", *words, "--timeout", "2", "--json", "-", folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    assert {trial["variant"]: trial["verdict"] for trial in done.trials} == {"buggy": "slow", "fixed": "passed"}
