"""What counted hangs say: rates with exact intervals, bounds where none was seen, and what a fix may claim.

Pure: counts in, figures and words out. Rates and chances are fractions from 0 to 1, confidences too (0.95 is 95 %).
Only an interval with some hangs and some trials without needs scipy (the extra `stats`), which is loaded at that
moment; everything else is a closed form. Arguments that make no sense raise ValueError: the callers are code.

Sources: Clopper and Pearson, Biometrika 26 (1934), 404-413, for the intervals; Hanley and Lippman-Hand, JAMA 249
(1983), 1743-1745, for the bound where nothing was seen (their rule of three is its approximation 3/n); Fisher, "The
logic of inductive inference", J. R. Stat. Soc. 98 (1935), 39-82, for the exact test on two pairs of counts.
"""

from __future__ import annotations

import importlib.util
import math

from livetrap.errors import HarnessError
from livetrap.model import Frozen

CONFIDENCE = 0.95
"""Of every bound and interval, unless another is asked for."""
INSTALL = "pip install 'livetrap[stats]'"
"""How to get what an interval needs."""

_TINY = 1e-6
"""Chances below this are told as such: a count of trials cannot carry more."""
_DECIMALS = 4
_WOBBLE = 1e-9
"""Relative error that a figure may carry from floating point before it is rounded outward."""


class Rate(Frozen, kw_only=True):
    """How often something hung: `hangs` of `trials`, and where the true rate lies with that confidence."""

    hangs: int
    trials: int
    low: float
    high: float
    """With hangs: the two-sided interval. With none: `low` is 0, and `high` is the one-sided upper bound."""
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        _check_counts(self.hangs, self.trials, least=1)
        _check_confidence(self.confidence)
        if not 0.0 <= self.low <= self.hangs / self.trials <= self.high <= 1.0:
            raise ValueError(f"{self.low} to {self.high} is no interval around {self.hangs} of {self.trials}")

    @property
    def text(self) -> str:
        """`0 of 500, below 0.60 % (95 %)` or `4 of 30, 3.7 to 31 % (95 %)`."""
        sure = f"({_confidence(self.confidence)})"
        if self.hangs == 0:
            return f"0 of {self.trials}, below {percent(self.high, up=True)} % {sure}"
        low, high = percent(self.low, up=False), percent(self.high, up=True)
        return f"{self.hangs} of {self.trials}, {low} to {high} % {sure}"


class FixClaim(Frozen, kw_only=True):
    """What a fixed variant may claim beside its buggy twin, from the conclusive trials of one campaign."""

    fixed_hangs: int
    fixed_trials: int
    buggy_hangs: int
    buggy_trials: int
    twin: str = "buggy"
    """What the twin is: `buggy` or `widened`."""
    did: str = "hung"
    """What the twin did, in words; for bugs that do not only hang, e.g. `showed the bug`."""
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        _check_counts(self.fixed_hangs, self.fixed_trials)
        _check_counts(self.buggy_hangs, self.buggy_trials)
        _check_confidence(self.confidence)

    @property
    def reproduced(self) -> bool:
        """The buggy twin hung in this campaign. Where it did not, nothing is claimed about the fix."""
        return self.buggy_hangs > 0

    @property
    def chance(self) -> float | None:
        """Of seeing no hang of the fixed variant if the twin's rate still held; None where that cannot be asked."""
        if not self.reproduced or self.fixed_hangs or not self.fixed_trials:
            return None
        return chance_of_none(self.buggy_hangs, self.buggy_trials, self.fixed_trials)

    @property
    def holds(self) -> bool | None:
        """False: the fixed variant hung. True: it did not, and that is no luck at this confidence. None: no claim."""
        if self.fixed_hangs:
            return False
        chance = self.chance
        return True if chance is not None and chance <= 1.0 - self.confidence else None

    @property
    def text(self) -> str:
        """The claim in words, one line."""
        if self.fixed_hangs:
            seen = rate_text(self.fixed_hangs, self.fixed_trials, confidence=self.confidence)
            return f"{seen}: the fix does not hold"
        twin = f"the {self.twin} twin {self.did} {self.buggy_hangs} of {self.buggy_trials} in the same campaign"
        if not self.reproduced:
            return f"not reproduced: {twin}, so nothing is claimed about the fix"
        chance = self.chance
        if chance is None:
            return f"0 of 0: no conclusive trial of the fix, so nothing is claimed about it; {twin}"
        bound = percent(upper_bound(self.fixed_trials, confidence=self.confidence), up=True)
        claim = (
            f"0 of {self.fixed_trials}; at {_confidence(self.confidence)} confidence the rate is below {bound} %; "
            f"{twin}, so chance alone would give this with {chance_text(chance)}"
        )
        if self.holds:
            return claim
        needed = fixed_trials_needed(self.buggy_hangs, self.buggy_trials, confidence=self.confidence)
        return f"{claim}: too likely to call it fixed, {needed} trials without a hang would do"


