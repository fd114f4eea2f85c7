"""`livetrap compare`, from the command line to the table, the page and the lines of JSON."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap

pytestmark = pytest.mark.slow


def test_costs_are_measured_and_one_is_recommended(tmp_path: Path) -> None:
    words = ["compare", "--technique", "acquire_yield,raw_spin,os_barrier", "--threads", "2,4", "--for", "0.05"]
    page = tmp_path / "page.html"
    if importlib.util.find_spec("matplotlib") is not None:
        words += ["--html", str(page)]
    done = livetrap(*words, "--json", "-", folder=tmp_path, limit_s=100)
    assert done.status == 0, done.err
    *rows, closing = done.trials
    found = {(row["barrier"], row["threads"]): row for row in rows}
    assert {threads for _, threads in found} >= {2, 4}
    assert not any(name == "raw_spin" for name, _ in found)
    for name in ("acquire_yield", "os_barrier"):
        row = found[name, 4]
        assert row["state"] == "measured", row
        assert 0 < row["ns"]["low"] <= row["ns"]["median"] <= row["ns"]["high"]
        assert row["cpu_ns"]["median"] > 0
    raw, openmp = found["raw pthread_barrier_t", 2], found["OpenMP barrier", 2]
    assert raw["state"] == ("skipped" if sys.platform == "darwin" else "measured")
    assert openmp["state"] in {"measured", "at-least", "skipped"}, openmp
    assert closing["advice"]["take"] in {"acquire_yield", "os_barrier"}
    assert "take " in done.err
    assert "left out: raw_spin" in done.err
    assert not page.exists() if "--html" not in words else "<svg" in page.read_text()


def test_a_round_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """Many threads that never yield, all on one CPU."""
    words = ["--technique", "acquire_spin", "--threads", "128", "--placement", "one-core", "--for", "0.05"]
    done = livetrap("compare", *words, "--json", "-", folder=tmp_path, limit_s=100)
    assert done.trials, done.err
    rows = {row["barrier"]: row for row in done.trials[:-1] if row["threads"] == 128}
    if rows["acquire_spin"]["state"] == "skipped":
        assert done.status == 0 or sys.platform == "darwin"
        return
    assert done.status == 0
    assert rows["acquire_spin"]["state"] in {"at-least", "measured"}  # with long time slices, or with short ones
    assert rows["acquire_spin"]["ns"]["median"] > 5e7
