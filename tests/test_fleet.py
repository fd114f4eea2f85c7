"""Trials on a cluster: who is sent what, and that no trial is lost or counted twice; the last tests run a real one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from livetrap import __version__, build, fleet, fleet_cluster, fleet_worker, host, resources, scenario
from livetrap.crew import Work
from livetrap.errors import HarnessError
from livetrap.fleet_worker import Brief, Ran, Task
from livetrap.model import (
    Cpu,
    Gaps,
    Judgement,
    NotAvailable,
    Placement,
    PlannedTrial,
    Rules,
    Topology,
    VariantRole,
    Verdict,
)
from livetrap.plan import Plan
from livetrap.preparing import Prepared
from livetrap.scenario_model import Scenario
from livetrap.trial import Job, Outcome
from tests.end_to_end import running

ADDRESS = "tcp://127.0.0.1:1"


def _scenario() -> Scenario:
    return scenario.load(
        "raw-spin-flag",
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=resources.technique_names(),
    )


def _trial(ordinal: int = 0, *, placement: str = "one-core", skip: str = "", disturbance: str = "") -> PlannedTrial:
    return PlannedTrial(
        ordinal=ordinal,
        scenario="raw-spin-flag",
        variant="buggy",
        role=VariantRole.BUGGY,
        cell={"threads": 2, "placement": placement},
        kernel="flag_handoff",
        parameters={},
        threads=2,
        seed=ordinal,
        disturbance=disturbance,
        placement=Placement(requested=placement, cpus=((0,), (0,))),
        rules=Rules(),
        expected=(Verdict.LIVELOCK,),
        skip=skip,
    )


def _topology(*cpus: int, affinity: bool = True) -> Topology:
    made = tuple(Cpu(id=cpu, core=cpu, package=0) for cpu in cpus)
    return Topology(os="linux", arch="x86_64", cpus=made, affinity=affinity)


# --- what is pure ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "dask",
        "dask:",
        "dask:host",
        "dask:tcp://host",
        "dask:tcp://host:0",
        "dask:h:99999",
        "slurm:a:1",
        "dask:a b:1",
    ],
)
def test_what_names_no_executor_is_told_in_one_line(text: str) -> None:
    with pytest.raises(HarnessError, match=r"give dask:ADDRESS, e\.g\. --executor dask:tcp://HOST:8786") as raised:
        fleet.check(text)
    assert raised.value.status == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dask:tcp://host:8786", ("host", 8786)),
        ("dask:10.0.0.1:1", ("10.0.0.1", 1)),
        ("dask:tls://[::1]:8786", ("::1", 8786)),
    ],
)
def test_an_address_is_read(text: str, found: tuple[str, int]) -> None:
    assert fleet_cluster.parse(text) == found


def test_a_scheduler_that_is_not_there_is_told_in_one_line() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(HarnessError, match=r"no dask scheduler answers at 127\.0\.0\.1:\d+ \(.*start one") as raised:
        fleet.check(f"dask:tcp://127.0.0.1:{_free_port()}", connect_s=0.0)
    assert raised.value.status == 3


@pytest.mark.parametrize(
    ("worker", "count"),
    [
        ({"nthreads": 1, "resources": {}}, 1),
        ({"nthreads": 4, "resources": {}}, 0),
        ({"nthreads": 4, "resources": {"livetrap": 2.0}}, 2),
        ({"nthreads": 1, "resources": {"livetrap": 0}}, 0),
        ({"nthreads": 1, "resources": {"gpu": 1}}, 1),
    ],
)
def test_a_worker_has_as_many_places_as_it_reserves(worker: dict[str, Any], count: int) -> None:
    assert fleet_cluster.slots(worker) == count


def test_a_placement_is_made_of_the_cpus_of_the_worker() -> None:
    fitted = fleet_worker.fitted(_trial(), _topology(6, 7), lacking={})
    assert isinstance(fitted.placement, Placement)
    assert {cpu for mask in fitted.placement.cpus for cpu in mask} <= {6, 7}
    assert not fitted.skip


def test_what_a_worker_cannot_do_is_skipped_there() -> None:
    unpinned = fleet_worker.fitted(_trial(), _topology(0, affinity=False), lacking={})
    assert isinstance(unpinned.placement, NotAvailable)
    assert unpinned.skip
    undisturbed = fleet_worker.fitted(_trial(disturbance="quota:50"), _topology(0), lacking={"quota": "no cgroup"})
    assert "no cgroup" in undisturbed.skip


def test_a_worker_that_would_run_something_else_is_unfit() -> None:
    loaded = _scenario()
    right = Brief(
        scenario=loaded, os=host.os_name(), arch=host.arch_name(), sources=fleet_worker.sources(loaded), compilers={}
    )
    replace = msgspec.structs.replace
    assert fleet_worker.unfit(right) == ""
    assert "the plan was made for plan9" in fleet_worker.unfit(replace(right, os="plan9"))
    assert "the plan was made for vax" in fleet_worker.unfit(replace(right, arch="vax"))
    assert "its sources" in fleet_worker.unfit(replace(right, sources="other"))
    assert "no no-such-cc there" in fleet_worker.unfit(replace(right, compilers={"no-such-cc": "1"}))
    assert "it has no /no/such/file" in fleet_worker.unfit(replace(right, paths=("/no/such/file",)))
    found = build.find_compiler("gcc")
    if isinstance(found, build.Compiler):
        assert "made with '1.0'" in fleet_worker.unfit(replace(right, compilers={"gcc": "1.0"}))


# --- who is sent what, with a cluster that does what the test says ----------------------------------------------------


class _Future:
    def __init__(self, result: object) -> None:
        self._result = result
        self.status = "pending" if result is None else "finished"

    def add_done_callback(self, tell: Callable[[_Future], None]) -> None:
        if self.status != "pending":
            tell(self)

    def result(self) -> object:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def cancel(self) -> None:
        self.status = "cancelled"


class _Cluster:
    """`plan` says what comes of a trial on a worker: a result, an exception, or None: the worker dies of it."""

    status = "running"

    def __init__(self, workers: dict[str, int], plan: Callable[[int, str], object]) -> None:
        self.workers = {name: {"nthreads": threads, "resources": {}} for name, threads in workers.items()}
        self.plan = plan
        self.sent: list[tuple[int, str]] = []
        self.version: object = __version__
        self.unfit = ""

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": self.workers}

    def run(self, function: Callable[..., object], *_: object, workers: list[str], **__: object) -> dict[str, object]:
        answer = self.unfit if function is fleet_worker.unfit else self.version
        return dict.fromkeys(workers, answer)

    def submit(self, function: object, task: Task, *, workers: list[str], **_: object) -> _Future:
        assert function is fleet_worker.run
        assert task.work.job.built is None
        self.sent.append((task.work.trial.ordinal, workers[0]))
        result = self.plan(task.work.trial.ordinal, workers[0])
        if result is None:
            del self.workers[workers[0]]
        return _Future(result)

    def cancel(self, futures: list[_Future]) -> None: ...

    def close(self, timeout: float) -> None: ...


def _ran(ordinal: int) -> Ran:
    judgement = Judgement(verdict=Verdict.PASSED, reason="", rule="ended")
    outcome = Outcome(judgement=judgement, gaps=Gaps(), evidence={"ran_on": {"machine": "m"}})
    return Ran(trial=_trial(ordinal), outcome=outcome)


def _fleet(cluster: _Cluster, monkeypatch: pytest.MonkeyPatch, *, alone_s: float = 0.0) -> fleet.Fleet:
    monkeypatch.setattr(fleet, "SURVEY_S", 0.0)
    loaded = _scenario()
    prepared = Prepared(plan=Plan(scenario=loaded, trials=(), seed=0, os="linux", arch="x86_64"))
    return fleet.Fleet(cluster, ADDRESS, prepared, alone_s=alone_s)


def _works(count: int, *, skip: int = -1) -> Iterator[Work]:
    for ordinal in range(count):
        yield Work(trial=_trial(ordinal, skip="not here" if ordinal == skip else ""), job=Job())


def test_each_trial_is_told_once_and_a_skipped_one_is_sent_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster({"a": 1, "b": 1}, lambda ordinal, _worker: _ran(ordinal))
    with _fleet(cluster, monkeypatch) as crew:
        crew.gather(0.0)
        told = [(work.trial.ordinal, outcome.judgement.verdict) for work, outcome in crew.outcomes(_works(5, skip=2))]
    assert sorted(told) == [(n, Verdict.SKIPPED if n == 2 else Verdict.PASSED) for n in range(5)]
    assert sorted(ordinal for ordinal, _ in cluster.sent) == [0, 1, 3, 4]
    assert {worker for _, worker in cluster.sent} == {"a", "b"}


def test_the_trial_of_a_lost_worker_is_run_again_elsewhere_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster({"a": 1, "b": 1}, lambda ordinal, worker: None if worker == "a" else _ran(ordinal))
    with _fleet(cluster, monkeypatch) as crew:
        crew.gather(0.0)
        told = {work.trial.ordinal: outcome for work, outcome in crew.outcomes(_works(3))}
    assert Counter(ordinal for ordinal, _ in cluster.sent) == {0: 2, 1: 1, 2: 1}
    assert told.keys() == {0, 1, 2}
    assert told[0].evidence["ran_on"] == {"machine": "m", "workers_lost_before": 1}


def test_a_trial_that_workers_die_of_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"w{n}": 1 for n in range(4)}
    cluster = _Cluster(names, lambda ordinal, _worker: None if ordinal == 0 else _ran(ordinal))
    with _fleet(cluster, monkeypatch) as crew:
        crew.gather(0.0)
        told = {work.trial.ordinal: outcome.judgement for work, outcome in crew.outcomes(_works(2))}
    assert told[0].verdict is Verdict.ERROR
    assert "3 workers were lost" in told[0].reason
    assert told[1].verdict is Verdict.PASSED


def test_what_a_worker_raises_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster({"a": 1}, lambda _ordinal, _worker: ValueError("what"))
    with _fleet(cluster, monkeypatch) as crew:
        crew.gather(0.0)
        ((_, outcome),) = crew.outcomes(_works(1))
    assert outcome.judgement.reason == "worker a: ValueError: what"


def test_a_campaign_without_workers_ends_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster({"a": 1}, lambda _ordinal, _worker: None)
    with _fleet(cluster, monkeypatch) as crew:
        crew.gather(0.0)
        with pytest.raises(HarnessError, match=r"has no worker left; .*livetrap resume") as raised:
            list(crew.outcomes(_works(1)))
    assert raised.value.status == 3


@pytest.mark.parametrize(
    ("threads", "version", "unfit", "words"),
    [
        (1, "0.0.9", "", "it has livetrap 0.0.9, this is"),
        (1, ModuleNotFoundError("livetrap"), "", "it has no livetrap"),
        (1, __version__, "no gcc there", "no gcc there"),
        (4, __version__, "", "it runs 4 tasks at once; start it with --nthreads 1"),
    ],
)
def test_a_worker_that_does_not_fit_is_refused(
    threads: int, version: object, unfit: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _Cluster({"a": threads}, lambda ordinal, _worker: _ran(ordinal))
    cluster.version, cluster.unfit = version, unfit
    with _fleet(cluster, monkeypatch) as crew, pytest.raises(HarnessError, match=words) as raised:
        crew.gather(0.0)
    assert raised.value.status == 3
    assert str(raised.value).startswith("worker a: ")


def test_a_scheduler_without_workers_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster({}, lambda ordinal, _worker: _ran(ordinal))
    with _fleet(cluster, monkeypatch, alone_s=9.0) as crew, pytest.raises(HarnessError, match="dask worker tcp://"):
        crew.gather(0.0)


# --- a real cluster --------------------------------------------------------------------------------------------------


class _Real:
    """A scheduler and its workers, each a process that the test owns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port))

    def add(self, **environment: str) -> subprocess.Popen[bytes]:
        """One more worker."""
        place = self.folder / f"worker{len(self.workers)}"
        words = ("--no-nanny", "--nthreads", "1", "--local-directory", str(place))
        self.workers.append(self._start("worker", self.address, *words, **environment))
        return self.workers[-1]

    def wait_for(self, worker: subprocess.Popen[bytes]) -> None:
        """Waits until a worker has connected to the scheduler."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(psutil.Error):
                connections = psutil.Process(worker.pid).net_connections("tcp")
                if any(one.raddr and one.raddr.port == self.port for one in connections):
                    return
            time.sleep(0.1)

    def _start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **environment},
            )

    def close(self) -> None:
        """Ends them all."""
        for process in (*self.workers, self._scheduler):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(10)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Real]:
    """A scheduler with three workers; a test that ends one leaves the others."""
    pytest.importorskip("distributed")
    made = _Real(tmp_path_factory.mktemp("cluster"))
    try:
        for _ in range(3):
            made.add()
        yield made
    finally:
        made.close()


def _words(made: _Real, *, trials: int) -> list[str]:
    narrowed = ["--variant", "buggy", "--variant", "fixed", "--threads", "2,4", "--placement", "one-core"]
    build_of = ["--flags=-O2", "--compiler", "gcc", "--trials", str(trials), "--seed", "5"]
    return ["run", "raw-spin-flag", *narrowed, *build_of, "--executor", f"dask:{made.address}", "--json", "-"]


def _children(process: subprocess.Popen[bytes]) -> list[int]:
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_nothing_is_counted_twice(real: _Real, tmp_path: Path) -> None:
    victim = real.workers[0]
    real.wait_for(victim)
    process = running.start(*_words(real, trials=6), mark="fleet", folder=tmp_path)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]  # they are at work
        victim.send_signal(signal.SIGSTOP)
        time.sleep(1.0)  # by now it holds a trial that it will never tell of
        victim.kill()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    trials = running.Finished(process.returncode, "".join(lines) + out, err, 0.0).trials
    assert process.returncode == 0, err
    keys = Counter((trial["variant"], str(trial["cell"]), trial["seed"]) for trial in trials)
    assert set(keys.values()) == {1}
    cells = Counter((trial["variant"], str(trial["cell"])) for trial in trials)
    assert len(trials) >= 24
    assert set(cells.values()) == {6}
    where = [trial["evidence"]["ran_on"] for trial in trials]
    assert len({one["worker"] for one in where}) >= 2
    assert [one for one in where if one.get("workers_lost_before")]
    for worker in real.workers[1:]:
        _until_none_left(worker)


@pytest.mark.slow
def test_an_interrupted_campaign_leaves_nothing_on_the_workers(real: _Real, tmp_path: Path) -> None:
    workers = [worker for worker in real.workers if worker.poll() is None]
    process = running.start(*_words(real, trials=50), mark="fleet", folder=tmp_path)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert [child for worker in workers for child in _children(worker)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130, err
    for worker in workers:
        _until_none_left(worker)


@pytest.mark.soak
def test_a_worker_with_another_livetrap_is_refused(real: _Real, tmp_path: Path) -> None:
    other = tmp_path / "other" / "livetrap"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text('__version__ = "0.0.9"\n', encoding="utf-8")
    worker = real.add(PYTHONPATH=str(other.parent))
    try:
        real.wait_for(worker)
        ended = running.livetrap(*_words(real, trials=1), folder=tmp_path, limit_s=60)
    finally:
        worker.kill()
        worker.wait(10)
    assert ended.status == 3
    assert "it has livetrap 0.0.9, this is" in ended.err.splitlines()[-1]


def _until_none_left(worker: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 5
    while (left := _children(worker)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
