"""Supervisor and forker with real processes: whatever a trial does and whoever is killed, nothing is left."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from livetrap.build import Built
from livetrap.errors import HarnessError
from livetrap.page import Page
from livetrap.targets.reaping import children
from livetrap.targets.supervisor import Exit, Supervisor
from tests.targets.acts import below, built, launch, lives, marked, token_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]
ROOT = Path(__file__).resolve().parents[2]
LINUX = sys.platform.startswith("linux")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acts")


@pytest.fixture(scope="module")
def module(folder: Path) -> Built:
    found = built(folder)
    if found is None:
        pytest.skip("no compiler")
    return found


@pytest.fixture
def page() -> Iterator[Page]:
    with Page.create(16) as made:
        yield made


@pytest.fixture(params=["orphans kept", "portable"] if LINUX else ["portable"])
def supervisor(request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    with Supervisor(portable=request.param == "portable") as made:
        token = token_of(made.pids[0])
        yield made
        made.close()
        assert marked(token) == []


def until(true: Callable[[], bool], within_s: float = 5.0) -> None:
    """Waits until it holds; fails when it does not within that time."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.005)


def exit_of(supervisor: Supervisor, within_s: float = 10.0) -> Exit:
    ended = supervisor.wait(within_s)
    assert ended
    return ended


def test_a_clean_trial(supervisor: Supervisor, module: Built, page: Page) -> None:
    before = time.monotonic_ns()
    launched = launch(supervisor, module, page, "end", threads=2)
    ended = exit_of(supervisor)
    assert (ended.exit_code, ended.signal) == (0, None)
    assert before < launched.started_ns < ended.at_ns < time.monotonic_ns()
    assert supervisor.sweep(1).killed == 0
    assert supervisor.wait(0) == ended
    header = page.header()
    assert (header.result, header.team) == (1, 2)
    assert header.probe
    assert header.probe.pid == launched.pid
    assert supervisor.output_tail() == ""


def test_what_a_trial_finds(supervisor: Supervisor, module: Built, page: Page) -> None:
    """Three descriptors and the page, a session of its own, no signal blocked or handled, limits, the environment."""
    launch(supervisor, module, page, "look")
    exit_of(supervisor)
    said = dict(word.split("=", 1) for word in supervisor.output_tail().split())
    assert said == {
        **{"fds": "4", "leader": "1", "blocked": "0", "interrupt": "1", "cut": "1", "core": "1", "stdin": "0"},
        **{"size": str(16 << 20), "page": page.spec(3), "mine": "(null)"},
    }


def test_the_environment_is_the_harness_s(module: Built, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "yes")
    with Supervisor() as supervisor:
        launch(supervisor, module, page, "look")
        exit_of(supervisor)
        assert "mine=yes" in supervisor.output_tail()


def test_sweep_of_a_family(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "family")
    until(lambda: "born" in supervisor.output_tail())
    # forker, trial, child, grandchild, daemon, sleep; without a subreaper the daemon is not below the supervisor
    until(lambda: len([process for process in below(supervisor.pids[0]) if lives(process)]) >= 5)
    time.sleep(0.05)
    family = [process for process in below(supervisor.pids[1]) if lives(process)]
    assert supervisor.wait(0) is None
    swept = supervisor.sweep(5)
    assert swept.killed >= 4
    assert not [process for process in family if lives(process)]
    assert exit_of(supervisor).signal == signal.SIGKILL
    assert set(marked(token_of(supervisor.pids[0]))) == set(supervisor.pids)
    launch(supervisor, module, page, "end")  # and the next trial goes on
    assert exit_of(supervisor).exit_code == 0


def test_sweep_of_a_daemon_whose_trial_has_ended(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "daemon")
    assert exit_of(supervisor).exit_code == 0
    assert supervisor.sweep(5).killed == 1
    assert set(marked(token_of(supervisor.pids[0]))) == set(supervisor.pids)


@pytest.mark.skipif(not LINUX, reason="needs a subreaper")
def test_sweep_of_a_chain_that_is_never_the_same(module: Built, page: Page) -> None:
    with Supervisor() as supervisor:
        launch(supervisor, module, page, "chain")
        assert exit_of(supervisor).exit_code == 0
        time.sleep(0.05)
        assert supervisor.sweep(5).killed >= 1
        assert children(supervisor.pids[1]) == []


def test_an_orphan_that_ends_by_itself(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "orphan")
    assert exit_of(supervisor).exit_code == 0
    time.sleep(0.1)
    assert below(supervisor.pids[1]) == []  # reaped, unasked
    assert supervisor.sweep(1).killed == 0


@pytest.mark.parametrize("act", ["close_all", "stop", "spin"])
def test_trials_that_stay(supervisor: Supervisor, module: Built, page: Page, act: str) -> None:
    launch(supervisor, module, page, act)
    assert supervisor.wait(0.1) is None
    assert supervisor.sweep(5).killed == 1
    assert exit_of(supervisor).signal == signal.SIGKILL


def test_a_crash_and_its_last_words(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "abort")
    ended = exit_of(supervisor)
    assert (ended.exit_code, ended.signal) == (None, signal.SIGABRT)
    assert "this is why" in supervisor.output_tail()


def test_output_is_plain_at_once_and_forgotten(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "say")
    until(lambda: supervisor.output_tail() == "red and plain")
    assert os.fstat(supervisor.output_fd).st_size > 0
    supervisor.sweep(5)
    launch(supervisor, module, page, "end")
    exit_of(supervisor)
    assert supervisor.output_tail() == ""


