"""Turns a scenario and the options of a run into trials, in the order in which they run. Pure.

Options narrow a scenario's axes, or replace values of them. The widest cells come first, shuffled within a width by the
seed, a cell's repetitions spread out rather than back to back. A trial's own seed follows from the run's seed, its cell
and its repetition alone, so that a narrowed run gives each cell the seeds that the full one would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from livetrap.errors import HarnessError, nearest
from livetrap.matching import expectation_of
from livetrap.model import (
    BuildSpec,
    Frozen,
    KernelInfo,
    Manifest,
    NotAvailable,
    PlannedTrial,
    Rules,
    Topology,
    Value,
    cell_key,
)
from livetrap.narrowing import Options, Part, kernel_value_problem, narrow
from livetrap.placement import place
from livetrap.scenario import rules_of
from livetrap.scenario_check import check_timeout, check_trials
from livetrap.scenario_model import AXES, Scenario, cells

__all__ = ["Options", "Plan", "arguments", "check_seed", "plan"]

SEED_BITS = 53
"""Seeds stay below this many bits: JSON readers that hold numbers as doubles keep them whole."""


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
    manifest: Manifest,
    seed: int,
) -> Plan:
    """The trials of a scenario under these options, on this machine.

    `compilers` names those installed, with their versions; `manifest` is what the built kernels tell of themselves;
    `seed` is used where the options give none. Raises HarnessError for options, parameters or techniques that the
    scenario, or its kernel, does not have (status 2) and where there is no compiler at all (status 3).
    """
    kernel = _kernel(scenario, manifest)
    _check_budget(options)
    seed = check_seed(options.seed if options.seed is not None else seed)
    narrowing = narrow(scenario, options=options, compilers=compilers, kernel=kernel, techniques=manifest.techniques)
    timeout_s = options.timeout_s if options.timeout_s is not None else scenario.budget.timeout_s
    maker = _Maker(
        scenario=scenario,
        kernel=kernel,
        manifest=manifest,
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


def _hash(*parts: object) -> int:
    """A number that depends on nothing but these, on any machine and in any run."""
    digest = hashlib.blake2b("\0".join(str(part) for part in parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - SEED_BITS)


def _ordered(parts: Sequence[Part], seed: int) -> Iterator[tuple[Part, dict[str, Value], int]]:
    """Widest cells first; within a width one repetition of every cell after the other, each in an order of its own."""
    planned = [
        (-int(cell["threads"]), repetition, _hash(seed, "order", repetition, cell_key(part.variant, cell)), part, cell)
        for part in parts
        for cell in cells(part.axes)
        for repetition in range(part.trials)
    ]
    for _width, repetition, _rank, part, cell in sorted(planned, key=lambda entry: entry[:3]):
        yield part, cell, repetition


class _Maker(Frozen, kw_only=True):
    """Makes single trials out of what is the same for all of them."""

    scenario: Scenario
    kernel: KernelInfo
    manifest: Manifest
    topology: Topology
    compilers: Mapping[str, str]
    seed: int
    rules: Rules

    def trial(self, part: Part, cell: dict[str, Value], *, ordinal: int, repetition: int) -> PlannedTrial:
        """One trial of a cell."""
        scenario, threads = self.scenario, int(cell["threads"])
        seed = _hash(self.seed, "trial", repetition, cell_key(part.variant, cell))
        placement = place(str(cell["placement"]), self.topology, threads=threads, seed=seed)
        technique = str(cell.get("technique", ""))
        varied = {name: value for name, value in cell.items() if name not in AXES}
        expectation = expectation_of(
            scenario.expect,
            variant=part.variant,
            role=part.role,
            cell=cell,
            os=self.topology.os,
            arch=self.topology.arch,
        )
        return PlannedTrial(
            ordinal=ordinal,
            scenario=scenario.name,
            variant=part.variant,
            role=part.role,
            cell=cell,
            build=self._build(cell),
            kernel=self.kernel.name,
            technique=technique,
            parameters={**part.parameters, **varied},
            threads=threads,
            align=str(cell["align"]),
            seed=seed,
            placement=placement,
            rules=self.rules,
            expected=expectation.accepted,
            skip=self._skip(str(cell["compiler"]), technique, placement),
        )

    def _build(self, cell: Mapping[str, Value]) -> BuildSpec:
        file = self.scenario.target.file
        return BuildSpec(
            compiler=str(cell["compiler"]),
            flags=tuple(str(cell["flags"]).split()),
            kernel=self.kernel.name,
            kernel_file=f"{self.scenario.folder or '.'}/{file}" if file else "",
        )

    def _skip(self, compiler: str, technique: str, placement: object) -> str:
        """Why this machine cannot run the trial; empty when it can."""
        if compiler not in self.compilers:
            return f"no {compiler} on this machine"
        info = self.manifest.techniques.get(technique)
        if info is not None and info.unavailable:
            return f"technique {technique}: {info.unavailable}"
        return placement.reason if isinstance(placement, NotAvailable) else ""
