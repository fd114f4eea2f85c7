"""The report of a database as one page: its campaigns, and some of their trials in full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from livetrap import __version__
from livetrap.errors import HarnessError
from livetrap.report.html import drawing, heat, part, trial
from livetrap.report.html.choosing import choose
from livetrap.report.html.frame import frame, table
from livetrap.report.html.markup import Markup, el
from livetrap.report.html.part import Part, part_of
from livetrap.report.place import write_whole
from livetrap.report.text import one_line, plural
from livetrap.store import Campaign, Store

MOST_BYTES = 5_000_000
"""Of a page; what would make it larger is left out, and the page says so."""
MOST_CAMPAIGNS = 100
STYLE = f"""
.verdict {{ font-size: 1.15rem; font-weight: 600; margin: .3rem 0 }} .verdict.other {{ font-size: 1rem }}
article {{ border-top: 1px solid var(--line); margin-top: 1.5rem }} figure {{ margin: .5rem 0 }}
nav ul {{ padding-left: 1.2rem }}
{heat.STYLE}{drawing.STYLE}"""


def write_html(store: Store, file: Path, *, campaigns: Sequence[int] | None = None, trials: Sequence[int] = ()) -> None:
    """Writes the report of these campaigns (None: of all) to a file, which is replaced as a whole.

    `trials` are told in full; where none are named, those that tell most. Raises HarnessError for a campaign or a trial
    that is not in the file, for a trial of another campaign, for a damaged file, and where the page cannot be written.
    """
    write_whole(file, render(store, campaigns=campaigns, trials=trials))


def render(store: Store, *, campaigns: Sequence[int] | None = None, trials: Sequence[int] = ()) -> str:
    """The page as text; raises as `write_html` does."""
    wanted = _wanted(store, campaigns)
    glances = {one.id: list(store.glances(one.id)) for one in wanted}
    chosen = _named(store, trials, campaigns=list(glances)) if trials else choose(glances)
    parts = [part_of(one, glances[one.id]) for one in wanted]
    alone = len(parts) == 1
    title = parts[0].name if alone else f"{plural(len(parts), 'campaign')} in {store.path.name}"
    body = _Body()
    body.add(el("h1", f"{one_line(title)}: livetrap report"))
    if not alone:
        body.add(_contents(parts))
    sections = parts[:MOST_CAMPAIGNS]
    for one in sections:
        for element in part.section(one, alone=alone):
            body.add(element)
        _add_trials(body, store, one.campaign, chosen.get(one.campaign.id, []))
    left = len(parts) - len(sections)
    if left:
        body.add(el("p", f"and {plural(left, 'more campaign')}: --campaign picks one", class_="small"))
    note = body.note()
    about = el("p", f"Made by livetrap {__version__} from {store.path.name}.", class_="small")
    return frame(f"{one_line(title)}: livetrap report", by="report", body=[*body.parts, *note, about], style=STYLE)


class _Body:
    """What goes into a page, as long as there is room."""

    def __init__(self) -> None:
        self.parts: list[Markup] = []
        self._left = MOST_BYTES
        self._dropped = 0

    def add(self, element: Markup) -> None:
        """Adds an element, or counts it as left out."""
        size = len(element.encode("utf-8", "replace"))
        if size > self._left:
            self._dropped += 1
            return
        self._left -= size
        self.parts.append(element)

    def note(self) -> list[Markup]:
        """That something was left out, where it was."""
        if not self._dropped:
            return []
        what = plural(self._dropped, "part")
        text = f"{what} of this report left out to keep it small; --campaign and --trial pick what is told"
        return [el("p", text, class_="small")]


def _wanted(store: Store, campaigns: Sequence[int] | None) -> list[Campaign]:
    every = store.campaigns()
    if not every:
        raise HarnessError(f"{store.path} has no campaign; give a database that `livetrap run` wrote")
    if campaigns is None:
        return list(every)
    found = {one.id: one for one in every}
    for id_ in campaigns:
        if id_ not in found:
            ids = list(found)
            known = f"campaign {ids[0]}" if len(ids) == 1 else f"campaigns {ids[0]} to {ids[-1]}"
            raise HarnessError(f"{store.path} has no campaign {id_}; it has {known}")
    return [found[id_] for id_ in dict.fromkeys(campaigns)]


def _named(store: Store, trials: Sequence[int], *, campaigns: Sequence[int]) -> dict[int, list[int]]:
    """The trials that were asked for, by their campaigns."""
    named: dict[int, list[int]] = {}
    for id_ in dict.fromkeys(trials):
        campaign = store.load(id_).campaign
        if campaign not in campaigns:
            raise HarnessError(f"trial {id_} is of campaign {campaign}, which this report leaves out; name it too")
        named.setdefault(campaign, []).append(id_)
    return named


def _add_trials(body: _Body, store: Store, campaign: Campaign, ids: Sequence[int]) -> None:
    if ids:
        body.add(el("h3", "Trials in full"))
    for id_ in ids:
        body.add(trial.section(store.load(id_), plan=campaign.plan))


def _contents(parts: Sequence[Part]) -> Markup:
    """One line a campaign: what it was, and its verdict."""
    lines = []
    for place, one in enumerate(parts):
        number = f"{one.campaign.id}"
        link = el("a", number, href=f"#{one.anchor}") if place < MOST_CAMPAIGNS else number
        said = one.said[0]
        lines.append(
            el(
                "tr",
                el("th", link, scope="row"),
                el("td", one.name),
                el("td", said.text, class_=said.kind),
                el("td", part.verdicts(part.summed(one.rows))),
                el("td", one_line(one.campaign.text("kind") or "run")),
                el("td", one_line(one.campaign.text("started"))),
            )
        )
    head = ("campaign", "scenario", "at a glance", "verdicts", "kind", "began")
    return el("nav", table(head, lines, caption="all campaigns of this report"), aria_label="campaigns")
