"""Real targets: each disturbance takes effect, is undone, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from livetrap import disturb
from livetrap.disturb import Herd, TreeThreads
from livetrap.errors import HarnessError
from livetrap.model import ThreadId

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
slow = pytest.mark.slow
TARGET = """
import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
print("up", flush=True)
time.sleep(20)
"""
BURNER = "import time\nprint('up', flush=True)\nuntil = time.monotonic() + 20\nwhile time.monotonic() < until: pass"


@contextlib.contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def target() -> Iterator[int]:
    with running(TARGET) as process:
        yield process.pid


def until(true: Callable[[], bool], within_s: float = 8.0) -> None:
    """Waits until it holds; fails when it does not within that time."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.001)


def is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def test_what_is_no_disturbance_is_refused_at_once() -> None:
    with pytest.raises(HarnessError, match="unknown disturbance 'hog'"):
        disturb.start("hog", pid=1, seed=1)


def test_nothing_to_do() -> None:
    before = threading.active_count()
    with disturb.start("none", pid=1, seed=1) as disturber:
        assert disturber.note == ""
        assert threading.active_count() == before
        disturber.quiet()
        disturber.resume()
    with disturb.start("jitter:20", pid=1, seed=1) as disturber:
        assert disturber.note == "jitter: up to 20 us"


def test_the_threads_of_a_tree() -> None:
    found = TreeThreads(os.getpid())()
    assert ThreadId(os.getpid(), os.getpid()) in found
    assert found == sorted(found)
    assert TreeThreads(2**22 + 1)() in ([], [ThreadId(2**22 + 1, 2**22 + 1)])


@slow
@LINUX
def test_migrate(target: int) -> None:
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        pytest.skip("one CPU only")
    tids = [id_.tid for id_ in TreeThreads(target)()]
    assert len(tids) == 4
    with disturb.start("migrate", pid=target, seed=1) as disturber:
        until(lambda: any(len(os.sched_getaffinity(tid)) == 1 for tid in tids))
        disturber.quiet()
        assert all(os.sched_getaffinity(tid) == everywhere for tid in tids)
        disturber.resume()
        until(lambda: any(len(os.sched_getaffinity(tid)) == 1 for tid in tids))
        assert disturber.note.startswith("migrate: ")
    assert all(os.sched_getaffinity(tid) == everywhere for tid in tids)


@slow
@LINUX
def test_demote(target: int) -> None:
    assert sys.platform == "linux"
    if reason := disturb.lacking().get("demote"):
        pytest.skip(reason)
    tids = [id_.tid for id_ in TreeThreads(target)()]
    with disturb.start("demote", pid=target, seed=1):
        until(lambda: any(os.sched_getscheduler(tid) == os.SCHED_IDLE for tid in tids))
    assert all(os.sched_getscheduler(tid) == os.SCHED_OTHER for tid in tids)


@slow
def test_pause(target: int) -> None:
    with disturb.start("pause", pid=target, seed=1) as disturber:
        until(lambda: is_stopped(target))
        until(lambda: not is_stopped(target))
        until(lambda: is_stopped(target))
        disturber.quiet()
        # The signal that continues it is under way at the latest; then nothing stops it again.
        until(lambda: not is_stopped(target))
        assert not any(is_stopped(target) or time.sleep(0.002) for _ in range(60))
    assert not is_stopped(target)


@slow
def test_pause_leaves_alone_what_is_stopped_already(target: int) -> None:
    os.kill(target, signal.SIGSTOP)
    until(lambda: is_stopped(target))
    with disturb.start("pause", pid=target, seed=1) as disturber:
        time.sleep(0.15)
        assert is_stopped(target)
        assert disturber.note == "pause: 0 times"
    assert is_stopped(target)


@slow
@LINUX
def test_what_lists_the_threads_fails() -> None:
    """What was begun is ended all the same."""

    def fails_later() -> list[ThreadId]:
        if calls:
            raise ValueError("lost")
        calls.append(1)
        return [ThreadId(process.pid, process.pid)]

    calls: list[int] = []
    with running(TARGET) as process, disturb.start("pause", pid=process.pid, seed=1, tids=fails_later) as disturber:
        until(lambda: "lost" in disturber.note)
        assert not is_stopped(process.pid)
        assert disturber.note == "pause: 1 times; threads could not be listed: lost"


@slow
def test_a_target_that_ends_while_it_is_disturbed() -> None:
    with running(TARGET) as process, disturb.start("migrate+demote+pause", pid=process.pid, seed=2) as disturber:
        time.sleep(0.05)
        process.kill()
        process.wait()
        time.sleep(0.1)
        assert "not undone" not in disturber.note


@slow
@LINUX
def test_quota() -> None:
    if reason := disturb.lacking().get("quota"):
        pytest.skip(reason)
    with running(BURNER) as process:

        def cpu_s(for_s: float) -> float:
            before, began = psutil.Process(process.pid).cpu_times().user, time.monotonic()
            time.sleep(for_s)
            return float(psutil.Process(process.pid).cpu_times().user - before) / (time.monotonic() - began)

        home = cgroups(process.pid)
        with disturb.start("quota:10", pid=process.pid, seed=1) as disturber:
            assert disturber.note == "quota: 10 % of a CPU"
            assert cgroups(process.pid) != home
            time.sleep(0.1)
            assert cpu_s(0.5) < 0.2
        assert cgroups(process.pid) == home


def cgroups(pid: int) -> str:
    with open(f"/proc/{pid}/cgroup") as file:  # noqa: PTH123
        return file.read()


@slow
def test_hogs_burn_rest_and_end() -> None:
    with Herd() as herd:
        herd.burn(2)
        keeper = psutil.Process().children()[-1]
        assert len(keeper.children()) == 2
        hogs = keeper.children()
        until(lambda: all(hog.cpu_times().user > 0.02 for hog in hogs))
        herd.burn(2)
        assert keeper.children() == hogs
        herd.rest()
        until(lambda: not keeper.children())
        disturb.prepare("hogs:1", herd=herd)
        hogs = keeper.children()
        assert len(hogs) == 1
        with disturb.start("hogs:1", pid=os.getpid(), seed=1, herd=herd) as disturber:
            assert keeper.children() == hogs
            assert disturber.note == "hogs: 1"
        until(lambda: not keeper.children())
        herd.burn(1)
        hogs = keeper.children()
    assert not keeper.is_running()
    until(lambda: not any(hog.is_running() for hog in hogs))


@slow
@pytest.mark.parametrize("whom", ["the harness", "the keeper"])
def test_hogs_end_when_others_are_killed(whom: str) -> None:
    code = "from livetrap.disturb import Herd\nherd = Herd()\nherd.burn(1)\nprint('up', flush=True)\ninput()"
    with running(code) as harness:
        family = psutil.Process(harness.pid).children(recursive=True)
        assert len(family) == 2
        (psutil.Process(harness.pid) if whom == "the harness" else family[0]).kill()
        hog = family[1]
        until(lambda: not hog.is_running() or hog.status() == psutil.STATUS_ZOMBIE)


@slow
@LINUX
def test_it_costs_little(target: int) -> None:
    """One part in a hundred of a CPU, and what the first steps take."""
    before, began = time.process_time(), time.monotonic()
    with disturb.start("migrate+demote+pause", pid=target, seed=3):
        time.sleep(1.0)
    assert time.process_time() - before < 0.03 * (time.monotonic() - began) + 0.02
