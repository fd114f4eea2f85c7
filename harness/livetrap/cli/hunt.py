"""`livetrap hunt SCENARIO_OR_FOLDER`: makes a rare hang happen soon, and says how to make it happen again."""

from __future__ import annotations

import contextlib
import datetime
import random
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from livetrap import build, campaign, disturb, host, hunting, stats
from livetrap.cli import outputs
from livetrap.cli.campaigning import SEEDS, ScenarioWatcher, check_record, ended_like_ctrl_c, finish, load
from livetrap.cli.options import axes_disturbed, numbers, words
from livetrap.cli.options import flags as flag_lists
from livetrap.cli.outputs import Outputs, Ran
from livetrap.cli.watch_options import duration
from livetrap.errors import HarnessError
from livetrap.hunting import Budget, Hunt, Result, Tried
from livetrap.model import Frozen, Record, Topology
from livetrap.plan import Options, Plan
from livetrap.report.hunt import Best, HuntTold, again, cell_text, print_hunt, print_hunt_end
from livetrap.report.lines import STDOUT, open_lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.text import console, plural, seconds
from livetrap.scenario_check import check_trials
from livetrap.scenario_model import Scenario
from livetrap.shrinking import Shrinking, Shrunk
from livetrap.store import Store, default_path

List = list[str] | None
FLOOR_SHARE = 0.5
"""What is shrunk must hang at least this often beside the recipe that it began with, where no floor is given."""


class Asked(Frozen, kw_only=True):
    """What the command line asks for, beside the cells."""

    budget: Budget
    minimise: bool = False
    floor: float | None = None
    db: str | None = None
    json: str | None = None
    outputs: Outputs = outputs.NONE
    where: str
    """The scenario, as it was named."""
    line: str
    """The command line, for the record."""


def hunt_command(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FOLDER", help="A name that `livetrap list` shows, or a folder.")
    ],
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long: 90, 10m, 2h; 60 s without --trials.")
    ] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="At most so many trials in all.")] = None,
    first: Annotated[bool, typer.Option("--first", help="End with the first hang.")] = False,
    minimise: Annotated[bool, typer.Option("--minimise", help="Then shrink the recipe, for as long again.")] = False,
    floor: Annotated[
        float | None, typer.Option(metavar="RATE", help="What is shrunk must hang at this rate; else half as often.")
    ] = None,
    threads: Annotated[List, typer.Option(metavar="1,2,4", help="Thread counts.")] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where the threads may run.")] = None,
    disturb_: Annotated[List, typer.Option("--disturb", metavar="none,hogs:2", help="What disturbs them.")] = None,
    technique: Annotated[List, typer.Option(metavar="NAME,...", help="How the threads wait.")] = None,
    flags: Annotated[List, typer.Option(metavar="-O1,-O2", help="Compiler flags; repeat it or use commas.")] = None,
    compiler: Annotated[List, typer.Option(metavar="gcc,clang", help="Compilers, by name or path.")] = None,
    variant: Annotated[List, typer.Option(metavar="NAME,...", help="Only these variants; else the buggy ones.")] = None,
    axis: Annotated[List, typer.Option(metavar="NAME=A,B", help="Values of any other axis; repeatable.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Time limit of a trial, in seconds.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats the seeds of a hunt.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, and one of all.")] = None,
    html: outputs.Html = None,
) -> int:
    """Hunts for a hang: spends its time where hangs come from, and tells the recipe that hangs most often."""
    options = Options(
        threads=numbers("threads", threads),
        placement=words("placement", placement),
        technique=words("technique", technique),
        flags=flag_lists(flags),
        compiler=words("compiler", compiler),
        axes=axes_disturbed(axis, disturb_),
        variants=words("variant", variant),
        timeout_s=timeout,
        seed=seed,
    )
    asked = Asked(
        budget=budget(for_=for_, trials=trials, first=first),
        minimise=minimise,
        floor=floor,
        db=db,
        json=json,
        outputs=Outputs(html=html),
        where=scenario,
        line=shlex.join(["livetrap", *(context.obj or [])]),
    )
    _check(asked)
    loaded = load(scenario, options, db=db, json=json)
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        return _hunted(loaded, options, asked, out)


def budget(*, for_: str | None, trials: int | None, first: bool) -> Budget:
    """What a hunt may spend. HarnessError: a time or a number that is none."""
    wrong = check_trials(trials) if trials is not None else ""
    if wrong:
        raise HarnessError(f"--trials {wrong}")
    for_s = duration("for", for_) if for_ is not None else None
    if for_s is None and trials is None:
        for_s = hunting.FOR_S
    return Budget(for_s=for_s, trials=trials, first=first)


