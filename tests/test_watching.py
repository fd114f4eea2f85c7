"""The plan of a watch: cells, rounds, seeds, CPUs of jobs, and what its verdicts come to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from livetrap import watching
from livetrap.errors import HarnessError
from livetrap.model import Cpu, NotAvailable, Placement, Rules, Topology, Value, VariantRole, Verdict
from livetrap.watching import Options, Watch


def machine(cores: int, *, siblings: int = 1, affinity: bool = True) -> Topology:
    cpus = tuple(
        Cpu(id=sibling * cores + core, core=core, package=0) for core in range(cores) for sibling in range(siblings)
    )
    return Topology(os="linux", arch="x86_64", cpus=cpus, affinity=affinity)


def planned(
    *, topology: Topology | None = None, unavailable: Mapping[str, str] | None = None, **given: object
) -> Watch:
    options = Options(**{"command": ("./a.out",), **given})  # type: ignore[arg-type]
    return watching.plan(options, topology=topology or machine(2), seed=7, unavailable=unavailable)


# --- cells and trials ------------------------------------------------------------------------------------------------


def test_a_matrix_goes_round() -> None:
    watch = planned(
        command=("/opt/bin/prog", "-t", "{threads}", "{{x}}"),
        environment={"N": (2, 4), "MODE": ("fast",)},
        parameters={"threads": (1, 2)},
        placements=("free",),
        trials=2,
    )
    trials = list(watching.trials(watch))
    assert watch.name == "prog"
    assert watch.total == len(trials) == 8
    assert [trial.ordinal for trial in trials] == list(range(8))
    first: dict[str, Value] = {"N": 2, "MODE": "fast", "threads": 1, "placement": "free"}
    assert trials[0].cell == first
    assert [trial.cell for trial in trials[:4]] == [trial.cell for trial in trials[4:]]
    assert len({trial.cell_key for trial in trials[:4]}) == 4
    command = trials[1].command
    assert command is not None
    assert command.argv == ("/opt/bin/prog", "-t", "2", "{x}")
    assert command.environment == {"N": "2", "MODE": "fast"}
    one = trials[1]
    assert (one.scenario, one.variant, one.role, one.expected) == (
        "watch",
        "command",
        VariantRole.WATCHED,
        (Verdict.PASSED,),
    )
    assert one.parameters == {"threads": 2}
    assert one.build is None


def test_seeds_follow_from_cell_and_repetition_alone() -> None:
    wide = {trial.cell_key: trial.seed for trial in watching.trials(planned(environment={"N": (1, 2)}, trials=1))}
    narrow = {trial.cell_key: trial.seed for trial in watching.trials(planned(environment={"N": (2,)}, trials=1))}
    assert narrow.items() <= wide.items()
    again = [trial.seed for trial in watching.trials(planned(trials=3))]
    assert again == [trial.seed for trial in watching.trials(planned(trials=5))][:3]
    assert len(set(again)) == 3
    assert again != [trial.seed for trial in watching.trials(planned(trials=3, seed=8))]


def test_seed_is_a_placeholder_that_needs_no_values() -> None:
    trials = list(watching.trials(planned(command=("a", "--seed={seed}"), trials=2)))
    assert [trial.command and trial.command.argv[1] for trial in trials] == [f"--seed={trial.seed}" for trial in trials]


def test_budget() -> None:
    assert planned().total == watching.TRIALS
    endless = planned(for_s=5.0, environment={"N": (1, 2)})
    assert endless.total is None
    taken = list(itertools.islice(watching.trials(endless), 1001))
    assert [taken[0].cell, taken[1].cell, taken[1000].cell] == [{"N": 1}, {"N": 2}, {"N": 1}]
    assert planned(for_s=5.0, trials=3).total == 3


def test_a_cell_that_cannot_run_comes_once_and_endless_trials_end_without_another() -> None:
    watch = planned(placements=("free", "spread"), trials=3)
    trials = list(watching.trials(watch))
    assert watch.total == len(trials) == 4
    assert [bool(trial.skip) for trial in trials] == [False, True, False, False]
    assert "one by one" in trials[1].skip
    none = planned(disturbances=("quota:50",), for_s=9.0, unavailable={"quota:50": "quota: no cgroup"})
    assert [trial.skip for trial in watching.trials(none)] == ["quota: no cgroup"]


def test_no_disturbance_is_a_cell_of_its_own() -> None:
    trials = list(watching.trials(planned(disturbances=("none", "hogs:2"), trials=1)))
    assert [(trial.cell["disturbance"], trial.disturbance) for trial in trials] == [("none", ""), ("hogs:2", "hogs:2")]


def test_words_without_placeholders_keep_their_braces() -> None:
    words = ("python", "-c", "x = {'a': {'b': 1}}", "awk {print $1}", "{}")
    (trial,) = watching.trials(planned(command=words, trials=1))
    assert trial.command is not None
    assert trial.command.argv == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": ("a", "{threads}")}, "unknown placeholder {threads} in the command; give it values with --param"),
        ({"command": ("a", "{thread}"), "parameters": {"threads": (1,)}}, "did you mean 'threads'"),
        ({"parameters": {"threads": (1,)}}, "--param threads: the command has no {threads}"),
        ({"environment": {name: tuple(range(200)) for name in ("A", "B")}}, "40000 cells"),
    ],
)
def test_bad_plans(given: dict[str, object], words: str) -> None:
    with pytest.raises(HarnessError) as error:
        planned(**given)  # type: ignore[arg-type]
    assert words in str(error.value)
    assert error.value.status == 2


def test_rules() -> None:
    assert planned().rules == Rules(limit_s=60.0)
    rules = planned(timeout_s=30.0, stall_s=0.5, startup_s=2.0).rules
    assert (rules.limit_s, rules.floor_s, rules.silent_floor_s, rules.startup_s) == (30.0, 0.5, 0.5, 2.0)
    assert rules.finishing_floor_s == Rules().finishing_floor_s
    assert planned(stall_s=5.0).rules.finishing_floor_s == 5.0


def test_the_words_that_repeat_a_cell_plan_the_same_trials() -> None:
    watch = planned(
        command=("a", "{p}"), environment={"N": (1, 2)}, parameters={"p": ("x", "y")}, placements=("free",), stall_s=1.0
    )
    words = watching.repeat_words(watch, watch.cells[3])
    assert " ".join(words) == (
        "livetrap watch --seed 7 --timeout 60 --env N=2 --param p=y --placement free --stall 1 -- a {p}"
    )


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_jobs_share_the_machine_by_cores() -> None:
    shares = watching.shares(machine(4, siblings=2), 3)
    ids = [{cpu.id for cpu in share.cpus} for share in shares]
    assert sorted(cpu for part in ids for cpu in part) == list(range(8))
    assert ids == [{0, 4}, {1, 5}, {2, 6, 3, 7}]
    assert watching.shares(machine(4), 2) == tuple(
        Topology(os="linux", arch="x86_64", cpus=machine(4).cpus[first : first + 2], affinity=True) for first in (0, 2)
    )


@pytest.mark.parametrize(
    ("topology", "jobs"), [(machine(2), 2), (machine(8), 1), (machine(8, affinity=False), 2), (machine(2), 5)]
)
def test_jobs_have_the_whole_machine_where_a_share_would_be_too_small(topology: Topology, jobs: int) -> None:
    assert watching.shares(topology, jobs) == (topology,) * jobs


def test_a_trial_keeps_to_the_share_of_its_job() -> None:
    whole = machine(8)
    share = watching.shares(whole, 2)[1]
    watch = planned(topology=whole, placements=("free", "one-core", "confined:6", "spread"), trials=1)
    free, one, six, spread = (watching.confined(trial, share, whole=whole) for trial in watching.trials(watch))
    assert free.placement == Placement(requested="free", cpus=((4, 5, 6, 7),))
    assert isinstance(one.placement, Placement)
    assert set(one.placement.cpus[0]) <= {4, 5, 6, 7}
    assert isinstance(six.placement, Placement)
    assert len(six.placement.cpus[0]) == 6
    assert isinstance(spread.placement, NotAvailable)
    assert watching.confined(free, whole, whole=whole) is free


# --- what it comes to ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "status", "bisect"),
    [
        ({Verdict.PASSED: 3}, 0, 0),
        ({Verdict.PASSED: 3, Verdict.LIVELOCK: 1}, 1, 1),
        ({Verdict.FAILED: 1, Verdict.INCONCLUSIVE: 1}, 1, 1),
        ({Verdict.CRASHED: 1}, 1, 1),
        ({Verdict.PASSED: 3, Verdict.SLOW: 1}, 3, 125),
        ({Verdict.PASSED: 3, Verdict.WAITING: 1}, 3, 125),
        ({Verdict.PASSED: 3, Verdict.INCONCLUSIVE: 1}, 3, 125),
        ({Verdict.SKIPPED: 1}, 3, 125),
        ({}, 3, 125),
    ],
)
def test_exit_status(verdicts: dict[Verdict, int], status: int, bisect: int) -> None:
    assert watching.exit_status(verdicts) == status
    assert watching.bisect_status(status) == bisect


def test_an_interrupted_bisection_stops() -> None:
    assert watching.bisect_status(130) == 130
    assert watching.bisect_status(2) == 125


def test_a_watch_ends_at_the_first_hang() -> None:
    assert planned().ends_at(Verdict.DEADLOCK)
    assert not planned().ends_at(Verdict.FAILED)
    assert not planned(keep_going=True).ends_at(Verdict.DEADLOCK)
