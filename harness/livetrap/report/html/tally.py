"""What a campaign came to, from its file alone: its cells with their counts, its verdict at a glance. Pure.

The file holds what each trial was expected to do, not the rates that a scenario's expectations may state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from livetrap.claims import bugs_in
from livetrap.expectations import DEMONSTRATORS, Row
from livetrap.model import BUGS, HANGS, UNCOUNTED, Frozen, Value, VariantRole, Verdict
from livetrap.report.text import plural
from livetrap.store import Campaign, Glance


class Said(Frozen, kw_only=True):
    """A sentence, and how it is meant: `good`, `bad`, `other`."""

    text: str
    kind: str


def rows_of(glances: Sequence[Glance]) -> list[Row]:
    """The cells, in the order of their first trials' variants and values."""
    found: dict[str, list[Glance]] = {}
    for glance in glances:
        found.setdefault(glance.cell_key, []).append(glance)
    variants = {name: place for place, name in enumerate(dict.fromkeys(glance.variant for glance in glances))}
    rows = [_row(trials) for trials in found.values()]
    return sorted(rows, key=lambda row: (_ROLES.index(row.role), variants[row.variant], _sortable(row)))


_ROLES = (
    VariantRole.BUGGY,
    VariantRole.WIDENED,
    VariantRole.FIXED,
    VariantRole.LOOK_ALIKE,
    VariantRole.WATCHED,
)


def _sortable(row: Row) -> list[tuple[str, int, str]]:
    return [(name, value, "") if isinstance(value, int) else (name, 0, value) for name, value in row.cell.items()]


def _row(trials: Sequence[Glance]) -> Row:
    first = trials[0]
    counts = Counter(trial.verdict for trial in trials)
    verdicts = {verdict: count for verdict, count in counts.most_common() if verdict not in UNCOUNTED}
    told = [trial.as_expected for trial in trials if trial.as_expected is not None]
    return Row(
        variant=first.variant,
        role=first.role,
        cell=first.cell,
        planned=len(trials),
        n=sum(verdicts.values()),
        verdicts=verdicts,
        skipped=counts[Verdict.SKIPPED],
        inconclusive=counts[Verdict.INCONCLUSIVE],
        error=counts[Verdict.ERROR],
        expected=first.expected,
        shows_bug=first.role in DEMONSTRATORS and any(verdict in BUGS for verdict in first.expected),
        ok=all(told) if told else None,
    )


def bug_words(rows: Iterable[Row]) -> str:
    """What those did that showed a bug: `hung`, or `showed the bug` where some did otherwise than hang."""
    bugs = {verdict for row in rows for verdict in row.verdicts if verdict in BUGS}
    return "hung" if bugs <= HANGS else "showed the bug"


class Pooled(Frozen, kw_only=True):
    """Counts of several cells together."""

    bugs: int = 0
    n: int = 0
    """Conclusive trials."""
    apart: int = 0
    """Trials that count neither for nor against."""


def pooled(rows: Iterable[Row]) -> Pooled:
    """The counts of some cells together."""
    rows = list(rows)
    return Pooled(
        bugs=sum(bugs_in(row.verdicts) for row in rows),
        n=sum(row.n for row in rows),
        apart=sum(row.skipped + row.inconclusive + row.error for row in rows),
    )


def axes_of(rows: Iterable[Row]) -> dict[str, tuple[Value, ...]]:
    """All axes of some cells, each with its values: numbers ascending, names as they first appear."""
    found: dict[str, dict[Value, None]] = {}
    for row in rows:
        for name, value in row.cell.items():
            found.setdefault(name, {})[value] = None
    return {name: _ordered(tuple(values)) for name, values in found.items()}


def _ordered(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(sorted(values, key=int)) if all(isinstance(value, int) for value in values) else values


def at_a_glance(campaign: Campaign, glances: Sequence[Glance]) -> list[Said]:
    """The verdict of a campaign in few sentences."""
    counts = Counter(glance.verdict for glance in glances)
    n = sum(count for verdict, count in counts.items() if verdict not in UNCOUNTED)
    said = [_verdict(glances, counts, n)]
    planned = campaign.plan.get("trials")
    if not campaign.text("ended"):
        of = f" of {planned}" if isinstance(planned, int) and planned >= len(glances) else ""
        said.append(Said(text=f"unfinished: {len(glances)}{of} trials are on record", kind="other"))
    apart = ", ".join(
        f"{counts[verdict]} {verdict.value}" for verdict in Verdict if verdict in UNCOUNTED & counts.keys()
    )
    if apart:
        said.append(Said(text=f"not counted, neither for nor against: {apart}", kind="other"))
    return said


def _verdict(glances: Sequence[Glance], counts: Mapping[Verdict, int], n: int) -> Said:
    if not n:
        return Said(text="nothing conclusive: nothing is said", kind="other")
    if all(glance.role is VariantRole.WATCHED for glance in glances):
        return _watched(counts, n)
    wrong = sum(glance.as_expected is False for glance in glances)
    told = sum(glance.as_expected is not None for glance in glances)
    if wrong:
        return Said(text=f"NOT as expected: {wrong} of {plural(told, 'conclusive trial')}", kind="bad")
    if told:
        each = "the one conclusive trial" if told == 1 else f"each of {told} conclusive trials"
        return Said(text=f"as expected: {each}", kind="good")
    return _watched(counts, n)


def _watched(counts: Mapping[Verdict, int], n: int) -> Said:
    """Of trials of which nothing is expected but that they pass."""
    hung = sum(count for verdict, count in counts.items() if verdict in HANGS)
    passed = counts.get(Verdict.PASSED, 0)
    apart = HANGS | UNCOUNTED | {Verdict.PASSED}
    others = "".join(f", {verdict.value} {count}" for verdict, count in counts.items() if verdict not in apart)
    if passed == n:
        return Said(text=f"every trial passed: {n} of {n}", kind="good")
    kind = "bad" if counts.keys() & BUGS else "other"
    return Said(text=f"hung {hung} of {plural(n, 'conclusive trial')}, passed {passed}{others}", kind=kind)
