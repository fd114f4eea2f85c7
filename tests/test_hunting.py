"""A hunt: which cells it has, which trials it gives, what it learns from their records, and the recipe it tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from livetrap import hunting
from livetrap.errors import HarnessError
from livetrap.hunting import Budget, Hunt, Result, Tried
from livetrap.model import PlannedTrial, VariantRole, Verdict
from livetrap.plan import Options, Plan, plan
from livetrap.seeds import trial_seed
from tests.test_expectations import record
from tests.test_plan import BOTH, MANIFEST, SPIN, scenario
from tests.test_topology import APPLE, VM, read

DISTURBED = ("none", "hogs:2", "migrate")


def planned(text: str = SPIN, **options: Any) -> Plan:
    """The plan of a hunt, on two CPUs."""
    loaded = scenario(text)
    asked = hunting.hunted(loaded, Options(**options), disturbed=DISTURBED)
    return plan(loaded, options=asked, topology=read(VM), compilers=BOTH, manifest=MANIFEST, seed=7)


class Clock:
    """Each trial takes a second, told when it is asked after."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def hunted(
    of: Plan, hangs: Callable[[PlannedTrial], bool | None], **budget: Any
) -> tuple[list[PlannedTrial], Hunt, Result]:
    """The trials of a hunt in which those that `hangs` tells of hang; None: no conclusion."""
    clock = Clock()
    hunt = Hunt(of, budget=Budget(**budget), topology=read(VM), clock=clock)
    given = []
    for trial in hunt.trials():
        given.append(trial)
        clock.now += 1.0
        verdict = {True: Verdict.LIVELOCK, False: Verdict.PASSED, None: Verdict.INCONCLUSIVE}[hangs(trial)]
        if hunt.ends(record(trial, verdict)):
            break
    return given, hunt, hunt.result()


# --- what is hunted --------------------------------------------------------------------------------------------------


def test_the_buggy_variants_each_cell_under_each_disturbance() -> None:
    of = planned()
    assert {trial.variant for trial in of.trials} == {"buggy"}
    assert {trial.cell["disturbance"] for trial in of.trials} == set(DISTURBED)
    assert len(of.trials) == len({trial.cell_key for trial in of.trials}) == 3 * 2 * 2 * 2 * 2 * 3


def test_variants_and_disturbances_that_are_named() -> None:
    of = planned(variants=("fixed",), axes={"disturbance": ("pause",)})
    assert {(trial.variant, trial.disturbance) for trial in of.trials} == {("fixed", "pause")}


def test_widened_ones_where_there_is_no_buggy_one() -> None:
    text = SPIN.replace('role = "buggy"', 'role = "widened"')
    assert {trial.variant for trial in planned(text).trials} == {"buggy"}


def test_nothing_to_hunt() -> None:
    with pytest.raises(HarnessError, match="spin: has no buggy variant to hunt; name one with --variant"):
        planned(SPIN.replace('role = "buggy"', 'role = "fixed"'))


def test_the_disturbances_of_a_scenario_are_kept() -> None:
    text = SPIN.replace('compiler = ["gcc", "clang"]', 'compiler = ["gcc"]\ndisturbance = ["none", "hogs:7"]')
    assert {trial.cell["disturbance"] for trial in planned(text).trials} == {"none", "hogs:7", "hogs:2", "migrate"}


def test_the_disturbances_that_a_machine_has() -> None:
    def here(machine: Any, *, for_kernel: bool = True, **lacking: str) -> tuple[str, ...]:
        return hunting.default_disturbances(read(machine), for_kernel=for_kernel, lacking=lacking)

    assert here(VM) == ("none", "hogs:2", "migrate", "pause", "jitter")
    assert here(VM, for_kernel=False, pause="not here") == ("none", "hogs:2", "migrate")
    assert "migrate" not in here(APPLE)


