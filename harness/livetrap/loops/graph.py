"""The control flow of one function and the loops in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from livetrap.loops.code import Code

Node = TypeVar("Node", bound=Hashable)
Graph = Mapping[int, tuple[int, ...]]


def flow_from(code: Code, entry: int) -> dict[int, tuple[int, ...]]:
    """Every instruction that can be reached from `entry` without calls and indirect jumps, and where it leads."""
    ways: dict[int, tuple[int, ...]] = {}
    todo = [entry]
    while todo:
        address = todo.pop()
        while address not in ways:
            step = code.at(address)
            if step is None:
                ways[address] = ()
                break
            ways[address] = step.ways()
            if not ways[address]:
                break
            todo.extend(ways[address][1:])
            address = ways[address][0]
    return ways


def backwards(ways: Mapping[Node, Iterable[Node]]) -> dict[Node, list[Node]]:
    """Of each node, those that lead to it."""
    found: dict[Node, list[Node]] = {}
    for node, nexts in ways.items():
        for each in nexts:
            found.setdefault(each, []).append(node)
    return found


def reaching(start: Iterable[Node], nexts: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """All that can be reached, the start included."""
    seen = set(start)
    todo = list(seen)
    while todo:
        for each in nexts(todo.pop()):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return seen


def cycle_through(ways: Mapping[Node, Iterable[Node]], node: Node) -> set[Node]:
    """The strongly connected component of `node`; empty where no way leads back to it."""
    before = backwards(ways)
    ahead: set[Node] = reaching(ways.get(node, ()), lambda each: ways.get(each, ()))
    behind: set[Node] = reaching([node], lambda each: before.get(each, []))
    return ahead & behind if node in ahead else set()


def loops_around(ways: Graph, *, entry: int, pc: int) -> Iterator[tuple[int, set[int]]]:
    """The natural loops that hold `pc`, the innermost first: (head, addresses). Of an irreducible one, or where `pc`
    cannot be reached from `entry`, the whole component, its head being `pc`."""
    component = cycle_through(ways, pc)
    if not component:
        return
    inside = {node: tuple(each for each in ways[node] if each in component) for node in component}
    entries = {entry} & component
    for node, nexts in ways.items():
        if node not in component:
            entries.update(component.intersection(nexts))
    natural = None
    if len(entries) == 1:  # from there on it is all the function that matters to its loops
        natural = _natural(inside, _dominators(inside, entries.pop()))
    if natural is None:
        yield pc, component
        return
    around = [(head, body) for head, body in natural.items() if pc in body]
    yield from sorted(around, key=lambda each: len(each[1]))


def _natural(ways: Graph, dominators: Mapping[int, int]) -> dict[int, set[int]] | None:
    """The natural loops of a component by their heads; None: some cycle in it has no head (it is irreducible)."""
    before = backwards(ways)
    order = {node: place for place, node in enumerate(dominators)}
    found: dict[int, set[int]] = {}
    for node in ways:
        for head in ways[node]:
            if order[head] > order[node]:
                continue
            if not _dominates(head, node, dominators, order):
                return None
            body = found.setdefault(head, {head})
            body |= _grown(node, head, before)
    return found


def _grown(node: int, head: int, before: Mapping[int, list[int]]) -> set[int]:
    """What leads to `node` without passing `head`."""
    return reaching([node], lambda each: () if each == head else before.get(each, ()))


def _dominates(head: int, node: int, dominators: Mapping[int, int], order: Mapping[int, int]) -> bool:
    while order[node] > order[head]:
        node = dominators[node]
    return node == head


def _dominators(ways: Graph, entry: int) -> dict[int, int]:
    """The immediate dominator of each node, in reverse post-order (Cooper, Harvey and Kennedy, 2001)."""
    order = _reverse_postorder(ways, entry)
    place = {node: index for index, node in enumerate(order)}
    before = backwards({node: ways[node] for node in order})
    found = {entry: entry}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            new: int | None = None
            for other in before.get(node, ()):
                if other not in found:
                    continue
                if new is None:
                    new = other
                    continue
                left, right = new, other
                while left != right:
                    while place[left] > place[right]:
                        left = found[left]
                    while place[right] > place[left]:
                        right = found[right]
                new = left
            if new is not None and found.get(node) != new:
                found[node] = new
                changed = True
    return {node: found[node] for node in order}


def _reverse_postorder(ways: Mapping[int, tuple[int, ...]], entry: int) -> list[int]:
    seen, done = {entry}, []
    stack = [(entry, iter(ways[entry]))]
    while stack:
        node, nexts = stack[-1]
        for each in nexts:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(ways.get(each, ()))))
                break
        else:
            stack.pop()
            done.append(node)
    return done[::-1]
