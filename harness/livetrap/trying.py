"""Runs trials that are chosen one by one, each when the one before is known, into one campaign."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Self

import msgspec

from livetrap import build, campaign, disturb, host, hunting, resources, scenario
from livetrap.aftermath import CommandCare, KernelCare
from livetrap.crew import Care, Work, Worker
from livetrap.errors import HarnessError, nearest
from livetrap.fuzzing import Space, Trial, passing, space_of
from livetrap.hunting import DISTURBANCE
from livetrap.model import KernelInfo, PlannedTrial, Record, Value
from livetrap.plan import Options, Plan
from livetrap.preparing import Prepared, prepare
from livetrap.repeating import again
from livetrap.scenario_model import Scenario, axes_of
from livetrap.shrinking import options_of
from livetrap.store import Store
from livetrap.trial import Outcome

__all__ = ["Session", "load", "space"]


def load(where: str) -> Scenario:
    """A scenario by its shipped name, its folder or its file. HarnessError: there is none such, or it is bad."""
    return scenario.load(
        where,
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=resources.technique_names(),
    )


def space(
    where: str,
    options: Options,
    *,
    buggy: bool,
    note: Callable[[str], None] = lambda _text: None,
) -> Space:
    """What can be drawn of a scenario on this machine, under these options; builds one module to know the kernel.

    `buggy`: of the variants that show the bug where the options name none, else of those that should pass. Raises
    HarnessError for options that fit nothing, and where this machine can run none of it.
    """
    loaded, topology, lacking = load(where), host.topology(), disturb.lacking()
    for_kernel = not loaded.target.command
    disturbed = hunting.default_disturbances(topology, for_kernel=for_kernel, lacking=lacking)
    if not buggy and not options.variants:
        options = msgspec.structs.replace(options, variants=passing(loaded))
    options = msgspec.structs.replace(hunting.hunted(loaded, options, disturbed=disturbed), trials=1)
    plans: list[Plan] = []

    def keep(plan: Plan) -> Plan:
        """All of it is looked at, and nothing is made for it yet."""
        plans.append(plan)
        return msgspec.structs.replace(plan, trials=())

    prepared = prepare(loaded, options=options, cache=build.default_cache(), seed=0, note=note, select=keep)
    kernel: KernelInfo | None = prepared.kernel
    found = space_of(where, plans[0], options=options, kernel=kernel, topology=topology, lacking=lacking)
    if not found.variants:
        raise HarnessError(f"{loaded.name}: this machine can run none of it: {'; '.join(found.reasons)}", status=3)
    return found


class Session:
    """Runs such trials. What a cell needs is made once, and one supervisor serves all while the context is not left."""

    def __init__(self, *, note: Callable[[str], None] = lambda _text: None) -> None:
        self._note = note
        self._topology = host.topology()
        self._loaded: dict[str, Scenario] = {}
        self._prepared: dict[tuple[str, str], Prepared] = {}
        self._ordinals = itertools.count()
        self._campaigns: dict[Path, int] = {}
        self._crew: _Lasting | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def scenario(self, trial: Trial) -> Scenario:
        """The scenario of a trial."""
        if trial.scenario not in self._loaded:
            self._loaded[trial.scenario] = load(trial.scenario)
        return self._loaded[trial.scenario]

    def prepare(self, trial: Trial) -> Prepared:
        """All that a trial needs. Raises HarnessError where the scenario or its kernel has no such cell."""
        loaded = self.scenario(trial)
        key = (
            trial.scenario,
            msgspec.json.encode([trial.variant, sorted(trial.cell.items()), trial.timeout_s]).decode(),
        )
        if key not in self._prepared:
            cell, usual = _told(trial, loaded), Options(timeout_s=trial.timeout_s)
            options = options_of(cell, usual, variant=trial.variant, kernel=not loaded.target.command)
            self._prepared[key] = prepare(
                loaded,
                options=msgspec.structs.replace(options, trials=1),
                cache=build.default_cache(),
                seed=trial.seed,
                note=self._note,
            )
        return self._prepared[key]

    def run(
        self,
        trial: Trial,
        *,
        repeats: int,
        ends: Callable[[Record], bool],
        store: Store,
        listener: campaign.Listener[Plan],
        command: str,
        about: Mapping[str, object] = {},
    ) -> tuple[Plan, list[Record]]:
        """Runs it so many times, but ends where `ends` says so; the plan of those that ran, and their records.

        A repetition has the seed that `livetrap run --seed` with the trial's seed gives it. Raises as `prepare` and
        `campaign.run` do.
        """
        prepared = self.prepare(trial)
        given: list[PlannedTrial] = []
        records: list[Record] = []

        def over(record: Record) -> bool:
            records.append(record)
            return ends(record)

        if self._crew is None:
            self._crew = _Lasting(CommandCare() if prepared.kernel is None else KernelCare())
        campaign.run(
            prepared,
            store=store,
            listener=listener,
            command=command,
            about=about,
            goes_on=self._campaigns.get(store.path),
            trials=self._trials(prepared, trial, repeats, given),
            ends=over,
            crew=self._crew.told,
        )
        self._campaigns[store.path] = store.current
        return msgspec.structs.replace(prepared.plan, trials=tuple(given), seed=trial.seed), records

    def _trials(
        self, prepared: Prepared, trial: Trial, repeats: int, given: list[PlannedTrial]
    ) -> Iterator[PlannedTrial]:
        (first,) = prepared.plan.trials
        target = prepared.plan.scenario.target
        for repetition in range(1 if first.skip else repeats):
            ordinal = next(self._ordinals)
            one = msgspec.structs.replace(first, ordinal=ordinal)
            if not first.skip:
                one = again(
                    first,
                    target=target,
                    topology=self._topology,
                    seed=trial.seed,
                    repetition=repetition,
                    ordinal=ordinal,
                )
            given.append(one)
            yield one


def _told(trial: Trial, loaded: Scenario) -> dict[str, Value]:
    """Its cell as a command line would tell it, so that one gives the same seeds: no disturbance is not told."""
    variant = loaded.variants.get(trial.variant)
    if variant is None:
        raise HarnessError(
            f"{loaded.name}: unknown variant {trial.variant!r}; {nearest(trial.variant, loaded.variants)}"
        )
    silent = trial.cell.get(DISTURBANCE) == "none" and DISTURBANCE not in axes_of(loaded, variant)
    return {name: value for name, value in trial.cell.items() if not (silent and name == DISTURBANCE)}


class _Lasting:
    """Runs the trials of several campaigns, one after the other, with one worker: its supervisor outlasts each."""

    def __init__(self, care: Care) -> None:
        self._judged: Callable[[Work, Outcome], None] = lambda _work, _outcome: None
        self._worker = Worker(care=care, judged=self._tell, cancelled=lambda: False)

    def _tell(self, work: Work, outcome: Outcome) -> None:
        self._judged(work, outcome)

    def told(self, judged: Callable[[Work, Outcome], None]) -> Self:
        """Itself, which tells `judged` from now on."""
        self._judged = judged
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is not None:
            self.close()

    def outcomes(self, works: Iterator[Work]) -> Generator[tuple[Work, Outcome], None, None]:
        """Each trial with what came of it."""
        for work in works:
            yield work, self._worker.run(work)

    def close(self) -> None:
        """Ends the supervisor and all that it owns."""
        self._worker.close()
