"""What of a fleet runs on a worker of the cluster: it says whether it fits, and runs the trials that it is sent."""

from __future__ import annotations

import asyncio
import functools
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from livetrap import build, data, disturb, disturbances, fingerprints, host
from livetrap.aftermath import CommandCare, KernelCare
from livetrap.crew import Work, Worker
from livetrap.errors import HarnessError
from livetrap.model import Frozen, KernelInfo, NotAvailable, PlannedTrial, Topology, Verdict
from livetrap.placement import place, place_command
from livetrap.recording import unrun
from livetrap.scenario_model import Scenario
from livetrap.topology import cpu_list_text
from livetrap.trial import Outcome

IDLE_S = 60.0
"""A supervisor without a trial for so long is ended: its campaign was killed."""
LEAVE_S = 5.0
"""So long it is waited for trials to end that were called off."""


class Brief(Frozen, kw_only=True):
    """What a worker must have to run a plan as this machine would."""

    scenario: Scenario
    os: str
    arch: str
    sources: str
    """The fingerprint of the kernel, or of the command's scripts."""
    compilers: dict[str, str] = {}
    """The version of each that is used."""
    paths: tuple[str, ...] = ()
    """Files that commands name."""


class Task(Frozen, kw_only=True):
    """A trial that is sent to a worker."""

    campaign: str
    """What all trials of one campaign have in common, and no others."""
    worker: str
    """The address that it is sent to."""
    work: Work
    kernel: KernelInfo | None = None
    provider: str = ""
    """Of the kernel's data."""


class Ran(Frozen, kw_only=True):
    """What came of a trial, placed as it was there."""

    trial: PlannedTrial
    outcome: Outcome


def unfit(brief: Brief) -> str:
    """Why this machine cannot run such a plan; empty: it can."""
    for what, there, here in (("runs", host.os_name(), brief.os), ("is", host.arch_name(), brief.arch)):
        if there != here:
            return f"it {what} {there}, and the plan was made for {here}"
    for name, version in brief.compilers.items():
        found = build.find_compiler(name)
        if isinstance(found, NotAvailable):
            return f"no {name} there: {found.reason}"
        if found.version != version:
            return f"its {name} is {found.version!r}, and the plan was made with {version!r}"
    missing = [path for path in brief.paths if not Path(path).exists()]
    if missing:
        return f"it has no {missing[0]}, which the command names"
    return "" if sources(brief.scenario) == brief.sources else "its sources of what is run differ from those here"


def sources(scenario: Scenario) -> str:
    """The fingerprint of what a scenario runs, as it lies on this machine; empty: it cannot be read."""
    try:
        found = fingerprints.of_scenario(scenario)
    except (HarnessError, OSError):
        return ""
    return str(found.get("kernel") or found.get("program") or "")


def fitted(trial: PlannedTrial, topology: Topology, *, lacking: dict[str, str]) -> PlannedTrial:
    """The trial with its placement made concrete for another machine, or skipped where that lacks something. Pure."""
    strategy = str(trial.cell.get("placement", "free"))
    if trial.command is None:
        placement = place(strategy, topology, threads=trial.threads, seed=trial.seed)
    else:
        placement = place_command(strategy, topology, seed=trial.seed)
    skip = trial.skip or (placement.reason if isinstance(placement, NotAvailable) else "")
    if trial.disturbance and not skip:
        wanted = disturbances.parse(trial.disturbance)
        skip = disturbances.available(wanted, topology=topology, for_kernel=trial.command is None, lacking=lacking)
    return msgspec.structs.replace(trial, placement=placement, skip=skip)


def run(task: Task) -> Ran | None:
    """Runs a trial here; None: its campaign was called off meanwhile. What cannot be done is the verdict `error`."""
    work = task.work
    topology = host.topology()
    trial = fitted(work.trial, topology, lacking=_lacking() if work.trial.disturbance else {})
    try:
        work = msgspec.structs.replace(work, trial=trial)
        work = work if trial.skip else _made(work, kernel=task.kernel, provider=task.provider)
        outcome = _STAFF.run(task.campaign, work)
    except (HarnessError, OSError) as error:
        outcome = unrun(Verdict.ERROR, str(error), work.job.gaps)
    if outcome is None:
        return None
    where = {
        "machine": platform.node(),
        "worker": task.worker,
        "cpus_allowed": cpu_list_text({cpu.id for cpu in topology.cpus}),
    }
    found = {**outcome.evidence, "ran_on": where}
    return Ran(trial=work.trial, outcome=msgspec.structs.replace(outcome, evidence=found))


