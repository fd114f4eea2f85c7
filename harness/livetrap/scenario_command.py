"""A scenario's command: what can be wrong with it, and its placeholders filled in for one trial. Pure.

Placeholders are the axes and parameters of the trial's variant, and

    {folder}     the scenario's own folder
    {python}     the interpreter of the environment with its packages; without packages, that which livetrap runs with
    {prepared}   the folder that [target.prepare] wrote into
    {seed}       the trial's seed
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from livetrap import expressions, placeholders
from livetrap.errors import HarnessError, nearest
from livetrap.model import CommandSpec, Value
from livetrap.scenario_model import ALIGNS, KERNEL_AXES, Scenario, Target, axes_of, parameters_of

OWN_PLACEHOLDERS = ("folder", "python", "prepared", "seed")
"""Placeholders that no axis or parameter may be named after."""
PREPARING = ("folder", "python", "prepared")
"""Those of what is made once for all trials."""
PROGRESS = ("output", "io", "beats", "regex:RE")
RESERVED = "LIVETRAP_"
"""What variables that are the harness's own begin with."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PINNED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.+!_-]+")

Problem = tuple[str, str]
"""A key, and what is wrong with it."""


def problem(scenario: Scenario) -> Problem | None:
    """The first thing that is wrong with what a scenario says of its command; None when nothing is."""
    target = scenario.target
    if not target.command:
        given = ("environment", "progress", "packages", "prepare")
        stray = next((key for key in given if getattr(target, key)), None)
        return (f"target.{stray}", "is for a command; this target is a kernel") if stray else None
    return next(_problems(scenario), None)


def package_problem(package: str) -> str:
    """What is wrong with a package that an environment is to have, in words; empty when nothing is."""
    if _PINNED.fullmatch(package):
        return ""
    return f"{package!r} is no pinned package; write e.g. 'numpy==2.0.0'"


