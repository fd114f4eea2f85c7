"""Trials until a bound is sure: which, in which order, when they end, and how often the claim is wrong."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from livetrap import resuming, stats
from livetrap.claims import fix_claims
from livetrap.confident import SPARE, Until, check
from livetrap.errors import HarnessError
from livetrap.expectations import summarise
from livetrap.model import PlannedTrial, Record, Verdict
from livetrap.plan import Options, Plan, plan
from livetrap.scenario import parse
from livetrap.seeds import trial_seed
from tests.test_expectations import record
from tests.test_plan import made
from tests.test_topology import VM, read

PAIR = """
schema = 1
name = "pair"
summary = "x"
[target]
kernel = "flag_handoff"
[budget]
trials = 2
[axes]
threads = [1, 2, 4]
compiler = ["gcc"]
[variants.buggy]
role = "buggy"
parameters = { flag = "plain" }
[variants.fixed]
role = "fixed"
parameters = { flag = "acquire" }
[[expect]]
match = { variant = "fixed" }
verdicts = ["passed"]
[[expect]]
match = { threads = 1 }
verdicts = ["passed"]
[[expect]]
verdicts = ["livelock"]
"""
TWO_FIXES = PAIR.replace(
    "[[expect]]",
    '[variants.other]\nrole = "fixed"\nparameters = { flag = "acquire", body = "yield" }\n'
    '[[expect]]\nmatch = { variant = "other" }\nverdicts = ["passed"]\n[[expect]]',
    1,
)
COMMAND = """
schema = 1
name = "command"
summary = "x"
[target]
command = ["run", "--seed={seed}", "{mode}"]
environment = { SEED = "{seed}", MODE = "{mode}" }
[axes]
placement = ["one-core"]
[variants.buggy]
role = "buggy"
parameters = { mode = "bad" }
[variants.fixed]
role = "fixed"
parameters = { mode = "good" }
"""
Ending = Callable[[PlannedTrial], str]


def until(planned: Plan, rate: float = 0.1, **more: Any) -> Until:
    return Until(planned, rate, topology=read(VM), **more)


def right(trial: PlannedTrial) -> str:
    return "livelock" if trial.variant == "buggy" and trial.threads > 1 else "passed"


def run(goal: Until, ending: Ending = right, *, most: int = 100_000) -> list[Record]:
    """All trials, one after the other."""
    records = []
    for trial in itertools.islice(goal.trials(), most):
        records.append(record(trial, ending(trial)))
        if goal.ends(records[-1]):
            break
    return records


# --- which trials ----------------------------------------------------------------------------------------------------


def test_the_plan_comes_first_then_the_fixed_cells_that_tell_in_equal_shares() -> None:
    planned = made(PAIR)
    goal = until(planned)
    records = run(goal)
    assert goal.needed == 29
    assert [(one.variant, one.seed) for one in records[:12]] == [(one.variant, one.seed) for one in planned.trials]
    assert {(one.variant, one.cell["threads"]) for one in records[12:]} == {("fixed", 2), ("fixed", 4)}
    shares = Counter(one.cell["threads"] for one in records if one.variant == "fixed")
    assert (shares[1], sorted((shares[2], shares[4]))) == (2, [14, 15])
    assert goal.reached


def test_further_trials_are_those_of_a_longer_plan() -> None:
    placed = PAIR.replace("[axes]", '[axes]\nplacement = ["random"]')
    longer = {(one.cell_key, one.seed): one for one in made(placed, trials=30).trials}
    goal = until(made(placed))
    trials = []
    for trial in goal.trials():
        trials.append(trial)
        if goal.ends(record(trial, right(trial))):
            break
    for trial in trials:
        assert trial.placement == longer[trial.cell_key, trial.seed].placement
        assert trial.parameters == longer[trial.cell_key, trial.seed].parameters
    assert [trial.ordinal for trial in trials] == list(range(len(trials)))
    assert len({(trial.cell_key, trial.seed) for trial in trials}) == len(trials)


def test_a_command_is_given_the_seed_of_each_trial() -> None:
    scenario = parse(COMMAND, path="s.toml", folder="f", kernels=[], techniques=[])
    planned = plan(scenario, options=Options(), topology=read(VM), compilers={}, manifest=None, seed=3)
    records = list(itertools.islice(until(planned).trials(), 20))
    for repetition, trial in enumerate(one for one in records if one.variant == "fixed"):
        assert trial.command is not None
        assert trial.seed == trial_seed(3, repetition, trial.cell_key)
        assert trial.command.argv == ("run", f"--seed={trial.seed}", "good")
        assert trial.command.environment == {"SEED": str(trial.seed), "MODE": "good"}


def test_each_fixed_variant_gets_enough() -> None:
    goal = until(made(TWO_FIXES))
    records = run(goal)
    told = Counter(one.variant for one in records if one.cell["threads"] != 1)
    assert (told["fixed"], told["other"]) == (29, 29)
    assert "29 trials of each of fixed, other" in goal.goal
    claims = {claim.variant: claim.fix for claim in fix_claims(summarise(made(TWO_FIXES), records).rows)}
    assert all(claim.fixed_trials == 29 and claim.holds for claim in claims.values())


def test_a_plan_that_has_enough_is_run_whole_and_no_further() -> None:
    planned = made(PAIR, trials=40)
    goal = until(planned)
    assert len(run(goal)) == len(planned.trials)
    assert "0 of 80" in goal.text()


# --- when it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["livelock", "deadlock", "corrupt", "crashed"])
def test_the_first_bug_of_a_fixed_cell_ends_it(verdict: str) -> None:
    goal = until(made(PAIR))
    records = run(goal, lambda trial: verdict if trial.ordinal == 20 else right(trial))
    assert len(records) == 21
    assert not goal.reached
    assert goal.text().startswith(f"--until-confident 0.1: not shown: trial 20 ended as {verdict} (fixed threads=")
    assert goal.text().endswith("that took 21 trials")


def test_what_does_not_count_is_replaced_in_its_own_cell() -> None:
    odd = iter(["inconclusive", "error", "skipped", "inconclusive"])
    goal = until(made(PAIR))
    records = run(goal, lambda trial: next(odd, "passed") if trial.ordinal > 12 else right(trial))
    passed = Counter(one.cell["threads"] for one in records if one.variant == "fixed" and one.verdict is Verdict.PASSED)
    assert passed[2] + passed[4] == 29
    assert abs(int(passed[2]) - int(passed[4])) <= 1
    assert goal.reached
    assert "0 of 29, below 9.9 % (95 %) on average over 2 cells, 4 more did not count" in goal.text()


def test_a_cell_of_which_nothing_counts_is_given_up() -> None:
    goal = until(made(PAIR))
    records = run(goal, lambda trial: "error" if trial.variant == "fixed" and trial.threads == 2 else right(trial))
    assert Counter(one.verdict for one in records)[Verdict.ERROR] == SPARE
    assert goal.reached
    assert "5 more did not count, 1 of the cells given up for that" in goal.text()


def test_where_nothing_counts_at_all_it_ends_and_says_so() -> None:
    planned = made(PAIR)
    goal = until(planned)
    records = run(goal, lambda trial: "inconclusive" if trial.variant == "fixed" else right(trial))
    assert len(records) == 6 + 2 + 2 * SPARE
    assert goal.text() == (
        "--until-confident 0.1: not shown, since 29 trials without a hang are needed; "
        "fixed 0 of 0: nothing conclusive on average over 2 cells, 10 more did not count, "
        "2 of the cells given up for that; that took 18 trials"
    )
    outcome = summarise(planned, records)
    assert goal.closing(outcome).exit_status == 3


def test_an_early_end_is_not_as_expected_even_where_all_cells_are() -> None:
    planned = made(PAIR)
    goal = until(planned)
    records = run(goal, most=14)
    outcome = summarise(planned, records)
    assert (outcome.exit_status, goal.closing(outcome).exit_status) == (0, 3)
    assert "not shown" in goal.text()
    done = until(planned)
    outcome = summarise(planned, run(done))
    assert done.closing(outcome) is outcome


def test_it_goes_on_where_it_stopped() -> None:
    whole = run(until(made(PAIR)))
    for had in (0, 5, 12, 20, len(whole)):
        goal = until(made(PAIR))
        rest = []
        for trial in resuming.rest(goal.trials(), whole[:had], ends=goal.ends):
            rest.append(record(trial, right(trial)))
            if goal.ends(rest[-1]):
                break
        assert [(one.variant, one.seed) for one in rest] == [(one.variant, one.seed) for one in whole[had:]]
        assert goal.reached
        assert f"that took {len(whole)} trials" in goal.text()


# --- how often the claim is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "confidence"), [(0.01, 0.95), (0.1, 0.95), (0.05, 0.99), (0.5, 0.8)])
def test_the_chance_of_a_wrong_claim_is_at_most_what_is_left(rate: float, confidence: float) -> None:
    needed = stats.trials_needed(rate, confidence=confidence)
    assert (1 - rate) ** needed <= 1 - confidence < (1 - rate) ** (needed - 1)
    assert stats.upper_bound(needed, confidence=confidence) <= rate


@pytest.mark.parametrize(("hangs", "least", "most"), [({2: 0.1, 4: 0.1}, 3, 19), ({2: 0.2, 4: 0.0}, 0, 19)])
def test_wrong_claims_by_simulation_also_where_cells_differ(hangs: dict[int, float], least: int, most: int) -> None:
    """At a rate of exactly RATE it claims in 0.9^29 = 4.7 % of 200 campaigns; in fewer where cells differ around it."""
    source = random.Random(5)
    planned = made(PAIR, trials=1)

    def ending(trial: PlannedTrial) -> str:
        hung = trial.variant == "fixed" and source.random() < hangs.get(trial.threads, 0.0)
        return "livelock" if hung else "inconclusive" if source.random() < 0.2 else "passed"

    claimed = 0
    for _ in range(200):
        goal = until(planned)
        run(goal, ending)
        claimed += goal.reached
    assert least <= claimed <= most


def test_trials_side_by_side_count_in_the_order_in_which_they_began() -> None:
    """One that hangs takes long: those that pass meanwhile must not be enough without it."""
    goal = until(made(PAIR, trials=1))
    trials = goal.trials()
    late = next(trial for trial in trials if trial.variant == "fixed" and trial.threads == 2)
    for trial in itertools.islice(trials, 100):
        assert not goal.ends(record(trial, right(trial)))
    assert not goal.reached
    assert goal.ends(record(late, "livelock"))
    assert not goal.reached


def test_the_interval_after_an_early_end_still_holds() -> None:
    """Ending with the first hang makes n a matter of chance: the usual interval for 1 of n covers all the same."""
    pytest.importorskip("scipy")
    most = 200
    intervals = {n: stats.interval(1, n) for n in range(1, most + 1)}
    none = stats.upper_bound(most)
    for rate in (0.002, 0.01, 0.05, 0.2, 0.5, 0.9):
        covered = sum((1 - rate) ** (n - 1) * rate for n, (low, high) in intervals.items() if low <= rate <= high) + (
            1 - rate
        ) ** most * (rate <= none)
        assert covered >= 0.925, rate


# --- what cannot be asked --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 2.0, math.nan, math.inf])
def test_a_rate_is_between_0_and_1(rate: float) -> None:
    with pytest.raises(HarnessError, match=r"--until-confident .*: must be a rate between 0 and 1, e\.g\. 0\.01"):
        check(rate)
    with pytest.raises(HarnessError, match="must be a rate"):
        until(made(PAIR), rate)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"variants": ("buggy",)}, "this run has no fixed variant"),
        ({"threads": (1,)}, "no fixed cell of this run has a buggy twin that could show the bug"),
    ],
)
def test_a_run_without_a_cell_to_repeat_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(HarnessError, match=problem) as caught:
        until(made(PAIR, **options))
    assert (caught.value.status, "\n" in str(caught.value)) == (2, False)


def test_fixed_cells_that_cannot_run_here() -> None:
    planned = made(PAIR.replace('compiler = ["gcc"]', 'placement = ["performance"]\ncompiler = ["gcc"]'))
    with pytest.raises(HarnessError, match="no fixed cell can run here: performance needs a hybrid machine") as caught:
        until(planned)
    assert caught.value.status == 3


def test_fixed_variants_alone_are_bounded_and_nothing_is_said_of_a_fix() -> None:
    goal = until(made(PAIR, variants=("fixed",)))
    records = run(goal)
    assert len(records) == 29
    assert goal.text() == (
        "--until-confident 0.1: shown; fixed 0 of 29, below 9.9 % (95 %) on average over 3 cells; that took 29 trials; "
        "no buggy variant ran beside it, so this says nothing of a fix"
    )


def test_a_small_rate_costs_little_to_choose_trials_for() -> None:
    goal = until(made(PAIR), 0.0005)
    assert len(run(goal)) == 5990 + 8
