"""Following the threads from look to look: what each has spent, and whether anything happened that could end the stall.

The *anchor* is what makes the allowances safe. A waiter that has spent its allowance proves nothing if another thread
released it only afterwards: it may just not have run since. So whenever a thread does anything that could release
another (it begins or ends a wait, runs and falls asleep again, is born, exits), everybody's allowance starts anew.
A thread that has waited anew for a long time, or is woken by its timer again and again, without a beat has had its
chances: from then on it moves the anchor no more.
"""

from __future__ import annotations

import msgspec

from livetrap.judge import loops
from livetrap.judge.roles import waits_anew
from livetrap.judge.state import Progress, State, Track
from livetrap.model import (
    AWAKE,
    Evidence,
    Look,
    Mark,
    ThreadId,
    ThreadReading,
    ThreadState,
    WaitKind,
    WakeSource,
)

BURST_PAUSE_NS = 200_000_000
"""A busy machine may let a thread run that seldom; longer, and it has stopped beginning waits."""


def follow(state: State, look: Look) -> State:
    """The state after one more look."""
    if state.looks == 0:
        return _first(state, look)
    interval = max(0, look.at_ns - state.now_ns)
    suspended = max(0, look.suspended_ns - state.suspended_total_ns)
    void = interval if _is_void(state, look, suspended) else 0
    beats = _total(look)
    threads = {reading.id: reading for reading in look.threads}
    stirred = look.departed != state.departed or threads.keys() != state.tracks.keys()
    tracks: dict[ThreadId, Track] = {}
    for id_, reading in threads.items():
        before = state.tracks.get(id_)
        if before is None:
            tracks[id_] = _born(reading, look, beats=beats)
            continue
        tracks[id_] = _continue(before, reading, look=look, beats=beats, void=void > 0)
        stirred = stirred or _stirs(before, tracks[id_], state)
    progress = _progress(look)
    moved = beats != state.beats or (not look.slots_seen and progress != state.progress)
    state = msgspec.structs.replace(
        state,
        looks=state.looks + 1,
        started_ns=look.started_ns or state.started_ns,
        slots_seen=state.slots_seen or look.slots_seen,
        overflow=look.overflow,
        departed=look.departed,
        progress=progress,
        probe_passes=look.probe_passes,
        suspended_total_ns=look.suspended_ns,
    )
    if moved:
        return _beat(state, tracks, look, beats=beats)
    if stirred:
        tracks = {id_: _unspent(track) for id_, track in tracks.items()}
    started = 0 if state.ever_beat else look.started_ns
    return msgspec.structs.replace(
        state,
        now_ns=look.at_ns,
        anchor_ns=look.at_ns if stirred else state.anchor_ns,
        last_beat_ns=max(state.last_beat_ns, started),
        seen_beat_ns=max(state.seen_beat_ns, started),
        total_cpu_ns=sum(track.beat_cpu_ns for track in tracks.values()),
        most_cpu_ns=max((track.beat_cpu_ns for track in tracks.values()), default=0),
        void_ns=state.void_ns + void,
        suspended_ns=state.suspended_ns + suspended,
        tracks=tracks,
        longest_wait_ns=_longest_wait(state, tracks, look),
    )


def learn(state: State, evidence: Evidence) -> State:
    """The state after gathering: the look that was taken after it, then what was found out about each thread."""
    before = state.tracks
    state = follow(state, evidence.look)
    tracks = dict(state.tracks)
    for found in evidence.threads:
        track = tracks.get(found.id)
        if track is None:
            continue
        if found.wake is not None and _slept_through(before.get(found.id), track):
            track = msgspec.structs.replace(
                track, wake=found.wake, wake_of_ns=track.asleep_since_ns, sleeps_in=found.sleeps_in
            )
        elif found.wake is WakeSource.TIMER and track.wakes:
            track = msgspec.structs.replace(track, wake=found.wake, wake_of_ns=None, sleeps_in=found.sleeps_in)
        elif found.unreadable and not track.awake:
            track = msgspec.structs.replace(track, wake_of_ns=None, sleeps_in=found.unreadable)
        if track.awake and (found.pc_site or found.unreadable):
            track = msgspec.structs.replace(
                track, pc_site=found.pc_site or track.pc_site, unreadable=found.unreadable if not found.loop else ""
            )
        if track.awake and found.loop is not None:
            track = loops.saw(track, found.loop, now_ns=state.now_ns)
        tracks[found.id] = track
    return msgspec.structs.replace(
        state,
        tracks=loops.without_contradictions(tracks),
        timers=evidence.timers,
        gathered_ns=state.now_ns,
        gather_wait_s=_next_wait_s(state),
    )


def _next_wait_s(state: State) -> float:
    """Time to the next gathering, in s: longer each time, and longest where nobody beats: there is no end to those."""
    least = state.rules.regather_s
    return min(max(state.gather_wait_s * 1.5, least), (25 if state.phase is None else 10) * least)


