"""Debuggers that are not there, hang or fail: fake ones on PATH, on a process that only sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from livetrap import evidence, tools
from livetrap.evidence import stacks
from livetrap.evidence.held import held, is_stopped
from livetrap.model import Role, ThreadId, ThreadJudgement

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="these debuggers are asked on Linux"),
]
STACK = "TID 7:\n#0  0x0000000000000001 wait - /bin/x\n"


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen(["/bin/sleep", "60"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH; no debugger of this machine is found."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{script}\n")
    path.chmod(0o755)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def becomes(pid: int, *states: str) -> bool:
    end = time.monotonic() + 5
    while state(pid) not in states and time.monotonic() < end:
        time.sleep(0.002)
    return state(pid) in states


def test_none_is_installed(fakes: Path, sleeper: int) -> None:
    found = evidence.collect(sleeper, (), modules={}, stacks=True, deadline_s=1.0)
    assert found.pop("stacks_took_s", 0.0) is not None
    assert found == {"missing": ["stacks: none of eu-stack (elfutils), gdb (gdb) is installed"]}
    assert not list(fakes.iterdir())


def test_the_next_one_is_asked(fakes: Path, sleeper: int) -> None:
    fake(fakes, "eu-stack", "echo 'eu-stack: cannot read this' >&2; exit 2")
    fake(fakes, "gdb", "echo 'Thread 1 (process 7):'; echo '#0  main () at x.c:1'")
    found = stacks.collect([sleeper], end=time.monotonic() + 5)
    assert [stack.frames for stack in found.native] == [("main at x.c:1",)]
    assert found.by == ("gdb",)
    assert found.missing[0].endswith("eu-stack gave nothing (status 2): eu-stack: cannot read this")


def test_where_tracing_is_refused_no_other_is_asked(fakes: Path, sleeper: int) -> None:
    fake(fakes, "eu-stack", "echo 'dwfl_linux_proc_attach: Operation not permitted'; exit 2")
    fake(fakes, "gdb", "exit 9")
    found = stacks.collect([sleeper], end=time.monotonic() + 5)
    assert len(found.missing) == 1
    assert found.missing[0].endswith(f"Operation not permitted; {stacks.HOW_TO_TRACE}")


def test_one_that_hangs_is_ended_and_the_next_one_asked(fakes: Path, sleeper: int) -> None:
    fake(fakes, "eu-stack", "exec sleep 60")
    fake(fakes, "gdb", "echo 'Thread 1 (process 7):'; echo '#0  main () at x.c:1'")
    began = time.monotonic()
    found = evidence.collect(sleeper, (), modules={}, stacks=True, deadline_s=1.0)
    assert time.monotonic() - began < 5
    assert found["stacks"] == [{"pid": sleeper, "tid": 7, "frames": ["main at x.c:1"]}]
    assert found["stacks_by"] == "gdb"


def test_what_one_that_hangs_has_said_is_kept(fakes: Path, sleeper: int) -> None:
    fake(fakes, "eu-stack", f"printf '{STACK}'; exec sleep 60")
    found = stacks.collect([sleeper], end=time.monotonic() + 0.3)
    assert [stack.frames for stack in found.native] == [("wait [x]",)]
    assert "not all" in found.missing[0]


def test_a_process_that_a_debugger_left_stopped_goes_on(fakes: Path, sleeper: int) -> None:
    fake(fakes, "eu-stack", f"kill -STOP {sleeper}; printf '{STACK}'; exec sleep 60")
    assert stacks.collect([sleeper], end=time.monotonic() + 0.3).native
    assert becomes(sleeper, "S", "R")


def test_the_process_is_held_meanwhile_and_goes_on(fakes: Path, sleeper: int) -> None:
    fake(fakes, "eu-stack", f"printf '{STACK}'; grep -q '^State:.T' /proc/{sleeper}/status && echo '#1  0x1 held'")
    (stack,) = stacks.collect([sleeper], end=time.monotonic() + 5).native
    assert stack.frames == ("wait [x]", "held")
    assert becomes(sleeper, "S", "R")


def test_it_goes_on_even_if_the_harness_is_killed(sleeper: int) -> None:
    script = f"from livetrap.evidence.held import held\nwith held([{sleeper}]):\n print(flush=True)\n input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"\n"
            assert state(sleeper) == "T"
        finally:
            harness.kill()
        assert becomes(sleeper, "S", "R")


def test_the_harness_never_holds_itself() -> None:
    with held([os.getpid(), 1 << 22]):
        assert not is_stopped(os.getpid())


def test_a_process_that_was_stopped_stays_so(fakes: Path, sleeper: int) -> None:
    os.kill(sleeper, signal.SIGSTOP)
    assert becomes(sleeper, "T")
    fake(fakes, "eu-stack", f"printf '{STACK}'")
    assert stacks.collect([sleeper], end=time.monotonic() + 5).native
    assert state(sleeper) == "T"


def test_a_process_that_is_gone(fakes: Path) -> None:
    fake(fakes, "eu-stack", "echo 'eu-stack: No such file or directory'; exit 2")
    found = stacks.collect([1 << 22], end=time.monotonic() + 5)
    assert not found.native
    assert "No such file" in found.missing[0]


def test_time_is_shared_among_processes(fakes: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def slow(_argv: list[str], *, deadline_s: float, memory_bytes: int) -> tools.Ran:
        assert memory_bytes
        limits.append(deadline_s)
        return tools.Ran(text=STACK)

    fake(fakes, "eu-stack", "")
    monkeypatch.setattr(tools, "run", slow)
    assert len(stacks.collect([sleeper, 1 << 22, sleeper], end=time.monotonic() + 10).native) == 2
    assert limits[0] < 3.1
    assert limits[1] > 5


def test_processes_that_spin_come_first() -> None:
    threads = [
        ThreadJudgement(id=ThreadId(pid, pid), role=role)
        for pid, role in ((1, Role.PARKED), (2, Role.SPINNING), (3, Role.EXITED))
    ]
    assert evidence._order([1, 4], threads) == [2, 1, 4]
