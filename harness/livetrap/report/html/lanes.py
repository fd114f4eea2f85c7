"""What each thread of a trial did over time, out of its stored events: beats, CPU, waiting for CPU, asleep. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from livetrap.model import (
    AWAKE,
    Ended,
    Event,
    Evidence,
    Frozen,
    Judgement,
    LimitReached,
    Look,
    Role,
    ThreadId,
    ThreadReading,
    ThreadState,
)

COLUMNS = 120
"""Spans of a lane at most; shorter ones are brought together."""
MOST_LANES = 32
STALL_SHARE = 0.3
"""A stall that is a smaller part of the trial is shown with only so much before it."""
CLEAR_SHARE = 0.12
"""... where it is even smaller than this."""
NEAR_SHARE = 0.5
"""A last beat that was so much before the first look is still shown; a part of the time looked at."""


class Span(Frozen, kw_only=True):
    """What one thread did between two looks, or several that were brought together. Times in seconds from the zero."""

    begin_s: float
    end_s: float
    cpu_s: float | None
    """CPU time that it used; None: the system does not tell."""
    waited_s: float | None
    """Time for which it wanted a CPU and had none; None: the system does not tell."""
    awake_s: float
    """Time at whose end it was seen awake."""
    beats: int

    @property
    def took_s(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s

    @property
    def asleep_s(self) -> float:
        """The time in which it neither had nor wanted a CPU; by the states at looks where no clock is told."""
        busy = self.awake_s if self.cpu_s is None else self.cpu_s + (self.waited_s or 0.0)
        return max(0.0, self.took_s - busy)


class Lane(Frozen, kw_only=True):
    """One thread."""

    id: ThreadId
    role: Role | None
    """None: it was not judged; it may have gone before."""
    stopped: bool
    """It was last seen stopped, or asleep in a way that no signal ends."""
    spans: tuple[Span, ...]

    def total(self, name: str) -> float | None:
        """The sum of a time over its spans; None where the system does not tell it."""
        found = [getattr(span, name) for span in self.spans]
        return None if None in found else sum(found)

    @property
    def beats(self) -> int:
        """All beats in the time shown."""
        return sum(span.beats for span in self.spans)


class Mark(Frozen, kw_only=True):
    """Something at one time."""

    at_s: float
    what: str


class Lanes(Frozen, kw_only=True):
    """A trial over time; the zero is the start line, else the first look."""

    lanes: tuple[Lane, ...]
    left_out: int
    """Threads beyond `MOST_LANES`."""
    begin_s: float
    """What came before is not shown: nothing is known of it, or it would leave no room for the stall."""
    end_s: float
    last_beat_s: float | None
    """None: nothing beat in the time shown."""
    settled_s: float
    stalled: bool
    """From the last beat to the verdict nothing beat, and that is what the verdict is about."""
    marks: tuple[Mark, ...]
    looks: int


def lanes_of(events: Iterable[Event], judgement: Judgement, *, hung: bool) -> Lanes | None:
    """The lanes of a trial; None where there are too few looks to tell of any time. `hung`: it was judged a hang."""
    events = list(events)
    looks = sorted(
        (event if isinstance(event, Look) else event.look for event in events if not isinstance(event, Ended)),
        key=lambda look: look.at_ns,
    )
    if len(looks) < 2 or looks[0].at_ns >= looks[-1].at_ns:
        return None
    zero = next((look.started_ns for look in looks if 0 < look.started_ns <= looks[-1].at_ns), looks[0].at_ns)
    settled = max(judgement.settled_ns, looks[-1].at_ns)
    begin = _begin(looks[0].at_ns, settled, judgement.last_beat_ns if hung else settled)
    found = _threads(look for look in looks if look.at_ns >= begin)
    if hung and begin == looks[0].at_ns and 0 < begin - judgement.last_beat_ns <= NEAR_SHARE * (settled - begin):
        begin = judgement.last_beat_ns  # the stall is shown whole, though the first look came later
    roles = {thread.id: thread.role for thread in judgement.threads}
    lanes = [
        _lane(id_, readings, role=roles.get(id_), zero=zero, least_s=(settled - begin) / 1e9 / COLUMNS)
        for id_, readings in found.items()
        if len(readings) > 1
    ]
    lanes.sort(key=lambda lane: lane.id)
    shown = sorted(sorted(lanes, key=_weight)[:MOST_LANES], key=lambda lane: lane.id)
    last = judgement.last_beat_ns
    return Lanes(
        lanes=tuple(shown),
        left_out=len(lanes) - len(shown),
        begin_s=(begin - zero) / 1e9,
        end_s=(settled - zero) / 1e9,
        last_beat_s=(last - zero) / 1e9 if begin <= last <= settled else None,
        settled_s=(settled - zero) / 1e9,
        stalled=hung,
        marks=tuple(_marks(events, zero=zero, begin=begin)),
        looks=sum(look.at_ns >= begin for look in looks),
    )


def _begin(first: int, settled: int, stalled_from: int) -> int:
    """Where the time shown begins, so that the stall is no sliver of it."""
    stall = settled - max(first, stalled_from)
    if stall <= 0 or stall >= CLEAR_SHARE * (settled - first):
        return first
    return max(first, settled - int(stall / STALL_SHARE))


def _threads(looks: Iterable[Look]) -> dict[ThreadId, list[tuple[int, ThreadReading]]]:
    found: dict[ThreadId, list[tuple[int, ThreadReading]]] = {}
    for look in looks:
        for reading in look.threads:
            if reading.state is not ThreadState.GONE:
                found.setdefault(reading.id, []).append((look.at_ns, reading))
    return found


def _weight(lane: Lane) -> tuple[bool, float]:
    """Threads that were judged come first, then those that were busy."""
    return lane.role in {None, Role.PARKED, Role.EXITED}, -sum(span.took_s - span.asleep_s for span in lane.spans)


def _lane(
    id_: ThreadId, readings: Sequence[tuple[int, ThreadReading]], *, role: Role | None, zero: int, least_s: float
) -> Lane:
    last = readings[-1][1].state
    return Lane(
        id=id_,
        role=role,
        stopped=last in {ThreadState.STOPPED, ThreadState.UNINTERRUPTIBLE},
        spans=tuple(_together(_spans(readings, zero=zero), least_s=least_s)),
    )


def _spans(readings: Sequence[tuple[int, ThreadReading]], *, zero: int) -> Iterator[Span]:
    for (before_ns, before), (at_ns, now) in pairwise(readings):
        if at_ns <= before_ns:
            continue
        took = (at_ns - before_ns) / 1e9
        cpu = _used(before.cpu_ns, now.cpu_ns, most=took)
        yield Span(
            begin_s=(before_ns - zero) / 1e9,
            end_s=(at_ns - zero) / 1e9,
            cpu_s=cpu,
            waited_s=_used(before.waited_ns, now.waited_ns, most=took - (cpu or 0.0)),
            awake_s=took if now.state in AWAKE else 0.0,
            beats=_beats(before, now),
        )


def _used(before: int | None, now: int | None, *, most: float) -> float | None:
    """Clocks tick and are read one after the other: never more than the time there was."""
    return None if before is None or now is None else min(max(0.0, most), max(0, now - before) / 1e9)


def _beats(before: ThreadReading, now: ThreadReading) -> int:
    if now.slot is None:
        return 0
    same = before.slot is not None and before.slot.generation == now.slot.generation
    return max(0, now.slot.beats - (before.slot.beats if same and before.slot else 0))


def _together(spans: Iterable[Span], *, least_s: float) -> Iterator[Span]:
    """Neighbours as one until they are long enough to be seen."""
    held: Span | None = None
    for span in spans:
        held = span if held is None else _joined(held, span)
        if held.took_s >= least_s:
            yield held
            held = None
    if held is not None:
        yield held


def _joined(one: Span, other: Span) -> Span:
    return Span(
        begin_s=one.begin_s,
        end_s=other.end_s,
        cpu_s=_sum(one.cpu_s, other.cpu_s),
        waited_s=_sum(one.waited_s, other.waited_s),
        awake_s=one.awake_s + other.awake_s,
        beats=one.beats + other.beats,
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _marks(events: Iterable[Event], *, zero: int, begin: int) -> Iterator[Mark]:
    for event in events:
        if isinstance(event, Evidence | LimitReached) and event.look.at_ns >= begin:
            what = "evidence gathered" if isinstance(event, Evidence) else "time limit"
            yield Mark(at_s=(event.look.at_ns - zero) / 1e9, what=what)
