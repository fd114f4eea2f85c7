"""What is said of a trial that is unfinished at its time limit: the first rule that matches."""

from __future__ import annotations

from typing import Any

from livetrap.judge.roles import spun_since_beat, starved_ns
from livetrap.judge.settle import settle, wakeable
from livetrap.judge.state import State, Track, judgement
from livetrap.model import (
    Judgement,
    Mark,
    Role,
    Shape,
    ThreadId,
    ThreadJudgement,
    Verdict,
    WaitKind,
    WakeSource,
)


def at_limit(
    state: State,
    threads: tuple[ThreadJudgement, ...],
    shape: Shape,
    *,
    mutex_cycle: tuple[ThreadId, ...] = (),
) -> Judgement:
    """The verdict at the time limit."""

    def say(verdict: Verdict, rule: int, reason: str, **more: Any) -> Judgement:
        return judgement(
            state, verdict=verdict, rule=f"limit-{rule}", reason=reason, threads=threads, shape=shape, **more
        )

    if state.looks == 0:
        return say(Verdict.INCONCLUSIVE, 4, "the watchdog got no look at the target within the time limit")
    if shape.stopped or state.suspended_ns > state.window_ns:
        what = f"stopped: {shape.stopped} of {len(threads)} threads" if shape.stopped else "the machine was suspended"
        return say(Verdict.INCONCLUSIVE, 1, f"{what}, at the time limit")
    if mutex_cycle:  # whatever other threads do
        settled = settle(state, threads, shape, mutex_cycle=mutex_cycle, any_phase=True)
        assert settled is not None
        return settled
    starving = starving_threads(state)
    if starving:
        named = ", ".join(f"thread {id_.tid}" for id_ in starving)
        return say(Verdict.STARVATION, 2, f"others keep beating while {named} waits and never does", wakeable=starving)
    if state.still_beats:
        return say(Verdict.SLOW, 3, f"unfinished at the time limit, still going on ({state.beats} beats)")
    reason = _host_starved(state)
    if reason:
        return say(Verdict.INCONCLUSIVE, 4, reason)
    settled = settle(state, threads, shape, mutex_cycle=mutex_cycle, any_phase=True)
    if settled:
        return settled
    busy = [thread for thread in threads if thread.role is Role.COMPUTING]
    if busy:
        return say(Verdict.SLOW, 6, _computing(busy, state))
    spun = tuple(id_ for id_, track in state.tracks.items() if spun_since_beat(track, state.rules))
    spun = spun or tuple(thread.id for thread in threads if thread.role is Role.SPINNING)
    timers = [f"thread {thread.id.tid}" for thread in threads if timer_may_tell(thread, state)]
    timers += [f"process {pid}" for pid in state.timers]
    silent = all(state.tracks[id_].mark is not Mark.WAIT for id_ in spun)  # what they wait for is a guess of ours
    if spun and timers and silent:
        return say(Verdict.SLOW, 9, f"{len(spun)} spun throughout, and a timer of {', '.join(timers)} may release them")
    if spun:
        left = wakeable(threads)
        named = ", ".join([f"thread {id_.tid}" for id_ in left] + [f"process {pid}" for pid in state.timers])
        reason = f"{len(spun)} spun throughout; still to be woken by a timer or from outside: {named or 'none'}"
        return say(Verdict.LIVELOCK, 7, reason, wakeable=left)
    if not threads:
        return say(Verdict.SLOW, 9, "no thread of the target is left, and its process is still there")
    if all(thread.role in {Role.PARKED, Role.POLLING, Role.EXITED} for thread in threads):
        return say(Verdict.WAITING, 8, "asleep at the time limit, and something may still wake it")
    return say(Verdict.SLOW, 9, "unfinished at the time limit, and nothing more can be said")


def timer_may_tell(thread: ThreadJudgement, state: State) -> bool:
    """It sleeps by a timer, and nothing that beats has shown that it is idle: what it does one day is not known."""
    if state.ever_beat and state.tracks[thread.id].wakes > 0:
        return False
    return thread.role in {Role.PARKED, Role.POLLING} and thread.wake is WakeSource.TIMER


def starving_threads(state: State) -> tuple[ThreadId, ...]:
    """Threads that wait and never beat while others, until now, do."""
    if not state.still_beats:
        return ()
    window = max(state.rules.starvation_s * 1e9, state.rules.gap_factor * state.longest_wait_ns)
    return tuple(id_ for id_, track in sorted(state.tracks.items()) if _starving(track, state, window))


def _starving(track: Track, state: State, window_ns: float) -> bool:
    return (
        track.mark is Mark.WAIT
        and track.slot is not None
        and track.slot.kind in {WaitKind.SPIN, WaitKind.UNTIMED}
        and track.wait_since_ns is not None
        and state.now_ns - track.wait_since_ns >= window_ns
        and state.beats - track.beats_at_wait >= state.rules.starvation_beats
    )


def _host_starved(state: State) -> str:
    """Why the host made it impossible to say anything; empty where it did not."""
    since = state.now_ns - state.seen_beat_ns
    if since <= 0:
        return ""
    if state.void_ns > since / 2:
        return "the watchdog itself got no CPU for over half the time since the last beat"
    for id_, track in sorted(state.tracks.items()):
        if starved_ns(track, state) > since / 2:
            return f"the host gave thread {id_.tid} next to no CPU for over half the time since the last beat"
    return ""


def _computing(busy: list[ThreadJudgement], state: State) -> str:
    unmarked = [thread for thread in busy if thread.mark is not Mark.RUN]
    if not unmarked:
        return f"{len(busy)} still computing at the time limit"
    unread = [thread for thread in unmarked if thread.loop is None]
    unreadable = next((why for thread in unread if (why := state.tracks[thread.id].unreadable)), "")
    if unreadable:
        return (
            f"{len(unmarked)} awake without a mark, and a loop without end cannot be told from computing: {unreadable}"
        )
    kinds = sorted({thread.loop.value for thread in unmarked if thread.loop})
    if not kinds:
        return (
            f"{len(unmarked)} awake without a mark: from CPU time alone, without its registers, "
            "a loop without end cannot be told from computing"
        )
    return f"{len(unmarked)} awake without a mark, in a loop of kind {' or '.join(kinds)}"
