"""Turns the options of `livetrap watch` into cells and trials, and says what a watch's verdicts come to. Pure.

A cell is one combination of the values of all `--env`, `--param`, `--placement` and `--disturb`. Trials go round: the
first of every cell, then the second of every cell, and so on, so that a watch that ends early has tried all of them
alike. A trial's seed follows from the watch's seed, its cell and its repetition.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

import msgspec

from livetrap import placeholders, sharding
from livetrap.errors import HarnessError, nearest
from livetrap.model import (
    BUGS,
    HANGS,
    CommandSpec,
    Frozen,
    NotAvailable,
    Placement,
    PlannedTrial,
    Record,
    Rules,
    Topology,
    Value,
    VariantRole,
    Verdict,
    cell_key,
)
from livetrap.placement import place_command
from livetrap.scenario_model import MOST_CELLS
from livetrap.seeds import trial_seed
from livetrap.sharding import Shard

SCENARIO = "watch"
"""What the records of a watch have as their scenario ..."""
VARIANT = "command"
"""... and as their variant."""
PLACEMENT = "placement"
DISTURBANCE = "disturbance"
SEED = "seed"
"""A placeholder that needs no values: the trial's own seed."""
TRIALS = 100
"""Trials a cell where neither a number nor a time is given."""
TIMEOUT_S = 60.0
LEAST_CPUS = 2
"""CPUs that a job must have for itself: on one alone, threads meet too seldom."""
NOTHING_SAID = 3
BISECT_SKIP = 125
"""What `git bisect run` takes for: nothing can be said of this commit."""
FATAL = 128
"""From this status on `git bisect run` stops, as it should after an interruption."""

Values = dict[str, tuple[Value, ...]]

_BRACED = re.compile(r"\{\{?[A-Za-z_][A-Za-z0-9_]*\}")
"""A placeholder, or what is to be literal text that looks like one."""


class Options(Frozen, kw_only=True):
    """All that a watch is asked for, checked by the command line."""

    command: tuple[str, ...]
    """The program and its arguments, placeholders not yet filled in."""
    environment: Values = {}
    """Values of each variable that is varied or set."""
    parameters: Values = {}
    """Values of each placeholder."""
    placements: tuple[str, ...] = ()
    disturbances: tuple[str, ...] = ()
    trials: int | None = None
    """Trials a cell; None: `for_s` says when it ends, or TRIALS where that is None too."""
    for_s: float | None = None
    """No trial begins after this time, in seconds."""
    timeout_s: float = TIMEOUT_S
    """Time limit of a trial."""
    stall_s: float | None = None
    """A shorter stall is never suspect; None: the rules' own floors."""
    startup_s: float | None = None
    """See Rules.startup_s."""
    progress: str = ""
    """See CommandSpec.progress."""
    jobs: int = 1
    """Trials side by side."""
    keep_going: bool = False
    """Do not stop at the first hang."""
    on_hang: str = ""
    """A shell command that is run with the pid while the hang is alive; empty: none."""
    leave: bool = False
    """Leave a hung process alive."""
    core: bool = False
    """Keep a core dump of each hang."""
    seed: int | None = None
    shard: Shard | None = None
    """Only this part of the trials."""


class Watch(Frozen, kw_only=True):
    """A watch ready to run: `trials` gives its trials, one after the other."""

    name: str
    """The program's base name."""
    options: Options
    """With `trials` or `for_s` or both set, and a seed."""
    cells: tuple[dict[str, Value], ...]
    rules: Rules
    topology: Topology
    seed: int
    unavailable: dict[str, str] = {}
    """Why this machine does not have a disturbance, by its text; those it has are left out."""

    @property
    def total(self) -> int | None:
        """How many trials there will be at most; None: only the time ends it."""
        if self.options.trials is None:
            return None
        firsts = [trial(self, cell, ordinal=0, repetition=0) for cell in self.cells]
        ranks = sharding.ranks(firsts)
        return sum(
            sharding.share(ranks[first.cell_key], 1 if first.skip else self.options.trials, self.options.shard)
            for first in firsts
        )

    def ends_at(self, verdict: Verdict) -> bool:
        """Whether the watch ends with a trial of this verdict."""
        return verdict in HANGS and not self.options.keep_going


# --- planning --------------------------------------------------------------------------------------------------------


