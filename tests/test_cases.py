"""What a campaign comes to for a CI: how a cell's case ends, and which trial tells most of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from livetrap.errors import HarnessError
from livetrap.expectations import Row
from livetrap.model import Record, Shape, Value, VariantRole, Verdict
from livetrap.report.cases import MOST_TEXT, NOT_RUN, Kind, Suite, suites_of, told
from livetrap.store import Store
from tests.test_store import add, make_record

PLAN = {"scenario": "raw-spin-flag", "started": "2026-01-02T03:04:05+00:00", "ended": "x", "trials": 3, "seed": 5}


def record(
    number: int,
    verdict: Verdict,
    *,
    role: VariantRole = VariantRole.FIXED,
    expected: tuple[Verdict, ...] = (Verdict.PASSED,),
    cell: Mapping[str, Value] | None = None,
    evidence: Mapping[str, object] | None = None,
) -> Record:
    uncounted = verdict in {Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.ERROR}
    hangs = verdict in {Verdict.LIVELOCK, Verdict.DEADLOCK, Verdict.STARVATION}
    return msgspec.structs.replace(
        make_record(number, verdict=verdict),
        variant="command" if role is VariantRole.WATCHED else role.value,
        role=role,
        cell={"threads": 2} if cell is None else dict(cell),
        expected=expected,
        as_expected=None if uncounted or not expected else verdict in expected,
        shape=Shape(spinning=1, parked=1) if hangs else Shape(),
        evidence={"reason": f"why {number}", **(evidence or {})},
    )


def fill(store: Store, *records: Record, plan: Mapping[str, object] | None = None) -> int:
    campaign = store.begin_campaign(PLAN if plan is None else plan, {"machine": "m", "os": "linux"})
    for one in records:
        add(store, one)
    return campaign


def suite(path: Path, *records: Record, plan: Mapping[str, object] | None = None) -> Suite:
    with Store.open(path / "a.db") as store:
        fill(store, *records, plan=plan)
        (found,) = suites_of(store)
        return found


FIXED = [
    ([Verdict.PASSED, Verdict.PASSED], Kind.PASSED, 1, "2 passed of 2 trials; as expected"),
    ([Verdict.PASSED, Verdict.LIVELOCK], Kind.FAILED, 2, "1 passed, 1 livelock of 2 trials; expected passed"),
    ([Verdict.PASSED, Verdict.CRASHED, Verdict.LIVELOCK], Kind.FAILED, 3, "1 passed, 1 crashed, 1 livelock of 3"),
    ([Verdict.PASSED, Verdict.ERROR], Kind.PASSED, 1, "1 passed, 1 error of 2 trials; as expected"),
    ([Verdict.ERROR, Verdict.SKIPPED], Kind.ERROR, 1, "1 skipped, 1 error of 2 trials: why 1"),
    ([Verdict.INCONCLUSIVE], Kind.SKIPPED, 1, "1 inconclusive of 1 trial: why 1"),
    ([Verdict.SKIPPED], Kind.SKIPPED, 1, "1 skipped of 1 trial: why 1"),
    ([Verdict.SLOW], Kind.FAILED, 1, "1 slow of 1 trial; expected passed"),
]


@pytest.mark.parametrize(("verdicts", "kind", "trial", "message"), FIXED)
def test_a_cell_that_should_pass(verdicts: list[Verdict], kind: Kind, trial: int, message: str, tmp_path: Path) -> None:
    (case,) = suite(tmp_path, *(record(i, verdict) for i, verdict in enumerate(verdicts, start=1))).cases
    assert (case.kind, case.trial) == (kind, trial)
    assert case.message.startswith(message)


WATCHED = [
    ([Verdict.PASSED, Verdict.PASSED], Kind.PASSED),
    ([Verdict.PASSED, Verdict.DEADLOCK, Verdict.ERROR], Kind.FAILED),
    ([Verdict.FAILED], Kind.FAILED),
    ([Verdict.PASSED, Verdict.SLOW], Kind.ERROR),
    ([Verdict.WAITING], Kind.ERROR),
    ([Verdict.PASSED, Verdict.ERROR], Kind.ERROR),
    ([Verdict.PASSED, Verdict.INCONCLUSIVE], Kind.SKIPPED),
    ([Verdict.SKIPPED], Kind.SKIPPED),
]


@pytest.mark.parametrize(("verdicts", "kind"), WATCHED)
def test_a_command_passes_only_if_every_trial_did(verdicts: list[Verdict], kind: Kind, tmp_path: Path) -> None:
    """As the exit status of a watch is 0 only then, and 1 only for a bug."""
    records = [record(i, verdict, role=VariantRole.WATCHED) for i, verdict in enumerate(verdicts, start=1)]
    (case,) = suite(tmp_path, *records).cases
    assert case.kind is kind


def test_a_bug_that_shows_as_it_should_passes_and_one_that_does_not_fails(tmp_path: Path) -> None:
    buggy = {"role": VariantRole.BUGGY, "expected": (Verdict.LIVELOCK,)}
    found = suite(
        tmp_path,
        record(1, Verdict.LIVELOCK, cell={"threads": 2}, **buggy),  # type: ignore[arg-type]
        record(2, Verdict.PASSED, cell={"threads": 4}, **buggy),  # type: ignore[arg-type]
    )
    assert [(case.name, case.kind) for case in found.cases] == [("threads=2", Kind.PASSED), ("threads=4", Kind.FAILED)]
    assert found.said == "NOT as expected: 1 of 2 cells"


def test_the_run_itself_knows_rates_and_cells_that_were_not_run(tmp_path: Path) -> None:
    def row(threads: int, *, n: int, ok: bool | None, rate: str = "") -> Row:
        return Row(
            variant="buggy",
            role=VariantRole.BUGGY,
            cell={"threads": threads},
            planned=2,
            n=n,
            verdicts={Verdict.LIVELOCK: n} if n else {},
            expected=(Verdict.LIVELOCK,),
            rate=rate,
            ok=ok,
        )

    with Store.open(tmp_path / "a.db") as store:
        first = {"role": VariantRole.BUGGY, "expected": (Verdict.LIVELOCK,)}
        campaign = fill(store, record(1, Verdict.LIVELOCK, **first), plan={"trials": 6})  # type: ignore[arg-type]
        rows = [row(2, n=1, ok=False, rate="at most 10 %"), row(4, n=0, ok=None), row(8, n=1, ok=None)]
        (found,) = suites_of(store, [campaign], rows={campaign: rows})
    assert [case.kind for case in found.cases] == [Kind.FAILED, Kind.SKIPPED, Kind.SKIPPED]
    assert found.cases[0].message == "1 livelock of 1 trial (2 planned); expected livelock, at most 10 %"
    assert found.cases[1].message == NOT_RUN
    assert found.cases[2].message.endswith("which is not all of the trials that tell its rate")
    assert found.unfinished.startswith("unfinished: 1 of 6 trials are on record")
    assert found.cases[1].trial == 0


def test_what_a_campaign_comes_to(tmp_path: Path) -> None:
    ended = suite(tmp_path, record(1, Verdict.PASSED), record(2, Verdict.SKIPPED, cell={"threads": 4}))
    assert (ended.said, ended.unfinished) == ("as expected: 1 of 2 cells, 1 say nothing", "")
    for folder, verdict, said in (
        ("a", Verdict.ERROR, "nothing is said: error in 1 of 1 cell"),
        ("b", Verdict.INCONCLUSIVE, "nothing is said: not one of 1 cell was conclusive"),
    ):
        (tmp_path / folder).mkdir()
        assert suite(tmp_path / folder, record(1, verdict)).said == said


def test_a_campaign_that_is_not_there(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store, pytest.raises(HarnessError, match="has no campaign 7"):
        fill(store)
        suites_of(store, [7])


def test_what_is_told_of_a_trial_is_plain_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output = {"output": "\x1b[31mred\x1b[0m\n" * 3, "stacks": [{"pid": 1, "tid": 2, "frames": ["f at a.c:1"]}]}
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.LIVELOCK, evidence=output), record(2, Verdict.PASSED, cell={"threads": 4}))
        (found,) = suites_of(store)
        hung, passed = found.cases
        full = told(store, hung, campaign=found.campaign)
        short = told(store, hung, campaign=found.campaign, most=20)
        nothing = told(store, passed, campaign=found.campaign)
    assert full
    assert "\x1b" not in full.text
    assert "f at a.c:1" in full.text
    assert full.reason == "why 1"
    assert full.repeat == "livetrap run raw-spin-flag --variant fixed --threads 2 --seed 5"
    assert short
    assert len(short.text.splitlines()[0]) == 20
    assert len(full.text) < MOST_TEXT
    assert short.text.endswith("has all of it)")
    assert nothing
    assert nothing.text == ""
