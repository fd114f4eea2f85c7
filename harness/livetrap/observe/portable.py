"""Observes a target through psutil alone, where there is no /proc: macOS.

psutil may block for ever there (`threads()` on some machines), so a thread of our own asks it, and a look takes the
last answer. When no answer comes for a second, that thread is given up for another, which does without `threads()`.
What a look cannot know stays None or `unknown`.

Threads with a slot in the page are read from the page: the probe in the target keeps their CPU times and states there.
Of sleepers only what they say of themselves is known: a thread in WAIT names the kind of its wait.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import psutil

from livetrap.model import (
    Evidence,
    EvidenceKind,
    Look,
    Mark,
    PageHeader,
    Slot,
    ThreadEvidence,
    ThreadId,
    ThreadReading,
    ThreadState,
    WaitKind,
    WakeSource,
)
from livetrap.observe.no_page import NoPage
from livetrap.observe.progress import Progress
from livetrap.page import Page

ANSWER_S = 1.0
"""psutil is given up after this time without an answer."""
_PERIOD_S = 0.02
_SHARE = 20
"""Asking psutil may take one part in so many of the time."""
_FIRST_S = 0.5
_TICKS_NS = 50_000_000
"""A thread that had no CPU time for this long (several ticks of a 10 ms clock) does not run."""
_NO_REGISTERS = "registers cannot be read on this system"
_IDS_ARE_REAL = sys.platform == "linux"
"""psutil's thread ids are the system's; on macOS it merely counts the threads."""
_RUN_STATES = {1: ThreadState.RUNNING, 2: ThreadState.ASLEEP, 3: ThreadState.STOPPED}
_STATUSES = {
    psutil.STATUS_STOPPED: ThreadState.STOPPED,
    psutil.STATUS_TRACING_STOP: ThreadState.STOPPED,
    psutil.STATUS_ZOMBIE: ThreadState.GONE,
    psutil.STATUS_DEAD: ThreadState.GONE,
}
_KINDS = {
    WaitKind.UNTIMED: WakeSource.NONE,
    WaitKind.TIMED: WakeSource.TIMER,
    WaitKind.OUTSIDE: WakeSource.OUTSIDE,
}


class _Answer:
    """What psutil said at one moment: each process's status, and CPU times by thread (or its own, as thread PID)."""

    def __init__(self) -> None:
        self.at_ns = time.monotonic_ns()
        self.statuses: dict[int, str] = {}
        self.cpu_ns: dict[ThreadId, int] = {}


class _Asker:
    """Asks psutil again and again, in a daemon thread that may get stuck."""

    def __init__(self, root: psutil.Process, *, by_thread: bool) -> None:
        self._root = root
        self._by_thread = by_thread
        self._stop = threading.Event()
        self.first = threading.Event()
        self.answer: _Answer | None = None
        self.began_ns = time.monotonic_ns()
        threading.Thread(target=self._run, name="livetrap-psutil", daemon=True).start()

    def age_ns(self, now_ns: int) -> int:
        """How old the last answer is."""
        return now_ns - (self.answer.at_ns if self.answer else self.began_ns)

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        took_s = 0.0
        while not self._stop.wait(max(_PERIOD_S, took_s * _SHARE) if self.first.is_set() else 0):
            began = time.monotonic()
            self.answer = self._ask()
            self.first.set()
            took_s = time.monotonic() - began

    def _ask(self) -> _Answer:
        answer = _Answer()
        processes = [self._root]
        with contextlib.suppress(psutil.Error):
            processes += self._root.children(recursive=True)
        for process in processes:
            # One that has gone, or whose number now names another, is left out.
            with contextlib.suppress(psutil.Error, OSError):
                if process.is_running():
                    status = process.status()
                    self._times(process, answer)
                    answer.statuses[process.pid] = status
        return answer

    def _times(self, process: psutil.Process, answer: _Answer) -> None:
        if self._by_thread:
            with contextlib.suppress(psutil.AccessDenied, NotImplementedError):
                for thread in process.threads():
                    used = thread.user_time + thread.system_time
                    answer.cpu_ns[ThreadId(process.pid, thread.id)] = int(used * 1e9)
                return
        times = process.cpu_times()
        answer.cpu_ns[ThreadId(process.pid, process.pid)] = int((times.user + times.system) * 1e9)


