"""What correct barriers cost, as a table, in words and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from livetrap.comparison import DIRECT, NOISY, SPIN, Advice, Figure, Row, Situation, usual_spread
from livetrap.model import Frozen
from livetrap.report.text import one_line, plural, print_columns

HEAD = ("barrier", "a round", "spread", "CPU a round", "slowdown")
"""Columns of every table; before them those in which the situations differ."""
STEPS = ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6))
NO_WORK = (
    "there is no work between the rounds, so that waits are short: where they are long, a barrier that spins spends "
    "CPU time for as long as they last, one that sleeps next to none"
)


class Line(Frozen, kw_only=True):
    """A row as `--json` writes it; times in ns a round."""

    schema: int = 1
    barrier: str
    ours: bool
    """One of the techniques; false: called directly."""
    threads: int
    placement: str
    flags: str
    compiler: str
    cpus: int
    outnumbered: bool
    state: str
    ns: Figure | None
    cpu_ns: Figure | None
    slowdown: float | None
    runs: int
    reason: str


class Closing(Frozen, kw_only=True):
    """The last line of `--json`."""

    schema: int = 1
    advice: Advice
    words: tuple[str, ...]
    notes: tuple[str, ...]
    interrupted: bool


def line_of(row: Row) -> Line:
    """A row for `--json`."""
    where = row.cell.situation
    return Line(
        barrier=row.cell.barrier,
        ours=row.cell.barrier not in DIRECT,
        threads=where.threads,
        placement=where.placement,
        flags=where.flags,
        compiler=where.compiler,
        cpus=where.cpus,
        outnumbered=where.outnumbered,
        state=row.state,
        ns=row.ns,
        cpu_ns=row.cpu_ns,
        slowdown=row.slowdown,
        runs=row.runs,
        reason=row.reason,
    )


def duration(ns: float) -> str:
    """Nanoseconds with as many digits as mean something: `83 ns`, `1.2 µs`, `45 ms`, `2.1 s`."""
    for below, unit, scale in STEPS:
        if ns < below * 0.9995:
            value = ns / scale
            return f"{value:.2g} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{ns / 1e9:.2g} s" if ns < 9.95e9 else f"{ns / 1e9:.0f} s"


def factor(value: float) -> str:
    """`0.85`, `3.4`, `120`."""
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"


def situation_text(one: Situation) -> str:
    """`16 threads on 2 CPUs`, with the placement where it is not free."""
    where = "" if one.placement == "free" else f", {one.placement}"
    return f"{plural(one.threads, 'thread')} on {plural(one.cpus, 'CPU')}{where}"


def figures(row: Row) -> tuple[str, str, str, str]:
    """The figures of a row in words: a round, its spread, CPU a round, slowdown."""
    if row.ns is None:
        return ("-", "", "-", "")
    least = "≥ " if row.at_least else ""
    return (
        f"{least}{duration(row.ns.median)}",
        "" if row.at_least or row.runs < 2 else f"±{row.ns.spread * 100:.0f} %",
        duration(row.cpu_ns.median) if row.cpu_ns else "-",
        f"{least}{factor(row.slowdown)}x" if row.slowdown is not None else "",
    )


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Those with figures: situation by situation, the fastest first."""
    found = [row for row in rows if row.ns is not None]
    places = {where: place for place, where in enumerate(dict.fromkeys(_family(row) for row in found))}
    return sorted(
        found,
        key=lambda row: (places[_family(row)], row.cell.situation.threads, row.ns.median if row.ns else 0.0),
    )


def _family(row: Row) -> tuple[str, str, str]:
    where = row.cell.situation
    return (where.placement, where.flags, where.compiler)


def varied(rows: Sequence[Row]) -> tuple[str, ...]:
    """Axes beside the threads that have several values among the rows."""
    names = ("placement", "flags", "compiler")
    return tuple(name for name in names if len({getattr(row.cell.situation, name) for row in rows}) > 1)


def print_comparison(console: Console, rows: Sequence[Row], words: Sequence[str], notes: Sequence[str]) -> None:
    """The table, what was not measured and why, and which one to take."""
    table = ordered(rows)
    if table:
        console.print()
        _print_table(console, table)
        console.print()
    for text in (*missing(rows), *notes, *words):
        console.print(one_line(text, most=2000), soft_wrap=True)


