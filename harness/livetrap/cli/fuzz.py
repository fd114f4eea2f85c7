"""`livetrap fuzz SCENARIO_OR_FOLDER`: draws trials until one shows a bug, and makes that one simple."""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import random
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from livetrap import trying
from livetrap.cli.campaigning import SEEDS, ScenarioWatcher, check_record, ended_like_ctrl_c, finish, load
from livetrap.cli.options import axes_disturbed, numbers, words
from livetrap.cli.options import flags as flag_lists
from livetrap.cli.watch_options import duration
from livetrap.errors import HarnessError
from livetrap.fuzzing import Space, Trial, is_bug, status
from livetrap.hunting import Tried, recipe
from livetrap.model import Frozen, Record
from livetrap.plan import Options, Plan
from livetrap.report.hunt import cell_text
from livetrap.report.lines import STDOUT, open_lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.text import console, plural, seconds
from livetrap.scenario_check import check_trials
from livetrap.scenario_model import Scenario
from livetrap.store import Store, default_path

if TYPE_CHECKING:
    from livetrap.falsifying import Falsifier, Found

List = list[str] | None
FOR_S = 60.0
"""How long it searches where nothing else is said, in seconds; shrinking may take as long again."""


class Asked(Frozen, kw_only=True):
    """What the command line asks for, beside what is drawn from."""

    where: str
    """The scenario, as it was named."""
    for_s: float | None
    most: int | None
    fresh: bool
    seed: int
    db: str | None
    json: str | None
    line: str
    """The command line, for the record."""


def fuzz_command(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FOLDER", help="A name that `livetrap list` shows, or a folder.")
    ],
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long: 90, 10m, 2h; 60 s without --trials.")
    ] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="At most so many different trials are drawn.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not replay what was found before.")] = False,
    threads: Annotated[List, typer.Option(metavar="1,2,4", help="Thread counts.")] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where the threads may run.")] = None,
    disturb_: Annotated[List, typer.Option("--disturb", metavar="none,hogs:2", help="What disturbs them.")] = None,
    technique: Annotated[List, typer.Option(metavar="NAME,...", help="How the threads wait.")] = None,
    flags: Annotated[List, typer.Option(metavar="-O1,-O2", help="Compiler flags; repeat it or use commas.")] = None,
    compiler: Annotated[List, typer.Option(metavar="gcc,clang", help="Compilers, by name or path.")] = None,
    variant: Annotated[List, typer.Option(metavar="NAME,...", help="Only these variants; else the buggy ones.")] = None,
    axis: Annotated[List, typer.Option(metavar="NAME=A,B", help="Values of any other axis; repeatable.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Time limit of a trial, in seconds.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats what is drawn.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, and one of all.")] = None,
) -> int:
    """Draws trials of a scenario until one shows a bug, and shrinks that to the simplest; the next call replays it."""
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
    wrong = check_trials(trials) if trials is not None else ""
    if wrong:
        raise HarnessError(f"--trials {wrong}")
    for_s = duration("for", for_) if for_ is not None else None
    asked = Asked(
        where=scenario,
        for_s=FOR_S if for_s is None and trials is None else for_s,
        most=trials,
        fresh=fresh,
        seed=seed if seed is not None else random.SystemRandom().randrange(SEEDS),
        db=db,
        json=json,
        line=shlex.join(["livetrap", *(context.obj or [])]),
    )
    _need_hypothesis()
    check_record(db=db, json=json)
    loaded = load(scenario, options, db=db, json=json)
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        return _fuzzed(loaded, msgspec.structs.replace(options, seed=None), asked, out)


def _need_hypothesis() -> None:
    if importlib.util.find_spec("hypothesis") is None:
        raise HarnessError("fuzz needs hypothesis: pip install 'livetrap[fuzz]'", status=3)


class _Done(Frozen, kw_only=True):
    """A fuzzing that has ended, was interrupted, or could not go on."""

    found: Found
    space: Space
    recipe: tuple[str, ...]
    db: Path
    took_s: float
    interrupted: bool
    failure: HarnessError | None


def _fuzzed(loaded: Scenario, options: Options, asked: Asked, out: Console) -> int:
    from livetrap.report.fuzz import print_fuzz, print_fuzz_end  # noqa: PLC0415 - needs an extra

    done = _carry_out(loaded, options, asked)
    ended = _status(done, loaded)

    def end(interrupted: bool) -> None:
        failed = done.failure is not None
        print_fuzz_end(
            out, done.found, status=ended, took_s=done.took_s, db=done.db, interrupted=interrupted, failed=failed
        )

    return finish(
        lambda: print_fuzz(out, done.found, recipe=done.recipe),
        end,
        interrupted=done.interrupted,
        failure=done.failure,
        status=ended,
    )


def _status(done: _Done, loaded: Scenario) -> int:
    return status(done.space, loaded, done.found.record, conclusive=done.found.conclusive)


