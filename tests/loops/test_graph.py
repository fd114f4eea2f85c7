"""Loops in small graphs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap.loops.graph import cycle_through, loops_around

Graph = dict[int, tuple[int, ...]]
NESTED: Graph = {0: (1,), 1: (2, 5), 2: (3,), 3: (2, 4), 4: (1,), 5: ()}
IRREDUCIBLE: Graph = {0: (1, 2), 1: (2,), 2: (1, 3), 3: ()}
# A poll at 3 and 4 amid what is entered at 1 and at 5, and a cycle over both.
AMID: Graph = {0: (1, 5), 1: (2,), 2: (3,), 3: (4,), 4: (3, 5), 5: (6,), 6: (1, 7), 7: ()}
# Two jumps back to 2 (from 3 and 4) are one cycle; 5 lies behind them, and jumps back into it.
JOINED: Graph = {0: (2, 4), 2: (3,), 3: (2, 4), 4: (2, 5), 5: (3, 6), 6: ()}
SELF: Graph = {0: (1,), 1: (1,)}


def _loops(ways: Graph, pc: int, entry: int = 0) -> list[tuple[int, set[int]]]:
    return [(each.head, each.body) for each in loops_around(ways, entry=entry, pc=pc)]


@pytest.mark.parametrize(
    ("ways", "pc", "loops"),
    [
        (NESTED, 3, [(2, {2, 3}), (1, {1, 2, 3, 4})]),
        (NESTED, 4, [(1, {1, 2, 3, 4})]),
        (NESTED, 0, []),
        (NESTED, 5, []),
        (IRREDUCIBLE, 2, [(2, {1, 2})]),
        (AMID, 3, [(3, {3, 4}), (3, {1, 2, 3, 4, 5, 6})]),
        (AMID, 6, [(6, {1, 2, 3, 4, 5, 6})]),
        (JOINED, 2, [(2, {2, 3, 4}), (2, {2, 3, 4, 5})]),
        (JOINED, 5, [(3, {3, 4, 5}), (5, {2, 3, 4, 5})]),
        (SELF, 1, [(1, {1})]),
    ],
)
def test_loops_around(ways: Graph, pc: int, loops: list[tuple[int, set[int]]]) -> None:
    assert _loops(ways, pc) == loops


def test_without_an_entry_it_is_all_that_leads_back() -> None:
    assert _loops(NESTED, 3, entry=3)[-1][1] == {1, 2, 3, 4}


def _dominates(ways: Graph, entry: int, head: int, node: int) -> bool:
    """The slow way: no path leads there without it."""
    seen, todo = {head}, [] if entry == head else [entry]
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            todo.extend(ways[each])
    return node == head or node not in seen


@given(
    st.integers(2, 7).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=2, unique=True).map(tuple), min_size=n, max_size=n)
    )
)
def test_against_the_definition(rows: list[tuple[int, ...]]) -> None:
    ways = dict(enumerate(rows))
    reached = {0}
    for _ in ways:
        reached |= set(itertools.chain.from_iterable(ways[each] for each in reached))
    ways = {node: nexts for node, nexts in ways.items() if node in reached}
    for pc in ways:
        component = cycle_through(ways, pc)
        loops = _loops(ways, pc)
        assert bool(component) == bool(loops) or all(pc not in body for _, body in _every_natural(ways, component))
        for head, body, natural in loops_around(ways, entry=0, pc=pc):
            assert pc in body <= component
            assert cycle_through({node: tuple(body.intersection(ways[node])) for node in body}, pc) == body
            if natural:
                assert all(_dominates(ways, 0, head, node) for node in body), (ways, pc, head, body)
                assert any(head in ways[node] for node in body)


def _every_natural(ways: Graph, component: set[int]) -> list[tuple[int, set[int]]]:
    return [
        (head, {node for node in component if _dominates(ways, 0, head, node)})
        for node in component
        for head in ways[node]
        if head in component and _dominates(ways, 0, head, node)
    ]
