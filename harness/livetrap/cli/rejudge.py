"""`livetrap rejudge DB`: folds every stored trial again."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from livetrap import judge
from livetrap.database import check_name
from livetrap.errors import HarnessError
from livetrap.model import Certainty, Frozen, Judgement, Verdict
from livetrap.report.lines import Lines
from livetrap.report.text import console, one_line, plural
from livetrap.store import Store, Stored

MOST_FLOOR_S = 86_400.0


class Refolded(Frozen, kw_only=True):
    """One trial's verdict as it is stored, and as its events fold now. `--json` writes these."""

    schema: int = 1
    id: int
    scenario: str
    variant: str
    verdict: Verdict
    certainty: Certainty
    rejudged_verdict: Verdict
    rejudged_certainty: Certainty
    rule: str
    reason: str
    same: bool


def rejudge_command(
    db: Annotated[str, typer.Argument(metavar="DB", help="A database that `livetrap run` wrote.")],
    floor: Annotated[
        float | None, typer.Option("--floor", metavar="S", help="Fold with this floor, in seconds, instead of its own.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One object a trial on standard output.")] = False,
) -> int:
    """Folds the events of every stored trial again and compares the verdicts; exits 0 if all are the same."""
    if floor is not None and not 0 <= floor <= MOST_FLOOR_S:  # also refuses nan
        raise HarnessError(f"--floor {floor:g}: must be seconds from 0 to {MOST_FLOOR_S:.0f}")
    lines = Lines(sys.stdout.buffer, "standard output") if json else None
    out = console(sys.stderr if json else sys.stdout)
    folded = same = without = 0
    check_name("DB", db)
    with Store.open(db, create=False) as store:
        for trial in store.ids():
            stored = store.load(trial)
            if not stored.events:
                without += 1
                continue
            result = refolded(stored, floor_s=floor)
            folded += 1
            same += result.same
            if lines:
                lines.write(result)
            elif not result.same:
                out.print(one_line(_change(result), most=2000), soft_wrap=True)
    rest = f"; {plural(without, 'trial')} without events left out" if without else ""
    out.print(f"{plural(folded, 'trial')} folded again: {same} the same, {folded - same} changed{rest}", soft_wrap=True)
    if folded != same and floor is None:
        out.print(
            "No rule was changed, so nothing may change: this is a serious bug of livetrap, or the database was "
            "written by another version. Please report it, with the database.",
            soft_wrap=True,
        )
    return 0 if folded == same else 1


def refolded(stored: Stored, *, floor_s: float | None = None) -> Refolded:
    """A stored trial folded again, with another floor where one is given."""
    rules = stored.rules
    if floor_s is not None:
        rules = msgspec.structs.replace(rules, floor_s=floor_s)
    now: Judgement = judge.refold(rules, stored.gaps, stored.events)
    then = stored.judgement
    return Refolded(
        id=stored.record.id,
        scenario=stored.record.scenario,
        variant=stored.record.variant,
        verdict=then.verdict,
        certainty=then.certainty,
        rejudged_verdict=now.verdict,
        rejudged_certainty=now.certainty,
        rule=now.rule,
        reason=now.reason,
        same=(then.verdict, then.certainty) == (now.verdict, now.certainty),
    )


def _change(result: Refolded) -> str:
    return (
        f"trial {result.id} ({result.scenario}, {result.variant}): {result.verdict} ({result.certainty}) -> "
        f"{result.rejudged_verdict} ({result.rejudged_certainty}): {result.reason}"
    )
