"""`livetrap watch -- COMMAND`: runs a command again and again until it hangs or the budget ends."""

from __future__ import annotations

import contextlib
import datetime
import random
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from livetrap import campaign, disturb, disturbances, fingerprints, host, resuming, sharding, watching
from livetrap.cli import outputs
from livetrap.cli.campaigning import SEEDS, Watcher, check_record, ended_like_ctrl_c, finish
from livetrap.cli.outputs import Outputs, Ran
from livetrap.cli.watch_options import assignments, check, duration, each
from livetrap.errors import HarnessError
from livetrap.model import Frozen, PlannedTrial, Record
from livetrap.report.lines import STDOUT, open_lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.text import console, plural
from livetrap.report.watch import Tally, command_text, print_watch, print_watch_end
from livetrap.store import Store, default_path
from livetrap.targets.command import resolve
from livetrap.watching import Options, Watch

List = list[str] | None
MOST_RESOLVED = 256
"""Cells whose program is looked for before the first trial; beyond that, a trial says it."""


def watch_command(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    command: Annotated[List, typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Trials a cell; 100 without --for.")] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="No trial begins later: 90, 10m, 2h.")
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="S", help="Time limit of a trial.")] = watching.TIMEOUT_S,
    stall: Annotated[float | None, typer.Option(metavar="S", help="A shorter stall is never suspect.")] = None,
    startup: Annotated[float | None, typer.Option(metavar="S", help="It has begun to work after S seconds.")] = None,
    env: Annotated[List, typer.Option(metavar="NAME=A,B", help="Values of a variable; repeatable.")] = None,
    param: Annotated[
        List, typer.Option(metavar="NAME=A,B", help="Values of {NAME} in the command; repeatable.")
    ] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where it may run.")] = None,
    disturb_: Annotated[List, typer.Option("--disturb", metavar="none,hogs:2", help="What disturbs it.")] = None,
    progress: Annotated[
        str | None, typer.Option(metavar="output|io|beats|regex:RE", help="What shows that it goes on.")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Trials side by side.")] = 1,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop at the first hang.")] = False,
    on_hang: Annotated[
        str | None, typer.Option(metavar="CMD", help="Run in a shell while it hangs; {pid} is its process.")
    ] = None,
    leave: Annotated[bool, typer.Option("--leave", help="Leave the hung process alive, for a debugger.")] = False,
    core: Annotated[bool, typer.Option("--core", help="Keep a core dump of the hang.")] = False,
    bisect: Annotated[bool, typer.Option("--bisect", help="Exit statuses for `git bisect run`.")] = False,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats the seeds of a watch.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Only the I-th of N parts of the trials.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, as it ends.")] = None,
    html: outputs.Html = None,
    junit: outputs.Junit = None,
    github: outputs.Github = False,
) -> int:
    """Runs a command until it hangs or the budget ends, judges each run, and says which settings hung how often."""
    with _as_bisect_takes_it(bisect):
        options = Options(
            command=tuple(command or ()),
            environment=assignments("env", env),
            parameters=assignments("param", param),
            placements=each("placement", placement),
            disturbances=each("disturb", disturb_),
            trials=trials,
            for_s=duration("for", for_) if for_ is not None else None,
            timeout_s=timeout,
            stall_s=stall,
            startup_s=startup,
            progress=_filled("progress", progress, what="one of output, io, beats, regex:RE"),
            jobs=jobs,
            keep_going=keep_going,
            on_hang=_filled("on-hang", on_hang, what="a command"),
            leave=leave,
            core=core,
            seed=seed,
            shard=sharding.parse(shard) if shard is not None else None,
        )
        asked = Outputs(html=html, junit=junit, github=github)
        line = shlex.join(["livetrap", *(context.obj or [])])
        status = _watched(options, db=db, json=json, line=line, asked=asked)
    return watching.bisect_status(status) if bisect else status


@contextlib.contextmanager
def _as_bisect_takes_it(bisect: bool) -> Iterator[None]:
    """An error is no fault of the commit under test."""
    try:
        yield
    except HarnessError as error:
        if bisect:
            error.status = watching.bisect_status(error.status)
        raise


def _watched(options: Options, *, db: str | None, json: str | None, line: str, asked: Outputs) -> int:
    """Checks, runs and tells; returns the exit status. `line` is the command line for the record."""
    check(options)
    check_record(db=db, json=json)
    outputs.check(asked, db=db, json=json)
    watch = planned(options)
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        done = carry_out(watch, db=db, json=json, line=line)
        ran = Ran(db=done.db, campaign=done.campaign)
        return outputs.concluded(asked, ran, lambda: conclude(done, out), stream=out.file)


def _filled(option: str, text: str | None, *, what: str) -> str:
    if text is not None and not text.strip():
        raise HarnessError(f"--{option} is empty; give {what}, or leave it out")
    return text or ""


