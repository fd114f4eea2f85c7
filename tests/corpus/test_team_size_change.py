"""Scenario team-size-change: a worker stays away, or comes twice; with one word it does neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap

WIDENED = {"widened", "size-first-widened"}


@pytest.mark.slow
def test_two_words_hang_in_either_order(tmp_path: Path) -> None:
    variants = ",".join(sorted({*WIDENED, "fixed"}))
    words = ("--variant", variants, "--threads", "4", "--placement", "free", "--trials", "1", "--json", "-")
    done = livetrap("run", "team-size-change", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = {trial["variant"]: trial for trial in done.trials}
    assert found.keys() == {*WIDENED, "fixed"}
    assert found["fixed"]["verdict"] == "passed"
    assert found["widened"]["verdict"] == "livelock"
    assert found["size-first-widened"]["verdict"] in {"livelock", "corrupt"}
    for name in WIDENED:
        shape = found[name]["shape"]
        assert shape["spinning"] + shape["parked"] + shape["exited"] == 4