def _print_table(console: Console, table: Sequence[Row]) -> None:
    axes = varied(table)
    where = table[0].cell.situation
    same = [name for name in ("placement", "flags", "compiler") if name not in axes]
    console.print(Text("; ".join(f"{name} {one_line(getattr(where, name))}" for name in same), style="dim"))
    lines: list[list[Text]] = []
    before: Situation | None = None
    for row in table:
        here = row.cell.situation
        first = here != before
        before = here
        lead = [f"{here.threads} on {plural(here.cpus, 'CPU')}", *(one_line(getattr(here, name)) for name in axes)]
        style = "dim" if row.cell.barrier in {*DIRECT, SPIN} else ""
        lines.append(
            [
                *(Text(text if first else "") for text in lead),
                Text(row.cell.barrier, style=style),
                *(Text(text, style=style) for text in figures(row)),
            ]
        )
    head = ["threads", *axes, *HEAD]
    print_columns(console, head, lines, whole=head)


def missing(rows: Iterable[Row]) -> list[str]:
    """What was not measured, one line for each reason."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.ns is None:
            found.setdefault((row.state, row.reason), []).append(row)
    return [f"{state}: {_those(those)}: {reason}" for (state, reason), those in found.items()]


def _those(rows: Sequence[Row]) -> str:
    barriers = dict.fromkeys(row.cell.barrier for row in rows)
    places = dict.fromkeys(situation_text(row.cell.situation) if row.cell.situation.cpus else "" for row in rows)
    named = ", ".join(place for place in places if place)
    return f"{', '.join(barriers)}{f' ({named})' if named and len(places) <= 3 else ''}"


# --- which one to take -----------------------------------------------------------------------------------------------


def advice_words(advice: Advice, rows: Sequence[Row]) -> tuple[str, ...]:
    """What the fix costs and which one to take, in a few lines."""
    if not advice.take:
        return ("no advice: no technique that the policy allows was measured in every situation",)
    best = advice.standings[0]
    mine = {row.cell.situation: row for row in rows if row.cell.barrier == advice.take and row.ns}
    spin = {row.cell.situation: row for row in rows if row.cell.barrier == SPIN and row.ns}
    shown = _telling(list(mine))
    costs = ", ".join(f"{figures(mine[one])[0]} a round with {situation_text(one)}" for one in shown)
    worst = f"at worst {factor(best.worst)} times the fastest" if best.worst > 1.005 else "the fastest throughout"
    words = [f"take {advice.take}: {costs}; {worst} of those that the policy allows"]
    against = [_against(mine[one], spin[one], one) for one in shown if one in spin]
    if against:
        words.append(f"what the fix costs against {SPIN}, a spin that never yields: {', '.join(against)}")
    if advice.least_cpu != advice.take:
        least = next(each for each in advice.standings if each.technique == advice.least_cpu)
        words.append(
            f"the least CPU time is that of {advice.least_cpu}, {factor(least.cpu / best.cpu)} of {advice.take}'s on "
            f"average, and it is at worst {factor(least.worst)} times the fastest"
        )
    noise = usual_spread(rows)
    if noise > NOISY:
        words.append(
            f"the runs of a cell differ by ±{noise * 100:.0f} %, as a rule: smaller differences than that mean "
            "nothing; a quiet machine and a longer --for would tell more"
        )
    return (*words, NO_WORK)


def _telling(found: Sequence[Situation]) -> list[Situation]:
    """The widest in which threads do not outnumber CPUs, and the one where they do most."""
    calm = max((one for one in found if not one.outnumbered), key=lambda one: one.threads, default=None)
    crowded = max((one for one in found if one.outnumbered), key=lambda one: one.threads / one.cpus, default=None)
    return [one for one in (calm, crowded) if one is not None]


def _against(mine: Row, spin: Row, where: Situation) -> str:
    if mine.ns is None or spin.ns is None:
        return ""
    ratio = mine.ns.median / max(1e-3, spin.ns.median)
    under = "under " if spin.at_least else ""
    return f"{under}{factor(ratio)} times its time with {situation_text(where)}"