def plan(options: Options, *, topology: Topology, seed: int, unavailable: Mapping[str, str] | None = None) -> Watch:
    """The watch that these options ask for, on this machine.

    `seed` is used where the options give none; `unavailable` tells why this machine does not have a disturbance.
    Raises HarnessError for a placeholder without values, values without a placeholder, and too many cells.
    """
    _check_placeholders(options)
    taken = options if options.seed is not None else msgspec.structs.replace(options, seed=seed)
    if taken.trials is None and taken.for_s is None:
        taken = msgspec.structs.replace(taken, trials=TRIALS)
    cells = _cells(taken)
    if taken.shard is not None and taken.trials is not None:
        sharding.check(taken.shard, trials=len(cells) * taken.trials)
    return Watch(
        name=PurePath(_filled(taken.command[0], {SEED: seed, **cells[0]})).name or taken.command[0],
        options=taken,
        cells=cells,
        rules=_rules(taken),
        topology=topology,
        seed=taken.seed if taken.seed is not None else seed,
        unavailable=dict(unavailable or {}),
    )


def trials(watch: Watch) -> Iterator[PlannedTrial]:
    """The trials in the order in which they run, endless where only the time ends them.

    A cell that this machine cannot run comes once, with the reason in `skip`.
    """
    ranks = sharding.ranks(trial(watch, cell, ordinal=0, repetition=0) for cell in watch.cells)
    return sharding.of_shard(_trials(watch), watch.options.shard, ranks)


def _trials(watch: Watch) -> Iterator[PlannedTrial]:
    """Those of all shards."""
    wanted = watch.options.trials
    ordinals = itertools.count()
    for repetition in itertools.count() if wanted is None else range(wanted):
        ran = False
        for cell in watch.cells:
            planned = trial(watch, cell, ordinal=0, repetition=repetition)
            ran = ran or not planned.skip
            if repetition == 0 or not planned.skip:
                yield msgspec.structs.replace(planned, ordinal=next(ordinals))
        if not ran:
            return


def trial(watch: Watch, cell: Mapping[str, Value], *, ordinal: int, repetition: int) -> PlannedTrial:
    """One trial of a cell."""
    options = watch.options
    seed = trial_seed(watch.seed, repetition, cell_key(VARIANT, cell))
    placement = place_command(str(cell.get(PLACEMENT, "free")), watch.topology, seed=seed)
    disturbance = str(cell.get(DISTURBANCE, ""))
    why_not = watch.unavailable.get(disturbance, "")
    return PlannedTrial(
        ordinal=ordinal,
        scenario=SCENARIO,
        variant=VARIANT,
        role=VariantRole.WATCHED,
        cell=dict(cell),
        command=CommandSpec(
            argv=tuple(_filled(word, {SEED: seed, **cell}) for word in options.command),
            environment={name: str(cell[name]) for name in options.environment},
            progress=options.progress,
        ),
        disturbance="" if disturbance == "none" else disturbance,
        parameters={name: cell[name] for name in options.parameters},
        seed=seed,
        placement=placement,
        rules=watch.rules,
        expected=(Verdict.PASSED,),
        skip=placement.reason if isinstance(placement, NotAvailable) else why_not,
    )


def shortened(watch: Watch, had: Iterable[Record]) -> Watch:
    """The watch with the time that is left of it, after the trials that it has had; some of them side by side."""
    for_s = watch.options.for_s
    if for_s is None:
        return watch
    left_s = max(0.0, for_s - sum(record.wall_s for record in had) / watch.options.jobs)
    return msgspec.structs.replace(watch, options=msgspec.structs.replace(watch.options, for_s=left_s))


def repeat_words(watch: Watch, cell: Mapping[str, Value]) -> tuple[str, ...]:
    """The command line that runs the trials of one cell again, with the same seeds."""
    options = watch.options
    words = ["livetrap", "watch", "--seed", str(watch.seed), "--timeout", f"{options.timeout_s:g}"]
    for name, value in cell.items():
        if name == PLACEMENT:
            words += ["--placement", str(value)]
        elif name == DISTURBANCE:
            words += ["--disturb", str(value)]
        else:
            words += ["--env" if name in options.environment else "--param", f"{name}={value}"]
    for option, given in (("--stall", options.stall_s), ("--startup", options.startup_s)):
        words += [option, f"{given:g}"] if given is not None else []
    words += ["--progress", options.progress] if options.progress else []
    return (*words, "--", *options.command)


