"""A quick sample of a plan: one trial of each variant, in the cell that tells most. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from livetrap.calibration_cells import LATE, expectation_for, shown_by
from livetrap.expectations import DEMONSTRATORS
from livetrap.model import PlannedTrial, Value
from livetrap.plan import Plan
from livetrap.scenario_model import Scenario, axes_of


def quick(plan: Plan) -> Plan:
    """One trial of each variant: of a buggy one in the cell most likely to show the bug, of others in its likeness.

    Most likely: with the greatest least rate, disturbed, with most threads. Among equal cells those count whose module
    is built anyway, then those that the scenario names first. What this machine cannot run is taken only where there is
    nothing else. A note says how much is left out.
    """
    candidates: dict[str, list[PlannedTrial]] = {name: [] for name in plan.scenario.variants}
    for trial in sorted(plan.trials, key=lambda trial: (_place(plan.scenario, trial), trial.ordinal)):
        candidates[trial.variant].append(trial)
    chosen: list[PlannedTrial] = []
    for name in sorted(candidates, key=lambda name: plan.scenario.variants[name].role not in DEMONSTRATORS):
        if candidates[name]:
            weight = _likelihood if candidates[name][0].role in DEMONSTRATORS else _likeness
            weights = [weight(plan, trial, chosen) for trial in candidates[name]]
            chosen.append(candidates[name][weights.index(min(weights))])
    kept = {trial.ordinal for trial in chosen}
    cells = len({trial.cell_key for trial in plan.trials})
    note = f"{plan.scenario.name}: quick: {len(kept)} of {len(plan.trials)} trials, in {len(kept)} of {cells} cells"
    return msgspec.structs.replace(
        plan,
        trials=tuple(trial for trial in plan.trials if trial.ordinal in kept),
        notes=(*plan.notes, note),
        narrowed=plan.narrowed or len(kept) < cells,
    )


def _likelihood(plan: Plan, trial: PlannedTrial, chosen: Sequence[PlannedTrial]) -> tuple[float, ...]:
    """The less, the likelier it shows the bug."""
    expectation = expectation_for(plan, trial)
    shows = bool(shown_by(expectation, trial.role))
    rate = 1.0 if expectation.least_rate is None else expectation.least_rate
    built = trial.build in [other.build for other in chosen]
    return bool(trial.skip), not shows, -rate, not trial.disturbance, not built, -trial.threads


def _likeness(_plan: Plan, trial: PlannedTrial, chosen: Sequence[PlannedTrial]) -> tuple[float, ...]:
    """The less, the more it is like the first chosen; what may be slow comes last, where it need not be."""
    first: Mapping[str, Value] = chosen[0].cell if chosen else {}
    alike = sum(first.get(name) == value for name, value in trial.cell.items())
    slow = bool(set(trial.expected) & LATE)
    return bool(trial.skip), slow, -alike, -trial.threads


def _place(scenario: Scenario, trial: PlannedTrial) -> list[int]:
    """Where the trial's cell stands among those of its variant."""
    axes = axes_of(scenario, scenario.variants[trial.variant])
    return [axes[name].index(value) for name, value in trial.cell.items() if value in axes.get(name, ())]
