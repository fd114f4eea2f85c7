"""What a run of the corpus says of the harness on this machine: what it should have judged, and what it did. Pure.

A verdict is wrong when it claims a bug that the trial's expectation does not accept (a false alarm, or a bug of another
kind), or when a variant that is marked `always` was not caught. A bug that did not show in another buggy variant is no
fault of the harness: it is inconclusive for this machine.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence

from livetrap import stats
from livetrap.calibration_cells import CalibrationCell, by_variant, cells_of
from livetrap.expectations import AS_EXPECTED, DEMONSTRATORS, NOT_AS_EXPECTED, NOTHING_CONCLUSIVE
from livetrap.model import BUGS, Frozen, Record, Value, VariantRole, Verdict
from livetrap.plan import Plan

LEAST_SHARE = 0.95
"""So many of the conclusive trials of a fixed or look-alike variant must end as expected."""


class Fault(enum.StrEnum):
    """What a harness can get wrong."""

    FALSE_ALARM = "false alarm"
    """A bug was called where none is expected."""
    WRONG_BUG = "wrong verdict"
    """A bug was called, but not the one that is expected."""
    MISSED = "missed"
    """A variant that must always be caught was not."""
    UNLIKE = "not as expected"
    """Too few trials of a fixed or look-alike variant ended as expected."""


class Finding(Frozen, kw_only=True):
    """One thing that was judged wrong: in one cell, or, where `cell` is empty, in a whole variant."""

    fault: Fault
    scenario: str
    variant: str
    cell: dict[str, Value] = {}
    verdicts: dict[Verdict, int]
    """The verdicts that are meant, with their counts ..."""
    of: int
    """... of so many conclusive trials."""
    expected: tuple[Verdict, ...]
    """Accepted verdicts; empty for a whole variant."""
    trials: tuple[int, ...]
    """Ids of the trials that are meant."""

    @property
    def text(self) -> str:
        """One line."""
        cell = "".join(f" {name}={value}" for name, value in self.cell.items())
        seen = ", ".join(f"{count} {verdict.value}" for verdict, count in self.verdicts.items())
        if self.fault is Fault.UNLIKE:
            return f"{self.fault}: {self.scenario}, {self.variant}: {seen} of {self.of}; at most 5 % may differ"
        expected = expected_text(self.expected)
        return f"{self.fault}: {self.scenario}, {self.variant}{cell}: {seen} of {self.of}; expected {expected}"


class MatrixRow(Frozen, kw_only=True):
    """What was judged where one and the same was expected of variants of one group."""

    group: str
    """`buggy` (widened ones too), `fixed` or `look-alike`."""
    expected: tuple[Verdict, ...]
    """Accepted verdicts."""
    judged: dict[Verdict, int]
    """Counts, of all trials."""


class State(enum.StrEnum):
    """What came of a variant."""

    RIGHT = "ok"
    WRONG = "NO"
    NOT_SEEN = "not seen"
    """A bug that did not show: inconclusive for this machine."""
    NOTHING = "nothing"
    """No conclusive trial."""
    SKIPPED = "skipped"


class VariantResult(Frozen, kw_only=True):
    """What came of one variant."""

    scenario: str
    variant: str
    role: VariantRole
    always: bool
    """It must be caught on every machine that can run it."""
    state: State
    planned: int
    judged: dict[Verdict, int]
    """Counts, of all trials that have ended."""
    conclusive: int
    as_expected: int
    """Of the conclusive ones."""
    could_show: int = 0
    """Conclusive trials in cells that could show the bug ..."""
    caught: int = 0
    """... and those of them that did, as expected."""
    low: float | None = None
    high: float | None = None
    """Where the rate `caught` of `could_show` lies at 95 % confidence, as `stats.measure`; None: not known."""
    first_hang_s: float | None = None
    """Time that its trials of such cells took until the first was caught, that one included, in seconds."""
    telling: int | None = None
    """Id of its first trial that showed the bug, or else of the first that ended."""
    reason: str = ""
    """Why trials were skipped, or could not be run."""

    @property
    def rate_text(self) -> str:
        """How often the bug was caught, with its interval; empty for a variant that is not there to show it."""
        return stats.rate_text(self.caught, self.could_show) if self.could_show else ""


class Calibration(Frozen, kw_only=True):
    """What a run of the corpus comes to; the last object of `selftest --json`."""

    schema: int = 1
    exit_status: int
    """0 all right, 1 something was judged wrong, 3 too little was judged, 130 interrupted."""
    scenarios: int
    planned: int
    ended: int
    """Trials that have ended, of those planned."""
    matrix: tuple[MatrixRow, ...]
    variants: tuple[VariantResult, ...]
    wrong: tuple[Finding, ...]
    gaps: tuple[str, ...]
    """Why nothing is said where nothing is wrong, a line each; none: enough was judged."""


class Member(Frozen, kw_only=True):
    """One scenario of the corpus: what was planned of it, and the trials that have ended, in their order."""

    plan: Plan
    records: tuple[Record, ...]


def calibrate(members: Sequence[Member]) -> Calibration:
    """The calibration that these trials give. `error` counts neither for nor against, but lets no run pass.

    Records of cells that their plan does not have are left out of account.
    """
    cells = [cell for member in members for cell in cells_of(member.plan, member.records)]
    findings: list[Finding] = []
    variants: list[VariantResult] = []
    for own in by_variant(cells):
        wrong = [finding for cell in own for finding in _findings(cell)]
        wrong += _unlike(own)
        findings += wrong
        variants.append(_result(own, wrong=bool(wrong)))
    planned = sum(len(member.plan.trials) for member in members)
    ended = sum(len(cell.records) for cell in cells)
    gaps = _gaps(variants, planned=planned, ended=ended)
    status = NOT_AS_EXPECTED if findings else NOTHING_CONCLUSIVE if gaps else AS_EXPECTED
    return Calibration(
        exit_status=status,
        scenarios=len(members),
        planned=planned,
        ended=ended,
        matrix=_matrix(cells),
        variants=tuple(variants),
        wrong=tuple(findings),
        gaps=tuple(gaps),
    )


def expected_text(expected: Sequence[Verdict]) -> str:
    """Accepted verdicts in words: `livelock or passed`; `a bug` where any will do."""
    if frozenset(expected) >= BUGS:
        others = [verdict.value for verdict in expected if verdict not in BUGS]
        return " or ".join(["a bug", *others])
    return " or ".join(verdict.value for verdict in expected)


# --- what is wrong ---------------------------------------------------------------------------------------------------


def _findings(cell: CalibrationCell) -> list[Finding]:
    """What was judged wrong in one cell."""
    claims = [record for record in cell.conclusive if record.verdict in BUGS and record.verdict not in cell.accepted]
    fault = Fault.WRONG_BUG if BUGS & set(cell.accepted) else Fault.FALSE_ALARM
    found = [_finding(fault, cell, claims)] if claims else []
    missed = _missed(cell)
    return [*found, _finding(Fault.MISSED, cell, missed)] if missed else found


def _missed(cell: CalibrationCell) -> list[Record]:
    """Trials that should have been caught and were not; those called another bug are wrong for that already."""
    if not (cell.always and cell.shown_by):
        return []
    others = [record for record in cell.conclusive if record.verdict not in cell.shown_by | BUGS]
    # Where its expectation has a rate, single trials may pass; but not all of them.
    return [record for record in others if record.verdict not in cell.accepted or not cell.caught]


def _finding(fault: Fault, cell: CalibrationCell, records: Sequence[Record]) -> Finding:
    return Finding(
        fault=fault,
        scenario=cell.scenario,
        variant=cell.variant,
        cell=cell.cell,
        verdicts=_counts(records),
        of=len(cell.conclusive),
        expected=cell.accepted,
        trials=tuple(record.id for record in records),
    )


def _unlike(cells: Sequence[CalibrationCell]) -> list[Finding]:
    """A fixed or look-alike variant of which too few trials ended as expected, where no false alarm tells of all."""
    first = cells[0]
    conclusive = sum(len(cell.conclusive) for cell in cells)
    strange = [record for cell in cells for record in cell.conclusive if record.verdict not in cell.accepted]
    enough = conclusive - len(strange) >= LEAST_SHARE * conclusive
    if first.role in DEMONSTRATORS or enough or all(record.verdict in BUGS for record in strange):
        return []
    return [
        Finding(
            fault=Fault.UNLIKE,
            scenario=first.scenario,
            variant=first.variant,
            verdicts=_counts(strange),
            of=conclusive,
            expected=(),
            trials=tuple(sorted(record.id for record in strange)),
        )
    ]


def _counts(records: Iterable[Record]) -> dict[Verdict, int]:
    return dict(Counter(record.verdict for record in records).most_common())


# --- tables ----------------------------------------------------------------------------------------------------------


def _matrix(cells: Iterable[CalibrationCell]) -> tuple[MatrixRow, ...]:
    """Expected against judged, by groups; cells of which nothing has ended are left out."""
    rows: dict[tuple[str, tuple[Verdict, ...]], Counter[Verdict]] = {}
    for cell in cells:
        if cell.records:
            key = (cell.group, tuple(sorted(cell.accepted, key=list(Verdict).index)))
            rows.setdefault(key, Counter()).update(record.verdict for record in cell.records)
    groups = (VariantRole.BUGGY.value, VariantRole.FIXED.value, VariantRole.LOOK_ALIKE.value)
    ordered = sorted(rows, key=lambda key: (groups.index(key[0]), [list(Verdict).index(one) for one in key[1]]))
    return tuple(MatrixRow(group=key[0], expected=key[1], judged=dict(rows[key].most_common())) for key in ordered)


def _result(cells: Sequence[CalibrationCell], *, wrong: bool) -> VariantResult:
    first = cells[0]
    records = [record for cell in cells for record in cell.records]
    conclusive = sum(len(cell.conclusive) for cell in cells)
    showing = [cell for cell in cells if cell.shown_by]
    could_show = sum(len(cell.conclusive) for cell in showing)
    caught = sum(len(cell.caught) for cell in showing)
    low, high = _interval(caught, could_show)
    return VariantResult(
        scenario=first.scenario,
        variant=first.variant,
        role=first.role,
        always=first.always,
        state=State.WRONG if wrong else _state(showing or cells, shows=bool(showing), caught=caught),
        planned=sum(cell.planned for cell in cells),
        judged=_counts(records),
        conclusive=conclusive,
        as_expected=sum(record.verdict in cell.accepted for cell in cells for record in cell.conclusive),
        could_show=could_show,
        caught=caught,
        low=low,
        high=high,
        first_hang_s=_first_hang_s(showing),
        telling=min(
            (one.id for one in [record for cell in showing for record in cell.caught] or records), default=None
        ),
        reason=_reason(cells),
    )


def _state(cells: Sequence[CalibrationCell], *, shows: bool, caught: int) -> State:
    """Of the cells that tell: those that could show the bug, where there are any."""
    conclusive = [(record, cell) for cell in cells for record in cell.conclusive]
    if caught or (not shows and any(record.verdict in cell.accepted for record, cell in conclusive)):
        return State.RIGHT
    if conclusive:
        return State.NOT_SEEN
    return State.SKIPPED if all(cell.skip for cell in cells) else State.NOTHING


def _interval(caught: int, trials: int) -> tuple[float | None, float | None]:
    if not trials or (0 < caught < trials and not stats.available()):
        return None, None
    rate = stats.measure(caught, trials)
    return rate.low, rate.high


def _first_hang_s(cells: Sequence[CalibrationCell]) -> float | None:
    spent = 0.0
    trials = sorted(((record, cell) for cell in cells for record in cell.records), key=lambda pair: pair[0].id)
    for record, cell in trials:
        spent += record.wall_s
        if record.verdict in cell.shown_by:
            return round(spent, 6)
    return None


def _reason(cells: Sequence[CalibrationCell]) -> str:
    errors = [
        str(record.evidence.get("reason", ""))
        for cell in cells
        for record in cell.records
        if record.verdict is Verdict.ERROR
    ]
    return "; ".join(dict.fromkeys([*errors, *(cell.skip for cell in cells if cell.skip)]))


# --- whether enough was judged ---------------------------------------------------------------------------------------


def _gaps(variants: Sequence[VariantResult], *, planned: int, ended: int) -> list[str]:
    """Why a run without a wrong verdict is no pass all the same."""
    gaps = []
    errors = sum(one.judged.get(Verdict.ERROR, 0) for one in variants)
    if errors:
        reasons = dict.fromkeys(one.reason for one in variants if one.judged.get(Verdict.ERROR) and one.reason)
        gaps.append(f"{errors} of {ended} trials could not be run: {'; '.join(reasons) or 'no reason is known'}")
    if not any(one.caught for one in variants):
        gaps.append("no bug was caught: a harness that convicts nobody does not pass")
    gaps += [
        f"{one.scenario}, {one.variant}: must always be caught, and no trial that could show it was conclusive"
        for one in variants
        if one.always and one.state is State.NOTHING and ended >= planned
    ]
    others = [one for one in variants if one.role not in DEMONSTRATORS]
    if others and not any(one.conclusive for one in others):
        gaps.append("no trial of a fixed or look-alike variant was conclusive: nothing is said of false alarms")
    if ended < planned:
        gaps.append(f"stopped after {ended} of {planned} trials: nothing is said of the other {planned - ended}")
    return gaps
