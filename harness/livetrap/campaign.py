"""A campaign: everything that one plan runs, each trial on disk before its successor begins."""

from __future__ import annotations

import contextlib
import datetime
import os
import shlex
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from livetrap import build, host, provisions, resources, watching
from livetrap.aftermath import CommandCare, KernelCare
from livetrap.attaching import attach
from livetrap.crew import Crew, Work
from livetrap.model import Gaps, PlannedTrial, Record, Verdict
from livetrap.plan import Plan, arguments
from livetrap.preparing import Prepared, check, prepare
from livetrap.recording import recipe_of, record_of
from livetrap.scenario_model import Scenario
from livetrap.store import Store
from livetrap.trial import Job, Outcome
from livetrap.watching import Watch

__all__ = ["CrewLike", "Listener", "Prepared", "attach", "check", "prepare", "run", "watch"]

PlanSeen_contra = TypeVar("PlanSeen_contra", contravariant=True)

LAST_LOOKS = 8
"""Events that are kept of a trial that was never suspect."""


class Listener(Protocol[PlanSeen_contra]):
    """Whoever wants to see a campaign go on."""

    def started(self, plan: PlanSeen_contra, /) -> None:
        """The campaign begins."""

    def trial_started(self, trial: PlannedTrial) -> None:
        """A trial begins."""

    def trial_judged(self, record: Record) -> None:
        """A trial is judged and on disk, and evidence is still taken of it; `trial_finished` follows."""

    def trial_finished(self, record: Record) -> None:
        """A trial is judged, reaped and on disk."""

    def note(self, text: str) -> None:
        """Something that the reader should know."""


class CrewLike(Protocol):
    """Whoever runs trials: a context manager, which ends whatever still runs when it is left."""

    def __enter__(self) -> object:
        """Begins."""

    def __exit__(self, *_: object) -> None:
        """Ends what still runs."""

    def outcomes(self, works: Iterator[Work]) -> Generator[tuple[Work, Outcome], None, None]:
        """Each trial with what came of it, as they end."""


def run(
    prepared: Prepared,
    *,
    store: Store,
    listener: Listener[Plan],
    command: str = "",
    about: Mapping[str, object] = {},
    goes_on: int | None = None,
    trials: Iterator[PlannedTrial] | None = None,
    ends: Callable[[Record], bool] = lambda _record: False,
    crew: Callable[[Callable[[Work, Outcome], None]], CrewLike] | None = None,
    gaps: Mapping[str, float] = {},
) -> None:
    """Runs every trial of a plan and stores each as it finishes.

    `about` is stored with the campaign beside what is known of every one; `goes_on`: the id of a campaign of this store
    that is gone on with instead of a new one. `trials` run instead of the plan's, each taken when the one before is on
    disk; `ends` is asked after each whether that was the last. `crew` makes who runs them, given whom to tell of a
    trial that is judged before evidence is taken; by default one of this machine. `gaps`: the longest healthy gaps
    that are known of cells before, in seconds, by their keys.

    Raises KeyboardInterrupt upward, after nothing of the trial is left; HarnessError where the file cannot be written.
    """
    planned = prepared.plan
    environment = {**host.environment(), "compilers": prepared.versions}
    if goes_on is not None:
        _go_on(store, goes_on, command=command, environment=environment)
    else:
        store.begin_campaign(
            {
                "kind": "run",
                "scenario": planned.scenario.name,
                "started": _now(),
                "path": _where(planned.scenario),
                "command": command,
                "seed": planned.seed,
                "trials": len(planned.trials),
                "narrowed": planned.narrowed,
                **about,
            },
            environment,
        )
    listener.started(planned)
    ledger = _Ledger(prepared, store=store, listener=listener, command=command, gaps=gaps)
    care = KernelCare() if prepared.kernel else CommandCare()
    made = crew(ledger.enter_early) if crew else Crew(care=care, judged=ledger.enter_early)
    works = ledger.works(iter(planned.trials) if trials is None else trials)
    with ledger, made, contextlib.closing(made.outcomes(works)) as outcomes:
        for work, outcome in outcomes:
            if ends(ledger.enter(work, outcome)):
                break
    store.amend_campaign({"ended": _now()})


