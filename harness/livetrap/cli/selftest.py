"""`livetrap selftest`: runs the corpus as a calibration of the harness on this machine."""

from __future__ import annotations

import contextlib
import datetime
import random
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from livetrap import build, calibrating, resources
from livetrap import scenario as scenario_file
from livetrap.calibrating import Corpus
from livetrap.calibration import Calibration, calibrate
from livetrap.cli.campaigning import INTERRUPTED, SEEDS, Watcher, check_record, ended_like_ctrl_c, finish
from livetrap.cli.options import checked_seed, words
from livetrap.errors import HarnessError
from livetrap.model import Frozen, Record
from livetrap.plan import Plan
from livetrap.report.lines import STDOUT, open_lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.selftest import print_calibration, print_calibration_end
from livetrap.report.text import console, plural
from livetrap.scenario_model import Scenario
from livetrap.store import Store, default_path

List = list[str] | None
NAME = "selftest"


def selftest_command(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="One trial of each variant, where it tells most.")] = False,
    scenario: Annotated[List, typer.Option(metavar="NAME,...", help="Only these scenarios, or folders.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats the order and the seeds of a run.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, and one of all.")] = None,
) -> int:
    """Runs all scenarios that came with this copy: what the harness judges here, held against what it should."""
    scenarios, left_out = _load(words("scenario", scenario))
    if seed is not None:
        checked_seed(seed)
    check_record(db=db, json=json)
    command = shlex.join(["livetrap", *(context.obj or [])])
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        done = _carry_out(
            scenarios, left_out, quick=quick, seed=seed, path=Path(db) if db else None, json=json, command=command
        )

        def end(interrupted: bool) -> None:
            ended_early = done.failure is not None
            print_calibration_end(
                out, done.calibration, took_s=done.took_s, db=done.db, interrupted=interrupted, failed=ended_early
            )

        return finish(
            lambda: print_calibration(out, done.calibration, done.skipped),
            end,
            interrupted=done.interrupted,
            failure=done.failure,
            status=done.calibration.exit_status,
        )


def _load(asked: Sequence[str]) -> tuple[list[Scenario], list[str]]:
    """The scenarios to run, each once, and the names of those shipped that are left out.

    Raises HarnessError where one is bad, or two have the same name.
    """
    folder = resources.scenarios_dir()
    kernels, techniques = resources.kernel_names(), resources.technique_names()
    loaded = {
        where: scenario_file.load(where, scenarios_dir=folder, kernels=kernels, techniques=techniques)
        for where in asked or scenario_file.shipped_names(folder)
    }
    # A command's environment would be downloaded: that is done only where it is asked for.
    left_out = [name for name, one in loaded.items() if one.target.command and not asked]
    kept = [one for name, one in loaded.items() if name not in left_out]
    for one in kept:
        if sum(other.name == one.name for other in kept) > 1:
            raise HarnessError(f"--scenario: two are named {one.name!r}; give each by itself")
    return kept, left_out


class _Done(Frozen, kw_only=True):
    """A calibration that has ended, was interrupted, or could not go on."""

    calibration: Calibration
    skipped: dict[str, str]
    db: Path
    took_s: float
    interrupted: bool
    failure: HarnessError | None = None


def _carry_out(
    scenarios: Sequence[Scenario],
    left_out: Sequence[str],
    *,
    quick: bool,
    seed: int | None,
    path: Path | None,
    json: str | None,
    command: str,
) -> _Done:
    """Builds and runs the scenarios; progress goes to standard error.

    Raises HarnessError for what is wrong before the first trial; what goes wrong later is in the result.
    """
    progress = open_progress(sys.stderr)
    watcher = _CorpusWatcher(progress)
    interrupted, failure = False, None
    with contextlib.closing(progress):
        for name in left_out:
            watcher.note(f"{name} is left out: it runs a command and may download; --scenario {name} runs it")
        corpus = calibrating.prepare(
            scenarios,
            seed=seed if seed is not None else random.SystemRandom().randrange(SEEDS),
            cache=build.default_cache(),
            sample=quick,
            note=watcher.note,
        )
        path = path or default_path(NAME, now=datetime.datetime.now(datetime.UTC))
        with Store.open(path) as store, open_lines(json) if json else contextlib.nullcontext() as lines:
            watcher.begin(corpus)
            watcher.lines = lines
            try:
                calibrating.run(corpus, store=store, listener=watcher, command=command)
            except KeyboardInterrupt:
                interrupted = True
            except HarnessError as error:
                failure = error
            calibration = calibrate(calibrating.members(corpus, watcher.records))
            if interrupted:
                calibration = msgspec.structs.replace(calibration, exit_status=INTERRUPTED)
            if lines and failure is None:
                lines.write(calibration)
    return _Done(
        calibration=calibration,
        skipped=corpus.skipped,
        db=path,
        took_s=time.monotonic() - watcher.began,
        interrupted=interrupted,
        failure=failure,
    )


class _CorpusWatcher(Watcher):
    """That of a corpus: keeps the records of each scenario."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress)
        self.records: list[list[Record]] = []

    def begin(self, corpus: Corpus) -> None:
        """All is built, and the first scenario is about to begin."""
        self.began = time.monotonic()
        for name, reason in corpus.skipped.items():
            self.note(f"skipped: {name}: {reason}")
        seeds = {one.plan.seed for one in corpus.scenarios}
        seed = ", ".join(str(one) for one in seeds)
        self.note(f"{plural(len(corpus.scenarios), 'scenario')}, {plural(corpus.trials, 'trial')}, seed {seed}")
        self.progress.started(corpus.trials)

    def started(self, plan: Plan) -> None:
        """The next scenario begins."""
        self.records.append([])
        for note in plan.notes:
            self.note(note)

    def keep(self, record: Record) -> None:
        """Keeps it with its scenario."""
        self.records[-1].append(record)
