"""The fixture `livetrap_run`: a scenario, narrowed, run from a test, and its records to be held against what should be.

def test_my_barrier(livetrap_run):
    livetrap_run("scenarios/my-barrier", variant="fixed", threads=[2, 4], trials=50).expect("passed")
"""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import pytest

from livetrap import api, build, campaign, trying
from livetrap.api import Given
from livetrap.errors import HarnessError
from livetrap.plan import Options
from livetrap.scenario import FILE_NAME
from livetrap.seeds import SEED_BITS
from livetrap.store import Store


class Records(api.Records):
    """The records of a run's trials, in the order in which they ended."""

    def expect(self, *verdicts: str) -> None:
        """Fails the test unless every conclusive trial has one of these verdicts; without any: unless all is as the
        scenario itself expects, rates included.

        Trials that were `skipped` or `inconclusive` do not count. Where all were skipped, so is the test; where none
        was conclusive, or the harness could not run one, it fails.
        """
        __tracebackhide__ = True
        try:
            super().expect(*verdicts)
        except (unittest.SkipTest, api.NotAsExpected) as error:
            problem = error
        else:
            return
        if isinstance(problem, unittest.SkipTest):
            pytest.skip(str(problem))
        pytest.fail(str(problem), pytrace=False)


class RunScenario:
    """What the fixture gives."""

    def __init__(self, folder: Path, scratch: Callable[[], Path]) -> None:
        self._folder = folder
        self._scratch = scratch

    def __call__(
        self,
        where: str | Path,
        *,
        variant: str | Iterable[str] = (),
        trials: int | None = None,
        timeout: float | None = None,
        seed: int | None = None,
        **narrowing: Given,
    ) -> Records:
        """Runs a scenario: a shipped name, or a folder, looked for beside the test first.

        `variant`, `trials` (a cell), `timeout` (seconds a trial) and `seed` as `livetrap run` has them; any other name
        is an axis with a value or several: `threads=2`, `placement=["free", "one-core"]`, `rounds=100`. Fails the test
        for what does not fit, and skips it where this machine cannot run it.
        """
        __tracebackhide__ = True
        try:
            options = api.options(narrowing, variant=variant, trials=trials, timeout_s=timeout, seed=seed)
            return self._run(self._place(where), options)
        except HarnessError as error:
            problem = error
        return _give_up(problem)

    def _place(self, where: str | Path) -> str:
        beside = self._folder / where
        return str(beside) if (beside / FILE_NAME).is_file() or beside.is_file() else str(where)

    def _run(self, where: str, options: Options) -> Records:
        loaded = trying.load(where)
        prepared = campaign.prepare(
            loaded,
            options=options,
            cache=build.default_cache(),
            seed=random.SystemRandom().getrandbits(min(SEED_BITS, 32)),
        )
        file = self._scratch() / f"{loaded.name}.db"
        listener = api.Listener()
        with Store.open(file) as store:
            campaign.run(prepared, store=store, listener=listener, command="livetrap_run")
        return Records(prepared.plan, listener.records, file=file, where=where)


def _give_up(error: HarnessError) -> NoReturn:
    __tracebackhide__ = True
    if error.status == 3:
        pytest.skip(str(error))
    pytest.fail("\n".join(text for text in (str(error), error.detail) if text), pytrace=False)
