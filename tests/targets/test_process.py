"""Attaching to a process that runs: which one may be had, and when it has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from livetrap.errors import HarnessError
from livetrap.targets.owner import Owner
from livetrap.targets.process import RunningProcess

LINUX = sys.platform.startswith("linux")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "20"]) as process:
        yield process
        process.kill()


def refused(pid: int) -> str:
    with pytest.raises(HarnessError) as caught:
        RunningProcess.open(pid)
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_process_from_its_start_to_its_end(sleeper: subprocess.Popen[bytes]) -> None:
    with RunningProcess.open(sleeper.pid) as target:
        owner: Owner = target
        assert owner.wait(0) is None
        begun = time.monotonic()
        assert owner.wait(0.02) is None
        assert time.monotonic() - begun >= 0.02
        assert (owner.output_fd, owner.output_tail(), owner.pids) == (None, "", ())
        assert owner.sweep(1).killed == 0
        assert sleeper.poll() is None
        sleeper.kill()
        ended = owner.wait(5)
        assert ended
        assert (ended.exit_code, ended.signal, ended.cpu_s) == (None, None, None)
        assert ended.at_ns <= time.monotonic_ns()
        assert owner.wait(0)
        sleeper.wait()
        assert owner.wait(0)
    target.close()


def test_without_a_descriptor_for_it(sleeper: subprocess.Popen[bytes]) -> None:
    """As on macOS."""
    target = RunningProcess(psutil.Process(sleeper.pid), pidfd=None)
    assert target.wait(0) is None
    assert target.wait(0.01) is None
    sleeper.kill()
    assert target.wait(5)
    sleeper.wait()
    assert target.wait(0)


@pytest.mark.parametrize("pid", [0, -1, 1 << 22, 1 << 40])
def test_no_such_process(pid: int) -> None:
    assert refused(pid) == f"there is no process {pid} (any more)"


def test_a_zombie(sleeper: subprocess.Popen[bytes]) -> None:
    with RunningProcess.open(sleeper.pid) as target:
        sleeper.kill()
        target.wait(5)
    assert f"process {sleeper.pid} has ended: a zombie" in refused(sleeper.pid)
    assert str(os.getpid()) in refused(sleeper.pid)


def test_ourselves_and_who_waits_for_us() -> None:
    assert refused(os.getpid()) == f"process {os.getpid()} is livetrap itself"
    assert "it waits for livetrap" in refused(os.getppid())


@pytest.mark.skipif(not LINUX, reason="thread ids are no process ids there")
def test_a_thread() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, args=(10,))
    thread.start()
    try:
        assert (
            refused(thread.native_id or 0) == f"{thread.native_id} is a thread of process {os.getpid()}: attach to that"
        )
    finally:
        go_on.set()
        thread.join()


def test_another_user_s(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(_: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "environ", deny)
    assert f"process {sleeper.pid} (sleep) has guarded itself" in refused(sleeper.pid)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    said = refused(sleeper.pid)
    assert f"belongs to user {psutil.Process(sleeper.pid).username()} and may not be inspected" in said
    assert "run livetrap as root, or as that user" in said


def test_a_thread_of_the_kernel(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    if not LINUX:
        pytest.skip("Linux has such")
    if psutil.pid_exists(2) and psutil.Process(2).name() == "kthreadd":  # not in a container
        assert refused(2) == "process 2 (kthreadd) is a thread of the kernel, no program"
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _: [])
    monkeypatch.setattr(psutil.Process, "name", lambda _: "kthreadd")
    monkeypatch.setattr("livetrap.targets.process._KERNEL_THREADS", os.getpid())
    assert "is a thread of the kernel" in refused(sleeper.pid)


@pytest.mark.skipif(not LINUX, reason="needs /proc")
def test_a_process_whose_first_thread_has_ended() -> None:
    """It looks like a zombie, and is none."""
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(20,)).start();"
        "print(flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-S", "-I", "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            end = time.monotonic() + 5
            while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < end
                time.sleep(0.002)
            with RunningProcess.open(process.pid) as target:
                assert target.wait(0) is None
                process.kill()
                assert target.wait(5)
        finally:
            process.kill()
