"""Follows a loop once around, through the leaves that it calls: what holds at its head again, and on what it depends.

Every place (register, flags, word that the loop writes) starts as "what it held at the head"; instructions are executed
over such values until nothing new comes up. Branches that can only go one way are followed that way alone.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from livetrap.loops import arm64, x86
from livetrap.loops.code import Code, Step
from livetrap.loops.found import Puzzle, Read
from livetrap.loops.linkage import table_jump
from livetrap.loops.machine import Access, Branch, Machine, cannot, overlap
from livetrap.loops.values import CHANGES, MERGED, OPAQUE, Flags, Place, State, Value, cut, joined, number

MOST_ROUNDS = 1500
"""Instructions executed for one loop, all passes together ..."""
MOST_NODES = 250
"""... and different ones, with those of the leaves that it calls."""
_DEPTH = 2  # of calls that are followed

ARCHES: dict[str, ModuleType] = {"x86_64": x86, "arm64": arm64}


class Node(NamedTuple):
    """An instruction, and the calls that led to it."""

    calls: tuple[int, ...]
    address: int


class Passed(NamedTuple):
    """What one instruction did when it was last executed."""

    branch: Branch | None
    inside: tuple[Node, ...]
    """Where it may lead inside the loop, the head too."""
    leaves: bool
    """It may lead out of it ..."""
    exits: bool
    """... or could, if its condition were not known."""
    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    traits: frozenset[str]


_NOT_GONE_INTO = Passed(None, (), False, False, (), (), frozenset())


class Round(NamedTuple):
    """One way of following the loop, come to rest."""

    head: State
    before: dict[Node, State]
    """What held before each instruction."""
    passed: dict[Node, Passed]
    back: State | None
    """What holds when the head is reached again; None: it is not."""


class Body(NamedTuple):
    """A loop of one function."""

    head: int
    addresses: frozenset[int]


class Follower:
    """Follows one loop."""

    def __init__(self, *, arch: str, code: Code, body: Body, read: Read) -> None:
        self.arch = ARCHES[arch]
        self.code = code
        self.body = body
        self.machine = Machine(read=read)
        self._head = Node((), body.head)
        self._turns: set[Node] = set()
        self._left = MOST_ROUNDS
        self.met = ""
        """What first could not be followed while it was followed over names."""

    def fresh(self) -> State:
        """Every place as it was at the head."""
        state: State = {name: Value(name, 0) for name in self.arch.REGISTERS}
        state["flags"] = Flags("head", Value("flags", 0), number(0), 64)
        return state

    def follow(self, head: State, *, values: bool) -> Round:
        """Follows it until nothing changes. `values`: branches are decided by what memory holds now, too."""
        self.machine.decide = values
        for _ in range(6):
            written, turns = set(self.machine.written), len(self._turns)
            done = self._once(head, values=values)
            self._turns |= _turning_points(done.passed, self._head)
            lows: State = (
                {}
                if done.back is None
                else {low: Value(low, 0) for low in done.back if _is_low(low) and low not in head}
            )
            if turns == len(self._turns) and not lows and not self._read_early(done, self.machine.written - written):
                return done
            head = head | lows
        raise cannot("it is too intricate")

    def _read_early(self, done: Round, written: set[tuple[int, int]]) -> bool:
        """A word was read before it was known that the loop writes it."""
        if not written:
            return False
        loads = [each for passed in done.passed.values() for each in passed.loads if each.address is not None]
        return any(overlap(each.address or 0, each.size, *other) for each in loads for other in written)

    def _once(self, head: State, *, values: bool) -> Round:
        before: dict[Node, State] = {self._head: head}
        passed: dict[Node, Passed] = {}
        backs: dict[Node, State] = {}
        todo = [self._head]
        while todo:
            node = todo.pop()
            self._left -= 1
            large = len(before) > MOST_NODES
            if self._left < 0 or (large and not self.machine.symbolic):
                raise cannot("too much code in it, and in what it calls")
            self.machine.state = dict(before[node])
            if self.machine.symbolic:
                passed[node] = _NOT_GONE_INTO if large and node.calls else self._guessed(node)
            else:
                passed[node] = self._execute(node, values=values)
            for after in passed[node].inside:
                if after == self._head:
                    backs[node] = self.machine.state
                elif after not in before:
                    before[after] = dict(self.machine.state)
                    todo.append(after)
                elif self._merge(before[after], self.machine.state, CHANGES if after in self._turns else MERGED):
                    todo.append(after)
        back: State | None = None
        for state in backs.values():
            if back is None:
                back = dict(state)
            else:
                self._merge(back, state, MERGED)
        return Round(head, before, passed, back)

    def _merge(self, into: State, other: State, mark: str) -> bool:
        """Joins two states; whether that changed the first."""
        changed = False
        for place, new in other.items():
            old = into.get(place)
            if old is new:
                continue
            if old is None:
                old = into[place] = _missing(into, place)
            both = joined(old, new, mark)
            if both != old:
                into[place] = both
                changed = True
        for place in into.keys() - other.keys():
            both = joined(into[place], _missing(other, place), mark)
            if both != into[place]:
                into[place] = both
                changed = True
        return changed

    # --- one instruction ---

    def _guessed(self, node: Node) -> Passed:
        """Over names alone, what cannot be followed is not gone into: it may be a way that is never taken."""
        try:
            return self._execute(node, values=False)
        except Puzzle as puzzle:
            self.met = self.met or str(puzzle)
            return _NOT_GONE_INTO

    def _execute(self, node: Node, *, values: bool) -> Passed:
        step = self.code.at(node.address)
        if step is None:
            raise cannot("not mapped")
        self.machine.begin()
        branch: Branch | None = None
        exits = False
        if step.kind == "call":
            nexts = [self._called(node, step)]
        elif step.kind == "return":
            nexts = [self._returned(node)]
        elif step.kind == "system":
            self.arch.system(self.machine)
            nexts = [Node(node.calls, step.after)]
        elif step.kind == "stop":
            raise cannot(step.mnemonic)
        elif step.kind == "away":
            nexts = [Node(node.calls, table_jump(self.machine, self.code, step))]
        else:
            branch = self.arch.execute(self.machine, step, self.code.detail(node.address))
            nexts = [Node(node.calls, each) for each in self._ways(step, branch, values=values)]
            exits = branch is not None and any(self._is_out(Node(node.calls, each)) for each in step.ways())
        inside = tuple(each for each in nexts if not self._is_out(each))
        leaves = len(inside) < len(nexts)
        loads, stores, traits = self.machine.loads, self.machine.stores, self.machine.traits
        return Passed(branch, inside, leaves, exits or leaves, tuple(loads), tuple(stores), frozenset(traits))

    def _is_out(self, node: Node) -> bool:
        return not node.calls and node.address not in self.body.addresses

    def _ways(self, step: Step, branch: Branch | None, *, values: bool) -> tuple[int, ...]:
        ways = step.ways()
        if branch is None or branch.taken is None or len(ways) < 2:
            return ways
        if branch.on.all_sources and not values:
            return ways
        assert step.target is not None
        return (step.target,) if branch.taken else (step.after,)

    def _called(self, node: Node, step: Step) -> Node:
        target = step.target if step.target is not None else table_jump(self.machine, self.code, step)
        if len(node.calls) >= _DEPTH:
            raise cannot("calls too deep")
        self.arch.call(self.machine, step.after)
        return Node((*node.calls, node.address), target)

    def _returned(self, node: Node) -> Node:
        if not node.calls:
            raise cannot("returns")
        call = self.code.at(node.calls[-1])
        assert call is not None
        if self.arch.come_back(self.machine).number != call.after and not self.machine.symbolic:
            raise cannot("a called function returns elsewhere")
        return Node(node.calls[:-1], call.after)


def _missing(state: State, place: Place) -> Value:
    """What a place holds that was not touched."""
    if _is_low(place):
        full = state[str(place)[:-2]]
        return cut(full, 8) if isinstance(full, Value) else Value(OPAQUE, 0)
    return Value(place, 0)


def _is_low(place: Place) -> bool:
    return isinstance(place, str) and place.endswith(":l")


def _turning_points(passed: dict[Node, Passed], head: Node) -> set[Node]:
    """Where cycles that do not go through the head close."""
    ways = {node: [each for each in done.inside if each != head] for node, done in passed.items()}
    found: set[Node] = set()
    open_, seen = {head}, {head}
    stack = [(head, iter(ways.get(head, ())))]
    while stack:
        node, nexts = stack[-1]
        for each in nexts:
            if each in open_:
                found.add(each)
            elif each not in seen:
                seen.add(each)
                open_.add(each)
                stack.append((each, iter(ways.get(each, ()))))
                break
        else:
            stack.pop()
            open_.discard(node)
    return found
