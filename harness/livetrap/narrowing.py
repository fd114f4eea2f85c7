"""Applies the options of a run to a scenario's axes: narrows them, or changes their values. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from livetrap.errors import HarnessError, nearest
from livetrap.model import Frozen, KernelInfo, Value, VariantRole
from livetrap.scenario_check import check_axis
from livetrap.scenario_model import (
    AXES,
    COMMAND_AXES,
    COMPILERS,
    MOST_TRIALS,
    Axes,
    Scenario,
    Variant,
    axes_of,
    cell_count,
    parameters_of,
)


class Options(Frozen, kw_only=True):
    """What the command line asks for; empty or None: as the scenario says."""

    threads: tuple[int, ...] = ()
    placement: tuple[str, ...] = ()
    technique: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    compiler: tuple[str, ...] = ()
    axes: dict[str, tuple[Value, ...]] = {}
    """Other axes: `align`, parameters of the kernel, placeholders of the command. A number may come as text."""
    variants: tuple[str, ...] = ()
    trials: int | None = None
    timeout_s: float | None = None
    seed: int | None = None


class Part(Frozen, kw_only=True):
    """What is left of one variant."""

    variant: str
    role: VariantRole
    axes: Axes
    parameters: dict[str, Value]
    trials: int


class Narrowing(Frozen, kw_only=True):
    """What is left of a scenario."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...]
    narrowed: bool


def narrow(
    scenario: Scenario,
    *,
    options: Options,
    compilers: Collection[str],
    kernel: KernelInfo | None,
    techniques: Collection[str],
) -> Narrowing:
    """The variants that these options leave, each with its axes.

    A value that some variant lists narrows: a variant keeps those of its own. A value that none lists replaces, in all
    variants. A parameter that a variant fixes stays as it is. Raises HarnessError for options that fit nothing, and for
    more trials than a run may have. Without a kernel, options that are for its parameters are left out; a scenario with
    a command has none, and needs no compilers.
    """
    variants = _variants(scenario, options)
    wanted = _wanted(scenario, options, _offer(scenario, kernel), techniques)
    _check_wanted(scenario, wanted, kernel)
    full = {name: axes_of(scenario, variant) for name, variant in scenario.variants.items()}
    if not scenario.target.command:
        full = {name: _with_compiler(axes, compilers) for name, axes in full.items()}
    parts: list[Part] = []
    notes: list[str] = []
    for name, variant in variants.items():
        axes, empty = _narrowed(full, name, variant, wanted)
        if empty:
            notes.append(f"variant {name} left out: it has no {empty}")
            continue
        if "compiler" in axes and "compiler" not in wanted:
            axes["compiler"], absent = _installed(axes["compiler"], compilers)
            notes += [f"no {compiler} on this machine: its cells are left out" for compiler in absent]
        if kernel is not None and kernel.uses_technique and "technique" not in axes:
            known = ", ".join(techniques)
            raise HarnessError(f"{scenario.path}: axes.technique: missing; {kernel.name} waits by a technique: {known}")
        fixed = {key: value for key, value in parameters_of(scenario, variant).items() if key not in axes}
        trials = options.trials or variant.trials or scenario.budget.trials
        parts.append(Part(variant=name, role=variant.role, axes=axes, parameters=fixed, trials=trials))
    if not parts:
        raise HarnessError(f"{scenario.name}: no cell is left; {'; '.join(notes)}")
    if kernel is not None or options.axes.keys() <= wanted.keys():
        _check_size(scenario, parts)
    notes += [note for key, values in wanted.items() if (note := _change(key, values, full))]
    lost = [set(full[part.variant].get(key, ())) - set(part.axes.get(key, ())) for part in parts for key in wanted]
    return Narrowing(
        parts=tuple(parts), notes=tuple(dict.fromkeys(notes)), narrowed=len(parts) < len(full) or any(lost)
    )


def _check_size(scenario: Scenario, parts: Sequence[Part]) -> None:
    if sum(cell_count(part.axes) * part.trials for part in parts) > MOST_TRIALS:
        raise HarnessError(f"{scenario.name}: more than {MOST_TRIALS} trials; take fewer a cell, or fewer cells")


def no_technique(scenario: Scenario) -> HarnessError:
    """What to raise where a technique is asked for, and the scenario's kernel uses none."""
    name = scenario.target.kernel_name
    return HarnessError(f"{scenario.name}: kernel {name} waits in its own way; it has no technique to choose")


def kernel_value_problem(name: str, value: Value, kernel: KernelInfo) -> str:
    """What is wrong with a parameter's value for a kernel, in words; empty when nothing is."""
    if name not in kernel.params:
        return f"unknown parameter or axis {name!r}; {nearest(name, {*kernel.params, *AXES})}"
    info = kernel.params[name]
    if info.choices:
        return "" if value in info.choices else f"{name}: unknown value {value!r}; {nearest(str(value), info.choices)}"
    if not isinstance(value, int):
        return f"{name}: {value!r} must be a whole number from {info.least} to {info.most}"
    return "" if info.least <= value <= info.most else f"{name}: {value} must be from {info.least} to {info.most}"


class _Offer(Frozen, kw_only=True):
    """What a scenario's target offers to be varied."""

    axes: tuple[str, ...]
    """Those that mean the same with every such target."""
    others: frozenset[str] | None
    """Parameters of the kernel, or placeholders of the command; None: not yet known."""
    numbers: frozenset[str]
    """Those of them that take numbers only."""


