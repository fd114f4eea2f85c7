"""The table of cases of JUDGING.md, on simulated threads, without clock or process."""

from __future__ import annotations

import dataclasses

import pytest

from livetrap.model import Certainty, Gaps, Mark, Rules, ThreadState, Verdict, WaitKind, WakeSource
from tests.judge.world import (
    PID,
    Now,
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


def test_raw_spin_with_the_publisher_gone_is_a_livelock() -> None:
    got = World([then(computer(), 30, gone()), *[spinner() for _ in range(7)]]).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert (got.shape.spinning, got.shape.exited, got.shape.parked) == (7, 1, 0)
    assert got.certainty is Certainty.OBSERVED
    assert got.stall_s < 0.35


def test_one_spinning_with_fifteen_parked_is_a_livelock() -> None:
    parked = [sleeper(WakeSource.NONE, mark=Mark.PARKED) for _ in range(15)]
    got = World([spinner(share=1.0, beats=336), *parked]).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert str(got.shape) == "1 spinning, 15 parked"


def test_a_yield_loop_is_a_livelock_although_it_uses_hardly_any_cpu() -> None:
    got = World([yielder(), yielder(), yielder()]).judge()
    assert got.verdict is Verdict.LIVELOCK


def test_all_arrived_and_all_over_their_allowance_is_proven() -> None:
    got = World([spinner(), spinner(), spinner()]).judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.LIVELOCK, Certainty.PROVEN, "settle-3")


def test_arrivals_that_differ_are_observed_only() -> None:
    got = World([spinner(), spinner(arrivals=2)]).judge()
    assert (got.verdict, got.certainty, got.rule) == (Verdict.LIVELOCK, Certainty.OBSERVED, "settle-4")


def test_an_idle_thread_in_a_timed_wait_does_not_hide_a_livelock() -> None:
    parked = [sleeper(WakeSource.NONE, mark=Mark.PARKED) for _ in range(15)]
    got = World([spinner(share=1.0, beats=336), *parked, poller(100)]).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert got.stall_s < 4
    assert got.shape.polling == 1


def test_a_thread_in_accept_delays_the_livelock_to_the_limit_and_is_named() -> None:
    parked = [sleeper(WakeSource.NONE, mark=Mark.PARKED) for _ in range(15)]
    server = sleeper(WakeSource.OUTSIDE, mark=Mark.NONE, slot=False)
    got = World([spinner(share=1.0, beats=336), *parked, server], rules=Rules(limit_s=5)).judge()
    assert (got.verdict, got.rule) == (Verdict.LIVELOCK, "limit-7")
    assert [id_.tid for id_ in got.wakeable] == [116]
    assert got.settled_ns <= 5.5e9


@pytest.mark.parametrize("busy", [computer(), then(sleeper(WakeSource.TIMER, kind=WaitKind.TIMED), 1800, computer())])
def test_spinners_beside_one_that_computes_or_sleeps_wait_for_it(busy: object) -> None:
    got = World([*[spinner() for _ in range(7)], busy], ends_at_ms=2000).judge()  # type: ignore[list-item]
    assert got.verdict is Verdict.PASSED
    assert got.longest_stall_s > 1.9


def test_a_computing_thread_that_the_host_starves_is_waited_for_too() -> None:
    got = World([*[spinner() for _ in range(7)], hungry(mark=Mark.RUN)], ends_at_ms=3000).judge()
    assert got.verdict is Verdict.PASSED


def test_a_thread_without_marks_that_computes_beside_a_parked_pool_is_slow_at_worst() -> None:
    pool = [sleeper(WakeSource.NONE, mark=Mark.PARKED) for _ in range(4)]
    lone = computer(mark=Mark.NONE, share=1.0, beats=5)
    assert World([lone, *pool], ends_at_ms=20_000, rules=Rules(limit_s=60)).judge().verdict is Verdict.PASSED
    assert World([lone, *pool], rules=Rules(limit_s=10)).judge().verdict is Verdict.SLOW


def test_a_lost_wake_up_is_a_deadlock_in_every_phase_and_without_slots() -> None:
    for slots in (True, False):
        world = World([sleeper(WakeSource.NONE) for _ in range(4)], slots=slots)
        got = world.judge()
        assert (got.verdict, got.certainty) == (Verdict.DEADLOCK, Certainty.OBSERVED)
        assert got.shape.parked == 4