# --- figures ---------------------------------------------------------------------------------------------------------


def available() -> bool:
    """Whether scipy is installed, which intervals with some hangs and some trials without need."""
    return importlib.util.find_spec("scipy") is not None


def measure(hangs: int, trials: int, *, confidence: float = CONFIDENCE) -> Rate:
    """The rate of `hangs` in `trials`, with its interval: Clopper and Pearson's, or with none seen `upper_bound`.

    The two-sided interval covers the true rate at least as often as `confidence` says, and so does the one-sided bound
    by itself. Taking the one or the other by what was seen costs at most half of what is left: at 95 % the pair covers
    in 92.5 % at least.

    ValueError: no trial, counts or a confidence that make no sense. HarnessError: it needs scipy, which is not here.
    """
    _check_counts(hangs, trials, least=1)
    _check_confidence(confidence)
    if hangs == 0:
        return Rate(
            hangs=0, trials=trials, low=0.0, high=upper_bound(trials, confidence=confidence), confidence=confidence
        )
    low, high = interval(hangs, trials, confidence=confidence)
    return Rate(hangs=hangs, trials=trials, low=low, high=high, confidence=confidence)


def interval(hangs: int, trials: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The two-sided exact interval of Clopper and Pearson for the true rate, whatever was seen.

    Its ends are the quantiles (1-C)/2 of Beta(k, n-k+1) and (1+C)/2 of Beta(k+1, n-k); with none or all seen, closed.

    ValueError: no trial, counts or a confidence that make no sense. HarnessError: it needs scipy, which is not here.
    """
    _check_counts(hangs, trials, least=1)
    _check_confidence(confidence)
    tail = (1.0 - confidence) / 2.0
    if hangs == 0:
        return 0.0, -math.expm1(math.log(tail) / trials)
    if hangs == trials:
        return math.exp(math.log(tail) / trials), 1.0
    if not available():
        raise HarnessError(f"an interval for {hangs} of {trials} needs scipy, which is not here: {INSTALL}", status=3)
    from scipy.special import betaincinv  # noqa: PLC0415 - seldom wanted, and a third of the time of scipy.stats to load

    low = float(betaincinv(hangs, trials - hangs + 1, tail))
    high = float(betaincinv(hangs + 1, trials - hangs, 1.0 - tail))
    return low, high


def upper_bound(trials: int, *, confidence: float = CONFIDENCE) -> float:
    """Where no hang was seen in `trials`: the rate is below this. One-sided: 1 - (1-C)^(1/n).

    A rate of exactly this would have shown no hang with a chance of 1-C. ValueError: no trial, no such confidence.
    """
    _check_counts(0, trials, least=1)
    _check_confidence(confidence)
    return -math.expm1(math.log1p(-confidence) / trials)


def trials_to_halve(trials: int, *, confidence: float = CONFIDENCE) -> int:
    """How many *more* trials without a hang would halve `upper_bound(trials)`. ValueError as there."""
    target = upper_bound(trials, confidence=confidence) / 2.0
    return trials_needed(target, confidence=confidence) - trials


def trials_needed(rate: float, *, confidence: float) -> int:
    """How many trials show at least one hang of that rate with that confidence: ln(1-C) / ln(1-f), rounded *up*.

    Rounded up, since it is a promise: for f = 1 % and C = 99 % the quotient is 458.2; 458 trials give 98.998 % only,
    459 give 99.008 %. ValueError: a rate not above 0 and at most 1, no such confidence.
    """
    _check_confidence(confidence)
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"a rate is above 0 and at most 1, not {rate!r}")
    if rate == 1.0:
        return 1
    exact = math.log1p(-confidence) / math.log1p(-rate)
    return max(1, math.ceil(exact * (1.0 - _WOBBLE)))


def chance_of_none(hangs: int, trials: int, fixed_trials: int) -> float:
    """The chance of no hang in `fixed_trials`, if the rate still held that gave the buggy twin `hangs` of `trials`.

    Fisher's exact test, one-sided, on the two pairs of counts: given so many hangs in all, the chance that every one
    falls to the twin, C(m, k) / C(m+n, k). It equals scipy.stats.fisher_exact([[k, m-k], [0, n]], "greater"), as a
    product that needs no scipy. The simpler (1 - k/m)^n takes the estimated rate for the true one, and says 0 after 3
    of 3; this one is conservative about it. 1.0 where the twin never hung, or where nothing was tried.

    ValueError: counts that make no sense.
    """
    _check_counts(hangs, trials)
    _check_counts(0, fixed_trials)
    every = trials + fixed_trials
    fewer, other = sorted((hangs, fixed_trials))  # C(m, k) / C(m+n, k) is the same with k and n exchanged
    return math.prod((every - other - i) / (every - i) for i in range(fewer))


def fixed_trials_needed(hangs: int, trials: int, *, confidence: float = CONFIDENCE) -> int:
    """The least number of trials without a hang for which `chance_of_none` is at most 1-C.

    ValueError: a twin that never hung (no number would do), counts or a confidence that make no sense.
    """
    _check_counts(hangs, trials, least=1)
    _check_confidence(confidence)
    if hangs == 0:
        raise ValueError("no number of trials tells a fix from a twin that never hung")
    allowed = 1.0 - confidence
    above = 1
    while chance_of_none(hangs, trials, above) > allowed:
        above *= 2
    below = above // 2  # not enough, or 0
    while above - below > 1:
        middle = (above + below) // 2
        if chance_of_none(hangs, trials, middle) > allowed:
            below = middle
        else:
            above = middle
    return above


# --- words -----------------------------------------------------------------------------------------------------------


def rate_text(hangs: int, trials: int, *, confidence: float = CONFIDENCE) -> str:
    """`Rate.text` for any counts; where an interval needs scipy and it is not here, the counts and how to get it."""
    _check_counts(hangs, trials)
    _check_confidence(confidence)
    if trials == 0:
        return "0 of 0: nothing conclusive"
    if 0 < hangs < trials and not available():
        return f"{hangs} of {trials} (for the interval: {INSTALL})"
    return measure(hangs, trials, confidence=confidence).text


def halving_text(trials: int, *, confidence: float = CONFIDENCE) -> str:
    """`501 more without a hang would halve the bound`. ValueError as `trials_to_halve`."""
    return f"{trials_to_halve(trials, confidence=confidence)} more without a hang would halve the bound"


def chance_text(chance: float) -> str:
    """`p = 0.012`, or `p < 1e-6`. ValueError: not from 0 to 1."""
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"a chance is from 0 to 1, not {chance!r}")
    return "p < 1e-6" if chance < _TINY else f"p = {chance:.2g}"


def percent(fraction: float, *, up: bool) -> str:
    """A fraction in percent without the sign, two figures, rounded outward: `up` for an upper end, else down.

    `0.60`, `5.2`, `26`, `99.63`: near 100 the two figures are those of what is missing. ValueError: not from 0 to 1.
    """
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"a fraction is from 0 to 1, not {fraction!r}")
    value = fraction * 100.0
    if value in {0.0, 100.0}:
        return f"{value:.0f}"
    if value >= 10.0:
        missing = 100.0 - value
        decimals = 0 if missing >= 1.0 else 1 - math.floor(math.log10(missing))
    else:
        decimals = 1 - math.floor(math.log10(value))
    decimals = min(decimals, _DECIMALS)
    scaled = value * 10.0**decimals
    rounded = math.ceil(scaled * (1.0 - _WOBBLE)) if up else math.floor(scaled * (1.0 + _WOBBLE))
    return f"{rounded / 10.0**decimals:.{decimals}f}" if rounded else "0"


def _confidence(confidence: float) -> str:
    return f"{confidence * 100.0:.6g} %"


def _check_counts(hangs: int, trials: int, *, least: int = 0) -> None:
    for name, value in (("hangs", hangs), ("trials", trials)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} must be a whole number, not {value!r}")  # noqa: TRY004 - one class for all misuse
    if trials < least:
        raise ValueError(f"there must be at least {least} trials, not {trials}")
    if not 0 <= hangs <= trials:
        raise ValueError(f"{hangs} of {trials} is no count of hangs")


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence is above 0 and below 1 (0.95 is 95 %), not {confidence!r}")
