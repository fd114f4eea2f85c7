"""How a verdict is reached: a pure fold over events that commands the hand that observes.

    begin(rules, gaps) -> State
    step(state, event) -> (State, Command)

The events of a trial, its rules and its gaps are all that a verdict rests on, so that any recorded trial can be folded
again (`refold`), under other rules too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from livetrap.judge.ended import ended
from livetrap.judge.follow import follow, learn
from livetrap.judge.limit import at_limit
from livetrap.judge.roles import role_of, roles, shape
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
    Role,
    Rules,
    Settle,
    ThreadJudgement,
    Verdict,
    WakeSource,
)

__all__ = ["State", "begin", "refold", "step"]

RIPE = frozenset({Role.SPINNING, Role.PARKED, Role.POLLING, Role.EXITED})
"""Roles that do not speak against calling a hang, before it is known what could wake a sleeper."""


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
            sleepers = [thread for thread in roles(state) if thread.role in {Role.PARKED, Role.POLLING}]
            if state.suspect and sleepers:
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
    waited_s = (state.now_ns - state.gathered_ns) / 1e9
    due = state.gathered_ns == 0 or waited_s >= state.gather_wait_s
    if due and state.tracks and _worth_gathering(state):
        return state, _gather(state, roles(state))
    return state, _look_again(state)


def _worth_gathering(state: State) -> bool:
    """Nothing speaks against calling a hang, or somebody naps so often that it must first be known why."""
    now = [role_of(track, state) for track in state.tracks.values()]
    if all(role in RIPE for role, _ in now):
        return True
    return (Role.POLLING, WakeSource.UNKNOWN) in now and all(role is not Role.COMPUTING for role, _ in now)


def _look_again(state: State) -> LookAgain:
    """Several looks to a window, but none too many: looking costs the machine that the target runs on."""
    rules, window_ns = state.rules, state.window_ns
    if state.since_beat_ns > 2 * window_ns:
        return LookAgain(after_s=rules.slow_look_s)
    return LookAgain(after_s=min(max(rules.look_s, window_ns / 8e9), rules.slow_look_s))


def _gather(state: State, threads: tuple[ThreadJudgement, ...]) -> Gather:
    sleepers = tuple(thread.id for thread in threads if thread.role in {Role.PARKED, Role.POLLING})
    spinners = tuple(thread.id for thread in threads if thread.role is Role.SPINNING and not thread.pc_site)
    kinds = set()
    if sleepers:
        kinds.add(EvidenceKind.WAKE_SOURCES)
    if spinners:
        kinds.add(EvidenceKind.PROGRAM_COUNTERS)
    return Gather(threads=sleepers + spinners, kinds=frozenset(kinds), deadline_s=state.rules.gather_s)


def _after_evidence(state: State, evidence: Evidence) -> tuple[State, Command]:
    again = _look_again(state)
    if not state.suspect:
        return state, again
    threads = roles(state)
    settled = settle(state, threads, shape(state, threads), mutex_cycle=evidence.mutex_cycle)
    return state, Settle(judgement=settled) if settled else again


def _settle_at_limit(state: State, evidence: Evidence | None) -> tuple[State, Command]:
    threads = roles(state)
    cycle = evidence.mutex_cycle if evidence else ()
    return state, Settle(judgement=at_limit(state, threads, shape(state, threads), mutex_cycle=cycle))