@pytest.mark.parametrize("source", [WakeSource.TIMER, WakeSource.OUTSIDE])
@pytest.mark.parametrize("slots", [True, False])
def test_asleep_with_something_left_to_wake_it_is_waiting(source: WakeSource, slots: bool) -> None:
    got = World(
        [sleeper(source, mark=Mark.NONE), sleeper(WakeSource.NONE)], slots=slots, rules=Rules(limit_s=4)
    ).judge()
    assert got.verdict is Verdict.WAITING


def test_a_sleeper_that_may_not_be_read_is_never_a_deadlock() -> None:
    got = World([sleeper(WakeSource.NONE)], may_read=False, rules=Rules(limit_s=4)).judge()
    assert got.verdict is Verdict.WAITING


def test_a_long_load_without_a_beat_then_a_healthy_loop_passes() -> None:
    load = then(computer(mark=Mark.NONE), 30_000, beater(5))
    assert World([load], ends_at_ms=31_000, rules=Rules(limit_s=60)).judge().verdict is Verdict.PASSED


def test_a_writer_that_never_beats_while_readers_do_is_starved() -> None:
    got = World([*[beater(5) for _ in range(4)], spinner()], rules=Rules(limit_s=4)).judge()
    assert got.verdict is Verdict.STARVATION
    assert [id_.tid for id_ in got.wakeable] == [104]
    assert got.settled_ns >= 4e9


def test_a_thread_that_waits_long_but_in_the_end_beats_is_not_starved() -> None:
    turns = then(spinner(), 1500, then(beater(20), 100, spinner()))
    got = World([beater(5), beater(5), turns], rules=Rules(limit_s=4)).judge()
    assert got.verdict is Verdict.SLOW


def _woken_again_and_again(t: float) -> Now:
    state = ThreadState.ASLEEP if int(t) % 3 else ThreadState.RUNNABLE
    return Now(
        state=state,
        cpu_ms=t * 0.05,
        switches=int(t),
        mark=Mark.WAIT,
        kind=WaitKind.UNTIMED,
        site=7,
        arrivals=int(t),
        wake=WakeSource.NONE,
    )


def test_workers_that_wake_each_other_are_a_livelock_at_partial_cpu() -> None:
    parked = sleeper(WakeSource.NONE, mark=Mark.PARKED)
    got = World([_woken_again_and_again, _woken_again_and_again, parked]).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert str(got.shape) == "2 spinning, 1 parked"


def test_the_same_without_marks_cannot_be_told_from_a_healthy_ping_pong() -> None:
    silent = [_silent(_woken_again_and_again), _silent(_woken_again_and_again)]
    got = World(silent, slots=False, rules=Rules(limit_s=8)).judge()
    assert got.verdict is Verdict.SLOW


def _silent(thread: object) -> object:
    return lambda t: dataclasses.replace(thread(t), mark=Mark.NONE, slot=False)  # type: ignore[operator]


def test_silent_computing_is_slow_and_says_why() -> None:
    got = World([computer(mark=Mark.NONE, share=1.0)], slots=False, rules=Rules(limit_s=8)).judge()
    assert got.verdict is Verdict.SLOW
    assert "registers" in got.reason


def test_a_stopped_target_is_inconclusive_and_passes_when_it_goes_on() -> None:
    def stopped(_t: float) -> Now:
        return Now(state=ThreadState.STOPPED, mark=Mark.WAIT)

    assert World([stopped, stopped], rules=Rules(limit_s=3)).judge().verdict is Verdict.INCONCLUSIVE
    goes_on = then(stopped, 1000, beater(5))
    assert World([goes_on, goes_on], ends_at_ms=1500).judge().verdict is Verdict.PASSED


def test_a_host_too_busy_is_inconclusive_and_passes_after_relief() -> None:
    assert World([hungry(), hungry()], rules=Rules(limit_s=3)).judge().verdict is Verdict.INCONCLUSIVE
    relieved = then(hungry(), 3000, beater(5))
    assert World([relieved, relieved], ends_at_ms=3100).judge().verdict is Verdict.PASSED


def test_one_starved_thread_beside_spinners_keeps_the_window_open() -> None:
    got = World([spinner(), spinner(), hungry()], rules=Rules(limit_s=3)).judge()
    assert got.verdict is Verdict.INCONCLUSIVE


def test_a_watchdog_that_gets_no_cpu_says_nothing() -> None:
    got = World([spinner(), spinner()], rules=Rules(limit_s=3), late_ms=lambda _t: 400).judge()
    assert got.verdict is Verdict.INCONCLUSIVE


def test_still_beating_at_the_limit_is_slow() -> None:
    got = World([beater(5), spinner()], rules=Rules(limit_s=0.9)).judge()
    assert got.verdict is Verdict.SLOW


