"""Scenarios with a command: reading them, and one line of words for everything that is wrong."""

from __future__ import annotations

import pytest

from livetrap.errors import HarnessError
from livetrap.model import CommandSpec, Value
from livetrap.scenario import parse
from livetrap.scenario_command import command_of, package_problem, packages_of
from livetrap.scenario_model import Scenario, axes_of, cells, parameters_of

MINIMAL = """
schema = 1
name = "mine"
summary = "One line."
[target]
command = ["./mine"]
[variants.buggy]
role = "buggy"
"""
FULL = """
schema = 1
name = "mine"
summary = "One line."
[target]
command = ["{python}", "{folder}/loop.py", "{prepared}", "-n", "{threads}", "--mode={mode}", "{seed}", "{{}}"]
environment = { OMP_NUM_THREADS = "{threads}", LEVEL = 3 }
progress = "regex:^step [0-9]+"
packages = ["onnx{kind}=={version}", "numpy==2.0.0"]
[target.parameters]
mode = "fast"
kind = "runtime"
[target.prepare]
packages = ["onnx==1.0"]
command = ["{python}", "{folder}/prepare.py", "{prepared}"]
[axes]
threads = [1, 4]
version = ["1.0", "2.0"]
disturbance = ["none", "hogs:2+migrate"]
[variants.buggy]
role = "buggy"
axes = { mode = ["fast", "slow"] }
[variants.fixed]
role = "fixed"
parameters = { version = "3.0" }
[[expect]]
match = { variant = "fixed", threads = ">=2", os = "linux" }
verdicts = ["passed"]
"""


def read(text: str) -> Scenario:
    return parse(text, path="s.toml", folder="f", kernels=("flag_handoff",), techniques=("raw_spin",))


def problem(text: str) -> str:
    with pytest.raises(HarnessError) as caught:
        read(text)
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("s.toml: ")


def changed(old: str, new: str) -> str:
    assert FULL.count(old) == 1
    return FULL.replace(old, new)


def test_the_smallest_one_has_a_placement_and_nothing_else() -> None:
    scenario = read(MINIMAL)
    assert axes_of(scenario, scenario.variants["buggy"]) == {"placement": ("free",)}
    assert scenario.target.kernel_name == ""


def test_axes_and_parameters() -> None:
    scenario = read(FULL)
    buggy, fixed = scenario.variants["buggy"], scenario.variants["fixed"]
    assert list(axes_of(scenario, buggy)) == ["placement", "threads", "version", "disturbance", "mode"]
    assert parameters_of(scenario, buggy) == {"kind": "runtime"}
    assert list(axes_of(scenario, fixed)) == ["placement", "threads", "disturbance"]
    assert parameters_of(scenario, fixed) == {"mode": "fast", "kind": "runtime", "version": "3.0"}
    assert len(cells(axes_of(scenario, buggy))) == 2 * 2 * 2 * 2


VALUES: dict[str, Value] = {"threads": 4, "mode": "slow", "kind": "runtime", "version": "2.0", "folder": "/s"}


def test_the_command_of_a_trial() -> None:
    target = read(FULL).target
    known: dict[str, Value] = {**VALUES, "python": "/e/python", "prepared": "/p", "seed": 7}
    assert command_of(target, known) == CommandSpec(
        argv=("/e/python", "/s/loop.py", "/p", "-n", "4", "--mode=slow", "7", "{}"),
        environment={"OMP_NUM_THREADS": "4", "LEVEL": "3"},
        folder="/s",
        progress="regex:^step [0-9]+",
    )
    assert packages_of(target, known) == ("onnxruntime==2.0", "numpy==2.0.0")


def test_what_is_not_yet_known_stays_to_be_seen() -> None:
    assert command_of(read(FULL).target, VALUES).argv[:3] == ("{python}", "/s/loop.py", "{prepared}")


def test_a_value_that_makes_no_package_of_it_is_refused() -> None:
    target = read(FULL).target
    with pytest.raises(HarnessError, match=r"'onnxruntime==2.0 --pre' is no pinned package"):
        packages_of(target, {**VALUES, "version": "2.0 --pre"})


@pytest.mark.parametrize(
    "package", ["numpy==2.0.0", "a==1", "torch[opt-einsum,x]==2.1.0+cpu", "zope.interface==5.0rc1"]
)
def test_packages(package: str) -> None:
    assert package_problem(package) == ""


