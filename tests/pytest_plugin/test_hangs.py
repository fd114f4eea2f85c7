"""Tests that never return, end to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest

from tests.pytest_plugin.conftest import Run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

STUCK = """
import ctypes, subprocess
import pytest

@pytest.fixture(scope="session")
def stuck(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    (folder / "stuck.c").write_text('void stuck_for_ever(void) { for (;;) __asm__ volatile(""); }')
    subprocess.check_call(["cc", "-O1", "-g", "-shared", "-fPIC", "-o", folder / "stuck.so", folder / "stuck.c"])
    yield ctypes.PyDLL(str(folder / "stuck.so"))
    print("torn down")
"""
THREE = f"""{STUCK}
def test_one():
    pass

def test_two(stuck):
    print("the last words")
    stuck.stuck_for_ever()

def test_three(stuck):
    pass
"""


def test_the_show(run: Run, pytester: pytest.Pytester) -> None:
    """The second of three tests is stuck in C, holding Python's lock: the others pass, and the XML is whole."""
    began = time.monotonic()
    result = run(THREE, "--livetrap", "--junitxml=j.xml")
    assert time.monotonic() - began < 30
    result.assert_outcomes(passed=2, failed=1)
    text = result.stdout.str()
    assert "FAILED test_it.py::test_two - Hang: livelock (" in text
    cases = {case.get("name"): case for case in ET.parse(pytester.path / "j.xml").iter("testcase")}
    assert list(cases) == ["test_one", "test_two", "test_three"]
    failure = cases["test_two"].find("failure")
    assert failure is not None and failure.text is not None
    assert "1 spinning" in failure.text
    if sys.platform == "linux":
        assert "livelock (proven)" in failure.text
        assert "stuck_for_ever" in failure.text
    assert "test_two" in failure.text  # the Python stack
    assert "the last words" in text
    assert not _left(pytester.path)


def test_in_a_fresh_interpreter_and_after_its_end(run: Run, pytester: pytest.Pytester) -> None:
    result = run(
        f"""{STUCK}
@pytest.mark.livetrap(mode="spawn")
def test_spawned(stuck):
    print("the last words")
    stuck.stuck_for_ever()
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["livelock (*", "in its call, in a fresh interpreter, which livetrap has ended*"])
    assert sys.platform != "linux" or "the last words" in result.stdout.str()
    assert not _left(pytester.path)


def test_deadlock_is_an_expected_failure_if_marked_so(run: Run) -> None:
    result = run(
        """
import threading
import pytest
from livetrap.pytest_plugin import Hang

pytestmark = pytest.mark.livetrap(stall=0.3)

@pytest.mark.xfail(raises=Hang)
def test_known():
    lock = threading.Lock()
    with lock, lock:
        pass

@pytest.mark.xfail(raises=ValueError)
def test_another():
    lock = threading.Lock()
    with lock, lock:
        pass
""",
        "-rA",
    )
    result.assert_outcomes(xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["*deadlock (observed), 1 parked*"])


def test_at_the_time_limit_the_verdict_says_what_it_is(run: Run) -> None:
    result = run(
        """
import time

def test_sleeps():
    time.sleep(100)

def test_computes():
    while True:
        pass
""",
        "--livetrap",
        "--livetrap-timeout=1",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["waiting, 1 parked", "slow, 1 computing", "time limit 1 s: *gives it more"])


def test_crashes_and_exits_are_failures(run: Run) -> None:
    result = run(
        """
import ctypes, os

def test_crash():
    ctypes.string_at(1)

def test_exit():
    os._exit(0)

def test_after():
    pass
""",
        "--livetrap",
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["crashed: ended by signal 11 (SIGSEGV)", "*in test_crash*", "failed: the test ended its process*status 0"]
    )


def test_nothing_survives_what_a_test_has_started(run: Run, pytester: pytest.Pytester) -> None:
    result = run(
        """
import pathlib, subprocess

def test_leaves_a_daemon():
    one = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    pathlib.Path("pid").write_text(str(one.pid))
""",
        "--livetrap",
    )
    result.assert_outcomes(passed=1)
    assert not psutil.pid_exists(int((pytester.path / "pid").read_text()))


@pytest.mark.parametrize("mode", ["fork", "spawn"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_survives_pytest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, mode: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        test_it="""
import os, pathlib, subprocess, time
import pytest

@pytest.fixture
def mended():
    yield
    pathlib.Path(f"torn-{os.getpid()}").touch()

def test_waits(mended):
    one = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    pathlib.Path("pid.new").write_text(str(one.pid))
    pathlib.Path("pid.new").rename("pid")
    time.sleep(1000)
"""
    )
    words = ["-p", "livetrap.pytest_plugin", "-p", "no:cacheprovider", "--livetrap", f"--livetrap-mode={mode}"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *words], cwd=pytester.path, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            _until((pytester.path / "pid").exists)
            pid = int((pytester.path / "pid").read_text())
            process.send_signal(number)
            assert process.wait(20) == (2 if number is signal.SIGINT else -number)
            _until(lambda: not psutil.pid_exists(pid))
        finally:
            process.kill()
    if number is signal.SIGINT and mode == "fork":
        assert (pytester.path / f"torn-{process.pid}").exists()
    _until(lambda: not _left(pytester.path))


def _until(ready: object, within_s: float = 20.0) -> None:
    assert callable(ready)
    end = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.02)


def _left(folder: Path) -> list[int]:
    """Processes that work in that folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.cwd() == str(folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
