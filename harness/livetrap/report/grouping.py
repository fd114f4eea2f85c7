"""Brings the cells of a campaign together into few rows. Pure.

A row is a product of axis values: every combination of its values, and nothing else, is in it. Cells meet in a row only
when they are of one variant, gave the same verdicts and are as expected; any other cell keeps a row of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from livetrap.model import Frozen, Shape, Value, VariantRole, Verdict

MERGE_FIRST = ("threads", "placement", "flags", "compiler")
"""Axes that are brought together first, in this order; then the others."""


class Cell(Frozen):
    """What came out of one cell."""

    variant: str
    role: VariantRole
    axes: dict[str, Value]
    counts: dict[Verdict, int]
    shapes: tuple[Shape, ...] = ()
    """Of the hangs, each once."""
    expected: tuple[Verdict, ...] = ()
    ok: bool | None = None
    """None: nothing conclusive, or nothing expected."""
    rate: str = ""
    """Bounds of the rate that is expected, in words."""


class Row(Frozen):
    """Cells that are shown together."""

    variant: str
    role: VariantRole
    axes: dict[str, tuple[Value, ...]]
    cells: int
    counts: dict[Verdict, int]
    shapes: tuple[Shape, ...]
    expected: tuple[Verdict, ...]
    ok: bool | None
    rate: str


def group(cells: Iterable[Cell]) -> list[Row]:
    """The cells as rows, variants and axis values in the order of their first appearance."""
    cells = list(cells)
    rows = [_row(cell) for cell in cells]
    axes = values_by_axis(cells)
    for name in sorted(axes, key=lambda name: MERGE_FIRST.index(name) if name in MERGE_FIRST else len(MERGE_FIRST)):
        rows = _merge(rows, name, axes[name])
    variants = _order(cell.variant for cell in cells)
    return sorted(rows, key=lambda row: (variants.index(row.variant), row.ok is not False))


def values_by_axis(cells: Sequence[Cell]) -> dict[str, tuple[Value, ...]]:
    """All axes, each with all the values that it has in some cell."""
    names = dict.fromkeys(name for cell in cells for name in cell.axes)
    return {name: tuple(_order(cell.axes[name] for cell in cells if name in cell.axes)) for name in names}


def _row(cell: Cell) -> Row:
    return Row(
        variant=cell.variant,
        role=cell.role,
        axes={name: (value,) for name, value in cell.axes.items()},
        cells=1,
        counts=dict(cell.counts),
        shapes=cell.shapes,
        expected=cell.expected,
        ok=cell.ok,
        rate=cell.rate,
    )


def _order(values: Iterable[Value]) -> list[Value]:
    """Numbers ascending, names as they first appear (they are listed with some thought)."""
    seen = list(dict.fromkeys(values))
    return sorted(seen, key=int) if all(isinstance(value, int) for value in seen) else seen


def _merge(rows: list[Row], axis: str, order: Sequence[Value]) -> list[Row]:
    """Rows that differ in this axis alone become one."""
    merged: dict[object, list[Row]] = {}
    for index, row in enumerate(rows):
        merged.setdefault(_alike(row, axis) if axis in row.axes and row.ok is not False else index, []).append(row)
    return [same[0] if len(same) == 1 else _union(same, axis, order) for same in merged.values()]


def _alike(row: Row, axis: str) -> object:
    """Equal for rows that may become one."""
    others = tuple((name, values) for name, values in sorted(row.axes.items()) if name != axis)
    return row.variant, row.expected, row.ok, row.rate, frozenset(row.counts), others


def _union(rows: list[Row], axis: str, order: Sequence[Value]) -> Row:
    first = rows[0]
    values = {value for row in rows for value in row.axes[axis]}
    counts: Counter[Verdict] = Counter()
    for row in rows:
        counts.update(row.counts)
    return Row(
        variant=first.variant,
        role=first.role,
        axes={**first.axes, axis: tuple(value for value in order if value in values)},
        cells=sum(row.cells for row in rows),
        counts=dict(counts),
        shapes=tuple(dict.fromkeys(shape for row in rows for shape in row.shapes)),
        expected=first.expected,
        ok=first.ok,
        rate=first.rate,
    )
