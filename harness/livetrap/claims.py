"""What a run may claim: how often the bug showed, and what the fixed variants have earned. Pure.

A fixed variant is held against those trials of its buggy twin that could show the bug, and with those cells of its own
whose twin could: a fix earns nothing where the bug could not have shown anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from livetrap.expectations import DEMONSTRATORS, Row
from livetrap.model import BUGS, HANGS, Frozen, VariantRole, Verdict
from livetrap.stats import FixClaim, halving_text, rate_text


class Claim(Frozen, kw_only=True):
    """What one fixed variant may claim."""

    variant: str
    fix: FixClaim
    cells: tuple[Row, ...]
    """The fixed cells that count."""
    differs: tuple[str, ...]
    """Axes along which they differ from the buggy ones altogether."""

    @property
    def text(self) -> str:
        """One line: the claim and, where it holds, what would sharpen it."""
        more = f"; {halving_text(self.fix.fixed_trials)}" if self.fix.holds else ""
        return f"{self.variant}: {self.fix.text}{more}"


def bugs_in(verdicts: Mapping[Verdict, int]) -> int:
    """How many of these verdicts call a bug of the target."""
    return sum(count for verdict, count in verdicts.items() if verdict in BUGS)


def seen_text(verdicts: Mapping[Verdict, int]) -> str:
    """How often the bug showed in conclusive trials, with the interval: `0 of 80, below 3.7 % (95 %)`."""
    return rate_text(bugs_in(verdicts), sum(verdicts.values()))


def fix_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """One claim for each fixed variant that has a buggy twin in this run; none in a run without either."""
    buggy = [row for row in rows if row.role in DEMONSTRATORS and row.shows_bug]
    fixed = [row for row in rows if row.role is VariantRole.FIXED]
    claims = []
    for variant in dict.fromkeys(row.variant for row in fixed):
        own = [row for row in fixed if row.variant == variant]
        shared, differs = _axes(own, buggy)
        pairs = [(row, [twin for twin in buggy if _same(row, twin, shared)]) for row in own]
        mine = [row for row, twins in pairs if twins]
        twins = list({id(twin): twin for _, found in pairs for twin in found}.values())
        if mine:
            claims.append(Claim(variant=variant, fix=_claim(mine, twins), cells=tuple(mine), differs=differs))
    return tuple(claims)


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


def _claim(fixed: Sequence[Row], buggy: Sequence[Row]) -> FixClaim:
    only_hung = all(verdict in HANGS for row in buggy for verdict in row.verdicts if verdict in BUGS)
    return FixClaim(
        did="hung" if only_hung else "showed the bug",
        fixed_hangs=sum(bugs_in(row.verdicts) for row in fixed),
        fixed_trials=sum(row.n for row in fixed),
        buggy_hangs=sum(bugs_in(row.verdicts) for row in buggy),
        buggy_trials=sum(row.n for row in buggy),
    )
