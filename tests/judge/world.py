"""A world without clock or process: simulated threads, a simulated hand, and the judge between them.

Each simulated thread is a function of time; the world makes looks of them, answers what the judge commands, and stops
at the verdict. Times are in milliseconds from the start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from livetrap import judge
from livetrap.model import (
    Ended,
    Event,
    Evidence,
    EvidenceKind,
    Gaps,
    Gather,
    Judgement,
    LimitReached,
    Look,
    LookAgain,
    Loop,
    LoopKind,
    Mark,
    PolledWord,
    Rules,
    Settle,
    Slot,
    ThreadEvidence,
    ThreadId,
    ThreadReading,
    ThreadState,
    WaitKind,
    WakeSource,
)

PID = 100
MS = 1_000_000


@dataclasses.dataclass
class Now:
    """What a simulated thread is like at one time."""

    state: ThreadState = ThreadState.RUNNABLE
    cpu_ms: float = 0.0
    switches: int = 0
    waited_ms: float = 0.0
    mark: Mark = Mark.NONE
    kind: WaitKind = WaitKind.NONE
    site: int = 0
    arrivals: int = 0
    beats: int = 0
    wake: WakeSource = WakeSource.UNKNOWN
    slot: bool = True
    gone: bool = False
    loop: Loop | None = None
    pid: int = PID


Thread = Callable[[float], Now]


def spinner(*, share: float = 0.25, since: float = 0, site: int = 7, arrivals: int = 1, beats: int = 0) -> Thread:
    """Waits and burns `share` of a CPU."""
    return lambda t: Now(
        cpu_ms=max(0.0, t - since) * share,
        switches=int(t / 12),
        waited_ms=t * (1 - share),
        mark=Mark.WAIT,
        kind=WaitKind.SPIN,
        site=site,
        arrivals=arrivals,
        beats=beats,
    )


def yielder(*, per_ms: float = 2.0, cpu_share: float = 0.001) -> Thread:
    """Waits, yielding: runs often and briefly."""
    return lambda t: Now(
        cpu_ms=t * cpu_share, switches=int(t * per_ms), mark=Mark.WAIT, kind=WaitKind.SPIN, site=7, arrivals=1
    )


def sleeper(
    wake: WakeSource, *, mark: Mark = Mark.WAIT, kind: WaitKind = WaitKind.UNTIMED, slot: bool = True
) -> Thread:
    """Sleeps for ever."""
    return lambda _t: Now(
        state=ThreadState.ASLEEP, cpu_ms=1, switches=3, mark=mark, kind=kind, site=7, arrivals=1, wake=wake, slot=slot
    )


def poller(period_ms: float, *, mark: Mark = Mark.NONE, slot: bool = True) -> Thread:
    """Sleeps in a timed wait again and again."""
    return lambda t: Now(
        state=ThreadState.ASLEEP,
        cpu_ms=t * 0.001,
        switches=1 + int(t / period_ms),
        mark=mark,
        wake=WakeSource.TIMER,
        slot=slot,
    )


def computer(*, mark: Mark = Mark.RUN, share: float = 0.5, beats: int = 0, slot: bool = True) -> Thread:
    """Computes."""
    return lambda t: Now(cpu_ms=t * share, switches=int(t / 12), mark=mark, beats=beats, slot=slot)


def looper(kind: LoopKind, *, mark: Mark = Mark.NONE, beats: int = 0, slot: bool = True, share: float = 0.9) -> Thread:
    """Runs in one and the same loop, of which nothing changes."""
    loop = Loop(kind=kind, site="a.out+0x10", frame="f", polled=(word(),) if kind is LoopKind.POLL else ())
    return lambda t: Now(cpu_ms=t * share, switches=int(t / 12), mark=mark, beats=beats, slot=slot, loop=loop)


def word(value: int = 0, *, address: int = 0x1000, shared: bool = False) -> PolledWord:
    """Memory that a loop polls."""
    return PolledWord(address=address, size=4, value=value, shared=shared)


def beater(period_ms: float, *, share: float = 0.25) -> Thread:
    """Computes and beats."""
    return lambda t: Now(cpu_ms=t * share, switches=int(t / 12), mark=Mark.RUN, beats=int(t / period_ms))


def hungry(*, mark: Mark = Mark.WAIT) -> Thread:
    """Wants a CPU and gets none."""
    return lambda t: Now(waited_ms=t, mark=mark, kind=WaitKind.SPIN, site=7, arrivals=1)


def then(first: Thread, at_ms: float, second: Thread) -> Thread:
    """One behaviour until a time, then another, whose clock starts there; counters go on from where they were."""

    def both(t: float) -> Now:
        if t < at_ms:
            return first(t)
        old, new = first(at_ms), second(t - at_ms)
        return dataclasses.replace(
            new,
            cpu_ms=old.cpu_ms + new.cpu_ms,
            switches=old.switches + 1 + new.switches,
            waited_ms=old.waited_ms + new.waited_ms,
            arrivals=old.arrivals + new.arrivals,
            beats=old.beats + new.beats,
        )

    return both


def gone() -> Thread:
    """Has exited."""
    return lambda _t: Now(gone=True)


@dataclasses.dataclass
class World:
    """Simulated threads under a judge."""

    threads: Sequence[Thread]
    rules: Rules = dataclasses.field(default_factory=Rules)
    gaps: Gaps = dataclasses.field(default_factory=Gaps)
    slots: bool = True
    ends_at_ms: float | None = None
    may_read: bool = True
    timers: tuple[int, ...] = ()
    cycle: tuple[int, ...] = ()
    """Threads that want mutexes of each other, by index."""
    late_ms: Callable[[float], float] = lambda _t: 0.0
    events: list[Event] = dataclasses.field(default_factory=list)
    gathers: int = 0

    def look(self, t: float, late_ms: float = 0.0) -> Look:
        """Everything at one time."""
        readings, departed, departed_beats = [], 0, 0
        for index, thread in enumerate(self.threads):
            now = thread(t)
            if now.gone:
                departed += 1
                departed_beats += now.beats
                continue
            readings.append(_reading(index, now, slots=self.slots))
        return Look(
            at_ns=int(t * MS),
            late_ns=int(late_ms * MS),
            threads=tuple(readings),
            departed=departed,
            departed_beats=departed_beats,
            slots_seen=self.slots,
            started_ns=1,
        )

    def judge(self) -> Judgement:
        """Runs to the verdict, then folds the events again and holds the two against each other."""
        settled = self._run()
        assert judge.refold(self.rules, self.gaps, self.events) == settled
        return settled

    def _run(self) -> Judgement:
        state = judge.begin(self.rules, self.gaps)
        t, limit = 10.0, self.rules.limit_s * 1000
        while True:
            late = self.late_ms(t)
            t = t + late
            event: Event
            if self.ends_at_ms is not None and t >= self.ends_at_ms:
                event = self._ended(self.ends_at_ms)
            elif t >= limit:
                event = LimitReached(look=self.look(t, late))
            else:
                event = self.look(t, late)
            while True:
                self.events.append(event)
                state, command = judge.step(state, event)
                match command:
                    case Settle(judgement=judgement):
                        return judgement
                    case Gather():
                        t += 2
                        event = self._gather(t, command)
                    case LookAgain(after_s=after_s):
                        t += after_s * 1000
                        break

    def _ended(self, t: float) -> Ended:
        beats = sum(thread(t).beats for thread in self.threads)
        return Ended(at_ns=int(t * MS), exit_code=0, result=1, team=len(self.threads), started_ns=1, beats=beats)

    def _gather(self, t: float, command: Gather) -> Evidence:
        self.gathers += 1
        found = []
        for id_ in command.threads:
            now = self.threads[id_.tid - PID](t)
            if now.state is not ThreadState.ASLEEP:
                if EvidenceKind.LOOPS in command.kinds and not self.may_read:
                    found.append(ThreadEvidence(id=id_, unreadable="registers: not permitted"))
                elif EvidenceKind.LOOPS in command.kinds and now.loop:
                    found.append(ThreadEvidence(id=id_, pc=1, pc_site="a.out+0x11", loop=now.loop))
                continue
            if self.may_read:
                found.append(ThreadEvidence(id=id_, wake=now.wake, sleeps_in=f"a wait ({now.wake})"))
            else:
                found.append(ThreadEvidence(id=id_, wake=WakeSource.UNKNOWN, unreadable="not permitted"))
        cycle = tuple(ThreadId(pid=PID, tid=PID + index) for index in self.cycle)
        owners = cycle if EvidenceKind.MUTEX_OWNERS in command.kinds else ()
        return Evidence(look=self.look(t), threads=tuple(found), timers=self.timers, mutex_cycle=owners)


def _reading(index: int, now: Now, *, slots: bool) -> ThreadReading:
    id_ = ThreadId(pid=now.pid, tid=PID + index)
    slot = Slot(
        index=index,
        generation=1,
        pid=PID,
        tid=id_.tid,
        beats=now.beats,
        mark=now.mark,
        kind=now.kind,
        site=now.site,
        arrivals=now.arrivals,
    )
    return ThreadReading(
        id=id_,
        state=now.state,
        cpu_ns=int(now.cpu_ms * MS),
        switches=now.switches,
        waited_ns=int(now.waited_ms * MS),
        slot=slot if slots and now.slot else None,
    )
