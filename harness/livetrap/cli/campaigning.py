"""What every command that runs a campaign shares: progress, Ctrl-C, and where the record goes."""

from __future__ import annotations

import contextlib
import datetime
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import FrameType

from rich.console import Console

from livetrap import build, campaign, expectations, fingerprints, resources, resuming, sharding
from livetrap import scenario as scenario_file
from livetrap.cli.how import ALONE, How, crew_of, until_of
from livetrap.cli.options import check
from livetrap.database import SIDE_FILES, check_file, check_name, same_file
from livetrap.errors import HarnessError
from livetrap.model import HANGS, Frozen, PlannedTrial, Record
from livetrap.plan import Options, Plan
from livetrap.preparing import Prepared
from livetrap.report.lines import STDOUT, Lines, check_lines, open_lines
from livetrap.report.progress import Progress, open_progress
from livetrap.report.summary import print_end
from livetrap.report.text import one_line
from livetrap.scenario_model import Scenario
from livetrap.store import Store, default_path

SEEDS = 1 << 32
INTERRUPTED = 130
"""Exit status of a campaign that was interrupted."""


class Done(Frozen, kw_only=True):
    """A campaign that has ended, was interrupted, or could not go on."""

    plan: Plan
    records: tuple[Record, ...]
    outcome: expectations.Outcome
    db: Path
    campaign: int = 0
    """Its id in the file; 0: it has none, since nothing began."""
    took_s: float
    interrupted: bool
    failure: HarnessError | None = None
    """Why it could not go on: the disk is full, say."""
    said: str = ""
    """What is to be said beside the outcome."""


def load(where: str, options: Options, *, db: str | None, json: str | None = None) -> Scenario:
    """The scenario of a command line, checked as far as can be before anything is built. HarnessError: it is bad."""
    techniques = resources.technique_names()
    loaded = scenario_file.load(
        where,
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=techniques,
    )
    check(options, techniques=techniques)
    check_record(db=db, json=json)
    return loaded


def check_record(*, db: str | None, json: str | None) -> None:
    """Raises HarnessError where --db or --json names no place for a record, or both the same one."""
    if db is not None:
        check_name("--db", db)
        check_file(db)
    if json is not None:
        check_lines(json)
    if db is not None and json not in {None, STDOUT}:
        for suffix in ("", *SIDE_FILES):
            if same_file(Path(str(json)), Path(db + suffix)):
                raise HarnessError(f"--json {json} is the file of --db {db}; give each its own")


def carry_out(
    loaded: Scenario,
    options: Options,
    *,
    db: str | None,
    json: str | None = None,
    command: str,
    how: How = ALONE,
    kind: str = "run",
) -> Done:
    """Plans, builds and runs a scenario; progress goes to standard error.

    Raises HarnessError for what is wrong before the first trial; what goes wrong later is in the result.
    """
    with listening() as watcher:
        prepared = campaign.prepare(
            loaded,
            options=options,
            cache=build.default_cache(),
            seed=_seed(loaded, options, how),
            note=watcher.note,
            select=lambda plan: sharding.take(plan, how.shard),
        )
        path = Path(db) if db is not None else default_path(loaded.name, now=datetime.datetime.now(datetime.UTC))
        ran = {**fingerprints.of_scenario(loaded), **fingerprints.of_compilers(prepared)}
        about = resuming.about(options, seed=prepared.plan.seed, fingerprint=ran)
        return execute(
            prepared,
            how=how,
            path=path,
            json=json,
            command=command,
            watcher=watcher,
            about={"kind": kind, **about, **how.words()},
        )


def _seed(loaded: Scenario, options: Options, how: How) -> int:
    """The seed of a run that names none: any; but all shards of one must have the same."""
    if how.shard is None:
        return random.SystemRandom().randrange(SEEDS)
    return sharding.common_seed(loaded.name, options)


def execute(
    prepared: Prepared,
    *,
    how: How,
    path: Path,
    json: str | None,
    command: str,
    watcher: ScenarioWatcher,
    about: Mapping[str, object] = {},
    goes_on: int | None = None,
) -> Done:
    """Runs a plan that is ready; `goes_on`: the campaign of that file to go on with, whose trials are not run again.

    Raises HarnessError where the file or the executor is not to be had; what goes wrong later is in the result.
    """
    until = until_of(prepared, how)
    watcher.open_ended = until is not None
    if until is not None:
        watcher.note(until.goal)
    trials, ends = (until.trials(), until.ends) if until else (iter(prepared.plan.trials), _never)
    crew = crew_of(prepared, how)  # before there is a file: whom it cannot have ends the run
    interrupted, failure = False, None
    with Store.open(path) as store, open_lines(json) if json else contextlib.nullcontext() as lines:
        watcher.lines = lines
        had = list(store.records(goes_on)) if goes_on is not None else []
        watcher.records += had
        try:
            campaign.run(
                prepared,
                store=store,
                listener=watcher,
                command=command,
                about=about,
                goes_on=goes_on,
                trials=resuming.rest(trials, had, ends=ends),
                ends=ends,
                crew=crew,
                gaps=resuming.gaps(had),
            )
        except KeyboardInterrupt:
            interrupted = True
        except HarnessError as error:
            failure = error
        current = store.current
    outcome = expectations.summarise(prepared.plan, watcher.records, part=how.shard is not None)
    return Done(
        plan=prepared.plan,
        records=tuple(watcher.records),
        outcome=until.closing(outcome) if until else outcome,
        db=path,
        campaign=current,
        took_s=time.monotonic() - watcher.began,
        interrupted=interrupted,
        failure=failure,
        said=until.text() if until else "",
    )


