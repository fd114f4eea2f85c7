"""Commands that say nothing of themselves, watched: JUDGING.md's cases that need commands, and their look-alikes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from livetrap.resources import csrc_dir
from livetrap.store import Store
from livetrap.targets.reaping import TOKEN
from tests.end_to_end.hogs import hogs
from tests.end_to_end.running import Finished, livetrap, marked, start, survivors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

PROGRAMS = Path(__file__).parent / "programs"
HANGS = PROGRAMS / "hangs.c"
STALL = ("--stall", "0.6")
"""The usual floor of 3 s, made shorter so that all of this stays within a minute."""


@pytest.fixture(scope="module")
def bin_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, compiled as users compile theirs."""
    folder = tmp_path_factory.mktemp("programs")
    for source in (HANGS, PROGRAMS / "healthy.c", PROGRAMS / "beating.c"):
        words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-pthread", f"-I{csrc_dir() / 'include'}"]
        subprocess.run([*words, str(source), "-o", folder / source.stem], check=True, timeout=60)
    return folder


def watch(*words: str | Path, folder: Path, limit_s: float = 60) -> Finished:
    """`livetrap watch --json - ...`, to its end."""
    return livetrap("watch", "--json", "-", "--db", folder / "w.db", *words, folder=folder, limit_s=limit_s)


def told(done: Finished) -> str:
    """What to show of a run that went wrong."""
    trials = [(trial["cell"], trial["verdict"], trial["evidence"].get("reason")) for trial in done.trials]
    return f"{done.status} {trials}\n{done.err[-3000:]}"


HANGING = {
    "plain": ("livelock", "proven", "1 spinning, 1 parked"),
    "counting": ("livelock", "proven", "1 spinning, 1 parked"),
    "poll": ("livelock", "observed", "2 spinning, 1 parked"),
    "poll-and-yield": ("livelock", "observed", "2 spinning, 1 parked"),
    "grandchild": ("livelock", "observed", "1 spinning, 2 parked"),
    "daemon": ("livelock", "observed", "1 spinning, 1 parked"),
    "deadlock": ("deadlock", "proven", "2 parked"),
    "deadlock-beside-a-timer": ("deadlock", "proven", ""),
    "locks-twice": ("deadlock", "proven", "1 parked"),
    "lost-wakeup": ("deadlock", "observed", "2 parked"),
    "stops-itself": ("inconclusive", "observed", "1 stopped"),
    "wake-each-other": ("slow", "observed", ""),
    "traced": ("slow", "observed", ""),
}


def test_every_hang_gets_its_verdict_and_nothing_else_does(bin_: Path, tmp_path: Path) -> None:
    cases = ",".join(HANGING)
    words = ("--keep-going", "--trials", "1", "--timeout", "4", *STALL, "--param", f"case={cases}")
    done = watch(*words, "--", bin_ / "hangs", "{case}", folder=tmp_path, limit_s=90)
    found = {trial["cell"]["case"]: trial for trial in done.trials}
    assert found.keys() == HANGING.keys(), told(done)
    got = {name: (trial["verdict"], trial["certainty"]) for name, trial in found.items()}
    assert got == {name: (verdict, certainty) for name, (verdict, certainty, _) in HANGING.items()}, told(done)
    for name, (_, _, shape) in HANGING.items():
        if shape:
            assert _shape(found[name]) == shape, name
    assert "traced" in found["traced"]["evidence"]["reason"]
    assert done.status == 1


