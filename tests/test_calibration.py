"""What a run of the corpus says of the harness: tables of verdicts, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from livetrap.calibration import Calibration, Fault, Finding, Member, State, VariantResult, calibrate
from livetrap.model import PlannedTrial, Verdict
from livetrap.plan import Plan
from livetrap.sampling import quick
from tests.test_expectations import LOOK_ALIKE, RARE, SPIN, record, right
from tests.test_plan import made

ALWAYS = SPIN.replace('role = "buggy"', 'role = "buggy"\nalways = true')
RARE_ALWAYS = RARE.replace('role = "buggy"', 'role = "buggy"\nalways = true')
SLOW = """
schema = 1
name = "late"
summary = "x"
[target]
kernel = "flag_handoff"
[axes]
threads = [1, 2]
[variants.buggy]
role = "buggy"
[variants.fixed]
role = "fixed"
[[expect]]
match = { variant = "fixed" }
verdicts = ["passed"]
[[expect]]
match = { threads = 1 }
verdicts = ["slow"]
needs = "2 threads or more"
[[expect]]
verdicts = ["slow"]
"""
Says = Callable[[PlannedTrial], str | None]


def member(text: str, says: Says | str = right, **options: Any) -> Member:
    planned = made(text, **options)
    given = [(trial, says if isinstance(says, str) else says(trial)) for trial in planned.trials]
    return Member(plan=planned, records=tuple(record(trial, verdict) for trial, verdict in given if verdict))


def judged(text: str, says: Says | str = right, **options: Any) -> Calibration:
    return calibrate([member(text, says, **options)])


def of(calibration: Calibration, variant: str) -> VariantResult:
    return next(one for one in calibration.variants if one.variant == variant)


def shows(trial: PlannedTrial) -> bool:
    return right(trial) == "livelock"


def only(calibration: Calibration) -> Finding:
    (finding,) = calibration.wrong
    return finding


# --- the verdict on the harness --------------------------------------------------------------------------------------


def test_all_right() -> None:
    calibration = judged(ALWAYS)
    assert (calibration.exit_status, calibration.wrong, calibration.gaps) == (0, (), ())
    assert (calibration.scenarios, calibration.planned, calibration.ended) == (1, 16, 16)
    assert [(row.group, row.expected, row.judged) for row in calibration.matrix] == [
        ("buggy", ("passed",), {"passed": 6}),
        ("buggy", ("livelock",), {"livelock": 2}),
        ("fixed", ("passed",), {"passed": 8}),
    ]
    buggy, fixed = of(calibration, "buggy"), of(calibration, "fixed")
    assert (buggy.state, buggy.always, buggy.conclusive, buggy.as_expected) == (State.RIGHT, True, 8, 8)
    assert (buggy.could_show, buggy.caught, buggy.rate_text) == (2, 2, "2 of 2, 15 to 100 % (95 %)")
    assert (fixed.state, fixed.could_show, fixed.rate_text, fixed.first_hang_s) == (State.RIGHT, 0, "", None)


@pytest.mark.parametrize(
    ("text", "says", "fault", "count"),
    [
        (SPIN, lambda t: "deadlock" if t.variant == "fixed" else right(t), Fault.FALSE_ALARM, 4),
        (SPIN, lambda t: "corrupt" if t.variant == "fixed" and t.threads == 2 else right(t), Fault.FALSE_ALARM, 2),
        (SPIN, lambda t: "livelock" if t.threads == 1 and t.variant == "buggy" else right(t), Fault.FALSE_ALARM, 2),
        (SPIN, lambda t: "deadlock" if shows(t) else right(t), Fault.WRONG_BUG, 1),
        (SPIN, lambda t: "crashed" if shows(t) else right(t), Fault.WRONG_BUG, 1),
        (ALWAYS, lambda t: "deadlock" if shows(t) else right(t), Fault.WRONG_BUG, 1),
        (ALWAYS, "passed", Fault.MISSED, 1),
        (ALWAYS, lambda t: "slow" if shows(t) else right(t), Fault.MISSED, 1),
        (ALWAYS, lambda t: "waiting" if shows(t) else right(t), Fault.MISSED, 1),
        (RARE_ALWAYS, "passed", Fault.MISSED, 1),
        (RARE_ALWAYS, lambda t: "slow" if shows(t) else right(t), Fault.MISSED, 1),
        (SPIN, lambda t: "slow" if t.variant == "fixed" and t.threads == 2 else right(t), Fault.UNLIKE, 1),
        (LOOK_ALIKE, "livelock", Fault.FALSE_ALARM, 1),
        (LOOK_ALIKE, "passed", Fault.UNLIKE, 1),
        (SLOW, lambda t: "livelock" if t.variant == "buggy" else "passed", Fault.FALSE_ALARM, 2),
    ],
)
def test_what_is_wrong(text: str, says: Says | str, fault: Fault, count: int) -> None:
    calibration = judged(text, says)
    assert [finding.fault for finding in calibration.wrong] == [fault] * count
    assert calibration.exit_status == 1
    assert any(one.state is State.WRONG for one in calibration.variants)


def test_one_trial_is_enough() -> None:
    planned = made(ALWAYS, trials=200)
    odd = next(trial.ordinal for trial in planned.trials if shows(trial))
    finding = only(judged(ALWAYS, lambda t: "slow" if t.ordinal == odd else right(t), trials=200))
    assert (finding.fault, finding.trials, finding.of) == (Fault.MISSED, (odd,), 200)
    assert finding.text == (
        "missed: spin, buggy threads=2 placement=free flags=-O2 align=spin compiler=gcc: 1 slow of 200; "
        "expected livelock"
    )


def test_one_in_twenty_of_a_fix_may_be_slow() -> None:
    def says(allowed: int) -> Says:
        fixed = [trial.ordinal for trial in made(SPIN, trials=10).trials if trial.variant == "fixed"]
        return lambda t: "slow" if t.ordinal in fixed[:allowed] else right(t)

    assert judged(SPIN, says(2), trials=10).exit_status == 0
    finding = only(judged(SPIN, says(3), trials=10))
    assert (finding.fault, len(finding.trials), finding.of) == (Fault.UNLIKE, 3, 40)
    assert finding.text == "not as expected: spin, fixed: 3 slow of 40; at most 5 % may differ"


def test_a_bug_that_is_rare_may_pass_at_times_where_it_must_be_caught() -> None:
    seen = iter(["passed", "livelock"])
    assert judged(RARE_ALWAYS, lambda t: next(seen) if shows(t) else right(t)).exit_status == 0


def test_a_bug_that_does_not_show_here_says_nothing_of_the_harness() -> None:
    calibration = calibrate([member(SPIN, "passed"), member(ALWAYS)])
    assert (calibration.exit_status, calibration.wrong) == (0, ())
    quiet, caught, *_ = [one for one in calibration.variants if one.variant == "buggy"]
    assert (quiet.state, quiet.caught, quiet.could_show) == (State.NOT_SEEN, 0, 2)
    assert caught.state is State.RIGHT


def test_a_bug_that_shows_by_being_slow() -> None:
    calibration = judged(SLOW, lambda t: "slow" if t.variant == "buggy" else "passed")
    buggy = of(calibration, "buggy")
    # The cells with one thread lack what the bug needs: being slow there shows nothing.
    assert (calibration.exit_status, buggy.caught, buggy.could_show) == (0, 3, 3)


def test_a_buggy_variant_that_no_cell_of_can_show_is_right_where_it_is_as_expected() -> None:
    never = member(SLOW.replace("[[expect]]\nverdicts", '[[expect]]\nneeds = "more"\nverdicts'), "slow")
    fast = Member(plan=never.plan, records=tuple(record(trial, "passed") for trial in never.plan.trials))
    for one, state in ((never, State.RIGHT), (fast, State.NOT_SEEN)):
        buggy = of(calibrate([one]), "buggy")
        assert (buggy.state, buggy.could_show, buggy.conclusive) == (state, 0, 6)


# --- where nothing is said -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says", "words"),
    [
        (SPIN, "passed", "no bug was caught"),
        (SPIN, "inconclusive", "no bug was caught"),
        (SPIN, "skipped", "no bug was caught"),
        (LOOK_ALIKE, "slow", "no bug was caught"),
        (ALWAYS, lambda t: "inconclusive" if shows(t) else right(t), "must always be caught"),
        (SPIN, lambda t: "inconclusive" if t.variant == "fixed" else right(t), "nothing is said of false alarms"),
        (SPIN, lambda t: "error" if t.ordinal == 0 else right(t), "1 of 16 trials could not be run"),
        (SPIN, lambda t: None if t.ordinal == 0 else right(t), "stopped after 15 of 16 trials"),
    ],
)
def test_too_little_was_judged(text: str, says: Says | str, words: str) -> None:
    calibration = judged(text, says)
    assert (calibration.exit_status, calibration.wrong) == (3, ())
    assert any(words in gap for gap in calibration.gaps), calibration.gaps


def test_what_this_machine_cannot_run_is_told_and_asked_of_nobody() -> None:
    other = SPIN.replace('"spin"', '"gcc"').replace("[axes]", '[axes]\nplacement = ["performance"]')
    skipped = other.replace('role = "buggy"', 'role = "buggy"\nalways = true')
    calibration = calibrate([member(ALWAYS), member(skipped, "skipped")])
    assert (calibration.exit_status, calibration.gaps) == (0, ())
    result = calibration.variants[2]
    assert (result.scenario, result.state, result.judged) == ("gcc", State.SKIPPED, {"skipped": 8})
    assert result.reason


def test_a_wrong_verdict_counts_even_if_the_run_was_stopped() -> None:
    calibration = judged(ALWAYS, lambda t: "passed" if shows(t) else None)
    assert (calibration.exit_status, calibration.ended, calibration.planned) == (1, 2, 16)


# --- times, scenarios of one name, JSON ------------------------------------------------------------------------------


def test_the_time_to_the_first_hang_is_that_of_the_trials_that_could_show_it() -> None:
    seen = iter(["passed", "passed", "livelock", "livelock"])
    one = member(SPIN, lambda t: next(seen) if shows(t) else right(t), trials=4)
    buggy = of(calibrate([one]), "buggy")
    assert buggy.first_hang_s == pytest.approx(0.3)  # each takes 0.1 s
    assert buggy.telling == one.records[[r.verdict for r in one.records].index(Verdict.LIVELOCK)].id
    assert of(judged(SPIN, "passed"), "buggy").first_hang_s is None


def test_records_of_another_plan_are_left_out() -> None:
    ours = member(SPIN, flags=("-O2",))
    strange = member(SPIN, "crashed", flags=("-O0",))
    mixed = Member(plan=ours.plan, records=(*ours.records, *strange.records))
    assert calibrate([mixed]) == calibrate([ours])


def test_it_can_be_written_as_json() -> None:
    document = msgspec.json.decode(msgspec.json.encode(judged(ALWAYS, "passed")))
    assert (document["schema"], document["exit_status"]) == (1, 1)
    assert document["wrong"][0]["fault"] == "missed"
    assert document["matrix"][0] == {"group": "buggy", "expected": ["passed"], "judged": {"passed": 6}}


# --- the quick sample ------------------------------------------------------------------------------------------------

SAMPLED = SPIN.replace("flags = [", 'placement = ["free", "one-core"]\nflags = [').replace(
    "[variants.fixed]", '[variants.other]\nrole = "widened"\nparameters = { delay_us = 5 }\n[variants.fixed]'
)


def cells(planned: Plan) -> dict[str, dict[str, Any]]:
    assert len({trial.variant for trial in planned.trials}) == len(planned.trials)
    return {trial.variant: trial.cell for trial in planned.trials}


def test_one_trial_of_each_variant_where_the_bug_shows_best() -> None:
    sample = quick(made(SAMPLED))
    found = cells(sample)
    assert found.keys() == {"buggy", "other", "fixed"}
    assert all((cell["threads"], cell["flags"], cell["placement"]) == (2, "-O2", "free") for cell in found.values())
    assert len({trial.build for trial in sample.trials}) == 1
    assert sample.narrowed
    assert sample.notes[-1] == "spin: quick: 3 of 48 trials, in 3 of 24 cells"


def test_the_sample_is_the_same_for_every_order_of_the_plan() -> None:
    assert cells(quick(made(SAMPLED, seed=1))) == cells(quick(made(SAMPLED, seed=2)))


def test_the_sample_goes_where_the_rate_is_greatest() -> None:
    rated = SAMPLED.replace(
        '[[expect]]\nverdicts = ["livelock"]',
        '[[expect]]\nmatch = { placement = "free" }\nverdicts = ["livelock"]\nleast_rate = 0.1\n'
        '[[expect]]\nverdicts = ["livelock"]\nleast_rate = 0.9',
    )
    assert cells(quick(made(rated)))["buggy"]["placement"] == "one-core"
    assert cells(quick(made(rated)))["fixed"]["placement"] == "one-core"


def test_the_sample_avoids_what_cannot_run_and_what_may_be_slow() -> None:
    slow = SAMPLED.replace('"one-core"]', '"performance", "one-core"]').replace(
        "[[expect]]\nmatch = { variant",
        '[[expect]]\nmatch = { variant = "fixed", placement = "free" }\nverdicts = ["passed", "slow"]\n'
        "[[expect]]\nmatch = { variant",
        1,
    )
    found = cells(quick(made(slow)))
    assert (found["buggy"]["placement"], found["fixed"]["placement"]) == ("free", "one-core")


def test_a_sample_of_a_sample_is_itself() -> None:
    once = quick(made(SAMPLED))
    assert quick(once).trials == once.trials


def test_the_sample_of_a_look_alike_alone() -> None:
    assert cells(quick(made(LOOK_ALIKE))).keys() == {"like"}