def test_output_is_bounded(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "flood")
    assert exit_of(supervisor).exit_code == 0
    assert os.fstat(supervisor.output_fd).st_size == 16 << 20
    assert supervisor.output_tail() == "x" * (16 << 10)


def test_sixteen_spinners_go_at_once(module: Built, page: Page) -> None:
    took = []
    with Supervisor() as supervisor:
        for _ in range(5):
            launch(supervisor, module, page, "everyone", threads=16)
            assert supervisor.wait(0.1) is None
            took.append(supervisor.sweep(5).took_s)
    assert statistics.median(took) < 0.5  # 3 ms on a quiet machine


def test_one_trial_at_a_time(supervisor: Supervisor, module: Built, page: Page) -> None:
    launch(supervisor, module, page, "spin")
    with pytest.raises(RuntimeError):
        launch(supervisor, module, page, "end")
    supervisor.sweep(5)


def test_a_module_that_cannot_be_loaded(supervisor: Supervisor, module: Built, page: Page, tmp_path: Path) -> None:
    broken = Built(module="broken._livetrap", path=tmp_path / "none.so", command=(), fresh=False)
    with pytest.raises(HarnessError, match=r"none\.so") as caught:
        launch(supervisor, broken, page, "end")
    assert caught.value.status == 3
    launch(supervisor, module, page, "end")
    assert exit_of(supervisor).exit_code == 0


@pytest.mark.parametrize("which", [0, 1], ids=["supervisor", "forker"])
def test_one_of_the_two_is_killed(supervisor: Supervisor, module: Built, page: Page, which: int) -> None:
    """In mid-trial: an error, nothing left, and the next launch works."""
    launch(supervisor, module, page, "family")
    until(lambda: "born" in supervisor.output_tail())
    time.sleep(0.1)
    token = token_of(supervisor.pids[0])
    everyone = [psutil.Process(supervisor.pids[0]), *below(supervisor.pids[0])]
    os.kill(supervisor.pids[which], signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(HarnessError, match="has died") as caught:
        supervisor.wait(10)
    assert caught.value.status == 3
    assert time.monotonic() - begun < 2
    if not supervisor._portable:
        assert not [process for process in everyone if lives(process)]
    assert marked(token) == []
    assert supervisor.sweep(1).killed == 0
    launch(supervisor, module, page, "end")
    assert exit_of(supervisor).exit_code == 0


def test_a_trial_kills_its_parent(supervisor: Supervisor, module: Built, page: Page) -> None:
    with pytest.raises(HarnessError, match="the forker has died"):
        launch(supervisor, module, page, "patricide")
        supervisor.wait(10)
    launch(supervisor, module, page, "end")
    assert exit_of(supervisor).exit_code == 0


def test_a_forker_that_does_not_answer(module: Built, page: Page) -> None:
    with Supervisor(launch_s=0.3) as supervisor:
        launch(supervisor, module, page, "end")
        exit_of(supervisor)
        supervisor.sweep(1)
        everyone = [psutil.Process(pid) for pid in supervisor.pids]
        os.kill(supervisor.pids[1], signal.SIGSTOP)
        with pytest.raises(HarnessError, match=r"within 0\.3 s"):
            launch(supervisor, module, page, "end")
        assert not [process for process in everyone if lives(process)]


def test_a_supervisor_that_does_not_answer(module: Built, page: Page) -> None:
    supervisor = Supervisor.start()
    launch(supervisor, module, page, "spin")
    everyone = [psutil.Process(supervisor.pids[0]), *below(supervisor.pids[0])]
    os.kill(supervisor.pids[0], signal.SIGSTOP)
    begun = time.monotonic()
    supervisor.close()
    assert time.monotonic() - begun < 6
    assert not [process for process in everyone if lives(process)]


def test_no_room_to_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(HarnessError, match="Resource temporarily unavailable") as caught:
        Supervisor.start()
    assert caught.value.status == 3


def test_signals_for_the_harness_do_not_reach_the_two(supervisor: Supervisor, module: Built, page: Page) -> None:
    for pid in supervisor.pids:
        assert os.getsid(pid) == supervisor.pids[0]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(pid, number)
    launch(supervisor, module, page, "end")
    assert exit_of(supervisor).exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_harness_is_killed(module: Built, folder: Path, number: signal.Signals) -> None:
    """Within 2 s nothing is left: children, other sessions, orphans, a program without our environment."""
    assert module
    command = [sys.executable, "-m", "tests.targets.victim", str(folder), "family"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as victim:
        try:
            assert victim.stdout
            token, *pids = victim.stdout.readline().split()
            everyone = [psutil.Process(int(pid)) for pid in pids]
            assert len(everyone) >= 7
            os.kill(victim.pid, number)
            until(lambda: not [process for process in everyone if lives(process)] and not marked(token), within_s=2)
        finally:
            victim.kill()


@pytest.mark.parametrize("delay_s", [0.02, 0.08, 0.15, 0.25, 0.4])
def test_the_harness_is_killed_at_any_moment(module: Built, folder: Path, delay_s: float) -> None:
    assert module
    command = [sys.executable, "-m", "tests.targets.victim", str(folder), "family"]
    victim = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "VICTIM": "1"}
    )
    time.sleep(delay_s)
    everyone = below(victim.pid)
    victim.kill()
    victim.wait()
    until(lambda: not [process for process in everyone if lives(process)], within_s=2)
