"""Runs the trials of a plan on a cluster that is there already: `--executor dask:ADDRESS`, the extra `fleet`.

Each worker of the cluster gets one trial at a time for each set of cores that it has reserved; what comes of it flows
back into the one file. A worker that is lost takes nothing with it: its trial is run again elsewhere.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from livetrap import fleet_worker, host
from livetrap.crew import Work
from livetrap.errors import HarnessError
from livetrap.fleet_cluster import ANSWER_S, CONNECT_S, RESOURCE, check, connected, lost, reason, slots, within
from livetrap.fleet_worker import Brief, Ran, Task
from livetrap.model import Frozen, Verdict
from livetrap.preparing import Prepared
from livetrap.recording import unrun
from livetrap.trial import Outcome

__all__ = ["Fleet", "brief_of", "check", "crew"]

FIRST_S = 15.0
"""So long it is waited for a first worker."""
ALONE_S = 30.0
"""So long a campaign waits for a worker when it has lost all: they may be started again."""
SURVEY_S = 0.5
MOST_LOSSES = 3
"""A trial with which so many workers were lost is not tried again."""


def crew(
    executor: str,
    prepared: Prepared,
    *,
    connect_s: float = CONNECT_S,
    first_s: float = FIRST_S,
    alone_s: float = ALONE_S,
) -> Callable[[Callable[[Work, Outcome], None]], Fleet]:
    """Connects to a cluster; what comes back makes the crew for `campaign.run`.

    HarnessError: see `check`; and, status 3, the scheduler does not answer within `connect_s` seconds, no worker is
    there within `first_s`, or one does not fit. A campaign without any worker for `alone_s` ends with one too.
    """
    check(executor, connect_s=connect_s)
    address = executor.partition(":")[2]
    fleet = Fleet(connected(address, connect_s), address, prepared, alone_s=alone_s)
    try:
        fleet.gather(first_s)
    except BaseException:
        fleet.__exit__()
        raise
    return lambda _judged: fleet  # a worker tells of a trial once, when its evidence is taken too


def brief_of(prepared: Prepared) -> Brief:
    """What a worker must have to run that plan."""
    scenario = prepared.plan.scenario
    words = {
        word
        for trial in prepared.plan.trials
        if trial.command and not trial.skip
        for word in (*trial.command.argv, trial.command.folder)
    }
    return Brief(
        scenario=scenario,
        os=host.os_name(),
        arch=host.arch_name(),
        sources=fleet_worker.sources(scenario),
        compilers={spec.compiler: prepared.versions.get(spec.compiler, "") for spec in prepared.builds},
        paths=tuple(sorted(word for word in words if word.startswith("/") and Path(word).exists())),
    )


class _Sent(Frozen, kw_only=True):
    """A trial on its way."""

    work: Work
    worker: str
    future: Any
    losses: int


class Fleet:
    """The workers of a cluster, as those who run a campaign. A context manager."""

    def __init__(self, client: Any, address: str, prepared: Prepared, *, alone_s: float = ALONE_S) -> None:
        self._client = client
        self._address = address
        self._alone_s = alone_s
        self._campaign = uuid.uuid4().hex
        self._brief = brief_of(prepared)
        self._kernel = prepared.kernel
        self._slots: dict[str, int] = {}
        """Of each worker that is there and fits."""
        self._reserving: set[str] = set()
        """Workers that have the dask resource."""
        self._unfit: dict[str, str] = {}
        self._sent: dict[str, _Sent] = {}
        self._again: collections.deque[tuple[Work, int]] = collections.deque()
        """Trials whose worker was lost, and how often."""
        self._ended: queue.SimpleQueue[tuple[str, Ran | BaseException | None]] = queue.SimpleQueue()
        """What came of a trial: what its worker told, or what went wrong on the way."""
        self._numbers = itertools.count()
        self._surveyed = 0.0
        self._seen = time.monotonic()
        """When there was a worker last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Calls off what still runs, and lets go of the cluster."""
        known = list(self._slots)

        def end() -> None:
            with contextlib.suppress(Exception):  # whatever a lost cluster says, it is no news any more
                self._client.cancel([sent.future for sent in self._sent.values()])
                if known:
                    self._client.run(fleet_worker.leave, self._campaign, workers=known, on_error="ignore")
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)

        with contextlib.suppress(TimeoutError):
            within(fleet_worker.LEAVE_S + 3, end)

    def gather(self, first_s: float) -> None:
        """Waits for a worker. HarnessError: none came, or one that is there does not fit."""
        end = time.monotonic() + first_s
        while True:
            self._survey()
            for worker, why in self._unfit.items():
                raise HarnessError(f"worker {worker}: {why}; mend or stop it", status=3)
            if self._slots:
                return
            if time.monotonic() >= end:
                start = f"dask worker {self._address} --nthreads 1"
                raise HarnessError(f"the scheduler {self._address} has no worker; start some: {start}", status=3)
            time.sleep(0.1)

    def outcomes(self, works: Iterator[Work]) -> Generator[tuple[Work, Outcome], None, None]:
        """Each trial with what came of it, as they end. HarnessError: the scheduler, or the last worker, was lost."""
        more = True
        while True:
            if time.monotonic() >= self._surveyed + SURVEY_S:
                yield from self._requeue(self._survey())
                self._mind_lone()
            for worker in self._free():
                while more or self._again:
                    work, losses = self._again.popleft() if self._again else (next(works, None), 0)
                    if work is None:
                        more = False
                    elif work.trial.skip:
                        yield work, unrun(Verdict.SKIPPED, work.trial.skip, work.job.gaps)
                    else:
                        self._send(work, worker, losses)
                        break
            if not (more or self._sent or self._again):
                return
            with contextlib.suppress(queue.Empty):
                yield from self._take(*self._ended.get(timeout=SURVEY_S))

    def _free(self) -> list[str]:
        """Workers with a place for one more trial, once for each place."""
        taken = collections.Counter(sent.worker for sent in self._sent.values())
        return [worker for worker, slots in self._slots.items() for _ in range(slots - taken[worker])]

    def _send(self, work: Work, worker: str, losses: int) -> None:
        task = Task(
            campaign=self._campaign,
            worker=worker,
            work=msgspec.structs.replace(work, job=msgspec.structs.replace(work.job, built=None)),
            kernel=self._kernel,
            provider=self._brief.scenario.target.data or "",
        )
        key = f"livetrap-{self._campaign[:8]}-{next(self._numbers)}"
        future = self._client.submit(
            fleet_worker.run,
            task,
            key=key,
            workers=[worker],
            resources={RESOURCE: 1} if worker in self._reserving else None,
            retries=0,
            pure=False,
        )
        self._sent[key] = _Sent(work=work, worker=worker, future=future, losses=losses)

        def fetch() -> None:
            """In a thread of its own: the outcome may lie on a worker that is about to be lost."""
            try:
                self._ended.put((key, future.result()))
            except BaseException as error:
                self._ended.put((key, error))

        future.add_done_callback(lambda _future: threading.Thread(target=fetch, daemon=True).start())

    def _take(self, key: str, came: Ran | BaseException | None) -> Iterator[tuple[Work, Outcome]]:
        """What came of a trial that has ended; one whose worker was lost before it could tell is run again."""
        sent = self._sent.get(key)
        if sent is None:
            return  # it was given up before
        if came is None or lost(came):
            yield from self._requeue([key])
            return
        del self._sent[key]
        if isinstance(came, Ran):
            yield Work(trial=came.trial, job=sent.work.job), _told(came.outcome, sent.losses)
        else:
            reason = f"worker {sent.worker}: {type(came).__name__}: {came}"
            yield sent.work, unrun(Verdict.ERROR, reason, sent.work.job.gaps)

    def _requeue(self, keys: list[str]) -> Iterator[tuple[Work, Outcome]]:
        """Has trials run again whose worker was lost, before any other; one that was lost too often is an error."""
        for key in keys:
            sent = self._sent.pop(key)
            with contextlib.suppress(Exception):
                sent.future.cancel()
            if sent.losses + 1 < MOST_LOSSES:
                self._again.append((sent.work, sent.losses + 1))
                continue
            reason = f"{MOST_LOSSES} workers were lost while they ran it, the last of them {sent.worker}"
            yield sent.work, unrun(Verdict.ERROR, reason, sent.work.job.gaps)

    def _survey(self) -> list[str]:
        """Looks who is there; the trials of those who are not any more. HarnessError: the scheduler is lost."""
        there = self._there()
        for worker, known in there.items():
            if worker in self._slots or worker in self._unfit:
                continue
            found = reason(self._client, self._brief, worker, known)
            if found:
                self._unfit[worker] = found
            elif found is not None:
                self._slots[worker] = slots(known)
                if RESOURCE in known.get("resources", {}):
                    self._reserving.add(worker)
        for worker in self._slots.keys() - there.keys():
            del self._slots[worker]
        self._surveyed = time.monotonic()
        return [key for key, sent in self._sent.items() if sent.worker not in self._slots]

    def _mind_lone(self) -> None:
        """Raises HarnessError where no worker has been there for too long."""
        if self._slots:
            self._seen = self._surveyed
        elif self._surveyed > self._seen + self._alone_s:
            why = "".join(f" ({worker}: {reason})" for worker, reason in [*self._unfit.items()][:1])
            raise self._broken(f"has no worker left{why}")

    def _there(self) -> dict[str, Mapping[str, Any]]:
        try:
            found: dict[str, Mapping[str, Any]] = dict(within(ANSWER_S, self._client.scheduler_info)["workers"])
        except Exception as error:
            raise self._broken(f"is gone ({type(error).__name__})") from error
        if self._client.status != "running":
            raise self._broken("is gone")
        return found

    def _broken(self, what: str) -> HarnessError:
        goes_on = "what had finished is on record, and `livetrap resume` goes on from there"
        return HarnessError(f"the scheduler {self._address} {what}; {goes_on}", status=3)


def _told(outcome: Outcome, losses: int) -> Outcome:
    """The outcome, which says where it ran, and how many workers were lost that had it before."""
    ran_on = outcome.evidence.get("ran_on")
    if not losses or not isinstance(ran_on, dict):
        return outcome
    evidence = {**outcome.evidence, "ran_on": {**ran_on, "workers_lost_before": losses}}
    return msgspec.structs.replace(outcome, evidence=evidence)