def _first(state: State, look: Look) -> State:
    beats = _total(look)
    return msgspec.structs.replace(
        state,
        looks=1,
        first_ns=look.at_ns,
        now_ns=look.at_ns,
        anchor_ns=look.at_ns,
        started_ns=look.started_ns,
        last_beat_ns=look.started_ns or look.at_ns,
        seen_beat_ns=look.at_ns,
        beats=beats,
        ever_beat=beats > 0,
        departed=look.departed,
        slots_seen=look.slots_seen,
        overflow=look.overflow,
        suspended_total_ns=look.suspended_ns,
        probe_passes=look.probe_passes,
        longest_gap_ns=max(0, look.at_ns - look.started_ns) if look.started_ns and beats else 0,
        progress=_progress(look),
        tracks={reading.id: _born(reading, look, beats=beats) for reading in look.threads},
    )


def _is_void(state: State, look: Look, suspended: int) -> bool:
    """A late look voids the time that it closes, and so does a probe that stood still, or a suspended machine."""
    stuck_probe = look.probe_passes is not None and look.probe_passes == state.probe_passes
    return look.late_ns > state.rules.void_late_s * 1e9 or stuck_probe or suspended > 0


def _born(reading: ThreadReading, look: Look, *, beats: int) -> Track:
    slot = reading.slot
    return Track(
        id=reading.id,
        state=reading.state,
        slot=slot,
        cpu_ns=reading.cpu_ns,
        switches=reading.switches,
        waited_ns=reading.waited_ns,
        arrivals_at_beat=slot.arrivals if slot else 0,
        asleep_since_ns=look.at_ns if reading.state is ThreadState.ASLEEP else None,
        wait_since_ns=look.at_ns if slot and slot.mark is Mark.WAIT else None,
        beats_at_wait=beats,
    )


def _progress(look: Look) -> Progress:
    return Progress(
        output_bytes=look.output_bytes,
        io_count=None if look.slots_seen else look.io_count,
        threads=frozenset(reading.id for reading in look.threads),
    )


def _total(look: Look) -> int:
    return look.departed_beats + sum(reading.slot.beats for reading in look.threads if reading.slot)


def _delta(now: int | None, before: int | None) -> int:
    return max(0, now - before) if now is not None and before is not None else 0


def _continue(before: Track, reading: ThreadReading, *, look: Look, beats: int, void: bool) -> Track:
    """The thread's track after this look; `beats` are all that the look saw."""
    cpu = _delta(reading.cpu_ns, before.cpu_ns)
    switches = _delta(reading.switches, before.switches)
    same_wait, changed = _same_wait(before, reading), _changed(before, reading)
    counts = not void and (same_wait or before.mark is not Mark.WAIT)
    waits = same_wait and not void
    yields = switches if before.awake and reading.state in AWAKE else 0
    ran = switches > 0 or (reading.switches is None and cpu > 0)
    asleep = reading.state is ThreadState.ASLEEP
    was_asleep = before.state is ThreadState.ASLEEP
    rested = asleep and was_asleep and not ran
    woken = was_asleep and not rested
    in_wait = reading.slot is not None and reading.slot.mark is Mark.WAIT
    loops_on = before.loop is not None and before.awake and reading.state in AWAKE and not changed
    waits_begun = _waits_begun(before, reading)
    paused = before.burst_since_ns is not None and look.at_ns - before.begun_ns <= BURST_PAUSE_NS
    in_burst = waits_begun > 0 or paused
    keeps_waiting = in_wait and before.wait_since_ns is not None and not _own_beat(before, reading)
    return Track(
        id=reading.id,
        state=reading.state,
        slot=reading.slot,
        cpu_ns=reading.cpu_ns,
        switches=reading.switches,
        waited_ns=reading.waited_ns,
        spent_cpu_ns=before.spent_cpu_ns + (cpu if counts else 0),
        spent_switches=before.spent_switches + (yields if counts else 0),
        beat_cpu_ns=before.beat_cpu_ns + cpu,
        beat_switches=before.beat_switches + switches,
        beat_wait_cpu_ns=before.beat_wait_cpu_ns + (cpu if waits else 0),
        beat_wait_switches=before.beat_wait_switches + (yields if waits else 0),
        beat_waited_ns=before.beat_waited_ns + _delta(reading.waited_ns, before.waited_ns),
        arrivals_at_beat=before.arrivals_at_beat,
        asleep_since_ns=before.asleep_since_ns if rested else (look.at_ns if asleep else None),
        wakes=before.wakes + (max(1, switches) if woken and not changed else 0),
        naps=before.naps + (1 if asleep and not rested else 0),
        changes=before.changes + (1 if changed else 0),
        burst_since_ns=(before.burst_since_ns or look.at_ns) if in_burst else None,
        begun_ns=look.at_ns if waits_begun else before.begun_ns,
        burst_arrivals=before.burst_arrivals + waits_begun if in_burst else 0,
        burst_cpu_ns=before.burst_cpu_ns + cpu if in_burst else 0,
        wait_since_ns=before.wait_since_ns if keeps_waiting else (look.at_ns if in_wait else None),
        beats_at_wait=before.beats_at_wait if keeps_waiting else beats,
        wake=before.wake,
        wake_of_ns=before.wake_of_ns,
        sleeps_in=before.sleeps_in if asleep else "",
        pc_site=before.pc_site if same_wait else "",
        loop=before.loop if loops_on else None,
        loop_stops=before.loop_stops if loops_on else 0,
        loop_since_ns=before.loop_since_ns if loops_on else 0,
        loop_seen_ns=before.loop_seen_ns if loops_on else 0,
        unreadable=before.unreadable,
    )


