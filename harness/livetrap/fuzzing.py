"""What fuzzing draws from, simplest first, and what it remembers. Pure; `strategies` makes hypothesis draw from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from livetrap import disturbances
from livetrap.minimising import ROUNDS, SIMPLEST
from livetrap.model import (
    BUGS,
    UNCOUNTED,
    Frozen,
    KernelInfo,
    NotAvailable,
    Record,
    Topology,
    Value,
    VariantRole,
)
from livetrap.placement import place, place_command
from livetrap.plan import Options, Plan
from livetrap.scenario_model import Scenario, Variant, axes_of, parameters_of

PLACEMENTS = (*SIMPLEST, "confined:2", "random")
"""Placements that are drawn beside a scenario's own, where nothing else is asked for."""
MOST_SEED = (1 << 16) - 1
LEAST_REPEATS, MOST_REPEATS = 10, 100
"""While shrinking, so many times at least, and at most, a trial is repeated until it shows a bug."""
REPLAYS = 50
"""So many times one is repeated that showed a bug in an earlier run."""
_FIRST = ("disturbance", "threads", "placement", ROUNDS)
"""Axes in the order in which they are made simple; the others follow."""


class Printer(Protocol):
    """What prints an example."""

    def text(self, text: str, /) -> None:
        """Prints it."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Trial:
    """One trial as it is drawn: a variant of a scenario, and the cell that it runs in."""

    scenario: str
    """A shipped name, or a path."""
    variant: str
    cell: Mapping[str, Value]
    seed: int = 0
    timeout_s: float | None = None
    """Time limit, in seconds; None: the scenario's."""
    memory: Memory | None = dataclasses.field(default=None, compare=False)

    def __repr__(self) -> str:
        words = [repr(self.scenario), f"variant={self.variant!r}"]
        words += [f"{name}={value!r}" for name, value in self.cell.items()]
        words += [f"seed={self.seed}"]
        words += [f"timeout={self.timeout_s:g}"] if self.timeout_s is not None else []
        return f"strategies.trial({', '.join(words)})"

    def _repr_pretty_(self, printer: Printer, _cycle: bool) -> None:
        """How hypothesis prints it: not as any dataclass."""
        printer.text(repr(self))

    @property
    def key(self) -> str:
        """The trial as text, the same for equal ones."""
        parts = [self.scenario, self.variant, sorted(self.cell.items()), self.seed, self.timeout_s]
        return msgspec.json.encode(parts).decode()


class Space(Frozen, kw_only=True):
    """What trials are drawn from."""

    scenario: str
    """As it was named."""
    variants: dict[str, dict[str, tuple[Value, ...]]]
    """The axes of each with their values, the simplest first; what is to be made simple first stands first."""
    reasons: tuple[str, ...] = ()
    """Why this machine cannot run what is left out."""
    timeout_s: float | None = None

    def kept(self, keys: Iterable[str]) -> list[Trial]:
        """The trials of these keys that could be drawn of this space, the simplest first."""
        ranked: list[tuple[list[int], int, str, Trial]] = []
        for key in keys:
            trial = trial_of(key)
            axes = self.variants.get(trial.variant) if trial else None
            if trial is None or axes is None or (trial.scenario, trial.timeout_s) != (self.scenario, self.timeout_s):
                continue
            if trial.cell.keys() == axes.keys() and all(value in axes[name] for name, value in trial.cell.items()):
                order = [list(self.variants).index(trial.variant)]
                order += [values.index(trial.cell[name]) for name, values in axes.items()]
                in_order = dataclasses.replace(trial, cell={name: trial.cell[name] for name in axes})
                ranked.append((order, trial.seed, key, in_order))
        return [trial for *_, trial in sorted(ranked, key=lambda one: one[:3])]


class _Key(Frozen, array_like=True):
    """The parts of a trial's key."""

    scenario: str
    variant: str
    cell: tuple[tuple[str, Value], ...]
    seed: int
    timeout_s: float | None


