"""The frozen types of a scenario, and the cells that its axes span. Pure; `scenario` reads them from TOML."""

from __future__ import annotations

import itertools
import math
import re

from livetrap.model import Frozen, Value, VariantRole, Verdict

AXES = ("threads", "placement", "technique", "flags", "compiler", "align", "disturbance")
"""Axes of every scenario with a kernel; any other is a parameter of that."""
COMMAND_AXES = ("placement", "disturbance")
"""Axes of a scenario with a command that mean the same everywhere; any other, `threads` too, is a placeholder of it."""
KERNEL_AXES = ("technique", "flags", "compiler", "align")
"""Axes that only a kernel can have."""
ALIGNS = ("none", "spin", "clock")
"""How the threads of a team start together."""
COMPILERS = ("gcc", "clang")
"""Families of compilers. A scenario without a compiler axis uses the first of them that is installed."""
DATA_PROVIDERS = ("qmoe",)
"""Who can make a file for a kernel: see livetrap.data."""
DEFAULTS: dict[str, tuple[Value, ...]] = {"threads": (2,), "placement": ("free",), "flags": ("-O2",)}
"""Axes that a scenario with a kernel need not state; one with a command has but the placement of them."""
MOST_THREADS = 512
MOST_TRIALS = 100_000
MOST_CELLS = 20_000
LEAST_TIMEOUT_S = 0.05
"""Below it a trial's process is hardly born."""
MOST_TIMEOUT_S = 86_400.0

Axes = dict[str, tuple[Value, ...]]


class Preparation(Frozen, kw_only=True):
    """What a command needs that is made once, before any trial, and kept."""

    packages: tuple[str, ...] = ()
    """Python packages of the environment that it runs in, each pinned."""
    command: tuple[str, ...] = ()
    """Writes into the folder {prepared}."""


class Target(Frozen, kw_only=True):
    """What each trial runs: a kernel of csrc/kernels by name, a C file beside scenario.toml, or a command."""

    kernel: str = ""
    file: str = ""
    align: str = "spin"
    data: str = ""
    """The provider of the file that the kernel is given; empty: none."""
    command: tuple[str, ...] = ()
    """The program and its arguments, with placeholders: see livetrap.scenario_command."""
    environment: dict[str, Value] = {}
    """Variables that a command is given, with placeholders."""
    progress: str = ""
    """What shows that a command goes on: see model.CommandSpec."""
    packages: tuple[str, ...] = ()
    """Python packages of the environment that a command runs in, each pinned, with placeholders."""
    prepare: Preparation | None = None
    parameters: dict[str, Value] = {}
    """Of the kernel, or values for a command's placeholders."""

    @property
    def kernel_name(self) -> str:
        """The kernel's name; that of a file is its stem; empty for a command."""
        return self.kernel or self.file.removesuffix(".c")


class Budget(Frozen, kw_only=True):
    """How much a campaign may spend on each cell."""

    trials: int = 3
    timeout_s: float = 10.0
    """Time limit of one trial, in seconds."""


class Variant(Frozen, kw_only=True):
    """One named setting of a scenario."""

    role: VariantRole
    summary: str = ""
    always: bool = False
    """Must be caught on every machine that can run it; for `buggy` and `widened` only."""
    trials: int | None = None
    """Trials a cell, instead of the budget's."""
    parameters: dict[str, Value] = {}
    axes: Axes = {}


class Expectation(Frozen, kw_only=True):
    """What the cells that it matches should do."""

    match: dict[str, Value | tuple[Value, ...]] = {}
    verdicts: tuple[Verdict, ...]
    needs: str = ""
    """What such a cell lacks to show the bug."""
    least_rate: float | None = None
    """Least share of a cell's conclusive trials that end so; the others must then have `passed`."""
    greatest_rate: float | None = None

    @property
    def accepted(self) -> tuple[Verdict, ...]:
        """Verdicts that any one trial may have."""
        rated = self.least_rate is not None or self.greatest_rate is not None
        if rated and (self.least_rate or 0.0) < 1.0 and Verdict.PASSED not in self.verdicts:
            return (*self.verdicts, Verdict.PASSED)
        return self.verdicts


class Scenario(Frozen, kw_only=True):
    """One bug: what runs, in which variants, varied how, and what each should do."""

    schema: int
    name: str
    summary: str
    source: tuple[str, ...] = ()
    target: Target
    budget: Budget = Budget()
    judging: dict[str, float] = {}
    """Fields of model.Rules that differ from their defaults."""
    axes: Axes = {}
    variants: dict[str, Variant]
    expect: tuple[Expectation, ...] = ()
    path: str = ""
    """The scenario.toml."""
    folder: str = ""
    """The folder that it lies in."""


def axes_of(scenario: Scenario, variant: Variant) -> Axes:
    """A variant's axes with their values, defaults filled in; no `compiler` where the scenario leaves it open.

    What is nearer wins: the variant's axes and parameters over the scenario's axes, those over the target's parameters.
    """
    shared = {name: values for name, values in scenario.axes.items() if name not in variant.parameters}
    usual = {**DEFAULTS, "align": (scenario.target.align,)}
    if scenario.target.command:
        usual = {"placement": DEFAULTS["placement"]}
    return {**usual, **shared, **variant.axes}


def parameters_of(scenario: Scenario, variant: Variant) -> dict[str, Value]:
    """A variant's fixed parameters: those that no axis of it varies."""
    axes = axes_of(scenario, variant)
    fixed = {**scenario.target.parameters, **variant.parameters}
    return {name: value for name, value in fixed.items() if name not in axes}


def axis_names(scenario: Scenario) -> tuple[str, ...]:
    """The axes that mean the same in every scenario with such a target."""
    return COMMAND_AXES if scenario.target.command else AXES


def cell_count(axes: Axes) -> int:
    """How many cells these axes span."""
    return math.prod(len(values) for values in axes.values())


def cells(axes: Axes) -> list[dict[str, Value]]:
    """All combinations of these axes, in the order in which they are written."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def compiler_family(name: str) -> str:
    """`gcc` or `clang` of a compiler's name or path, e.g. of `/usr/bin/clang-19`; else the name."""
    match = re.fullmatch(r"(?:.*/)?[^/]*?(clang|gcc)[^/]*", name)
    return match[1] if match else name
