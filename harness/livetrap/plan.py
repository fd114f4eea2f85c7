"""Turns a scenario and the options of a run into trials, in the order in which they run. Pure.

Options narrow a scenario's axes, or replace values of them. The widest cells come first, shuffled within a width by the
seed, a cell's repetitions spread out rather than back to back. A trial's own seed follows from the run's seed, its cell
and its repetition alone, so that a narrowed run gives each cell the seeds that the full one would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from livetrap import disturbances, scenario_command
from livetrap.errors import HarnessError, nearest
from livetrap.matching import expectation_of
from livetrap.model import (
    BuildSpec,
    Frozen,
    KernelInfo,
    Manifest,
    NotAvailable,
    Placement,
    PlannedTrial,
    Rules,
    TechniqueInfo,
    Topology,
    Value,
    cell_key,
)
from livetrap.narrowing import Options, Part, kernel_value_problem, narrow
from livetrap.placement import place, place_command
from livetrap.scenario import rules_of
from livetrap.scenario_check import check_timeout, check_trials
from livetrap.scenario_model import AXES, Scenario, axis_names, cells
from livetrap.seeds import SEED_BITS, derived, trial_seed

__all__ = ["Options", "Plan", "arguments", "check_seed", "plan"]


class Plan(Frozen, kw_only=True):
    """All trials of a run, in the order in which they run."""

    scenario: Scenario
    trials: tuple[PlannedTrial, ...]
    notes: tuple[str, ...] = ()
    """What a reader should know: compilers left out, axes narrowed or changed."""
    narrowed: bool = False
    """Options took cells of the scenario's full matrix away."""
    seed: int
    os: str
    arch: str


def plan(
    scenario: Scenario,
    *,
    options: Options,
    topology: Topology,
    compilers: Mapping[str, str],
    manifest: Manifest | None,
    seed: int,
) -> Plan:
    """The trials of a scenario under these options, on this machine.

    `compilers` names those installed, with their versions; `manifest` is what the built kernels tell of themselves. A
    scenario with a command needs neither: there it is None. `seed` is used where the options give none. Raises
    HarnessError for options, parameters or techniques that the scenario, or its kernel, does not have (status 2) and
    where there is no compiler at all (status 3).
    """
    kernel = _kernel(scenario, manifest) if manifest is not None and not scenario.target.command else None
    techniques = manifest.techniques if manifest is not None else {}
    _check_budget(options)
    seed = check_seed(options.seed if options.seed is not None else seed)
    narrowing = narrow(scenario, options=options, compilers=compilers, kernel=kernel, techniques=techniques)
    timeout_s = options.timeout_s if options.timeout_s is not None else scenario.budget.timeout_s
    maker = _Maker(
        scenario=scenario,
        kernel=kernel,
        techniques=techniques,
        topology=topology,
        compilers=compilers,
        seed=seed,
        rules=rules_of(scenario, limit_s=timeout_s),
    )
    trials = tuple(
        maker.trial(part, cell, ordinal=ordinal, repetition=repetition)
        for ordinal, (part, cell, repetition) in enumerate(_ordered(narrowing.parts, seed))
    )
    return Plan(
        scenario=scenario,
        trials=trials,
        notes=narrowing.notes,
        narrowed=narrowing.narrowed,
        seed=seed,
        os=topology.os,
        arch=topology.arch,
    )


def arguments(parameters: Mapping[str, Value], kernel: KernelInfo) -> dict[str, int]:
    """A trial's parameters as the numbers that a kernel takes: a choice becomes its index.

    Raises HarnessError for a parameter that the kernel does not have, or a value out of its range.
    """
    for name, value in parameters.items():
        wrong = kernel_value_problem(name, value, kernel)
        if wrong:
            raise HarnessError(f"kernel {kernel.name}: {wrong}")
    return {
        name: kernel.params[name].choices.index(value) if isinstance(value, str) else value
        for name, value in parameters.items()
    }


def check_seed(seed: int) -> int:
    """The seed, if it can be one. Raises HarnessError otherwise."""
    if 0 <= seed < 1 << SEED_BITS:
        return seed
    raise HarnessError(f"seed {seed}: must be from 0 to {(1 << SEED_BITS) - 1}")


def _check_budget(options: Options) -> None:
    for name, wrong in (
        ("trials", check_trials(options.trials) if options.trials is not None else ""),
        ("timeout", check_timeout(options.timeout_s) if options.timeout_s is not None else ""),
    ):
        if wrong:
            raise HarnessError(f"--{name} {wrong}")


