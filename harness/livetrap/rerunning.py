"""Repeats a trial from its recipe: the plan of that one trial, its build, and what it came to against the record."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from livetrap import build, data, host, scenario
from livetrap.errors import HarnessError
from livetrap.model import (
    BUGS,
    UNCOUNTED,
    BuildSpec,
    Frozen,
    NotAvailable,
    Placement,
    PlannedTrial,
    Topology,
    Verdict,
)
from livetrap.placement import place, place_command
from livetrap.plan import Plan
from livetrap.preparing import Prepared
from livetrap.resources import kernel_names, scenarios_dir, technique_names
from livetrap.scenario_model import Scenario, Target
from livetrap.store import Stored

SAME, ANOTHER, NOTHING = 0, 1, 3
"""Exit statuses."""


class Comparison(Frozen, kw_only=True):
    """What the repetitions came to, against the record."""

    text: str
    status: int


# --- pure ------------------------------------------------------------------------------------------------------------


def trial_of(stored: Stored) -> PlannedTrial:
    """The trial as its recipe has it. HarnessError: the recipe does not, since another version wrote it."""
    recipe = stored.recipe.get("trial")
    hints = typing.get_type_hints(PlannedTrial)
    try:
        if not isinstance(recipe, Mapping):
            raise msgspec.ValidationError("no trial in it")  # noqa: TRY301 - told as all else that is wrong with it
        known = {name: value for name, value in recipe.items() if name in hints and name != "placement"}
        fields = {name: msgspec.convert(value, hints[name]) for name, value in known.items()}
        where = recipe.get("placement", {})
        if isinstance(where, Mapping) and "reason" in where:
            return PlannedTrial(**fields, placement=msgspec.convert(where, NotAvailable))
        return PlannedTrial(**fields, placement=msgspec.convert(where, Placement))
    except (msgspec.ValidationError, TypeError) as error:
        raise HarnessError(f"trial {stored.record.id} has no recipe that can be repeated: {error}") from error


def placed(trial: PlannedTrial, topology: Topology) -> tuple[PlannedTrial, str]:
    """The trial with its placement as it took effect, where this machine has those CPUs; else anew, and why."""
    given = trial.placement
    here = {cpu.id for cpu in topology.cpus}
    if isinstance(given, Placement):
        wanted = {cpu for mask in given.cpus for cpu in mask}
        if wanted <= here and (topology.affinity or not wanted) and (topology.qos or not given.qos):
            return msgspec.structs.replace(trial, skip=""), ""
    name = given.requested if isinstance(given, Placement) else str(trial.cell.get("placement", "free"))
    if trial.command is not None:
        found = place_command(name, topology, seed=trial.seed)
    else:
        found = place(name, topology, threads=trial.threads, seed=trial.seed)
    skip = found.reason if isinstance(found, NotAvailable) else ""
    return (
        msgspec.structs.replace(trial, placement=found, skip=skip),
        f"its CPUs are not those of this machine: placement {name} is worked out anew",
    )


def compare(recorded: Verdict, verdicts: Sequence[Verdict]) -> Comparison:
    """A bug came again when one repetition had its verdict; any other verdict, when all that are conclusive had it."""
    counted = [verdict for verdict in verdicts if verdict not in UNCOUNTED]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())
    told = f"recorded {recorded}; now {counts or 'nothing'}"
    if recorded in UNCOUNTED or not counted:
        return Comparison(text=f"nothing is said: {told}", status=NOTHING)
    again = counted.count(recorded)
    same = again > 0 if recorded in BUGS else again == len(counted)
    text = f"{'the same' if same else 'NOT the same'} in {again} of {len(counted)}: {told}"
    if not same and recorded in BUGS:
        text += " (which does not prove that it cannot happen)"
    return Comparison(text=text, status=SAME if same else ANOTHER)


# --- what it needs of this machine -----------------------------------------------------------------------------------


def prepare(
    stored: Stored,
    plan: Mapping[str, object],
    *,
    trials: int,
    cache: Path,
    note: Callable[[str], None],
) -> Prepared:
    """So many repetitions of a stored trial, ready to run; `plan` is the document of its campaign.

    Raises HarnessError where the recipe cannot be followed: no such compiler, the scenario's folder is gone.
    """
    topology = host.topology()
    trial, moved = placed(trial_of(stored), topology)
    if moved:
        note(moved)
    folder = str(plan.get("path", "") or "")
    if trial.build is not None and trial.build.kernel_file:
        trial = msgspec.structs.replace(trial, build=_found(trial.build, folder))
    prepared = Prepared(plan=_plan(trial, (trial,), topology))
    if trial.build is not None and not trial.skip:
        prepared = _built(stored, trial, cache=cache, note=note)
        trial = prepared.plan.trials[0]
        if trial.data and not Path(trial.data).is_file():
            trial = _with_data(trial, prepared, folder or trial.scenario, cache=cache)
    repeated = tuple(msgspec.structs.replace(trial, ordinal=ordinal) for ordinal in range(trials))
    return msgspec.structs.replace(prepared, plan=_plan(trial, repeated, topology))


def _plan(trial: PlannedTrial, trials: tuple[PlannedTrial, ...], topology: Topology) -> Plan:
    """A plan of this trial alone, of a scenario of which no more is known than that it has it."""
    known = Scenario(
        schema=1,
        name=trial.scenario,
        summary="",
        target=Target(kernel=trial.kernel, command=trial.command.argv if trial.command else ()),
        variants={},
    )
    return Plan(scenario=known, trials=trials, seed=trial.seed, os=topology.os, arch=topology.arch)


def _found(spec: BuildSpec, folder: str) -> BuildSpec:
    """The build with the kernel's file where it lies now: the record may name it as seen from another folder."""
    if Path(spec.kernel_file).is_file() or not folder:
        return spec
    return msgspec.structs.replace(spec, kernel_file=str(Path(folder) / Path(spec.kernel_file).name))


def _built(stored: Stored, trial: PlannedTrial, *, cache: Path, note: Callable[[str], None]) -> Prepared:
    spec = trial.build
    if spec is None:  # the caller has looked
        raise HarnessError(f"trial {stored.record.id} has no build", status=3)
    compiler = build.find_compiler(spec.compiler)
    if isinstance(compiler, NotAvailable):
        raise HarnessError(f"trial {stored.record.id} was built by {spec.compiler}: {compiler.reason}", status=3)
    built = build.build(spec, compiler=compiler, cache=cache, starting=lambda: note(f"building {spec.kernel}"))
    if stored.recipe.get("module") not in {"", None, built.module}:
        note("not the build of the record: its sources, the compiler or Python have changed since")
    kernel = build.manifest(built).kernels.get(trial.kernel)
    if kernel is None:
        raise HarnessError(f"trial {stored.record.id}: the build has no kernel {trial.kernel!r} any more")
    return Prepared(
        plan=_plan(trial, (trial,), host.topology()),
        builds={spec: built},
        kernel=kernel,
        versions={spec.compiler: compiler.version},
    )


def _with_data(trial: PlannedTrial, prepared: Prepared, where: str, *, cache: Path) -> PlannedTrial:
    """The trial with the data of its kernel made again, as its scenario says."""
    names: Collection[str] = kernel_names()
    loaded = scenario.load(where, scenarios_dir=scenarios_dir(), kernels=names, techniques=technique_names())
    if prepared.kernel is None or not loaded.target.data:
        raise HarnessError(f"the data of the trial, {trial.data}, is not there any more")
    return data.equip([trial], loaded.target.data, kernel=prepared.kernel, cache=cache)[0]
