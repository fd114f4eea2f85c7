"""What `livetrap.run(...)` gives: records that are held against what should be."""

from __future__ import annotations

import unittest
from pathlib import Path

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

import livetrap
from livetrap import api
from livetrap.errors import HarnessError
from livetrap.model import Record, Verdict
from livetrap.plan import Options
from tests.test_fuzzing import planned, record, trial

PLAN = planned(Options(variants=("buggy",), threads=(2,), placement=("free",), flags=("-O2",), trials=1))
CELL = PLAN.trials[0].cell


def records(*verdicts: Verdict) -> api.Records:
    def one(verdict: Verdict) -> Record:
        found = record(trial(**CELL), verdict)
        return msgspec.structs.replace(found, evidence={"reason": "because"}, as_expected=verdict == "livelock")

    plan = msgspec.structs.replace(PLAN, trials=PLAN.trials[:1])
    return api.Records(plan, [one(verdict) for verdict in verdicts], file=Path("a b.db"), where="s")


def test_what_is_as_expected_passes() -> None:
    records(Verdict.PASSED, Verdict.INCONCLUSIVE).expect("passed")
    records(Verdict.LIVELOCK).expect()
    records(Verdict.LIVELOCK, Verdict.PASSED).expect("passed", "livelock")


def test_what_is_not_tells_verdict_reason_and_recipe() -> None:
    with pytest.raises(AssertionError) as caught:
        records(Verdict.LIVELOCK, Verdict.PASSED).expect("passed")
    text = str(caught.value)
    assert text.startswith("s: 1 of 2 trials not passed")
    assert ": because" in text and "livetrap show 'a b.db' 1" in text
    assert "again: livetrap run s --variant buggy" in text and text.rstrip().endswith("--seed 1")


def test_uncounted_trials_are_never_passes() -> None:
    with pytest.raises(unittest.SkipTest):
        records(Verdict.SKIPPED).expect("passed")
    with pytest.raises(AssertionError, match="nothing conclusive"):
        records(Verdict.INCONCLUSIVE, Verdict.SKIPPED).expect("passed")
    with pytest.raises(AssertionError, match="1 trial could not be run"):
        records(Verdict.PASSED, Verdict.ERROR).expect("passed")


def test_an_example_without_a_conclusion_is_rejected() -> None:
    ran = []

    @hypothesis.settings(max_examples=5, suppress_health_check=list(hypothesis.HealthCheck), database=None)
    @hypothesis.given(st.booleans())
    def test(conclusive: bool) -> None:
        records(Verdict.PASSED if conclusive else Verdict.INCONCLUSIVE).expect("passed")
        ran.append(conclusive)

    test()
    assert set(ran) == {True}


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="did you mean 'passed'"):
        records(Verdict.PASSED).expect("pased")
    with pytest.raises(HarnessError, match="whole number"):
        livetrap.run("raw-spin-flag", threads="two")
    with pytest.raises(HarnessError, match="narrow it where it is drawn"):
        livetrap.run(trial(threads=2), variant="buggy")
    with pytest.raises(HarnessError, match="must be 1 or more"):
        livetrap.run(trial(threads=2), trials=0)
    with pytest.raises(HarnessError, match="unknown scenario"):
        livetrap.run("no-such")
