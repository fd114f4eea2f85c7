"""Makes a scenario ready to run on this machine: its plan, and the builds or environments that the plan needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from livetrap import build, data, disturb, disturbances, host, provisions, resources
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec, Frozen, KernelInfo, Manifest, NotAvailable, PlannedTrial
from livetrap.narrowing import narrow, no_technique
from livetrap.plan import Options, Plan, plan
from livetrap.scenario_model import Scenario, axes_of


class Prepared(Frozen, kw_only=True):
    """A plan with all that it needs to run."""

    plan: Plan
    builds: dict[BuildSpec, build.Built] = {}
    kernel: KernelInfo | None = None
    """None for a command."""
    versions: dict[str, str] = {}
    """Version of each compiler that is used."""

    def built(self, trial: PlannedTrial) -> build.Built | None:
        """The module with the trial's kernel; None for a command, and where nothing was built."""
        return self.builds.get(trial.build) if trial.build else None

    def compiler(self, trial: PlannedTrial) -> str:
        """The compiler with its version; empty for a command."""
        return self.versions.get(trial.build.compiler, trial.build.compiler) if trial.build else ""


def prepare(
    scenario: Scenario,
    *,
    options: Options,
    cache: Path,
    seed: int,
    note: Callable[[str], None] = lambda _text: None,
    select: Callable[[Plan], Plan] = lambda plan: plan,
) -> Prepared:
    """Plans a scenario for this machine and makes what the plan runs: builds of a kernel, environments of a command.

    `select` may take trials out of the plan before anything is made for them.
    Raises HarnessError for options that fit nothing, parameters that the kernel's data cannot be made for, a file that
    does not compile, or where there is no compiler.
    """
    if scenario.target.command:
        return _prepare_command(scenario, options=options, cache=cache, seed=seed, note=note, select=select)
    compilers = _compilers(scenario, options)
    if not compilers:
        missing = build.find_compiler("gcc")
        reason = missing.reason if isinstance(missing, NotAvailable) else "the compilers asked for are not installed"
        raise HarnessError(f"no C compiler: {reason}", status=3)
    check(scenario, options=options, compilers=compilers)
    builder = _Builder(compilers, cache=cache, note=note)
    manifest = _manifest(scenario, options, builder=builder)
    planned = plan(
        scenario,
        options=options,
        topology=host.topology(),
        compilers={name: found.version for name, found in compilers.items()},
        manifest=manifest,
        seed=seed,
    )
    planned = select(planned)
    kernel = manifest.kernels[scenario.target.kernel_name]
    trials = _linkable(_disturbable(planned.trials), compilers)
    if scenario.target.data:
        trials = data.equip(trials, scenario.target.data, kernel=kernel, cache=cache)
    wanted = dict.fromkeys(trial.build for trial in trials if trial.build and not trial.skip)
    return Prepared(
        plan=msgspec.structs.replace(planned, trials=trials),
        builds={spec: builder.build(spec) for spec in wanted},
        kernel=kernel,
        versions={name: found.version for name, found in compilers.items()},
    )


def _prepare_command(
    scenario: Scenario,
    *,
    options: Options,
    cache: Path,
    seed: int,
    note: Callable[[str], None],
    select: Callable[[Plan], Plan],
) -> Prepared:
    planned = select(plan(scenario, options=options, topology=host.topology(), compilers={}, manifest=None, seed=seed))
    trials = _disturbable(planned.trials)
    trials = provisions.equip(trials, scenario, cache=cache, note=note)
    return Prepared(plan=msgspec.structs.replace(planned, trials=trials))


def _disturbable(trials: tuple[PlannedTrial, ...]) -> tuple[PlannedTrial, ...]:
    """The trials, skipped where this machine does not have their disturbance."""
    asked = {trial.disturbance for trial in trials if trial.disturbance}
    if not asked:
        return trials
    lacking, topology = disturb.lacking(), host.topology()
    reasons = {
        (text, for_kernel): disturbances.available(
            disturbances.parse(text), topology=topology, for_kernel=for_kernel, lacking=lacking
        )
        for text in asked
        for for_kernel in (True, False)
    }
    return tuple(
        msgspec.structs.replace(trial, skip=trial.skip or reasons.get((trial.disturbance, trial.command is None), ""))
        for trial in trials
    )


