"""Observes a target on Linux: /proc for states and times, the page for beats and marks.

One look costs one or two preads a thread. Times come from schedstat, which the kernel brings up to date about every
4 ms for a thread that runs, and whenever it stops running; where it is not compiled in, they come from stat (10 ms),
without the times scheduled in.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from livetrap import ownership
from livetrap.host import arch_name
from livetrap.model import Evidence, EvidenceKind, Look, Slot, ThreadEvidence, ThreadId, ThreadReading, ThreadState
from livetrap.observe import gather_linux, mutexes_linux
from livetrap.observe.no_page import NoPage
from livetrap.observe.proctree import Budget, ThreadFiles, Tree, read_at, stat_field, state_of
from livetrap.observe.progress import Progress
from livetrap.page import Page

assert sys.platform == "linux"

SEARCH_EVERY = 10
"""New processes are searched for at every so many looks."""
_TORN_NS = 2_000_000
"""Between the first and the last reading of one look, at most, if anything moved meanwhile."""
_RETRIES = 2
_SHORT = 64
_LONG = 1024


class _Kept:
    """The last reading of one thread, used again as long as nothing of it changes."""

    __slots__ = ("bare", "times", "whole")

    def __init__(self, times: bytes, bare: ThreadReading) -> None:
        self.times = times
        self.bare = bare
        self.whole: ThreadReading | None = None


class LinuxObserver:
    """Looks at the process tree of `pid`; `page` is None where it has none, `output_fd` the file that takes the
    target's output, `adopters` the processes that take in its orphans; `progress` as in `progress.Progress`."""

    def __init__(
        self,
        pid: int,
        page: Page | None,
        *,
        output_fd: int | None = None,
        adopters: tuple[int, ...] = (),
        progress: str = "",
        budget: Budget | None = None,
        list_children: bool = True,
        schedstat: bool | None = None,
    ) -> None:
        self._page = page or NoPage()
        self._foreign = page is None
        self._progress = Progress(progress, output_fd=output_fd)
        self._schedstat = schedstat_works() if schedstat is None else schedstat
        self._tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._tree = Tree(pid, budget=budget, list_children=list_children, adopters=adopters)
        self._looks = 0
        self._lost = False
        self._kept: dict[ThreadId, _Kept] = {}
        self._slots: list[Slot] = []
        self._by_thread: dict[ThreadId, Slot] = {}
        self._arch = arch_name()
        self._gatherer = gather_linux.Gatherer(self._tree, page, arch=self._arch)
        self._suspended_ns = 0
        # In this order, and the other way round in a look: a pause between the two then never looks like a suspension.
        awake = time.monotonic_ns()
        self._suspended_base = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - awake

    @property
    def modules(self) -> dict[str, str]:
        """Paths of the program files that a `pc_site` named so far, by the name it used."""
        return self._gatherer.modules

    @property
    def listings(self) -> dict[str, tuple[str, ...]]:
        """The instructions of each loop found so far, one a line, by its site."""
        return self._gatherer.listings

    def look(self, *, late_ns: int) -> Look:
        """One reading of everything; `late_ns` is how much later than asked it comes."""
        self._looks += 1
        self._tree.renew(search=self._looks % SEARCH_EVERY == 0, lost=self._lost)
        self._lost = False
        for _ in range(_RETRIES):
            began = time.monotonic_ns()
            before = self._page.raw()
            threads = [reading for files in self._tree.threads() if (reading := self._read(files)) is not None]
            took = time.monotonic_ns() - began
            # Held up between clocks and marks, they may tell of different waits: then look again.
            if took < _TORN_NS or before == self._page.raw():
                break
        return self._put_together(began, max(late_ns, took), threads)

    def gather(self, threads: tuple[ThreadId, ...], kinds: frozenset[EvidenceKind], deadline_s: float) -> Evidence:
        """Gathers of these threads what can be had without disturbing a sleeper, then looks again."""
        deadline_ns = time.monotonic_ns() + int(deadline_s * 1e9)
        self._tree.search_now()
        awake = {id_ for id_, kept in self._kept.items() if kept.bare.state is ThreadState.RUNNABLE}
        readings = [self._sleeps(threads)] if EvidenceKind.MUTEX_OWNERS in kinds else []
        found = self._gatherer.gather(threads, kinds, awake=awake, deadline_ns=deadline_ns)
        self._tree.search_now()
        readings += [self._sleeps(first) for first in readings for _ in range(2)]
        owners = ownership.settled(readings)
        timers = tuple(
            sorted(
                process.pid
                for process in self._tree.processes
                if gather_linux.has_timer(process, foreign=self._foreign)
            )
        )
        return Evidence(
            look=self.look(late_ns=0),
            threads=tuple(_with_owner(entry, owners) for entry in found),
            mutex_cycle=ownership.cycle(owners),
            timers=timers,
        )

    def close(self) -> None:
        """Closes all files; the page stays."""
        self._tree.close()

    def _sleeps(self, threads: Iterable[ThreadId]) -> dict[ThreadId, ownership.Sleep]:
        return mutexes_linux.sleeps(self._tree, threads, arch=self._arch)

    def _read(self, files: ThreadFiles) -> ThreadReading | None:
        last = self._kept.get(files.id)
        times = b""
        if self._schedstat:
            times = files.schedstat.read(_SHORT)
            # A thread that wants a CPU falls asleep, stops or ends only by running, which its times would show.
            if last is not None and last.times == times and last.bare.state is ThreadState.RUNNABLE:
                return last.bare
        stat = files.stat.read(_SHORT if self._schedstat else _LONG)
        state = state_of(stat)
        if state is None or (self._schedstat and not times):
            self._lost = True
            return None
        if last is not None and last.times == times and last.bare.state is state and self._schedstat:
            return last.bare
        cpu_ns = switches = waited_ns = None
        if times:
            cpu_ns, waited_ns, switches = map(int, times.split())
        else:
            cpu_ns = (stat_field(stat, 14) + stat_field(stat, 15)) * self._tick_ns
        bare = ThreadReading(id=files.id, state=state, cpu_ns=cpu_ns, switches=switches, waited_ns=waited_ns)
        self._kept[files.id] = _Kept(times, bare)
        return bare

    def _put_together(self, at_ns: int, late_ns: int, threads: list[ThreadReading]) -> Look:
        # The page comes last: whoever has beaten while the clocks were read shows.
        header, slots = self._page.header(), self._page.slots()
        if slots != self._slots:
            self._slots = slots
            self._by_thread = {ThreadId(slot.pid, slot.tid): slot for slot in slots}
        if len(self._kept) > len(threads):
            alive = {bare.id for bare in threads}
            self._kept = {id_: kept for id_, kept in self._kept.items() if id_ in alive}
        return Look(
            at_ns=at_ns,
            late_ns=late_ns,
            threads=tuple(self._with_slot(bare) for bare in threads if bare.id != header.probe),
            departed=header.departed,
            departed_beats=header.departed_beats,
            slots_seen=header.slots_used > 0,
            overflow=header.overflow,
            started_ns=header.started_ns,
            output_bytes=self._progress.output(),
            io_count=self._io_count() if self._progress.counts_io and header.slots_used == 0 else None,
            processes=len(self._tree.processes),
            probe_passes=header.probe_passes,
            suspended_ns=self._suspended(),
        )

    def _with_slot(self, bare: ThreadReading) -> ThreadReading:
        slot = self._by_thread.get(bare.id)
        if slot is None:
            return bare
        kept = self._kept[bare.id]
        if kept.whole is None or kept.whole.slot is not slot:
            kept.whole = ThreadReading(
                id=bare.id,
                state=bare.state,
                cpu_ns=bare.cpu_ns,
                switches=bare.switches,
                waited_ns=bare.waited_ns,
                slot=slot,
            )
        return kept.whole

    def _io_count(self) -> int | None:
        """A number that moves with every read and write of the tree: bytes and calls of /proc/PID/io, added up.

        It falls when a process goes; what counts is whether it moves.
        """
        total, known = 0, False
        for process in self._tree.processes:
            for line in process.read("io", _LONG).splitlines()[:4]:
                total += int(line.partition(b":")[2])
                known = True
        return total if known else None

    def _suspended(self) -> int:
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._suspended_ns = max(self._suspended_ns, boot - time.monotonic_ns() - self._suspended_base)
        return self._suspended_ns


def _with_owner(entry: ThreadEvidence, owners: Mapping[ThreadId, ThreadId]) -> ThreadEvidence:
    owner = owners.get(entry.id)
    if owner is None or entry.wake is None:
        return entry
    return replace(entry, sleeps_in=f"{entry.sleeps_in}, owned by thread {owner.tid}")


def schedstat_works() -> bool:
    """Whether this kernel keeps schedstat: it says "0 0 0" for all threads where it does not."""
    return any(map(int, read_at(None, "/proc/thread-self/schedstat", _SHORT).split()))
