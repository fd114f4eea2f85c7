"""From a scenario with a command and options to trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from livetrap.errors import HarnessError
from livetrap.model import NotAvailable, Placement, Value, VariantRole, Verdict
from livetrap.plan import Options, Plan, plan
from livetrap.scenario import parse
from livetrap.seeds import trial_seed
from tests.test_topology import APPLE, VM, read

TEXT = """
schema = 1
name = "mine"
summary = "x"
[target]
command = ["./mine", "{threads}", "{version}", "{mode}", "{seed}", "{folder}"]
environment = { LEVEL = "{level}" }
[target.parameters]
mode = "fast"
level = 1
[budget]
trials = 2
timeout_s = 5.0
[judging]
floor_s = 2.5
[axes]
threads = [1, 3, 16]
version = ["1.0", "2.0"]
[variants.buggy]
role = "buggy"
[variants.fixed]
role = "fixed"
axes = { version = ["3.0"] }
[[expect]]
match = { threads = 1 }
verdicts = ["passed"]
needs = "3 threads or more"
[[expect]]
match = { variant = "buggy" }
verdicts = ["livelock"]
least_rate = 0.5
"""


def made(text: str = TEXT, *, machine: Mapping[str, str] = VM, **options: Any) -> Plan:
    return plan(
        parse(text, path="s.toml", folder="f", kernels=(), techniques=()),
        options=Options(**options),
        topology=read(machine),
        compilers={},
        manifest=None,
        seed=7,
    )


def problem(text: str = TEXT, **options: Any) -> str:
    with pytest.raises(HarnessError) as caught:
        made(text, **options)
    assert caught.value.status == 2
    return str(caught.value)


def values(planned: Plan, axis: str, variant: str = "") -> list[Value | None]:
    seen = [trial.cell.get(axis) for trial in planned.trials if variant in ("", trial.variant)]
    return sorted(set(seen), key=str)


def test_the_full_matrix_needs_no_compiler_and_no_build() -> None:
    planned = made()
    assert len(planned.trials) == 2 * (3 * 2 + 3)
    assert (planned.narrowed, planned.notes) == (False, ())
    assert [trial.threads for trial in planned.trials] == [16] * 6 + [3] * 6 + [1] * 6


def test_a_trial_has_all_that_it_takes() -> None:
    trial = next(trial for trial in made().trials if trial.variant == "fixed" and trial.threads == 3)
    assert trial.cell == {"placement": "free", "threads": 3, "version": "3.0"}
    assert trial.parameters == {"mode": "fast", "level": 1, "threads": 3, "version": "3.0"}
    assert (trial.build, trial.kernel, trial.technique, trial.align) == (None, "", "", "none")
    assert trial.command is not None
    assert trial.command.argv == ("./mine", "3", "3.0", "fast", str(trial.seed), "f")
    assert (trial.command.environment, trial.command.folder) == ({"LEVEL": "1"}, "f")
    assert (trial.role, trial.expected) == (VariantRole.FIXED, (Verdict.PASSED,))
    assert (trial.rules.limit_s, trial.rules.floor_s) == (5.0, 2.5)
    assert trial.seed in {trial_seed(7, repetition, trial.cell_key) for repetition in (0, 1)}


def test_expectations_go_by_the_cell() -> None:
    expected = {(trial.variant, trial.threads): trial.expected for trial in made().trials}
    assert expected["buggy", 1] == (Verdict.PASSED,)
    assert expected["buggy", 16] == (Verdict.LIVELOCK, Verdict.PASSED)


WITHOUT_THREADS = (
    TEXT.replace("threads = [1, 3, 16]\n", "")
    .replace('"{threads}", ', "")
    .replace("match = { threads = 1 }", 'match = { version = "2.0" }')
)


def test_without_threads_it_is_one() -> None:
    assert {trial.threads for trial in made(WITHOUT_THREADS).trials} == {1}


def test_threads_that_do_not_vary() -> None:
    text = TEXT.replace("threads = [1, 3, 16]\n", "").replace("level = 1\n", "level = 1\nthreads = 5\n")
    text = text.replace("match = { threads = 1 }", 'match = { version = "2.0" }')
    assert {trial.threads for trial in made(text).trials} == {5}


@pytest.mark.parametrize(
    ("placement", "cpus"), [("free", 0), ("one-core", 1), ("random", 1), ("confined:1", 1), ("confined:2", 2)]
)
def test_a_placement_is_of_the_whole_process(placement: str, cpus: int) -> None:
    trial = made(placement=(placement,), threads=(16,)).trials[0]
    assert isinstance(trial.placement, Placement)
    assert [len(each) for each in trial.placement.cpus] == ([cpus] if cpus else [])
    assert trial.skip == ""


@pytest.mark.parametrize("placement", ["spread", "pack", "mixed", "performance"])
def test_threads_of_a_command_are_not_placed_one_by_one(placement: str) -> None:
    trial = made(placement=(placement,)).trials[0]
    assert isinstance(trial.placement, NotAvailable)
    assert trial.skip == f"{placement}: the threads of a command cannot be placed one by one"


def test_where_nothing_can_be_pinned() -> None:
    assert "macOS does not offer" in made(placement=("one-core",), machine=APPLE).trials[0].skip


def test_narrowed() -> None:
    planned = made(threads=(3,), axes={"version": ("2.0", "3.0")})
    assert (values(planned, "threads"), values(planned, "version", "buggy")) == ([3], ["2.0"])
    assert planned.narrowed
    assert any(note.startswith("narrowed: threads 3 instead of 1, 3, 16") for note in planned.notes)
    assert {trial.seed for trial in planned.trials} <= {trial.seed for trial in made().trials}


def test_changed_and_added() -> None:
    planned = made(axes={"mode": ("slow", "2"), "level": ("7",), "disturbance": ("none", "hogs:2")})
    assert values(planned, "mode") == ["2", "slow"]
    assert values(planned, "level") == [7]
    assert {trial.disturbance for trial in planned.trials} == {"", "hogs:2"}
    assert values(planned, "disturbance") == ["hogs:2", "none"]
    assert {trial.parameters["level"] for trial in planned.trials} == {7}
    assert all("disturbance" not in trial.parameters for trial in planned.trials)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flags": ("-O2",)}, "mine: runs a command, which has no flags to choose"),
        ({"compiler": ("gcc",)}, "mine: runs a command, which has no compiler"),
        ({"technique": ("raw_spin",)}, "mine: runs a command, which has no technique"),
        ({"axes": {"align": ("spin",)}}, "mine: runs a command, which has no align"),
        ({"axes": {"vresion": ("1.0",)}}, "unknown axis 'vresion'; did you mean 'version'?"),
        ({"axes": {"level": ("high",)}}, "level 'high': must be a whole number"),
        ({"axes": {"disturbance": ("hog",)}}, "disturbance unknown disturbance 'hog'"),
        ({"threads": (0,)}, "--threads 0: must be from 1"),
        ({"placement": ("nowhere",)}, "--placement unknown placement"),
        ({"variants": ("bugy",)}, "unknown variant 'bugy'; did you mean 'buggy'?"),
        ({"trials": 100_000}, "more than 100000 trials"),
        ({"timeout_s": 0.0}, "--timeout 0: must be"),
    ],
)
def test_options_that_fit_nothing(options: dict[str, Any], message: str) -> None:
    assert message in problem(**options)


def test_threads_where_the_command_has_none() -> None:
    assert "mine: runs a command, which has no threads to choose; known: disturbance, level, mode," in problem(
        WITHOUT_THREADS, threads=(2,)
    )
