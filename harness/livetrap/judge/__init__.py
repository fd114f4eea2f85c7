"""How a verdict is reached: a pure fold over events that commands the hand that observes.

    begin(rules, gaps) -> State
    step(state, event) -> (State, Command)

The events of a trial, its rules and its gaps are all that a verdict rests on, so that any recorded trial can be folded
again (`refold`), under other rules too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from livetrap.judge import loops
from livetrap.judge.ended import ended
from livetrap.judge.follow import follow, learn
from livetrap.judge.limit import at_limit
from livetrap.judge.roles import over_allowance, roles, shape
from livetrap.judge.settle import settle
from livetrap.judge.state import State, judgement
from livetrap.model import (
    Command,
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
    Mark,
    Role,
    Rules,
    Settle,
    ThreadId,
    ThreadJudgement,
    ThreadState,
    Verdict,
)

__all__ = ["State", "begin", "refold", "step"]

RIPE = frozenset({Role.SPINNING, Role.PARKED, Role.POLLING, Role.EXITED})
"""Roles that do not speak against calling a hang, before it is known what could wake a sleeper."""
SLEEPERS = frozenset({Role.PARKED, Role.POLLING})


def begin(rules: Rules, gaps: Gaps) -> State:
    """The state before the first event."""
    return State(rules=rules, gaps=gaps)


def step(state: State, event: Event) -> tuple[State, Command]:
    """The state after an event, and what the hand shall do now."""
    match event:
        case Ended():
            return state, Settle(judgement=ended(state, event))
        case Look():
            return _after_look(follow(state, event))
        case Evidence():
            state = learn(state, event)
            if state.limit_hit:
                return _settle_at_limit(state, event)
            return _after_evidence(state, event)
        case LimitReached():
            state = msgspec.structs.replace(follow(state, event.look), limit_hit=True)
            sleepers = [thread for thread in roles(state) if thread.role in SLEEPERS]
            if sleepers:
                return state, _gather(state, tuple(sleepers))
            return _settle_at_limit(state, None)


def refold(rules: Rules, gaps: Gaps, events: Iterable[Event]) -> Judgement:
    """The judgement of recorded events under these rules.

    `inconclusive` (rule `unsettled`) where the record ends before these rules settle.
    """
    state = begin(rules, gaps)
    for event in events:
        state, command = step(state, event)
        if isinstance(command, Settle):
            return command.judgement
    return judgement(
        state,
        verdict=Verdict.INCONCLUSIVE,
        rule="unsettled",
        reason="the record ends before these rules come to a verdict",
    )


def _after_look(state: State) -> tuple[State, Command]:
    if not state.suspect:
        return state, _look_again(state)
    state = msgspec.structs.replace(state, ever_suspect=True)
    threads = roles(state)
    waited_s = (state.now_ns - state.gathered_ns) / 1e9
    due = state.gathered_ns == 0 or waited_s >= state.gather_wait_s or _in_series(state, threads)
    wanted = _wanted(state, threads) if due else ()
    return state, _gather(state, wanted) if wanted else _look_again(state)


def _in_series(state: State, threads: tuple[ThreadJudgement, ...]) -> bool:
    """Stops of threads in one and the same poll are being counted, and it is worth to go on at once."""
    counting = False
    for thread in threads:
        track = state.tracks[thread.id]
        if thread.role is Role.UNDECIDED and loops.may_be_stuck(track):
            counting = True
        elif thread.role not in RIPE:
            return False
    return counting


def _wanted(state: State, threads: tuple[ThreadJudgement, ...]) -> tuple[ThreadJudgement, ...]:
    """Of which threads evidence is wanted now.

    All, when nothing speaks against calling a hang, or may cease to once loops are known. Else sleepers: somebody naps
    so often that it must first be known why, or they may own what they want of each other.
    """
    if all(thread.role in RIPE or _to_be_stopped(state, thread) for thread in threads):
        return threads
    return tuple(thread for thread in threads if thread.role in SLEEPERS)


def _to_be_stopped(state: State, thread: ThreadJudgement) -> bool:
    """Its loop is to be looked into: it is awake, and not in a wait of its own words."""
    track = state.tracks[thread.id]
    if not track.awake or thread.role in {Role.STARVED, Role.STOPPED, Role.EXITED} or track.mark is Mark.WAIT:
        return False
    return over_allowance(track, state.rules)


def _done_asleep(state: State, thread: ThreadJudgement) -> bool:
    """It says that it is done, and sleeps: by what, is to be known."""
    track = state.tracks[thread.id]
    return thread.role is Role.EXITED and track.state is ThreadState.ASLEEP


def _look_again(state: State) -> LookAgain:
    """Several looks to a window, but none too many: looking costs the machine that the target runs on."""
    rules, window_ns = state.rules, state.window_ns
    if state.suspect and any(loops.may_be_stuck(track) for track in state.tracks.values()):
        return LookAgain(after_s=loops.pause_s(state))
    slow_s = rules.silent_look_s if state.phase is None else rules.slow_look_s
    if state.since_beat_ns > 2 * window_ns:
        return LookAgain(after_s=slow_s)
    return LookAgain(after_s=min(max(rules.look_s, window_ns / 8e9), slow_s))


def _gather(state: State, threads: tuple[ThreadJudgement, ...]) -> Gather:
    sleepers = tuple(thread.id for thread in threads if thread.role in SLEEPERS or _done_asleep(state, thread))
    stopped = tuple(thread.id for thread in threads if _to_be_stopped(state, thread))
    spinners = tuple(
        thread.id
        for thread in threads
        if thread.role is Role.SPINNING and not thread.pc_site and thread.id not in stopped
    )
    kinds = set()
    if sleepers:
        kinds |= {EvidenceKind.WAKE_SOURCES, EvidenceKind.MUTEX_OWNERS}
    if spinners:
        kinds.add(EvidenceKind.PROGRAM_COUNTERS)
    if stopped:
        kinds.add(EvidenceKind.LOOPS)
    deadline_s = state.rules.stop_s if stopped else state.rules.gather_s
    return Gather(threads=sleepers + spinners + stopped, kinds=frozenset(kinds), deadline_s=deadline_s)


def _after_evidence(state: State, evidence: Evidence) -> tuple[State, Command]:
    again = _look_again(state)
    if not state.suspect:
        return state, again
    threads = roles(state)
    settled = settle(state, threads, shape(state, threads), mutex_cycle=_cycle(state, evidence))
    return state, Settle(judgement=settled) if settled else again


def _settle_at_limit(state: State, evidence: Evidence | None) -> tuple[State, Command]:
    threads = roles(state)
    cycle = _cycle(state, evidence) if evidence else ()
    return state, Settle(judgement=at_limit(state, threads, shape(state, threads), mutex_cycle=cycle))


def _cycle(state: State, evidence: Evidence) -> tuple[ThreadId, ...]:
    """The owners that wait for each other, unless one of them has stirred while they were read."""
    found = [state.tracks.get(id_) for id_ in evidence.mutex_cycle]
    return evidence.mutex_cycle if all(track and track.asleep_since_ns is not None for track in found) else ()
