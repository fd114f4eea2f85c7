"""Scenario barrier-reuse: two threads take themselves for the last, and all spin; the fixed one passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
def test_all_spin(tmp_path: Path) -> None:
    words = ("--variant", "widened,fixed", "--threads", "2", "--placement", "free", "--trials", "1", "--json", "-")
    done = livetrap("run", "barrier-reuse", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    assert {name: trial["verdict"] for name, trial in found.items()} == {"widened": "livelock", "fixed": "passed"}
    assert found["widened"]["shape"]["spinning"] == 2
