"""From a scenario and options to trials: what runs, in what order, with which seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from livetrap.errors import HarnessError
from livetrap.model import KernelInfo, Manifest, NotAvailable, ParamInfo, Placement, TechniqueInfo, Value, Verdict
from livetrap.plan import Options, Plan, arguments, plan
from livetrap.scenario import parse
from livetrap.scenario_model import Scenario
from tests.test_topology import APPLE, SERVER, VM, read

FLAG = KernelInfo(
    name="flag_handoff",
    params={
        "flag": ParamInfo(name="flag", choices=("plain", "acquire"), most=1),
        "body": ParamInfo(name="body", choices=("empty", "volatile_counter", "yield"), most=2),
        "moment": ParamInfo(name="moment", choices=("early", "late"), most=1),
        "delay_us": ParamInfo(name="delay_us", least=0, most=1000, fallback=20),
    },
)
BARRIER = KernelInfo(name="barrier_rounds", uses_technique=True)
MANIFEST = Manifest(
    kernels={"flag_handoff": FLAG, "barrier_rounds": BARRIER},
    techniques={
        "raw_spin": TechniqueInfo(name="raw_spin"),
        "acquire_yield": TechniqueInfo(name="acquire_yield"),
        "acquire_spin": TechniqueInfo(name="acquire_spin"),
        "futex_wait": TechniqueInfo(name="futex_wait", unavailable="needs macOS 14.4"),
    },
)
BOTH = {"gcc": "12.2.0", "clang": "14.0.6"}
SPIN = """
schema = 1
name = "spin"
summary = "x"
[target]
kernel = "flag_handoff"
parameters = { moment = "late" }
[budget]
trials = 2
timeout_s = 5.0
[judging]
floor_s = 0.3
[axes]
threads = [1, 2, 4]
placement = ["free", "one-core"]
flags = ["-O0", "-O2"]
compiler = ["gcc", "clang"]
[variants.buggy]
role = "buggy"
parameters = { flag = "plain" }
axes = { body = ["empty", "volatile_counter"] }
[variants.fixed]
role = "fixed"
trials = 3
parameters = { flag = "acquire", body = "yield" }
[[expect]]
match = { variant = "buggy", flags = "-O0" }
verdicts = ["passed"]
[[expect]]
match = { variant = "buggy", compiler = "clang", os = "linux" }
verdicts = ["livelock", "corrupt"]
"""
TEAM = """
schema = 1
name = "team"
summary = "x"
[target]
kernel = "barrier_rounds"
[variants.buggy]
role = "buggy"
axes = { technique = ["raw_spin"] }
[variants.fixed]
role = "fixed"
axes = { technique = ["acquire_yield", "futex_wait"] }
"""


def scenario(text: str) -> Scenario:
    return parse(text, path="s.toml", folder="f", kernels=list(MANIFEST.kernels), techniques=list(MANIFEST.techniques))


def made(
    text: str = SPIN, *, machine: Mapping[str, str] = VM, compilers: Mapping[str, str] = BOTH, **options: Any
) -> Plan:
    return plan(
        scenario(text),
        options=Options(**options),
        topology=read(machine),
        compilers=compilers,
        manifest=MANIFEST,
        seed=7,
    )


def problem(text: str = SPIN, **options: Any) -> str:
    with pytest.raises(HarnessError) as caught:
        made(text, **options)
    return str(caught.value)


def values(planned: Plan, axis: str, variant: str = "") -> set[Value | None]:
    return {trial.cell.get(axis) for trial in planned.trials if variant in ("", trial.variant)}


def test_the_full_matrix() -> None:
    planned = made()
    assert len(planned.trials) == 3 * 2 * 2 * 2 * (2 * 2 + 3)
    assert len({trial.cell_key for trial in planned.trials}) == 3 * 2 * 2 * 2 * (2 + 1)
    assert [trial.ordinal for trial in planned.trials] == list(range(len(planned.trials)))
    assert (planned.narrowed, planned.notes, planned.seed) == (False, (), 7)
    assert (planned.os, planned.arch) == ("linux", "x86_64")


def test_a_trial_has_all_that_it_takes() -> None:
    trial = next(
        trial
        for trial in made().trials
        if trial.cell
        == {
            "threads": 4,
            "placement": "one-core",
            "flags": "-O2",
            "compiler": "clang",
            "align": "spin",
            "body": "empty",
        }
    )
    assert (trial.scenario, trial.variant, trial.kernel, trial.technique) == ("spin", "buggy", "flag_handoff", "")
    assert trial.parameters == {"moment": "late", "flag": "plain", "body": "empty"}
    assert (trial.build.compiler, trial.build.flags, trial.build.kernel_file) == ("clang", ("-O2",), "")
    assert (trial.threads, trial.align, trial.skip) == (4, "spin", "")
    assert isinstance(trial.placement, Placement)
    assert len(trial.placement.cpus) == 4
    assert (trial.rules.limit_s, trial.rules.floor_s) == (5.0, 0.3)
    assert trial.expected == (Verdict.LIVELOCK, Verdict.CORRUPT)


def test_expectations_know_the_machine() -> None:
    planned = made(machine=APPLE, compilers={"clang": "16"}, flags=("-O2",), variants=("buggy",))
    assert {Verdict.DEADLOCK in trial.expected for trial in planned.trials} == {True}, "no row for macOS: by its role"


def test_widest_first_and_repetitions_apart() -> None:
    trials = made().trials
    widths = [trial.threads for trial in trials]
    assert widths == sorted(widths, reverse=True)
    for threads in (4, 2, 1):
        keys = [trial.cell_key for trial in trials if trial.threads == threads]
        cells = len(set(keys))
        assert len(set(keys[:cells])) == cells, "each cell once before any twice"
        assert keys[:cells] != sorted(keys[:cells]), "shuffled"


def test_the_seed_decides_the_order_and_all_seeds() -> None:
    assert made(seed=3) == made(seed=3)
    first, second = made(seed=3), made(seed=4)
    assert [t.cell_key for t in first.trials] != [t.cell_key for t in second.trials]
    assert not {t.seed for t in first.trials} & {t.seed for t in second.trials}
    assert len({t.seed for t in first.trials}) == len(first.trials)
    assert all(0 < t.seed < 2**53 for t in first.trials)


def test_seeds_are_the_same_on_every_machine_and_in_every_version() -> None:
    trial = made(threads=(2,), placement=("free",), flags=("-O2",), compiler=("gcc",), variants=("fixed",)).trials[0]
    assert trial.cell_key == "fixed align=spin compiler=gcc flags=-O2 placement=free threads=2"
    assert trial.seed == SEED_OF_THAT_CELL


SEED_OF_THAT_CELL = 5938237918187960


def test_narrowing_keeps_each_trials_seed() -> None:
    def seeds(planned: Plan) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for trial in planned.trials:
            found.setdefault(trial.cell_key, set()).add(trial.seed)
        return found

    full = seeds(made())
    narrowed = seeds(made(threads=(2, 4), flags=("-O2",), variants=("buggy",)))
    assert narrowed.items() <= full.items()
    more = seeds(made(trials=9))
    assert all(full[key] <= more[key] for key in full)


def test_options_narrow() -> None:
    planned = made(threads=(4, 2), flags=("-O2",), trials=10, timeout_s=1.5)
    assert planned.narrowed
    assert values(planned, "threads") == {2, 4}
    assert {trial.rules.limit_s for trial in planned.trials} == {1.5}
    assert len(planned.trials) == 2 * 2 * 2 * (2 + 1) * 10
    assert planned.notes == ("narrowed: threads 4, 2 instead of 1, 2, 4", "narrowed: flags -O2 instead of -O0, -O2")


def test_options_change() -> None:
    planned = made(threads=(16,), placement=("spread",), flags=("-O2 -g",))
    assert planned.narrowed
    assert values(planned, "threads") == {16}
    assert planned.notes == (
        "changed: threads 16 instead of 1, 2, 4",
        "changed: placement spread instead of free, one-core",
        "changed: flags -O2 -g instead of -O0, -O2",
    )
    assert {trial.build.flags for trial in planned.trials} == {("-O2", "-g")}


def test_naming_all_values_narrows_nothing() -> None:
    planned = made(threads=(4, 2, 1), variants=("fixed", "buggy"))
    assert (planned.narrowed, planned.notes) == (False, ())


def test_a_further_value_takes_nothing_away() -> None:
    planned = made(threads=(1, 2, 4, 8))
    assert not planned.narrowed
    assert planned.notes == ("changed: threads 1, 2, 4, 8 instead of 1, 2, 4",)


def test_variants_keep_their_own_values() -> None:
    planned = made(TEAM, technique=("acquire_yield",))
    assert values(planned, "technique") == {"acquire_yield"}
    assert {trial.variant for trial in planned.trials} == {"fixed"}
    assert "variant buggy left out: it has no technique acquire_yield" in planned.notes
    assert planned.narrowed


def test_what_a_variant_fixes_stays() -> None:
    planned = made(axes={"body": ("volatile_counter",)})
    assert values(planned, "body", "buggy") == {"volatile_counter"}
    assert {trial.parameters["body"] for trial in planned.trials if trial.variant == "fixed"} == {"yield"}


def test_a_parameter_becomes_an_axis() -> None:
    planned = made(axes={"delay_us": ("5", 10), "moment": ("early",), "align": ("none",)}, flags=("-O2",))
    assert values(planned, "delay_us") == {5, 10}
    assert {trial.parameters["moment"] for trial in planned.trials} == {"early"}
    assert {trial.align for trial in planned.trials} == {"none"}
    assert "changed: delay_us 5, 10" in planned.notes


def test_compilers_that_are_not_here_are_left_out() -> None:
    planned = made(compilers={"gcc": "12"})
    assert values(planned, "compiler") == {"gcc"}
    assert planned.notes == ("no clang on this machine: its cells are left out",)
    assert not planned.narrowed


def test_compilers_asked_for_are_skipped_with_the_reason() -> None:
    planned = made(compilers={"gcc": "12"}, compiler=("clang",))
    assert {trial.skip for trial in planned.trials} == {"no clang on this machine"}
    other = made(compiler=("/opt/bin/gcc-99", "gcc"))
    assert {trial.skip for trial in other.trials} == {"no /opt/bin/gcc-99 on this machine", ""}


def test_an_open_compiler_is_the_first_installed() -> None:
    assert values(made(TEAM), "compiler") == {"gcc"}
    assert values(made(TEAM, compilers={"clang": "16"}), "compiler") == {"clang"}


@pytest.mark.parametrize("text", [SPIN, TEAM])
def test_no_compiler_at_all(text: str) -> None:
    with pytest.raises(HarnessError, match=r"no C compiler: gcc or clang not found; install one") as caught:
        made(text, compilers={})
    assert caught.value.status == 3


def test_what_this_machine_cannot_do_is_skipped() -> None:
    planned = made(machine=APPLE, placement=("one-core",))
    reason = "one-core needs threads pinned to CPUs, which macOS does not offer"
    assert {trial.skip for trial in planned.trials} == {reason}
    assert all(isinstance(trial.placement, NotAvailable) for trial in planned.trials)
    futex = [trial.skip for trial in made(TEAM).trials if trial.technique == "futex_wait"]
    assert set(futex) == {"technique futex_wait: needs macOS 14.4"}


def test_random_placements_differ_by_trial() -> None:
    planned = made(machine=SERVER, placement=("random",), threads=(4,), trials=5)
    assert len({str(trial.placement) for trial in planned.trials}) > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": (0,)}, "--threads 0: must be from 1 to 512"),
        ({"threads": (-1,)}, "--threads -1: must be from 1 to 512"),
        ({"threads": (10**6,)}, "--threads 1000000: must be from 1 to 512"),
        ({"threads": (2, 2)}, "--threads 2 stands twice"),
        ({"placement": ("onecore",)}, "--placement unknown placement 'onecore'; did you mean 'one-core'?"),
        ({"flags": ("-g",)}, "--flags '-g': must name one optimisation level"),
        ({"compiler": ("icc",)}, "compiler unknown compiler 'icc'"),
        ({"technique": ("raw_spin",)}, "kernel flag_handoff waits in its own way; it has no technique"),
        ({"variants": ("bugy",)}, "spin: unknown variant 'bugy'; did you mean 'buggy'?"),
        ({"trials": 0}, "--trials 0: must be from 1"),
        ({"trials": 99_999}, "spin: more than 100000 trials"),
        ({"timeout_s": -1.0}, "--timeout -1: must be from 0.05 to 86400"),
        ({"timeout_s": float("nan")}, "--timeout nan: must be from 0.05 to 86400"),
        ({"seed": -1}, "seed -1: must be from 0 to"),
        ({"axes": {"bdy": ("x",)}}, "unknown axis 'bdy'; did you mean 'body'?"),
        ({"axes": {"body": ("emty",)}}, "body: unknown value 'emty'; did you mean 'empty'?"),
        ({"axes": {"body": ()}}, "body is empty"),
        ({"axes": {"delay_us": ("5000",)}}, "delay_us: 5000 must be from 0 to 1000"),
        ({"axes": {"delay_us": ("soon",)}}, "delay_us: 'soon' must be a whole number from 0 to 1000"),
        ({"axes": {"flag": ("plain",)}}, "spin: every variant fixes 'flag'"),
    ],
)
def test_options_that_fit_nothing(options: dict[str, Any], message: str) -> None:
    assert message in problem(**options)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('flag = "plain"', 'flg = "plain"', "s.toml: variants.buggy.parameters: kernel flag_handoff: unknown"),
        ('flag = "plain"', 'flag = "pln"', "flag: unknown value 'pln'; did you mean 'plain'?"),
        ('["empty", ', '["emty", ', "s.toml: variants.buggy.axes: kernel flag_handoff: body: unknown value 'emty'"),
        ("[axes]", "[axes]\ndelay_us = [-1]", "s.toml: axes: kernel flag_handoff: delay_us: -1 must be from 0 to 1000"),
        ("[axes]", "[axes]\nthreds = [1]", "unknown parameter or axis 'threds'; did you mean 'threads'?"),
        ("[axes]", '[axes]\ntechnique = ["raw_spin"]', "axes.technique: kernel flag_handoff waits in its own way"),
    ],
)
def test_what_the_kernel_does_not_have(old: str, new: str, message: str) -> None:
    assert message in problem(SPIN.replace(old, new, 1))


def test_a_kernel_that_waits_by_a_technique_needs_one() -> None:
    text = TEAM.split("[variants.fixed]", maxsplit=1)[0].replace('axes = { technique = ["raw_spin"] }', "")
    assert "axes.technique: missing; barrier_rounds waits by a technique: raw_spin," in problem(text)


def test_a_scenario_of_another_kernel() -> None:
    text = SPIN.replace('kernel = "flag_handoff"', 'file = "mine.c"').replace('moment = "late"', "")
    assert "the build has no kernel 'mine'" in problem(text)
    own = Manifest(kernels={"mine": KernelInfo(name="mine", params=FLAG.params)})
    planned = plan(scenario(text), options=Options(), topology=read(VM), compilers=BOTH, manifest=own, seed=0)
    assert {trial.build.kernel_file for trial in planned.trials} == {"f/mine.c"}


def test_arguments_are_numbers() -> None:
    assert arguments({"body": "yield", "delay_us": 9}, FLAG) == {"body": 2, "delay_us": 9}
    with pytest.raises(HarnessError, match="kernel flag_handoff: unknown parameter or axis 'x'"):
        arguments({"x": 1}, FLAG)
