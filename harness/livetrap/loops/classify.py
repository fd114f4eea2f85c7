"""What kind of loop it is: the rules of the judge's `Loops`, over what following it came to."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from livetrap.loops.carry import carried_in
from livetrap.loops.code import Code
from livetrap.loops.follow import Body, Follower, Node, Round
from livetrap.loops.found import Found, Puzzle, Read, Registers
from livetrap.loops.machine import DIVIDES, DIVIDES_BY, Access, Machine, cannot
from livetrap.loops.telling import reading, seen_traits, stored, traits
from livetrap.loops.values import (
    CHANGES,
    MERGED,
    NOTHING,
    OUTSIDE,
    RETRIED,
    REWRITTEN,
    UNRESOLVED,
    Flags,
    Head,
    Place,
    Source,
    Sources,
    State,
    Value,
    Word,
    joined,
    number,
)
from livetrap.model import LoopKind

_DOUBTS = {
    OUTSIDE: "its exit depends on a clock or on something else that is not followed",
    UNRESOLVED: "its exit depends on memory whose address is not known",
    REWRITTEN: "it writes a word that its exit depends on",
}


_OPEN = "it is on its way out"
"""Of a loop that ends with memory and registers as they are."""


class Classified(NamedTuple):
    """A loop, and whether it only counts, pauses and reads: then the loop around it says more."""

    found: Found
    idle: bool


def classify(*, registers: Registers, code: Code, body: Body, read: Read, at: Node) -> Classified:
    """Classifies the loop that the thread is in, at instruction `at`."""
    try:
        case = _Case(registers, Follower(arch=registers.arch, code=code, body=body, read=read), at)
        kind, why = case.kind()
        idle = kind is LoopKind.COMPUTE and case.idle()
    except Puzzle as puzzle:
        return Classified(_found(body, code, kind=LoopKind.UNKNOWN, why=str(puzzle)), False)
    polled = case.polled if kind is LoopKind.POLL or why == _OPEN else frozenset[Word]()
    found = _found(
        body,
        code,
        kind=kind,
        why=why,
        polled=tuple(sorted((word.address, word.size) for word in polled)),
        stores=stored(case.rounds),
        frame=case.frame(min(body.addresses)),
        shown=traits(case.rounds, case.polled),
        marked=reading(case.rounds, polled),
    )
    return Classified(found, idle)


def _found(
    body: Body,
    code: Code,
    *,
    kind: LoopKind,
    why: str,
    polled: tuple[tuple[int, int], ...] = (),
    stores: tuple[tuple[int, int], ...] = (),
    frame: str = "",
    shown: tuple[str, ...] = (),
    marked: frozenset[int] = frozenset(),
) -> Found:
    steps = [step for step in map(code.at, sorted(body.addresses)) if step is not None]
    return Found(
        kind=kind,
        start=steps[0].address,
        end=steps[-1].after,
        instructions=tuple(step.address for step in steps),
        polled=polled,
        stores=stores,
        frame=frame,
        traits=shown,
        why=why,
        lines=tuple(
            f"{step.address:#x}: {step.mnemonic} {step.operands}".rstrip()
            + ("  <- polls" if step.address in marked else "")
            for step in steps
        ),
    )


class _Case:
    """One loop, followed thrice: over names, over the registers' values, and by what memory holds now."""

    def __init__(self, registers: Registers, follower: Follower, at: Node) -> None:
        self.registers, self.follower, self.at = registers, follower, at
        self.machine: Machine = follower.machine
        self.kept: dict[Place, int] = {}
        """Registers that are at the head what they were a round before, and what that is."""
        self.carried: dict[Place, bool] = {}
        """Places that go from round to round changed, and whether by more than counting."""
        head = self._over_names()
        try:
            self.decided = False
            self.rounds = self._over_values(head)
        except Puzzle:
            # Perhaps only on a way that memory, as it is, does not lead to: the first use of something, an error. What
            # memory then decides belongs to what is polled.
            self.decided = True
            self.rounds = self._over_values(head)

    # --- following ---

    def _over_names(self) -> State:
        """The state at the head: of what the loop keeps, the values."""
        self.machine.symbolic = True
        head = self.follower.fresh()
        done = self.follower.follow(head, values=False)
        self.machine.symbolic = False
        if done.back is None or self.at not in done.before:
            raise Puzzle(self.follower.met or _OPEN)
        here = done.before[self.at]
        stack = self.follower.arch.STACK
        for name in (stack, *self.follower.arch.REGISTERS):
            if done.back.get(name) == Value(name, 0) and f"{name}:l" not in done.back:
                value = self._held(name, here)
                if value is None:
                    raise cannot(f"what {name} held at its head")
                self.kept[name] = value
        if stack not in self.kept:
            raise cannot("its stack pointer moves")
        self.machine.frame = self.kept[stack]
        head = head | {name: number(value) for name, value in self.kept.items()}
        flags = self.follower.arch.initial_flags(self.registers.values)
        if flags is not None and done.back["flags"] == here["flags"] == head["flags"]:
            head["flags"] = flags
            self.kept["flags"] = flags.left.offset
        return head

    def _held(self, name: str, here: State) -> int | None:
        """What a register held at the head, from where it is now: in itself, in another, or on the stack."""
        stack = self.follower.arch.STACK
        order = [name, *(each for each in self.follower.arch.REGISTERS if each != name)]
        for each in order:
            value = here[each]
            now = self.registers.sp if each == stack else self.registers.values.get(each)
            if isinstance(value, Value) and value.base == name and now is not None and f"{each}:l" not in here:
                return (now - value.offset) % (1 << 64)
        for place, value in here.items():
            if isinstance(place, tuple) and value == Value(name, 0):
                _, base, offset, size = place
                if base in self.kept and isinstance(offset, int) and size == 8:
                    return self.machine.word((self.kept[base] + offset) % (1 << 64), 8)
        return None

    def _over_values(self, head: State) -> Round:
        done = self.follower.follow(head, values=self.decided)
        self.carried = carried_in(done)
        for _ in range(8):
            if done.back is None:
                raise Puzzle(_OPEN)
            new = self._next_head(done)
            if new == done.head:
                self._check(done)
                self.carried |= {place: True for place in carried_in(done) if place not in self.carried}
                return done
            done = self.follower.follow(new, values=self.decided)
        raise cannot("it is too intricate")

    def _next_head(self, done: Round) -> State:
        """What a round leaves is what the next one finds, but for what goes on changing."""
        assert done.back is not None
        new = dict(done.head)
        for place, value in done.back.items():
            old = done.head.get(place)
            if place in self.carried or old == value:
                continue
            untouched = Flags("head", Value("flags", 0), number(0), 64) if place == "flags" else Value(place, 0)
            if place in self.kept:
                raise cannot("a register is not kept after all")
            if value == untouched and old is None:
                continue
            new[place] = value if old is None or old == untouched else joined(old, value, CHANGES)
        return new

    def _check(self, done: Round) -> None:
        """What was followed has to fit the registers as they are."""
        here = done.before.get(self.at)
        if here is None:
            raise Puzzle(_OPEN)
        for name in self.follower.arch.REGISTERS:
            value = here[name]
            now = self.registers.sp if name == self.follower.arch.STACK else self.registers.values.get(name)
            fits = not isinstance(value, Value) or value.base is not None or value.sources or value.offset == now
            if not fits and f"{name}:l" not in here:
                raise cannot(f"{name} is not what it should be")

    # --- what it rests on ---

    def resolved(self, sources: Iterable[Source]) -> Sources:
        """Without heads: what goes on changing says so, what is kept drops out."""
        found: set[Source] = set()
        for each in sources:
            if not isinstance(each, Head):
                found.add(each)
            elif each.place in self.carried:
                found.add(CHANGES)
            elif each.place not in self.kept and each.place != "flags":
                found.add(OUTSIDE)
        return frozenset(found)

    @property
    def exits(self) -> list[Node]:
        return [node for node, passed in self.rounds.passed.items() if passed.exits]

    @functools.cached_property
    def inner(self) -> Sources:
        """What the choice of ways inside the loop rests on."""
        ways = [
            passed.branch.on.all_sources
            for passed in self.rounds.passed.values()
            if passed.branch is not None and not passed.exits
        ]
        return self.resolved(NOTHING.union(*ways))

    @functools.cached_property
    def exit_sources(self) -> Sources:
        # Which way leads to an exit does not matter here: no way is left out when it is asked whether one is open.
        found: set[Source] = set()
        for node in self.exits:
            branch = self.rounds.passed[node].branch
            if branch is None:
                raise cannot("a way out without a condition")
            found |= self.resolved(branch.on.all_sources)
        if MERGED in found:
            found |= self.inner - {RETRIED}  # an exclusive store goes through in the end
        return frozenset(found - {MERGED})

    @property
    def polled(self) -> frozenset[Word]:
        return frozenset(each for each in self.exit_sources | self.inner if isinstance(each, Word))

    @functools.cached_property
    def now(self) -> Round:
        """The same with every branch decided that memory decides as it is."""
        return self.rounds if self.decided else self.follower.follow(self.rounds.head, values=True)

    def _accesses(self, done: Round, what: str) -> list[Access]:
        return [each for passed in done.passed.values() for each in getattr(passed, what)]

    # --- the rules ---

    def kind(self) -> tuple[LoopKind, str]:
        """The kind and why."""
        sources = self.exit_sources
        if CHANGES in sources or RETRIED in sources:
            return LoopKind.COMPUTE, "its exit depends on a value that it changes"
        if doubt := next((why for source, why in _DOUBTS.items() if source in sources), ""):
            return LoopKind.UNKNOWN, doubt
        if any(access.address is None for access in self._accesses(self.rounds, "stores")):
            return LoopKind.UNKNOWN, "it writes to an address that is not known"
        if any(node.calls and self._writes(passed.stores) for node, passed in self.rounds.passed.items()):
            return LoopKind.UNKNOWN, "it calls what writes"
        if any(self._tells(access) for access in self._accesses(self.rounds, "stores")):
            return LoopKind.UNKNOWN, "it writes what it read"
        if any(self._walks(access) for access in self._accesses(self.rounds, "loads")):
            return LoopKind.UNKNOWN, "it reads from an address that changes"
        if self._acts_by_count():
            return LoopKind.COMPUTE, "it counts, and may do something once a count is reached"
        if any(isinstance(each, Word) for each in sources):
            return self._poll()
        return self._endless()

    def _acts_by_count(self) -> bool:
        """It chooses its way by a value that it changes, and writes what others may read: a clock for them, say."""
        stores = self._accesses(self.rounds, "stores")
        return CHANGES in self.inner and any(not self.machine.is_own(each) for each in stores if each.how == "plain")

    def _walks(self, access: Access) -> bool:
        return access.address is None and bool(self.resolved(access.where.all_sources))

    def _writes(self, stores: Iterable[Access]) -> bool:
        return any(store.how == "plain" and not self.machine.is_own(store) for store in stores)

    def _tells(self, store: Access) -> bool:
        """It may tell another thread something, more than how often the loop went round."""
        if store.how != "plain" or store.value is None or self.machine.is_own(store):
            return False
        return any(isinstance(each, Word) or each in {OUTSIDE, UNRESOLVED} for each in store.value.all_sources)

    def _way_out(self) -> str:
        """Why it may end with memory and registers as they are now; empty: it does not."""
        for passed in self.now.passed.values():
            if passed.leaves:
                open_ = passed.branch is not None and passed.branch.taken is not None
                return _OPEN if open_ else "whether it ends cannot be told"
        return _OPEN if self.now.back is None else ""

    def _endless(self) -> tuple[LoopKind, str]:
        if any(node.calls for node in self.rounds.passed) or "yield" in seen_traits(self.rounds):
            return LoopKind.UNKNOWN, "it has no way out of its own, but it calls"
        if self.inner - {CHANGES, RETRIED, MERGED}:  # such as the main loop of a thread that serves others
            return LoopKind.UNKNOWN, "it has no way out of its own, but it waits or chooses inside"
        if way_out := self._way_out():
            return LoopKind.UNKNOWN, way_out
        if {DIVIDES, DIVIDES_BY} & seen_traits(self.rounds):  # a handler of the fault may leave it
            return LoopKind.UNKNOWN, "it has no way out of its own, but it divides, which may fault"
        return LoopKind.ENDLESS, "nothing that can change leads out of it" if self.exits else "no way leads out of it"

    def _poll(self) -> tuple[LoopKind, str]:
        if any(self.carried.values()):
            return LoopKind.COMPUTE, "it computes something while it polls"
        if way_out := self._way_out():
            return LoopKind.UNKNOWN, way_out
        for store in self._accesses(self.now, "stores"):
            if store.how != "plain" and not self._writes_the_same(store) and self._is_polled(store):
                return LoopKind.UNKNOWN, _DOUBTS[REWRITTEN]
        if DIVIDES_BY in seen_traits(self.rounds):
            return LoopKind.UNKNOWN, "it divides by a value that may become 0"
        if not self._fits_memory():
            return LoopKind.UNKNOWN, "what it read has changed since"
        return LoopKind.POLL, "its exit depends on memory that it does not change"

    def _fits_memory(self) -> bool:
        """What it has read, and holds in registers or on its stack, is what memory holds now: a thread that counts in
        an inner loop may long hold what leads it out afterwards."""
        here = self.now.before.get(self.at, {})
        for place, value in here.items():
            if not isinstance(value, Value) or value.base is not None or not value.sources:
                continue
            now: int | None = value.offset
            if isinstance(place, tuple):
                _, _, address, size = place
                now = self.machine.word(address, size) if isinstance(address, int) and isinstance(size, int) else None
            elif place in self.follower.arch.REGISTERS and f"{place}:l" not in here:
                now = self.registers.sp if place == self.follower.arch.STACK else self.registers.values.get(place)
            if now != value.offset:
                return False
        return True

    def _writes_the_same(self, store: Access) -> bool:
        """A test-and-set of what is set already."""
        if store.how != "swap" or store.address is None or store.value is None or store.value.sources:
            return False
        return store.value.number is not None and store.value.number == self.machine.word(store.address, store.size)

    def _is_polled(self, store: Access) -> bool:
        address = store.address
        return address is None or any(
            address < word.address + word.size and word.address < address + store.size for word in self.polled
        )

    def idle(self) -> bool:
        """It only counts, pauses and reads what does not move, and writes to nothing but its own stack. A word that it
        updates by an exclusive store is none of its work; a compare-and-swap that fails is a load. The loop around it
        is followed with this one in it: on this answer rests no more than which of the two is told of."""
        if any(self.carried.values()):
            return False
        loads = self._accesses(self.rounds, "loads")
        stores = [each for each in self._accesses(self.rounds, "stores") if not self.machine.is_own(each)]
        if any(each.how == "cas" for each in stores):
            stores = [each for each in self._accesses(self.now, "stores") if not self.machine.is_own(each)]
        updated = {each.address for each in stores if each.how == "exclusive"} - {None}
        return not any(map(self._walks, loads)) and all(each.address in updated for each in stores)

    # --- what is told of it ---

    def frame(self, start: int) -> str:
        """The same in two looks when nothing that the loop keeps has changed."""
        text = " ".join(f"{name}={value:x}" for name, value in sorted(self.kept.items(), key=str))
        stack = self.kept[self.follower.arch.STACK]
        return f"{start:x}/{stack:x}/{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