async def leave(campaign: str) -> None:
    """Calls off what runs here of a campaign, and comes back when nothing of it is left, or after five seconds."""
    _STAFF.call_off(campaign)
    end = time.monotonic() + LEAVE_S
    while _STAFF.busy(campaign) and time.monotonic() < end:
        await asyncio.sleep(0.02)


@functools.cache
def _lacking() -> dict[str, str]:
    return disturb.lacking()


def _made(work: Work, *, kernel: KernelInfo | None, provider: str) -> Work:
    """The work with its kernel built, and its data made, in this machine's own cache. HarnessError: that failed."""
    trial, cache = work.trial, build.default_cache()
    spec = trial.build
    if spec is None:
        return work
    compiler = build.find_compiler(spec.compiler)
    if isinstance(compiler, NotAvailable):
        raise HarnessError(compiler.reason, status=3)
    if provider and kernel:
        (trial,) = data.equip((trial,), provider, kernel=kernel, cache=cache)
    built = build.build(spec, compiler=compiler, cache=cache)
    return Work(trial=trial, job=msgspec.structs.replace(work.job, built=built))


_Chosen = Callable[[tuple[str, bool], float], bool]


class _Staff:
    """Those who run trials in this process: as many as it is sent at once, kept from one trial to the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = False
        self._off: set[str] = set()
        self._busy: dict[str, int] = {}
        self._idle: dict[tuple[str, bool], list[tuple[Worker, float]]] = {}

    def run(self, campaign: str, work: Work) -> Outcome | None:
        """What came of a trial; None: it was called off."""
        key = (campaign, work.trial.command is not None)
        with self._lock:
            if campaign in self._off:
                return None
            self._busy[campaign] = self._busy.get(campaign, 0) + 1
            idle = self._idle.get(key)
            worker = idle.pop()[0] if idle else None
        try:
            worker = worker or self._worker(campaign, command=key[1])
            try:
                return worker.run(work)
            except BaseException as error:
                worker.close()
                worker = None
                if isinstance(error, KeyboardInterrupt):  # by `cancelled`; signals never come to this thread
                    return None
                raise
        finally:
            if worker is not None:
                self._keep(key, worker)
            with self._lock:
                self._busy[campaign] -= 1

    def busy(self, campaign: str) -> bool:
        """A trial of it still runs."""
        with self._lock:
            return self._busy.get(campaign, 0) > 0

    def call_off(self, campaign: str) -> None:
        """Ends what runs of a campaign, and those who ran it."""
        with self._lock:
            self._off.add(campaign)
        self._close(lambda key, _since: key[0] == campaign)

    def _worker(self, campaign: str, *, command: bool) -> Worker:
        return Worker(
            care=CommandCare() if command else KernelCare(),
            judged=lambda _work, _outcome: None,
            cancelled=lambda: campaign in self._off,
        )

    def _keep(self, key: tuple[str, bool], worker: Worker) -> None:
        with self._lock:
            off = key[0] in self._off
            if not off:
                self._idle.setdefault(key, []).append((worker, time.monotonic()))
        if off:
            worker.close()
            return
        self._look_later()

    def _look_later(self) -> None:
        """Has those closed that will have been idle for too long; one such look is due at a time."""
        with self._lock:
            if self._due or not any(self._idle.values()):
                return
            self._due = True
        timer = threading.Timer(IDLE_S / 2, self._look)
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        with self._lock:
            self._due = False
        self._close(lambda _key, since: since < time.monotonic() - IDLE_S)
        self._look_later()

    def _close(self, chosen: _Chosen) -> None:
        """Closes those of the idle that are chosen, by whose they are and since when."""
        with self._lock:
            closed = [worker for key, idle in self._idle.items() for worker, since in idle if chosen(key, since)]
            for key, idle in self._idle.items():
                self._idle[key] = [one for one in idle if not chosen(key, one[1])]
        for worker in closed:
            worker.close()


_STAFF = _Staff()
"""A worker's process is one place, and tasks that come to it share nothing else."""
