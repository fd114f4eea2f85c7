"""What each thread did since the last beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from livetrap.judge import loops
from livetrap.judge.state import State, Track
from livetrap.model import (
    Mark,
    Role,
    Rules,
    Shape,
    ThreadJudgement,
    ThreadState,
    WaitKind,
    WakeSource,
)


def roles(state: State) -> tuple[ThreadJudgement, ...]:
    """Every thread with its role, by process and thread id."""
    return tuple(_judge(track, state) for _, track in sorted(state.tracks.items()))


def shape(state: State, threads: Iterable[ThreadJudgement]) -> Shape:
    """How many do what; threads that have gone are counted by the page."""
    counts = Counter(thread.role.value for thread in threads)
    counts[Role.EXITED.value] += state.departed
    return Shape(**counts)


def _judge(track: Track, state: State) -> ThreadJudgement:
    role, wake = role_of(track, state)
    slot = track.slot
    return ThreadJudgement(
        id=track.id,
        role=role,
        mark=slot.mark if slot else None,
        wake=wake,
        sleeps_in=track.sleeps_in,
        site=slot.site if slot and slot.mark is Mark.WAIT else None,
        arrivals=slot.arrivals if slot else None,
        beats=slot.beats if slot else None,
        cpu_s=track.spent_cpu_ns / 1e9,
        switches=track.spent_switches,
        pc_site=track.pc_site,
        loop=track.loop.kind if track.loop else None,
        loop_site=track.loop.site if track.loop else "",
        loop_traits=track.loop.traits if track.loop else (),
    )


def role_of(track: Track, state: State) -> tuple[Role, WakeSource | None]:
    """The thread's role, and what could still wake or release it."""
    if track.state is ThreadState.GONE:
        return Role.EXITED, None
    if track.mark is Mark.DONE and not works_on(track, state.rules):
        return _done(track)
    if track.state is ThreadState.STOPPED:
        return Role.STOPPED, None
    if spins_in_bursts(track, state):
        return Role.SPINNING, None
    if track.awake:
        if polls_by_timer(track, state):
            return Role.POLLING, WakeSource.TIMER
        return _awake(track, state), _released_by(track)
    if track.state is ThreadState.UNINTERRUPTIBLE:
        return Role.PARKED, WakeSource.OUTSIDE
    if track.state is ThreadState.UNKNOWN:
        return Role.UNDECIDED, None
    return _asleep(track, state)


def works_on(track: Track, rules: Rules) -> bool:
    """It says that its work is over, and uses the CPU all the same: another program in its process (exec), say."""
    return track.awake and track.beat_cpu_ns >= rules.cpu_allowance_ns


def spins_in_bursts(track: Track, state: State) -> bool:
    """It waits, and has been let go to wait again, or has been woken in vain, again and again without a beat.

    A thread that says that it waits for something outside is let off: what it waits for may still come.
    """
    rules = state.rules
    if track.mark not in {Mark.WAIT, Mark.RUN} or (track.slot and track.slot.kind is WaitKind.OUTSIDE):
        return False
    if waits_anew(track, state):
        return True
    if track.mark is not Mark.WAIT:
        return False
    naps = track.slot is not None and track.slot.kind is WaitKind.TIMED
    timed = naps or track.wake is WakeSource.TIMER
    patience_s = rules.poller_s if naps else rules.woken_s
    woken_in_vain = track.wakes >= (rules.timer_fires if timed else rules.switch_allowance)
    return woken_in_vain and state.since_beat_ns >= patience_ns(patience_s, rules)


def waits_anew(track: Track, state: State) -> bool:
    """It has begun one wait after the other for so long that nothing is to be expected of its next one.

    Before the time limit the patience is whole, however near that is: a call may consist of many short steps, with a
    wait after each, and its beat comes when it is over.
    """
    rules, since = state.rules, track.burst_since_ns
    if since is None:
        return False
    # What healthy gaps held of waits in this trial is no sign of a livelock, nor are waits with work between them, nor
    # those that lie behind it: it must begin them still, at every look.
    often = track.burst_arrivals >= max(rules.switch_allowance, rules.gap_factor * state.most_waits)
    patience = patience_ns(rules.burst_s, rules) if state.limit_hit else rules.burst_s * 1e9
    long = state.now_ns - since >= patience
    return often and long and track.burst_cpu_ns < track.burst_arrivals * rules.burst_cpu_ns


def patience_ns(wanted_s: float, rules: Rules) -> float:
    """How long to be patient, in ns: never over half the time limit."""
    return min(wanted_s, rules.limit_s / 2) * 1e9


def bursts(track: Track) -> bool:
    """It still begins another wait at every look."""
    return track.burst_since_ns is not None


