"""A campaign: everything that one plan runs, each trial on disk before the next begins."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from livetrap import build, data, host, resources
from livetrap.errors import HarnessError
from livetrap.model import (
    UNCOUNTED,
    BuildSpec,
    Frozen,
    Gaps,
    Judgement,
    KernelInfo,
    Manifest,
    NotAvailable,
    PlannedTrial,
    Record,
    Shape,
    Verdict,
)
from livetrap.narrowing import narrow, no_technique
from livetrap.observe.symbols import resolve_site
from livetrap.plan import Options, Plan, arguments, plan
from livetrap.scenario_model import Scenario, axes_of
from livetrap.store import Store
from livetrap.targets.supervisor import Supervisor
from livetrap.trial import Outcome, run_trial

LAST_LOOKS = 8
"""Events that are kept of a trial that was never suspect."""


class Listener(Protocol):
    """Whoever wants to see a campaign go on."""

    def started(self, plan: Plan) -> None:
        """The campaign begins."""

    def trial_started(self, trial: PlannedTrial) -> None:
        """A trial begins."""

    def trial_finished(self, record: Record) -> None:
        """A trial is judged, reaped and on disk."""

    def note(self, text: str) -> None:
        """Something that the reader should know."""


class Prepared(Frozen, kw_only=True):
    """A plan with all that it needs to run."""

    plan: Plan
    builds: dict[BuildSpec, build.Built]
    kernel: KernelInfo
    versions: dict[str, str]
    """Version of each compiler that is used."""


def prepare(
    scenario: Scenario,
    *,
    options: Options,
    cache: Path,
    seed: int,
    note: Callable[[str], None] = lambda _text: None,
) -> Prepared:
    """Plans a scenario for this machine and builds what the plan runs.

    Raises HarnessError for options that fit nothing, parameters that the kernel's data cannot be made for, a file that
    does not compile, or where there is no compiler.
    """
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
    kernel = manifest.kernels[scenario.target.kernel_name]
    if scenario.target.data:
        equipped = data.equip(planned.trials, scenario.target.data, kernel=kernel, cache=cache)
        planned = msgspec.structs.replace(planned, trials=equipped)
    wanted = dict.fromkeys(trial.build for trial in planned.trials if not trial.skip)
    return Prepared(
        plan=planned,
        builds={spec: builder.build(spec) for spec in wanted},
        kernel=kernel,
        versions={name: found.version for name, found in compilers.items()},
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


def run(prepared: Prepared, *, store: Store, listener: Listener, command: str = "") -> None:
    """Runs every trial of a plan and stores each as it finishes.

    Raises KeyboardInterrupt upward, after nothing of the trial is left; HarnessError where the file cannot be written.
    """
    planned = prepared.plan
    store.begin_campaign(
        {
            "scenario": planned.scenario.name,
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "path": _where(planned.scenario),
            "command": command,
            "seed": planned.seed,
            "trials": len(planned.trials),
            "narrowed": planned.narrowed,
        },
        {**host.environment(), "compilers": prepared.versions},
    )
    listener.started(planned)
    gaps: dict[str, float] = {}
    crew = _Crew()
    try:
        for trial in planned.trials:
            listener.trial_started(trial)
            known = Gaps(cell_s=gaps.get(trial.cell_key, 0.0))
            outcome = crew.skipped(trial, known) if trial.skip else crew.run(trial, prepared, known)
            record = _record(
                trial, outcome, id_=store.next_id(), version=prepared.versions.get(trial.build.compiler, "")
            )
            store.add(
                record,
                recipe=_recipe(trial, prepared, command=command),
                rules=trial.rules,
                gaps=known,
                judgement=outcome.judgement,
                events=outcome.events if outcome.suspect else outcome.events[-LAST_LOOKS:],
                suspect=outcome.suspect,
            )
            if record.verdict is Verdict.PASSED:
                gaps[trial.cell_key] = max(known.cell_s, record.longest_stall_s)
            listener.trial_finished(record)
    finally:
        crew.close()


class _Crew:
    """The supervisor of this campaign; made when it is needed, and made again when it was lost."""

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None

    def run(self, trial: PlannedTrial, prepared: Prepared, gaps: Gaps) -> Outcome:
        """Runs a trial; what the harness could not do is the verdict `error`."""
        try:
            if self._supervisor is None:
                self._supervisor = Supervisor.start()
            return run_trial(
                trial,
                built=prepared.builds[trial.build],
                arguments=arguments(trial.parameters, prepared.kernel),
                supervisor=self._supervisor,
                gaps=gaps,
            )
        except HarnessError as failure:
            self.close()
            return _unrun(Verdict.ERROR, str(failure), gaps)

    def skipped(self, trial: PlannedTrial, gaps: Gaps) -> Outcome:
        """The outcome of a trial that this machine cannot run."""
        return _unrun(Verdict.SKIPPED, trial.skip, gaps)

    def close(self) -> None:
        """Ends the supervisor and all that it owns."""
        if self._supervisor:
            self._supervisor.close()
            self._supervisor = None


def _unrun(verdict: Verdict, reason: str, gaps: Gaps) -> Outcome:
    judged = Judgement(verdict=verdict, reason=reason, rule="not-run")
    return Outcome(
        judgement=judged,
        events=(),
        gaps=gaps,
        wall_s=0.0,
        reap_s=0.0,
        killed=0,
        cpu_s=None,
        output="",
        modules={},
        suspect=False,
    )


def _where(scenario: Scenario) -> str:
    """Where a scenario that is not shipped lies, absolute; empty for one that is."""
    folder = Path(scenario.folder or ".").resolve()
    return "" if folder.parent == resources.scenarios_dir().resolve() else str(folder)


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


def _record(trial: PlannedTrial, outcome: Outcome, *, id_: int, version: str) -> Record:
    judged = outcome.judgement
    ran = judged.rule != "not-run"
    expected = judged.verdict in trial.expected
    return Record(
        id=id_,
        scenario=trial.scenario,
        variant=trial.variant,
        role=trial.role,
        cell=trial.cell,
        compiler=version or trial.build.compiler,
        placement=_placement(trial, judged),
        seed=trial.seed,
        verdict=judged.verdict,
        certainty=judged.certainty,
        phase=judged.phase,
        shape=judged.shape if ran else Shape(),
        expected=trial.expected,
        as_expected=None if judged.verdict in UNCOUNTED or not trial.expected else expected,
        wall_s=round(outcome.wall_s, 6),
        stall_s=round(judged.stall_s, 6) if ran else 0.0,
        verdict_latency_s=round(judged.stall_s, 6) if ran else None,
        longest_stall_s=round(judged.longest_stall_s, 6),
        beats=judged.beats,
        evidence=_evidence(outcome),
    )


def _placement(trial: PlannedTrial, judged: Judgement) -> dict[str, object]:
    """The strategy asked for, and the CPUs or classes of each thread; null where it did not run so."""
    if isinstance(trial.placement, NotAvailable):
        return {"requested": str(trial.cell.get("placement", "")), "effective": None}
    effective: object = "free"
    if trial.placement.cpus:
        effective = [list(cpus) for cpus in trial.placement.cpus]
    elif trial.placement.qos:
        effective = {"qos": list(trial.placement.qos)}
    ran = judged.verdict not in {Verdict.SKIPPED, Verdict.ERROR}
    return {"requested": trial.placement.requested, "effective": effective if ran else None}


def _evidence(outcome: Outcome) -> dict[str, object]:
    judged = outcome.judgement
    evidence: dict[str, object] = {"reason": judged.reason, "rule": judged.rule}
    if judged.threads:
        evidence["threads"] = msgspec.to_builtins(judged.threads)
    sites = collections.Counter(thread.pc_site for thread in judged.threads if thread.pc_site)
    if sites:
        evidence["spin_sites"] = [
            {"site": site, "where": resolve_site(site, outcome.modules), "threads": count}
            for site, count in sites.most_common()
        ]
    if judged.wakeable:
        evidence["wakeable"] = msgspec.to_builtins(judged.wakeable)
    if outcome.output:
        evidence["output"] = outcome.output
    if judged.rule != "not-run":
        evidence["reap_s"] = round(outcome.reap_s, 6)
        evidence["killed"] = outcome.killed
    if outcome.cpu_s is not None:
        evidence["cpu_s"] = round(outcome.cpu_s, 6)
    return evidence


def _recipe(trial: PlannedTrial, prepared: Prepared, *, command: str) -> dict[str, object]:
    """All that repeats the trial."""
    built = prepared.builds.get(trial.build)
    return {
        "trial": msgspec.to_builtins(trial),
        "module": built.module if built else "",
        "path": str(built.path) if built else "",
        "build_command": list(built.command) if built else [],
        "compiler_version": prepared.versions.get(trial.build.compiler, ""),
        "command": command,
    }