def _shape(trial: dict[str, Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in trial["shape"].items() if count)


def test_the_evidence_names_the_line_of_the_while(bin_: Path, tmp_path: Path) -> None:
    done = watch("--trials", "1", "--timeout", "5", *STALL, "--", bin_ / "hangs", "plain", folder=tmp_path)
    line = next(n for n, text in enumerate(HANGS.read_text().splitlines(), 1) if "LINE: plain flag" in text)
    site = done.trials[0]["evidence"]["spin_sites"][0]
    assert f"hangs.c:{line}" in site["where"], site
    assert "jmp" in " ".join(site["listing"]), site
    assert "waits_for_a_plain_flag" in done.err, done.err


@pytest.mark.parametrize("case", ["plain", "deadlock"])
def test_through_a_shell_it_is_the_same_verdict(bin_: Path, tmp_path: Path, case: str) -> None:
    script = f"true; {bin_ / 'hangs'} {case}; true"
    done = watch("--trials", "1", "--timeout", "5", *STALL, "--", "sh", "-c", script, folder=tmp_path)
    assert done.trials[0]["verdict"] == HANGING[case][0], told(done)
    assert done.status == 1


HEALTHY = {
    "integers": {"passed"},
    "chase": {"passed"},
    "while-not-done": {"passed"},
    "spin-barrier": {"passed"},
    "spin-ping-pong": {"passed"},
    "condition-ping-pong": {"passed"},
    "idle-pool": {"passed"},
    "mutex-as-semaphore": {"passed"},
    "burner": {"passed"},
    "late-flag": {"passed"},
    "naps": {"passed"},
    "poll-loop": {"passed"},
    "server": {"passed"},
}


def test_what_is_well_passes_however_it_looks(bin_: Path, tmp_path: Path) -> None:
    words = ("--keep-going", "--trials", "1", "--timeout", "10", *STALL, "--param", f"case={','.join(HEALTHY)}")
    done = watch(*words, "--jobs", "2", "--", bin_ / "healthy", "{case}", "2.2", folder=tmp_path, limit_s=90)
    assert {trial["cell"]["case"]: {trial["verdict"]} for trial in done.trials} == HEALTHY, told(done)
    assert done.status == 0


def test_what_is_well_never_hangs_under_load(bin_: Path, tmp_path: Path) -> None:
    cases = "integers,spin-barrier,spin-ping-pong,idle-pool"
    words = ("--keep-going", "--trials", "1", "--timeout", "8", *STALL, "--param", f"case={cases}")
    with hogs(4, limit_s=80):
        done = watch(*words, "--", bin_ / "healthy", "{case}", "2", folder=tmp_path, limit_s=90)
    verdicts = {trial["verdict"] for trial in done.trials}
    assert verdicts <= {"passed", "slow", "inconclusive"}, told(done)


BEATING = {
    "caller": ("livelock", "1 spinning, 5 parked", 4.0),
    "caller-and-ticker": ("livelock", "1 spinning, 1 polling, 5 parked", 5.0),
    "caller-and-acceptor": ("livelock", "1 spinning, 6 parked", 8.0),
    "one-long-call": ("passed", "", 8.0),
    "load": ("passed", "", 8.0),
}
"""Verdict, shape, and the greatest time from the last beat to the verdict, in s, on a busy machine."""


def test_who_beats_and_marks_nothing_is_judged_by_its_beats(bin_: Path, tmp_path: Path) -> None:
    words = ("--keep-going", "--trials", "1", "--timeout", "7", "--param", f"case={','.join(BEATING)}")
    done = watch(*words, "--", bin_ / "beating", "{case}", folder=tmp_path, limit_s=60)
    found = {trial["cell"]["case"]: trial for trial in done.trials}
    for name, (verdict, shape, within_s) in BEATING.items():
        trial = found[name]
        assert (trial["verdict"], _shape(trial) if shape else "") == (verdict, shape), told(done)
        assert trial["stall_s"] < within_s, name
        assert trial["beats"] >= 300
    assert len(found["caller-and-acceptor"]["evidence"]["wakeable"]) == 1


def test_python_beats_are_counted(tmp_path: Path) -> None:
    script = (
        "import threading, livetrap\n"
        "lock = threading.Lock()\n"
        "for _ in range(50): livetrap.beat()\n"
        "lock.acquire(); lock.acquire()\n"
    )
    done = watch("--trials", "1", "--timeout", "10", "--", sys.executable, "-c", script, folder=tmp_path)
    trial = done.trials[0]
    assert (trial["verdict"], trial["beats"]) == ("deadlock", 50), told(done)


def test_a_python_thread_that_polls_a_queue_is_waiting(tmp_path: Path) -> None:
    script = (
        "import queue, threading\n"
        "def work():\n"
        "    while True:\n"
        "        try: q.get(timeout=0.01)\n"
        "        except queue.Empty: pass\n"
        "q = queue.Queue()\n"
        "t = threading.Thread(target=work); t.start(); t.join()\n"
    )
    done = watch("--trials", "1", "--timeout", "4", *STALL, "--", sys.executable, "-c", script, folder=tmp_path)
    assert done.trials[0]["verdict"] == "waiting", told(done)
    assert done.status == 3


def test_asleep_with_a_timer_is_waiting(tmp_path: Path) -> None:
    done = watch("--trials", "1", "--timeout", "2.5", *STALL, "--", "sleep", "1000", folder=tmp_path)
    assert done.trials[0]["verdict"] == "waiting", told(done)


def test_a_stopped_target_that_is_continued_passes(bin_: Path, tmp_path: Path) -> None:
    script = f"{bin_ / 'hangs'} stops-itself & sleep 1.2; kill -CONT $!; wait $!"
    done = watch("--trials", "1", "--timeout", "10", *STALL, "--", "sh", "-c", script, folder=tmp_path)
    assert done.trials[0]["verdict"] == "passed", told(done)


# --- attach


@pytest.fixture
def running(bin_: Path) -> Iterator[Any]:
    """Starts programs of ours that end with the test."""
    begun: list[subprocess.Popen[bytes]] = []

    def run(*words: str | Path) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != TOKEN}
        process = subprocess.Popen([bin_ / words[0], *words[1:]], env=environment, stdin=subprocess.DEVNULL)
        begun.append(process)
        time.sleep(0.3)
        return process

    yield run
    for process in begun:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            child.kill()
        process.kill()
        process.wait()


