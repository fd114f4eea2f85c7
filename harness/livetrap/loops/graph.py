"""The control flow of one function and the loops in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from livetrap.loops.code import Code

Node = TypeVar("Node", bound=Hashable)
Graph = Mapping[int, tuple[int, ...]]
MOST_CYCLES = 3
"""Cycles of a component without natural loops that are offered beside all of it: each is followed anew."""


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


class Around(NamedTuple):
    """A loop that holds an instruction."""

    head: int
    body: set[int]
    natural: bool
    """All ways into it lead through its head."""


def loops_around(ways: Graph, *, entry: int, pc: int) -> Iterator[Around]:
    """The natural loops that hold `pc`, the innermost first. Of an irreducible component, or one with several entries:
    a few cycles that a jump backwards closes, then all of it, its head being `pc`.

    Such cycles are as good as natural loops: what is told of one rests on where its instructions lead, not on how it
    was entered. It is strongly connected and holds `pc`; it is followed from a state that has to fit the registers and
    memory as they are at `pc`, wherever the thread came from; and where no edge that leaves it is open then, the thread
    stays in it until memory changes. Whether the code around it is irreducible (mostly because a call that never
    returns is taken to return) does not matter to that.
    """
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
        cycles = _smallest_with(pc, _closed_backwards(inside))
        yield from (Around(head, body, False) for head, body in cycles[:MOST_CYCLES] if body != component)
        yield Around(pc, component, False)
        return
    yield from (Around(head, body, True) for head, body in _smallest_with(pc, natural))


def _smallest_with(pc: int, loops: Mapping[int, set[int]]) -> list[tuple[int, set[int]]]:
    return sorted(((head, body) for head, body in loops.items() if pc in body), key=lambda each: len(each[1]))


def _closed_backwards(ways: Graph) -> dict[int, set[int]]:
    """Cycles by their lowest address: what lies on a way from there to a jump back there and leaves neither the
    addresses between the two nor passes the first again. All that lies on such a way is in it, so that it is strongly
    connected; and so are several with the same head, together."""
    before = backwards(ways)
    found: dict[int, set[int]] = {}
    for last in ways:
        for head in ways[last]:
            if head > last:
                continue
            near = {node: [each for each in before[node] if head <= each <= last] for node in ways}
            behind = _grown(last, head, near)
            if head in behind:
                inside = {node: behind.intersection(ways[node]) for node in behind}
                found.setdefault(head, set()).update(reaching([head], inside.__getitem__))
    return found


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
