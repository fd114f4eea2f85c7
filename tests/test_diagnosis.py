"""The checklist, walked over records that are made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from livetrap.diagnosis import CHECKLIST, Diagnosis, diagnose
from livetrap.expectations import summarise
from livetrap.model import PlannedTrial, Verdict
from tests.test_expectations import SPIN, record
from tests.test_plan import made
from tests.test_plan_command import TEXT as COMMAND

BARRIERS = """
schema = 1
name = "barriers"
summary = "x"
[target]
kernel = "barrier_rounds"
[budget]
trials = 10
[axes]
threads = [1, 4]
[variants.buggy]
role = "buggy"
axes = { technique = ["raw_spin"] }
[variants.fixed]
role = "fixed"
axes = { technique = ["acquire_yield", "acquire_spin"] }
[[expect]]
match = { variant = "fixed" }
verdicts = ["passed"]
[[expect]]
match = { threads = 1 }
verdicts = ["passed"]
needs = "2 threads or more"
[[expect]]
verdicts = ["livelock"]
"""


def hangs_as_told(trial: PlannedTrial) -> str:
    """Every trial does what its scenario expects."""
    return trial.expected[0].value


def walked(text: str, does: Callable[[PlannedTrial], str], evidence: Mapping[str, object] | None = None) -> Diagnosis:
    plan = made(text)
    records = [
        msgspec.structs.replace(record(trial, does(trial)), evidence=dict(evidence or {})) for trial in plan.trials
    ]
    return diagnose(plan, records, summarise(plan, records))


def answers(diagnosis: Diagnosis) -> list[str]:
    assert [finding.question for finding in diagnosis.findings] == list(CHECKLIST)
    return [finding.answer for finding in diagnosis.findings]


def test_a_story_with_techniques() -> None:
    sites = {"spin_sites": [{"site": "m+0x1", "where": "spin_until at raw_spin.c:18", "threads": 3}]}
    got = walked(BARRIERS, hangs_as_told, sites)
    one, path, wait, workaround, fix, policy, guard = answers(got)
    assert one.startswith("yes: it takes more than one thread")
    assert path == "does not apply: no axis but threads, placement and align was varied"
    assert wait.startswith("raw_spin spins on a plain variable")
    assert any("raw_spin.c:18" in line for line in got.findings[2].evidence)
    assert workaround == "yes: one thread"
    assert fix == "yes, 0 of 20, below 14 % (95 %)"
    assert policy == "satisfied by acquire_yield; not by acquire_spin"
    assert "tests/test_policy_guard.py" in guard
    assert got.reproduced
    for part in (
        "What it is: barriers shows the bug in 10 of 10, 69 to 100 % (95 %): 10 livelock",
        "What to do now: one thread",
        "For good: wait with acquire_yield",
    ):
        assert part in got.paragraph


def test_a_story_without_techniques_says_what_does_not_apply() -> None:
    got = walked(SPIN, hangs_as_told)
    _, path, wait, workaround, _, policy, guard = answers(got)
    assert path == "yes: flags: only -O2, not -O0"
    assert wait.startswith("its own wait, kernel flag_handoff")
    assert workaround.startswith("yes: one thread, buggy without -O1 or higher")
    assert policy.startswith("does not apply: flag_handoff waits in its own way")
    assert not got.findings[5].applies
    assert guard.startswith("`livetrap run spin` in CI")


def test_a_command_has_no_kernel_to_name() -> None:
    _, _, wait, workaround, _, policy, _ = answers(walked(COMMAND, hangs_as_told))
    assert wait.startswith("its own wait, a command: mode fast level 1 threads ")
    assert workaround.startswith("yes: one thread")
    assert policy.startswith("does not apply: a command waits in its own way")


def test_a_bug_that_did_not_show_claims_nothing() -> None:
    got = walked(BARRIERS, lambda _trial: "passed")
    one, path, _, workaround, fix, *_ = answers(got)
    assert one == "yes, and here so do several threads"
    assert path.startswith("does not apply")
    assert workaround.startswith("does not apply")
    assert fix == "not reproduced, so nothing is claimed"
    assert not got.reproduced
    assert "nothing is claimed about a fix" in got.paragraph


def test_a_fix_that_hangs_is_none() -> None:
    got = walked(BARRIERS, lambda trial: "livelock" if trial.threads > 1 else "passed")
    assert answers(got)[4] == "no"
    assert "a variant that is called fixed showed the bug too" in got.paragraph


def test_one_thread_that_hangs_is_said() -> None:
    got = walked(BARRIERS, lambda trial: "livelock" if trial.technique == "raw_spin" else "passed")
    assert answers(got)[0].startswith("no: the bug shows with one thread too")
    assert answers(got)[3] == "no: one thread"


def test_too_few_trials_are_not_called_a_fix() -> None:
    got = walked(BARRIERS.replace("trials = 10", "trials = 1"), hangs_as_told)
    assert answers(got)[4].startswith("not yet")
    assert "too few trials" in got.paragraph


def test_a_run_with_nothing_conclusive_still_answers() -> None:
    for verdict in (Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.ERROR):
        got = walked(BARRIERS, lambda _trial, verdict=verdict: verdict.value)  # type: ignore[misc]
        assert len(answers(got)) == 7
        assert "nothing conclusive ran" in got.paragraph
        assert not got.reproduced


def test_the_advice_counts_only_what_the_policy_allows() -> None:
    got = walked(BARRIERS, hangs_as_told)
    assert "For good: wait with acquire_yield, as the policy plans: 0 of 10, below 26 % (95 %)" in got.paragraph


def test_a_look_alike_that_hangs_is_told_of() -> None:
    text = BARRIERS.replace('role = "fixed"', 'role = "look-alike"')
    got = walked(text, lambda trial: "passed" if trial.technique == "raw_spin" else "livelock")
    assert "which is not there to show a bug, showed one" in got.paragraph