def _kernel(scenario: Scenario, manifest: Manifest) -> KernelInfo:
    """The scenario's kernel; every parameter that the scenario gives must fit it."""
    name = scenario.target.kernel_name
    if name not in manifest.kernels:
        known = nearest(name, manifest.kernels)
        raise HarnessError(f"{scenario.path}: target: the build has no kernel {name!r}; {known}")
    kernel = manifest.kernels[name]
    given: list[tuple[str, str, Value]] = []
    tables: list[tuple[str, Mapping[str, Value | tuple[Value, ...]]]] = [
        ("target.parameters", scenario.target.parameters),
        ("axes", scenario.axes),
    ]
    for variant_name, variant in scenario.variants.items():
        tables.append((f"variants.{variant_name}.parameters", variant.parameters))
        tables.append((f"variants.{variant_name}.axes", variant.axes))
    for key, table in tables:
        for parameter, values in table.items():
            if parameter not in AXES:
                given += [(key, parameter, value) for value in (values if isinstance(values, tuple) else (values,))]
            elif parameter == "technique" and not kernel.uses_technique:
                raise HarnessError(f"{scenario.path}: {key}.technique: kernel {name} waits in its own way, by none")
    for key, parameter, value in given:
        wrong = kernel_value_problem(parameter, value, kernel)
        if wrong:
            raise HarnessError(f"{scenario.path}: {key}: kernel {name}: {wrong}")
    return kernel


# --- order and seeds -------------------------------------------------------------------------------------------------


def _ordered(parts: Sequence[Part], seed: int) -> Iterator[tuple[Part, dict[str, Value], int]]:
    """Widest cells first; within a width one repetition of every cell after the other, each in an order of its own."""
    planned = [
        (-_width(part, cell), repetition, derived(seed, "order", repetition, cell_key(part.variant, cell)), part, cell)
        for part in parts
        for cell in cells(part.axes)
        for repetition in range(part.trials)
    ]
    for _narrowness, repetition, _rank, part, cell in sorted(planned, key=lambda entry: entry[:3]):
        yield part, cell, repetition


def _width(part: Part, cell: Mapping[str, Value]) -> int:
    """The threads of a cell; a command need not tell."""
    return int(cell.get("threads", part.parameters.get("threads", 1)))


class _Maker(Frozen, kw_only=True):
    """Makes single trials out of what is the same for all of them."""

    scenario: Scenario
    kernel: KernelInfo | None
    """None for a command."""
    techniques: Mapping[str, TechniqueInfo]
    topology: Topology
    compilers: Mapping[str, str]
    seed: int
    rules: Rules

    def trial(self, part: Part, cell: dict[str, Value], *, ordinal: int, repetition: int) -> PlannedTrial:
        """One trial of a cell."""
        scenario, topology = self.scenario, self.topology
        seed = trial_seed(self.seed, repetition, cell_key(part.variant, cell))
        expectation = expectation_of(
            scenario.expect, variant=part.variant, role=part.role, cell=cell, os=topology.os, arch=topology.arch
        )
        varied = {name: value for name, value in cell.items() if name not in axis_names(scenario)}
        planned = PlannedTrial(
            ordinal=ordinal,
            scenario=scenario.name,
            variant=part.variant,
            role=part.role,
            cell=cell,
            disturbance=disturbances.parse(str(cell.get("disturbance", ""))).text,
            parameters={**part.parameters, **varied},
            threads=_width(part, cell),
            seed=seed,
            placement=Placement(requested="free"),
            rules=self.rules,
            expected=expectation.accepted,
        )
        return self._with_command(planned) if self.kernel is None else self._with_kernel(planned, self.kernel)

    def _with_command(self, planned: PlannedTrial) -> PlannedTrial:
        values = {**planned.parameters, **planned.cell, "seed": planned.seed, "folder": self.scenario.folder}
        placement = place_command(str(planned.cell["placement"]), self.topology, seed=planned.seed)
        return msgspec.structs.replace(
            planned,
            command=scenario_command.command_of(self.scenario.target, values),
            placement=placement,
            skip=placement.reason if isinstance(placement, NotAvailable) else "",
        )

    def _with_kernel(self, planned: PlannedTrial, kernel: KernelInfo) -> PlannedTrial:
        cell = planned.cell
        placement = place(str(cell["placement"]), self.topology, threads=planned.threads, seed=planned.seed)
        technique = str(cell.get("technique", ""))
        return msgspec.structs.replace(
            planned,
            build=self._build(cell, kernel),
            kernel=kernel.name,
            technique=technique,
            align=str(cell["align"]),
            placement=placement,
            skip=self._skip(str(cell["compiler"]), technique, placement),
        )

    def _build(self, cell: Mapping[str, Value], kernel: KernelInfo) -> BuildSpec:
        file = self.scenario.target.file
        return BuildSpec(
            compiler=str(cell["compiler"]),
            flags=tuple(str(cell["flags"]).split()),
            kernel=kernel.name,
            kernel_file=f"{self.scenario.folder or '.'}/{file}" if file else "",
        )

    def _skip(self, compiler: str, technique: str, placement: object) -> str:
        """Why this machine cannot run the trial; empty when it can."""
        if compiler not in self.compilers:
            return f"no {compiler} on this machine"
        info = self.techniques.get(technique)
        if info is not None and info.unavailable:
            return f"technique {technique}: {info.unavailable}"
        return placement.reason if isinstance(placement, NotAvailable) else ""
