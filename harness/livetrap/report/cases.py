"""What campaigns come to for a CI: one case a cell, passed or why not, with the trial that tells most of it.

A run judges its cells with the rates that its scenario states, and hands them in; of a file alone, where those are not,
each conclusive trial must be as expected. A cell of a command that was watched passes only if each conclusive trial
does.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from livetrap.claims import fix_claims
from livetrap.errors import HarnessError
from livetrap.expectations import Row
from livetrap.model import BUGS, HANGS, UNCOUNTED, Frozen, VariantRole, Verdict, cell_key
from livetrap.plaintext import plain
from livetrap.report.grouping import group
from livetrap.report.html.tally import rows_of
from livetrap.report.summary import cells_of as grouped_cells
from livetrap.report.summary import counts_of, expected_text
from livetrap.report.text import console, one_line, plural
from livetrap.report.trial import repeat_text
from livetrap.report.watch import print_trial_found
from livetrap.store import Campaign, Glance, Store

MOST_TEXT = 60_000
"""Characters of what is told of one trial."""
UNFINISHED = (Verdict.SLOW, Verdict.WAITING)
NOT_RUN = "not run: the campaign ended before"


class Kind(enum.StrEnum):
    """How a case ends."""

    PASSED = "passed"
    FAILED = "failed"
    """Not as expected."""
    ERROR = "error"
    """The harness could not run it, or a command that was watched did not finish in time."""
    SKIPPED = "skipped"
    """Nothing is said: skipped, inconclusive, or not run at all."""


class Case(Frozen, kw_only=True):
    """One cell."""

    row: Row
    kind: Kind
    message: str
    """How its trials ended, on one line."""
    trial: int
    """The id of the one that tells most; 0: it has none."""
    verdict: Verdict | None
    """Of that one."""
    wall_s: float
    """All its trials together."""

    @property
    def name(self) -> str:
        """Its axes; the variant where it has none."""
        axes = " ".join(f"{name}={value}" for name, value in self.row.cell.items())
        return one_line(axes, most=1000) or one_line(self.row.variant) or "command"


class Suite(Frozen, kw_only=True):
    """One campaign."""

    campaign: Campaign
    cases: tuple[Case, ...]
    claims: tuple[str, ...]
    """What may be said of each fix, one line each."""
    trials: int
    """On record."""

    @property
    def name(self) -> str:
        """Its scenario, or the command that was watched."""
        return one_line(self.campaign.text("scenario")) or "campaign"

    @property
    def unfinished(self) -> str:
        """That it did not get to its end, in words; empty: it did."""
        if self.campaign.text("ended"):
            return ""
        planned = self.campaign.plan.get("trials")
        of = f" of {planned}" if isinstance(planned, int) and planned >= self.trials else ""
        return f"unfinished: {self.trials}{of} trials are on record, and nothing is said of what was not run"

    @property
    def said(self) -> str:
        """What it comes to, on one line."""
        count = {kind: sum(case.kind is kind for case in self.cases) for kind in Kind}
        all_, apart = plural(len(self.cases), "cell"), f"{count[Kind.SKIPPED]} say nothing"
        beside = f", {apart}" if count[Kind.SKIPPED] else ""
        if count[Kind.FAILED]:
            return f"NOT as expected: {count[Kind.FAILED]} of {all_}{beside}"
        if count[Kind.ERROR]:
            return f"nothing is said: error in {count[Kind.ERROR]} of {all_}{beside}"
        if not count[Kind.PASSED]:
            return f"nothing is said: not one of {all_} was conclusive"
        return f"as expected: {count[Kind.PASSED]} of {all_}{beside}"


def suites_of(
    store: Store, campaigns: Sequence[int] | None = None, *, rows: Mapping[int, Sequence[Row]] | None = None
) -> list[Suite]:
    """These campaigns of a database (None: all); `rows`: the cells of some of them, as the run itself judged them.

    Raises HarnessError for a campaign that is not in the file.
    """
    found = {one.id: one for one in store.campaigns()}
    suites = []
    for id_ in dict.fromkeys(found if campaigns is None else campaigns):
        if id_ not in found:
            raise HarnessError(f"{store.path} has no campaign {id_}")
        glances = list(store.glances(id_))
        own = list((rows or {}).get(id_, ())) or rows_of(glances)
        suites.append(
            Suite(
                campaign=found[id_],
                cases=tuple(_with_reasons(store, cases_of(own, glances))),
                claims=tuple(one_line(claim.text, most=2000) for claim in fix_claims(own)),
                trials=len(glances),
            )
        )
    return suites


def cases_of(rows: Iterable[Row], glances: Iterable[Glance]) -> list[Case]:
    """One case for each of these cells, with its trials. Pure."""
    trials: dict[str, list[Glance]] = {}
    for glance in glances:
        trials.setdefault(glance.cell_key, []).append(glance)
    return [_case(row, trials.get(cell_key(row.variant, row.cell), [])) for row in rows]


def _case(row: Row, trials: Sequence[Glance]) -> Case:
    kind = _watched_kind(row) if row.role is VariantRole.WATCHED else _kind(row)
    telling = min(trials, key=lambda trial: _rank(trial, kind), default=None)
    return Case(
        row=row,
        kind=kind,
        message=_message(row, kind),
        trial=telling.id if telling else 0,
        verdict=telling.verdict if telling else None,
        wall_s=sum(trial.wall_s for trial in trials),
    )


def _kind(row: Row) -> Kind:
    if row.ok is not None:
        return Kind.PASSED if row.ok else Kind.FAILED
    return Kind.ERROR if row.error and not row.n else Kind.SKIPPED


def _watched_kind(row: Row) -> Kind:
    """As the exit status of a watch: 0 only if every trial passed, 1 only for a bug."""
    if any(verdict in BUGS for verdict in row.verdicts):
        return Kind.FAILED
    if row.error or any(verdict in UNFINISHED for verdict in row.verdicts):
        return Kind.ERROR
    return Kind.PASSED if row.n == row.seen > 0 else Kind.SKIPPED


def _rank(trial: Glance, kind: Kind) -> tuple[object, ...]:
    verdict = trial.verdict
    if kind is Kind.SKIPPED:
        return verdict not in UNCOUNTED, trial.id
    if kind is Kind.ERROR:
        return verdict is not Verdict.ERROR, verdict not in UNFINISHED, trial.id
    return trial.as_expected is not False, verdict not in HANGS, verdict not in BUGS, trial.id


def _message(row: Row, kind: Kind) -> str:
    """`3 livelock, 2 passed of 5 trials; expected passed`."""
    if not row.seen:
        return NOT_RUN
    counts = counts_of(row)
    seen = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    text = f"{seen} of {plural(row.seen, 'trial')}"
    if row.seen < row.planned:
        text += f" ({row.planned} planned)"
    if kind is Kind.FAILED and row.expected:
        (one,) = group(grouped_cells([row], []))
        text += f"; expected {expected_text(one)}"
    if kind is Kind.PASSED and row.expected:
        text += "; as expected"
    if kind is Kind.SKIPPED and row.n and row.role is not VariantRole.WATCHED:
        text += "; which is not all of the trials that tell its rate"
    return one_line(f"{text}: {row.reason}" if row.reason else text, most=1000)


def _with_reasons(store: Store, cases: Iterable[Case]) -> Iterable[Case]:
    """Those of which nothing is said, or that went wrong, tell why."""
    for case in cases:
        if case.kind not in {Kind.SKIPPED, Kind.ERROR} or not case.trial or case.row.reason:
            yield case
            continue
        reason = _reason(store.record_text(case.trial))
        text = one_line(f"{case.message}: {reason}", most=1000) if reason else case.message
        yield msgspec.structs.replace(case, message=text)


class _Reason(msgspec.Struct):
    reason: str = ""


class _Reasoned(msgspec.Struct):
    evidence: _Reason


_REASONED = msgspec.json.Decoder(_Reasoned)


def _reason(record: str) -> str:
    try:
        return _REASONED.decode(record).evidence.reason
    except msgspec.MsgspecError:  # evidence is a document: whatever is in it of another form is left out
        return ""


class Told(Frozen, kw_only=True):
    """What is told of one trial."""

    reason: str
    """One line."""
    text: str
    """All of it: verdict, threads, spin site, stacks, output; empty where it passed."""
    repeat: str
    """The command line that runs its cell again."""


def told(store: Store, case: Case, *, campaign: Campaign, most: int = MOST_TEXT) -> Told | None:
    """What is told of a case's telling trial, as plain text; None where it has none."""
    if not case.trial:
        return None
    stored = store.load(case.trial)
    record, text = stored.record, ""
    if record.verdict is not Verdict.PASSED:
        stream = io.StringIO()
        print_trial_found(console(stream), record)
        # FORCE_COLOR, which CIs like to set, colours even this.
        text = "\n".join(line.rstrip() for line in plain(stream.getvalue()).splitlines())
    if len(text) > most:
        text = f"{text[:most]}\n... (livetrap show {store.path} {case.trial} has all of it)"
    reason = record.evidence.get("reason")
    return Told(
        reason=one_line(reason, most=1000) if isinstance(reason, str) else "",
        text=text,
        repeat=plain(repeat_text(stored, campaign.plan)),
    )