def polls_by_timer(track: Track, state: State) -> bool:
    """A timer has woken it again and again, and it went to sleep again without doing much or saying anything."""
    return (
        track.wake is WakeSource.TIMER
        and track.wakes >= state.rules.timer_fires
        and track.mark in {Mark.NONE, Mark.PARKED}
        and track.beat_cpu_ns < state.rules.starved_share * state.since_beat_ns
    )


def over_allowance(track: Track, rules: Rules) -> bool:
    """Since the last thing that could have released it, it has had CPU time enough to see that it is free."""
    return track.spent_cpu_ns >= rules.cpu_allowance_ns or track.spent_switches >= rules.switch_allowance


def spun_since_beat(track: Track, rules: Rules) -> bool:
    """The same since the last beat, whatever others did in between: for the time limit, when no more is to be seen."""
    if track.mark is not Mark.WAIT:
        stuck = loops.is_endless(track) or (track.mark is Mark.NONE and loops.is_fixed(track, rules))
        return track.awake and stuck and track.beat_cpu_ns >= rules.cpu_allowance_ns
    return track.awake and (
        track.beat_wait_cpu_ns >= rules.cpu_allowance_ns or track.beat_wait_switches >= rules.switch_allowance
    )


def starved_ns(track: Track, state: State) -> int:
    """For how long, since the last beat, it wanted a CPU and got next to none, in ns."""
    rules, elapsed = state.rules, state.since_beat_ns
    if elapsed <= 0 or track.beat_cpu_ns >= rules.starved_share * elapsed:
        return 0
    # Its own siblings are not the host: a team of many threads on few CPUs takes the time from one another.
    if track.beat_cpu_ns >= state.most_cpu_ns / 4 and state.total_cpu_ns >= elapsed / 2:
        return 0
    # A yield loop uses next to no CPU too, but it is let run often.
    if track.beat_switches >= rules.switch_allowance * max(1.0, elapsed / (rules.starved_after_s * 1e9)):
        return 0
    if track.waited_ns is not None:
        # A long wait is booked only when it ends: what neither ran nor slept was waiting all the same.
        return max(track.beat_waited_ns, elapsed - track.beat_cpu_ns if track.awake and not track.wakes else 0)
    return elapsed - track.beat_cpu_ns if track.awake else 0


def _awake(track: Track, state: State) -> Role:
    rules = state.rules
    if over_allowance(track, rules) and (track.mark is Mark.WAIT or loops.is_stuck(track, state)):
        return Role.SPINNING
    since_anchor = state.now_ns - state.anchor_ns
    starving = (
        starved_ns(track, state) >= rules.starved_after_s * 1e9
        and since_anchor >= rules.starved_after_s * 1e9
        and track.spent_cpu_ns < rules.starved_share * since_anchor
    )
    if starving:
        return Role.STARVED
    # Of a thread without a mark nothing more can be said without its registers: it may compute.
    return Role.UNDECIDED if track.mark is Mark.WAIT or loops.may_be_stuck(track) else Role.COMPUTING


def _done(track: Track) -> tuple[Role, WakeSource | None]:
    """It says that its work is over; but it may sleep until a timer or something outside lets it do more."""
    if track.state is ThreadState.ASLEEP and track.wake_now in {WakeSource.TIMER, WakeSource.OUTSIDE}:
        return Role.PARKED, track.wake_now
    return Role.EXITED, None


def _released_by(track: Track) -> WakeSource | None:
    """Of one that is awake and waits for a time, or for something outside: that may still come."""
    if track.mark is Mark.NONE and loops.polls_outside(track):
        return WakeSource.OUTSIDE
    if track.mark is not Mark.WAIT or track.slot is None:
        return None
    return {WaitKind.TIMED: WakeSource.TIMER, WaitKind.OUTSIDE: WakeSource.OUTSIDE}.get(track.slot.kind)


def _asleep(track: Track, state: State) -> tuple[Role, WakeSource | None]:
    rules = state.rules
    slept_ns = state.now_ns - track.asleep_since_ns if track.asleep_since_ns is not None else 0
    if track.wakes >= rules.timer_fires and track.wake is None:
        return (
            Role.POLLING,
            WakeSource.UNKNOWN,
        )  # its naps are too short to be parked: what ends them is to be found out
    if track.wakes > 0 and track.wake in {WakeSource.TIMER, WakeSource.OUTSIDE}:
        known = polls_by_timer(track, state) and state.since_beat_ns >= patience_ns(rules.poller_s, rules)
        return Role.POLLING, WakeSource.NONE if known and state.ever_beat else track.wake
    if slept_ns < rules.settled_sleep_s * 1e9:
        return Role.UNDECIDED, track.wake_now
    return Role.PARKED, track.wake_now
