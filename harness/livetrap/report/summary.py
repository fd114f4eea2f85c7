"""The closing table of a campaign, and the words below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from livetrap.claims import fix_claims, seen_text
from livetrap.expectations import Outcome
from livetrap.expectations import Row as CellRow
from livetrap.model import BUGS, HANGS, UNCOUNTED, Record, Shape, Value, Verdict, cell_key
from livetrap.report.grouping import Cell, Row, group, values_by_axis
from livetrap.report.text import one_line, plural, print_columns, seconds, styled
from livetrap.store import Glance

MOST_DEVIATIONS = 10
"""Cells that are not as expected and are told of in words; the table has them all."""
DEVIATION = "not as expected: "
SEEN = "bug seen"
"""Head of the column with rates and their intervals."""


def print_summary(console: Console, outcome: Outcome, records: Sequence[Record]) -> None:
    """The table, and below it what the expectations say of the run."""
    cells = [cell for cell in cells_of(outcome.rows, records) if cell.counts]
    if cells:
        console.print()
        _print_table(console, cells)
        console.print()
    for claim in fix_claims(outcome.rows):
        console.print(one_line(claim.text, most=2000), soft_wrap=True)
    deviations = [text for text in outcome.messages if text.startswith(DEVIATION)]
    for message in outcome.messages:
        if message not in deviations[MOST_DEVIATIONS:]:
            console.print(one_line(message, most=2000), soft_wrap=True)
    if len(deviations) > MOST_DEVIATIONS:
        console.print(f"and {len(deviations) - MOST_DEVIATIONS} more cells that are {DEVIATION.rstrip(': ')}")


def print_end(
    console: Console,
    outcome: Outcome,
    records: Sequence[Record],
    *,
    took_s: float,
    db: Path,
    interrupted: bool = False,
    failed: bool = False,
) -> None:
    """The last lines: how it ended, and where the record is. `failed`: it ended early, not by an interruption."""
    verdict = {0: "as expected", 1: "NOT as expected"}.get(outcome.exit_status, "nothing is said")
    if interrupted or failed:
        verdict = "interrupted" if interrupted else "ended early"
    seen = sum(row.seen > 0 for row in outcome.rows)
    done = f"{plural(seen, 'cell')}, {plural(len(records), 'trial')} in {seconds(took_s)}"
    console.print(Text.assemble((f"{verdict}: ", "bold"), done))
    if records:
        telling = max(records, key=lambda record: (record.as_expected is False, record.verdict in HANGS, -record.id))
        console.print(f"record: {db}  (one trial of it: livetrap show {db} {telling.id})", soft_wrap=True)


def cells_of(rows: Iterable[CellRow], records: Iterable[Record | Glance]) -> list[Cell]:
    """The cells as `grouping` takes them, with the shapes of their hangs."""
    shapes: dict[str, list[Shape]] = {}
    for record in records:
        if record.verdict in HANGS:
            shapes.setdefault(cell_key(record.variant, record.cell), []).append(record.shape)
    return [
        Cell(
            variant=row.variant,
            role=row.role,
            axes=row.cell,
            counts=counts_of(row),
            shapes=tuple(dict.fromkeys(shapes.get(cell_key(row.variant, row.cell), ()))),
            expected=row.expected,
            rate=row.rate,
            ok=row.ok,
        )
        for row in rows
    ]


def counts_of(row: CellRow) -> dict[Verdict, int]:
    """The verdicts of a cell, those that do not count last."""
    apart = {Verdict.SKIPPED: row.skipped, Verdict.INCONCLUSIVE: row.inconclusive, Verdict.ERROR: row.error}
    return {**row.verdicts, **{verdict: count for verdict, count in apart.items() if count}}


def _print_table(console: Console, cells: Sequence[Cell]) -> None:
    """The rows; a column that would say the same in all of them is left out."""
    axes = values_by_axis(cells)
    rows = group(cells)
    varied = {
        name: values
        for name, values in axes.items()
        if len(cells) == 1 or any(len(row.axes.get(name, values)) != len(values) for row in rows)
    }
    deviates = any(row.ok is False for row in rows)
    console.print(Text("; ".join(f"{one_line(name)} {values_text(axes[name])}" for name in axes), style="dim"))
    lines = [
        [
            _mark(row),
            Text(one_line(row.variant)),
            *(Text(axis_text(row.axes.get(name, ()), values)) for name, values in varied.items()),
            verdicts_text(row.counts),
            Text(_rate(row)),
            Text(shapes_text(row.shapes)),
            *([Text(expected_text(row))] if deviates else []),
        ]
        for row in rows
    ]
    head = ["ok", "variant", *map(one_line, varied), "verdicts", SEEN, "shape"]
    print_columns(console, [*head, *(["expected"] if deviates else [])], lines, whole=[SEEN])


def _rate(row: Row) -> str:
    """How often the bug showed, with its interval; of conclusive trials alone."""
    counted = {verdict: count for verdict, count in row.counts.items() if verdict not in UNCOUNTED}
    return seen_text(counted) if counted else ""


def axis_text(values: Sequence[Value], all_values: Sequence[Value]) -> str:
    """Values of an axis; `all` where they are all of several."""
    return "all" if len(values) == len(all_values) > 1 else values_text(values)


def values_text(values: Sequence[Value]) -> str:
    """Values of an axis, with a space after each comma so that the text can wrap."""
    return ", ".join(one_line(str(value)) for value in values)


def verdicts_text(counts: Mapping[Verdict, int]) -> Text:
    """`livelock 70/72, slow 2/72`: of all trials of the row."""
    total = sum(counts.values())
    return Text(", ").join(styled(verdict, f"{verdict.value} {count}/{total}") for verdict, count in counts.items())


def shapes_text(shapes: Sequence[Shape]) -> str:
    """Several shapes as ranges: `1-7 spinning, 1 exited`."""
    parts = []
    for name in Shape.__struct_fields__:
        counts = sorted({getattr(shape, name) for shape in shapes})
        if any(counts):
            parts.append(f"{counts[0]}{f'-{counts[-1]}' if len(counts) > 1 else ''} {name}")
    return ", ".join(parts)


def expected_text(row: Row) -> str:
    """What is expected of the cells of a row, in words."""
    expected = "a bug" if frozenset(row.expected) >= BUGS else " or ".join(verdict.value for verdict in row.expected)
    return expected + (f", {row.rate}" if row.rate else "")


def _mark(row: Row) -> Text:
    if row.ok is None:
        return Text("-", style="dim")
    return Text("ok", style="green") if row.ok else Text("NO", style="bold red")
