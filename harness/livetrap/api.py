"""What `livetrap.run` is: a scenario, or a trial that `livetrap.strategies` drew, run from Python.

livetrap.run("my-scenario", variant="fixed", threads=[2, 4], trials=50).expect("passed")
"""

from __future__ import annotations

import datetime
import io
import random
import shlex
import sys
import unittest
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn, overload

from livetrap import build, campaign, expectations
from livetrap.errors import HarnessError, nearest
from livetrap.fuzzing import Trial, is_bug
from livetrap.hunting import Tried, recipe
from livetrap.model import UNCOUNTED, PlannedTrial, Record, Value, Verdict
from livetrap.plan import Options, Plan
from livetrap.report.summary import print_summary
from livetrap.report.text import console, one_line, plural
from livetrap.seeds import SEED_BITS
from livetrap.store import Store, default_path
from livetrap.trying import Session, load

__all__ = ["Given", "NotAsExpected", "Records", "run"]

Given = Value | Iterable[Value]
MOST_TOLD = 10
"""Trials of a failed expectation that are told one by one."""
_AXES = ("threads", "placement", "technique", "flags", "compiler")


class NotAsExpected(AssertionError):
    """Trials did not end as they should; the text has verdicts, shapes, reasons and what repeats them."""


class Records(Sequence[Record]):
    """The records of a run's trials, in the order in which they ended."""

    def __init__(self, plan: Plan, records: Sequence[Record], *, file: Path, where: str = "") -> None:
        self.plan = plan
        self.file = file
        """The database that has them, with all evidence: `livetrap show FILE ID`."""
        self._records = tuple(records)
        self._where = where or plan.scenario.name

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, at: int) -> Record: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Record]: ...

    def __getitem__(self, at: int | slice) -> Record | Sequence[Record]:
        return self._records[at]

    def expect(self, *verdicts: str) -> None:
        """Raises NotAsExpected, an AssertionError, unless every conclusive trial has one of these verdicts; without
        any: unless all is as the scenario itself expects, rates included.

        Trials that were `skipped` or `inconclusive` do not count. Where all were skipped, unittest.SkipTest is raised;
        where none was conclusive, or the harness could not run one, it is not as expected. In a test of hypothesis, an
        example without a conclusive trial is rejected instead. ValueError: there is no such verdict.
        """
        __tracebackhide__ = True
        check_verdicts(verdicts)
        counted = [record for record in self if record.verdict not in UNCOUNTED]
        failed = [record for record in self if record.verdict is Verdict.ERROR]
        if not counted and not failed and _in_hypothesis():
            _reject()
        if not counted and all(record.verdict is Verdict.SKIPPED for record in self):
            why = self[0].evidence.get("reason", "") if self else "no trial was planned"
            raise unittest.SkipTest(f"{self.plan.scenario.name}: {why}")
        outcome = expectations.summarise(self.plan, self)
        if verdicts:
            wrong = [record for record in counted if record.verdict not in verdicts]
            said = f"{len(wrong)} of {plural(len(counted), 'trial')} not {' or '.join(verdicts)}"
        else:
            wrong = [record for record in counted if record.as_expected is False]
            said = "not as the scenario expects" if outcome.exit_status == 1 else "nothing conclusive"
        if failed:
            wrong, said = failed, f"{plural(len(failed), 'trial')} could not be run"
        elif not counted:
            said = "nothing conclusive"
        elif (verdicts and not wrong) or (not verdicts and outcome.exit_status == 0):
            return
        raise NotAsExpected(self._text(said, wrong, outcome))

    def _text(self, said: str, wrong: Sequence[Record], outcome: expectations.Outcome) -> str:
        stream = io.StringIO()
        print_summary(console(stream), outcome, self)
        lines = [f"{self.plan.scenario.name}: {said}", stream.getvalue().rstrip(), ""]
        for record in wrong[:MOST_TOLD]:
            cell = " ".join(f"{name}={value}" for name, value in record.cell.items())
            why = one_line(str(record.evidence.get("reason", "")))
            lines.append(f"{record.variant} {cell}: {record.verdict.value}, {record.shape}: {why}")
            lines.append(f"    livetrap show {shlex.quote(str(self.file))} {record.id}")
            lines.append(f"    again: {self._again(record)}")
        if len(wrong) > MOST_TOLD:
            lines.append(f"and {len(wrong) - MOST_TOLD} more")
        return "\n".join(lines)

    def _again(self, record: Record) -> str:
        """The command line that runs the cell of a trial again, with the same seeds."""
        return shlex.join(again(self._where, self.plan, record, records=self))


def again(where: str, plan: Plan, record: Record, *, records: Sequence[Record]) -> tuple[str, ...]:
    """The words of a command line that runs the cell of a trial again, with the seeds that it had in the plan."""
    scenario = plan.scenario
    cell = dict(record.cell)
    tried = Tried(key="", variant=record.variant, cell=cell, hits=0, trials=0, seconds=0.0)
    of_cell = [one for one in records if one.variant == record.variant and one.cell == record.cell]
    limits = {trial.rules.limit_s for trial in plan.trials} - {scenario.budget.timeout_s}
    timeout_s = limits.pop() if len(limits) == 1 else None
    return (*recipe(where, scenario, tried, trials=len(of_cell), timeout_s=timeout_s), "--seed", str(plan.seed))


