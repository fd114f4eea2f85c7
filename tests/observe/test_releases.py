"""What could release a thread without a sign of it among the threads: orphans, pipes, timers. On real processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

from livetrap.model import Evidence, EvidenceKind, Look, ThreadState, WakeSource
from livetrap.observe import open_observer
from livetrap.observe.linux import SEARCH_EVERY, LinuxObserver
from livetrap.observe.proctree import Budget
from livetrap.page import Page
from tests.observe.herds import at_site, compile_herd, eventually, herd, look_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]
ME = os.getpid()
_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_herd(tmp_path_factory.mktemp("herd"))


@pytest.fixture
def page() -> Iterator[Page]:
    with Page.create(128) as made:
        yield made


@pytest.fixture
def adopting() -> Iterator[None]:
    """This process takes in orphans, as the forker does; none of them outlives the test."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = set(children())
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0
    for orphan in set(children()) - before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(orphan, 0)
    assert set(children()) <= before


def children() -> list[int]:
    return [
        int(child) for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
    ]


def gather(observer: LinuxObserver, look: Look) -> Evidence:
    ids = tuple(reading.id for reading in look.threads)
    return observer.gather(ids, frozenset({EvidenceKind.WAKE_SOURCES}), 5.0)


def all_asleep(look: Look, threads: int) -> bool:
    return len(look.threads) == threads and all(reading.state is ThreadState.ASLEEP for reading in look.threads)


# --- orphans


@pytest.mark.usefixtures("adopting")
@pytest.mark.parametrize("listed", [True, False], ids=["children", "scan"])
@pytest.mark.parametrize("late", [True, False], ids=["orphan before", "orphan after"])
def test_a_daemon_is_found_among_the_adopters_children(program: Path, page: Page, listed: bool, late: bool) -> None:
    with herd(program, page, "daemon") as process:
        if late:
            assert eventually(lambda: len(children()) == 2)
        observer = LinuxObserver(process.pid, page, adopters=(ME, ME), list_children=listed)
        look = look_until(observer, lambda look: look.processes == 2 and len(at_site(look, 1)) == 1)
        daemon = at_site(look, 1)[0].id.pid
        assert os.getsid(daemon) == daemon
        assert ME not in {reading.id.pid for reading in look.threads}
        observer.close()


@pytest.mark.usefixtures("adopting")
def test_a_daemon_is_found_when_evidence_is_gathered(program: Path, page: Page) -> None:
    with herd(program, page, "daemon", "daemon") as process:
        assert eventually(lambda: len(children()) == 3)
        observer = open_observer(process.pid, page, adopters=(ME,))
        assert observer.gather((), frozenset(), 0.05).look.processes == 3
        observer.close()


@pytest.mark.usefixtures("adopting")
def test_without_adopters_a_daemon_is_lost(program: Path, page: Page) -> None:
    with herd(program, page, "daemon") as process:
        assert eventually(lambda: len(children()) == 2)
        observer = open_observer(process.pid, page)
        assert observer.gather((), frozenset(), 0.05).look.processes == 1
        observer.close()


@pytest.mark.usefixtures("adopting")
def test_among_many_threads_processes_are_found_all_the_same(program: Path, page: Page) -> None:
    with herd(program, page, *["condition"] * 80, "fork", "daemon") as process:
        assert eventually(lambda: len(children()) == 2)
        observer = LinuxObserver(process.pid, page, adopters=(ME,))
        look_until(observer, lambda look: look.processes == 3 and len(at_site(look, 1)) == 2)
        observer.close()


def test_strangers_stay_strangers(program: Path, page: Page) -> None:
    with herd(program, page, "condition") as stranger, herd(program, page, "condition") as process:
        observer = LinuxObserver(process.pid, page, adopters=(2**22,), list_children=False)
        for _ in range(SEARCH_EVERY + 1):
            assert observer.gather((), frozenset(), 0.05).look.processes == 1
        assert stranger.pid not in {reading.id.pid for reading in observer.look(late_ns=0).threads}
        observer.close()


# --- pipes


@pytest.mark.parametrize("role", ["read", "poll", "select", "epoll", "pair"])
def test_nobody_outside_wakes_who_waits_for_a_pipe_of_the_tree(program: Path, page: Page, role: str) -> None:
    with herd(program, page, role) as process:
        observer = open_observer(process.pid, page)
        assert isinstance(observer, LinuxObserver)
        look = look_until(observer, lambda look: all_asleep(look, 3 if role == "pair" else 2))
        evidence = gather(observer, look)
        readers = [entry for entry in evidence.threads if "futex" not in entry.sleeps_in]
        assert len(readers) == len(look.threads) - 1
        assert {entry.wake for entry in readers} == {WakeSource.NONE}, readers
        assert all("pipe:[" in entry.sleeps_in for entry in readers)
        observer.close()


def test_a_pipe_that_we_can_write_to_is_outside(program: Path, page: Page) -> None:
    reader, writer = os.pipe()
    try:
        with herd(program, page, f"from{reader}", "read", fds=(reader,)) as process:
            os.close(reader)
            observer = open_observer(process.pid, page)
            assert isinstance(observer, LinuxObserver)
            look = look_until(observer, lambda look: all_asleep(look, 3))
            inode = os.fstat(writer).st_ino
            found = {entry.wake for entry in gather(observer, look).threads if f"[{inode}]" in entry.sleeps_in}
            assert found == {WakeSource.OUTSIDE}
            observer.close()
    finally:
        os.close(writer)


# --- timers


@pytest.mark.parametrize(
    ("role", "has"), [("handler", True), ("posix", True), ("mute", False), ("condition", False), ("spin", False)]
)
def test_whose_timer_may_run_a_handler(program: Path, page: Page, role: str, has: bool) -> None:
    with herd(program, page, role) as process:
        observer = open_observer(process.pid, page)

        def as_expected() -> bool:
            return observer.gather((), frozenset(), 0.05).timers == ((process.pid,) if has else ())

        assert eventually(as_expected)
        observer.close()


# --- many threads


@pytest.mark.parametrize("most", [None, 40], ids=["files kept", "few files kept"])
def test_many_threads_are_affordable(program: Path, page: Page, most: int | None) -> None:
    with herd(program, page, *["spin"] * 120) as process:
        observer = LinuxObserver(process.pid, page, budget=Budget(most=most) if most else None)
        look_until(observer, lambda look: len(at_site(look, 1)) == 120)
        took = []
        for _ in range(3 * SEARCH_EVERY):
            began = time.thread_time()
            observer.look(late_ns=0)
            took.append(time.thread_time() - began)
        assert sorted(took)[len(took) // 2] < 0.01
        began = time.thread_time()
        assert len(gather(observer, observer.look(late_ns=0)).threads) == 121
        assert time.thread_time() - began < 0.2
        observer.close()
