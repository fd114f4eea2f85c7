"""The loops that awake threads run in, on Linux: short stops for their registers, then `loops` on the process's memory.

What a thread polled when it was last stopped is read again before the next stop, several times, through the process's
memory: where it has changed, whoever sets it is alive, and the thread need not be stopped to know that its poll is not
fixed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from livetrap.model import Loop, LoopKind, PolledWord, ThreadEvidence, ThreadId
from livetrap.observe import stops_linux
from livetrap.observe.mappings import Keeper, Mappings
from livetrap.observe.memory_linux import Memory, Recorded, Seen, still
from livetrap.observe.proctree import Tree
from livetrap.observe.stops_linux import Asked, Result, Stop
from livetrap.page import one_line

if TYPE_CHECKING:
    from livetrap import loops

assert sys.platform == "linux"

_MOST_UNSTOPPED = 3
"""A thread whose words move is stopped again after so many times: it may be in another loop by now."""
_MOST_KEPT = 1024
_REGISTERS = "registers: "
_NO_TIME = "loop: no time was left to tell it"
_NOT_SEEN = frozenset({_REGISTERS + stops_linux.NO_TIME, _REGISTERS + stops_linux.TOO_LATE, _NO_TIME})
"""These say nothing of where the thread is now."""
_MOST_LISTINGS = 256
_MOST_FILES = 256
_WORK_NS = 60_000_000
"""CPU time that telling loops may take, all together. Loading the disassembler, once, takes most of it."""
_MOST_KNOWN = 128
_MOST_BYTES = 1 << 16
"""What took more memory to find than this is not kept: reading all of that again would take as long."""
_ROUNDS = 2
"""So often words are read again before a stop, and after it."""


class _Last:
    """A poll as it was last seen."""

    __slots__ = ("loop", "unstopped")

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.unstopped = 0


class LoopGatherer:
    """Stops threads of one tree, and tells what loops they are in."""

    def __init__(self, tree: Tree, keeper: Keeper, *, arch: str) -> None:
        self._tree = tree
        self._keeper = keeper
        self._arch = arch
        self._last: dict[ThreadId, _Last] = {}
        self._known: dict[tuple[object, ...], tuple[loops.Found, Seen]] = {}
        self._entries: dict[tuple[int, int], tuple[Mappings, int | None]] = {}
        self._stores: dict[ThreadId, tuple[tuple[int, int], ...]] = {}
        """What the loops write that threads were last seen in."""
        self._with_ring: dict[int, bool] = {}
        """Whether a process has an io_uring, as looked up in this gathering."""
        self._turn = 0
        self.modules: dict[str, str] = {}
        """Paths of the program files that a site named, by the name it used."""
        self.listings: dict[str, tuple[str, ...]] = {}
        """The instructions of each loop found, by its site."""

    def gather(
        self, ids: Sequence[ThreadId], *, deadline_ns: int, classify: bool = True
    ) -> dict[ThreadId, ThreadEvidence]:
        """Program counters of these threads, which were awake a moment ago; their loops too if `classify`.

        None stays stopped. The deadline (monotonic clock) is for the stops; telling what they show has a limit of its
        own.
        """
        self._with_ring.clear()
        asked = {id_: files for id_ in ids if (files := self._tree.find(id_)) is not None}
        with Memory(self._tree) as memory:
            found = self._moved(asked, memory) if classify else {}
            stops = stops_linux.stop(
                [files for id_, files in asked.items() if id_ not in found], arch=self._arch, deadline_ns=deadline_ns
            )
            began_ns = time.thread_time_ns()
            for id_, result in self._in_turn(stops):
                late = time.thread_time_ns() - began_ns > _WORK_NS
                found[id_] = self._evidence(asked[id_], result, memory, classify=classify, late=late)
            for _ in range(_ROUNDS if classify else 0):
                self._read_again(found, memory)
        if classify:
            self._told_by_others(found)
            self._remember(found, ids)
        return found

    def _in_turn(self, stops: dict[ThreadId, Result]) -> list[tuple[ThreadId, Result]]:
        """All of them, each time from another one on: where time is short, it is not always the same that get none."""
        self._turn += 1
        items = list(stops.items())
        first = self._turn % len(items) if items else 0
        return items[first:] + items[:first]

    # --- without stopping

    def _moved(self, asked: Collection[ThreadId], memory: Memory) -> dict[ThreadId, ThreadEvidence]:
        """Of those whose polled words have changed since they were last seen."""
        found: dict[ThreadId, ThreadEvidence] = {}
        for _ in range(_ROUNDS):
            memory.forget()
            for id_ in asked:
                last = self._last.get(id_)
                if last is None or id_ in found or last.unstopped >= _MOST_UNSTOPPED:
                    continue
                words = _values(last.loop.polled, id_.pid, memory)
                if words is not None and words != last.loop.polled:
                    found[id_] = ThreadEvidence(id=id_, loop=replace(last.loop, polled=words, moved=True))
        return found

    def _read_again(self, found: dict[ThreadId, ThreadEvidence], memory: Memory) -> None:
        memory.forget()
        for id_, evidence in found.items():
            loop = evidence.loop
            if loop is not None and loop.polled and not loop.moved:
                words = _values(loop.polled, id_.pid, memory)
                if words is not None and words != loop.polled:
                    found[id_] = replace(evidence, loop=replace(loop, polled=words, moved=True))

    def _told_by_others(self, found: dict[ThreadId, ThreadEvidence]) -> None:
        """Whoever polls a word that another thread's loop writes may be told by it some day: it is not stuck."""
        for id_, evidence in found.items():
            loop = evidence.loop
            if loop is None or not loop.polled or loop.moved:
                continue
            written = [
                store
                for other, stores in self._stores.items()
                if other != id_ and other.pid == id_.pid
                for store in stores
            ]
            if any(_overlap(word, store) for word in loop.polled for store in written):
                found[id_] = replace(evidence, loop=replace(loop, moved=True))

    def _remember(self, found: dict[ThreadId, ThreadEvidence], ids: Collection[ThreadId]) -> None:
        if len(self._last) > _MOST_KEPT:
            self._last = {id_: last for id_, last in self._last.items() if id_ in ids}
            self._stores = {id_: stores for id_, stores in self._stores.items() if id_ in ids}
        for id_ in ids:
            evidence = found.get(id_)
            if evidence is None or evidence.unreadable in _NOT_SEEN:
                continue
            loop, before = evidence.loop, self._last.pop(id_, None)
            if loop is None or not loop.polled:
                continue
            self._last[id_] = last = _Last(loop)
            if before is not None and evidence.pc is None:
                last.unstopped = before.unstopped + 1

    # --- what a stop shows

    def _evidence(self, files: Asked, stop: Result, memory: Memory, *, classify: bool, late: bool) -> ThreadEvidence:
        process, thread = files
        if isinstance(stop, str):
            return ThreadEvidence(id=thread.id, unreadable=_REGISTERS + stop)
        mappings = self._keeper.of(process)
        evidence = ThreadEvidence(id=thread.id, pc=stop.pc, pc_site=self.site(mappings, stop.pc))
        if not classify:
            return evidence
        if late:
            return replace(evidence, unreadable=_NO_TIME)
        return replace(evidence, loop=self._loop(thread.id, stop, mappings, memory))

    def _loop(self, id_: ThreadId, stop: Stop, mappings: Mappings, memory: Memory) -> Loop:
        found = self._classified(id_.pid, stop, mappings, memory)
        self._stores[id_] = found.stores
        loop = Loop(
            kind=found.kind,
            site=self.site(mappings, found.start),
            frame=found.frame,
            traits=found.traits,
            why=one_line(found.why),
        )
        if found.lines and loop.site and len(self.listings) < _MOST_LISTINGS:
            self.listings[loop.site] = found.lines
        if found.kind is LoopKind.ENDLESS and _generated(mappings, found):
            return replace(loop, kind=LoopKind.UNKNOWN, why="generated code, which may be changed")
        if found.kind is not LoopKind.POLL and not found.polled:
            return loop
        rings = self._rings(id_)
        words = _values(
            tuple(
                PolledWord(address=address, size=size, value=0, shared=rings or _shared(mappings, address, size))
                for address, size in found.polled
            ),
            id_.pid,
            memory,
        )
        if found.kind is not LoopKind.POLL:
            return replace(loop, polled=words or ())
        if not words:
            return replace(loop, kind=LoopKind.UNKNOWN, why="what it polls cannot be read")
        last = self._last.get(id_)
        before = last.loop if last is not None else None
        same = before is not None and (before.site, before.frame) == (loop.site, loop.frame)
        return replace(loop, polled=words, moved=same and before is not None and before.polled != words)

    def _rings(self, id_: ThreadId) -> bool:
        """Whether its process has an io_uring: then the kernel may write anywhere in its memory."""
        files = self._tree.find(id_)
        if files is None:
            return False
        process, _ = files
        if process.pid not in self._with_ring:
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = os.listdir(f"/proc/{process.pid}/fd")[:_MOST_FILES]  # noqa: PTH208
            self._with_ring[process.pid] = any("io_uring" in process.link(f"fd/{name}") for name in names)
        return self._with_ring[process.pid]

    def _classified(self, pid: int, stop: Stop, mappings: Mappings, memory: Memory) -> loops.Found:
        """What loop it is: found before by the same registers and the same bytes read, or anew."""
        key = (pid, stop.pc, *stop.values.values())
        known = self._known.get(key)
        read = memory.reader(pid, stop)
        if known is not None and still(known[1], read):
            return known[0]
        from livetrap import loops  # noqa: PLC0415 (its disassembler takes long to load)

        recorded = Recorded(read)
        registers = loops.Registers(arch=self._arch, pc=stop.pc, sp=stop.sp, values=stop.values)
        found = loops.find_loop(registers, recorded.read, entry_of=lambda pc: self._entry(pid, pc, mappings, memory))
        self._known.pop(key, None)
        # Who computes has other registers each time.
        if found.kind is not LoopKind.COMPUTE and sum(map(len, recorded.seen.values())) <= _MOST_BYTES:
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = (found, recorded.seen)
        return found

    def _entry(self, pid: int, pc: int, mappings: Mappings, memory: Memory) -> int | None:
        known = self._entries.get((pid, pc))
        if known is not None and known[0] is mappings:
            return known[1]
        from livetrap import frames  # noqa: PLC0415 (not needed before loops are)

        base = mappings.base(pc)
        entry = frames.function_start(memory.reader(pid), base=base, pc=pc) if base is not None else None
        if len(self._entries) >= _MOST_KEPT:
            self._entries.clear()
        self._entries[pid, pc] = (mappings, entry)
        return entry

    def site(self, mappings: Mappings, address: int) -> str:
        """An address as module+offset; empty where nothing is mapped."""
        found = mappings.locate(address)
        if found is None:
            return ""
        path, offset = found
        name = one_line(path.rpartition("/")[2])
        if path.startswith("/"):
            self.modules[name] = path
        return f"{name}+{offset:#x}"


def _shared(mappings: Mappings, address: int, size: int) -> bool:
    """Whether others may write there. Memory of which nothing is known counts as theirs."""
    ends = (mappings.at(address), mappings.at(address + max(size, 1) - 1))
    return any(mapping is None or mapping.shared for mapping in ends)


def _overlap(word: PolledWord, store: tuple[int, int]) -> bool:
    address, size = store
    return address < word.address + word.size and word.address < address + size


def _generated(mappings: Mappings, found: loops.Found) -> bool:
    """Whether the loop's code may be changed under it. So may code of which nothing is known."""
    ends = (mappings.at(found.start), mappings.at(max(found.start, found.end - 1)))
    return any(mapping is None or mapping.generated for mapping in ends)


def _values(words: Sequence[PolledWord], pid: int, memory: Memory) -> tuple[PolledWord, ...] | None:
    """The same words with what they hold now; None where one of them cannot be read."""
    found = []
    for word in words:
        piece = memory.word(pid, word.address, word.size)
        if len(piece) < word.size:
            return None
        value = int.from_bytes(piece, "little")
        found.append(word if value == word.value else replace(word, value=value))
    return tuple(found)
