"""Which arm of a hunt is pulled next, by what has come of all before. Pure: times and outcomes in, arms out.

An arm is one cell of a hunt, and what counts is its hangs *per second*. Two states:

Before the first hang nothing tells the arms apart but what was known of them beforehand and how long their trials take,
and no strategy can do better than to spread its time well. How well is not known either, so that the time is shared
out between three ways, and none of them can be wrong by more than its share: an even sweep, one trial of each arm in
turn (right where each *trial* is as likely to hang); the same *time* for each arm, by its weight (right where each
second is: one trial of 4 s is worth 200 of 20 ms); and the default arm again and again (right where nothing special is
needed).

From the first hang on it is Thompson sampling: of each arm's rate a value is drawn from what is believed of it, a gamma
distribution, and the largest wins. A draw earns its arm an amount of time, not a trial; slow arms must save for theirs.
What is believed beforehand follows from all arms together (empirical Bayes), with a small shape, as most arms of a rare
hang do not hang at all; and an arm that has a value in common with one that hung (its placement, its disturbance) is
believed to hang more often.

Sources: Thompson, Biometrika 25 (1933), 285-294; Chapelle and Li, "An empirical evaluation of Thompson sampling", NIPS
2011; the gamma distribution is the conjugate one of a rate whose events are counted over a time (Gelman et al.,
"Bayesian data analysis", section 2.6).
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Mapping, Sequence

from livetrap.model import Frozen

SHAPE = 0.1
"""Of what is believed of an arm beforehand: small, as hangs come from few of many arms."""
SHARES = {"sweep": 0.5, "even": 0.35, "default": 0.15}
"""Of the time, until the first hang ..."""
FIRST_SHARES = {"sweep": 0.25, "even": 0.0, "default": 0.75}
"""... but these until the default arm has had FIRST of the time that one trial of each arm takes."""
FIRST = 1.0
LEAST_WEIGHT = 0.05
MOST_LIKENESS = 10.0
"""An arm is believed to hang at most so many times more, or less, often for what it has in common with others."""
EVERY = 16
"""So often, in trials, the time of a pass is estimated anew; each time at first."""
ALIKE = 0.6
MOST_DRAWS = 200
"""After so many the arm drawn last runs though it has not saved enough."""
GUESS_S = 0.05
"""How long a trial takes, where none has run."""
MOST_ERRORS = 3
"""Trials in a row without a conclusion, after which an arm is given up."""


class Arm(Frozen, kw_only=True):
    """One cell that may be pulled."""

    key: str
    levels: tuple[str, ...] = ()
    """What it may have in common with other arms, such as `placement=spread`."""
    weight: float = 1.0
    """How likely it is to be the one, beside the others, by what is known beforehand; at least LEAST_WEIGHT counts."""
    plain: int = 0
    """Of two arms that hang about as often, the one with more of this is the better one to tell people of."""


class Score(Frozen, kw_only=True):
    """What has come of an arm."""

    hits: int = 0
    trials: int = 0
    """Conclusive ones."""
    seconds: float = 0.0
    """That those took."""
    errors: int = 0
    """Others, since the last conclusive one."""

    @property
    def takes_s(self) -> float:
        """Mean time of a trial; 0: not known."""
        return self.seconds / self.trials if self.trials else 0.0


class Way(enum.StrEnum):
    """Ways to choose before the first hang."""

    SWEEP = "sweep"
    EVEN = "even"
    DEFAULT = "default"


class Bandit:
    """Chooses arms. The same seed, and the same outcomes and times told, give the same choices."""

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        seed: int,
        default: str = "",
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """`default`: the key of the arm that somebody would run who knew nothing; empty: the first.

        `shares`: of the ways, from the first trial to the first hang, by name, instead of those above.
        """
        self._arms = {arm.key: arm for arm in arms}
        if len(self._arms) != len(arms) or not arms:
            raise ValueError("a bandit has at least one arm, and each key once")
        self._source = random.Random(f"{seed} bandit")
        self._default = default or arms[0].key
        first, later = (FIRST_SHARES, SHARES) if shares is None else (shares, shares)
        self._first = _by_way(first)
        self._later = _by_way(later)
        self.scores = {arm.key: Score() for arm in arms}
        self.live = list(self._arms)
        """The arms that are not given up."""
        self.hits = 0
        self.trials = 0
        self.seconds = 0.0
        self._spent = dict.fromkeys(Way, 0.0)
        self._pass_s = 0.0
        self._way: Way | None = None
        self._order: list[str] = []
        self._saved = dict.fromkeys(self._arms, 0.0)
        self._levels = {level: Score() for arm in arms for level in arm.levels}
        self._times = {level: _Times() for level in self._levels}
        self._all_times = _Times()
        self._longest_s = 0.0
        mean = sum(max(arm.weight, LEAST_WEIGHT) for arm in arms) / len(arms)
        self._weights = {arm.key: max(arm.weight, LEAST_WEIGHT) / mean for arm in arms}
        self._phase = {arm.key: self._source.random() for arm in arms}

    def choose(self) -> str | None:
        """The arm to pull next; None: all are given up."""
        live = self.live
        if not live:
            return None
        self._way = None
        if self.hits:
            return self._drawn(live)
        self._way = self._least_spent(live)
        if self._way is Way.DEFAULT:
            return self._default
        if self._way is Way.EVEN:
            return self._evened(live)
        key = self._next_swept(live)
        self._order.remove(key)
        return key

    def tell(self, key: str, *, hit: bool | None, took_s: float) -> None:
        """What came of a trial of that arm; `hit` None: nothing can be said. `took_s`: all the time that it took."""
        took_s = max(took_s, 1e-6)
        if self._way is not None:
            self._spent[self._way] += took_s
        if self._way is None:
            self._saved[key] -= took_s
        before = self.scores[key]
        if hit is None:
            self.scores[key] = Score(
                hits=before.hits, trials=before.trials, seconds=before.seconds, errors=before.errors + 1
            )
            if before.errors + 1 >= MOST_ERRORS and key in self.live:
                self.live.remove(key)
            return
        self.hits += hit
        self.trials += 1
        self.seconds += took_s
        self.scores[key] = _with(before, hit=hit, took_s=took_s)
        self._note_time(key, before, self.scores[key])
        for level in self._arms[key].levels:
            self._levels[level] = _with(self._levels[level], hit=hit, took_s=took_s)

    def best(self) -> str | None:
        """The arm that is believed to hang most often, of those that hung; None: none has.

        Of those that are believed to hang at least ALIKE times as often as that one, it is the plainest.
        """
        prior_s = self._prior_s()
        hung = {key: self._believed(key, prior_s) for key, score in self.scores.items() if score.hits}
        alike = [key for key, believed in hung.items() if believed >= ALIKE * max(hung.values())]
        return max(alike, key=lambda key: (self._arms[key].plain, hung[key]), default=None)

    def _least_spent(self, live: Sequence[str]) -> Way:
        """The way that is furthest behind its share of the time."""
        if self.trials < EVERY or self.trials % EVERY == 0:
            self._pass_s = sum(self._takes_s(key) for key in live)
        shares = self._first if self._spent[Way.DEFAULT] <= FIRST * self._pass_s else self._later
        ways = [way for way in Way if shares[way] > 0.0 and (way is not Way.DEFAULT or self._default in live)]
        coming = {Way.DEFAULT: self._default, Way.SWEEP: self._next_swept(live)}

        def then(way: Way) -> float:
            """How far it would be with one more trial: long ones wait until their way can afford them."""
            next_s = self._takes_s(coming[way]) if way in coming else 0.0
            return (self._spent[way] + next_s) / shares[way]

        return min(ways, key=then, default=Way.SWEEP)

    # --- the ways ----------------------------------------------------------------------------------------------------

    def _next_swept(self, live: Sequence[str]) -> str:
        """The next arm of this pass, each in an order of its own; what cannot show a hang is left out."""
        while self._order and self.scores[self._order[0]].errors >= MOST_ERRORS:
            self._order.pop(0)
        if not self._order:
            hopeful = [key for key in live if self._arms[key].weight > LEAST_WEIGHT] or list(live)
            self._order = self._source.sample(hopeful, len(hopeful))
        return self._order[0]

    def _evened(self, live: Sequence[str]) -> str:
        """The arm that has had the least time, by its weight; a slow one waits for its first trial, by a part of it."""

        def due(key: str) -> float:
            score = self.scores[key]
            return (score.seconds or self._phase[key] * self._takes_s(key)) / self._weights[key]

        return min(live, key=due)

    def _drawn(self, live: Sequence[str]) -> str:
        """The arm whose drawn rate is the largest, once it has saved for a trial."""
        prior_s = self._prior_s()
        beliefs = [(key, self._shape(key), prior_s + self.scores[key].seconds) for key in live]
        takes = {key: self._takes_s(key) for key in live}
        amount = min(takes.values())
        draw = self._source.gammavariate
        key = live[0]
        for _ in range(MOST_DRAWS):
            key = max(beliefs, key=lambda belief: draw(belief[1], 1.0) / belief[2])[0]
            self._saved[key] += amount
            if self._saved[key] >= (0.0 if self.scores[key].trials else self._phase[key] * takes[key]):
                break
        return key

    # --- what is believed --------------------------------------------------------------------------------------------

    def _believed(self, key: str, prior_s: float) -> float:
        """The mean of what is believed of an arm's rate, a second."""
        score = self.scores[key]
        return (self._shape(key) + score.hits) / (prior_s + score.seconds)

    def _prior_s(self) -> float:
        """The time over which each arm is believed to have shown SHAPE hangs before: all together then hang as often as
        was seen. Half a hang is added, so that there is one."""
        return max(SHAPE * self.seconds / (self.hits + 0.5), GUESS_S * SHAPE)

    def _shape(self, key: str) -> float:
        return SHAPE * self._weights[key] * self._likeness(key)

    def _likeness(self, key: str) -> float:
        """How much more often the arms hang that it has something in common with; 1 before the first hang."""
        if not self.hits:
            return 1.0
        found = 1.0
        for level in self._arms[key].levels:
            score = self._levels[level]
            found *= (score.hits + 1.0) / (score.seconds * self.hits / self.seconds + 1.0)
        return min(max(found, 1.0 / MOST_LIKENESS), MOST_LIKENESS)

    def _takes_s(self, key: str) -> float:
        """How long a trial of that arm is thought to take: as before, or as of its like, but no longer than any yet."""
        own = self.scores[key].takes_s
        if own:
            return own
        if not self._all_times.arms:
            return GUESS_S
        mean = self._all_times.total / self._all_times.arms
        times = [self._times[level] for level in self._arms[key].levels]
        return min(mean * math.prod((one.total + mean) / ((one.arms + 1) * mean) for one in times), self._longest_s)

    def _note_time(self, key: str, before: Score, now: Score) -> None:
        """Each arm counts once in what its like are thought to take, however often it ran."""
        self._longest_s = max(self._longest_s, now.takes_s)
        for times in (self._all_times, *(self._times[level] for level in self._arms[key].levels)):
            times.arms += not before.trials
            times.total += now.takes_s - before.takes_s


class _Times:
    """Mean times of a trial, of several arms."""

    def __init__(self) -> None:
        self.arms = 0
        self.total = 0.0


def _by_way(shares: Mapping[str, float]) -> dict[Way, float]:
    return {way: shares.get(way.value, 0.0) for way in Way}


def _with(score: Score, *, hit: bool, took_s: float) -> Score:
    return Score(hits=score.hits + hit, trials=score.trials + 1, seconds=score.seconds + took_s)
