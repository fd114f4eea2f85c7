"""Heat maps: how often the bug showed over two axes, the others pooled or one value of one of them picked. Pure.

Each map is a table whose cells hold the figures too, so that nothing is told by colour alone. Which map is shown is a
matter of radio buttons and style; where a browser lacks what that needs, or for a printer, all are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from livetrap.expectations import Row
from livetrap.model import Frozen, Value
from livetrap.report.html.frame import scrolled
from livetrap.report.html.markup import Markup, el, join
from livetrap.report.html.tally import Pooled, axes_of, bug_words, pooled

FIRST = ("threads", "placement")
"""The axes of a map, where a campaign has them."""
MOST_VIEWS = 24
"""Maps of one variant: the first has all cells, each other those with one value of one axis."""
MOST_LINES, MOST_COLUMNS = 64, 24
MOST_FIELDS = 4000
"""Fields of all maps of a campaign together, as far as there is one map a variant at all."""
STEPS = 10

# From seldom to always; the text on each is black or white, whichever is easier to read.
_COLOURS = ("fff3c4", "fee79c", "fed976", "feb84f", "fd9a3c", "fb7535", "ea4a30", "c81f27", "a30f26", "7a0722")
_DARK_FROM = 8
_STEPS = "".join(
    f".h{step} {{ background: #{colour}; color: {'#fff' if step >= _DARK_FROM else '#000'} }}\n"
    for step, colour in enumerate(_COLOURS, start=1)
)
_PICKED = ",\n".join(
    f".maps:has(label:nth-of-type({view}) > input:checked) > div:nth-of-type({view})"
    for view in range(1, MOST_VIEWS + 1)
)
STYLE = f"""
table.heat td {{ padding: .3rem .6rem; text-align: center; border: 2px solid var(--paper); min-width: 4.2rem }}
table.heat th {{ padding: .3rem .8rem .3rem 0 }} table.heat thead th {{ border: 0; text-align: center }}
table.heat thead th:first-child {{ text-align: left }}
table.heat caption {{ width: max-content; max-width: min(36rem, 80vw) }}
table.heat .n {{ display: block; font-size: .8rem }}
.h0 {{ background: #e3efe6; color: #14351f }} .none {{ background: var(--tint); color: var(--faint) }}
@media (prefers-color-scheme: dark) {{ .h0 {{ background: #173223; color: #cdeed6 }} }}
{_STEPS}fieldset.views {{ border: 0; padding: 0; margin: .5rem 0; min-width: 0 }}
fieldset.views legend {{ float: left; padding: 0 .6rem 0 0; color: var(--faint) }}
fieldset.views label {{ margin-right: .9rem; display: inline-block; padding: .1rem 0 }}
@supports selector(:has(*)) {{ @media screen {{ .maps > div {{ display: none }}
{_PICKED} {{ display: block }} }} }}
"""


class View(Frozen, kw_only=True):
    """One map: counts over two axes."""

    name: str
    """What is in it, for the button: `all together`, `flags -O2`."""
    down: str
    """The axis of its lines; empty: there is none."""
    across: str
    lines: tuple[Value, ...]
    columns: tuple[Value, ...]
    counts: dict[tuple[Value, Value], Pooled]
    """By line and column; what was not run is not in it."""


def chosen_axes(axes: Mapping[str, Sequence[Value]]) -> tuple[str, str]:
    """Which axes go down and across: threads and placement, or what else varies where these do not.

    Empty names where there are no such axes: a campaign of one cell has no map to show.
    """
    varied = [name for name, values in axes.items() if len(values) > 1]
    first = [name for name in FIRST if name in varied]
    others = [name for name in varied if name not in FIRST]
    fixed = [name for name in FIRST if name in axes and name not in varied]
    if not varied:
        return "", ""
    # A single varied one of the two keeps the other as its companion, unless something else varies.
    names = [*first, *others, *fixed][:2]
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    if len(names) == 1:
        return names[0], ""
    return names[0], names[1]


def views(rows: Sequence[Row], *, fields: int = MOST_FIELDS) -> tuple[View, ...]:
    """The maps of some cells, most often of one variant, with so many fields in all; none where one cell was run."""
    axes = axes_of(rows)
    down, across = chosen_axes(axes)
    if not down:
        return ()
    made = [_view("all together", rows, down, across, axes)]
    most = min(MOST_VIEWS, fields // (len(made[0].lines) * len(made[0].columns)))
    for name, values in axes.items():
        if name in (down, across) or len(values) < 2:
            continue
        for value in values:
            if len(made) < most:
                chosen = [row for row in rows if row.cell.get(name) == value]
                made.append(_view(f"{name} {value}", chosen, down, across, axes))
    return tuple(made)


def _view(name: str, rows: Sequence[Row], down: str, across: str, axes: Mapping[str, tuple[Value, ...]]) -> View:
    places: dict[tuple[Value, Value], list[Row]] = {}
    for row in rows:
        place = (row.cell.get(down, ""), row.cell.get(across, "") if across else "")
        places.setdefault(place, []).append(row)
    return View(
        name=name,
        down=down,
        across=across,
        lines=axes[down],
        columns=axes[across] if across else ("",),
        counts={place: pooled(found) for place, found in places.items()},
    )


def draw(rows: Sequence[Row], *, title: str, group: str, fields: int = MOST_FIELDS) -> Markup | None:
    """The maps of some cells with the buttons that pick one; None: there is nothing to draw.

    `group`: a name for the buttons, unique in the page; `fields`: as for `views`.
    """
    made = views(rows, fields=fields)
    if not made:
        return None
    did = bug_words(rows)
    maps = [_map(view, did=did, alone=len(made) == 1) for view in made]
    if len(made) == 1:
        return el("section", el("h4", title), maps)
    buttons = [
        el("label", el("input", type="radio", name=group, checked=place == 0), f" {view.name}")
        for place, view in enumerate(made)
    ]
    picked = el(
        "fieldset",
        el("legend", "show", el("span", f" of {title}", class_="unseen")),
        (join([one, " "]) for one in buttons),
        class_="views",
    )
    return el("section", el("h4", title), picked, maps, class_="maps")


def _map(view: View, *, did: str, alone: bool) -> Markup:
    lines, columns = view.lines[:MOST_LINES], view.columns[:MOST_COLUMNS]
    over = f"{view.down} down, {view.across} across" if view.across else f"over {view.down}"
    rest = "" if alone else ", all other axes together" if view.name == "all together" else f", {view.name} alone"
    left = (
        "; only the first values are shown" if len(lines) < len(view.lines) or len(columns) < len(view.columns) else ""
    )
    caption = f"conclusive trials that {did}; {over}{rest}{left}"
    corner = f"{view.down} / {view.across}" if view.across else view.down
    head = [corner, *(str(value) if view.across else did for value in columns)]
    table = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", (el("th", name, scope="col") for name in head))),
        el("tbody", (el("tr", _line(view, line, columns)) for line in lines)),
        class_="heat",
    )
    return el("div", scrolled(table, label=caption))


def _line(view: View, line: Value, columns: Sequence[Value]) -> Iterator[Markup]:
    yield el("th", str(line), scope="row")
    for column in columns:
        counts = view.counts.get((line, column))
        if counts is None:
            yield el("td", el("span", "not run", class_="unseen"), class_="none")
        elif not counts.n:
            yield el("td", "-", el("span", f"{counts.apart} not counted", class_="n"), class_="none")
        else:
            figures = el("span", f"{counts.bugs} of {counts.n}", class_="n")
            yield el("td", share_text(counts.bugs, counts.n), figures, class_=f"h{step(counts.bugs, counts.n)}")


def step(bugs: int, n: int) -> int:
    """The colour of a rate: 0 where nothing showed, `STEPS` where all did, between these for all others."""
    if bugs in {0, n}:
        return STEPS if bugs else 0
    return min(STEPS - 1, 1 + bugs * (STEPS - 1) // n)


def share_text(bugs: int, n: int) -> str:
    """A share in percent, never rounded to none or to all: `0 %`, `< 1 %`, `37 %`, `> 99 %`, `100 %`."""
    percent = round(100 * bugs / n)
    if percent == 0 and bugs:
        return "< 1 %"
    return "> 99 %" if percent == 100 and bugs < n else f"{percent} %"