def watch(
    planned: Watch,
    *,
    store: Store,
    listener: Listener[Watch],
    command: str = "",
    about: Mapping[str, object] = {},
    goes_on: int | None = None,
    planned_trials: Iterator[PlannedTrial] | None = None,
) -> None:
    """Runs the trials of a watch, and stores each as it finishes, until one hangs or its budget is over.

    `about`, `goes_on`: as for `run`; `planned_trials` run instead of the watch's own. Raises as `run` does.
    """
    options = planned.options
    if goes_on is not None:
        _go_on(store, goes_on, command=command, environment=host.environment())
    else:
        store.begin_campaign(
            {
                "kind": "watch",
                "scenario": planned.name,
                "started": _now(),
                "command": command,
                "seed": planned.seed,
                "trials": planned.total,
                **about,
            },
            host.environment(),
        )
    listener.started(planned)
    ledger = _Ledger(
        None,
        store=store,
        listener=listener,
        command=command,
        repeat=lambda trial: shlex.join(watching.repeat_words(planned, trial.cell)),
    )
    trials = provisions.countable(
        watching.trials(planned) if planned_trials is None else planned_trials,
        cache=build.default_cache(),
        python_path=os.environ.get("PYTHONPATH", ""),
        note=listener.note,
    )
    end = None if options.for_s is None else time.monotonic() + options.for_s
    shares = watching.shares(planned.topology, options.jobs)
    crew = Crew(
        care=CommandCare(
            on_hang=options.on_hang, leave=options.leave, core=options.core, folder=store.path.absolute().parent
        ),
        judged=ledger.enter_early,
        jobs=options.jobs,
        share=lambda trial, place: watching.confined(trial, shares[place], whole=planned.topology),
    )
    with (
        ledger,
        crew,
        contextlib.closing(crew.outcomes(ledger.works(_until(trials, end)))) as outcomes,
    ):
        for work, outcome in outcomes:
            record = ledger.enter(work, outcome)
            if planned.ends_at(record.verdict):
                break
    store.amend_campaign({"ended": _now()})


def _go_on(store: Store, campaign: int, *, command: str, environment: Mapping[str, object]) -> None:
    """Goes on with a campaign, which says so from then on: when, by which command line, on what."""
    store.go_on(campaign)
    plan, _ = store.campaign(campaign)
    before = plan.get("resumed")
    resumed = {"at": _now(), "command": command, "environment": environment}
    store.amend_campaign({"resumed": [*(before if isinstance(before, list) else []), resumed]})


class _Ledger:
    """Turns planned trials into work, and what came of them into records, each on disk at once."""

    def __init__(
        self,
        prepared: Prepared | None,
        *,
        store: Store,
        listener: Listener[Any],
        command: str,
        repeat: Callable[[PlannedTrial], str] = lambda _trial: "",
        gaps: Mapping[str, float] = {},
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._listener = listener
        self._command = command
        self._repeat = repeat
        self._gaps = dict(gaps)
        self._early: dict[int, Record] = {}
        """By the trial's ordinal: on disk, and not yet finished."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Trials that were judged count, though the taking of evidence was interrupted."""
        for record in self._early.values():
            self._listener.trial_finished(record)
        self._early.clear()

    def works(self, trials: Iterator[PlannedTrial]) -> Iterator[Work]:
        """Each trial when it is its turn."""
        prepared = self._prepared
        kernel = prepared.kernel if prepared else None
        for trial in trials:
            self._listener.trial_started(trial)
            job = Job(
                built=prepared.built(trial) if prepared else None,
                arguments=arguments(trial.parameters, kernel) if kernel and not trial.skip else {},
                gaps=Gaps(cell_s=self._gaps.get(trial.cell_key, 0.0)),
            )
            yield Work(trial=trial, job=job)

    def enter_early(self, work: Work, outcome: Outcome) -> None:
        """Stores what is known of a trial that is judged, before evidence is taken, which may be interrupted."""
        record = self._add(work, outcome)
        self._early[work.trial.ordinal] = record
        self._listener.trial_judged(record)

    def enter(self, work: Work, outcome: Outcome) -> Record:
        """Stores what came of a trial, and tells the listener."""
        trial, gaps = work.trial, work.job.gaps
        early = self._early.get(trial.ordinal)
        if early is None:
            record = self._add(work, outcome)
        else:
            record = record_of(trial, outcome, id_=early.id, compiler=early.compiler)
            self._store.amend(record)
            del self._early[trial.ordinal]
        if record.verdict is Verdict.PASSED:
            longest = max(gaps.cell_s, record.longest_stall_s, self._gaps.get(trial.cell_key, 0.0))
            self._gaps[trial.cell_key] = longest
        self._listener.trial_finished(record)
        return record

    def _add(self, work: Work, outcome: Outcome) -> Record:
        trial = work.trial
        compiler = self._prepared.compiler(trial) if self._prepared else ""
        record = record_of(trial, outcome, id_=self._store.next_id(), compiler=compiler)
        self._store.add(
            record,
            recipe=recipe_of(
                trial, built=work.job.built, compiler=compiler, command=self._command, repeat=self._repeat(trial)
            ),
            rules=trial.rules,
            gaps=work.job.gaps,
            judgement=outcome.judgement,
            events=outcome.events if outcome.suspect else outcome.events[-LAST_LOOKS:],
            suspect=outcome.suspect,
        )
        return record


def _until(trials: Iterator[PlannedTrial], end: float | None) -> Iterator[PlannedTrial]:
    """The trials that begin before that time of the monotonic clock; None: all."""
    for trial in trials:
        if end is not None and time.monotonic() >= end:
            return
        yield trial


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _where(scenario: Scenario) -> str:
    """Where a scenario that is not shipped lies, absolute; empty for one that is."""
    folder = Path(scenario.folder or ".").resolve()
    return "" if folder.parent == resources.scenarios_dir().resolve() else str(folder)
