"""A fuzzing as people read it: the falsifying example, what it was shrunk from, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from livetrap import stats
from livetrap.falsifying import Found
from livetrap.fuzzing import Trial
from livetrap.model import Frozen
from livetrap.report.hunt import cell_text
from livetrap.report.text import one_line, plural, seconds


class FuzzTold(Frozen, kw_only=True):
    """The closing object of `fuzz --json`."""

    schema: int = 1
    exit_status: int
    trials: int
    conclusive: int
    examples: int
    falsified: bool
    replayed: bool = False
    ended_early: bool = False
    first_s: float | None = None
    variant: str = ""
    cell: Mapping[str, object] = {}
    seed: int | None = None
    verdict_found: str = ""
    trial: int | None = None
    """Its id."""
    recipe: Sequence[str] = ()
    interrupted: bool = False


def print_fuzz(console: Console, found: Found, *, recipe: Sequence[str]) -> None:
    """The example and its bug; or that none was found, and what that says."""
    console.print()
    if found.trial is None or found.record is None:
        if found.conclusive:
            bound = stats.rate_text(0, found.conclusive)
            _say(console, f"no trial showed a bug: {bound}; that is no proof that none can")
        else:
            _say(console, "no trial was conclusive")
        return
    record = found.record
    what = f"{record.verdict}, {record.shape}" if str(record.shape) else str(record.verdict)
    how = "falsified, as in an earlier run" if found.replayed else "falsified"
    _say(console, f"{how}: {what}", style="bold red")
    _say(console, f"  {_text(found.trial)}")
    _say(console, f"  {one_line(str(record.evidence.get('reason', '')))}")
    if found.first is not None and not found.replayed:
        after = f"first after {seconds(found.first_s)}"
        same = found.first == found.trial
        _say(console, f"  {after}{'' if same else f', and shrunk from: {_text(found.first)}'}")
    if found.repeats > 1:
        _say(console, f"  it took {plural(found.repeats, 'trial')} of it to show the bug")
    if found.ended_early:
        _say(console, "  the time for shrinking was over before all was tried")
    _say(console, f"in a test: @example(trial={found.trial!r})")
    _say(console, f"again: {shlex.join(recipe)}", style="bold")


def print_fuzz_end(
    console: Console,
    found: Found,
    *,
    status: int,
    took_s: float,
    db: Path,
    interrupted: bool = False,
    failed: bool = False,
) -> None:
    """The last lines: how it ended, and where the record is. `failed`: it ended early, not by an interruption."""
    ending = {0: "as expected", 1: "NOT as expected", 3: "nothing is said"}[status]
    if interrupted or failed:
        ending = "interrupted" if interrupted else "ended early"
    ran = f"{plural(found.examples, 'example')}, {plural(found.trials, 'trial')}, {seconds(took_s)}"
    apart = found.trials - found.conclusive
    more = f", {apart} without a conclusion ({found.errors} of them could not be run)" if apart else ""
    console.print(Text.assemble((f"{ending}: ", "bold"), f"{ran}{more}"))
    if found.trials:
        show = f"  (livetrap show {db} {found.record.id})" if found.record else ""
        console.print(f"record: {db}{show}", soft_wrap=True)


def _text(trial: Trial) -> str:
    return f"{cell_text(trial.variant, dict(trial.cell))} seed={trial.seed}"


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(Text(one_line(text, most=2000), style=style), soft_wrap=True)
