"""Runs the fixed cells again and again until their rate is surely below what was asked for, or the bug shows. Pure.

The design is a curtailed sampling plan with acceptance number 0: as many trials as `trials_needed` says must pass
without a bug, and the first bug ends it. Looking after each trial costs nothing there: the claim is made on one outcome
alone, none in n, whose chance at a rate p is (1-p)^n whenever one looks. So with a rate of RATE or more the claim is
made with a chance of at most 1-C. Which n trials count is settled by the order in which they began, not in which they
ended: trials that run side by side, of which those that hang take longest, must not be counted by who is first.

Sources: Dodge and Romig, "A method of sampling inspection", Bell System Technical Journal 8 (1929), 613-631, for plans
with an acceptance number; Girshick, Mosteller and Savage, "Unbiased estimates for certain binomial sampling problems
with applications", Annals of Mathematical Statistics 17 (1946), 13-23, for ending one early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from livetrap import stats
from livetrap.claims import fix_claims
from livetrap.errors import HarnessError
from livetrap.expectations import AS_EXPECTED, DEMONSTRATORS, NOTHING_CONCLUSIVE, Outcome, Row, summarise
from livetrap.model import BUGS, UNCOUNTED, PlannedTrial, Record, Topology, VariantRole, cell_key
from livetrap.plan import Plan
from livetrap.repeating import again
from livetrap.seeds import derived

OPTION = "--until-confident"
SPARE = 5
"""So many more trials that do not count than that do, and a cell is given up."""

Identity = tuple[str, int]
"""A trial of a plan: the key of its cell, and its seed."""


class Until:
    """Which trials a campaign has, beyond its plan, and when they end. Give it every record, by `ends`.

    The plan's trials come first, all of them. Then the fixed cells whose buggy twin could show the bug are repeated,
    always the one with the fewest trials so far, each fixed variant until it has enough; without any buggy cell in the
    plan all its fixed cells are, and what is found then says nothing of a fix. A trial that does not count is replaced.

    Raises HarnessError for a rate that is none, and for a plan without a cell that could be repeated for that.
    """

    def __init__(self, plan: Plan, rate: float, confidence: float = stats.CONFIDENCE, *, topology: Topology) -> None:
        check(rate)
        self._plan = plan
        self._rate = rate
        self._confidence = confidence
        self._topology = topology
        self.needed = stats.trials_needed(rate, confidence=confidence)
        """Trials of each fixed variant that it takes, if none shows the bug."""
        self._goals = _goals(plan, self.needed)
        self._cells = {cell.key: cell for goal in self._goals for cell in goal.cells}
        self._left = {_identity(trial) for trial in plan.trials}
        self._ended = 0
        self._bug: Record | None = None

    @property
    def reached(self) -> bool:
        """All that was asked for is shown."""
        return self._bug is None and not self._left and all(goal.reached for goal in self._goals)

    def trials(self) -> Iterator[PlannedTrial]:
        """The plan's trials, then more of the fixed cells, each chosen when it is asked for."""
        for trial in self._plan.trials:
            self._began(trial)
            yield trial
        ordinal = max((trial.ordinal for trial in self._plan.trials), default=-1)
        while (cell := self._next()) is not None:
            ordinal += 1
            trial = again(
                cell.template,
                target=self._plan.scenario.target,
                topology=self._topology,
                seed=self._plan.seed,
                repetition=cell.began,
                ordinal=ordinal,
            )
            self._began(trial)
            yield trial

    def ends(self, record: Record) -> bool:
        """Takes what a trial came to. Whether that was the last: a fixed one showed the bug, or enough did not."""
        key = cell_key(record.variant, record.cell)
        identity = (key, record.seed)
        self._ended += 1
        self._left.discard(identity)
        if record.role is VariantRole.FIXED and record.verdict in BUGS:
            self._bug = self._bug or record
        cell = self._cells.get(key)
        if cell is not None:
            cell.goal.take(identity, cell, counts=record.verdict not in UNCOUNTED)
        return self._bug is not None or self.reached

    def closing(self, outcome: Outcome) -> Outcome:
        """How a run ends that is as expected otherwise: not so if what was asked for is not shown."""
        if self.reached or outcome.exit_status != AS_EXPECTED:
            return outcome
        return msgspec.structs.replace(outcome, exit_status=NOTHING_CONCLUSIVE)

    @property
    def goal(self) -> str:
        """What it takes, in words, before the first trial."""
        each = f" of each of {', '.join(goal.variant for goal in self._goals)}" if len(self._goals) > 1 else ""
        return f"{self._asked}: takes {self.needed} trials{each} without a hang, or ends with the first hang"

    def text(self) -> str:
        """What came of it, in one line."""
        took = f"that took {self._ended} {'trial' if self._ended == 1 else 'trials'}"
        if self._bug is not None:
            bug = self._bug
            where = " ".join([bug.variant, *(f"{name}={value}" for name, value in bug.cell.items())])
            said = f"not shown: trial {bug.id} ended as {bug.verdict.value} ({where})"
            return "; ".join([f"{self._asked}: {said}", took])
        said = "shown" if self.reached else f"not shown, since {self.needed} trials without a hang are needed"
        parts = [f"{self._asked}: {said}", *(self._goal_text(goal) for goal in self._goals), took]
        if any(not goal.has_twin for goal in self._goals):
            parts.append("no buggy variant ran beside it, so this says nothing of a fix")
        return "; ".join(parts)

    @property
    def _asked(self) -> str:
        return f"{OPTION} {self._rate:g}"

    def _goal_text(self, goal: _Goal) -> str:
        counted = sum(cell.counted for cell in goal.cells)
        words = f"{goal.variant} {stats.rate_text(0, counted, confidence=self._confidence)}"
        if len(goal.cells) > 1:
            words += f" on average over {len(goal.cells)} cells"
        apart = sum(cell.apart for cell in goal.cells)
        given_up = [cell for cell in goal.cells if cell.given_up]
        if apart:
            words += f", {apart} more did not count"
        if given_up:
            words += f", {len(given_up)} of the cells given up for that"
        return words

    def _began(self, trial: PlannedTrial) -> None:
        cell = self._cells.get(trial.cell_key)
        if cell is not None:
            cell.began += 1
            cell.rank = derived(self._plan.seed, "again", cell.began, cell.key)
            cell.goal.waiting.append(_identity(trial))

    def _next(self) -> _Cell | None:
        """The cell that is next: of those that are still needed the one with the fewest trials that may count."""
        wanted = [cell for goal in self._goals if not goal.reached for cell in goal.cells if not cell.given_up]
        return min(wanted, key=lambda cell: (cell.hopeful, cell.rank), default=None)


