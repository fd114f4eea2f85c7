"""Searches a space for a trial that shows a bug, by hypothesis, which then makes it simple. Needs the extra `fuzz`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import hypothesis

from livetrap.errors import HarnessError
from livetrap.fuzzing import Memory, Space, Trial, is_bug
from livetrap.model import UNCOUNTED, Frozen, Record, Verdict
from livetrap.strategies import Kept, drawn, unhurried

MOST_EXAMPLES = 100_000
MOST_REPLAYED = 10
"""So many trials of earlier searches are replayed, the simplest."""

Attempt = Callable[[Trial, int], Sequence[Record]]
"""Runs a trial at most so many times, until it shows a bug."""


class Found(Frozen, kw_only=True):
    """What a search came to, finished or not."""

    trial: Trial | None = None
    """The simplest that showed a bug; None: none did."""
    record: Record | None = None
    """That bug."""
    repeats: int = 0
    """How many trials it took of that one until it did."""
    first: Trial | None = None
    """The one that did first."""
    first_s: float | None = None
    """When, in seconds from the beginning."""
    replayed: bool = False
    """It was found in an earlier search."""
    examples: int = 0
    """Different trials that were run, each once or more."""
    trials: int = 0
    conclusive: int = 0
    errors: int = 0
    ended_early: bool = False
    """The time was over before it was as simple as can be."""


class Falsifier:
    """One search; `result` has what there is by now, also after an interruption."""

    def __init__(
        self,
        space: Space,
        attempt: Attempt,
        *,
        seed: int,
        for_s: float | None,
        most: int | None,
        kept: Kept | None = None,
        fresh: bool = False,
        shrinks: Callable[[Record], None] = lambda _record: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`for_s`: how long it may take to the first bug, and again to make that simple; `most` different trials;
        `kept`: what was found before, which is replayed unless `fresh`, and kept up to date; `shrinks` is told of the
        first bug that is about to be made simple.
        """
        self._space = space
        self._attempt = attempt
        self._seed = seed
        self._for_s = for_s
        self._most = most
        self._kept = kept
        self._fresh = fresh
        self._shrinks = shrinks
        self._clock = clock
        self._began = clock()
        self._until = self._began + for_s if for_s is not None else float("inf")
        self._known = kept.keys() if kept is not None else set()
        self._memory = Memory(known=self._known, forget=kept.drop if kept is not None else _nothing)
        self._refused: HarnessError | None = None
        self._failure: HarnessError | None = None
        self.result = Found()

    def run(self) -> Found:
        """Replays what was found before; where that is well now, or is nothing, searches, and makes simple.

        Raises HarnessError where trials could not be run, or the scenario has none of those that were drawn.
        """
        try:
            if self._fresh or not self._replay():
                self._search()
        finally:
            if self._kept is not None and self.result.trial is not None:
                self._kept.add(self.result.trial.key)
        if self._failure is not None:
            raise self._failure
        if not self.result.trials and self._refused is not None:
            raise self._refused
        return self.result

    def _with(self, **changes: object) -> Found:
        fields = {name: getattr(self.result, name) for name in Found.__struct_fields__}
        return Found(**{**fields, **changes})

    def _replay(self) -> bool:
        """Whether one of those that were found before shows a bug again."""
        for trial in self._space.kept(self._known)[:MOST_REPLAYED]:
            if self._over():
                return False
            if any(map(is_bug, self._run(trial))):
                self.result = self._with(replayed=True)
                return True
        return False

    def _search(self) -> None:
        settings = hypothesis.settings(
            unhurried,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            max_examples=self._most or MOST_EXAMPLES,
            database=None,
            verbosity=hypothesis.Verbosity.quiet,
            print_blob=False,
            derandomize=False,
        )
        state = random.getstate()
        try:
            trial = hypothesis.find(
                drawn(lambda: (self._space, None)),
                self._shows_bug,
                settings=settings,
                random=random.Random(self._seed),
            )
        except (_Over, hypothesis.errors.NoSuchExample, hypothesis.errors.Unsatisfiable):
            return  # none shows a bug; or all was rejected
        finally:
            random.setstate(state)
        records = self._memory.seen(trial)
        self.result = self._with(trial=trial, record=records[-1], repeats=len(records))

    def _shows_bug(self, trial: Trial) -> bool:
        """Whether the trial shows a bug, now or when it was last run."""
        records = self._memory.seen(trial)
        if not records:
            if self._over():
                if self.result.first is None:
                    raise _Over
                return False
            records = tuple(self._run(trial))
        if all(record.verdict in UNCOUNTED for record in records):
            hypothesis.reject()
        return any(map(is_bug, records))

    def _run(self, trial: Trial) -> Sequence[Record]:
        try:
            records = self._attempt(trial, self._memory.repeats(trial))
        except HarnessError as error:
            if error.status == 2:  # the scenario, or its kernel, does not have such a cell
                self._refused = error
            else:
                self._failure = error
            return ()
        self._memory.tell(trial, records)
        found = self.result
        self.result = self._with(
            examples=found.examples + 1,
            trials=found.trials + len(records),
            conclusive=found.conclusive + sum(record.verdict not in UNCOUNTED for record in records),
            errors=found.errors + sum(record.verdict is Verdict.ERROR for record in records),
        )
        if any(map(is_bug, records)):
            if found.first is None:
                self.result = self._with(first=trial, first_s=self._clock() - self._began)
                self._until = self._clock() + self._for_s if self._for_s is not None else float("inf")
                if trial.key not in self._known:
                    self._shrinks(records[-1])
            self.result = self._with(trial=trial, record=records[-1], repeats=len(records))
        return records

    def _over(self) -> bool:
        """No more is run. What hypothesis still asks for passes while it shrinks, so that it comes to its end."""
        if self._clock() < self._until and self._failure is None:
            return False
        if self.result.first is not None and not self.result.ended_early:
            self.result = self._with(ended_early=True)
        return True


class _Over(BaseException):
    """Ends a search: hypothesis lets it pass, as it does Ctrl-C."""


def _nothing(_key: str) -> None:
    """Nothing is kept."""