def planned(options: Options) -> Watch:
    """The watch, with every program that it runs found. HarnessError: one is not there or cannot be run."""
    topology = host.topology()
    lacking = disturb.lacking() if options.disturbances else {}
    reasons = {
        text: disturbances.available(disturbances.parse(text), topology=topology, for_kernel=False, lacking=lacking)
        for text in options.disturbances
    }
    watch = watching.plan(
        options,
        topology=topology,
        seed=_seed(options),
        unavailable={text: reason for text, reason in reasons.items() if reason},
    )
    for cell in watch.cells[:MOST_RESOLVED]:
        trial = watching.trial(watch, cell, ordinal=0, repetition=0)
        if trial.command is not None:
            resolve(trial.command)
    return watch


def _seed(options: Options) -> int:
    """The seed of a watch that names none: any; but all shards of one must have the same."""
    if options.shard is None:
        return random.SystemRandom().randrange(SEEDS)
    return sharding.common_seed(msgspec.structs.replace(options, shard=None))


class Done(Frozen, kw_only=True):
    """A watch that has ended, was interrupted, or could not go on."""

    watch: Watch
    tally: Tally
    db: Path
    campaign: int
    """Its id in the file; 0: it has none, since nothing began."""
    took_s: float
    interrupted: bool
    failure: HarnessError | None = None


def carry_out(watch: Watch, *, db: str | None, json: str | None, line: str, goes_on: int | None = None) -> Done:
    """Runs the watch; progress goes to standard error. `goes_on`: the campaign of that file to go on with."""
    path = Path(db) if db is not None else default_path(f"watch-{watch.name}", now=datetime.datetime.now(datetime.UTC))
    progress = open_progress(sys.stderr)
    listener = _WatchWatcher(progress)
    interrupted, failure = False, None
    opened = open_lines(json) if json else contextlib.nullcontext()
    with contextlib.closing(progress), Store.open(path) as store, opened as lines:
        listener.lines = lines
        had = list(store.records(goes_on)) if goes_on is not None else []
        for record in had:
            listener.keep(record)
        listener.had = len(had)
        try:
            campaign.watch(
                watching.shortened(watch, had),
                store=store,
                listener=listener,
                command=line,
                about=_about(watch),
                goes_on=goes_on,
                planned_trials=_rest(watch, had),
            )
        except KeyboardInterrupt:
            interrupted = True
        except HarnessError as error:
            failure = error
        current = store.current
    return Done(
        watch=watch,
        tally=listener.tally,
        db=path,
        campaign=current,
        took_s=time.monotonic() - listener.began,
        interrupted=interrupted,
        failure=failure,
    )


def _rest(watch: Watch, had: Sequence[Record]) -> Iterator[PlannedTrial]:
    """The trials that are not on record yet; none where one on record was the last."""
    if any(watch.ends_at(record.verdict) for record in had):
        return iter(())
    return resuming.rest(watching.trials(watch), had, ends=lambda _record: False)


def fingerprint(watch: Watch) -> dict[str, object]:
    """What a watch runs."""
    command = watching.trial(watch, watch.cells[0], ordinal=0, repetition=0).command
    return fingerprints.of_command(command) if command is not None else {}


def _about(watch: Watch) -> dict[str, object]:
    shard = {"shard": str(watch.options.shard)} if watch.options.shard else {}
    return {**resuming.about(watch.options, seed=watch.seed, fingerprint=fingerprint(watch)), **shard}


def conclude(done: Done, out: Console) -> int:
    """Prints what came of it, with its record in any case; returns the exit status. Raises its failure after that."""

    def end(interrupted: bool) -> None:
        print_watch_end(
            out,
            done.watch,
            done.tally,
            took_s=done.took_s,
            db=done.db,
            interrupted=interrupted,
            failed=done.failure is not None,
        )

    return finish(
        lambda: print_watch(out, done.watch, done.tally),
        end,
        interrupted=done.interrupted,
        failure=done.failure,
        status=watching.exit_status(done.tally.counts),
    )


class _WatchWatcher(Watcher):
    """That of a watch: counts."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress)
        self.tally = Tally()
        self.had = 0
        """Trials that were on record before."""

    def started(self, watch: Watch) -> None:
        """The watch begins."""
        self.began = time.monotonic()
        cells = plural(len(watch.cells), "cell")
        total = watch.total
        budget = plural(total, "trial") if total is not None else "trials"
        if watch.options.for_s is not None:
            budget += f" for {watch.options.for_s:g} s"
        self.note(f"{command_text(watch.options.command)}: {cells}, {budget}, seed {watch.seed}")
        for text, reason in watch.unavailable.items():
            self.note(f"skipped: --disturb {text}: {reason}")
        if self.had:
            self.note(f"{plural(self.had, 'trial')} of them on record")
        self.progress.started(None if total is None else max(0, total - self.had), for_s=watch.options.for_s)

    def keep(self, record: Record) -> None:
        """Counts it."""
        self.tally.add(record)
