"""What a scenario's types cannot say: names, limits, and expectations that fit its matrix. Pure.

Every problem is a HarnessError of one line: the file, the key, what is wrong, and what would be right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from livetrap import disturbances, scenario_command
from livetrap.errors import HarnessError, nearest
from livetrap.matching import ENVIRONMENT, comparison, value_matches
from livetrap.model import UNCOUNTED, Value, VariantRole
from livetrap.placement import check_strategy
from livetrap.scenario_model import (
    ALIGNS,
    AXES,
    COMPILERS,
    DATA_PROVIDERS,
    LEAST_TIMEOUT_S,
    MOST_CELLS,
    MOST_THREADS,
    MOST_TIMEOUT_S,
    MOST_TRIALS,
    Axes,
    Expectation,
    Scenario,
    axes_of,
    axis_names,
    cell_count,
    cells,
)

SLUG = r"[a-z0-9]+(-[a-z0-9]+)*"
NAME = r"[A-Za-z_]\w*"
TARGETS = "kernel (one of csrc/kernels), file (a C file beside scenario.toml), or command (a list of words)"
LEVEL = r"-O([0-3sgz]|fast)?"


def fail(path: str, key: str, message: str) -> NoReturn:
    """Raises the error of one key of a file."""
    raise HarnessError(f"{path}: {key}: {message}")


def check(scenario: Scenario, *, kernels: Collection[str], techniques: Collection[str]) -> None:
    """Raises HarnessError for the first thing that is wrong with a scenario."""
    path = scenario.path
    if not re.fullmatch(SLUG, scenario.name):
        fail(path, "name", f"{scenario.name!r} is no name; use lower-case words joined by hyphens, e.g. raw-spin-flag")
    _check_target(scenario, kernels)
    _check_numbers(scenario)
    _check_axes(scenario, scenario.axes, "axes", scenario.target.parameters, techniques)
    if not scenario.variants:
        fail(path, "variants", "missing; a scenario has at least one, e.g. [variants.buggy]")
    for name, variant in scenario.variants.items():
        if not re.fullmatch(SLUG, name):
            fail(path, f"variants.{name}", "no name; use lower-case words joined by hyphens, e.g. buggy")
        if variant.always and variant.role not in (VariantRole.BUGGY, VariantRole.WIDENED):
            fail(path, f"variants.{name}.always", f"is for roles buggy and widened, not {variant.role.value}")
        _check_axes(scenario, variant.axes, f"variants.{name}.axes", variant.parameters, techniques)
        _check_parameters(scenario, f"variants.{name}.parameters", variant.parameters)
    wrong = scenario_command.problem(scenario)
    if wrong is not None:
        fail(path, *wrong)
    if sum(cell_count(axes_of(scenario, variant)) for variant in scenario.variants.values()) > MOST_CELLS:
        fail(path, "axes", f"they span more than {MOST_CELLS} cells; take out values")
    _check_expectations(scenario)


def check_axis(name: str, values: Sequence[Value], *, techniques: Collection[str]) -> str:
    """What is wrong with the values of an axis, in words; empty when nothing is.

    Values of a kernel's parameter are checked against the built kernel, by the plan.
    """
    if not values:
        return "is empty; give at least one value"
    for value in values:
        wrong = _wrong_value(name, value, techniques)
        if wrong:
            return wrong
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    return f"{twice[0]!r} stands twice" if twice else ""


def check_trials(trials: int) -> str:
    """What is wrong with a number of trials, in words; empty when nothing is."""
    return "" if 1 <= trials <= MOST_TRIALS else f"{trials}: must be from 1 to {MOST_TRIALS}"


def check_timeout(timeout_s: float) -> str:
    """What is wrong with a time limit in seconds, in words; empty when nothing is."""
    if LEAST_TIMEOUT_S <= timeout_s <= MOST_TIMEOUT_S:  # also refuses nan
        return ""
    return f"{timeout_s:g}: must be from {LEAST_TIMEOUT_S:g} to {MOST_TIMEOUT_S:g} seconds"


# --- parts -----------------------------------------------------------------------------------------------------------


def _wrong_value(name: str, value: Value, techniques: Collection[str]) -> str:
    if name == "threads":
        if not isinstance(value, int):
            return f"{value!r}: must be a whole number"
        return "" if 1 <= value <= MOST_THREADS else f"{value}: must be from 1 to {MOST_THREADS}"
    if name not in AXES:
        return ""
    if not isinstance(value, str):
        return f"{value!r}: must be text"
    if name == "placement":
        return check_strategy(value)
    if name == "disturbance":
        return _wrong_disturbance(value)
    if name == "technique" and value not in techniques:
        return f"unknown technique {value!r}; {nearest(value, techniques)}"
    if name == "align" and value not in ALIGNS:
        return f"unknown alignment {value!r}; {nearest(value, ALIGNS)}"
    if name == "compiler" and not re.fullmatch(r"(.*/)?[^/]*(gcc|clang)[^/]*", value):
        if "/" in value:
            return f"{value!r} tells neither gcc nor clang: its last part must have one in it, e.g. /usr/bin/gcc-13"
        return f"unknown compiler {value!r}; {nearest(value, COMPILERS)}, or a path, e.g. /usr/bin/gcc-13"
    return _wrong_flags(value) if name == "flags" else ""


def _wrong_disturbance(value: str) -> str:
    try:
        disturbances.parse(value)
    except HarnessError as error:
        return str(error)
    return ""


def _wrong_flags(value: str) -> str:
    words = value.split()
    stray = [word for word in words if not word.startswith("-")]
    if stray:
        return f"{value!r}: {stray[0]!r} is no flag; write e.g. '-O2 -fno-inline'"
    unknown = [word for word in words if word.startswith("-O") and not re.fullmatch(LEVEL, word)]
    if unknown:
        return f"{value!r}: {unknown[0]!r} is no optimisation level; known: -O0, -O1, -O2, -O3, -Os, -Og, -Oz, -Ofast"
    levels = [word for word in words if word.startswith("-O")]
    if len(levels) != 1:
        return f"{value!r}: must name one optimisation level, e.g. '-O2' or '-O2 -fno-inline'"
    return ""


def _check_target(scenario: Scenario, kernels: Collection[str]) -> None:
    target, path = scenario.target, scenario.path
    if [bool(target.kernel), bool(target.file), bool(target.command)].count(True) != 1:
        fail(path, "target", f"must have either {TARGETS}")
    if target.kernel and target.kernel not in kernels:
        fail(path, "target.kernel", f"unknown kernel {target.kernel!r}; {nearest(target.kernel, kernels)}")
    if target.file and not re.fullmatch(r"[A-Za-z_]\w*\.c", target.file, re.ASCII):
        fail(path, "target.file", f"{target.file!r} must be the name of a C file beside scenario.toml, e.g. mine.c")
    if target.file and target.kernel_name in kernels:
        fail(path, "target.file", f"{target.file!r} has the name of a kernel in csrc/kernels; give it another")
    if target.align not in ALIGNS:
        fail(path, "target.align", f"unknown alignment {target.align!r}; {nearest(target.align, ALIGNS)}")
    if target.data and target.data not in DATA_PROVIDERS:
        fail(path, "target.data", f"unknown data provider {target.data!r}; {nearest(target.data, DATA_PROVIDERS)}")
    _check_parameters(scenario, "target.parameters", target.parameters)


def _check_parameters(scenario: Scenario, key: str, parameters: Mapping[str, Value]) -> None:
    of = "command" if scenario.target.command else "kernel"
    for name in parameters:
        if name in axis_names(scenario):
            fail(scenario.path, f"{key}.{name}", f"an axis, not a parameter of the {of}; put it under [axes]")
        if scenario.target.command and not re.fullmatch(NAME, name, re.ASCII):
            fail(scenario.path, f"{key}.{name}", "no name of a placeholder; write e.g. tokens")


def _check_numbers(scenario: Scenario) -> None:
    path, budget = scenario.path, scenario.budget
    wrong = check_trials(budget.trials)
    if wrong:
        fail(path, "budget.trials", wrong)
    wrong = check_timeout(budget.timeout_s)
    if wrong:
        fail(path, "budget.timeout_s", wrong)
    for name, variant in scenario.variants.items():
        wrong = check_trials(variant.trials) if variant.trials is not None else ""
        if wrong:
            fail(path, f"variants.{name}.trials", wrong)
    for key, value in scenario.judging.items():
        if not math.isfinite(value) or value <= 0:
            fail(path, f"judging.{key}", f"{value:g}: must be more than 0")


def _check_axes(
    scenario: Scenario, axes: Axes, key: str, fixed: Mapping[str, Value], techniques: Collection[str]
) -> None:
    for name, values in axes.items():
        if not re.fullmatch(NAME, name, re.ASCII) or name in ("variant", "os", "arch"):
            others = "the command's placeholders" if scenario.target.command else "kernel parameters"
            known = ", ".join(axis_names(scenario))
            fail(scenario.path, f"{key}.{name}", f"cannot be an axis; axes are {known} and {others}")
        wrong = check_axis(name, values, techniques=techniques)
        if wrong:
            fail(scenario.path, f"{key}.{name}", wrong)
        if name in fixed:
            fail(scenario.path, f"{key}.{name}", "stands under parameters as well; keep one of the two")


# --- expectations ----------------------------------------------------------------------------------------------------


def _check_expectations(scenario: Scenario) -> None:
    matrix = [
        (name, cell)
        for name, variant in scenario.variants.items()
        for cell in cells({**_left_open(scenario), **axes_of(scenario, variant)})
    ]
    for i, expectation in enumerate(scenario.expect):
        _check_expectation(scenario, expectation, f"expect[{i}]")
        if not any(_may_match(expectation, name, cell) for name, cell in matrix):
            why = _why_never(expectation, matrix)
            fail(scenario.path, f"expect[{i}].match", f"no cell of the full matrix can match it{why}")
    _check_reached(scenario, matrix)


def _left_open(scenario: Scenario) -> Axes:
    """The compiler, which a scenario with a kernel may leave to the machine."""
    return {} if scenario.target.command else {"compiler": ("",)}


def _environment(scenario: Scenario) -> set[str]:
    """Keys of a match that speak of the machine; a command has no compiler."""
    return set(ENVIRONMENT) - ({"compiler"} if scenario.target.command else set())


def _check_expectation(scenario: Scenario, expectation: Expectation, key: str) -> None:
    path = scenario.path
    axes = {name for variant in scenario.variants.values() for name in axes_of(scenario, variant)}
    known = {*axes, "variant", *_environment(scenario)}
    if not expectation.verdicts:
        fail(path, f"{key}.verdicts", "is empty; give at least one verdict")
    for verdict in expectation.verdicts:
        if verdict in UNCOUNTED:
            fail(path, f"{key}.verdicts", f"{verdict.value!r} counts neither for nor against and cannot be expected")
    for name in ("least_rate", "greatest_rate"):
        rate = getattr(expectation, name)
        if rate is not None and not 0 <= rate <= 1:
            fail(path, f"{key}.{name}", f"{rate:g}: must be from 0 to 1")
    if (expectation.least_rate or 0) > (1 if expectation.greatest_rate is None else expectation.greatest_rate):
        fail(path, f"{key}.least_rate", "is greater than greatest_rate")
    for name, condition in expectation.match.items():
        if name not in known:
            fail(path, f"{key}.match.{name}", f"unknown key; {nearest(name, known)}")
        conditions = condition if isinstance(condition, tuple) else (condition,)
        if not conditions:
            fail(path, f"{key}.match.{name}", "is empty; give at least one value")
        for one in conditions:
            _check_condition(scenario, name, one, f"{key}.match.{name}")


def _check_condition(scenario: Scenario, name: str, condition: Value, key: str) -> None:
    words: Collection[str] = scenario.variants if name == "variant" else ENVIRONMENT.get(name, ())
    if words and condition not in words:
        fail(scenario.path, key, f"unknown {name} {condition!r}; {nearest(str(condition), words)}")
    if isinstance(condition, str) and condition[:1] in ("<", ">") and comparison(condition) is None:
        fail(scenario.path, key, f"{condition!r} compares with no number; write e.g. '>=4'")


def _may_match(expectation: Expectation, variant: str, cell: Mapping[str, Value]) -> bool:
    """Whether it matches on some machine: what speaks of the machine is left open."""
    values = {**cell, "variant": variant}
    return all(
        key in ENVIRONMENT or value_matches(key, condition, values.get(key))
        for key, condition in expectation.match.items()
    )


def _why_never(expectation: Expectation, matrix: Sequence[tuple[str, Mapping[str, Value]]]) -> str:
    for key, condition in expectation.match.items():
        values = [{**cell, "variant": name}.get(key) for name, cell in matrix]
        if key not in ENVIRONMENT and not any(value_matches(key, condition, value) for value in values):
            seen = ", ".join(str(value) for value in dict.fromkeys(values) if value is not None)
            return f"; {key} is never {condition!r}: it has {seen}"
    return "; each condition matches some cell, but none matches them all"


def _check_reached(scenario: Scenario, matrix: Sequence[tuple[str, Mapping[str, Value]]]) -> None:
    """Expectations that earlier ones leave nothing to, as far as that holds on every machine."""
    reached: set[int] = set()
    for name, cell in matrix:
        for i, expectation in enumerate(scenario.expect):
            if _may_match(expectation, name, cell):
                reached.add(i)
                if not set(expectation.match) & set(ENVIRONMENT):
                    break
    for i in range(len(scenario.expect)):
        if i not in reached:
            fail(scenario.path, f"expect[{i}]", "is never reached: the expectations above match all its cells")