def _check(asked: Asked) -> None:
    if asked.floor is not None and not asked.minimise:
        raise HarnessError("--floor is the rate below which --minimise shrinks no further; add --minimise, or drop it")
    if asked.floor is not None and not 0.0 < asked.floor <= 1.0:  # also refuses nan
        raise HarnessError(f"--floor {asked.floor:g}: must be a rate above 0 and at most 1, e.g. 0.1")
    check_record(db=asked.db, json=asked.json)
    outputs.check(asked.outputs, db=asked.db, json=asked.json)


class _Done(Frozen, kw_only=True):
    """A hunt that has ended, was interrupted, or could not go on."""

    result: Result
    shrunk: Shrunk | None
    recipe: tuple[str, ...]
    smallest: tuple[str, ...]
    db: Path
    campaign: int = 0
    took_s: float
    interrupted: bool
    failure: HarnessError | None


def _hunted(loaded: Scenario, options: Options, asked: Asked, out: Console) -> int:
    done = _carry_out(loaded, options, asked)

    def end(interrupted: bool) -> None:
        failed = done.failure is not None
        print_hunt_end(out, done.result, took_s=done.took_s, db=done.db, interrupted=interrupted, failed=failed)

    def told() -> int:
        return finish(
            lambda: print_hunt(out, done.result, recipe=done.recipe, shrunk=done.shrunk, smallest=done.smallest),
            end,
            interrupted=done.interrupted,
            failure=done.failure,
            status=done.result.status,
        )

    return outputs.concluded(asked.outputs, Ran(db=done.db, campaign=done.campaign), told, stream=out.file)


def _carry_out(loaded: Scenario, options: Options, asked: Asked) -> _Done:
    """Plans, builds, hunts and shrinks; progress goes to standard error.

    Raises HarnessError for what is wrong before the first trial; what goes wrong later is in the result.
    """
    topology = host.topology()
    asked_options = _hunted_options(loaded, options, topology)
    cache = build.default_cache()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(SEEDS)
    progress = open_progress(sys.stderr)
    with contextlib.closing(progress):
        watcher = _HuntWatcher(progress, asked.budget)
        prepared = campaign.prepare(loaded, options=asked_options, cache=cache, seed=seed, note=watcher.note)
        hunt = Hunt(prepared.plan, budget=asked.budget, topology=topology)
        path = Path(asked.db) if asked.db else default_path(loaded.name, now=datetime.datetime.now(datetime.UTC))
        interrupted, failure, shrinking = False, None, None
        opened = open_lines(asked.json) if asked.json else contextlib.nullcontext()
        with Store.open(path) as store, opened as lines:
            watcher.lines = lines
            watcher.skipped = hunt.skipped
            about = _about(asked, asked_options, prepared.plan.seed)
            try:
                campaign.run(
                    prepared,
                    store=store,
                    listener=watcher,
                    command=asked.line,
                    about=about,
                    trials=hunt.trials(),
                    ends=hunt.ends,
                )
                shrinking = _shrinking(loaded, asked_options, asked, hunt.result(), seed=seed, cache=cache)
                if shrinking is not None:
                    watcher.shrinks(shrinking.result)
                    shrinking.run(store=store, listener=watcher, command=asked.line)
            except KeyboardInterrupt:
                interrupted = True
            except HarnessError as error:
                failure = error
            current = store.current
            done = _done(loaded, asked, hunt.result(), shrinking.result if shrinking else None, options=options)
            if lines and failure is None:
                lines.write(_told(done, interrupted=interrupted))
    return msgspec.structs.replace(
        done,
        db=path,
        campaign=current,
        took_s=time.monotonic() - watcher.began,
        interrupted=interrupted,
        failure=failure,
    )


def _hunted_options(loaded: Scenario, options: Options, topology: Topology) -> Options:
    """With what is hunted on this machine."""
    kernel = not loaded.target.command
    disturbed = hunting.default_disturbances(topology, for_kernel=kernel, lacking=disturb.lacking())
    return hunting.hunted(loaded, options, disturbed=disturbed)


def _shrinking(
    loaded: Scenario, options: Options, asked: Asked, result: Result, *, seed: int, cache: Path
) -> Shrinking | None:
    if not asked.minimise or result.best is None:
        return None
    hits, trials = _count(result)
    floor = asked.floor if asked.floor is not None else FLOOR_SHARE * max(hits, 1) / max(trials, 1)
    return Shrinking(
        loaded,
        result.best,
        options=options,
        seed=seed,
        floor=min(floor, 1.0),
        cache=cache,
        for_s=asked.budget.for_s or hunting.FOR_S,
    )


