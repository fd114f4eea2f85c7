"""Those who run the trials of a campaign: one supervisor each, one trial at a time, side by side where asked for."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

import msgspec

from livetrap import disturb
from livetrap.errors import HarnessError
from livetrap.model import Frozen, Judgement, NotAvailable, PlannedTrial, ThreadId, Verdict
from livetrap.recording import unrun
from livetrap.targets.supervisor import Launched, Supervisor
from livetrap.trial import Aftermath, Disturbing, Job, Outcome, Watch, run_trial


class Care(Protocol):
    """What is done about a target that was still there at its verdict."""

    @property
    def takes_time(self) -> bool:
        """`alive` may take seconds."""

    def alive(self, trial: PlannedTrial, judgement: Judgement, watch: Watch, /) -> Aftermath:
        """What is done while it is."""

    def gone(self, trial: PlannedTrial, outcome: Outcome, /) -> dict[str, object]:
        """What is found out once nothing of it is left, as more evidence."""


EARLY_S = 0.1
"""So often it is asked, while trials run side by side, whether one of them is judged already."""


class Work(Frozen, kw_only=True):
    """A trial with all that it needs to run."""

    trial: PlannedTrial
    job: Job


class Worker:
    """Runs one trial at a time. Its supervisor is made when it is needed, and made again when it was lost."""

    def __init__(self, *, care: Care, judged: Callable[[Work, Outcome], None], cancelled: Callable[[], bool]) -> None:
        self._judged = judged
        self._care = care
        self._cancelled = cancelled
        self._supervisor: Supervisor | None = None
        self._herd = disturb.Herd()

    def run(self, work: Work) -> Outcome:
        """Runs a trial; what the harness could not do is the verdict `error`."""
        trial, job = work.trial, work.job
        if trial.skip:
            return unrun(Verdict.SKIPPED, trial.skip, job.gaps)
        try:
            if self._supervisor is None:
                self._supervisor = Supervisor.start()
            if trial.disturbance:
                disturb.prepare(trial.disturbance, cpus=_cpus(trial), herd=self._herd)
            outcome = run_trial(
                trial,
                job,
                supervisor=self._supervisor,
                disturb=lambda watch, launched: _disturbing(trial, watch, launched, self._herd),
                judged=lambda outcome: self._judged(work, outcome) if self._care.takes_time else None,
                after=lambda judgement, watch: self._care.alive(trial, judgement, watch),
                cancelled=self._cancelled,
            )
            if outcome.exit is not None:
                return outcome
            found = outcome.evidence | self._care.gone(trial, outcome)
            return msgspec.structs.replace(outcome, evidence=found)
        except HarnessError as failure:
            self._end()
            return unrun(Verdict.ERROR, str(failure), job.gaps)

    def close(self) -> None:
        """Ends the supervisor and all that it owns, and the hogs."""
        self._herd.close()
        self._end()

    def _end(self) -> None:
        if self._supervisor:
            self._supervisor.close()
            self._supervisor = None


def _disturbing(trial: PlannedTrial, watch: Watch, launched: Launched, herd: disturb.Herd) -> Disturbing | None:
    if not trial.disturbance:
        return None

    def threads() -> list[ThreadId]:
        """Those of a kernel once they are placed: the placement is read back."""
        return watch.threads if watch.started else []

    return disturb.start(
        trial.disturbance,
        pid=launched.pid,
        seed=trial.seed,
        cpus=_cpus(trial),
        tids=None if trial.command else threads,
        herd=herd,
    )


def _cpus(trial: PlannedTrial) -> list[int]:
    """The CPUs that it may use; none: all of them."""
    masks = () if isinstance(trial.placement, NotAvailable) else trial.placement.cpus
    return sorted({cpu for mask in masks for cpu in mask})


class Crew:
    """Workers side by side; `share` fits a trial to the place of the worker that runs it. A context manager."""

    def __init__(
        self,
        *,
        care: Care,
        judged: Callable[[Work, Outcome], None],
        jobs: int = 1,
        share: Callable[[PlannedTrial, int], PlannedTrial] = lambda trial, _: trial,
    ) -> None:
        self._stop = threading.Event()
        self._share = share
        self._tell = judged
        self._early: queue.SimpleQueue[tuple[Work, Outcome]] = queue.SimpleQueue()
        early = judged if jobs == 1 else self._note_early
        self._workers = [Worker(care=care, judged=early, cancelled=self._stop.is_set) for _ in range(jobs)]

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for worker in self._workers:
            worker.close()

    def outcomes(self, works: Iterator[Work]) -> Generator[tuple[Work, Outcome], None, None]:
        """Each trial with what came of it, as they end. Close it to end those that still run, untold.

        What is judged, but still has evidence taken of it, has been told to `judged` before."""
        if len(self._workers) == 1:
            for work in works:
                yield work, self._workers[0].run(work)
            return
        yield from self._side_by_side(works)

    def _note_early(self, work: Work, outcome: Outcome) -> None:
        """Called by a worker's thread; the campaign hears of it in its own."""
        self._early.put((work, outcome))

    def _tell_early(self) -> None:
        while not self._early.empty():
            self._tell(*self._early.get())

    def _side_by_side(self, works: Iterator[Work]) -> Generator[tuple[Work, Outcome], None, None]:
        pool = concurrent.futures.ThreadPoolExecutor(len(self._workers), thread_name_prefix="livetrap")
        idle = list(range(len(self._workers)))
        running: dict[concurrent.futures.Future[Outcome], tuple[int, Work]] = {}
        try:
            more = True
            while more or running:
                while more and idle:
                    work = next(works, None)
                    if work is None:
                        more = False
                        break
                    place = idle.pop(0)
                    work = Work(trial=self._share(work.trial, place), job=work.job)
                    running[pool.submit(self._workers[place].run, work)] = (place, work)
                if not running:
                    break
                done, _ = concurrent.futures.wait(
                    running, timeout=EARLY_S, return_when=concurrent.futures.FIRST_COMPLETED
                )
                self._tell_early()
                for future in done:
                    place, work = running.pop(future)
                    idle.append(place)
                    yield work, future.result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