def _linkable(trials: tuple[PlannedTrial, ...], compilers: Mapping[str, build.Compiler]) -> tuple[PlannedTrial, ...]:
    """The trials, skipped where their compiler cannot link as their flags ask."""
    specs = {trial.build for trial in trials if trial.build}
    reasons = {spec: build.lacking_lto(compilers[spec.compiler], spec.flags) for spec in specs}
    return tuple(
        msgspec.structs.replace(trial, skip=trial.skip or reasons[trial.build]) if trial.build else trial
        for trial in trials
    )


def check(scenario: Scenario, *, options: Options, compilers: Collection[str]) -> None:
    """Raises the HarnessError of all that can be seen to be wrong before anything is built.

    What is left for the plan are parameters of the kernel: the built kernel tells them.
    """
    for path, flags in _flags(scenario, options):
        try:
            build.check_flags(tuple(flags.split()))
        except HarnessError as error:
            raise HarnessError(f"{path}: {error}" if path else f"--{error}") from None
    narrow(scenario, options=options, compilers=compilers, kernel=None, techniques=resources.technique_names())
    csrc = resources.csrc_dir()
    kernel = csrc / "kernels" / f"{scenario.target.kernel}.c"
    if options.technique and scenario.target.kernel and not build.may_use_technique(kernel, csrc):
        raise no_technique(scenario)


def _flags(scenario: Scenario, options: Options) -> Iterator[tuple[str, str]]:
    """All flags that may be used, and where they stand; empty: among the options."""
    yield from (("", flags) for flags in options.flags)
    for variant in scenario.variants.values() if not options.flags else ():
        yield from ((scenario.path, str(flags)) for flags in axes_of(scenario, variant)["flags"])


class _Builder:
    """Builds each module once, and says so when there is something to build."""

    def __init__(self, compilers: Mapping[str, build.Compiler], *, cache: Path, note: Callable[[str], None]) -> None:
        self._cache = cache
        self._note = note
        self._built: dict[BuildSpec, build.Built] = {}
        self.compilers = compilers

    def build(self, spec: BuildSpec) -> build.Built:
        """The module, from the cache or made."""
        if spec not in self._built:
            words = f"building {spec.kernel} with {spec.compiler} {' '.join(spec.flags)}"
            self._built[spec] = build.build(
                spec,
                compiler=self.compilers[spec.compiler],
                cache=self._cache,
                starting=lambda: self._note(words),
            )
        return self._built[spec]

    def told(self, spec: BuildSpec) -> Manifest | None:
        """What the module told of itself before, where it is in the cache."""
        found = build.find(spec, compiler=self.compilers[spec.compiler], cache=self._cache)
        return build.kept_manifest(found) if found else None


def _compilers(scenario: Scenario, options: Options) -> dict[str, build.Compiler]:
    """Those that are installed among all that the scenario or the options name; all known ones where neither does."""
    named = set(options.compiler)
    for variant in scenario.variants.values():
        named |= {str(name) for name in axes_of(scenario, variant).get("compiler", ())}
    found = build.installed_compilers()
    for name in named - found.keys():
        one = build.find_compiler(name)
        if isinstance(one, build.Compiler):
            found[name] = one
    return found


def _manifest(scenario: Scenario, options: Options, *, builder: _Builder) -> Manifest:
    """What the kernel tells of itself; any build tells the same, so one in the cache, or one that is needed anyway."""
    first = next(iter(scenario.variants.values()))
    axes = axes_of(scenario, first)
    names = [str(name) for name in (options.compiler or axes.get("compiler", ()))]
    name = next((name for name in names if name in builder.compilers), next(iter(builder.compilers)))
    file = scenario.target.file
    spec = BuildSpec(
        compiler=name,
        flags=tuple(str((options.flags or axes["flags"])[0]).split()),
        kernel=scenario.target.kernel_name,
        kernel_file=f"{scenario.folder or '.'}/{file}" if file else "",
    )
    usual = msgspec.structs.replace(spec, flags=tuple(str(axes["flags"][0]).split()))
    for candidate in dict.fromkeys((spec, usual)):
        told = builder.told(candidate)
        if told is not None:
            return told
    return build.manifest(builder.build(spec))