ATTACHED = {
    ("hangs", "plain"): ("livelock", 1),
    ("hangs", "deadlock"): ("deadlock", 1),
    ("hangs", "deadlock-beside-a-timer"): ("deadlock", 1),
    ("healthy", "integers"): ("slow", 0),
    ("healthy", "naps"): ("waiting", 0),
    ("hangs", "stops-itself"): ("inconclusive", 3),
}


@pytest.mark.parametrize("program", ATTACHED, ids=lambda program: program[1])
def test_attach_judges_what_runs_already(running: Any, tmp_path: Path, program: tuple[str, str]) -> None:
    target = running(*program, *(["60"] if program[0] == "healthy" else []))
    done = livetrap("attach", str(target.pid), "--for", "2.5", "--json", "-", folder=tmp_path, limit_s=30)
    verdict, status = ATTACHED[program]
    assert (done.trials[0]["verdict"], done.status) == (verdict, status), done.err
    assert target.poll() is None, "it lives on"


def test_a_lost_wake_up_that_was_attached_to_hangs_on(running: Any, tmp_path: Path) -> None:
    target = running("hangs", "lost-wakeup")
    for _ in range(2):
        done = livetrap("attach", str(target.pid), "--for", "2.5", "--json", "-", folder=tmp_path, limit_s=30)
        assert done.trials[0]["verdict"] == "deadlock", done.err
    assert target.poll() is None


def test_a_killed_watch_leaves_nothing(bin_: Path, tmp_path: Path) -> None:
    mark = "killed-watch"
    process = start("watch", "--timeout", "50", "--", bin_ / "hangs", "daemon", mark=mark, folder=tmp_path)
    try:
        until = time.monotonic() + 15
        while not any("daemon" in each.cmdline() for each in marked(mark)) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert not survivors(mark)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_hang_is_on_record_before_its_evidence_is_taken(bin_: Path, tmp_path: Path, number: signal.Signals) -> None:
    mark = f"early-{number}"
    words = ("watch", "--timeout", "20", *STALL, "--db", tmp_path / "w.db", "--on-hang", "sleep 60")
    process = start(*words, "--", bin_ / "hangs", "deadlock", mark=mark, folder=tmp_path)
    try:
        assert process.stderr is not None
        told = next((line for line in process.stderr if "it is on record" in line), "")
        assert "deadlock (proven)" in told
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
        assert process.returncode == (130 if number is signal.SIGINT else -9)
        assert number is signal.SIGKILL or "hung 1 of 1" in out
    finally:
        process.kill()
        process.communicate()
        left = survivors(mark)
    assert not left, "nor is the hook"
    with Store.open(tmp_path / "w.db", create=False) as store:
        assert [record.verdict for record in store.records()] == ["deadlock"]