class PortableObserver:
    """Looks at the process tree of `pid`; `page` is None where it has none, `output_fd` the file that takes the
    target's output; `progress` as in `progress.Progress`, without I/O, which is not known here."""

    def __init__(self, pid: int, page: Page | None, *, output_fd: int | None = None, progress: str = "") -> None:
        self._page = page or NoPage()
        self._progress = Progress(progress, output_fd=output_fd)
        self._asker: _Asker | None = None
        self._root: psutil.Process | None = None
        self._moved: dict[ThreadId, tuple[int, int]] = {}
        self._given_up = False
        self._suspended_base = _asleep_clock()
        with contextlib.suppress(psutil.Error):
            self._root = psutil.Process(pid)
            self._asker = _Asker(self._root, by_thread=True)
            self._asker.first.wait(_FIRST_S)

    @property
    def modules(self) -> dict[str, str]:
        """Nothing: no program counters are gathered here."""
        return {}

    @property
    def listings(self) -> dict[str, tuple[str, ...]]:
        """Nothing: no loops are found here."""
        return {}

    def look(self, *, late_ns: int) -> Look:
        """One reading of everything; an old answer of psutil makes the look late."""
        now_ns = time.monotonic_ns()
        answer, age_ns = self._last_answer(now_ns)
        header, slots = self._page.header(), self._page.slots()
        return Look(
            at_ns=now_ns,
            late_ns=max(late_ns, age_ns - int(2 * _PERIOD_S * 1e9)),
            threads=tuple(self._threads(answer, header, slots)),
            departed=header.departed,
            departed_beats=header.departed_beats,
            slots_seen=header.slots_used > 0,
            overflow=header.overflow,
            started_ns=header.started_ns,
            output_bytes=self._progress.output(),
            processes=len(answer.statuses),
            probe_passes=header.probe_passes,
            suspended_ns=max(0, _asleep_clock() - self._suspended_base),
        )

    def gather(self, threads: tuple[ThreadId, ...], kinds: frozenset[EvidenceKind], deadline_s: float) -> Evidence:  # noqa: ARG002
        """Wake sources as sleepers state them by their marks; nothing else can be had here, so no time is needed."""
        look = self.look(late_ns=0)
        found = []
        for reading in look.threads:
            if reading.id not in threads:
                continue
            if reading.state is ThreadState.ASLEEP and EvidenceKind.WAKE_SOURCES in kinds:
                found.append(_by_mark(reading))
            elif reading.state is not ThreadState.GONE:
                # Only of threads that want a CPU; what the others are doing is not known either.
                wanted = EvidenceKind.LOOPS in kinds and reading.state is not ThreadState.ASLEEP
                found.append(ThreadEvidence(id=reading.id, unreadable=_NO_REGISTERS if wanted else ""))
        return Evidence(look=look, threads=tuple(found))

    def close(self) -> None:
        """Lets the asking thread go; one that is stuck ends with the harness."""
        if self._asker is not None:
            self._asker.stop()

    def _last_answer(self, now_ns: int) -> tuple[_Answer, int]:
        if self._asker is None or self._root is None:
            return _Answer(), 0
        age_ns = self._asker.age_ns(now_ns)
        answer = self._asker.answer or _Answer()
        if age_ns > ANSWER_S * 1e9 and not self._given_up:
            self._given_up = True
            self._asker.stop()
            self._asker = _Asker(self._root, by_thread=False)
            self._asker.answer = answer
        return answer, age_ns

    def _threads(self, answer: _Answer, header: PageHeader, slots: list[Slot]) -> list[ThreadReading]:
        by_thread = {ThreadId(slot.pid, slot.tid): slot for slot in slots if slot.pid in answer.statuses}
        with_slots = {id_.pid for id_ in by_thread}
        readings = {}
        for id_, cpu_ns in answer.cpu_ns.items():
            # Where threads cannot be matched, a process with slots is known by these alone.
            if id_.pid in answer.statuses and (_IDS_ARE_REAL or id_.pid not in with_slots):
                state = self._state(id_, cpu_ns, answer)
                readings[id_] = ThreadReading(id=id_, state=state, cpu_ns=cpu_ns, slot=by_thread.get(id_))
        for id_, slot in by_thread.items():
            if slot.cpu_ns is None and id_ in readings:
                continue
            state = _STATUSES.get(answer.statuses[id_.pid]) or _RUN_STATES.get(slot.run_state, ThreadState.UNKNOWN)
            if not _IDS_ARE_REAL or id_ in readings:
                readings[id_] = ThreadReading(
                    id=id_, state=state, cpu_ns=slot.cpu_ns, switches=slot.switches, slot=slot
                )
        self._moved = {id_: moved for id_, moved in self._moved.items() if id_ in answer.cpu_ns}
        return [readings[id_] for id_ in sorted(readings) if id_ != header.probe]

    def _state(self, id_: ThreadId, cpu_ns: int, answer: _Answer) -> ThreadState:
        """Running while its CPU time moves. One that has none may be asleep, or wait for a CPU: unknown."""
        known = _STATUSES.get(answer.statuses[id_.pid])
        if known is not None:
            return known
        last = self._moved.get(id_)
        if last is None:
            self._moved[id_] = (cpu_ns, answer.at_ns - _TICKS_NS)
            return ThreadState.UNKNOWN
        if last[0] != cpu_ns:
            self._moved[id_] = (cpu_ns, answer.at_ns)
            return ThreadState.RUNNING
        return ThreadState.RUNNING if answer.at_ns - last[1] < _TICKS_NS else ThreadState.UNKNOWN


def _by_mark(reading: ThreadReading) -> ThreadEvidence:
    slot = reading.slot
    if slot is None or slot.mark is not Mark.WAIT or slot.kind not in _KINDS:
        return ThreadEvidence(id=reading.id, wake=WakeSource.UNKNOWN, unreadable="this system does not tell")
    return ThreadEvidence(id=reading.id, wake=_KINDS[slot.kind], sleeps_in=f"{slot.kind.name.lower()} (by its mark)")


def _asleep_clock() -> int:
    """Nanoseconds for which the machine has been suspended, from any start."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    if hasattr(time, "CLOCK_UPTIME_RAW"):
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time.clock_gettime_ns(time.CLOCK_UPTIME_RAW)
    return 0