@pytest.mark.parametrize(
    "package",
    [
        "numpy",
        "numpy>=2",
        "--index-url=x==1",
        "-r==1",
        "git+https://x==1",
        "numpy==2 ; x",
        "numpy==2.*",
        "==1",
        "",
        "a==",
    ],
)
def test_no_packages(package: str) -> None:
    assert "no pinned package" in package_problem(package)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'command = ["{python}", "{folder}/loop.py"',
            'command = ["{pyhton}"',
            "target.command[0]: unknown placeholder",
        ),
        ("{mode}", "{mood}", "target.command[5]: unknown placeholder {mood}; did you mean 'mode'?"),
        ('"{{}}"', '"{{}}\\u0000"', "target.command[7]: has a zero byte"),
        ('"{python}", "{folder}/loop.py"', '"", "{folder}/loop.py"', "target.command: names no program"),
        ('OMP_NUM_THREADS = "{threads}"', 'OMP_NUM_THREADS = "{nope}"', "target.environment.OMP_NUM_THREADS: unknown"),
        ("LEVEL = 3", "LEVEL = 3.5", "target.environment.LEVEL: expected"),
        ("LEVEL = 3", '"A=B" = 3', "target.environment.A=B: cannot be set"),
        ("LEVEL = 3", "LIVETRAP_PAGE = 3", "target.environment.LIVETRAP_PAGE: cannot be set"),
        ("regex:^step [0-9]+", "regex:(", "target.progress: 'regex:(': no regular expression"),
        ("regex:^step [0-9]+", "regex:", "target.progress: regex: has no expression"),
        ("regex:^step [0-9]+", "outputt", "target.progress: unknown progress 'outputt'; did you mean 'output'?"),
        ("regex:^step [0-9]+", "output:x", "target.progress: unknown progress"),
        ("numpy==2.0.0", "numpy", "target.packages[1]: 'numpy' is no pinned package"),
        ("onnx{kind}=={version}", "onnx{kind}>={version}", "target.packages[0]: 'onnx{kind}>={version}' is no pinned"),
        ("onnx{kind}=={version}", "onnx=={seed}", "target.packages[0]: unknown placeholder {seed}"),
        ("onnx==1.0", "onnx", "target.prepare.packages[0]: 'onnx' is no pinned package"),
        ("/prepare.py", "/{mode}.py", "target.prepare.command[1]: unknown placeholder {mode}"),
        ('packages = ["onnx==1.0"]\ncommand = [', "command = []\nx = [", "target.prepare.x: unknown key"),
        ('[target.prepare]\npackages = ["onnx==1.0"]\ncommand', "[other]\ncommand", "other: unknown key"),
        ("threads = [1, 4]", 'threads = ["many"]', "axes.threads: 'many': must be a whole number"),
        ("hogs:2+migrate", "hogs:2+migrat", "axes.disturbance: unknown disturbance 'migrat'"),
        ("threads = [1, 4]", 'threads = [1, 4]\nflags = ["-O2"]', "axes.flags: is for a kernel"),
        ("threads = [1, 4]", "threads = [1, 4]\nseed = [1]", "axes.seed: cannot be one: {seed} is livetrap's own"),
        ('mode = "fast"\n', 'mode = "fast"\nplacement = "free"\n', "target.parameters.placement: an axis, not a"),
        ('mode = "fast"\n', 'mode = "fast"\n"a b" = 1\n', "target.parameters.a b: no name of a placeholder"),
        ('mode = "fast"\n', 'mode = "fast"\nalign = "spin"\n', "target.parameters.align: is for a kernel"),
        ("progress =", 'data = "qmoe"\nprogress =', "target.data: is for a kernel"),
        ("progress =", 'align = "none"\nprogress =', "target.align: is for a kernel"),
        ("progress =", 'kernel = "flag_handoff"\nprogress =', "target: must have either kernel"),
        ('os = "linux"', 'compiler = "gcc"', "expect[0].match.compiler: unknown key"),
        ('threads = ">=2"', 'threads = ">=9"', "expect[0].match: no cell of the full matrix can match it"),
        ('mode = "fast"\n', 'mode = "fast"\nmoed = 1\n', "target.parameters.moed: the command has no {moed}; put it"),
        ('version = "3.0"', 'version = "3.0", n = 1', "variants.fixed.parameters.n: the command has no {n}; put it"),
        ('version = ["1.0", "2.0"]', "", "target.command"),
    ],
)
def test_what_is_wrong_is_told(old: str, new: str, message: str) -> None:
    if message == "target.command":  # a placeholder without a value in one of the variants
        assert problem(changed(old, new)).startswith("target.packages[0]: unknown placeholder {version}")
    else:
        assert problem(changed(old, new)).startswith(message)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("environment = { A = 1 }", "environment"),
        ('progress = "io"', "progress"),
        ('packages = ["a==1"]', "packages"),
        ('prepare = { command = ["x"] }', "prepare"),
    ],
)
def test_what_is_for_commands_is_not_for_kernels(line: str, key: str) -> None:
    text = MINIMAL.replace('command = ["./mine"]', f'kernel = "flag_handoff"\n{line}')
    assert problem(text) == f"target.{key}: is for a command; this target is a kernel"


def test_no_command_and_no_kernel() -> None:
    assert problem(MINIMAL.replace('command = ["./mine"]', "command = []")).startswith(
        "target: must have either kernel"
    )


def test_a_parameter_that_another_variant_varies_may_stand_unused() -> None:
    text = changed('version = "3.0"', 'version = "3.0", round = 1')
    assert read(text.replace('mode = ["fast", "slow"]', 'mode = ["fast", "slow"], round = [1, 2]'))


def test_prepared_needs_a_preparation() -> None:
    text = MINIMAL.replace('"./mine"', '"./mine", "{prepared}"')
    assert problem(text).startswith("target.command[1]: unknown placeholder {prepared}")


def test_a_kernel_can_be_disturbed_too() -> None:
    text = MINIMAL.replace('command = ["./mine"]', 'kernel = "flag_handoff"') + "[axes]\ndisturbance = {}\n"
    assert read(text.format('["none", "jitter:20"]')).axes == {"disturbance": ("none", "jitter:20")}
    assert problem(text.format('["hog"]')).startswith("axes.disturbance: unknown disturbance 'hog'")
