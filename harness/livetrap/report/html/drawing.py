"""A trial over time as an SVG: one lane a thread, the stall marked; and the same as a table. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from livetrap.model import Role
from livetrap.report.html.frame import row, scrolled, table
from livetrap.report.html.lanes import Lane, Lanes, Span
from livetrap.report.html.markup import Markup, el
from livetrap.report.text import plural, seconds

LABELS, WIDTH, RIGHT = 190, 720, 14
"""Widths of the labels, of the time, and of what is right of it; in units of the drawing."""
TOP, LANE, GAP, BEATS, AXIS = 26, 24, 5, 6, 34
"""Heights: above the lanes, of a lane, between two, of the ticks of its beats, of the axis."""
LEAST_SHARE = 0.02
"""A smaller part of a span is not drawn."""
STALL = "the stall begins"
STYLE = """
svg.lanes { min-width: 44rem; font: 12px system-ui, sans-serif } svg.lanes text { fill: var(--ink) }
svg.lanes text.faint { fill: var(--faint) } .l-asleep { fill: var(--asleep) } .l-cpu { fill: var(--cpu) }
.l-wait { fill: var(--wait) } .l-awake { fill: var(--cpu); fill-opacity: .45 }
.l-beat { stroke: var(--beat); stroke-width: 1.4; fill: none } .l-stall { fill: var(--stall) }
.l-edge { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 4 3 } .l-axis { stroke: var(--faint); fill: none }
.l-mark { fill: var(--link) } .l-stripe { stroke: var(--paper); stroke-width: 2 }
.legend { list-style: none; padding: 0; margin: .3rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem;
  font-size: .9rem } .legend svg { width: 1.5rem; height: 1rem; vertical-align: -2px; margin-right: .35rem }
