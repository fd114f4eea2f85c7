"""A hunt as people read it: the first hang, the best recipe to paste, and where the time went."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from livetrap import stats
from livetrap.hunting import Result, Tried
from livetrap.model import Frozen
from livetrap.report.text import one_line, plural, print_columns, seconds
from livetrap.shrinking import Shrunk

MOST_ARMS = 10
"""Cells in the table; the others are told as a number."""
SURE = 0.95
"""The recipe's trials show a hang again with this confidence ..."""
LEAST_AGAIN, MOST_AGAIN = 5, 1000
"""... but there are so many of them."""
RATE = "hung"
"""Head of the column with rates and their intervals."""


class Best(Frozen, kw_only=True):
    """A recipe, and how often it hung."""

    recipe: list[str]
    variant: str
    cell: dict[str, object]
    hits: int
    trials: int
    low: float | None = None
    high: float | None = None
    """The exact interval; None where what it needs is not installed."""
    fresh: bool
    """The counts are of trials after the choice; else they made the choice, and are rather too high."""


class HuntTold(Frozen, kw_only=True):
    """The closing object of `hunt --json`."""

    schema: int = 1
    exit_status: int
    trials: int
    hits: int
    first_s: float | None
    first_trial: int | None
    """Its id."""
    best: Best | None = None
    smallest: Best | None = None
    interrupted: bool = False


def again(hits: int, trials: int) -> int:
    """How many trials of a recipe with that count show a hang again, as good as surely."""
    if not hits:
        return MOST_AGAIN
    low = hits / trials
    if stats.available():
        low = stats.interval(hits, trials)[0]
    return min(max(stats.trials_needed(min(max(low, 1e-4), 1.0), confidence=SURE), LEAST_AGAIN), MOST_AGAIN)


def print_hunt(
    console: Console, result: Result, *, recipe: Sequence[str], shrunk: Shrunk | None, smallest: Sequence[str]
) -> None:
    """The table of cells, the first hang, the recipe, and what it was shrunk to."""
    ran = [arm for arm in result.arms if arm.trials]
    if ran:
        console.print()
        _print_arms(console, ran, result)
        console.print()
    if result.first is None or result.best is None:
        if result.conclusive:
            bound = stats.rate_text(0, result.conclusive)
            _say(console, f"nothing hung: {bound}; that is no proof that nothing can")
        return
    record = result.first
    what = f"{record.verdict}, {record.shape}" if str(record.shape) else str(record.verdict)
    cell = cell_text(record.variant, dict(record.cell))
    _say(console, f"first hang after {seconds(result.first_s)}, trial {result.first_trial} of the hunt: {what}; {cell}")
    _say(console, _best_text(result))
    _say(console, f"again: {shlex.join(recipe)}", style="bold")
    if shrunk is not None:
        _print_shrunk(console, shrunk, smallest)


def _best_text(result: Result) -> str:
    best = result.best
    assert best is not None
    cell = cell_text(best.variant, best.cell)
    often = f"{_often(best)} a minute"
    if result.measured_trials:
        rate = stats.rate_text(result.measured_hits, result.measured_trials)
        return f"best recipe: {cell}: hung {rate}, in trials after it was chosen; {often}"
    rate = stats.rate_text(best.hits, best.trials)
    return f"best recipe: {cell}: hung {rate}, rather too high, since it was chosen for it; {often}"


def _print_shrunk(console: Console, shrunk: Shrunk, smallest: Sequence[str]) -> None:
    for one in shrunk.tries:
        kept = "kept" if one.kept else "no"
        _say(console, f"  {kept}: {one.change}: hung {one.hits} of {one.trials}", style="" if one.kept else "dim")
    if not any(one.kept for one in shrunk.tries):
        _say(console, f"nothing simpler hung at {100 * shrunk.floor:.2g} % or more")
    else:
        found = shrunk.recipe
        rate = stats.rate_text(found.hits, found.trials)
        _say(console, f"smallest recipe: {cell_text(found.variant, found.cell)}: hung {rate}")
        _say(console, f"again: {shlex.join(smallest)}", style="bold")
    if shrunk.ended_early:
        _say(console, "the time for shrinking was over before all was tried")


def print_hunt_end(
    console: Console, result: Result, *, took_s: float, db: Path, interrupted: bool = False, failed: bool = False
) -> None:
    """The last lines: how it ended, and where the record is. `failed`: it ended early, not by an interruption."""
    ending = {0: "hung", 1: "did not reproduce", 3: "nothing is said"}[result.status]
    if interrupted or failed:
        ending = "interrupted" if interrupted else "ended early"
    hangs = plural(result.hits, "hang")
    console.print(
        Text.assemble((f"{ending}: ", "bold"), f"{hangs} in {plural(result.ran, 'trial')}, {seconds(took_s)}")
    )
    if result.ran:
        show = f"  (one trial of it: livetrap show {db} {result.first.id})" if result.first else ""
        console.print(f"record: {db}{show}", soft_wrap=True)


def _print_arms(console: Console, arms: Sequence[Tried], result: Result) -> None:
    """The cells that hung most often, then those that had the most time."""
    names = dict.fromkeys(name for arm in arms for name in arm.cell)
    varied = [name for name in names if len({arm.cell.get(name) for arm in arms}) > 1]
    whole = sum(arm.seconds for arm in arms) or 1.0
    rows = [
        [
            Text("*" if result.best is not None and arm.key == result.best.key else ""),
            Text(one_line(arm.variant)),
            *(Text(one_line(str(arm.cell.get(name, "")))) for name in varied),
            Text(stats.rate_text(arm.hits, arm.trials), style="red" if arm.hits else ""),
            Text(_often(arm) if arm.hits else "-"),
            Text(f"{100 * arm.seconds / whole:.0f} %"),
        ]
        for arm in arms[:MOST_ARMS]
    ]
    print_columns(console, ["", "variant", *map(one_line, varied), RATE, "a minute", "of the time"], rows, whole=[RATE])
    if len(arms) > MOST_ARMS:
        others = arms[MOST_ARMS:]
        hits, trials = sum(arm.hits for arm in others), sum(arm.trials for arm in others)
        console.print(Text(f"and {len(others)} more cells: {hits} of {trials} hung", style="dim"))


def _often(arm: Tried) -> str:
    """Hangs a minute."""
    return f"{arm.per_minute:.0f}" if arm.per_minute >= 10.0 else f"{arm.per_minute:.2g}"


def cell_text(variant: str, cell: Mapping[str, object]) -> str:
    """`buggy threads=2 placement=spread`."""
    return " ".join([variant, *(f"{name}={value}" for name, value in cell.items())])


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(Text(one_line(text, most=2000), style=style), soft_wrap=True)