def trial_of(key: str) -> Trial | None:
    """The trial with that key; None: it is no key."""
    try:
        found = msgspec.json.decode(key, type=_Key)
    except msgspec.DecodeError:  # also a ValidationError
        return None
    return Trial(
        scenario=found.scenario,
        variant=found.variant,
        cell=dict(found.cell),
        seed=found.seed,
        timeout_s=found.timeout_s,
    )


class Memory:
    """Which trials have shown a bug, so that they are repeated before they are believed to be well."""

    def __init__(
        self,
        *,
        known: Collection[str] = (),
        remember: Callable[[str], None] = lambda _key: None,
        forget: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self._known = set(known)
        self._remember = remember
        self._forget = forget
        self._seen: dict[str, tuple[Record, ...]] = {}
        self._conclusive = 0
        self.results: dict[str, object] = {}
        """What `livetrap.run` gave for those that have shown a bug, by their keys."""
        self.session: object = None
        """What `livetrap.run` keeps from one trial to the next."""
        self.file = ""
        """Where it records them; empty: nowhere yet."""

    def seen(self, trial: Trial) -> tuple[Record, ...]:
        """What a trial came to that has shown a bug in this run; empty: it has not."""
        return self._seen.get(trial.key, ())

    def repeats(self, trial: Trial) -> int:
        """How often it is repeated until it shows a bug.

        Once where nothing is known yet. After the first bug, shrinking goes on, in which a pass must mean something:
        about as often as it took trials to find the bug.
        """
        if trial.key in self._known:
            return REPLAYS
        return min(max(self._conclusive, LEAST_REPEATS), MOST_REPEATS) if self._seen else 1

    def tell(self, trial: Trial, records: Sequence[Record]) -> None:
        """What came of it."""
        if any(record.verdict in BUGS for record in records):
            self._seen[trial.key] = tuple(records)
            self._known.add(trial.key)
            self._remember(trial.key)
            return
        counted = sum(record.verdict not in UNCOUNTED for record in records)
        if not self._seen:
            self._conclusive += counted
        if trial.key in self._known and counted:
            self._known.discard(trial.key)
            self._forget(trial.key)


def space_of(
    where: str,
    plan: Plan,
    *,
    options: Options,
    kernel: KernelInfo | None,
    topology: Topology,
    lacking: Mapping[str, str],
) -> Space:
    """What can be drawn of a plan on this machine: its axes, and where the options leave them open, more.

    Threads: every number between the fewest and the most. Placements: those of PLACEMENTS too. The kernel's rounds:
    also a tenth and a hundredth of them. Other axes: their own values. `lacking` is what disturbances lack here.
    """
    scenario = plan.scenario
    reasons = dict.fromkeys(trial.skip for trial in plan.trials if trial.skip)
    variants: dict[str, dict[str, tuple[Value, ...]]] = {}
    for name, variant in scenario.variants.items():
        cells = [trial.cell for trial in plan.trials if trial.variant == name and not trial.skip]
        if not cells:
            continue
        axes = {axis: _in_order(axis, (cell[axis] for cell in cells), scenario, variant, options) for axis in cells[0]}
        axes |= _wider(axes, scenario, variant, options=options, kernel=kernel, topology=topology)
        if "disturbance" in axes:
            why = {
                value: disturbances.available(
                    disturbances.parse(str(value)), topology=topology, for_kernel=kernel is not None, lacking=lacking
                )
                for value in axes["disturbance"]
            }
            reasons |= dict.fromkeys(reason for reason in why.values() if reason)
            axes["disturbance"] = tuple(value for value, reason in why.items() if not reason)
        if all(axes.values()):
            first = [axis for axis in _FIRST if axis in axes]
            variants[name] = {axis: axes[axis] for axis in (*first, *(axis for axis in axes if axis not in first))}
    return Space(scenario=where, variants=variants, reasons=tuple(reasons), timeout_s=options.timeout_s)


def passing(scenario: Scenario) -> tuple[str, ...]:
    """The variants that a test wants to see pass: the fixed ones; all of them where there is none."""
    fixed = tuple(name for name, variant in scenario.variants.items() if variant.role is VariantRole.FIXED)
    return fixed or tuple(scenario.variants)


def is_bug(record: Record) -> bool:
    """Whether a trial falsifies that nothing can go wrong."""
    return record.verdict in BUGS


def status(space: Space, scenario: Scenario, bug: Record | None, *, conclusive: int) -> int:
    """The exit status: 0 as expected, 1 not, 3 nothing conclusive.

    A bug that the scenario expects of that cell is as expected, and so is none where no variant is there to show one.
    """
    if bug is not None:
        return 0 if bug.verdict in bug.expected else 1
    if not conclusive:
        return 3
    roles = {scenario.variants[name].role for name in space.variants}
    return 1 if roles & {VariantRole.BUGGY, VariantRole.WIDENED} else 0


def _in_order(
    axis: str, values: Iterable[Value], scenario: Scenario, variant: Variant, options: Options
) -> tuple[Value, ...]:
    """Each value once, the simplest first: as the scenario has them, where nothing else is known."""
    written = (*axes_of(scenario, variant).get(axis, ()), *getattr(options, axis, ()), *options.axes.get(axis, ()))
    found = dict.fromkeys(values)
    return simplest_first(axis, [value for value in dict.fromkeys((*written, *found)) if value in found])


def simplest_first(axis: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """The values of an axis in the order in which shrinking prefers them."""
    if axis == "placement":
        return tuple(sorted(values, key=_plainness))
    if axis == "disturbance":
        return tuple(sorted(values, key=lambda text: _calmness(str(text))))
    if all(isinstance(value, int) for value in values):
        return tuple(sorted(values))
    return tuple(values)


def _plainness(name: Value) -> int:
    return SIMPLEST.index(str(name)) if name in SIMPLEST else len(SIMPLEST)


def _calmness(text: str) -> tuple[int, int]:
    parts = disturbances.parse(text).parts
    return len(parts), sum(part.amount for part in parts)


def placements(topology: Topology, *, for_kernel: bool = True) -> tuple[str, ...]:
    """Those of PLACEMENTS that this machine has."""

    def found(name: str) -> object:
        return place(name, topology, threads=2, seed=0) if for_kernel else place_command(name, topology, seed=0)

    return tuple(name for name in PLACEMENTS if not isinstance(found(name), NotAvailable))


def sizes(usual: int, *, least: int = 1) -> tuple[int, ...]:
    """A number of rounds, a tenth and a hundredth of it, the fewest first."""
    return tuple(sorted({max(least, 1, usual // 100), max(least, 1, usual // 10), usual}))


def _wider(
    axes: Mapping[str, tuple[Value, ...]],
    scenario: Scenario,
    variant: Variant,
    *,
    options: Options,
    kernel: KernelInfo | None,
    topology: Topology,
) -> dict[str, tuple[Value, ...]]:
    """Values beside a variant's own, of axes that the options leave open.

    What only other variants list is left out: asked for by itself, it would leave this one no cell.
    """

    def free(axis: str, values: Iterable[Value]) -> tuple[Value, ...]:
        listed = {value for other in scenario.variants.values() for value in axes_of(scenario, other).get(axis, ())}
        own = axes.get(axis, ())
        return simplest_first(axis, tuple(dict.fromkeys((*own, *(one for one in values if one not in listed)))))

    wider: dict[str, tuple[Value, ...]] = {}
    if not options.placement and "placement" not in variant.parameters:
        more = placements(topology, for_kernel=kernel is not None)
        wider["placement"] = free("placement", more)
    if kernel is None:
        return wider
    counts = [value for value in axes.get("threads", ()) if isinstance(value, int)]
    if counts and not options.threads:
        wider["threads"] = free("threads", range(min(counts), max(counts) + 1))
    rounds = kernel.params.get(ROUNDS)
    if rounds is not None and not rounds.choices and ROUNDS not in {*axes, *variant.parameters, *options.axes}:
        usual = parameters_of(scenario, variant).get(ROUNDS, rounds.fallback)
        if isinstance(usual, int):
            wider[ROUNDS] = free(ROUNDS, sizes(usual, least=rounds.least))
    return wider
