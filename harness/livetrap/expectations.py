"""Compares what a run saw with what its scenario expects, and says how it ends. Pure.

`skipped`, `inconclusive` and `error` count neither for nor against. A cell is as expected when each of its conclusive
trials is, and its rate, if one is stated, lies within its bounds. A run is as expected when all its cells are and at
least one cell that is there to show the bug, and at least one fixed one, of those asked for were conclusive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from livetrap.matching import can_show_bug, expectation_of
from livetrap.model import BUGS, UNCOUNTED, Frozen, PlannedTrial, Record, Value, VariantRole, Verdict, cell_key
from livetrap.plan import Plan
from livetrap.scenario_model import Expectation

AS_EXPECTED, NOT_AS_EXPECTED, NOTHING_CONCLUSIVE = 0, 1, 3
"""Exit statuses."""
DEMONSTRATORS = (VariantRole.BUGGY, VariantRole.WIDENED)
"""Roles of variants that are there to show the bug."""


class Row(Frozen, kw_only=True):
    """One cell of a run: what was planned, seen and expected."""

    variant: str
    role: VariantRole
    cell: dict[str, Value]
    parameters: dict[str, Value] = {}
    """All that its trials are given, those that vary and those that do not."""
    planned: int
    """Trials planned."""
    n: int
    """Conclusive trials."""
    verdicts: dict[Verdict, int]
    """Counts of their verdicts, the commonest first."""
    skipped: int = 0
    inconclusive: int = 0
    error: int = 0
    shape: str = ""
    """The commonest shape of the commonest bug verdict; empty where there was none."""
    expected: tuple[Verdict, ...]
    rate: str = ""
    """Bounds of the rate, in words; empty: each conclusive trial must end so."""
    needs: str = ""
    shows_bug: bool = False
    """What is expected is that the bug shows."""
    reason: str = ""
    """Why its trials are skipped; empty where they are not."""
    ok: bool | None
    """None: nothing conclusive yet, so nothing can be said."""

    @property
    def seen(self) -> int:
        """Trials that have ended."""
        return self.n + self.skipped + self.inconclusive + self.error


class Outcome(Frozen, kw_only=True):
    """How a run ends."""

    rows: tuple[Row, ...]
    """One a cell, in the order of the plan's variants and axes."""
    exit_status: int
    """0 as expected, 1 not as expected, 3 nothing conclusive or not finished."""
    messages: tuple[str, ...]


def summarise(plan: Plan, records: Iterable[Record], *, part: bool = False) -> Outcome:
    """The rows, the exit status and the closing words of a run, finished or not.

    Records of cells that the plan does not have are left out of account. A run with fewer records than planned trials
    is never called as expected. `part`: these are some of a larger plan's trials, which do not tell a cell's rate.
    """
    seen: dict[str, list[Record]] = {}
    for record in records:
        seen.setdefault(cell_key(record.variant, record.cell), []).append(record)
    planned: dict[str, list[PlannedTrial]] = {}
    for trial in plan.trials:
        planned.setdefault(trial.cell_key, []).append(trial)
    rows = [_row(plan, trials, seen.get(key, []), part=part) for key, trials in planned.items()]
    order = {name: i for i, name in enumerate(plan.scenario.variants)}
    rows.sort(key=lambda row: (order.get(row.variant, len(order)), _sortable(row.cell)))
    bad = [row for row in rows if row.ok is False]
    unfinished = sum(row.planned - row.seen for row in rows if row.seen < row.planned)
    missing = _missing(rows)
    status = AS_EXPECTED
    if bad:
        status = NOT_AS_EXPECTED
    elif missing or unfinished:
        status = NOTHING_CONCLUSIVE
    messages = [*_not_reproduced(rows, bad), *_deviations(bad), *missing, *_uncounted(rows)]
    if unfinished:
        total = sum(row.planned for row in rows)
        ended = total - unfinished
        messages.append(f"stopped after {ended} of {total} trials: nothing is said of the other {unfinished}")
    return Outcome(rows=tuple(rows), exit_status=status, messages=tuple(messages))


# --- one cell --------------------------------------------------------------------------------------------------------


def _row(plan: Plan, trials: Sequence[PlannedTrial], records: Sequence[Record], *, part: bool) -> Row:
    first = trials[0]
    expectation = expectation_of(
        plan.scenario.expect, variant=first.variant, role=first.role, cell=first.cell, os=plan.os, arch=plan.arch
    )
    counted = [record for record in records if record.verdict not in UNCOUNTED]
    apart = Counter(record.verdict for record in records if record.verdict in UNCOUNTED)
    verdicts = Counter(record.verdict for record in counted)
    finished = len(records) >= len(trials) and not part
    return Row(
        variant=first.variant,
        role=first.role,
        cell=first.cell,
        parameters=first.parameters,
        planned=len(trials),
        n=len(counted),
        verdicts=dict(verdicts.most_common()),
        skipped=apart[Verdict.SKIPPED],
        inconclusive=apart[Verdict.INCONCLUSIVE],
        error=apart[Verdict.ERROR],
        shape=_shape(counted),
        expected=expectation.verdicts,
        rate=_rate_text(expectation),
        needs=expectation.needs,
        shows_bug=can_show_bug(expectation, first.role),
        reason=next((trial.skip for trial in trials if trial.skip), ""),
        ok=_ok(expectation, verdicts, finished=finished),
    )