def check(rate: float) -> None:
    """Raises HarnessError for what is no rate that could be shown."""
    if not 0.0 < rate < 1.0:  # also refuses nan
        raise HarnessError(f"{OPTION} {rate:g}: must be a rate between 0 and 1, e.g. 0.01")


class _Goal:
    """One fixed variant, and how far it is."""

    def __init__(self, variant: str, trials: Sequence[PlannedTrial], *, needed: int, has_twin: bool) -> None:
        self.variant = variant
        self.has_twin = has_twin
        self.cells = [_Cell(self, trial) for trial in trials]
        self.waiting: deque[Identity] = deque()
        """Trials in the order in which they began, from the first on whose end is not known."""
        self._needed = needed
        self._counted = 0
        """Trials that count, before all whose end is not known."""
        self._known: dict[Identity, bool] = {}

    @property
    def reached(self) -> bool:
        return self._counted >= self._needed

    def take(self, identity: Identity, cell: _Cell, *, counts: bool) -> None:
        """A trial of one of its cells has ended."""
        cell.counted += counts
        cell.apart += not counts
        self._known[identity] = counts
        while self.waiting and self.waiting[0] in self._known:
            self._counted += self._known.pop(self.waiting.popleft())


class _Cell:
    """One cell that is repeated."""

    def __init__(self, goal: _Goal, template: PlannedTrial) -> None:
        self.goal = goal
        self.template = template
        self.key = template.cell_key
        self.began = 0
        self.rank = 0
        """Its place among cells with equally many trials: another after each."""
        self.counted = 0
        self.apart = 0

    @property
    def hopeful(self) -> int:
        """Its trials that count, and those whose end is not known."""
        return self.began - self.apart

    @property
    def given_up(self) -> bool:
        return self.apart >= self.counted + SPARE


def _goals(plan: Plan, needed: int) -> list[_Goal]:
    """The fixed variants that can be shown to be right, each with the cells that tell."""
    first: dict[str, PlannedTrial] = {}
    for trial in plan.trials:
        if not trial.skip:
            first.setdefault(trial.cell_key, trial)
    chosen, has_twin = _chosen(plan)
    goals = []
    for variant, rows in chosen.items():
        trials = [first[key] for key in (cell_key(row.variant, row.cell) for row in rows) if key in first]
        if trials:
            goals.append(_Goal(variant, trials, needed=needed, has_twin=has_twin))
    if not goals:
        reasons = dict.fromkeys(trial.skip for trial in plan.trials if trial.role is VariantRole.FIXED and trial.skip)
        raise HarnessError(f"{OPTION}: no fixed cell can run here: {'; '.join(reasons)}", status=3)
    return goals


def _chosen(plan: Plan) -> tuple[dict[str, Sequence[Row]], bool]:
    """The rows that tell, by variant, and whether they have a buggy twin. HarnessError: there are none."""
    rows = summarise(plan, ()).rows
    fixed = [row for row in rows if row.role is VariantRole.FIXED]
    if not fixed:
        raise HarnessError(f"{OPTION}: this run has no fixed variant whose rate could be bounded; ask for one")
    if not any(row.role in DEMONSTRATORS for row in rows):
        variants = dict.fromkeys(row.variant for row in fixed)
        return {variant: [row for row in fixed if row.variant == variant] for variant in variants}, False
    claims = fix_claims(rows)
    if not claims:
        raise HarnessError(
            f"{OPTION}: no fixed cell of this run has a buggy twin that could show the bug: ask for one that can, "
            "or for fixed variants alone"
        )
    return {claim.variant: claim.cells for claim in claims}, True


def _identity(trial: PlannedTrial) -> Identity:
    return trial.cell_key, trial.seed