def packages_of(target: Target, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The packages of a trial's environment, placeholders filled in. HarnessError: one of them is none then."""
    filled = tuple(placeholders.fill(package, values) for package in target.packages)
    for package in filled:
        wrong = package_problem(package)
        if wrong:
            raise HarnessError(f"target.packages: {wrong}")
    return filled


def command_of(target: Target, values: Mapping[str, Value]) -> CommandSpec:
    """A trial's command, placeholders filled in; it runs in the scenario's folder.

    `values` has the trial's cell and parameters, and whatever of OWN_PLACEHOLDERS is known by then.
    """
    shown = {name: f"{{{name}}}" for name in OWN_PLACEHOLDERS} | dict(values)
    return CommandSpec(
        argv=tuple(placeholders.fill(word, shown) for word in target.command),
        environment={name: placeholders.fill(str(value), shown) for name, value in target.environment.items()},
        folder=str(shown["folder"]),
        progress=target.progress,
    )


# --- what can be wrong -----------------------------------------------------------------------------------------------


def _problems(scenario: Scenario) -> Iterator[Problem]:
    target = scenario.target
    if target.data:
        yield "target.data", "is for a kernel; a command has target.prepare"
    if target.align != Target.__struct_defaults__[Target.__struct_fields__.index("align")]:
        yield "target.align", f"is for a kernel ({', '.join(ALIGNS)}); a command starts its threads itself"
    if not target.command[0]:
        yield "target.command", "names no program; write e.g. ['{python}', '{folder}/loop.py']"
    for name in target.environment:
        if not _VARIABLE.fullmatch(name) or name.startswith(RESERVED):
            yield f"target.environment.{name}", f"cannot be set: a name such as OMP_NUM_THREADS, not one of {RESERVED}*"
    wrong = _progress_problem(target.progress)
    if wrong:
        yield "target.progress", wrong
    yield from _axis_problems(scenario)
    for key, text, known in _texts(scenario):
        if "\0" in text:
            yield key, "has a zero byte in it"
        unknown = [name for name in placeholders.names(text) if name not in known]
        if unknown:
            hint = nearest(unknown[0], known)
            yield key, f"unknown placeholder {{{unknown[0]}}}; {hint}; for braces write {{{{{unknown[0]}}}}}"
    yield from _unused_problems(scenario)
    yield from _package_problems(target)


def _progress_problem(progress: str) -> str:
    kind, colon, expression = progress.partition(":")
    if kind != "regex":
        known = not progress or (not colon and progress in PROGRESS)
        return "" if known else f"unknown progress {progress!r}; {nearest(progress, PROGRESS)}"
    if not expression:
        return "regex: has no expression; write e.g. 'regex:^step [0-9]+'"
    try:
        expressions.compiled(expression)
    except HarnessError as error:
        return f"{progress!r}: {error}"
    return ""


def _axis_problems(scenario: Scenario) -> Iterator[Problem]:
    tables: list[tuple[str, Sequence[str]]] = [
        ("axes", tuple(scenario.axes)),
        ("target.parameters", tuple(scenario.target.parameters)),
    ]
    for name, variant in scenario.variants.items():
        tables.append((f"variants.{name}.axes", tuple(variant.axes)))
        tables.append((f"variants.{name}.parameters", tuple(variant.parameters)))
    for key, names in tables:
        for name in names:
            if name in KERNEL_AXES:
                yield f"{key}.{name}", "is for a kernel; a command is not built, and waits in its own way"
            if name in OWN_PLACEHOLDERS:
                yield f"{key}.{name}", f"cannot be one: {{{name}}} is livetrap's own"


def _unused_problems(scenario: Scenario) -> Iterator[Problem]:
    """Parameters that stand nowhere in what is run, unless another variant varies them: most likely a slip."""
    used = {name for _key, text, _known in _texts(scenario) for name in placeholders.names(text)}
    tables = {"target.parameters": scenario.target.parameters}
    for variant, one in scenario.variants.items():
        used |= axes_of(scenario, one).keys()
        tables[f"variants.{variant}.parameters"] = one.parameters
    for key, table in tables.items():
        for name in table:
            if name not in used:
                yield f"{key}.{name}", f"the command has no {{{name}}}; put it where the value belongs, or take it out"


def _texts(scenario: Scenario) -> Iterator[tuple[str, str, set[str]]]:
    """All texts with placeholders, where they stand, and the placeholders that each may have."""
    target = scenario.target
    own = set(OWN_PLACEHOLDERS) if target.prepare else set(OWN_PLACEHOLDERS) - {"prepared"}
    known = own | _known_in_all(scenario)
    for i, word in enumerate(target.command):
        yield f"target.command[{i}]", word, known
    for name, value in target.environment.items():
        yield f"target.environment.{name}", str(value), known
    for i, package in enumerate(target.packages):
        yield f"target.packages[{i}]", package, _known_in_all(scenario)
    for i, word in enumerate(target.prepare.command if target.prepare else ()):
        yield f"target.prepare.command[{i}]", word, set(PREPARING)


def _known_in_all(scenario: Scenario) -> set[str]:
    """Names that have a value in every variant."""
    each = [{*axes_of(scenario, one), *parameters_of(scenario, one)} for one in scenario.variants.values()]
    return set.intersection(*each) if each else set()


def _package_problems(target: Target) -> Iterator[Problem]:
    for i, package in enumerate(target.packages):
        likely = placeholders.fill(package, dict.fromkeys(placeholders.names(package), "1"))
        if package_problem(likely):
            yield f"target.packages[{i}]", package_problem(package)
    for i, package in enumerate(target.prepare.packages if target.prepare else ()):
        wrong = package_problem(package)
        if wrong:
            yield f"target.prepare.packages[{i}]", wrong
    if target.prepare and not target.prepare.command:
        yield "target.prepare.command", "missing; it writes what the trials need into {prepared}"
