"""Runs the corpus, scenario by scenario, into one database, as a calibration of the harness on this machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from livetrap import campaign
from livetrap.calibration import Member
from livetrap.errors import HarnessError
from livetrap.model import Frozen, Record
from livetrap.plan import Options, Plan
from livetrap.preparing import Prepared
from livetrap.sampling import quick
from livetrap.scenario_model import Scenario
from livetrap.store import Store


class Corpus(Frozen, kw_only=True):
    """Scenarios that are ready to run, in the order in which they do."""

    scenarios: tuple[Prepared, ...]
    skipped: dict[str, str] = {}
    """Scenarios that this machine cannot run, and why."""

    @property
    def trials(self) -> int:
        """Trials planned, in all."""
        return sum(len(one.plan.trials) for one in self.scenarios)


def prepare(
    scenarios: Sequence[Scenario],
    *,
    seed: int,
    cache: Path,
    sample: bool = False,
    note: Callable[[str], None] = lambda _text: None,
) -> Corpus:
    """Plans and builds all scenarios before the first of them runs; `sample`: see `sampling.quick`.

    What this machine lacks for a scenario has that skipped. Raises HarnessError for anything else that is wrong with
    one, and where none is left.
    """
    ready: list[Prepared] = []
    failures: dict[str, HarnessError] = {}
    for scenario in scenarios:
        try:
            one = campaign.prepare(
                scenario,
                options=Options(seed=seed),
                cache=cache,
                seed=seed,
                note=note,
                select=quick if sample else lambda plan: plan,
            )
        except HarnessError as error:
            if error.status != 3:
                raise
            failures[scenario.name] = error
        else:
            ready.append(one)
    if not ready and failures:
        raise next(iter(failures.values()))
    return Corpus(scenarios=tuple(ready), skipped={name: str(error) for name, error in failures.items()})


def members(corpus: Corpus, records: Sequence[Sequence[Record]]) -> tuple[Member, ...]:
    """All scenarios with the trials that have ended; those of the last may be missing."""
    pairs = itertools.zip_longest(corpus.scenarios, records, fillvalue=())
    return tuple(Member(plan=one.plan, records=tuple(own)) for one, own in pairs if isinstance(one, Prepared))


def run(corpus: Corpus, *, store: Store, listener: campaign.Listener[Plan], command: str) -> None:
    """Runs all scenarios, each as a campaign of its own in the one database. Raises as `campaign.run` does."""
    for one in corpus.scenarios:
        campaign.run(one, store=store, listener=listener, command=command)
