"""Scenario priority-inversion: a spinner outranks the holder of its lock: no livelock, and among equals it passes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS pins no threads")
def test_the_spinner_starves(tmp_path: Path) -> None:
    words = ("--variant", "buggy,fixed", "--placement", "one-core", "--trials", "1", "--timeout", "2.5", "--json", "-")
    done = livetrap("run", "priority-inversion", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    verdicts = {trial["variant"]: trial["verdict"] for trial in done.trials}
    assert verdicts["buggy"] in {"starvation", "slow"}
    assert verdicts["fixed"] == "passed"
