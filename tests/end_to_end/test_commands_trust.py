"""Long runs of healthy commands that look as if they hung: not one may be called a hang. `make soak`."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.end_to_end.hogs import hogs
from tests.end_to_end.running import Finished, livetrap

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

PROGRAMS = Path(__file__).parent / "programs"
RUNS = 100
JOBS = 8
"""Side by side on few CPUs: a load by itself."""
CASES = (
    "integers",
    "chase",
    "while-not-done",
    "spin-barrier",
    "spin-ping-pong",
    "condition-ping-pong",
    "idle-pool",
    "mutex-as-semaphore",
    "burner",
    "late-flag",
    "naps",
    "poll-loop",
    "server",
)
QUEUE = """
import queue, threading, time
def work():
    until = time.monotonic() + 8
    while time.monotonic() < until:
        try: q.get(timeout=0.01)
        except queue.Empty: pass
q = queue.Queue()
t = threading.Thread(target=work); t.start(); t.join()
"""
NEVER = {"livelock", "deadlock", "starvation", "error", "failed", "crashed", "corrupt"}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled as users compile theirs."""
    out = tmp_path_factory.mktemp("programs") / "healthy"
    words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-pthread", str(PROGRAMS / "healthy.c"), "-o", out]
    subprocess.run(words, check=True, timeout=60)
    return out


def watch(*words: str | Path, folder: Path) -> Finished:
    budget = ("--keep-going", "--trials", str(RUNS), "--timeout", "20", "--jobs", str(JOBS))
    return livetrap("watch", "--json", "-", "--db", folder / "w.db", *budget, *words, folder=folder, limit_s=3000)


def load(count: int) -> Callable[[], AbstractContextManager[None]]:
    return (lambda: hogs(count, limit_s=3000)) if count else nullcontext


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("burners", [0, 4])
def test_what_is_well_is_never_called_a_hang(healthy: Path, tmp_path: Path, case: str, burners: int) -> None:
    with load(burners)():
        done = watch("--", healthy, case, "8", folder=tmp_path)
    _check(done)


@pytest.mark.parametrize("burners", [0, 4])
def test_a_queue_with_a_time_out_is_never_called_a_hang(tmp_path: Path, burners: int) -> None:
    with load(burners)():
        done = watch("--", sys.executable, "-c", QUEUE, folder=tmp_path)
    _check(done)


def _check(done: Finished) -> None:
    verdicts = collections.Counter(trial["verdict"] for trial in done.trials)
    assert not NEVER & verdicts.keys(), verdicts
    assert sum(verdicts.values()) == RUNS
    assert verdicts["passed"] >= 0.95 * RUNS, verdicts
