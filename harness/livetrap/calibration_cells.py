"""The cells of a calibration: what is expected of each, by which verdicts its bug shows, and what was judged. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from livetrap.expectations import DEMONSTRATORS
from livetrap.matching import can_show_bug, expectation_of
from livetrap.model import UNCOUNTED, Frozen, PlannedTrial, Record, Value, VariantRole, Verdict, cell_key
from livetrap.plan import Plan
from livetrap.scenario_model import Expectation

LATE = frozenset({Verdict.SLOW, Verdict.WAITING})
"""Verdicts at the time limit. A buggy cell of which one of them is expected, and no bug, shows its bug that way."""


class CalibrationCell(Frozen, kw_only=True):
    """One cell of one scenario."""

    scenario: str
    variant: str
    role: VariantRole
    always: bool
    """It must be caught on every machine that can run it."""
    cell: dict[str, Value]
    accepted: tuple[Verdict, ...]
    """Verdicts that any one trial may have."""
    shown_by: frozenset[Verdict]
    """Verdicts by which the bug shows; none where it cannot."""
    planned: int
    """Trials planned."""
    skip: str
    """Why this machine cannot run it; empty: it can."""
    records: tuple[Record, ...]
    """The trials that have ended."""

    @property
    def conclusive(self) -> list[Record]:
        """Trials that count for or against."""
        return [record for record in self.records if record.verdict not in UNCOUNTED]

    @property
    def caught(self) -> list[Record]:
        """Trials that showed the bug, as expected."""
        return [record for record in self.conclusive if record.verdict in self.shown_by]

    @property
    def group(self) -> str:
        """`buggy` for all that is there to show a bug, else the role."""
        return (VariantRole.BUGGY if self.role in DEMONSTRATORS else self.role).value


def cells_of(plan: Plan, records: Iterable[Record]) -> list[CalibrationCell]:
    """The cells of a scenario, by its variants. Records of cells that the plan does not have are left out."""
    seen: dict[str, list[Record]] = {}
    for record in records:
        seen.setdefault(cell_key(record.variant, record.cell), []).append(record)
    planned: dict[str, list[PlannedTrial]] = {}
    for trial in plan.trials:
        planned.setdefault(trial.cell_key, []).append(trial)
    order = list(plan.scenario.variants)
    found = [
        CalibrationCell(
            scenario=plan.scenario.name,
            variant=trials[0].variant,
            role=trials[0].role,
            always=plan.scenario.variants[trials[0].variant].always,
            cell=trials[0].cell,
            accepted=trials[0].expected,
            shown_by=shown_by(expectation_for(plan, trials[0]), trials[0].role),
            planned=len(trials),
            skip=next((trial.skip for trial in trials if trial.skip), ""),
            records=tuple(seen.get(key, ())),
        )
        for key, trials in sorted(planned.items())
    ]
    return sorted(found, key=lambda cell: order.index(cell.variant))


def by_variant(cells: Iterable[CalibrationCell]) -> list[list[CalibrationCell]]:
    """The cells of each variant; those of one variant follow one another."""
    found: list[list[CalibrationCell]] = []
    for cell in cells:
        if not found or (found[-1][0].scenario, found[-1][0].variant) != (cell.scenario, cell.variant):
            found.append([])
        found[-1].append(cell)
    return found


def expectation_for(plan: Plan, trial: PlannedTrial) -> Expectation:
    """What is expected of a trial's cell on the machine of that plan."""
    return expectation_of(
        plan.scenario.expect, variant=trial.variant, role=trial.role, cell=trial.cell, os=plan.os, arch=plan.arch
    )


def shown_by(expectation: Expectation, role: VariantRole) -> frozenset[Verdict]:
    """Verdicts by which a cell of which this is expected shows its bug; none: it cannot show it."""
    verdicts = frozenset(expectation.verdicts) - {Verdict.PASSED}
    if can_show_bug(expectation, role):
        return verdicts
    by_lateness = role in DEMONSTRATORS and not expectation.needs and Verdict.PASSED not in expectation.verdicts
    return verdicts & LATE if by_lateness else frozenset()
