"""`livetrap hunt` on the command line: bad input in one line, and what people read at the end."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from livetrap.cli import main
from livetrap.hunting import Result, Tried
from livetrap.model import Verdict
from livetrap.report.hunt import LEAST_AGAIN, MOST_AGAIN, again, print_hunt, print_hunt_end
from livetrap.report.text import console
from livetrap.shrinking import Shrunk, Tries
from tests.test_cli import Capture, one_error
from tests.test_expectations import record
from tests.test_hunting import planned

BAD_USAGE = [
    (["raw-spin-falg"], "did you mean 'raw-spin-flag'"),
    (["raw-spin-flag", "--for", "soon"], "--for 'soon': must be a time"),
    (["raw-spin-flag", "--for", "0"], "--for 0: must be more than 0"),
    (["raw-spin-flag", "--trials", "0"], "--trials 0: must be from 1"),
    (["raw-spin-flag", "--floor", "0.1"], "add --minimise"),
    (["raw-spin-flag", "--minimise", "--floor", "1.5"], "--floor 1.5: must be a rate"),
    (["raw-spin-flag", "--minimise", "--floor", "nan"], "--floor nan: must be a rate"),
    (["raw-spin-flag", "--disturb", "hogs"], "hogs takes a number of processes"),
    (["raw-spin-flag", "--disturb", ""], "--disturb is empty"),
    (["raw-spin-flag", "--disturb", "pause", "--axis", "disturbance=none"], "two ways to say the same"),
    (["raw-spin-flag", "--variant", "bugy"], "did you mean 'buggy'"),
    (["raw-spin-flag", "--threads", "x"], "--threads 'x'"),
    (["raw-spin-flag", "--seed", "-1"], "--seed -1"),
    (["raw-spin-flag", "--db", ""], "--db"),
    (["raw-spin-flag", "--json", "."], "is a folder"),
    (["raw-spin-flag", "--html", ""], "--html"),
    (["raw-spin-flag", "--db", "x.db", "--html", "x.db"], "is the file of --db x.db"),
]


@pytest.mark.parametrize(("words", "told"), BAD_USAGE)
def test_bad_usage(words: list[str], told: str, capsys: Capture) -> None:
    assert told in one_error(capsys, status=main(["hunt", *words]))


@pytest.mark.parametrize(
    ("hits", "trials", "expected"), [(20, 20, LEAST_AGAIN), (0, 10, MOST_AGAIN), (1, 10_000, MOST_AGAIN)]
)
def test_how_many_trials_the_recipe_asks_for(hits: int, trials: int, expected: int) -> None:
    assert again(hits, trials) == expected


def test_a_rarer_hang_asks_for_more() -> None:
    assert LEAST_AGAIN < again(8, 20) < again(8, 60) < MOST_AGAIN


# --- what is printed -------------------------------------------------------------------------------------------------


def result(**changed: Any) -> Result:
    trial = planned(threads=(2,)).trials[0]
    arm = Tried(key=trial.cell_key, variant="buggy", cell=trial.cell, hits=3, trials=12, seconds=30.0)
    other = msgspec.structs.replace(arm, key="x", cell={**trial.cell, "placement": "free"}, hits=0)
    found = Result(
        arms=(arm, other),
        ran=24,
        conclusive=24,
        hits=3,
        first_s=12.0,
        first=record(trial, Verdict.LIVELOCK),
        first_trial=9,
        best=arm,
        measured_hits=2,
        measured_trials=8,
    )
    return msgspec.structs.replace(found, **changed)


def printed(found: Result, shrunk: Shrunk | None = None) -> str:
    stream = io.StringIO()
    out = console(stream)
    print_hunt(out, found, recipe=["livetrap", "run", "x y"], shrunk=shrunk, smallest=["livetrap", "run", "small"])
    print_hunt_end(out, found, took_s=60.0, db=Path("x.db"))
    return stream.getvalue()


def test_the_first_hang_and_the_recipe() -> None:
    text = printed(result())
    assert "first hang after 12 s, trial 9 of the hunt: livelock, 1 spinning" in text
    assert "hung 2 of 8, " in text
    assert "in trials after it was chosen; 6 a minute" in text
    assert "again: livetrap run 'x y'" in text
    assert "hung: 3 hangs in 24 trials, 60 s" in text


def test_a_rate_that_was_not_measured_says_so() -> None:
    text = printed(result(measured_hits=0, measured_trials=0))
    assert "hung 3 of 12, " in text
    assert "rather too high, since it was chosen for it" in text


def test_nothing_hung() -> None:
    quiet = result(hits=0, first=None, first_s=None, best=None, measured_trials=0)
    text = printed(quiet)
    assert "nothing hung: 0 of 24, below 12 % (95 %); that is no proof that nothing can" in text
    assert "did not reproduce: 0 hangs in 24 trials" in text


def test_nothing_was_conclusive() -> None:
    text = printed(Result(arms=(), ran=2, conclusive=0, hits=0))
    assert text.startswith("nothing is said: 0 hangs in 2 trials")


def test_what_it_was_shrunk_to() -> None:
    start = result().best
    assert start is not None
    small = msgspec.structs.replace(start, cell={"threads": 2}, hits=8, trials=9)
    tries = (
        Tries(change="threads 4 -> 2", cell={}, hits=8, trials=9, kept=True),
        Tries(change="threads 2 -> 1", cell={}, hits=0, trials=9, kept=False),
    )
    text = printed(result(), Shrunk(recipe=small, floor=0.5, tries=tries))
    assert "kept: threads 4 -> 2: hung 8 of 9" in text
    assert "no: threads 2 -> 1: hung 0 of 9" in text
    assert "smallest recipe: buggy threads=2: hung 8 of 9, " in text
    assert "again: livetrap run small" in text


def test_nothing_simpler_hangs() -> None:
    start = result().best
    assert start is not None
    text = printed(result(), Shrunk(recipe=start, floor=0.05, ended_early=True))
    assert "nothing simpler hung at 5 % or more" in text
    assert "the time for shrinking was over before all was tried" in text
