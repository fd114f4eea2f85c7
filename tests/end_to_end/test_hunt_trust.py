"""How soon a hunt meets the first hang of a rare one, against an even sweep and against the default cell alone.

Each strategy gets the same arms, budget and seeds, one after the other, the seeds in turn, so that what else the
machine does falls on all alike. The figures are printed; docs/figures.md has those of one run.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from livetrap import build, campaign, disturb, host, hunting, resources
from livetrap import scenario as scenario_file
from livetrap.hunting import Budget, Hunt
from livetrap.model import PlannedTrial, Record
from livetrap.plan import Options, Plan
from livetrap.preparing import Prepared
from livetrap.store import Store

pytestmark = pytest.mark.soak

SEEDS = 10
BUDGET_S = 90.0
WAYS: dict[str, Mapping[str, float] | None] = {"hunt": None, "sweep": {"sweep": 1.0}, "default": {"default": 1.0}}
RARE: dict[str, Options] = {
    "barrier-reuse": Options(variants=("buggy",)),
    "park-store-buffer": Options(variants=("unplaced",), axes={"rounds": (20,)}),
    "stop-flag-lost-wakeup": Options(variants=("buggy", "seq-cst")),
    "team-size-change": Options(variants=("buggy",)),
}


class Quiet:
    """Hears nothing."""

    def started(self, plan: Plan, /) -> None: ...

    def trial_started(self, trial: PlannedTrial) -> None: ...

    def trial_judged(self, record: Record) -> None: ...

    def trial_finished(self, record: Record) -> None: ...

    def note(self, text: str) -> None: ...


def prepared(name: str, seed: int) -> Prepared:
    loaded = scenario_file.load(
        name,
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=resources.technique_names(),
    )
    disturbed = hunting.default_disturbances(host.topology(), for_kernel=True, lacking=disturb.lacking())
    options = hunting.hunted(loaded, RARE[name], disturbed=disturbed)
    return campaign.prepare(loaded, options=options, cache=build.default_cache(), seed=seed)


def first_s(of: Prepared, shares: Mapping[str, float] | None, store: Store) -> float:
    """Time to the first hang; the budget where there was none."""
    hunt = Hunt(of.plan, budget=Budget(for_s=BUDGET_S, first=True), topology=host.topology(), shares=shares)
    campaign.run(of, store=store, listener=Quiet(), about={"kind": "hunt"}, trials=hunt.trials(), ends=hunt.ends)
    found = hunt.result().first_s
    return BUDGET_S if found is None else found


def series(name: str, folder: Path) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with Store.open(folder / "hunts.db") as store:
        for seed in range(SEEDS):
            of = prepared(name, seed)
            for way, shares in WAYS.items():
                times[way].append(first_s(of, shares, store))
    return times


def table(times: Mapping[str, list[float]]) -> Iterator[str]:
    for way, each in times.items():
        every = " ".join(f"{one:.1f}" for one in sorted(each))
        yield f"{way:8} median {statistics.median(each):6.1f} s  ({every})"


@pytest.mark.parametrize("name", RARE)
def test_a_hunt_is_never_far_from_the_better_one(name: str, tmp_path: Path, capsys: Any) -> None:
    times = series(name, tmp_path)
    with capsys.disabled():
        print(f"\n{name}: time to the first hang, {SEEDS} seeds", *table(times), sep="\n  ")
    better = min(statistics.median(times["sweep"]), statistics.median(times["default"]))
    assert statistics.median(times["hunt"]) <= 1.5 * better + 1.0  # a trial may take a second