def _carry_out(loaded: Scenario, options: Options, asked: Asked) -> _Done:
    """Looks at what can be drawn, searches and shrinks; progress goes to standard error.

    Raises HarnessError for what is wrong before the first trial; what goes wrong later is in the result.
    """
    progress = open_progress(sys.stderr)
    opened = open_lines(asked.json) if asked.json else contextlib.nullcontext()
    with contextlib.closing(progress):
        watcher = _FuzzWatcher(progress, asked)
        space = trying.space(asked.where, options, buggy=True, note=watcher.note)
        path = Path(asked.db) if asked.db else default_path(loaded.name, now=datetime.datetime.now(datetime.UTC))
        interrupted, failure = False, None
        about = {"kind": "fuzz", "trials": 0, "seed": asked.seed, "options": msgspec.to_builtins(options)}
        with Store.open(path) as store, opened as lines, trying.Session(note=watcher.note) as session:
            watcher.lines = lines
            watcher.begins(space, loaded)
            search = _search(space, asked, session=session, store=store, watcher=watcher, about=about)
            try:
                search.run()
            except KeyboardInterrupt:
                interrupted = True
            except HarnessError as error:
                failure = error
            done = _Done(
                found=search.result,
                space=space,
                recipe=_recipe(loaded, asked, search.result, options),
                db=path,
                took_s=time.monotonic() - watcher.began,
                interrupted=interrupted,
                failure=failure,
            )
            if lines and failure is None:
                lines.write(_told(done, loaded))
    return done


def _search(
    space: Space,
    asked: Asked,
    *,
    session: trying.Session,
    store: Store,
    watcher: _FuzzWatcher,
    about: dict[str, object],
) -> Falsifier:
    """What searches, with trials that are recorded."""
    from livetrap.falsifying import Falsifier  # noqa: PLC0415 - needs an extra
    from livetrap.strategies import Kept  # noqa: PLC0415 - needs an extra

    def attempt(trial: Trial, repeats: int) -> Sequence[Record]:
        _plan, records = session.run(
            trial, repeats=repeats, ends=is_bug, store=store, listener=watcher, command=asked.line, about=about
        )
        return records

    return Falsifier(
        space,
        attempt,
        seed=asked.seed,
        for_s=asked.for_s,
        most=asked.most,
        kept=Kept(asked.where),
        fresh=asked.fresh,
        shrinks=watcher.shrinks,
    )


def _recipe(loaded: Scenario, asked: Asked, found: Found, options: Options) -> tuple[str, ...]:
    """The command line that runs the example again, as often as it took."""
    if found.trial is None:
        return ()
    cell = dict(found.trial.cell)
    tried = Tried(key="", variant=found.trial.variant, cell=cell, hits=0, trials=0, seconds=0.0)
    words = recipe(asked.where, loaded, tried, trials=found.repeats, timeout_s=options.timeout_s)
    return (*words, "--seed", str(found.trial.seed))


def _told(done: _Done, loaded: Scenario) -> Frozen:
    """What is written of it."""
    from livetrap.report.fuzz import FuzzTold  # noqa: PLC0415 - needs an extra

    found, trial, record = done.found, done.found.trial, done.found.record
    return FuzzTold(
        exit_status=130 if done.interrupted else _status(done, loaded),
        trials=found.trials,
        conclusive=found.conclusive,
        examples=found.examples,
        falsified=trial is not None,
        replayed=found.replayed,
        ended_early=found.ended_early,
        first_s=round(found.first_s, 3) if found.first_s is not None else None,
        variant=trial.variant if trial else "",
        cell=dict(trial.cell) if trial else {},
        seed=trial.seed if trial else None,
        verdict_found=str(record.verdict) if record else "",
        trial=record.id if record else None,
        recipe=done.recipe,
        interrupted=done.interrupted,
    )


class _FuzzWatcher(ScenarioWatcher):
    """That of a fuzzing: tells of the first bug when it comes."""

    def __init__(self, progress: Progress, asked: Asked) -> None:
        super().__init__(progress)
        self._asked = asked

    def begins(self, space: Space, loaded: Scenario) -> None:
        """The search begins."""
        self.began = time.monotonic()
        for reason in space.reasons:
            self.note(f"left out: {reason}")
        limits = [f"{self._asked.for_s:g} s"] if self._asked.for_s is not None else []
        limits += [plural(self._asked.most, "example")] if self._asked.most is not None else []
        drawn = ", ".join(space.variants)
        self.note(f"{loaded.name}: drawing from {drawn}, {' or '.join(limits)}, seed {self._asked.seed}")
        self.progress.started(None, for_s=self._asked.for_s)

    def started(self, plan: Plan) -> None:
        """One more trial was drawn."""

    def trial_judged(self, record: Record) -> None:
        """Told when it is finished."""

    def shrinks(self, record: Record) -> None:
        """The first bug was found, and is about to be made simple."""
        took = seconds(time.monotonic() - self.began)
        cell = cell_text(record.variant, dict(record.cell))
        self.note(f"falsified after {took}: trial {record.id}, {record.verdict}, {record.shape}: {cell}; shrinking")
        self.progress.started(None, for_s=self._asked.for_s)

    def keep(self, record: Record) -> None:
        """Keeps nothing: there may be very many."""
