"""What a run says of itself: rows, exit status and closing words, as tables of records."""

from __future__ import annotations

from typing import Any

import pytest

from livetrap.expectations import Outcome, Row, summarise
from livetrap.model import Certainty, PlannedTrial, Record, Shape, Verdict
from livetrap.plan import Plan
from tests.test_plan import made

SPIN = """
schema = 1
name = "spin"
summary = "x"
[target]
kernel = "flag_handoff"
[budget]
trials = 2
[axes]
threads = [1, 2]
flags = ["-O0", "-O2"]
[variants.buggy]
role = "buggy"
[variants.fixed]
role = "fixed"
[[expect]]
match = { variant = "fixed" }
verdicts = ["passed"]
[[expect]]
match = { threads = 1 }
verdicts = ["passed"]
needs = "2 threads or more"
[[expect]]
match = { flags = "-O0" }
verdicts = ["passed"]
needs = "-O1 or higher"
[[expect]]
verdicts = ["livelock"]
"""
RARE = SPIN.replace('verdicts = ["livelock"]', 'verdicts = ["livelock"]\nleast_rate = 0.5\ngreatest_rate = 0.9')
LOOK_ALIKE = """
schema = 1
name = "slow"
summary = "x"
[target]
kernel = "flag_handoff"
[variants.like]
role = "look-alike"
[[expect]]
verdicts = ["slow"]
"""


def record(trial: PlannedTrial, verdict: Verdict | str, *, spinning: int = 1) -> Record:
    return Record(
        id=trial.ordinal,
        scenario=trial.scenario,
        variant=trial.variant,
        role=trial.role,
        cell=trial.cell,
        compiler="gcc 12",
        placement={},
        seed=trial.seed,
        verdict=Verdict(verdict),
        certainty=Certainty.OBSERVED,
        phase=None,
        shape=Shape(spinning=spinning),
        expected=trial.expected,
        as_expected=None,
        wall_s=0.1,
        stall_s=0.0,
        verdict_latency_s=None,
        longest_stall_s=0.0,
        beats=1,
        evidence={},
    )


def right(trial: PlannedTrial) -> str:
    """The verdict that SPIN expects."""
    return "livelock" if trial.variant == "buggy" and trial.cell["flags"] == "-O2" and trial.threads > 1 else "passed"


def end(planned: Plan, verdicts: Any = right) -> Outcome:
    """The outcome when each trial ends as a function, or a text, says; None: it has not ended."""
    given = [(trial, verdicts(trial) if callable(verdicts) else verdicts) for trial in planned.trials]
    return summarise(planned, [record(trial, verdict) for trial, verdict in given if verdict])


def row(outcome: Outcome, variant: str, **cell: Any) -> Row:
    return next(r for r in outcome.rows if r.variant == variant and cell.items() <= r.cell.items())


def test_all_as_expected() -> None:
    outcome = end(made(SPIN))
    assert (outcome.exit_status, outcome.messages) == (0, ())
    assert all(r.ok for r in outcome.rows)
    assert [(r.variant, r.cell["threads"], r.cell["flags"]) for r in outcome.rows] == [
        (variant, threads, flags) for variant in ("buggy", "fixed") for threads in (1, 2) for flags in ("-O0", "-O2")
    ]
    caught = row(outcome, "buggy", threads=2, flags="-O2")
    assert (caught.n, caught.planned, caught.verdicts, caught.shape) == (2, 2, {Verdict.LIVELOCK: 2}, "1 spinning")
    assert (caught.shows_bug, caught.expected, caught.rate) == (True, (Verdict.LIVELOCK,), "")
    assert row(outcome, "fixed", threads=2).shape == ""


def test_a_hang_in_what_should_pass() -> None:
    outcome = end(made(SPIN), lambda t: "livelock" if t.variant == "fixed" and t.ordinal == 0 else right(t))
    assert outcome.exit_status in (0, 1)
    outcome = end(made(SPIN), lambda t: "livelock" if t.variant == "fixed" and t.threads == 2 else right(t))
    assert outcome.exit_status == 1
    assert outcome.messages[0] == (
        "not as expected: fixed threads=2 placement=free flags=-O0 align=spin compiler=gcc: 2 livelock of 2; "
        "expected passed"
    )


def test_a_single_trial_that_is_not_as_expected_is_enough() -> None:
    planned = made(SPIN, trials=50)
    odd = next(t.ordinal for t in planned.trials if t.variant == "fixed")
    outcome = end(planned, lambda t: "slow" if t.ordinal == odd else right(t))
    assert outcome.exit_status == 1
    assert "49 passed, 1 slow of 50" in outcome.messages[0]


def test_a_bug_that_did_not_reproduce() -> None:
    outcome = end(made(SPIN), "passed")
    assert outcome.exit_status == 1
    assert row(outcome, "buggy", threads=2, flags="-O2").ok is False
    assert "2 passed of 2; expected livelock" in outcome.messages[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flags": ("-O0",)}, "not reproduced: needs 2 threads or more, -O1 or higher"),
        ({"flags": ("-O0",), "threads": (2,)}, "not reproduced: needs -O1 or higher"),
        ({"threads": (1,)}, "not reproduced: needs 2 threads or more"),
    ],
)
def test_a_narrowed_run_that_cannot_show_the_bug(options: dict[str, Any], message: str) -> None:
    outcome = end(made(SPIN, **options), "passed")
    assert (outcome.exit_status, outcome.messages) == (0, (message,))