def test_a_gap_known_from_earlier_trials_widens_the_window() -> None:
    threads = [spinner(), spinner()]
    quick = World(threads).judge()
    patient = World(threads, gaps=Gaps(cell_s=0.5)).judge()
    assert quick.stall_s < 0.35
    assert 1.5 <= patient.stall_s < 1.7
    assert World(threads, gaps=Gaps(cell_s=60)).judge().stall_s < 5.2


def test_a_release_after_the_allowance_was_spent_starts_it_anew() -> None:
    """The waiter has long spent its allowance when the last other thread arrives, releases it, and is gone.

    It gets no CPU for a while after that; calling this a hang was the judge's first false verdict in design.
    """
    waiter = then(spinner(share=0.5), 400, then(hungry(), 200, gone()))
    worker = then(computer(), 400, gone())
    got = World([waiter, worker], ends_at_ms=620).judge()
    assert got.verdict is Verdict.PASSED


def test_a_sleeper_that_wakes_to_release_starts_the_allowance_anew() -> None:
    waiter = then(spinner(share=0.5), 400, hungry())
    releaser = then(
        sleeper(WakeSource.TIMER, mark=Mark.NONE, slot=False), 400, sleeper(WakeSource.NONE, mark=Mark.NONE, slot=False)
    )
    got = World([waiter, releaser], ends_at_ms=620).judge()
    assert got.verdict is Verdict.PASSED


def test_a_process_whose_threads_have_all_gone_is_slow() -> None:
    assert World([gone(), gone()], rules=Rules(limit_s=2)).judge().verdict is Verdict.SLOW


def _layered(period: float, *, me: int, of: int = 2) -> Thread:
    """Computes when it is its turn, else sleeps at a barrier; many layers, and never a beat in between."""

    def at(t: float) -> Now:
        layer = int(t / period)
        mine = layer % of == me
        before = layer // of + (1 if layer % of > me else 0)
        return Now(
            state=ThreadState.RUNNING if mine else ThreadState.ASLEEP,
            cpu_ms=before * period + (t % period if mine else 0),
            switches=layer + 1,
            mark=Mark.RUN if mine else Mark.WAIT,
            kind=WaitKind.UNTIMED,
            site=1,
            arrivals=layer,
            wake=WakeSource.NONE,
        )

    return at


def _waits(thread: Thread, kind: WaitKind) -> Thread:
    return lambda t: dataclasses.replace(thread(t), kind=kind)


def test_many_barriers_to_a_beat_with_work_between_them_are_no_livelock() -> None:
    assert World([_layered(20, me=0), _layered(20, me=1)], ends_at_ms=1500).judge().verdict is Verdict.PASSED


def test_waits_that_a_healthy_gap_held_are_no_sign_of_a_livelock() -> None:
    """Thirty short waits to a beat, every 100 ms; then a gap six times as long, with six times as many."""

    def phases(t: float) -> Now:
        return Now(
            cpu_ms=t * 0.05,
            switches=int(t),
            mark=Mark.WAIT,
            kind=WaitKind.UNTIMED,
            site=7,
            arrivals=int(t * 0.3),
            beats=int(t / 100) if t < 1000 else 10 + int(t >= 1250),
        )

    assert World([phases, phases], ends_at_ms=1300).judge().verdict is Verdict.PASSED


@pytest.mark.parametrize("kind", [WaitKind.OUTSIDE, WaitKind.TIMED])
def test_a_busy_wait_for_a_time_or_for_outside_is_named_at_the_limit(kind: WaitKind) -> None:
    busy = _waits(spinner(beats=1), kind)
    assert World([busy, busy], ends_at_ms=1500).judge().verdict is Verdict.PASSED
    got = World([busy, busy], rules=Rules(limit_s=3)).judge()
    assert (got.verdict, got.rule, len(got.wakeable)) == (Verdict.LIVELOCK, "limit-7", 2)


def test_a_poll_with_a_time_out_that_is_marked_outside_is_waiting() -> None:
    def polls(t: float) -> Now:
        return dataclasses.replace(poller(100, mark=Mark.WAIT)(t), kind=WaitKind.OUTSIDE, arrivals=1, beats=1)

    assert World([polls], rules=Rules(limit_s=4)).judge().verdict is Verdict.WAITING


def test_a_helper_that_naps_before_it_releases_is_waited_for() -> None:
    helper = poller(300, slot=False)
    assert World([spinner(beats=1), spinner(beats=1), helper], ends_at_ms=2400).judge().verdict is Verdict.PASSED


