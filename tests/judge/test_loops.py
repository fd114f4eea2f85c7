"""What loops and mutex owners decide, on simulated threads: threads that say nothing of themselves."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from livetrap.model import (
    Certainty,
    Loop,
    LoopKind,
    Mark,
    PolledWord,
    Rules,
    ThreadState,
    Verdict,
    WaitKind,
    WakeSource,
)
from tests.judge.world import PID, Now, Thread, World, computer, looper, poller, sleeper, then, word

SILENT = Rules(limit_s=12)
JOINS = sleeper(WakeSource.NONE, mark=Mark.NONE, slot=False)


def _with(thread: Thread, loop: Loop) -> Thread:
    return lambda t: dataclasses.replace(thread(t), loop=loop)


def _polls(*words: PolledWord) -> Loop:
    return Loop(kind=LoopKind.POLL, site="a.out+0x10", frame="f", polled=words)


def test_a_silent_endless_loop_is_proven() -> None:
    got = World([looper(LoopKind.ENDLESS), JOINS], slots=False, rules=SILENT).judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.LIVELOCK, Certainty.PROVEN, "settle-1")
    assert got.stall_s < 8
    assert got.threads[0].loop is LoopKind.ENDLESS


def test_the_same_where_no_registers_may_be_read_is_slow_and_says_why() -> None:
    got = World([looper(LoopKind.ENDLESS), JOINS], slots=False, rules=SILENT, may_read=False).judge()
    assert got.verdict is Verdict.SLOW
    assert "not permitted" in got.reason


def test_an_endless_loop_beside_one_in_accept_is_told_at_the_limit_and_names_it() -> None:
    accepts = sleeper(WakeSource.OUTSIDE, mark=Mark.NONE, slot=False)
    got = World([accepts, looper(LoopKind.ENDLESS)], slots=False, rules=SILENT).judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.LIVELOCK, Certainty.OBSERVED, "limit-7")
    assert [id_.tid for id_ in got.wakeable] == [PID]


def test_an_endless_loop_that_another_may_end_when_its_timer_ends_is_slow() -> None:
    naps = sleeper(WakeSource.TIMER, mark=Mark.NONE, slot=False)
    assert World([naps, looper(LoopKind.ENDLESS)], slots=False, rules=SILENT).judge().verdict is Verdict.SLOW


def test_an_endless_loop_that_an_alarm_may_end_is_slow() -> None:
    got = World([looper(LoopKind.ENDLESS)], slots=False, rules=SILENT, timers=(PID,)).judge()
    assert (got.verdict, got.rule) == (Verdict.SLOW, "limit-9")
    assert f"process {PID}" in got.reason


def test_an_endless_loop_that_another_process_may_end_is_observed() -> None:
    got = World([looper(LoopKind.ENDLESS), _elsewhere(JOINS)], slots=False, rules=SILENT).judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.LIVELOCK, Certainty.OBSERVED, "settle-1")


@pytest.mark.parametrize("kind", [LoopKind.COMPUTE, LoopKind.UNKNOWN])
def test_an_endless_loop_beside_one_that_computes_waits_for_it(kind: LoopKind) -> None:
    got = World([looper(LoopKind.ENDLESS), looper(kind)], slots=False, rules=SILENT).judge()
    assert got.verdict is Verdict.SLOW


@pytest.mark.parametrize("kind", [LoopKind.COMPUTE, LoopKind.UNKNOWN])
def test_a_silent_computation_is_slow(kind: LoopKind) -> None:
    got = World([looper(kind), JOINS], slots=False, rules=SILENT).judge()
    assert got.verdict is Verdict.SLOW
    assert kind.value in got.reason


def test_a_fixed_poll_is_a_livelock_once_it_was_seen_often_and_long_enough() -> None:
    world = World([looper(LoopKind.POLL), looper(LoopKind.POLL), JOINS], slots=False, rules=SILENT)
    got = world.judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.LIVELOCK, Certainty.OBSERVED, "settle-4")
    assert world.gathers >= SILENT.fixed_looks
    assert SILENT.silent_floor_s + SILENT.fixed_s <= got.stall_s < 8


def test_polls_whose_word_changes_are_none() -> None:
    def alive(t: float) -> Now:
        return dataclasses.replace(looper(LoopKind.POLL)(t), loop=_polls(word(int(t) % 97)))

    world = World([alive, alive], slots=False, rules=SILENT)
    assert world.judge().verdict is Verdict.SLOW
    assert world.gathers < 60, "threads that are alive are stopped seldom"


def test_a_word_that_moved_between_the_stops_begins_the_count_anew() -> None:
    def moving(t: float) -> Now:
        loop = msgspec.structs.replace(_polls(word()), moved=int(t / 500) % 2 == 1)
        return dataclasses.replace(looper(LoopKind.POLL)(t), loop=loop)

    assert World([moving, JOINS], slots=False, rules=SILENT).judge().verdict is Verdict.SLOW


def test_two_that_see_different_values_in_one_word_play_ping_pong() -> None:
    pair = [_with(looper(LoopKind.POLL), _polls(word(turn))) for turn in (0, 1)]
    assert World(pair, slots=False, rules=SILENT).judge().verdict is Verdict.SLOW


def test_a_poll_of_shared_memory_may_be_ended_from_outside() -> None:
    polls = _with(looper(LoopKind.POLL), _polls(word(shared=True)))
    got = World([polls, JOINS], slots=False, rules=SILENT).judge()
    assert (got.verdict, got.rule) == (Verdict.LIVELOCK, "limit-7")
    assert [id_.tid for id_ in got.wakeable] == [PID]


def test_a_silent_fixed_poll_beside_a_timer_is_slow() -> None:
    timer = poller(1000, slot=False)
    got = World([looper(LoopKind.POLL), timer], slots=False, rules=SILENT).judge()
    assert (got.verdict, got.rule) == (Verdict.SLOW, "limit-9")


@pytest.mark.parametrize("mark", [Mark.NONE, Mark.WAIT])
def test_one_that_sleeps_by_a_timer_that_has_not_ended_may_still_come(mark: Mark) -> None:
    naps = sleeper(WakeSource.TIMER, mark=mark, kind=WaitKind.TIMED, slot=False)
    got = World([looper(LoopKind.POLL), naps], slots=False, rules=SILENT).judge()
    assert (got.verdict, got.rule) == (Verdict.SLOW, "limit-9")
    assert f"thread {PID + 1}" in got.reason


def test_a_caller_that_beat_before_and_spins_without_a_mark_is_caught_within_four_seconds() -> None:
    caller = looper(LoopKind.POLL, beats=336)
    parked = [sleeper(WakeSource.NONE, mark=Mark.NONE, slot=False) for _ in range(15)]
    got = World([caller, *parked]).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert str(got.shape) == "1 spinning, 15 parked"
    assert got.stall_s < 4


@pytest.mark.parametrize("period", [10, 100])
def test_the_same_with_an_idle_ticker_beside_it(period: float) -> None:
    caller = looper(LoopKind.POLL, beats=336)
    got = World([caller, JOINS, poller(period, slot=False)]).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert got.stall_s < 4


def test_a_poll_before_the_first_beat_is_told_at_the_limit() -> None:
    got = World([looper(LoopKind.POLL), JOINS], rules=Rules(limit_s=5)).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert got.stall_s > 4.5


def test_a_proven_endless_loop_overrides_a_mark() -> None:
    got = World([looper(LoopKind.ENDLESS, mark=Mark.RUN)]).judge()
    assert (got.verdict, got.rule) == (Verdict.LIVELOCK, "settle-1")


def test_a_poll_while_it_says_that_it_computes_protects() -> None:
    got = World([looper(LoopKind.POLL, mark=Mark.RUN)], rules=Rules(limit_s=5)).judge()
    assert got.verdict is Verdict.SLOW


def test_a_poll_that_the_host_starves_is_inconclusive() -> None:
    hungry = _with(lambda t: Now(cpu_ms=20.0, waited_ms=t, mark=Mark.NONE), _polls(word()))
    assert World([hungry], slots=False, rules=SILENT).judge().verdict is Verdict.INCONCLUSIVE


def test_who_leaves_a_poll_to_compute_is_none() -> None:
    changes = then(looper(LoopKind.POLL), 3600, computer(mark=Mark.NONE, slot=False))
    assert World([changes], slots=False, rules=SILENT, ends_at_ms=6000).judge().verdict is Verdict.PASSED


def test_a_timer_thread_that_is_just_awake_at_the_limit_is_waiting() -> None:
    def ticks(t: float) -> Now:
        awake = t > 4990
        state = ThreadState.RUNNABLE if awake else ThreadState.ASLEEP
        return dataclasses.replace(poller(10, slot=False)(t), state=state, cpu_ms=t * 0.01)

    assert World([ticks, JOINS], slots=False, rules=Rules(limit_s=5)).judge().verdict is Verdict.WAITING


# --- mutex owners

LOCKED = sleeper(WakeSource.NONE, mark=Mark.NONE, slot=False)


@pytest.mark.parametrize("beside", [poller(1000, slot=False), computer(mark=Mark.NONE, slot=False), LOCKED])
def test_a_cycle_of_mutex_owners_is_proven_whatever_others_do(beside: Thread) -> None:
    got = World([LOCKED, LOCKED, beside], slots=False, rules=SILENT, cycle=(0, 1)).judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.DEADLOCK, Certainty.PROVEN, "settle-2")
    assert f"thread {PID} -> thread {PID + 1} -> thread {PID}" in got.reason
    assert got.stall_s < 8


def test_a_cycle_is_told_at_the_limit_of_a_target_that_still_prints() -> None:
    def prints(t: float) -> Now:
        return dataclasses.replace(computer(mark=Mark.RUN)(t), beats=int(t / 5))

    got = World([LOCKED, LOCKED, prints], rules=Rules(limit_s=3), cycle=(0, 1)).judge()
    assert (got.verdict, got.certainty) == (Verdict.DEADLOCK, Certainty.PROVEN)


def test_a_cycle_that_was_read_of_a_thread_that_runs_is_none() -> None:
    got = World([LOCKED, computer(mark=Mark.NONE, slot=False)], slots=False, rules=SILENT, cycle=(0, 1)).judge()
    assert got.verdict is Verdict.SLOW


def test_one_that_waits_for_its_own_mutex_is_a_cycle() -> None:
    got = World([LOCKED, JOINS], slots=False, rules=SILENT, cycle=(0,)).judge()
    assert got.certainty is Certainty.PROVEN
    assert "owns itself" in got.reason


@pytest.mark.parametrize("beside", [poller(1000, slot=False), computer(mark=Mark.NONE, slot=False)])
def test_one_that_waits_for_its_own_mutex_may_use_it_as_a_semaphore(beside: Thread) -> None:
    world = World([LOCKED, beside], slots=False, rules=SILENT, cycle=(0,), ends_at_ms=8000)
    assert world.judge().verdict is Verdict.PASSED
    told = World([LOCKED, beside], slots=False, rules=SILENT, cycle=(0,)).judge()
    assert (told.verdict, told.certainty) == (Verdict.DEADLOCK, Certainty.OBSERVED)


def test_a_cycle_that_a_handler_may_jump_out_of_is_told_at_the_limit() -> None:
    got = World([LOCKED, LOCKED], slots=False, rules=SILENT, cycle=(0, 1), timers=(PID,)).judge()
    assert (got.verdict, got.certainty) == (Verdict.DEADLOCK, Certainty.OBSERVED)
    assert got.stall_s > 11


def test_a_cycle_in_a_child_whose_parent_may_kill_it_is_told_at_the_limit() -> None:
    parent = _elsewhere(sleeper(WakeSource.TIMER, mark=Mark.NONE, slot=False))
    got = World([LOCKED, LOCKED, parent], slots=False, rules=SILENT, cycle=(0, 1)).judge()
    assert (got.verdict, got.certainty) == (Verdict.DEADLOCK, Certainty.OBSERVED)
    waits = _elsewhere(LOCKED)
    got = World([LOCKED, LOCKED, waits], slots=False, rules=SILENT, cycle=(0, 1)).judge()
    assert got.certainty is Certainty.PROVEN


def _elsewhere(thread: Thread) -> Thread:
    """The same in another process of the tree."""
    return lambda t: dataclasses.replace(thread(t), pid=PID + 50)


@pytest.mark.parametrize("wake", [WakeSource.TIMER, WakeSource.OUTSIDE])
def test_one_that_is_done_and_sleeps_by_what_may_come_has_not_exited(wake: WakeSource) -> None:
    done = sleeper(wake, mark=Mark.DONE)
    world = World([looper(LoopKind.POLL, beats=3), done], rules=Rules(limit_s=6), ends_at_ms=5000)
    assert world.judge().verdict is Verdict.PASSED
    got = World([looper(LoopKind.POLL, beats=3), sleeper(WakeSource.NONE, mark=Mark.DONE)]).judge()
    assert str(got.shape) == "1 spinning, 1 exited"


def test_one_that_is_done_and_computes_on_has_not_exited() -> None:
    got = World([looper(LoopKind.POLL), computer(mark=Mark.DONE)], rules=Rules(limit_s=5), ends_at_ms=4000).judge()
    assert got.verdict is Verdict.PASSED