def test_what_is_known_beforehand() -> None:
    of = planned()
    weighed = hunting.weights(of)
    weights = {
        (trial.cell["threads"], trial.cell["flags"], trial.cell["placement"]): weighed[trial.cell_key]
        for trial in of.trials
    }
    assert weights[4, "-O2", "free"] == weights[2, "-O2", "one-core"] == 1.0
    assert weights[4, "-O0", "free"] == 0.0  # it is expected to pass
    assert 0.0 < weights[1, "-O2", "free"] < 1.0


def test_the_default_cell() -> None:
    of = planned()
    key = hunting.default_of(of.trials, of, hunting.weights(of))
    cell = next(trial.cell for trial in of.trials if trial.cell_key == key)
    assert cell["threads"] == 2
    assert (cell["flags"], cell["placement"], cell["disturbance"], cell["compiler"]) == ("-O2", "free", "none", "gcc")


@pytest.mark.parametrize(
    ("verdict", "expected", "hit"),
    [
        (Verdict.LIVELOCK, (Verdict.PASSED,), True),
        (Verdict.DEADLOCK, (Verdict.LIVELOCK,), True),
        (Verdict.CORRUPT, (Verdict.LIVELOCK, Verdict.CORRUPT), True),
        (Verdict.CORRUPT, (Verdict.LIVELOCK,), False),
        (Verdict.CRASHED, (), False),
        (Verdict.SLOW, (Verdict.SLOW,), False),
        (Verdict.PASSED, (Verdict.PASSED,), False),
    ],
)
def test_what_counts_as_a_hang(verdict: Verdict, expected: tuple[Verdict, ...], hit: bool) -> None:
    told = msgspec.structs.replace(record(planned().trials[0], verdict), expected=expected, role=VariantRole.BUGGY)
    assert hunting.is_hit(told) is hit


# --- the hunt --------------------------------------------------------------------------------------------------------


def test_trials_are_numbered_and_each_has_the_seed_of_its_repetition() -> None:
    of = planned(threads=(2,), flags=("-O2",), compiler=("gcc",), placement=("free", "one-core"))
    given, _, result = hunted(of, lambda _trial: False, for_s=None, trials=100)
    assert [trial.ordinal for trial in given] == list(range(100))
    assert result.ran == result.conclusive == 100
    seen: dict[str, int] = {}
    for trial in given:
        repetition = seen.setdefault(trial.cell_key, 0)
        assert trial.seed == trial_seed(7, repetition, trial.cell_key)
        seen[trial.cell_key] += 1
    assert len({(trial.cell_key, trial.seed) for trial in given}) == 100


def test_a_repetition_is_that_of_the_plan() -> None:
    """Placements by lot too."""
    loaded = scenario(SPIN)
    options = Options(variants=("buggy",), placement=("random", "free"), trials=9)
    of = plan(loaded, options=options, topology=read(VM), compilers=BOTH, manifest=MANIFEST, seed=7)
    by_cell: dict[str, list[PlannedTrial]] = {}
    for trial in of.trials:
        by_cell.setdefault(trial.cell_key, []).append(trial)
    for trials in by_cell.values():
        for repetition, trial in enumerate(trials):
            again = hunting.repeated(trials[0], seed=7, repetition=repetition, topology=read(VM))
            assert msgspec.structs.replace(again, ordinal=trial.ordinal) == trial


def test_the_time_ends_it() -> None:
    given, _, result = hunted(planned(), lambda _trial: False, for_s=30.0)
    assert len(given) == 30
    assert (result.hits, result.first_s, result.best, result.status) == (0, None, None, 1)


def test_the_first_hang_ends_it_where_asked() -> None:
    given, _, result = hunted(planned(), lambda trial: trial.ordinal == 4, first=True)
    assert len(given) == result.first_trial == 5
    assert result.first_s == 5.0
    assert result.first is not None
    assert result.first.verdict is Verdict.LIVELOCK
    assert result.status == 0


