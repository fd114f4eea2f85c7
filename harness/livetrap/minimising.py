"""Shrinks what hangs: which simpler recipes are tried, in which order, and when one hangs often enough. Pure.

One thing at a time is made simpler, what costs the reader most first: the disturbance, the threads, the placement, the
rounds. A simpler recipe is kept where it still hangs at least at the rate that is the floor; from it the next ones
follow, until none is left that was not tried. One pass proves little, so each is tried until its count can no longer
come out otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from livetrap import disturbances
from livetrap.model import Frozen, Value

SIMPLEST = ("free", "one-core", "spread", "pack")
"""Placements, the simplest first; any other is less simple than these."""
LEAST_TRIALS, MOST_TRIALS = 8, 400
HITS = 8
"""So many hangs are wanted of one that hangs at the floor: fewer say too little of its rate."""
ROUNDS = "rounds"


class Test(Frozen, kw_only=True):
    """Whether a recipe hangs at a rate or above, by trials one after the other."""

    floor: float
    hits: int = 0
    trials: int = 0
    """Conclusive ones."""

    @property
    def most(self) -> int:
        """After so many it is decided."""
        return min(max(math.ceil(HITS / self.floor), LEAST_TRIALS), MOST_TRIALS)

    @property
    def wanted(self) -> int:
        """So many of them must hang."""
        return max(1, math.ceil(self.floor * self.most))

    @property
    def kept(self) -> bool | None:
        """Whether the recipe is kept; None: not yet known."""
        if self.hits >= self.wanted:
            return True
        return False if self.trials - self.hits > self.most - self.wanted else None

    def told(self, *, hit: bool) -> Test:
        """With one more conclusive trial."""
        return Test(floor=self.floor, hits=self.hits + hit, trials=self.trials + 1)


def simpler(cell: Mapping[str, Value], *, rounds: int | None) -> Iterator[tuple[str, dict[str, Value]]]:
    """What is changed and the cell then, for each recipe that is simpler by one thing, the best worth trying first.

    `rounds`: those of the kernel, where they may be changed and are no axis.
    """
    disturbance = str(cell.get("disturbance", "none"))
    for text in _calmer(disturbance):
        yield f"disturbance {disturbance} -> {text}", {**cell, "disturbance": text}
    threads = cell.get("threads")
    if isinstance(threads, int):
        for fewer in dict.fromkeys((2, threads // 2, threads - 1)):
            if 0 < fewer < threads:
                yield f"threads {threads} -> {fewer}", {**cell, "threads": fewer}
    placement = str(cell.get("placement", "free"))
    before = SIMPLEST.index(placement) if placement in SIMPLEST else len(SIMPLEST)
    for name in SIMPLEST[:before]:
        yield f"placement {placement} -> {name}", {**cell, "placement": name}
    given = cell.get(ROUNDS, rounds)
    if isinstance(given, int):
        for fewer in dict.fromkeys((given // 10, given // 2)):
            if fewer > 0:
                yield f"rounds {given} -> {fewer}", {**cell, ROUNDS: fewer}


def _calmer(text: str) -> Iterator[str]:
    """None at all; then without one of several parts; then with half of an amount."""
    parts = disturbances.parse(text).parts
    if not parts:
        return
    yield "none"
    if len(parts) > 1:
        for i in range(len(parts)):
            yield disturbances.Disturbance(parts=parts[:i] + parts[i + 1 :]).text
    for i, part in enumerate(parts):
        if part.amount > 1 and part.kind is disturbances.Kind.HOGS:
            half = disturbances.Part(kind=part.kind, amount=part.amount // 2)
            yield disturbances.Disturbance(parts=(*parts[:i], half, *parts[i + 1 :])).text
