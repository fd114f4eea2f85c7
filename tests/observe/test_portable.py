"""The portable observer: with a made-up psutil, and on Linux against real processes."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from livetrap.model import EvidenceKind, ThreadId, ThreadState, WakeSource
from livetrap.observe import portable
from livetrap.page import Page
from tests.observe.herds import at_site, compile_herd, herd, look_until
from tests.test_page import put_header, put_slot

EVERYTHING = frozenset(EvidenceKind)


@pytest.fixture
def page() -> Iterator[Page]:
    with Page.create(16) as made:
        yield made


class FakeProcess:
    """What psutil says of process 10; `stuck` makes `threads()` block as it does on some machines."""

    stuck: threading.Event | None = None
    denied = False
    state = psutil.STATUS_RUNNING

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def children(self, recursive: bool) -> list[FakeProcess]:
        assert recursive
        return []

    def is_running(self) -> bool:
        return True

    def status(self) -> str:
        return self.state

    def cpu_times(self) -> Any:
        return SimpleNamespace(user=1.0, system=0.5)

    def threads(self) -> list[Any]:
        if self.stuck is not None:
            self.stuck.wait(20)
        if self.denied:
            raise psutil.AccessDenied(self.pid)
        return [SimpleNamespace(id=number, user_time=0.25, system_time=0.25) for number in (1, 2, 3)]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeProcess]:
    class Fake(FakeProcess):
        pass

    monkeypatch.setattr(portable.psutil, "Process", Fake)
    monkeypatch.setattr(portable, "_IDS_ARE_REAL", False)
    return Fake


@pytest.mark.usefixtures("fake")
def test_threads_without_slots_are_only_counted(page: Page) -> None:
    observer = portable.PortableObserver(10, page)
    look = observer.look(late_ns=0)
    observer.close()
    assert [(reading.id, reading.cpu_ns) for reading in look.threads] == [
        (ThreadId(10, number), 500_000_000) for number in (1, 2, 3)
    ]
    assert {reading.state for reading in look.threads} == {ThreadState.UNKNOWN}
    assert (look.processes, look.slots_seen, look.late_ns) == (1, False, 0)


@pytest.mark.usefixtures("fake")
def test_a_probe_in_the_target_tells_times_and_states(page: Page) -> None:
    for index, state in enumerate((1, 2, 3, 0)):
        values = {"claimed": 1, "pid": 10, "tid": 100 + index, "mark": 2, "kind": 1 + index}
        put_slot(page, index, **values, run_state=state, cpu_ns=7, switches=9)
    put_slot(page, 4, claimed=1, pid=11, tid=200)
    put_header(page, slots_used=5, probe_pid=10, probe_tid=103, probe_passes=5)
    observer = portable.PortableObserver(10, page)
    look = observer.look(late_ns=0)
    assert [(reading.id.tid, reading.state) for reading in look.threads] == [
        (100, ThreadState.RUNNING),
        (101, ThreadState.ASLEEP),
        (102, ThreadState.STOPPED),
    ]
    assert {(reading.cpu_ns, reading.switches) for reading in look.threads} == {(7, 9)}
    assert look.probe_passes == 5
    evidence = observer.gather(tuple(reading.id for reading in look.threads), EVERYTHING, 0.05)
    assert [(entry.id.tid, entry.wake) for entry in evidence.threads] == [
        (100, None),
        (101, WakeSource.NONE),
        (102, None),
    ]
    observer.close()


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("kind", "source"), [(1, WakeSource.UNKNOWN), (2, WakeSource.NONE), (3, WakeSource.TIMER), (4, WakeSource.OUTSIDE)]
)
def test_a_sleeper_is_believed_what_it_says(page: Page, kind: int, source: WakeSource) -> None:
    put_slot(page, 0, claimed=1, pid=10, tid=100, mark=2, kind=kind, run_state=2, cpu_ns=1)
    put_header(page, slots_used=1)
    observer = portable.PortableObserver(10, page)
    (entry,) = observer.gather((ThreadId(10, 100),), EVERYTHING, 0.05).threads
    assert entry.wake is source
    observer.close()


@pytest.mark.usefixtures("fake")
def test_registers_are_not_read_here() -> None:
    observer = portable.PortableObserver(10, None)
    threads = tuple(reading.id for reading in observer.look(late_ns=0).threads)
    evidence = observer.gather(threads, frozenset({EvidenceKind.LOOPS}), 0.05)
    assert {entry.unreadable for entry in evidence.threads} == {"registers cannot be read on this system"}
    assert {entry.loop for entry in evidence.threads} == {None}
    assert observer.listings == {}
    observer.close()


@pytest.mark.usefixtures("fake")
def test_without_a_page_there_are_no_slots() -> None:
    observer = portable.PortableObserver(10, None, progress="io")
    look = observer.look(late_ns=0)
    assert (look.slots_seen, look.departed, look.overflow, look.output_bytes) == (False, 0, False, None)
    assert {reading.slot for reading in look.threads} == {None}
    observer.close()


@pytest.mark.parametrize(
    ("status", "state"),
    [(psutil.STATUS_STOPPED, ThreadState.STOPPED), (psutil.STATUS_ZOMBIE, ThreadState.GONE)],
)
def test_the_status_of_the_process_holds_for_its_threads(
    page: Page, fake: type[FakeProcess], status: str, state: ThreadState
) -> None:
    fake.state = status
    observer = portable.PortableObserver(10, page)
    assert {reading.state for reading in observer.look(late_ns=0).threads} == {state}
    observer.close()


def test_where_threads_are_denied_the_process_stands_for_them(page: Page, fake: type[FakeProcess]) -> None:
    fake.denied = True
    observer = portable.PortableObserver(10, page)
    (reading,) = observer.look(late_ns=0).threads
    assert (reading.id, reading.cpu_ns) == (ThreadId(10, 10), 1_500_000_000)
    observer.close()


def test_a_call_that_blocks_for_ever_blocks_no_look(
    page: Page, fake: type[FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable, "_FIRST_S", 0.02)
    monkeypatch.setattr(portable, "ANSWER_S", 0.04)
    fake.stuck = threading.Event()
    observer = portable.PortableObserver(10, page)
    try:
        first = observer.look(late_ns=0)
        assert first.threads == ()
        look = look_until(observer, lambda look: bool(look.threads))
        assert [reading.id for reading in look.threads] == [ThreadId(10, 10)], "without threads() from now on"
    finally:
        fake.stuck.set()
        observer.close()


@pytest.mark.usefixtures("fake")
def test_an_old_answer_makes_a_look_late(page: Page) -> None:
    observer = portable.PortableObserver(10, page)
    observer.close()
    look_until(observer, lambda look: look.late_ns > 50_000_000)


def test_a_process_that_is_not_there(page: Page) -> None:
    observer = portable.PortableObserver(2**22 + 1, page)
    look = observer.look(late_ns=0)
    assert (look.threads, look.processes) == ((), 0)
    observer.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="the herd is a Linux program")
def test_against_a_real_target(tmp_path: Path, page: Page) -> None:
    program = compile_herd(tmp_path)
    with (tmp_path / "output").open("wb") as output, herd(program, page, "spin", "condition", "fork") as process:
        output.write(b"abc")
        output.flush()
        observer = portable.PortableObserver(process.pid, page, output_fd=output.fileno())
        look = look_until(
            observer,
            lambda look: len([one for one in at_site(look, 1) if one.state is ThreadState.RUNNING]) == 2,
        )
        assert (look.processes, len(look.threads), look.output_bytes) == (2, 5, 3)
        assert process.pid in {reading.id.pid for reading in look.threads}
        process.kill()
        process.wait(5)
        look_until(observer, lambda look: process.pid not in {reading.id.pid for reading in look.threads})
        os.killpg(process.pid, 9)
        observer.close()
