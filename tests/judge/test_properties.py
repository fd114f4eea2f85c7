"""What must hold of every judgement, whatever the threads do."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from livetrap import judge
from livetrap.model import HANGS, Ended, Event, Gaps, Look, Mark, Rules, Settle, Verdict, WakeSource
from tests.judge.world import (
    Thread,
    World,
    beater,
    computer,
    gone,
    hungry,
    poller,
    sleeper,
    spinner,
    then,
    yielder,
)

QUICK = Rules(limit_s=2)

spinners = st.builds(spinner, share=st.floats(0.1, 1.0), arrivals=st.integers(1, 3))
parked = st.builds(sleeper, st.just(WakeSource.NONE), mark=st.sampled_from([Mark.WAIT, Mark.PARKED, Mark.NONE]))
stuck = st.one_of(spinners, st.builds(yielder), parked, st.builds(gone))
wakeable = st.builds(
    sleeper,
    st.sampled_from([WakeSource.TIMER, WakeSource.OUTSIDE, WakeSource.UNKNOWN]),
    mark=st.sampled_from([Mark.WAIT, Mark.PARKED, Mark.NONE]),
)
computing = st.builds(computer, mark=st.sampled_from([Mark.RUN, Mark.NONE]), share=st.floats(0.01, 1.0))
beaters = st.builds(beater, st.floats(1, 300))
anything = st.one_of(
    stuck,
    wakeable,
    computing,
    st.builds(hungry),
    st.builds(poller, st.floats(5, 400)),
    st.builds(beater, st.floats(1, 300)),
)


def several(one: st.SearchStrategy[Thread], least: int = 1) -> st.SearchStrategy[list[Thread]]:
    return st.lists(one, min_size=least, max_size=6)


@settings(max_examples=25, deadline=None)
@given(several(stuck), st.booleans())
def test_threads_that_nothing_can_release_are_a_hang_well_before_the_limit(threads: list[Thread], first: bool) -> None:
    threads = [spinner(), *threads] if first else [*threads, sleeper(WakeSource.NONE)]
    got = World(threads, rules=QUICK).judge()
    assert got.verdict in {Verdict.LIVELOCK, Verdict.DEADLOCK}
    assert got.settled_ns < 1e9


@settings(max_examples=25, deadline=None)
@given(several(stuck), computing, st.integers(0, 5))
def test_one_that_computes_prevents_every_hang_verdict(threads: list[Thread], busy: Thread, at: int) -> None:
    got = World([*threads[:at], busy, *threads[at:]], rules=QUICK).judge()
    assert got.verdict in {Verdict.SLOW, Verdict.INCONCLUSIVE}
    assert got.settled_ns >= QUICK.limit_s * 1e9


@settings(max_examples=25, deadline=None)
@given(several(stuck), wakeable)
def test_a_sleeper_that_something_may_wake_keeps_the_window_open(threads: list[Thread], one: Thread) -> None:
    got = World([*threads, one], rules=QUICK).judge()
    assert got.settled_ns >= QUICK.limit_s * 1e9
    assert got.verdict in {Verdict.LIVELOCK, Verdict.WAITING}
    if got.verdict is Verdict.LIVELOCK:
        assert got.wakeable


@settings(max_examples=25, deadline=None)
@given(several(anything), st.floats(5, 140))
def test_a_target_that_beats_is_never_stalled(threads: list[Thread], period: float) -> None:
    got = World([*threads, beater(period)], rules=QUICK).judge()
    assert got.verdict in {Verdict.SLOW, Verdict.STARVATION}


@settings(max_examples=40, deadline=None)
@given(several(anything), several(anything), st.floats(0, 1500))
def test_no_verdict_comes_after_the_limit_and_every_trial_folds_again(
    first: list[Thread], second: list[Thread], at: float
) -> None:
    threads = [then(a, at, b) for a, b in zip(first, second, strict=False)]
    got = World(threads, rules=QUICK).judge()
    assert got.settled_ns <= (QUICK.limit_s + 0.5) * 1e9


@settings(max_examples=25, deadline=None)
@given(several(anything), st.floats(20, 1900))
def test_a_target_that_ends_is_judged_by_its_end_or_was_settled_before(threads: list[Thread], at: float) -> None:
    world = World(threads, rules=QUICK, ends_at_ms=at)
    got = world.judge()
    assert got.verdict is Verdict.PASSED or got.verdict in HANGS


@settings(max_examples=30, deadline=None)
@given(several(anything))
def test_events_survive_the_record(threads: list[Thread]) -> None:
    world = World(threads, rules=QUICK)
    settled = world.judge()
    packed = msgspec.msgpack.encode(world.events)
    again = msgspec.msgpack.decode(packed, type=tuple[Event, ...])
    assert judge.refold(world.rules, world.gaps, again) == settled


def test_a_longer_floor_unsettles_a_recorded_hang() -> None:
    world = World([spinner(), spinner()])
    assert world.judge().verdict is Verdict.LIVELOCK
    patient = msgspec.structs.replace(world.rules, floor_s=60)
    assert judge.refold(patient, world.gaps, world.events).rule == "unsettled"


def test_the_state_stays_bounded() -> None:
    state = judge.begin(Rules(limit_s=600), Gaps())
    world = World([spinner(), computer()])
    sizes = []
    for t in range(10, 20_000, 10):
        state, _ = judge.step(state, world.look(t))
        if t % 5000 == 0:
            sizes.append(len(msgspec.msgpack.encode(list(state.tracks.values()))))
    assert max(sizes) < 2 * min(sizes)


def test_an_end_before_any_look_is_judged() -> None:
    state = judge.begin(Rules(), Gaps())
    _, command = judge.step(state, Ended(at_ns=5_000_000, exit_code=0, result=1, team=2, started_ns=4_000_000, beats=2))
    assert isinstance(command, Settle)
    assert command.judgement.verdict is Verdict.PASSED
    assert command.judgement.stall_s == 0.001


def test_a_look_without_any_thread_says_nothing() -> None:
    state = judge.begin(Rules(limit_s=1), Gaps())
    for t in range(10, 1000, 10):
        state, command = judge.step(state, Look(at_ns=t * 1_000_000, late_ns=0, threads=(), slots_seen=True))
        assert not isinstance(command, Settle)