def _stirs(before: Track, after: Track, state: State) -> bool:
    """Whether what it did since the last look could have released another thread."""
    rules = state.rules
    if after.changes != before.changes:
        return after.mark in {Mark.PARKED, Mark.DONE} or not waits_anew(before, state)
    if after.naps == before.naps:
        return False
    if before.wake is WakeSource.TIMER or (
        after.slot and after.mark is Mark.WAIT and after.slot.kind is WaitKind.TIMED
    ):
        return before.naps < rules.timer_fires
    return after.mark is not Mark.WAIT or before.naps < rules.switch_allowance


def _waits_begun(before: Track, reading: ThreadReading) -> int:
    """Waits that it has begun since the last look."""
    if before.slot is None or reading.slot is None or before.slot.generation != reading.slot.generation:
        return 0
    return max(0, reading.slot.arrivals - before.slot.arrivals)


def _own_beat(before: Track, reading: ThreadReading) -> bool:
    return bool(
        before.slot
        and reading.slot
        and before.slot.generation == reading.slot.generation
        and before.slot.beats != reading.slot.beats
    )


def _same_wait(before: Track, reading: ThreadReading) -> bool:
    """Both looks saw WAIT, and it is one and the same wait."""
    old, new = before.slot, reading.slot
    return bool(
        old
        and new
        and old.mark is Mark.WAIT
        and new.mark is Mark.WAIT
        and (old.generation, old.site, old.arrivals) == (new.generation, new.site, new.arrivals)
    )


def _changed(before: Track, reading: ThreadReading) -> bool:
    old, new = before.slot, reading.slot
    if old is None or new is None:
        return old is not new
    return (old.generation, old.mark, old.site, old.arrivals) != (new.generation, new.mark, new.site, new.arrivals)


def _slept_through(before: Track | None, after: Track) -> bool:
    """It slept from before the gathering until after it, so what was read belongs to this very sleep."""
    return (
        before is not None
        and before.asleep_since_ns is not None
        and after.asleep_since_ns is not None
        and before.asleep_since_ns == after.asleep_since_ns
    ) or after.state is ThreadState.UNINTERRUPTIBLE


def _unspent(track: Track) -> Track:
    if not track.spent_cpu_ns and not track.spent_switches:
        return track
    return msgspec.structs.replace(track, spent_cpu_ns=0, spent_switches=0)


def _beat(state: State, tracks: dict[ThreadId, Track], look: Look, *, beats: int) -> State:
    """Something was completed: all that is counted since the last beat starts anew."""
    gap = look.at_ns - state.last_beat_ns
    rested = {
        id_: msgspec.structs.replace(
            track,
            spent_cpu_ns=0,
            spent_switches=0,
            beat_cpu_ns=0,
            beat_switches=0,
            beat_wait_cpu_ns=0,
            beat_wait_switches=0,
            beat_waited_ns=0,
            arrivals_at_beat=track.slot.arrivals if track.slot else 0,
            wakes=0,
            burst_since_ns=None,
            burst_arrivals=0,
            burst_cpu_ns=0,
            naps=0,
            changes=0,
            pc_site="",
            loop=None,
            loop_stops=0,
        )
        for id_, track in tracks.items()
    }
    early = state.now_ns if state.ever_beat else max(state.now_ns, look.started_ns)
    return msgspec.structs.replace(
        state,
        now_ns=look.at_ns,
        anchor_ns=look.at_ns,
        last_beat_ns=min(early, look.at_ns),
        seen_beat_ns=look.at_ns,
        beats=beats,
        ever_beat=state.ever_beat or beats > 0,
        total_cpu_ns=0,
        most_cpu_ns=0,
        most_waits=max([state.most_waits, *(track.arrivals_since_beat for track in tracks.values())]),
        void_ns=0,
        suspended_ns=0,
        longest_gap_ns=max(state.longest_gap_ns, gap),
        longest_wait_ns=_longest_wait(state, rested, look),
        gathered_ns=0,
        gather_wait_s=0.0,
        tracks=rested,
    )


def _longest_wait(state: State, tracks: dict[ThreadId, Track], look: Look) -> int:
    """The longest wait of any thread that came to an end."""
    longest = state.longest_wait_ns
    for id_, track in tracks.items():
        before = state.tracks.get(id_)
        if before and before.wait_since_ns is not None and track.wait_since_ns != before.wait_since_ns:
            longest = max(longest, look.at_ns - before.wait_since_ns)
    return longest