def test_a_producer_that_naps_in_a_marked_wait_is_waited_for() -> None:
    producer = _waits(poller(300, mark=Mark.WAIT), WaitKind.TIMED)
    assert World([spinner(beats=1), spinner(beats=1), producer], ends_at_ms=2400).judge().verdict is Verdict.PASSED


def test_a_team_that_starves_itself_is_not_starved_by_the_host() -> None:
    """Sixty-four spinners on two CPUs get three per cent each: they take it from one another."""

    def spins(t: float) -> Now:
        return dataclasses.replace(spinner(share=2 / 64, beats=1)(t), switches=int(t / 120))

    team = [spins for _ in range(63)]
    assert World([*team, sleeper(WakeSource.TIMER, mark=Mark.RUN)], rules=Rules(limit_s=4)).judge().verdict is (
        Verdict.LIVELOCK
    )
    starved = World([*team, hungry()], rules=Rules(limit_s=4)).judge()
    assert starved.verdict is Verdict.INCONCLUSIVE


def test_a_timer_whose_handler_may_end_it_keeps_the_window_open() -> None:
    """`alarm` and a SIGALRM handler that sets the flag, or posts the semaphore."""
    spins = World([spinner(), spinner()], timers=(PID,), rules=Rules(limit_s=3))
    got = spins.judge()
    assert (got.verdict, got.rule) == (Verdict.LIVELOCK, "limit-7")
    assert f"process {PID}" in got.reason
    assert World([spinner(), spinner()], timers=(PID,), ends_at_ms=2000).judge().verdict is Verdict.PASSED
    sleeps = World([sleeper(WakeSource.NONE)], timers=(PID,), rules=Rules(limit_s=3))
    assert sleeps.judge().verdict is Verdict.WAITING


@pytest.mark.parametrize("period", [5, 10, 40])
def test_a_ticker_does_not_hide_a_livelock_however_short_its_naps(period: float) -> None:
    """Awake at every eleventh look or so, and never asleep for long enough to be parked."""

    def ticks(t: float) -> Now:
        awake = int(t / 10) % 11 == 0
        return dataclasses.replace(
            poller(period, slot=False)(t), state=ThreadState.RUNNABLE if awake else ThreadState.ASLEEP
        )

    team = [spinner(share=0.1, beats=1) for _ in range(16)]
    got = World([*team, ticks], rules=Rules(limit_s=10)).judge()
    assert got.verdict is Verdict.LIVELOCK
    assert got.shape.spinning == 16
    assert World([*team, ticks], ends_at_ms=2400, rules=Rules(limit_s=10)).judge().verdict is Verdict.PASSED


def _locks(free_after_ms: float, *, rest: Now) -> Thread:
    """Many short waits within 50 ms, all begun and over, then something long without a beat."""

    def at(t: float) -> Now:
        if t < free_after_ms:
            return Now(cpu_ms=t * 0.5, switches=3, mark=Mark.RUN, arrivals=int(t * 2), beats=1, kind=WaitKind.UNTIMED)
        return dataclasses.replace(
            rest, cpu_ms=rest.cpu_ms + t * (rest.state is ThreadState.RUNNABLE), arrivals=100, beats=1
        )

    return at


@pytest.mark.parametrize(
    "rest",
    [
        Now(state=ThreadState.ASLEEP, cpu_ms=25, switches=4, mark=Mark.RUN, wake=WakeSource.TIMER),
        Now(cpu_ms=25, switches=4, mark=Mark.RUN),
    ],
)
def test_waits_that_lie_behind_a_thread_do_not_count_against_it(rest: Now) -> None:
    world = World([spinner(beats=1), _locks(50, rest=rest)], ends_at_ms=4000)
    assert world.judge().verdict is Verdict.PASSED


def test_a_load_in_many_short_steps_before_the_first_beat_is_no_livelock() -> None:
    def loads(t: float) -> Now:
        return Now(cpu_ms=t * 0.5, switches=int(t), mark=Mark.RUN, kind=WaitKind.SPIN, site=7, arrivals=int(t * 5))

    assert World([loads, loads], ends_at_ms=4500).judge().verdict is Verdict.PASSED


def test_a_long_phase_of_short_waits_after_short_ones_is_no_livelock() -> None:
    def grows(t: float) -> Now:
        beats = int(t) if t < 200 else 200 + int(t >= 1700)
        return Now(
            cpu_ms=t * 0.5,
            switches=int(t),
            mark=Mark.WAIT,
            kind=WaitKind.SPIN,
            site=7,
            arrivals=int(t * 5),
            beats=beats,
        )

    assert World([grows, grows], ends_at_ms=1800).judge().verdict is Verdict.PASSED
