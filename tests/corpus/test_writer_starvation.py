"""Scenario writer-starvation: the readers beat, the writer never does; the fixed one gets in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap


@pytest.mark.slow
def test_the_writer_is_named(tmp_path: Path) -> None:
    words = ("--variant", "buggy,fixed", "--trials", "1", "--timeout", "2.5", "--json", "-")
    done = livetrap("run", "writer-starvation", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    assert {name: trial["verdict"] for name, trial in found.items()} == {"buggy": "starvation", "fixed": "passed"}
    [starved] = found["buggy"]["evidence"]["wakeable"]
    threads = {thread["id"]["tid"]: thread for thread in found["buggy"]["evidence"]["threads"]}
    assert len(threads) == 9
    assert threads[starved["tid"]]["site"] == 1, "the site of the writer's wait"
    assert all(thread["beats"] > 0 for tid, thread in threads.items() if tid != starved["tid"])
