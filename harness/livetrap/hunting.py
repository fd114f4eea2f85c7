"""A hunt: which trials a campaign runs so that a rare hang comes soon, and what came of it.

The arms are the cells of a scenario's buggy variants, each under several disturbances; `bandit` chooses among them.
Once something hung and most of the budget is spent, what is left goes to the best cell alone: its rate is told from
those trials only, since the best of many by luck looks better than it is.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from livetrap import disturbances
from livetrap.bandit import Arm, Bandit
from livetrap.errors import HarnessError
from livetrap.matching import can_show_bug, expectation_of
from livetrap.model import BUGS, HANGS, UNCOUNTED, Frozen, PlannedTrial, Record, Topology, Value, VariantRole
from livetrap.model import cell_key as key_of
from livetrap.placement import place
from livetrap.plan import Options, Plan
from livetrap.scenario_model import Scenario, axes_of
from livetrap.seeds import trial_seed

FOR_S = 60.0
"""How long a hunt goes on where nothing else is said, in seconds."""
MEASURING = 0.25
"""The share of the budget that is kept for measuring the best cell."""
ENOUGH_HITS = 40
"""After so many the best cell is known, and is measured ..."""
MEASURED_HITS, MEASURED_TRIALS = 10, 20
"""... until it had so many hangs, and so many trials: then its rate is known well enough."""
REPEATS = 200
"""Trials a cell of a command: they are planned beforehand."""
MOST_PLANNED = 20_000
DISTURBANCE = "disturbance"
HUNTED = (VariantRole.BUGGY, VariantRole.WIDENED)
_LEVELS = ("threads", "placement", DISTURBANCE, "flags", "technique", "compiler")
"""Axes whose values arms are known to have in common."""
_OPTIONS = ("threads", "technique", "compiler")
"""Axes of a kernel that have an option of their own, beside the flags."""


class Budget(Frozen, kw_only=True):
    """How much a hunt may spend: a time, or a number of trials."""

    for_s: float | None = FOR_S
    trials: int | None = None
    first: bool = False
    """End with the first hang."""

    def used(self, *, seconds: float, trials: int) -> float:
        """The share that is spent; 1: all."""
        by_time = seconds / self.for_s if self.for_s is not None else 0.0
        by_trials = trials / self.trials if self.trials is not None else 0.0
        return max(by_time, by_trials)


class Tried(Frozen, kw_only=True):
    """One arm, and what came of it."""

    key: str
    variant: str
    cell: dict[str, Value]
    hits: int
    trials: int
    """Conclusive ones."""
    seconds: float

    @property
    def per_minute(self) -> float:
        """Hangs a minute of its own time."""
        return 60.0 * self.hits / self.seconds if self.seconds else 0.0


class Result(Frozen, kw_only=True):
    """What a hunt came to, finished or not."""

    arms: tuple[Tried, ...]
    """Most hangs a minute first, then those that were given the most time."""
    ran: int
    """Trials."""
    conclusive: int
    hits: int
    first_s: float | None = None
    """Time to the first hang, from the first trial on; None: none."""
    first: Record | None = None
    first_trial: int = 0
    """How many trials that took."""
    best: Tried | None = None
    measured_hits: int = 0
    measured_trials: int = 0
    """Of the best cell after it was chosen; 0: the budget was over before."""

    @property
    def status(self) -> int:
        """0: something hung. 1: nothing did. 3: nothing conclusive."""
        if self.hits:
            return 0
        return 1 if self.conclusive else 3


# --- what is hunted --------------------------------------------------------------------------------------------------


def default_disturbances(topology: Topology, *, for_kernel: bool, lacking: Mapping[str, str]) -> tuple[str, ...]:
    """Those that are tried where none is named, of those that this machine has."""
    wanted = ("none", f"hogs:{max(2, len(topology.cpus))}", "migrate", "pause", "jitter")
    return tuple(
        text
        for text in wanted
        if not disturbances.available(
            disturbances.parse(text), topology=topology, for_kernel=for_kernel, lacking=lacking
        )
    )


def hunted(scenario: Scenario, options: Options, *, disturbed: Sequence[str]) -> Options:
    """The options with the variants that are hunted, and with these disturbances beside the scenario's own.

    Buggy variants where none is named, widened ones where there is no buggy one: a hunt is for the rare hang. Raises
    HarnessError where the scenario has neither.
    """
    names = options.variants
    for role in HUNTED:
        names = names or tuple(name for name, variant in scenario.variants.items() if variant.role is role)
    if not names:
        raise HarnessError(f"{scenario.name}: has no buggy variant to hunt; name one with --variant")
    axes = dict(options.axes)
    if DISTURBANCE not in axes and disturbed:
        own = [
            value
            for name, variant in scenario.variants.items()
            if name in names
            for value in axes_of(scenario, variant).get(DISTURBANCE, ())
        ]
        axes[DISTURBANCE] = tuple(dict.fromkeys((*own, *disturbed)))
    each = 1 if not scenario.target.command else REPEATS
    return msgspec.structs.replace(options, variants=names, axes=axes, trials=each)


def weights(plan: Plan) -> dict[str, float]:
    """How likely each cell of a plan is to be one that hangs, by its key: see `_weight`."""
    teams = any(trial.threads > 1 for trial in plan.trials)
    return {trial.cell_key: _weight(trial, plan, teams=teams) for trial in plan.trials}


def _weight(trial: PlannedTrial, plan: Plan, *, teams: bool) -> float:
    """How likely a cell is to be one that hangs, beside others, by what is known before anything has run.

    What its scenario says cannot show the bug weighs nothing (but is not left out: the scenario may be wrong), and so
    does a lone thread beside teams. The optimiser and a second CPU make a hang likelier; what is slow is no reason.
    """
    expectation = expectation_of(
        plan.scenario.expect, variant=trial.variant, role=trial.role, cell=trial.cell, os=plan.os, arch=plan.arch
    )
    if trial.role in HUNTED and not can_show_bug(expectation, trial.role):
        return 0.0
    weight = 1.0
    if trial.threads == 1 and teams:
        weight *= 0.3
    if "-O0" in str(trial.cell.get("flags", "")).split():
        weight *= 0.3
    return weight


def default_of(trials: Sequence[PlannedTrial], plan: Plan, weighed: Mapping[str, float]) -> str:
    """The key of the cell that somebody would run who knew nothing: the first undisturbed one that can show the bug."""
    order = {name: i for i, name in enumerate(plan.scenario.variants)}
    ranked = sorted(
        trials,
        key=lambda trial: (
            bool(trial.disturbance),
            weighed[trial.cell_key] < 1.0,
            order.get(trial.variant, 0),
            *(_place(plan, trial, name) for name in trial.cell),
        ),
    )
    return ranked[0].cell_key


def _place(plan: Plan, trial: PlannedTrial, name: str) -> int:
    """Where a value stands in its axis."""
    variant = plan.scenario.variants[trial.variant]
    values = axes_of(plan.scenario, variant).get(name, ())
    value = trial.cell[name]
    return values.index(value) if value in values else len(values)


def is_hit(record: Record) -> bool:
    """A hang; or another bug, where that is what the scenario expects of the cell."""
    expected_bug = record.verdict in BUGS and record.verdict in record.expected
    return record.verdict in HANGS or (expected_bug and record.role in HUNTED)


def recipe(where: str, scenario: Scenario, tried: Tried, *, trials: int, timeout_s: float | None) -> tuple[str, ...]:
    """The command line that runs one cell again."""
    command = bool(scenario.target.command)
    words = ["livetrap", "run", where, "--variant", tried.variant]
    own = axes_of(scenario, scenario.variants[tried.variant])
    for name, value in tried.cell.items():
        if own.get(name) == (value,) or (name == DISTURBANCE and value == "none" and name not in own):
            continue
        if name == "flags" and not command:
            words.append(f"--flags={value}")
        elif name == "placement" or (name in _OPTIONS and not command):
            words += [f"--{name}", str(value)]
        else:
            words += ["--axis", f"{name}={value}"]
    words += ["--trials", str(trials)]
    return (*words, "--timeout", f"{timeout_s:g}") if timeout_s is not None else tuple(words)


# --- the hunt --------------------------------------------------------------------------------------------------------


class Hunt:
    """Gives a campaign its trials, one by one, and learns from their records."""

    def __init__(
        self,
        plan: Plan,
        *,
        budget: Budget,
        topology: Topology,
        clock: Callable[[], float] = time.monotonic,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """`shares`: see Bandit."""
        self._budget = budget
        self._topology = topology
        self._clock = clock
        self._seed = plan.seed
        self._planned: dict[str, list[PlannedTrial]] = {}
        for trial in plan.trials:
            if not trial.skip:
                self._planned.setdefault(trial.cell_key, []).append(trial)
        firsts = [trials[0] for trials in self._planned.values()]
        self._bandit = _bandit(firsts, plan, shares) if firsts else None
        self._repetitions = dict.fromkeys(self._planned, 0)
        self._ordinals = itertools.count()
        self._began: float | None = None
        self._last = 0.0
        self._ran = 0
        self._chosen: str | None = None
        self._measured = [0, 0]
        self._first: tuple[float, Record, int] | None = None
        self.skipped = {trial.cell_key: trial.skip for trial in plan.trials if trial.skip}
        """Why cells cannot run here, by their keys."""

    def trials(self) -> Iterator[PlannedTrial]:
        """The trials, each chosen when the one before is told to `ends`."""
        self._began = self._last = self._clock()
        while self._bandit is not None and self._used() < 1.0:
            if self._chosen is None and self._bandit.hits and self._settled():
                self._chosen = self._bandit.best()
            key = self._chosen or self._bandit.choose()
            trial = self._next(key) if key else None
            if trial is None:
                return
            yield trial

    def ends(self, record: Record) -> bool:
        """Learns what came of the trial that was given last; whether that was the last."""
        assert self._bandit is not None
        now = self._clock()
        took_s, self._last = now - self._last, now
        self._ran += 1
        hit = None if record.verdict in UNCOUNTED else is_hit(record)
        self._bandit.tell(key_of(record.variant, record.cell), hit=hit, took_s=took_s)
        if hit and self._first is None:
            self._first = (now - (self._began or now), record, self._ran)
            if self._budget.first:
                return True
        if self._chosen is None:
            return self._used() >= 1.0
        if hit is not None:
            self._measured[0] += hit
            self._measured[1] += 1
        hits, trials = self._measured
        return self._used() >= 1.0 or (hits >= MEASURED_HITS and trials >= MEASURED_TRIALS)

    def result(self) -> Result:
        """What it has come to by now."""
        scores = self._bandit.scores if self._bandit else {}
        arms = [
            Tried(
                key=key,
                variant=self._planned[key][0].variant,
                cell=self._planned[key][0].cell,
                hits=score.hits,
                trials=score.trials,
                seconds=score.seconds,
            )
            for key, score in scores.items()
        ]
        best = self._chosen or (self._bandit.best() if self._bandit else None)
        first = self._first
        return Result(
            arms=tuple(sorted(arms, key=lambda arm: (-arm.per_minute, -arm.seconds))),
            ran=self._ran,
            conclusive=sum(arm.trials for arm in arms),
            hits=sum(arm.hits for arm in arms),
            first_s=first[0] if first else None,
            first=first[1] if first else None,
            first_trial=first[2] if first else 0,
            best=next((arm for arm in arms if arm.key == best), None),
            measured_hits=self._measured[0],
            measured_trials=self._measured[1],
        )

    def _used(self) -> float:
        began = self._began if self._began is not None else self._clock()
        return self._budget.used(seconds=self._clock() - began, trials=self._ran)

    def _settled(self) -> bool:
        """It is time to measure the best cell."""
        assert self._bandit is not None
        return self._used() >= 1.0 - MEASURING or self._bandit.hits >= ENOUGH_HITS

    def _next(self, key: str) -> PlannedTrial | None:
        """A trial of that cell that has not run; None: a command's are used up."""
        repetition = self._repetitions[key]
        self._repetitions[key] += 1
        planned = self._planned[key]
        if repetition < len(planned):
            return msgspec.structs.replace(planned[repetition], ordinal=next(self._ordinals))
        if planned[0].command is not None:
            return None
        again = repeated(planned[0], seed=self._seed, repetition=repetition, topology=self._topology)
        return msgspec.structs.replace(again, ordinal=next(self._ordinals))


def repeated(trial: PlannedTrial, *, seed: int, repetition: int, topology: Topology) -> PlannedTrial:
    """Another repetition of a kernel's trial, as the plan with that seed would have it."""
    own = trial_seed(seed, repetition, trial.cell_key)
    placement = place(str(trial.cell["placement"]), topology, threads=trial.threads, seed=own)
    return msgspec.structs.replace(trial, seed=own, placement=placement)


def _bandit(firsts: Sequence[PlannedTrial], plan: Plan, shares: Mapping[str, float] | None) -> Bandit:
    weighed = weights(plan)
    arms = [
        Arm(
            key=trial.cell_key,
            levels=tuple(
                f"{name}={value}"
                for name, value in (("variant", trial.variant), *trial.cell.items())
                if name in _LEVELS or name == "variant"
            ),
            weight=weighed[trial.cell_key],
            plain=int(not trial.disturbance),
        )
        for trial in firsts
    ]
    return Bandit(arms, seed=plan.seed, default=default_of(firsts, plan, weighed), shares=shares)