def _offer(scenario: Scenario, kernel: KernelInfo | None) -> _Offer:
    if not scenario.target.command:
        params = kernel.params if kernel is not None else {}
        numbers = {name for name, info in params.items() if not info.choices}
        others = None if kernel is None else frozenset(params)
        return _Offer(axes=AXES, others=others, numbers=frozenset({"threads", *numbers}))
    values: dict[str, list[Value]] = {}
    for variant in scenario.variants.values():
        for name, value in parameters_of(scenario, variant).items():
            values.setdefault(name, []).append(value)
        for name, several in axes_of(scenario, variant).items():
            values.setdefault(name, []).extend(several)
    numbers = {name for name, given in values.items() if all(isinstance(value, int) for value in given)}
    return _Offer(axes=COMMAND_AXES, others=frozenset(values) - set(COMMAND_AXES), numbers=frozenset(numbers))


def _wanted(scenario: Scenario, options: Options, offer: _Offer, techniques: Collection[str]) -> Axes:
    """All values asked for, checked each by itself."""
    asked: Axes = {key: getattr(options, key) for key in ("threads", "placement", "technique", "flags", "compiler")}
    asked.update(options.axes)
    wanted: Axes = {}
    for key, given in asked.items():
        if not given and key not in options.axes:
            continue
        if key not in offer.axes and offer.others is None:
            continue
        if key not in offer.axes and key not in (offer.others or ()):
            raise _unknown_axis(key, offer, scenario)
        values = tuple(_number(value) if key in offer.numbers else value for value in given)
        wrong = check_axis(key, values, techniques=techniques)
        if not wrong and key in offer.numbers and scenario.target.command:
            stray = next((value for value in values if not isinstance(value, int)), None)
            wrong = f"{stray!r}: must be a whole number" if stray is not None else ""
        if wrong:
            raise HarnessError(f"{key} {wrong}" if key in options.axes else f"--{key} {wrong}")
        wanted[key] = values
    return wanted


def _unknown_axis(key: str, offer: _Offer, scenario: Scenario) -> HarnessError:
    known = {*offer.axes, *(offer.others or ())}
    if scenario.target.command and key in AXES:
        names = ", ".join(sorted(known))
        return HarnessError(f"{scenario.name}: runs a command, which has no {key} to choose; known: {names}")
    return HarnessError(f"unknown axis {key!r}; {nearest(key, known)}")


def _number(value: Value) -> Value:
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value) else value


def _variants(scenario: Scenario, options: Options) -> dict[str, Variant]:
    for name in options.variants:
        if name not in scenario.variants:
            raise HarnessError(f"{scenario.name}: unknown variant {name!r}; {nearest(name, scenario.variants)}")
    return {name: v for name, v in scenario.variants.items() if not options.variants or name in options.variants}


def _check_wanted(scenario: Scenario, wanted: Axes, kernel: KernelInfo | None) -> None:
    """Options that the kernel, or every variant, cannot follow."""
    if "technique" in wanted and kernel is not None and not kernel.uses_technique:
        raise no_technique(scenario)
    for key, values in wanted.items():
        if all(key in variant.parameters for variant in scenario.variants.values()):
            raise HarnessError(f"{scenario.name}: every variant fixes {key!r}; it cannot be varied")
        if kernel is None or key in AXES:
            continue
        for value in values:
            wrong = kernel_value_problem(key, value, kernel)
            if wrong:
                raise HarnessError(wrong)


def _narrowed(full: Mapping[str, Axes], name: str, variant: Variant, wanted: Axes) -> tuple[Axes, str]:
    """A variant's axes under the options; or the option that leaves it no cell."""
    axes = dict(full[name])
    for key, values in wanted.items():
        listed = {value for other in full.values() for value in other.get(key, ())}
        if key in variant.parameters or (listed and key not in axes):
            continue
        kept = tuple(value for value in values if value in axes.get(key, ()) or value not in listed)
        if not kept:
            return axes, f"{key} {', '.join(str(value) for value in values)}"
        axes[key] = kept
    return axes, ""


def _with_compiler(axes: Axes, compilers: Collection[str]) -> Axes:
    """With the compiler axis, which a scenario may leave open: the first of the known ones that is installed."""
    if "compiler" in axes:
        return axes
    first = next((name for name in COMPILERS if name in compilers), None)
    return {**axes, "compiler": (first,) if first else COMPILERS}


def _installed(asked: tuple[Value, ...], compilers: Collection[str]) -> tuple[tuple[Value, ...], list[Value]]:
    """The compilers of an axis that are here, and those that are not. Raises HarnessError when none is."""
    absent: list[Value] = [name for name in asked if name not in compilers]
    present = tuple(name for name in asked if name not in absent)
    if present:
        return present, absent
    names = " or ".join(str(name) for name in asked)
    how = "install one (Debian, Ubuntu: apt install gcc; macOS: xcode-select --install)"
    raise HarnessError(f"no C compiler: {names} not found; {how}", status=3)


def _change(key: str, values: tuple[Value, ...], full: Mapping[str, Axes]) -> str:
    """How an option differs from the scenario, in words; empty when it does not."""
    listed = list(dict.fromkeys(value for axes in full.values() for value in axes.get(key, ())))
    new = [value for value in values if value not in listed]
    if not new and set(values) == set(listed):
        return ""
    text = f"narrowed: {key} {', '.join(str(value) for value in values)}"
    if listed:
        text += f" instead of {', '.join(str(value) for value in listed)}"
    return text.replace("narrowed", "changed", 1) if new else text
