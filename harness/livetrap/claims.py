"""What a run may claim: how often the bug showed, and what the fixed variants have earned. Pure.

A fixed variant is held against those trials of its buggy twin that could show the bug, and with those cells of its own
whose twin could: a fix earns nothing where the bug could not have shown anyway. Its twin is the variant whose
parameters differ least from its own, a plain one rather than a widened one: a widened twin hangs at a rate that the fix
was never up against, unless it is widened alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from livetrap.expectations import DEMONSTRATORS, Row
from livetrap.model import BUGS, HANGS, Frozen, VariantRole, Verdict
from livetrap.stats import FixClaim, halving_text, rate_text

UNFINISHED = (Verdict.SLOW, Verdict.WAITING)
"""Conclusive, and no bug; but what they would have come to is not known."""


class Claim(Frozen, kw_only=True):
    """What one fixed variant may claim."""

    variant: str
    fix: FixClaim
    cells: tuple[Row, ...]
    """The fixed cells that count."""
    differs: tuple[str, ...]
    """Axes along which they differ from the buggy ones altogether."""
    parameters: tuple[str, ...] = ()
    """Parameters, other than axes of both, in which they differ from the buggy ones."""
    widened: str = ""
    """How often a widened twin hung that says nothing of this fix, in words; empty where there is none."""

    @property
    def text(self) -> str:
        """One line: the claim, what was left out of it or weakens it and, where it holds, what would sharpen it."""
        parts = [f"{self.variant}: {self.fix.text}"]
        if self.widened:
            parts.append(f"a widened twin {self.widened}, which is no rate that this fix was up against")
        if len(self.parameters) > 1 and self.fix.chance is not None:
            parts.append(f"the two differ in {' and '.join(self.parameters)}, which may be more than the fix")
        parts += apart_words(self.cells)
        if self.fix.holds:
            parts.append(halving_text(self.fix.fixed_trials))
        return "; ".join(parts)


def bugs_in(verdicts: Mapping[Verdict, int]) -> int:
    """How many of these verdicts call a bug of the target."""
    return sum(count for verdict, count in verdicts.items() if verdict in BUGS)


def seen_text(verdicts: Mapping[Verdict, int]) -> str:
    """How often the bug showed in conclusive trials, with the interval: `0 of 80, below 3.7 % (95 %)`."""
    return rate_text(bugs_in(verdicts), sum(verdicts.values()))


def apart_words(cells: Iterable[Row]) -> list[str]:
    """What is no pass among the trials of cells, in words: counted but unfinished, or not counted at all."""
    unfinished: Counter[Verdict] = Counter()
    apart: Counter[str] = Counter()
    for row in cells:
        unfinished.update({verdict: row.verdicts.get(verdict, 0) for verdict in UNFINISHED})
        apart.update(inconclusive=row.inconclusive, skipped=row.skipped, error=row.error)
    words = []
    if unfinished.total():
        each = " and ".join(f"{count} {verdict.value}" for verdict, count in unfinished.items() if count)
        words.append(f"{each} among them, unfinished at the time limit")
    if apart.total():
        words.append(f"not counted: {', '.join(f'{count} {name}' for name, count in apart.items() if count)}")
    return words


def fix_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """One claim for each fixed variant that has a buggy twin in this run; none in a run without either."""
    buggy = [row for row in rows if row.role in DEMONSTRATORS and row.shows_bug]
    fixed = [row for row in rows if row.role is VariantRole.FIXED]
    claims = []
    for variant in dict.fromkeys(row.variant for row in fixed):
        own = [row for row in fixed if row.variant == variant]
        shared, differs = _axes(own, buggy)
        pairs = _nearest([(row, twin) for row in own for twin in buggy if _same(row, twin, shared)])
        mine = list({id(row): row for row, _ in pairs}.values())
        twins = list({id(twin): twin for _, twin in pairs}.values())
        if mine:
            unfair = _unfair(pairs, buggy)
            claims.append(
                Claim(
                    variant=variant,
                    fix=_claim(mine, [] if unfair else twins),
                    cells=tuple(mine),
                    differs=differs,
                    parameters=tuple(dict.fromkeys(name for row, twin in pairs for name in _differing(row, twin))),
                    widened=_hung_text(twins) if unfair else "",
                )
            )
    return tuple(claims)


# --- who is whose twin -----------------------------------------------------------------------------------------------


def _axes(fixed: Sequence[Row], buggy: Sequence[Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Axes along which the two can be compared, value by value; and those where they have no value in common."""
    names = dict.fromkeys(name for row in fixed for name in row.cell)
    shared: list[str] = []
    differs: list[str] = []
    for name in names:
        theirs = {row.cell[name] for row in buggy if name in row.cell}
        if theirs:
            (shared if theirs & {row.cell.get(name) for row in fixed} else differs).append(name)
    return tuple(shared), tuple(differs)


def _same(one: Row, other: Row, axes: Iterable[str]) -> bool:
    return all(one.cell.get(name) == other.cell.get(name) for name in axes if name in other.cell)


def _differing(one: Row, other: Row) -> list[str]:
    """Parameters that are not the same in both; those that are an axis of both are compared as such."""
    names = [name for name in {**one.parameters, **other.parameters} if name not in one.cell or name not in other.cell]
    return [name for name in names if one.parameters.get(name) != other.parameters.get(name)]


def _nearest(pairs: Sequence[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """Those pairs of a fixed cell and a buggy one whose parameters differ least; of equals, those not widened."""
    ranks = [(len(_differing(row, twin)), twin.role is VariantRole.WIDENED) for row, twin in pairs]
    least = min(ranks, default=None)
    return [pair for pair, rank in zip(pairs, ranks, strict=True) if rank == least]


def _unfair(pairs: Sequence[tuple[Row, Row]], buggy: Sequence[Row]) -> bool:
    """Only widened twins ran, and they differ from the fixed cells in more than one thing: one may be the widening."""
    only_widened = all(row.role is VariantRole.WIDENED for row in buggy)
    return only_widened and any(len(_differing(row, twin)) > 1 for row, twin in pairs)


# --- counts ----------------------------------------------------------------------------------------------------------


def _claim(fixed: Sequence[Row], buggy: Sequence[Row]) -> FixClaim:
    widened = bool(buggy) and all(row.role is VariantRole.WIDENED for row in buggy)
    return FixClaim(
        twin="widened" if widened else "buggy",
        did=_did(buggy),
        fixed_hangs=sum(bugs_in(row.verdicts) for row in fixed),
        fixed_trials=sum(row.n for row in fixed),
        buggy_hangs=sum(bugs_in(row.verdicts) for row in buggy),
        buggy_trials=sum(row.n for row in buggy),
    )


def _did(buggy: Sequence[Row]) -> str:
    only_hung = all(verdict in HANGS for row in buggy for verdict in row.verdicts if verdict in BUGS)
    return "hung" if only_hung else "showed the bug"


def _hung_text(buggy: Sequence[Row]) -> str:
    return f"{_did(buggy)} {sum(bugs_in(row.verdicts) for row in buggy)} of {sum(row.n for row in buggy)}"
