"""`livetrap run SCENARIO_OR_FOLDER`: runs a scenario, narrowed or changed by options, and records every trial."""

from __future__ import annotations

import contextlib
import datetime
import random
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Annotated

import typer

from livetrap import build, campaign, expectations, resources
from livetrap import scenario as scenario_file
from livetrap.cli.options import axes, check, numbers, words
from livetrap.database import check_file
from livetrap.model import PlannedTrial, Record
from livetrap.plan import Options, Plan
from livetrap.report.lines import Lines, open_lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.summary import print_end, print_summary
from livetrap.report.text import console, one_line
from livetrap.scenario_model import Scenario
from livetrap.store import Store, default_path

List = list[str] | None
SEEDS = 1 << 32
INTERRUPTED = 130


def run_command(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FOLDER", help="A name that `livetrap list` shows, or a folder.")
    ],
    threads: Annotated[List, typer.Option(metavar="1,2,4", help="Thread counts.")] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where the threads may run.")] = None,
    technique: Annotated[List, typer.Option(metavar="NAME,...", help="How the threads wait.")] = None,
    flags: Annotated[List, typer.Option(metavar="-O1,-O2", help="Compiler flags; repeat it or use commas.")] = None,
    compiler: Annotated[List, typer.Option(metavar="gcc,clang", help="Compilers, by name or path.")] = None,
    variant: Annotated[List, typer.Option(metavar="NAME,...", help="Only these variants.")] = None,
    axis: Annotated[List, typer.Option(metavar="NAME=A,B", help="Values of any other axis; repeatable.")] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Trials a cell.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Time limit of a trial, in seconds.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats the order and the seeds of a run.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, as it ends.")] = None,
) -> int:
    """Runs a scenario: every cell that the options leave, each trial in a process of its own, judged and recorded."""
    options = Options(
        threads=numbers("threads", threads),
        placement=words("placement", placement),
        technique=words("technique", technique),
        flags=words("flags", flags),
        compiler=words("compiler", compiler),
        axes=axes(axis),
        variants=words("variant", variant),
        trials=trials,
        timeout_s=timeout,
        seed=seed,
    )
    kernels, techniques = resources.kernel_names(), resources.technique_names()
    loaded = scenario_file.load(
        scenario, scenarios_dir=resources.scenarios_dir(), kernels=kernels, techniques=techniques
    )
    check(options, techniques=techniques)
    if db is not None:
        check_file(db)  # before anything is built
    command = shlex.join(["livetrap", *(context.obj or [])])
    with open_lines(json) if json else contextlib.nullcontext() as lines, _ended_like_ctrl_c():
        out = sys.stderr if json == "-" else sys.stdout
        return _run(loaded, options, db=db, lines=lines, out=out, command=command)


def _run(loaded: Scenario, options: Options, *, db: str | None, lines: Lines | None, out: IO[str], command: str) -> int:
    watcher = _Watcher(open_progress(sys.stderr), lines)
    prepared = campaign.prepare(
        loaded,
        options=options,
        cache=build.default_cache(),
        seed=random.SystemRandom().randrange(SEEDS),
        note=watcher.note,
    )
    path = Path(db) if db is not None else default_path(loaded.name, now=datetime.datetime.now(datetime.UTC))
    interrupted = False
    with Store.open(path) as store, contextlib.closing(watcher.progress):
        try:
            campaign.run(prepared, store=store, listener=watcher, command=command)
        except KeyboardInterrupt:
            interrupted = True
    outcome = expectations.summarise(prepared.plan, watcher.records)
    print_summary(console(out), outcome, watcher.records)
    took_s = time.monotonic() - watcher.began
    print_end(console(out), outcome, watcher.records, took_s=took_s, db=path, interrupted=interrupted)
    return INTERRUPTED if interrupted else outcome.exit_status


class _Watcher:
    """Hands what the campaign tells to the progress and to the JSON lines, and keeps the records."""

    def __init__(self, progress: Progress, lines: Lines | None) -> None:
        self.progress = progress
        self.records: list[Record] = []
        self.began = time.monotonic()
        self._lines = lines

    def started(self, plan: Plan) -> None:
        self.began = time.monotonic()
        for note in plan.notes:
            self.note(note)
        cells = len({trial.cell_key for trial in plan.trials})
        self.note(f"{plan.scenario.name}: {cells} cells, {len(plan.trials)} trials, seed {plan.seed}")
        self.progress.started(len(plan.trials))

    def trial_started(self, trial: PlannedTrial) -> None:
        self.progress.trial_started(trial)

    def trial_finished(self, record: Record) -> None:
        self.records.append(record)
        if self._lines:
            self._lines.write(record)
        self.progress.trial_finished(record)

    def note(self, text: str) -> None:
        self.progress.print(one_line(text, most=2000))


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP end a campaign as Ctrl-C does: cleaned up, with a summary.

    SIGINT too where a shell has it ignored, as it does for what runs in the background of a script; but a SIGHUP that
    is ignored (nohup) stays ignored.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