"""


def draw(lanes: Lanes, *, name: str, title: str) -> Markup:
    """The drawing with its legend and its table; `name`: a word of letters and digits, unique in the page."""
    height = TOP + len(lanes.lanes) * (LANE + GAP) + AXIS
    x = _scale(lanes)
    drawn = el(
        "svg",
        el("title", title, id=f"{name}-t"),
        el("desc", describe(lanes), id=f"{name}-d"),
        el("defs", _stripes(f"{name}-w")),
        _stall(lanes, x=x, height=height),
        (_lane(lane, place, x=x, name=name) for place, lane in enumerate(lanes.lanes)),
        _edges(lanes, x=x, height=height),
        _axis(lanes, x=x, height=height),
        viewBox=f"0 0 {LABELS + WIDTH + RIGHT} {height}",
        class_="lanes",
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
    )
    out = f"; {plural(lanes.left_out, 'more thread')} not shown" if lanes.left_out else ""
    return el(
        "figure",
        el("figcaption", f"{describe(lanes)} The height of a bar is its share of the time{out}.", class_="small"),
        _legend(lanes, name=name),
        scrolled(drawn, label=title),
        _table(lanes),
        class_="lanes",
    )


def describe(lanes: Lanes) -> str:
    """What the drawing shows, in a sentence or two."""
    took = seconds(lanes.end_s - lanes.begin_s)
    span = f"{plural(len(lanes.lanes), 'thread')} over {took}, {plural(lanes.looks, 'look')}"
    if not lanes.stalled:
        return f"{span}."
    if lanes.last_beat_s is None:
        return f"{span}. No beat in all of the time that is shown."
    return f"{span}. The stall: no beat from {lanes.last_beat_s:.3f} s to the verdict at {lanes.settled_s:.3f} s."


def _scale(lanes: Lanes) -> Callable[[float], float]:
    took = max(lanes.end_s - lanes.begin_s, 1e-9)
    return lambda at_s: LABELS + WIDTH * min(1.0, max(0.0, (at_s - lanes.begin_s) / took))


def _stall(lanes: Lanes, *, x: Callable[[float], float], height: int) -> Markup | None:
    if not lanes.stalled:
        return None
    left = x(lanes.begin_s if lanes.last_beat_s is None else lanes.last_beat_s)
    width = x(lanes.settled_s) - left
    return el("rect", x=_n(left), y=TOP - 4, width=_n(width), height=height - TOP - AXIS + 8, class_="l-stall")


def _edges(lanes: Lanes, *, x: Callable[[float], float], height: int) -> Iterator[Markup]:
    """Where the stall begins and where the verdict fell, and triangles where evidence was gathered."""
    bottom = height - AXIS + 4
    edges = [(lanes.settled_s, "verdict", "end")]
    if lanes.last_beat_s is not None and lanes.stalled:
        edges.append((lanes.last_beat_s, STALL, "end" if x(lanes.last_beat_s) > LABELS + 0.5 * WIDTH else "start"))
    near = len(edges) > 1 and abs(x(edges[0][0]) - x(edges[1][0])) < 110
    for at_s, what, anchor in edges:
        at = x(at_s)
        yield el("line", x1=_n(at), y1=TOP - 6, x2=_n(at), y2=bottom, class_="l-edge")
        if what == STALL and near:
            yield el("text", what, x=_n(at - 4), y=TOP - 12, text_anchor="end")
        else:
            yield el("text", what, x=_n(at), y=TOP - 12, text_anchor=anchor)
    for mark in lanes.marks:
        at = x(mark.at_s)
        shape = el("path", d=f"M{_n(at)} {bottom - 1}l4 7h-8z", class_="l-mark")
        yield el("g", el("title", f"{mark.what} at {mark.at_s:.3f} s"), shape)


def _axis(lanes: Lanes, *, x: Callable[[float], float], height: int) -> Iterator[Markup]:
    base = height - AXIS + 10
    ticks = list(ticks_of(lanes.begin_s, lanes.end_s))
    places = "".join(f"M{_n(x(at))} {base}v4" for at in ticks)
    yield el("path", d=f"M{LABELS} {base}h{WIDTH}{places}", class_="l-axis")
    for at in ticks:
        yield el("text", f"{at:g}", x=_n(x(at)), y=base + 17, text_anchor="middle", class_="faint")
    yield el("text", "seconds", x=LABELS - 8, y=base + 17, text_anchor="end", class_="faint")


def ticks_of(begin: float, end: float, *, most: int = 8) -> Iterator[float]:
    """Round numbers from `begin` to `end`, `most` at most."""
    if end <= begin:
        return
    rough = (end - begin) / most
    power = 10.0 ** math.floor(math.log10(rough))
    apart = next(power * times for times in (1, 2, 5, 10, 20) if power * times >= rough)
    for number in range(math.ceil(begin / apart - 1e-9), math.floor(end / apart + 1e-9) + 1):
        yield float(f"{number * apart:.12g}")


# --- one lane --------------------------------------------------------------------------------------------------------


def _lane(lane: Lane, place: int, *, x: Callable[[float], float], name: str) -> Markup:
    top = TOP + place * (LANE + GAP)
    bars, bottom = LANE - BEATS, top + LANE
    first, last = x(lane.spans[0].begin_s), x(lane.spans[-1].end_s)
    label = f"{lane.id.pid}/{lane.id.tid} {role_text(lane)}"
    parts = [
        el("title", f"{label}: {', '.join(_figures(lane))}"),
        el("text", label, x=LABELS - 8, y=top + LANE - 7, text_anchor="end"),
        el("rect", x=_n(first), y=top + BEATS, width=_n(last - first), height=bars, class_="l-asleep"),
    ]
    for kind, boxes in _bars(lane.spans, x=x, bottom=bottom, height=bars).items():
        if boxes:
            striped = kind == "wait"
            parts.append(
                el(
                    "path",
                    d=boxes,
                    class_=None if striped else f"l-{kind}",
                    fill=f"url(#{name}-w)" if striped else None,
                )
            )
    beats = "".join(f"M{_n((x(span.begin_s) + x(span.end_s)) / 2)} {top}v{BEATS}" for span in lane.spans if span.beats)
    if beats:
        parts.append(el("path", d=beats, class_="l-beat"))
    return el("g", parts)


def role_text(lane: Lane) -> str:
    """What it did, in a word; of a thread that was not judged, nothing."""
    if lane.role is not None and lane.role is not Role.UNDECIDED:
        return lane.role.value
    return "stopped" if lane.stopped else ""


def _bars(spans: Sequence[Span], *, x: Callable[[float], float], bottom: int, height: int) -> dict[str, str]:
    """What stands in a lane, as paths: CPU, and waiting for one above it; or, where no clock is told, awake."""
    paths = {"cpu": "", "wait": "", "awake": ""}
    for kind, begin_s, end_s, ground, share in _merged(_shares(spans)):
        left, width = x(begin_s), x(end_s) - x(begin_s)
        tall = height * share
        paths[kind] += f"M{_n(left)} {_n(bottom - height * ground)}h{_n(width)}v{_n(-tall)}h{_n(-width)}z"
    return paths


Bar = tuple[str, float, float, float, float]
"""Kind, begin, end, where it stands and how tall it is, both as parts of the lane."""


def _shares(spans: Iterable[Span]) -> Iterator[Bar]:
    for span in spans:
        took = max(span.took_s, 1e-12)
        if span.cpu_s is None:
            yield "awake", span.begin_s, span.end_s, 0.0, _rounded(span.awake_s / took)
            continue
        cpu = _rounded(span.cpu_s / took)
        yield "cpu", span.begin_s, span.end_s, 0.0, cpu
        yield "wait", span.begin_s, span.end_s, cpu, min(1.0 - cpu, _rounded((span.waited_s or 0.0) / took))


def _rounded(share: float) -> float:
    return round(min(1.0, share) * 25) / 25


def _merged(bars: Iterable[Bar]) -> Iterator[Bar]:
    """Bars that are alike and side by side as one; those that are too low to be seen left out."""
    open_: dict[str, Bar] = {}
    for bar in bars:
        kind, begin_s, end_s, ground, share = bar
        held = open_.get(kind)
        if held and held[2] == begin_s and held[3:] == (ground, share):
            open_[kind] = (kind, held[1], end_s, ground, share)
            continue
        if held and held[4] >= LEAST_SHARE:
            yield held
        open_[kind] = bar
    yield from (bar for bar in open_.values() if bar[4] >= LEAST_SHARE)


def _n(value: float) -> str:
    """A coordinate, with one decimal where it needs one."""
    return f"{value:.1f}".removesuffix(".0")


def _stripes(id_: str) -> Markup:
    ground = el("rect", width=6, height=6, class_="l-wait")
    stripe = el("path", d="M0 6L6 0", class_="l-stripe")
    return el("pattern", ground, stripe, id=id_, width=6, height=6, patternUnits="userSpaceOnUse")


# --- beside the drawing ----------------------------------------------------------------------------------------------


def _legend(lanes: Lanes, *, name: str) -> Markup:
    clocks = any(span.cpu_s is not None for lane in lanes.lanes for span in lane.spans)
    entries = [("beat", "beats")]
    entries += (
        [("cpu", "on a CPU"), ("wait", "waiting for a CPU")] if clocks else [("awake", "awake (no clock is told)")]
    )
    entries += [("asleep", "asleep")]
    entries += [("stall", "the stall")] if lanes.stalled else []
    entries += [("mark", "evidence gathered, or the time limit")] if lanes.marks else []
    return el("ul", (el("li", _sample(kind, name=name), text) for kind, text in entries), class_="legend")


def _sample(kind: str, *, name: str) -> Markup:
    if kind == "beat":
        inside = [el("path", d="M4 2v10M10 2v10M16 2v10", class_="l-beat")]
    elif kind == "mark":
        inside = [el("path", d="M10 3l5 9h-10z", class_="l-mark")]
    else:
        striped = kind == "wait"
        fill = f"url(#{name}-w)" if striped else None
        inside = [el("rect", width=20, height=14, class_=None if striped else f"l-{kind}", fill=fill)]
    return el("svg", inside, viewBox="0 0 20 14", aria_hidden="true")


def _figures(lane: Lane) -> list[str]:
    return [
        plural(lane.beats, "beat"),
        f"{seconds(lane.total('cpu_s'))} on a CPU",
        f"{seconds(lane.total('waited_s'))} waiting for one",
        f"{seconds(lane.total('asleep_s'))} asleep",
    ]


def _table(lanes: Lanes) -> Markup:
    rows = [
        row(
            (
                f"{lane.id.pid}/{lane.id.tid}",
                role_text(lane) or "-",
                str(lane.beats),
                *(seconds(lane.total(name)) for name in ("cpu_s", "waited_s", "asleep_s")),
            )
        )
        for lane in lanes.lanes
    ]
    head = ("thread", "role", "beats", "on a CPU", "waiting for a CPU", "asleep")
    made = table(head, rows, caption="the same in figures: each thread over the time shown")
    return el("details", el("summary", "the same in figures"), made)
