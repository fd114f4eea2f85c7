"""`livetrap selftest` over real trials: right ones pass, and a harness that convicts nobody, or too many, does not."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest

from livetrap.store import Store
from tests.end_to_end.running import livetrap, start, survivors

pytestmark = pytest.mark.slow

SCENARIO = """
schema = 1
name = "own"
summary = "A plain flag, as a scenario of the test's own."
[target]
kernel = "flag_handoff"
align = "spin"
parameters = { moment = "late" }
[budget]
trials = 1
timeout_s = 10.0
[variants.buggy]
role = "buggy"
always = true
parameters = { flag = "plain", body = "volatile_counter" }
axes = { flags = ["FLAGS"] }
[variants.fixed]
role = "fixed"
parameters = { flag = "FIXED", body = "volatile_counter" }
[[expect]]
match = { variant = "buggy" }
verdicts = ["livelock"]
"""


def own(folder: Path, *, flags: str = "-O2", fixed: str = "acquire", trials: int = 1) -> Path:
    """The folder of a scenario: at -O0 its buggy variant passes, and a plain flag hangs its fixed one."""
    place = folder / "own"
    place.mkdir()
    text = SCENARIO.replace("FLAGS", flags).replace("FIXED", fixed).replace("trials = 1", f"trials = {trials}")
    (place / "scenario.toml").write_text(text)
    return place


def test_a_harness_that_convicts_nobody_does_not_pass(tmp_path: Path) -> None:
    done = livetrap("selftest", "--scenario", own(tmp_path, flags="-O0"), folder=tmp_path, limit_s=60)
    assert done.status == 1, done.err
    assert "missed: own, buggy" in done.out
    assert "1 passed of 1; expected livelock (trial " in done.out
    assert "NOT as expected: 1 wrong verdict in 1 scenario, 2 trials in " in done.out


def test_a_false_alarm_and_what_is_written_of_it(tmp_path: Path) -> None:
    database = tmp_path / "own.db"
    place = own(tmp_path, fixed="plain")
    done = livetrap("selftest", "--scenario", place, "--json", "-", "--db", database, folder=tmp_path, limit_s=60)
    assert done.status == 1, done.err
    *trials, whole = done.trials
    assert [(trial["schema"], trial["verdict"]) for trial in trials] == [(1, "livelock")] * 2
    assert (whole["schema"], whole["exit_status"], whole["planned"], whole["ended"]) == (1, 1, 2, 2)
    assert {row["group"]: (row["expected"], row["judged"]) for row in whole["matrix"]} == {
        "buggy": (["livelock"], {"livelock": 1}),
        "fixed": (["passed"], {"livelock": 1}),
    }
    (wrong,) = whole["wrong"]
    (alarm,) = (trial["id"] for trial in trials if trial["variant"] == "fixed")
    assert (wrong["fault"], wrong["variant"], wrong["trials"]) == ("false alarm", "fixed", [alarm])
    buggy = next(one for one in whole["variants"] if one["variant"] == "buggy")
    assert (buggy["state"], buggy["always"], buggy["caught"], buggy["could_show"]) == ("ok", True, 1, 1)
    assert 0.0 < buggy["first_hang_s"] < 10.0
    assert "false alarm: own, fixed" in done.err
    with Store.open(database, create=False) as store:
        assert store.ids() == [trial["id"] for trial in trials]


def test_interrupted(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    place = own(tmp_path, trials=300)
    process = start("selftest", "--scenario", place, "--json", "-", mark=mark, folder=tmp_path)
    try:
        assert process.stdout
        told = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        left = survivors(mark)
    assert not left, left
    whole = json.loads(out.splitlines()[-1])
    assert process.returncode == whole["exit_status"] == 130, err
    assert len(told) <= whole["ended"] < whole["planned"]
    assert "interrupted: no wrong verdict in 1 scenario, " in err


def test_the_corpus_in_a_minute(tmp_path: Path) -> None:
    done = livetrap("selftest", "--quick", "--json", "-", folder=tmp_path, limit_s=110)
    assert done.status == 0, done.err
    *trials, whole = done.trials
    assert len({(trial["scenario"], trial["variant"]) for trial in trials}) == len(trials) == whole["planned"]
    assert whole["scenarios"] == len({trial["scenario"] for trial in trials}) >= 4
    assert {row["group"] for row in whole["matrix"]} == {"buggy", "fixed", "look-alike"}
    assert "onnxruntime-qmoe is left out" in done.err