def run(
    what: str | Path | Trial,
    *,
    variant: str | Iterable[str] = (),
    trials: int | None = None,
    timeout: float | None = None,
    seed: int | None = None,
    db: str | Path | None = None,
    **narrowing: Given,
) -> Records:
    """Runs a scenario, narrowed, or one trial that a strategy drew, and gives the records.

    `what`: a shipped name, a scenario's folder, or a trial of `livetrap.strategies`. For a scenario: `variant`,
    `trials` (a cell), `timeout` (seconds a trial) and `seed` as `livetrap run` has them; any other name is an axis with
    a value or several: `threads=2`, `placement=["free", "one-core"]`, `rounds=100`. For a trial: `trials` is how often
    it is run at most, until it shows a bug; by default once, or more often while hypothesis shrinks. `db`: where to
    record, by default a file in the state folder. Raises HarnessError for what does not fit, and where this machine
    cannot run it.
    """
    if isinstance(what, Trial):
        if variant or narrowing or seed is not None or timeout is not None:
            raise HarnessError(f"{what!r} is one trial as it is; narrow it where it is drawn")
        return _run_trial(what, trials, db)
    given = options(narrowing, variant=variant, trials=trials, timeout_s=timeout, seed=seed)
    loaded = load(str(what))
    drawn_seed = random.SystemRandom().getrandbits(min(SEED_BITS, 32))
    prepared = campaign.prepare(loaded, options=given, cache=build.default_cache(), seed=drawn_seed)
    listener = Listener()
    file = _file(db, loaded.name)
    with Store.open(file) as store:
        campaign.run(prepared, store=store, listener=listener, command="livetrap.run")
    return Records(prepared.plan, listener.records, file=file, where=str(what))


def _run_trial(trial: Trial, trials: int | None, db: str | Path | None) -> Records:
    _check_deadline()
    if trials is not None and trials < 1:
        raise HarnessError(f"trials={trials}: must be 1 or more")
    memory = trial.memory
    found = memory.results.get(trial.key) if memory is not None else None
    if isinstance(found, Records):  # it has shown a bug, and that is told again
        return found
    repeats = trials or (memory.repeats(trial) if memory is not None else 1)
    kept = memory.session if memory is not None else None
    with kept if isinstance(kept, Session) else Session() as session:
        if memory is not None:
            memory.session = session
        scenario = session.scenario(trial)
        file = Path(memory.file) if memory is not None and memory.file and db is None else _file(db, scenario.name)
        with Store.open(file) as store:
            plan, records = session.run(
                trial,
                repeats=repeats,
                ends=is_bug,
                store=store,
                listener=Listener(),
                command="livetrap.run",
                about={"kind": "fuzz", "trials": repeats, "seed": trial.seed},
            )
    result = Records(plan, records, file=file, where=trial.scenario)
    if memory is not None:
        memory.file = memory.file or str(file)
        memory.tell(trial, records)
        if any(map(is_bug, records)):
            memory.results[trial.key] = result
    return result


class Listener:
    """Keeps the records; what else a campaign says goes to standard output."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def started(self, plan: Plan, /) -> None:
        """Nothing."""

    def trial_started(self, trial: PlannedTrial) -> None:
        """Nothing."""

    def trial_judged(self, record: Record) -> None:
        """Nothing."""

    def trial_finished(self, record: Record) -> None:
        """Keeps it."""
        self.records.append(record)

    def note(self, text: str) -> None:
        """Says it."""
        print(text)


def options(
    narrowing: dict[str, Given],
    *,
    variant: str | Iterable[str] = (),
    trials: int | None = None,
    timeout_s: float | None = None,
    seed: int | None = None,
) -> Options:
    """The options that keyword arguments ask for. HarnessError: a number of threads that is none."""
    given = {name: _each(values) for name, values in narrowing.items()}
    own = {name: given.pop(name) for name in _AXES if name in given}
    threads = own.get("threads", ())
    stray = next((one for one in threads if not isinstance(one, int) or isinstance(one, bool)), None)
    if stray is not None:
        raise HarnessError(f"threads {stray!r}: must be a whole number")
    return Options(
        threads=tuple(one for one in threads if isinstance(one, int)),
        **{name: tuple(map(str, own.get(name, ()))) for name in _AXES[1:]},
        axes=given,
        variants=tuple(map(str, _each(variant))),
        trials=trials,
        timeout_s=timeout_s,
        seed=seed,
    )


def check_verdicts(verdicts: Iterable[str]) -> None:
    """Raises ValueError for what is no verdict."""
    known = [verdict.value for verdict in Verdict]
    unknown = next((name for name in verdicts if name not in known), None)
    if unknown is not None:
        raise ValueError(f"verdict {unknown!r}: {nearest(unknown, known)}")


def _each(values: Given) -> tuple[Value, ...]:
    return (values,) if isinstance(values, str | int) else tuple(values)


def _file(db: str | Path | None, name: str) -> Path:
    return Path(db) if db is not None else default_path(name, now=datetime.datetime.now(datetime.UTC))


def _in_hypothesis() -> bool:
    """This is an example of a test of hypothesis, which is then imported already."""
    if "hypothesis" not in sys.modules:
        return False
    import hypothesis  # noqa: PLC0415 - an extra

    return hypothesis.currently_in_test_context()


def _reject() -> NoReturn:
    import hypothesis  # noqa: PLC0415 - an extra

    hypothesis.reject()


def _check_deadline() -> None:
    """Raises HarnessError in a test of hypothesis with a deadline: it would call a healthy slow run flaky."""
    if not _in_hypothesis():
        return
    import hypothesis  # noqa: PLC0415 - an extra

    deadline = hypothesis.settings().deadline
    if deadline is not None:
        ms = round(deadline.total_seconds() * 1000)
        raise HarnessError(
            f"this test has a deadline of {ms} ms an example, and a trial takes as long as it takes: give the test"
            " @settings(deadline=None), or @livetrap.strategies.unhurried"
        )