def test_a_narrowed_run_whose_cells_are_not_as_expected() -> None:
    outcome = end(made(SPIN, flags=("-O0",)), lambda t: "livelock" if t.threads == 2 else "passed")
    assert outcome.exit_status == 1
    assert not any("not reproduced" in message for message in outcome.messages)


@pytest.mark.parametrize("verdict", ["skipped", "inconclusive", "error"])
@pytest.mark.parametrize("variant", ["buggy", "fixed"])
def test_nothing_conclusive_in_a_role(verdict: str, variant: str) -> None:
    outcome = end(made(SPIN), lambda t: verdict if t.variant == variant else right(t))
    assert outcome.exit_status == 3
    assert f"no conclusive trial in any {variant} cell: 8 {verdict}" in outcome.messages
    assert {(r.ok, r.n) for r in outcome.rows if r.variant == variant} == {(None, 0)}


def test_passing_where_the_bug_cannot_show_is_no_substitute_for_the_cells_where_it_can() -> None:
    outcome = end(made(SPIN), lambda t: "inconclusive" if right(t) == "livelock" else "passed")
    assert outcome.exit_status == 3
    assert "no conclusive trial in any bug-showing cell: 2 inconclusive" in outcome.messages
    assert not any("not reproduced" in message for message in outcome.messages)


def test_only_what_was_asked_for_has_to_be_conclusive() -> None:
    assert end(made(SPIN, variants=("buggy",))).exit_status == 0
    assert end(made(SPIN, variants=("fixed",))).exit_status == 0


def test_what_is_not_counted_is_shown_apart() -> None:
    planned = made(SPIN, trials=3)
    odd = {t.cell_key: t.ordinal for t in planned.trials}.values()
    outcome = end(planned, lambda t: "inconclusive" if t.ordinal in odd else right(t))
    assert outcome.exit_status == 0
    assert outcome.messages == ("not counted: 8 inconclusive",)
    assert {(r.n, r.inconclusive, r.seen) for r in outcome.rows} == {(2, 1, 3)}


def test_skipped_says_why() -> None:
    planned = made(SPIN, compilers={"gcc": "12"}, compiler=("clang", "gcc"))
    outcome = end(planned, lambda t: "skipped" if t.skip else right(t))
    assert outcome.exit_status == 0
    assert outcome.messages == ("not counted: 16 skipped (no clang on this machine)",)
    assert row(outcome, "buggy", compiler="clang").reason == "no clang on this machine"


def test_an_interrupted_run_claims_only_what_it_saw() -> None:
    planned = made(SPIN)
    outcome = end(planned, lambda t: right(t) if t.ordinal < 10 else None)
    assert outcome.exit_status == 3
    assert outcome.messages[-1] == "stopped after 10 of 16 trials: nothing is said of the other 6"
    assert end(planned, lambda _t: None).exit_status == 3
    outcome = end(planned, lambda t: "deadlock" if t.ordinal < 1 else None)
    assert outcome.exit_status == 1


@pytest.mark.parametrize(
    ("hangs", "of", "ended", "ok"),
    [
        (5, 10, 10, True),
        (9, 10, 10, True),
        (4, 10, 10, False),
        (10, 10, 10, False),
        (0, 10, 3, None),
        (3, 10, 3, None),
    ],
)
def test_rates(hangs: int, of: int, ended: int, ok: bool | None) -> None:
    planned = made(RARE, trials=of, threads=(2,), flags=("-O2",), variants=("buggy",))
    outcome = end(planned, lambda t: None if t.ordinal >= ended else "livelock" if t.ordinal < hangs else "passed")
    assert outcome.rows[0].ok is ok
    assert outcome.rows[0].rate == "at least 50 %, at most 90 %"
    assert outcome.exit_status == {True: 0, False: 1, None: 3}[ok]


def test_rates_are_of_conclusive_trials_and_allow_nothing_else() -> None:
    planned = made(RARE, trials=4, threads=(2,), flags=("-O2",), variants=("buggy",))
    ends = ["livelock", "passed", "inconclusive", "inconclusive"]
    assert end(planned, lambda t: ends[t.ordinal]).rows[0].ok
    ends = ["livelock", "livelock", "passed", "corrupt"]
    assert end(planned, lambda t: ends[t.ordinal]).rows[0].ok is False
    assert set(planned.trials[0].expected) == {"livelock", "passed"}


def test_a_bug_that_may_or_may_not_show() -> None:
    text = SPIN.replace('verdicts = ["livelock"]', 'verdicts = ["livelock", "passed"]')
    outcome = end(made(text), "passed")
    assert outcome.exit_status == 0
    assert outcome.messages == ("not reproduced: the bug did not show in this run, which its expectations allow",)


def test_look_alikes_alone() -> None:
    planned = made(LOOK_ALIKE)
    assert end(planned, "slow").exit_status == 0
    assert end(planned, "livelock").exit_status == 1
    assert end(planned, "inconclusive").exit_status == 3


def test_records_of_other_plans_are_left_out() -> None:
    other = made(SPIN, threads=(16,))
    records = [record(trial, "crashed") for trial in other.trials]
    planned = made(SPIN)
    assert summarise(planned, [*records, *(record(t, right(t)) for t in planned.trials)]).exit_status == 0


def test_the_shape_is_the_commonest_of_the_commonest_bug() -> None:
    planned = made(SPIN, trials=4, threads=(2,), flags=("-O2",), variants=("buggy",))
    spinning = [1, 2, 2, 2]
    outcome = summarise(planned, [record(t, "livelock", spinning=spinning[t.ordinal]) for t in planned.trials])
    assert outcome.rows[0].shape == "2 spinning"