def _ok(expectation: Expectation, verdicts: Mapping[Verdict, int], *, finished: bool) -> bool | None:
    """Whether a cell is as expected; None while its trials do not tell."""
    n = sum(verdicts.values())
    if n == 0:
        return None
    if any(verdict not in expectation.accepted for verdict in verdicts):
        return False
    rate = sum(count for verdict, count in verdicts.items() if verdict in expectation.verdicts) / n
    least, greatest = expectation.least_rate, expectation.greatest_rate
    within = (least is None or rate >= least) and (greatest is None or rate <= greatest)
    rated = least is not None or greatest is not None
    # A rate can still change while trials are missing; a verdict that is not accepted cannot be undone.
    return None if rated and not finished else within


def _shape(counted: Sequence[Record]) -> str:
    bugs = Counter(record.verdict for record in counted if record.verdict in BUGS).most_common(1)
    if not bugs:
        return ""
    return Counter(str(record.shape) for record in counted if record.verdict == bugs[0][0]).most_common(1)[0][0]


def _rate_text(expectation: Expectation) -> str:
    bounds = (("at least", expectation.least_rate), ("at most", expectation.greatest_rate))
    return ", ".join(f"{word} {rate * 100:g} %" for word, rate in bounds if rate is not None)


def _sortable(cell: Mapping[str, Value]) -> list[tuple[str, int, str]]:
    return [(name, value, "") if isinstance(value, int) else (name, 0, value) for name, value in cell.items()]


# --- the whole run ---------------------------------------------------------------------------------------------------


def _missing(rows: Sequence[Row]) -> list[str]:
    """What was asked for and not conclusive in a single cell, so that the run says nothing about it."""
    asked = [
        ("buggy", [row for row in rows if row.role in DEMONSTRATORS]),
        ("bug-showing", [row for row in rows if row.shows_bug]),
        ("fixed", [row for row in rows if row.role is VariantRole.FIXED]),
        ("look-alike", [row for row in rows if row.role is VariantRole.LOOK_ALIKE]),
    ]
    if any(row.n for row in rows):
        # A look-alike alone decides nothing, but where nothing else was asked for, it must.
        asked = asked[:3]
    words: list[str] = []
    for name, group in asked:
        # "bug-showing" cells are buggy ones; naming them twice would help nobody.
        if group and not any(row.n for row in group) and not (name == "bug-showing" and words):
            words.append(f"no conclusive trial in any {name} cell: {_apart_text(group)}")
    return words


def _apart_text(rows: Sequence[Row]) -> str:
    """How the trials that do not count ended, and why."""
    counts = [(sum(getattr(row, name) for row in rows), name) for name in ("skipped", "inconclusive", "error")]
    reasons = list(dict.fromkeys(row.reason for row in rows if row.skipped and row.reason))
    text = ", ".join(f"{count} {name}" for count, name in counts if count) or "none has ended"
    return f"{text} ({'; '.join(reasons)})" if reasons else text


def _uncounted(rows: Sequence[Row]) -> list[str]:
    if any(row.skipped or row.inconclusive or row.error for row in rows):
        return [f"not counted: {_apart_text(rows)}"]
    return []


def _not_reproduced(rows: Sequence[Row], bad: Sequence[Row]) -> list[str]:
    """That the bug did not show, where nothing is wrong with that; never a proof of a fix."""
    demonstrators = [row for row in rows if row.role in DEMONSTRATORS]
    conclusive = [row for row in demonstrators if row.n]
    if bad or not conclusive or any(verdict in BUGS for row in conclusive for verdict in row.verdicts):
        return []
    if any(row.shows_bug for row in demonstrators):
        tolerated = [row for row in conclusive if row.shows_bug]
        return ["not reproduced: the bug did not show in this run, which its expectations allow"] if tolerated else []
    needs = list(dict.fromkeys(row.needs for row in conclusive if row.needs))
    return [f"not reproduced: needs {', '.join(needs)}" if needs else "not reproduced: no cell of this run can show it"]


def _deviations(bad: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    for row in bad:
        cell = " ".join(f"{name}={value}" for name, value in row.cell.items())
        seen = ", ".join(f"{count} {verdict.value}" for verdict, count in row.verdicts.items())
        expected = " or ".join(verdict.value for verdict in row.expected)
        rate = f" in {row.rate}" if row.rate else ""
        lines.append(f"not as expected: {row.variant} {cell}: {seen} of {row.n}; expected {expected}{rate}")
    return lines