def test_the_best_cell_is_measured_at_the_end() -> None:
    """Its rate is that of trials after it was chosen, all of them its own."""

    def hangs(trial: PlannedTrial) -> bool:
        return trial.cell["placement"] == "one-core" and trial.disturbance == "migrate" and trial.seed % 2 == 0

    given, _, result = hunted(planned(threads=(2,), flags=("-O2",)), hangs, for_s=400.0)
    assert result.best is not None
    assert (result.best.cell["placement"], result.best.cell["disturbance"]) == ("one-core", "migrate")
    own = given[-result.measured_trials :]
    assert {trial.cell_key for trial in own} == {result.best.key}
    assert result.measured_hits == sum(map(hangs, own)) > 0


def test_a_hang_at_the_very_end_is_not_measured() -> None:
    _, _, result = hunted(planned(), lambda trial: trial.ordinal == 29, for_s=30.0)
    assert (result.hits, result.measured_trials, result.status) == (1, 0, 0)
    assert result.best is not None


def test_nothing_conclusive() -> None:
    given, _, result = hunted(planned(threads=(2,), flags=("-O2",)), lambda _trial: None, for_s=1000.0)
    assert result.status == 3
    assert len(given) < 200  # cells without a conclusion are given up


def test_cells_that_cannot_run_here() -> None:
    loaded = scenario(SPIN)
    asked = hunting.hunted(loaded, Options(), disturbed=("none",))
    of = plan(loaded, options=asked, topology=read(APPLE), compilers=BOTH, manifest=MANIFEST, seed=7)
    given, hunt, _ = hunted(of, lambda _trial: False, for_s=50.0)
    assert "one-core" not in {trial.cell["placement"] for trial in given}
    assert any("one-core" in reason for reason in hunt.skipped.values())


def test_no_cell_can_run_here() -> None:
    of = planned()
    of = msgspec.structs.replace(of, trials=tuple(msgspec.structs.replace(one, skip="no") for one in of.trials))
    given, _, result = hunted(of, lambda _trial: True)
    assert given == []
    assert result.status == 3


# --- the recipe ------------------------------------------------------------------------------------------------------


def recipe(cell: dict[str, Any], text: str = SPIN) -> list[str]:
    tried = Tried(key="", variant="buggy", cell=cell, hits=1, trials=2, seconds=1.0)
    return list(hunting.recipe("spin", scenario(text), tried, trials=9, timeout_s=None))


def test_the_recipe_names_what_varies() -> None:
    cell = {"threads": 2, "placement": "free", "flags": "-O2 -g", "compiler": "gcc", "align": "spin", "body": "empty"}
    found = recipe({**cell, "disturbance": "hogs:2"})
    assert found[:5] == ["livetrap", "run", "spin", "--variant", "buggy"]
    assert found[5:-2] == [
        *("--threads", "2", "--placement", "free", "--flags=-O2 -g", "--compiler", "gcc"),
        *("--axis", "body=empty", "--axis", "disturbance=hogs:2"),
    ]
    assert found[-2:] == ["--trials", "9"]
    assert "disturbance" not in " ".join(recipe({**cell, "disturbance": "none"}))


def test_the_recipe_is_that_cell_alone() -> None:
    of = planned()
    for trial in of.trials[::17]:
        words = recipe(trial.cell)
        given: dict[str, list[str]] = {}
        rest = iter(
            [part for word in words[3:] for part in (word.split("=", 1) if word.startswith("--flags") else [word])]
        )
        for name in rest:
            given.setdefault(name.removeprefix("--"), []).append(next(rest))
        options = Options(
            variants=tuple(given["variant"]),
            threads=tuple(map(int, given["threads"])),
            placement=tuple(given["placement"]),
            flags=tuple(given["flags"]),
            compiler=tuple(given["compiler"]),
            axes={name: (value,) for name, _, value in (axis.partition("=") for axis in given["axis"])},
            trials=int(given["trials"][0]),
        )
        again = plan(
            scenario(SPIN), options=options, topology=read(VM), compilers=BOTH, manifest=MANIFEST, seed=1
        ).trials
        disturbed = {} if trial.disturbance else {"disturbance": "none"}
        assert len(again) == 9
        assert {**again[0].cell, **disturbed} == trial.cell
