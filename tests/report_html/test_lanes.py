"""Trials over time: what each thread did, as it was stored."""

from __future__ import annotations

import msgspec
import pytest

from livetrap.model import Ended, Event, Judgement, Role, ThreadState, Verdict
from livetrap.report.html import drawing
from livetrap.report.html.lanes import COLUMNS, MOST_LANES, Lanes, lanes_of

from .making import MS, ZERO, look, reading, stalled

LOOKS_ON = Judgement(verdict=Verdict.PASSED, reason="", settled_ns=ZERO + 100 * MS)


def lanes(events: list[Event], judgement: Judgement, *, hung: bool) -> Lanes:
    made = lanes_of(events, judgement, hung=hung)
    assert made is not None
    return made


def test_times_of_a_thread() -> None:
    made = lanes(
        [
            look(0, reading(11, beats=0)),
            look(40, reading(11, cpu_ns=20 * MS, waited_ns=10 * MS, beats=5)),
            look(100, reading(11, cpu_ns=20 * MS, waited_ns=10 * MS, beats=5, state=ThreadState.ASLEEP)),
        ],
        LOOKS_ON,
        hung=False,
    )
    (lane,) = made.lanes
    assert [(span.begin_s, span.end_s, span.beats) for span in lane.spans] == [(0.0, 0.04, 5), (0.04, 0.1, 0)]
    assert lane.total("cpu_s") == pytest.approx(0.02)
    assert lane.total("waited_s") == pytest.approx(0.01)
    assert lane.total("asleep_s") == pytest.approx(0.07)
    assert lane.beats == 5
    assert not made.stalled


def test_without_clocks_it_goes_by_what_was_seen() -> None:
    seen = [
        look(0, reading(11, cpu_ns=None, waited_ns=None)),
        look(50, reading(11, cpu_ns=None, waited_ns=None)),
        look(100, reading(11, cpu_ns=None, waited_ns=None, state=ThreadState.ASLEEP)),
    ]
    (lane,) = lanes(list(seen), LOOKS_ON, hung=False).lanes
    assert lane.total("cpu_s") is None
    assert lane.total("asleep_s") == pytest.approx(0.05)
    assert 'class="l-awake"' in drawing.draw(lanes(list(seen), LOOKS_ON, hung=False), name="t", title="t")


def test_a_slot_that_another_thread_had_before_begins_anew() -> None:
    events: list[Event] = [look(0, reading(11, beats=50)), look(100, reading(11, beats=3, generation=2))]
    assert lanes(events, LOOKS_ON, hung=False).lanes[0].beats == 3


def test_the_stall() -> None:
    events, judgement = stalled()
    made = lanes(events, judgement, hung=True)
    assert made.last_beat_s == pytest.approx(0.1)
    assert made.settled_s == made.end_s == pytest.approx(0.396)
    assert [lane.role for lane in made.lanes] == [Role.SPINNING] * 3 + [Role.PARKED]
    assert [mark.what for mark in made.marks] == ["evidence gathered"]
    assert drawing.describe(made) == (
        "4 threads over 0.4 s, 41 looks. The stall: no beat from 0.100 s to the verdict at 0.396 s."
    )


def test_a_stall_that_is_a_small_part_is_shown_with_as_much_before_it_as_leaves_it_clear() -> None:
    events, judgement = stalled(looks=1000)
    short = msgspec.structs.replace(judgement, last_beat_ns=judgement.settled_ns - 300 * MS)
    made = lanes(events, short, hung=True)
    assert made.end_s - made.begin_s == pytest.approx(1.0, abs=0.02)
    assert made.begin_s > 8


def test_a_last_beat_before_the_first_look_is_shown() -> None:
    events, judgement = stalled()
    made = lanes(events[15:], judgement, hung=True)
    assert made.begin_s == made.last_beat_s == pytest.approx(0.1)


def test_a_last_beat_long_before_the_first_look_is_not() -> None:
    events, judgement = stalled()
    made = lanes(events[38:], judgement, hung=True)
    assert made.last_beat_s is None
    assert "No beat in all of the time that is shown." in drawing.describe(made)


def test_long_trials_and_many_threads_stay_small() -> None:
    events, judgement = stalled(looks=1000, threads=40)
    made = lanes(events, judgement, hung=True)
    assert all(len(lane.spans) <= COLUMNS + 1 for lane in made.lanes)
    assert len(made.lanes) == MOST_LANES
    assert made.left_out == 40 - MOST_LANES
    assert len(drawing.draw(made, name="t", title="t")) < 150_000


@pytest.mark.parametrize("events", [[], [look(0, reading(11))], [Ended(at_ns=5)]])
def test_too_few_looks_tell_of_no_time(events: list[Event]) -> None:
    assert lanes_of(events, LOOKS_ON, hung=False) is None


def test_the_drawing_says_in_words_what_it_shows() -> None:
    events, judgement = stalled()
    text = drawing.draw(lanes(events, judgement, hung=True), name="trial-1", title="trial 1 <over> time")
    assert 'role="img" aria-labelledby="trial-1-t trial-1-d"' in text
    assert '<title id="trial-1-t">trial 1 &lt;over&gt; time</title>' in text
    assert '<desc id="trial-1-d">4 threads over' in text
    assert "<title>10/11 spinning: 100 beats, 0.2 s on a CPU, 98 ms waiting for one" in text
    assert "style=" not in text


@pytest.mark.parametrize(
    ("begin", "end", "ticks"),
    [(0.0, 0.4, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]), (8.9, 9.9, [9, 9.2, 9.4, 9.6, 9.8]), (1, 1, [])],
)
def test_ticks(begin: float, end: float, ticks: list[float]) -> None:
    assert list(drawing.ticks_of(begin, end)) == ticks
