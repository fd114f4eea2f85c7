"""One campaign: what was run and on what, its verdict at a glance, what may be claimed, and its cells. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from livetrap.claims import fix_claims, seen_text
from livetrap.expectations import Row
from livetrap.model import UNCOUNTED, Frozen, Verdict
from livetrap.report.grouping import Row as Group
from livetrap.report.grouping import group, values_by_axis
from livetrap.report.html import heat
from livetrap.report.html.frame import pairs, table
from livetrap.report.html.markup import Markup, el, join
from livetrap.report.html.tally import Said, at_a_glance, rows_of
from livetrap.report.html.trial import kind_of
from livetrap.report.summary import axis_text, cells_of, counts_of, expected_text, shapes_text
from livetrap.report.text import one_line, plural
from livetrap.report.trial import value_text
from livetrap.store import Campaign, Glance

MOST_GROUPS, MOST_CELLS = 200, 1000
"""Rows of the tables: cells together that came out alike, and each by itself."""
_PLAN = {
    "kind": "kind",
    "command": "command",
    "path": "scenario's folder",
    "started": "began",
    "ended": "ended",
    "trials": "trials planned",
    "seed": "seed",
    "shard": "shard",
    "until_confident": "until surely below",
    "executor": "ran on",
}
"""What is told of a plan document, and how it is called."""


class Part(Frozen, kw_only=True):
    """What a page tells of one campaign, as figures; made once, since it is told of in two places."""

    campaign: Campaign
    glances: tuple[Glance, ...]
    rows: tuple[Row, ...]
    said: tuple[Said, ...]

    @property
    def name(self) -> str:
        """What its heading says."""
        return one_line(self.campaign.text("scenario")) or "campaign"

    @property
    def anchor(self) -> str:
        """Its id in the page."""
        return f"campaign-{self.campaign.id}"


def part_of(campaign: Campaign, glances: Sequence[Glance]) -> Part:
    """The figures of a campaign."""
    return Part(
        campaign=campaign,
        glances=tuple(glances),
        rows=tuple(rows_of(glances)),
        said=tuple(at_a_glance(campaign, glances)),
    )


def section(part: Part, *, alone: bool) -> Iterator[Markup]:
    """All of a campaign but its trials. `alone`: it is the only one of its page, whose title is its name."""
    if not alone:
        yield el("h2", f"Campaign {part.campaign.id}: {part.name}", id=part.anchor)
    yield el("div", (el("p", one.text, class_=f"verdict {one.kind}") for one in part.said))
    if part.rows:
        yield _variants(part.rows)
    yield from _claims(part.rows)
    yield el("h3", "What was run, and on what")
    yield pairs(_plan(part.campaign))
    where = {name.replace("_", " "): value_text(value) for name, value in part.campaign.environment.items() if value}
    yield pairs({one_line(name): one_line(value, most=1000) for name, value in where.items()})
    yield from _maps(part)
    if part.rows:
        yield from _cells(part)


def _plan(campaign: Campaign) -> dict[str, str]:
    told = {"scenario": one_line(campaign.text("scenario"))}
    for key, name in _PLAN.items():
        value = campaign.plan.get(key)
        if value not in (None, "", False):
            told[name] = one_line(value_text(value), most=2000)
    return told


# --- at a glance -----------------------------------------------------------------------------------------------------


def _variants(rows: Sequence[Row]) -> Markup:
    """One line a variant: how its trials ended, how often the bug showed."""
    by_variant: dict[str, list[Row]] = {}
    for one in rows:
        by_variant.setdefault(one.variant, []).append(one)
    lines = []
    for variant, own in by_variant.items():
        counts = summed(own)
        lines.append(
            el(
                "tr",
                el("th", one_line(variant), scope="row"),
                el("td", own[0].role.value),
                el("td", str(len(own))),
                el("td", verdicts(counts)),
                el("td", _seen(counts)),
            )
        )
    return table(
        ("variant", "role", "cells", "verdicts", "bug seen"), lines, caption="each variant, all its cells together"
    )


def summed(rows: Sequence[Row]) -> dict[Verdict, int]:
    """The verdicts of several cells, the commonest first, those that do not count last."""
    counts: dict[Verdict, int] = {}
    for one in rows:
        for verdict, count in counts_of(one).items():
            counts[verdict] = counts.get(verdict, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (item[0] in UNCOUNTED, -item[1])))


def verdicts(counts: Mapping[Verdict, int]) -> Markup:
    """`livelock 70, passed 2`, each in its colour."""
    spans = [el("span", f"{verdict.value} {count}", class_=kind_of(verdict)) for verdict, count in counts.items()]
    return join([one if place == 0 else join([", ", one]) for place, one in enumerate(spans)])


def _seen(counts: Mapping[Verdict, int]) -> str:
    counted = {verdict: count for verdict, count in counts.items() if verdict not in UNCOUNTED}
    return seen_text(counted) if counted else "-"


def _claims(rows: Sequence[Row]) -> Iterator[Markup]:
    claims = fix_claims(rows)
    if claims:
        yield el("h3", "What may be claimed of the fix")
        yield el("ul", (el("li", one_line(claim.text, most=2000)) for claim in claims))


# --- cells -----------------------------------------------------------------------------------------------------------


def _maps(part: Part) -> Iterator[Markup]:
    """One heat map a variant, where more than one cell was run."""
    drawn = []
    variants = list(dict.fromkeys(one.variant for one in part.rows))
    for place, variant in enumerate(variants):
        own = [one for one in part.rows if one.variant == variant]
        title = f"{one_line(variant)} ({own[0].role.value})" if variant else part.name
        drawn.append(
            heat.draw(own, title=title, group=f"{part.anchor}-map-{place}", fields=heat.MOST_FIELDS // len(variants))
        )
    made = [one for one in drawn if one is not None]
    if made:
        yield el("h3", "Where it shows")
        yield from made


def _cells(part: Part) -> Iterator[Markup]:
    cells = cells_of(part.rows, part.glances)
    groups = group(cells)
    yield el("h3", "Cells")
    yield _groups(groups[:MOST_GROUPS], values_by_axis(cells), left=len(groups) - MOST_GROUPS)
    if len(groups) < len(cells):
        shown = sorted(part.rows, key=lambda one: one.ok is not False) if len(cells) > MOST_CELLS else part.rows
        alone = group_each(shown[:MOST_CELLS], part)
        made = _groups(alone, values_by_axis(cells), left=len(cells) - MOST_CELLS, each=True)
        yield el("details", el("summary", f"each of the {len(cells)} cells by itself"), made)


def group_each(rows: Sequence[Row], part: Part) -> list[Group]:
    """Cells as rows of their own."""
    return [one for cell in cells_of(rows, part.glances) for one in group([cell])]


def _groups(groups: Sequence[Group], axes: Mapping[str, Sequence[object]], *, left: int, each: bool = False) -> Markup:
    varied = [name for name, values in axes.items() if len(values) > 1]
    expects = any(one.expected for one in groups)
    head = [
        "variant",
        *map(one_line, varied),
        "verdicts",
        "bug seen",
        "shape of hangs",
        *(["expected"] if expects else []),
    ]
    lines = [el("tr", _group(one, axes, varied, expects=expects)) for one in groups]
    fixed = "; ".join(
        f"{one_line(name)} {one_line(str(values[0]))}" for name, values in axes.items() if len(values) == 1
    )
    told = "each cell" if each else "cells that came out alike stand together"
    more = f"; {plural(left, 'more row')} left out" if left > 0 else ""
    return table(head, lines, caption=f"{told}{f'; always {fixed}' if fixed else ''}{more}")


def _group(
    one: Group, axes: Mapping[str, Sequence[object]], varied: Sequence[str], *, expects: bool
) -> Iterator[Markup]:
    yield el("th", one_line(one.variant), scope="row")
    for name in varied:
        yield el("td", axis_text(one.axes.get(name, ()), axes[name]))  # type: ignore[arg-type]
    yield el("td", verdicts(one.counts))
    yield el("td", _seen(one.counts))
    yield el("td", shapes_text(one.shapes))
    if expects:
        fit = {True: "as expected", False: "NOT as expected", None: "nothing conclusive"}[one.ok]
        kind = {True: "good", False: "bad", None: "dim"}[one.ok]
        yield el("td", f"{expected_text(one)}: ", el("span", fit, class_=kind))
