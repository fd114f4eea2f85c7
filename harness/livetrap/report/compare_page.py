"""A comparison as one HTML file that needs nothing beside it: the plot as SVG, the table, and what it says."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from livetrap.comparison import DIRECT, SPIN, Row
from livetrap.errors import HarnessError
from livetrap.report.compare import HEAD, figures, missing, ordered
from livetrap.report.html.frame import check_html, frame, row, table
from livetrap.report.html.markup import Markup, el
from livetrap.report.place import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSTALL = "pip install 'livetrap[plot]'"
TITLE = "What correct barriers cost"
CAPTION = (
    "Solid: techniques that the policy allows; dotted: yardsticks. Bars reach from quartile to quartile of the runs, a "
    "triangle is a lower bound. The dashed line is where there are as many threads as CPUs that they may use."
)
_STYLE = """
figure { margin: 1rem 0 } figure svg { background: #fff; border-radius: 4px }
"""


def check_page(target: str) -> None:
    """Raises HarnessError where a page could not be written: no matplotlib (status 3), or a bad place for the file."""
    if importlib.util.find_spec("matplotlib") is None:
        raise HarnessError(f"--html needs matplotlib, which is not here: {INSTALL}", status=3)
    check_html(target)


def write_page(
    target: str, rows: Sequence[Row], *, words: Sequence[str], notes: Sequence[str], machine: Mapping[str, str]
) -> None:
    """Writes the page. HarnessError, status 3: it cannot be written."""
    write_whole(Path(target), page(rows, words=words, notes=notes, machine=machine))


def page(rows: Sequence[Row], *, words: Sequence[str], notes: Sequence[str], machine: Mapping[str, str]) -> str:
    """The page as text."""
    ranked = ordered(rows)
    about = "; ".join(f"{name} {value}" for name, value in machine.items() if value)
    body = [el("h1", TITLE), *(el("p", text) for text in words)]
    if ranked:
        drawn = el("figure", Markup(plot(ranked)), el("figcaption", CAPTION, class_="small"))
        body += [drawn, _table(ranked)]
    body += [el("p", text, class_="small") for text in (*missing(rows), *notes, about) if text]
    return frame(TITLE, by="compare", body=body, style=_STYLE, styled_inside=True)


def _table(ranked: Sequence[Row]) -> Markup:
    head = ("threads", "CPUs", "placement", "flags", "compiler", *HEAD)
    lines = []
    before = None
    for one in ranked:
        here = one.cell.situation
        kinds = ["first"] if here != before else []
        kinds += ["faint"] if one.cell.barrier in {*DIRECT, SPIN} else []
        before = here
        values = (
            *(str(here.threads), str(here.cpus), here.placement, here.flags, here.compiler),
            one.cell.barrier,
            *figures(one),
        )
        lines.append(row(values, class_=" ".join(kinds) or None))
    return table(head, lines, caption="the same in figures; yardsticks are fainter")


# --- the plot --------------------------------------------------------------------------------------------------------


def plot(table: Sequence[Row]) -> str:
    """Time and CPU time of a round over the number of threads, as an SVG element: a column for each placement, flags
    and compiler, a line for each barrier; below a bound, a triangle."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to load
    from matplotlib.figure import Figure  # noqa: PLC0415

    families = list(dict.fromkeys(_family(row) for row in table))
    barriers = sorted({row.cell.barrier for row in table}, key=lambda name: (name in DIRECT, name == SPIN, name))
    figure = Figure(figsize=(1.6 + 4.2 * len(families), 7.4), layout="constrained")
    axes = figure.subplots(2, len(families), squeeze=False, sharex="col", sharey="row")
    for column, family in enumerate(families):
        mine = [row for row in table if _family(row) == family]
        for place, barrier in enumerate(barriers):
            for upper, drawn in ((True, axes[0][column]), (False, axes[1][column])):
                _draw(drawn, [row for row in mine if row.cell.barrier == barrier], place, wall=upper)
        axes[0][column].set_title(", ".join(family), fontsize=10)
        axes[1][column].set_xlabel("threads")
        _finish(axes[0][column], axes[1][column], mine)
    axes[0][0].set_ylabel("ns a round")
    axes[1][0].set_ylabel("CPU ns a round, all threads")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), frameon=False, fontsize=9)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "livetrap"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _family(row: Row) -> tuple[str, str, str]:
    where = row.cell.situation
    return (where.placement, where.flags, where.compiler)


def _draw(axes: Axes, rows: Sequence[Row], place: int, *, wall: bool) -> None:
    found = sorted((row.cell.situation.threads, row) for row in rows)
    points = [(threads, row.ns if wall else row.cpu_ns, row.at_least) for threads, row in found]
    known = [(threads, one, least) for threads, one, least in points if one is not None]
    name = rows[0].cell.barrier if rows else ""
    yardstick = name in {*DIRECT, SPIN}
    axes.errorbar(
        [threads for threads, _, _ in known],
        [one.median for _, one, _ in known],
        yerr=[[one.median - one.low for _, one, _ in known], [one.high - one.median for _, one, _ in known]],
        label=name or None,
        color=f"C{place % 10}",
        linestyle=":" if yardstick else "-",
        marker="o",
        markersize=4,
        capsize=2,
        linewidth=1.4,
    )
    bounds = [(threads, one.median) for threads, one, least in known if least]
    if bounds:
        axes.plot(*zip(*bounds, strict=True), linestyle="", marker="^", markersize=9, color=f"C{place % 10}")


def _finish(upper: Axes, lower: Axes, rows: Sequence[Row]) -> None:
    counts = sorted({row.cell.situation.threads for row in rows})
    for axes in (upper, lower):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.grid(True, alpha=0.3)
        axes.axvline(rows[0].cell.situation.cpus, color="#999", linestyle="--", linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