def _never(_record: Record) -> bool:
    return False


def conclude(done: Done, out: Console, print_body: Callable[[], None]) -> int:
    """Prints what came of a campaign, with its record in any case; returns the exit status.

    Raises the campaign's own failure, after what had finished by then was printed.
    """

    def body() -> None:
        print_body()
        if done.said:
            out.print(one_line(done.said, most=2000), soft_wrap=True)

    def end(interrupted: bool) -> None:
        print_end(
            out,
            done.outcome,
            done.records,
            took_s=done.took_s,
            db=done.db,
            interrupted=interrupted,
            failed=done.failure is not None,
        )

    return finish(body, end, interrupted=done.interrupted, failure=done.failure, status=done.outcome.exit_status)


def finish(
    body: Callable[[], None],
    end: Callable[[bool], None],
    *,
    interrupted: bool,
    failure: HarnessError | None,
    status: int,
) -> int:
    """Prints the body and, whatever interrupts that, the end, which is told whether anything was; the exit status.

    Raises `failure` after that.
    """
    try:
        body()
    except KeyboardInterrupt:
        interrupted = True
    end(interrupted)
    if failure is not None:
        raise failure
    return INTERRUPTED if interrupted else status


class Watcher:
    """Hands what a campaign tells to the progress and to the JSON lines; a base, `keep` takes each record."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.began = time.monotonic()
        self.lines: Lines | None = None

    def keep(self, record: Record) -> None:
        """Takes the record of a trial that is on disk."""
        raise NotImplementedError

    def trial_started(self, trial: PlannedTrial) -> None:
        """A trial begins."""
        self.progress.trial_started(trial)

    def trial_judged(self, record: Record) -> None:
        """A trial is judged and on disk, and evidence is still taken of it."""
        if record.verdict in HANGS:
            told = f"{record.verdict} ({record.certainty}), {record.shape}"
            self.note(f"trial {record.id}: {told}; it is on record, and evidence is being taken")

    def trial_finished(self, record: Record) -> None:
        """A trial is over, and on disk."""
        self.keep(record)
        if self.lines:
            self.lines.write(record)
        self.progress.trial_finished(record)

    def note(self, text: str) -> None:
        """Something that the reader should know."""
        self.progress.print(one_line(text, most=2000))


class ScenarioWatcher(Watcher):
    """That of a scenario: keeps the records."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress)
        self.records: list[Record] = []
        self.open_ended = False
        """The plan does not tell how many trials there will be."""

    def started(self, plan: Plan) -> None:
        self.began = time.monotonic()
        for note in plan.notes:
            self.note(note)
        cells = len({trial.cell_key for trial in plan.trials})
        had = f", {len(self.records)} of them on record" if self.records else ""
        self.note(f"{plan.scenario.name}: {cells} cells, {len(plan.trials)} trials{had}, seed {plan.seed}")
        self.progress.started(None if self.open_ended else max(0, len(plan.trials) - len(self.records)))

    def keep(self, record: Record) -> None:
        self.records.append(record)


@contextlib.contextmanager
def listening() -> Iterator[ScenarioWatcher]:
    """A watcher whose progress goes to standard error."""
    progress = open_progress(sys.stderr)
    with contextlib.closing(progress):
        yield ScenarioWatcher(progress)


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP end a campaign as Ctrl-C does: cleaned up, with a summary.

    SIGINT too where a shell has it ignored, as it does for what runs in the background of a script; but a SIGHUP that
    is ignored (nohup) stays ignored. After the first, all of them are ignored until the process has ended.
    """

    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # No second one: what is left to do is short, and must be done. It may already have arrived, so that its handler
        # is due after this one, and Python would complain if that were SIG_IGN by then.
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in wanted}
    try:
        yield
    finally:
        if interrupted:
            _ignore(wanted)
        else:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore(numbers: Collection[signal.Signals]) -> None:
    """Ignores them until the process has ended: handlers of ours would go before the interpreter does.

    Held back meanwhile, so that none arrives between the last look for arrived ones and the change.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
