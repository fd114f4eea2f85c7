"""Real trials, recorded end to end, folded again without clock or process."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from livetrap import judge
from livetrap.model import HANGS, LimitReached, Look, Verdict
from tests.judge.recorded import FOLDER, read

FILES = sorted(FOLDER.glob("*.trial"))


def settled_by_evidence(file: Path) -> bool:
    """A hang that was called before the time limit."""
    trial = read(file)
    return trial.verdict in HANGS and not any(isinstance(event, LimitReached) for event in trial.events)


CALLED = [file for file in FILES if settled_by_evidence(file)]


def test_there_are_recorded_trials_of_each_kind() -> None:
    kinds = {read(file).verdict for file in FILES}
    assert kinds >= {
        Verdict.LIVELOCK,
        Verdict.DEADLOCK,
        Verdict.STARVATION,
        Verdict.WAITING,
        Verdict.SLOW,
        Verdict.PASSED,
        Verdict.INCONCLUSIVE,
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recorded_trial_gives_its_verdict(file: Path) -> None:
    trial = read(file)
    got = judge.refold(trial.rules, trial.gaps, trial.events)
    assert (got.verdict, got.certainty, got.rule, got.shape) == (
        trial.verdict,
        trial.certainty,
        trial.rule,
        trial.shape,
    )


@pytest.mark.parametrize("file", CALLED, ids=lambda file: file.stem)
def test_a_recorded_hang_needs_its_evidence(file: Path) -> None:
    """Looks alone, without the beats that were read again after gathering, settle nothing before the limit."""
    trial = read(file)
    looks = [event for event in trial.events if isinstance(event, Look)]
    assert judge.refold(trial.rules, trial.gaps, looks).rule == "unsettled"


@pytest.mark.parametrize("file", CALLED, ids=lambda file: file.stem)
def test_a_recorded_hang_is_none_under_a_floor_that_it_never_reached(file: Path) -> None:
    trial = read(file)
    patient = msgspec.structs.replace(trial.rules, floor_s=600, silent_floor_s=600, limit_s=1200)
    assert judge.refold(patient, trial.gaps, trial.events).rule == "unsettled"