def _cells(options: Options) -> tuple[dict[str, Value], ...]:
    axes: Values = {**options.environment, **options.parameters}
    if options.placements:
        axes[PLACEMENT] = options.placements
    if options.disturbances:
        axes[DISTURBANCE] = options.disturbances
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST_CELLS:
        raise HarnessError(f"the options span {count} cells, more than {MOST_CELLS}; take out values")
    return tuple(dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


def _rules(options: Options) -> Rules:
    usual = Rules(limit_s=options.timeout_s, startup_s=options.startup_s)
    if options.stall_s is None:
        return usual
    return Rules(
        limit_s=options.timeout_s,
        startup_s=options.startup_s,
        floor_s=options.stall_s,
        silent_floor_s=options.stall_s,
        finishing_floor_s=max(usual.finishing_floor_s, options.stall_s),
    )


def _filled(word: str, values: Mapping[str, Value]) -> str:
    """A word with its placeholders filled in; one without any stays as it is, whatever braces it has."""
    return placeholders.fill(word, values) if _BRACED.search(word) else word


def _check_placeholders(options: Options) -> None:
    used = {name for word in options.command for name in placeholders.names(word)}
    for name in sorted(used - options.parameters.keys() - {SEED}):
        known = f"{nearest(name, options.parameters)}; " if options.parameters else ""
        raise HarnessError(
            f"unknown placeholder {{{name}}} in the command; {known}give it values with --param {name}=a,b, "
            f"or write {{{{{name}}}}} for the braces themselves"
        )
    for name in options.parameters:
        if name not in used:
            raise HarnessError(f"--param {name}: the command has no {{{name}}}; put it where the values belong")


# --- CPUs ------------------------------------------------------------------------------------------------------------


def shares(topology: Topology, jobs: int) -> tuple[Topology, ...]:
    """The CPUs of each of so many jobs: neighbouring cores, none in two shares.

    Where a job would have fewer than LEAST_CPUS, or where the system pins nothing, each has the whole machine.
    """
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu in sorted(topology.cpus, key=lambda cpu: (cpu.node, cpu.package, cpu.core, cpu.id)):
        cores.setdefault((cpu.node, cpu.package, cpu.core), []).append(cpu.id)
    groups = list(cores.values())
    parts = [groups[job * len(groups) // jobs : (job + 1) * len(groups) // jobs] for job in range(jobs)]
    chosen = [{cpu for group in part for cpu in group} for part in parts]
    if jobs == 1 or not topology.affinity or min(len(cpus) for cpus in chosen) < LEAST_CPUS:
        return (topology,) * jobs
    return tuple(
        msgspec.structs.replace(topology, cpus=tuple(cpu for cpu in topology.cpus if cpu.id in cpus)) for cpus in chosen
    )


def confined(planned: PlannedTrial, share: Topology, *, whole: Topology) -> PlannedTrial:
    """The trial as a job with this share of the whole machine runs it: its placement keeps to the share's CPUs."""
    if len(share.cpus) == len(whole.cpus) or isinstance(planned.placement, NotAvailable):
        return planned
    placement = place_command(planned.placement.requested, share, seed=planned.seed)
    if isinstance(placement, NotAvailable):  # it needs more CPUs than the share has, and the machine has them
        return planned
    if not placement.cpus:
        placement = Placement(requested=placement.requested, cpus=(tuple(cpu.id for cpu in share.cpus),))
    return msgspec.structs.replace(planned, placement=placement)


# --- what it comes to ------------------------------------------------------------------------------------------------


def exit_status(counts: Mapping[Verdict, int]) -> int:
    """0: every trial passed. 1: some trial showed a bug. 3: anything else, no trial at all included."""
    if any(counts.get(verdict) for verdict in BUGS):
        return 1
    return 0 if counts.get(Verdict.PASSED) == sum(counts.values()) > 0 else NOTHING_SAID


def bisect_status(status: int) -> int:
    """The same as `git bisect run` takes it: 0 good, 1 bad, 125 skip; an interruption stays one."""
    return status if status in {0, 1} or status >= FATAL else BISECT_SKIP
