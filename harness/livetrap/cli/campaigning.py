"""What every command that runs a campaign shares: progress, Ctrl-C, and where the record goes."""

from __future__ import annotations

import contextlib
import datetime
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from livetrap import build, campaign, expectations, resources
from livetrap import scenario as scenario_file
from livetrap.cli.options import check
from livetrap.database import check_file
from livetrap.model import Frozen, PlannedTrial, Record
from livetrap.plan import Options, Plan
from livetrap.report.lines import Lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.text import one_line
from livetrap.scenario_model import Scenario
from livetrap.store import Store, default_path

SEEDS = 1 << 32
INTERRUPTED = 130
"""Exit status of a campaign that was interrupted."""


class Done(Frozen, kw_only=True):
    """A campaign that has ended, or was interrupted."""

    plan: Plan
    records: tuple[Record, ...]
    outcome: expectations.Outcome
    db: Path
    took_s: float
    interrupted: bool


def load(where: str, options: Options, *, db: str | None) -> Scenario:
    """The scenario of a command line, checked as far as can be before anything is built. HarnessError: it is bad."""
    techniques = resources.technique_names()
    loaded = scenario_file.load(
        where,
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=techniques,
    )
    check(options, techniques=techniques)
    if db is not None:
        check_file(db)
    return loaded


def carry_out(loaded: Scenario, options: Options, *, db: str | None, lines: Lines | None = None, command: str) -> Done:
    """Plans, builds and runs a scenario; progress goes to standard error. Raises HarnessError as the campaign does."""
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
    return Done(
        plan=prepared.plan,
        records=tuple(watcher.records),
        outcome=expectations.summarise(prepared.plan, watcher.records),
        db=path,
        took_s=time.monotonic() - watcher.began,
        interrupted=interrupted,
    )


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
def ended_like_ctrl_c() -> Iterator[None]:
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
