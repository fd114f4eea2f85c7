"""Rates, bounds and claims: values from tables, exact coverage for small counts, and the words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from livetrap import stats
from livetrap.errors import HarnessError
from livetrap.stats import FixClaim, chance_of_none, interval, measure, trials_needed, trials_to_halve, upper_bound

needs_scipy = pytest.mark.skipif(not stats.available(), reason="scipy is not installed")
confidences = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])
counts = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def claim(fixed: tuple[int, int], buggy: tuple[int, int], confidence: float = 0.95) -> FixClaim:
    return FixClaim(
        fixed_hangs=fixed[0],
        fixed_trials=fixed[1],
        buggy_hangs=buggy[0],
        buggy_trials=buggy[1],
        confidence=confidence,
    )


# --- intervals -------------------------------------------------------------------------------------------------------


@needs_scipy
@pytest.mark.parametrize(
    ("hangs", "trials", "low", "high"),
    [  # as R's binom.test() and the tables of exact binomial limits give them
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (4, 20, 0.0573, 0.4366),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (1, 100, 0.0003, 0.0545),
        (50, 100, 0.3983, 0.6017),
    ],
)
def test_exact_intervals_of_the_tables(hangs: int, trials: int, low: float, high: float) -> None:
    assert interval(hangs, trials) == pytest.approx((low, high), abs=5e-5)


@needs_scipy
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("trials", [1, 2, 3, 5, 8, 13, 30])
def test_coverage_by_enumeration(trials: int, confidence: float) -> None:
    """Of every true rate, the chance of a count whose interval holds it is at least the confidence."""
    intervals = [interval(k, trials, confidence=confidence) for k in range(trials + 1)]
    shown = [(rate.low, rate.high) for rate in (measure(k, trials, confidence=confidence) for k in range(trials + 1))]
    ends = [end for pair in (*intervals, *shown) for end in pair]
    rates = [*(i / 200 for i in range(201)), *(min(1, max(0, end + step)) for end in ends for step in (-1e-7, 1e-7))]
    for rate in rates:
        assert covered(rate, intervals) >= confidence - 1e-5
        # One-sided with none seen, two-sided else: what `measure` says that this costs.
        assert covered(rate, shown) >= 1 - 1.5 * (1 - confidence) - 1e-5


def covered(rate: float, intervals: list[tuple[float, float]]) -> float:
    """The chance of a count whose interval holds this true rate."""
    n = len(intervals) - 1
    return sum(
        math.comb(n, k) * rate**k * (1 - rate) ** (n - k)
        for k, (low, high) in enumerate(intervals)
        if low <= rate <= high
    )


@needs_scipy
@given(counts, confidences)
def test_intervals_hold_the_seen_rate_and_grow_with_confidence(count: tuple[int, int], confidence: float) -> None:
    hangs, trials = count
    low, high = interval(hangs, trials, confidence=confidence)
    assert 0 <= low <= hangs / trials <= high <= 1
    wider = interval(hangs, trials, confidence=0.999)
    assert wider[0] <= low <= high <= wider[1]
    mirrored = interval(trials - hangs, trials, confidence=confidence)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


@needs_scipy
@given(counts)
def test_more_hangs_move_both_ends_up(count: tuple[int, int]) -> None:
    hangs, trials = count
    assume(hangs < trials)
    fewer, more = interval(hangs, trials), interval(hangs + 1, trials)
    assert fewer[0] < more[0]
    assert fewer[1] < more[1]


# --- bounds where none was seen --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "bound"), [(1, 0.95), (2, 0.7764), (10, 0.2589), (59, 0.0495), (100, 0.0295), (500, 0.00597)]
)
def test_bound_where_none_was_seen(trials: int, bound: float) -> None:
    assert upper_bound(trials) == pytest.approx(bound, abs=5e-5)
    assert measure(0, trials).high == upper_bound(trials)
    assert upper_bound(trials) <= 3 / trials  # the rule of three is its approximation, from above


@given(st.integers(1, 10**7), confidences)
def test_a_rate_at_the_bound_would_have_shown_none_with_the_chance_that_is_left(trials: int, confidence: float) -> None:
    bound = upper_bound(trials, confidence=confidence)
    assert (1 - bound) ** trials == pytest.approx(1 - confidence, rel=1e-6)
    assert upper_bound(trials + 1, confidence=confidence) < bound


@given(st.integers(1, 10**6), confidences)
def test_halving_halves_and_one_trial_less_does_not(trials: int, confidence: float) -> None:
    more = trials_to_halve(trials, confidence=confidence)
    half = upper_bound(trials, confidence=confidence) / 2
    assert upper_bound(trials + more, confidence=confidence) <= half * (1 + 1e-6)
    assert upper_bound(trials + more - 1, confidence=confidence) > half * (1 - 1e-6)
    assert more >= trials


@pytest.mark.parametrize(
    ("rate", "confidence", "trials"),
    [(0.01, 0.99, 459), (0.01, 0.95, 299), (0.05, 0.95, 59), (0.1, 0.9, 22), (0.5, 0.75, 2), (1.0, 0.95, 1)],
)
def test_trials_needed_is_rounded_up(rate: float, confidence: float, trials: int) -> None:
    assert trials_needed(rate, confidence=confidence) == trials
    assert 1 - (1 - rate) ** trials >= confidence
    assert 1 - (1 - rate) ** (trials - 1) < confidence


# --- a fix and its buggy twin ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hangs", "trials", "fixed", "chance"),
    [
        (3, 3, 3, 1 / 20),
        (4, 4, 4, 1 / 70),
        (5, 5, 10, 1 / 3003),
        (1, 30, 10, 0.75),
        (0, 30, 10, 1.0),
        (3, 3, 0, 1.0),
        (2, 3, 1, 0.5),
    ],
)
def test_chance_of_none(hangs: int, trials: int, fixed: int, chance: float) -> None:
    assert chance_of_none(hangs, trials, fixed) == pytest.approx(chance)


@needs_scipy
@pytest.mark.parametrize(("hangs", "trials", "fixed"), [(3, 3, 3), (1, 30, 10), (26, 30, 500), (7, 1000, 500)])
def test_chance_is_that_of_scipy(hangs: int, trials: int, fixed: int) -> None:
    import numpy as np  # noqa: PLC0415 - the extra may be missing
    from scipy.stats import fisher_exact  # noqa: PLC0415

    found = fisher_exact(np.array([[hangs, trials - hangs], [0, fixed]]), alternative="greater")
    assert chance_of_none(hangs, trials, fixed) == pytest.approx(float(found.pvalue), rel=1e-9)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_chance_by_exact_counting_and_never_below_the_naive_one(trials: int, hangs: int, fixed: int) -> None:
    assume(hangs <= trials)
    exact = math.comb(trials, hangs) / math.comb(trials + fixed, hangs)
    assert chance_of_none(hangs, trials, fixed) == pytest.approx(exact, rel=1e-9)
    assert exact >= (1 - hangs / trials) ** fixed * (1 - 1e-9)
    assert chance_of_none(hangs, trials, fixed + 1) <= chance_of_none(hangs, trials, fixed)


@given(st.integers(1, 200), st.integers(1, 200), confidences)
def test_the_trials_that_a_fix_needs_are_the_least(trials: int, hangs: int, confidence: float) -> None:
    assume(hangs <= trials)
    needed = stats.fixed_trials_needed(hangs, trials, confidence=confidence)
    assert chance_of_none(hangs, trials, needed) <= 1 - confidence
    assert needed == 1 or chance_of_none(hangs, trials, needed - 1) > 1 - confidence


def test_large_counts_are_quick() -> None:
    began = time.process_time()
    assert chance_of_none(5000, 10**6, 10**6) == 0.0
    assert trials_to_halve(10**9) >= 10**9
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("fixed", "buggy", "holds"),
    [
        ((0, 500), (26, 30), True),
        ((0, 10), (1, 30), None),
        ((0, 500), (0, 30), None),
        ((0, 500), (0, 0), None),
        ((0, 0), (26, 30), None),
        ((1, 500), (26, 30), False),
        ((1, 1), (0, 30), False),
    ],
)
def test_what_a_fix_may_claim(fixed: tuple[int, int], buggy: tuple[int, int], holds: bool | None) -> None:
    made = claim(fixed, buggy)
    assert made.holds is holds
    assert made.reproduced == (buggy[0] > 0)


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hangs", "trials", "text"),
    [
        (0, 500, "0 of 500, below 0.60 % (95 %)"),
        (0, 10, "0 of 10, below 26 % (95 %)"),
        (0, 1, "0 of 1, below 95 % (95 %)"),
        (5, 5, "5 of 5, 47 to 100 % (95 %)"),
        (1000, 1000, "1000 of 1000, 99.63 to 100 % (95 %)"),
        (0, 0, "0 of 0: nothing conclusive"),
    ],
)
def test_words_of_a_rate(hangs: int, trials: int, text: str) -> None:
    assert stats.rate_text(hangs, trials) == text


@needs_scipy
def test_words_of_a_rate_between() -> None:
    assert measure(4, 30).text == "4 of 30, 3.7 to 31 % (95 %)"
    assert measure(4, 30, confidence=0.999).text == "4 of 30, 1.2 to 44 % (99.9 %)"


def test_words_of_halving() -> None:
    assert stats.halving_text(500) == "502 more without a hang would halve the bound"


def test_words_of_a_fix() -> None:
    assert claim((0, 500), (26, 30)).text == (
        "0 of 500; at 95 % confidence the rate is below 0.60 %; the buggy twin hung 26 of 30 in the same campaign, "
        "so chance alone would give this with p < 1e-6"
    )
    assert claim((0, 3), (4, 4)).text.endswith("so chance alone would give this with p = 0.029")
    assert claim((0, 10), (1, 30)).text.endswith(
        "with p = 0.75: too likely to call it fixed, 570 trials without a hang would do"
    )


@pytest.mark.parametrize("buggy", [(0, 30), (0, 0)])
def test_nothing_is_claimed_where_the_twin_did_not_hang(buggy: tuple[int, int]) -> None:
    text = claim((0, 500), buggy).text
    assert text.startswith("not reproduced")
    assert "nothing is claimed about the fix" in text
    assert "below" not in text
    assert "p =" not in text


def test_words_of_a_fix_that_hung_or_never_ran() -> None:
    assert claim((5, 5), (0, 30)).text == "5 of 5, 47 to 100 % (95 %): the fix does not hold"
    assert "no conclusive trial of the fix" in claim((0, 0), (3, 3)).text


@pytest.mark.parametrize(
    ("fraction", "up", "text"),
    [
        (0.0, True, "0"),
        (1.0, False, "100"),
        (0.26, True, "26"),
        (0.26, False, "26"),
        (0.2589, True, "26"),
        (0.2589, False, "25"),
        (0.0597, True, "6.0"),
        (0.00597, True, "0.60"),
        (0.000123, False, "0.012"),
        (0.9963, False, "99.63"),
        (0.99, True, "99"),
        (1e-9, True, "0.0001"),
        (1e-9, False, "0"),
        (1 - 1e-12, True, "100.0000"),
    ],
)
def test_percent(fraction: float, up: bool, text: str) -> None:
    assert stats.percent(fraction, up=up) == text


@given(st.floats(0, 1))
def test_percent_rounds_outward_by_little(fraction: float) -> None:
    low, high = float(stats.percent(fraction, up=False)), float(stats.percent(fraction, up=True))
    value = fraction * 100
    assert low - 1e-6 <= value <= high + 1e-6
    assert high - low <= max(1e-4, 0.1 * min(value, 100 - value), 0.1 * value if value < 50 else 1) + 1e-9


@pytest.mark.parametrize(
    ("chance", "text"), [(1.0, "p = 1"), (0.05, "p = 0.05"), (1e-6, "p = 1e-06"), (9e-7, "p < 1e-6"), (0.0, "p < 1e-6")]
)
def test_words_of_a_chance(chance: float, text: str) -> None:
    assert stats.chance_text(chance) == text


# --- misuse, and no scipy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: measure(1, 0),
        lambda: measure(0, 0),
        lambda: measure(-1, 5),
        lambda: measure(6, 5),
        lambda: measure(1.0, 5),  # type: ignore[arg-type]
        lambda: measure(True, 5),
        lambda: measure(0, 5, confidence=0.0),
        lambda: measure(0, 5, confidence=1.0),
        lambda: measure(0, 5, confidence=math.nan),
        lambda: measure(0, 5, confidence=95),
        lambda: interval(1, 5, confidence=1.5),
        lambda: upper_bound(0),
        lambda: trials_to_halve(0),
        lambda: trials_needed(0.0, confidence=0.95),
        lambda: trials_needed(1.1, confidence=0.95),
        lambda: trials_needed(math.nan, confidence=0.95),
        lambda: trials_needed(0.1, confidence=1.0),
        lambda: chance_of_none(3, 2, 5),
        lambda: chance_of_none(1, 2, -1),
        lambda: stats.fixed_trials_needed(0, 5),
        lambda: stats.fixed_trials_needed(1, 0),
        lambda: stats.rate_text(1, 0),
        lambda: stats.chance_text(1.5),
        lambda: stats.percent(-0.1, up=True),
        lambda: claim((1, 0), (0, 0)),
        lambda: claim((0, 1), (2, 1)),
        lambda: claim((0, 1), (1, 1), confidence=2.0),
        lambda: stats.Rate(hangs=1, trials=2, low=0.6, high=0.9),
        lambda: stats.Rate(hangs=1, trials=2, low=0.1, high=1.1),
    ],
)
def test_misuse_is_refused(misuse: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        misuse()


def test_without_scipy_only_intervals_between_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "available", lambda: False)
    assert measure(0, 500).text == "0 of 500, below 0.60 % (95 %)"
    assert measure(5, 5).low == pytest.approx(0.4782, abs=5e-5)
    assert stats.rate_text(4, 30) == "4 of 30 (for the interval: pip install 'livetrap[stats]')"
    assert claim((2, 500), (3, 3)).holds is False
    assert claim((2, 500), (3, 3)).text.endswith("the fix does not hold")
    with pytest.raises(HarnessError, match=r"pip install 'livetrap\[stats\]'") as told:
        measure(4, 30)
    assert told.value.status == 3
