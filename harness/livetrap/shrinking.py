"""Carries out a shrinking: plans each simpler recipe, runs it as a part of the hunt's campaign, keeps what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from livetrap import campaign, hunting, minimising
from livetrap.errors import HarnessError
from livetrap.hunting import Tried
from livetrap.minimising import Test
from livetrap.model import UNCOUNTED, Frozen, PlannedTrial, Record, Value
from livetrap.plan import Options, Plan
from livetrap.preparing import Prepared
from livetrap.scenario_model import Scenario, parameters_of
from livetrap.seeds import derived
from livetrap.store import Store

SPARE = 2
"""Trials are planned so many times over: those without a conclusion are made up for."""
EXTRA_AXES = ("align", "disturbance", "rounds")


class Tries(Frozen, kw_only=True):
    """One simpler recipe that was tried."""

    change: str
    cell: dict[str, Value]
    hits: int
    trials: int
    kept: bool


class Shrunk(Frozen, kw_only=True):
    """What a shrinking came to."""

    recipe: Tried
    """The simplest that hangs at the floor or above; where nothing simpler does, the one that it began with."""
    floor: float
    tries: tuple[Tries, ...] = ()
    ended_early: bool = False
    """The time was over before all were tried."""


class Shrinking:
    """One shrinking; `result` has what there is by now, also after an interruption."""

    def __init__(
        self,
        scenario: Scenario,
        start: Tried,
        *,
        options: Options,
        seed: int,
        floor: float,
        cache: Path,
        for_s: float,
    ) -> None:
        self._scenario = scenario
        self._options = options
        self._seed = derived(seed, "shrinking") % (1 << 32)
        self._cache = cache
        self._until = time.monotonic() + for_s
        self.result = Shrunk(recipe=start, floor=floor)

    def run(self, *, store: Store, listener: campaign.Listener[Plan], command: str) -> None:
        """Shrinks until nothing simpler is left to try, or the time is over. Raises as `campaign.run` does."""
        refused: set[str] = set()
        while True:
            current = self.result.recipe
            for change, cell in minimising.simpler(current.cell, rounds=self._rounds(current)):
                if change in refused:
                    continue
                if time.monotonic() >= self._until:
                    self.result = msgspec.structs.replace(self.result, ended_early=True)
                    return
                if self._try(change, cell, store=store, listener=listener, command=command):
                    break
                refused.add(change)
            else:
                return

    def _rounds(self, tried: Tried) -> int | None:
        """The kernel's rounds, where a command line can change them."""
        variants = self._scenario.variants
        if minimising.ROUNDS in variants[tried.variant].parameters or not self._scenario.target.kernel_name:
            return None
        value = parameters_of(self._scenario, variants[tried.variant]).get(minimising.ROUNDS)
        return value if isinstance(value, int) else None

    def _try(
        self,
        change: str,
        cell: dict[str, Value],
        *,
        store: Store,
        listener: campaign.Listener[Plan],
        command: str,
    ) -> bool:
        test = Test(floor=self.result.floor)
        try:
            prepared = self._prepared(cell, trials=test.most * SPARE)
        except HarnessError as error:
            if error.status != 2:
                raise
            return False  # the scenario, or its kernel, does not have such a cell
        if any(trial.skip for trial in prepared.plan.trials) or not prepared.plan.trials:
            return False
        judge = _Judge(test, until=lambda: time.monotonic() >= self._until)
        began = time.monotonic()
        campaign.run(
            prepared,
            store=store,
            listener=listener,
            command=command,
            goes_on=store.current,
            trials=_renumbered(prepared.plan.trials, len(self.result.tries)),
            ends=judge.ends,
        )
        took_s, test = time.monotonic() - began, judge.test
        kept = bool(test.kept)
        entry = Tries(change=change, cell=cell, hits=test.hits, trials=test.trials, kept=kept)
        self.result = msgspec.structs.replace(
            self.result, tries=(*self.result.tries, entry), ended_early=self.result.ended_early or test.kept is None
        )
        if kept:
            first = prepared.plan.trials[0]
            recipe = Tried(
                key=first.cell_key,
                variant=first.variant,
                cell=cell,
                hits=test.hits,
                trials=test.trials,
                seconds=took_s,
            )
            self.result = msgspec.structs.replace(self.result, recipe=recipe)
        return kept

    def _prepared(self, cell: dict[str, Value], *, trials: int) -> Prepared:
        options = options_of(cell, self._options, variant=self.result.recipe.variant, kernel=self._is_kernel)
        return campaign.prepare(
            self._scenario,
            options=msgspec.structs.replace(options, trials=trials, seed=self._seed),
            cache=self._cache,
            seed=self._seed,
        )

    @property
    def _is_kernel(self) -> bool:
        return not self._scenario.target.command


class _Judge:
    """Tells a test of each record."""

    def __init__(self, test: Test, *, until: Callable[[], bool]) -> None:
        self.test = test
        self._until = until

    def ends(self, record: Record) -> bool:
        if record.verdict not in UNCOUNTED:
            self.test = self.test.told(hit=hunting.is_hit(record))
        return self.test.kept is not None or self._until()


def options_of(cell: dict[str, Value], options: Options, *, variant: str, kernel: bool) -> Options:
    """The options that leave one cell, but for the number of trials."""
    own = ("threads", "placement", "technique", "flags", "compiler") if kernel else ("placement",)
    values: dict[str, tuple[Value, ...]] = {name: (value,) for name, value in cell.items() if name in own}
    others: dict[str, tuple[Value, ...]] = {name: (value,) for name, value in cell.items() if name not in own}
    return Options(
        **values,  # type: ignore[arg-type]
        axes=others,
        variants=(variant,),
        timeout_s=options.timeout_s,
    )


def _renumbered(trials: tuple[PlannedTrial, ...], number: int) -> Iterator[PlannedTrial]:
    """Ordinals of their own: the campaign has those of the hunt, and of the recipes before."""
    first = (number + 1) * 1_000_000
    return (msgspec.structs.replace(trial, ordinal=first + trial.ordinal) for trial in trials)
