"""What the judge remembers between events: frozen and bounded, a few numbers per thread."""

from __future__ import annotations

from typing import Any

import msgspec

from livetrap.model import (
    AWAKE,
    Certainty,
    Frozen,
    Gaps,
    Judgement,
    Loop,
    Mark,
    Phase,
    Rules,
    Slot,
    ThreadId,
    ThreadState,
    Verdict,
    WakeSource,
)


class Track(Frozen, kw_only=True):
    """One thread since the last beat of the target.

    `spent_*` counts towards the allowance: since the *anchor*, the last moment at which another thread did something
    that could have released this one. `beat_*` counts since the last beat, whatever happened in between.
    """

    id: ThreadId
    state: ThreadState
    slot: Slot | None
    cpu_ns: int | None
    switches: int | None
    waited_ns: int | None
    spent_cpu_ns: int = 0
    spent_switches: int = 0
    beat_cpu_ns: int = 0
    """CPU time of any kind since the last beat."""
    beat_switches: int = 0
    """Times scheduled in since the last beat."""
    beat_wait_cpu_ns: int = 0
    """CPU time between looks that both saw the same wait, since the last beat."""
    beat_wait_switches: int = 0
    beat_waited_ns: int = 0
    """Time runnable without a CPU since the last beat."""
    arrivals_at_beat: int = 0
    asleep_since_ns: int | None = None
    """It has slept throughout since then; None: it is awake, or has just run."""
    wakes: int = 0
    """Times it woke, since the last beat, and was found in the same wait, or without a mark, again: in vain."""
    naps: int = 0
    """Times it ran and fell asleep since the last beat."""
    changes: int = 0
    """Times its mark, site or arrivals changed since the last beat."""
    burst_since_ns: int | None = None
    """Since then it has begun waits again and again, with no more than a short pause; None: it has not lately."""
    begun_ns: int = 0
    """The last look that saw it in a new wait."""
    burst_arrivals: int = 0
    """Waits that it has begun since then."""
    burst_cpu_ns: int = 0
    wait_since_ns: int | None = None
    """In WAIT at every look since then, without a beat of its own."""
    beats_at_wait: int = 0
    """Beats of the whole target at that time."""
    wake: WakeSource | None = None
    """Of the last of its sleeps that was looked into ..."""
    wake_of_ns: int | None = None
    """... which is its present one if it began then (`asleep_since_ns`)."""
    sleeps_in: str = ""
    pc_site: str = ""
    loop: Loop | None = None
    """That it was last seen in, since the last beat and since it last slept."""
    loop_stops: int = 0
    """Stops in a row that found it there with nothing changed ..."""
    loop_since_ns: int = 0
    """... from the first of them ..."""
    loop_seen_ns: int = 0
    """... to the last."""
    unreadable: str = ""
    """Why its registers could not be read."""

    @property
    def mark(self) -> Mark:
        """Its mark; NONE without a slot."""
        return self.slot.mark if self.slot else Mark.NONE

    @property
    def awake(self) -> bool:
        """It has, or wants, a CPU."""
        return self.state in AWAKE

    @property
    def wake_now(self) -> WakeSource:
        """Of its present sleep; unknown until that was looked into."""
        known = self.wake_of_ns is not None and self.wake_of_ns == self.asleep_since_ns
        return self.wake if known and self.wake else WakeSource.UNKNOWN

    @property
    def arrivals_since_beat(self) -> int:
        """Waits that it has begun since the target's last beat."""
        return self.slot.arrivals - self.arrivals_at_beat if self.slot else 0


class Progress(Frozen, kw_only=True):
    """What shows that a target without slots goes on."""

    output_bytes: int | None = None
    io_count: int | None = None
    threads: frozenset[ThreadId] = frozenset()


class State(Frozen, kw_only=True):
    """The fold's memory."""

    rules: Rules
    gaps: Gaps
    first_ns: int = 0
    now_ns: int = 0
    looks: int = 0
    started_ns: int = 0
    last_beat_ns: int = 0
    """An early bound: the last look that had not yet seen it."""
    seen_beat_ns: int = 0
    """A late bound: the look that saw it."""
    anchor_ns: int = 0
    beats: int = 0
    departed: int = 0
    ever_beat: bool = False
    slots_seen: bool = False
    overflow: bool = False
    progress: Progress = Progress()
    void_ns: int = 0
    """Void time since the last beat."""
    longest_gap_ns: int = 0
    longest_wait_ns: int = 0
    """The longest wait of any thread that came to an end."""
    suspended_ns: int = 0
    """Machine suspension since the last beat."""
    suspended_total_ns: int = 0
    total_cpu_ns: int = 0
    """CPU time of all threads together since the last beat."""
    most_cpu_ns: int = 0
    """CPU time of the thread that got most of it since the last beat."""
    most_waits: int = 0
    """Most waits that a thread began between two beats."""
    tracks: dict[ThreadId, Track] = msgspec.field(default_factory=dict)
    ever_suspect: bool = False
    timers: tuple[int, ...] = ()
    """Processes that a timer of their own may interrupt, as gathered last: its handler could end the stall."""
    gathered_ns: int = 0
    gather_wait_s: float = 0.0
    limit_hit: bool = False
    probe_passes: int | None = None

    @property
    def since_beat_ns(self) -> int:
        """Time since the last beat by the looks, without that of void looks and of suspension, in ns."""
        return max(0, self.now_ns - self.seen_beat_ns - self.void_ns - self.suspended_ns)

    @property
    def phase(self) -> Phase | None:
        """None without slots."""
        if not self.slots_seen:
            return None
        if not self.ever_beat:
            return Phase.STARTING
        claimed = [track for track in self.tracks.values() if track.slot]
        if all(track.mark is Mark.DONE for track in claimed) and (claimed or self.departed):
            return Phase.FINISHING
        return Phase.RUNNING

    @property
    def window_ns(self) -> int:
        """How long nothing may beat before the trial is suspect, in ns."""
        rules, phase = self.rules, self.phase
        floor = rules.silent_floor_s if phase is None else rules.floor_s
        if phase is Phase.FINISHING:
            floor = max(floor, rules.finishing_floor_s)
        longest = max(self.longest_gap_ns / 1e9, self.gaps.cell_s)
        return int(min(max(floor, rules.gap_factor * longest), rules.limit_s / 2) * 1e9)

    @property
    def suspect(self) -> bool:
        """Nothing has beaten for too long."""
        return self.looks > 0 and self.since_beat_ns > self.window_ns

    @property
    def still_beats(self) -> bool:
        """At the time limit, void looks and all: it has beaten within the window."""
        return self.now_ns - self.seen_beat_ns <= self.window_ns


def judgement(
    state: State,
    *,
    verdict: Verdict,
    reason: str,
    rule: str,
    certainty: Certainty = Certainty.OBSERVED,
    **more: Any,
) -> Judgement:
    """A verdict with what the state knows about the stall."""
    return Judgement(
        verdict=verdict,
        certainty=certainty,
        reason=reason,
        rule=rule,
        phase=state.phase,
        settled_ns=state.now_ns,
        last_beat_ns=state.last_beat_ns,
        longest_stall_s=state.longest_gap_ns / 1e9,
        beats=state.beats,
        **more,
    )