def _count(result: Result) -> tuple[int, int]:
    """How often the best recipe hung: since it was chosen, if it has then, else in all its trials."""
    assert result.best is not None
    if result.measured_hits:
        return result.measured_hits, result.measured_trials
    return result.best.hits, result.best.trials


def _done(loaded: Scenario, asked: Asked, result: Result, shrunk: Shrunk | None, *, options: Options) -> _Done:
    def words_of(tried: Tried, hits: int, trials: int) -> tuple[str, ...]:
        return hunting.recipe(asked.where, loaded, tried, trials=again(hits, trials), timeout_s=options.timeout_s)

    small = shrunk.recipe if shrunk else None
    return _Done(
        result=result,
        shrunk=shrunk,
        recipe=words_of(result.best, *_count(result)) if result.best else (),
        smallest=words_of(small, small.hits, small.trials) if small else (),
        db=Path(),
        took_s=0.0,
        interrupted=False,
        failure=None,
    )


def _told(done: _Done, *, interrupted: bool) -> HuntTold:
    """What is written of it."""
    result, best, small = done.result, None, None
    if result.best is not None:
        fresh = result.measured_trials > 0
        counts = (result.measured_hits, result.measured_trials) if fresh else (result.best.hits, result.best.trials)
        best = _best(result.best, done.recipe, *counts, fresh=fresh)
    if done.shrunk is not None and any(one.kept for one in done.shrunk.tries):
        found = done.shrunk.recipe
        small = _best(found, done.smallest, found.hits, found.trials, fresh=True)
    return HuntTold(
        exit_status=130 if interrupted else result.status,
        trials=result.ran,
        hits=result.hits,
        first_s=round(result.first_s, 3) if result.first_s is not None else None,
        first_trial=result.first.id if result.first else None,
        best=best,
        smallest=small,
        interrupted=interrupted,
    )


def _best(tried: Tried, recipe: tuple[str, ...], hits: int, trials: int, *, fresh: bool) -> Best:
    low, high = stats.interval(hits, trials) if trials and (stats.available() or hits in {0, trials}) else (None, None)
    return Best(
        recipe=list(recipe),
        variant=tried.variant,
        cell=dict(tried.cell),
        hits=hits,
        trials=trials,
        low=low,
        high=high,
        fresh=fresh,
    )


def _about(asked: Asked, options: Options, seed: int) -> dict[str, object]:
    spent = {name: value for name, value in (("for_s", asked.budget.for_s), ("most", asked.budget.trials)) if value}
    return {"kind": "hunt", "trials": 0, "seed": seed, "options": msgspec.to_builtins(options), **spent}


class _HuntWatcher(ScenarioWatcher):
    """That of a hunt: tells of the first hang when it comes."""

    def __init__(self, progress: Progress, budget: Budget) -> None:
        super().__init__(progress)
        self.skipped: dict[str, str] = {}
        self._budget = budget
        self._hung = False
        self._begun = False

    def started(self, plan: Plan) -> None:
        """The hunt begins; or its shrinking goes on with another recipe."""
        if self._begun:
            return
        self._begun = True
        self.began = time.monotonic()
        for note in plan.notes:
            if not note.startswith(("changed: disturbance", "narrowed: disturbance")):
                self.note(note)
        for reason in dict.fromkeys(self.skipped.values()):
            count = sum(one == reason for one in self.skipped.values())
            self.note(f"skipped: {plural(count, 'cell')}: {reason}")
        cells = len({trial.cell_key for trial in plan.trials}) - len(self.skipped)
        limits = [f"{self._budget.for_s:g} s"] if self._budget.for_s is not None else []
        limits += [plural(self._budget.trials, "trial")] if self._budget.trials is not None else []
        self.note(f"{plan.scenario.name}: {plural(cells, 'cell')} to hunt in, {' or '.join(limits)}, seed {plan.seed}")
        self.progress.started(self._budget.trials, for_s=self._budget.for_s)

    def shrinks(self, begun: Shrunk) -> None:
        """The hunt is over, and its best recipe is about to be shrunk."""
        recipe = begun.recipe
        floor = f"{100 * begun.floor:.2g} %"
        self.note(f"shrinking {cell_text(recipe.variant, dict(recipe.cell))}, keeping its rate at {floor} or above")
        self.progress.started(None, for_s=self._budget.for_s or hunting.FOR_S)

    def keep(self, record: Record) -> None:
        """Keeps nothing but that it hung: a hunt may have very many."""
        if not self._hung and hunting.is_hit(record):
            self._hung = True
            took = seconds(time.monotonic() - self.began)
            cell = cell_text(record.variant, dict(record.cell))
            self.note(f"hung after {took}: trial {record.id}, {record.verdict}, {record.shape}: {cell}")
