"""Owners of mutexes, read from real processes that nobody stops."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

from livetrap.model import Evidence, EvidenceKind, Look, ThreadState, WakeSource
from livetrap.observe import mutexes_linux, open_observer
from livetrap.observe.linux import LinuxObserver
from tests.observe.herds import compile_herd, herd, look_until

OWNERS = frozenset({EvidenceKind.MUTEX_OWNERS, EvidenceKind.WAKE_SOURCES})


def fake(statuses: dict[str, str], tids: tuple[int, ...]) -> Any:
    return SimpleNamespace(read=lambda name, _: statuses.get(name, "").encode(), threads=dict.fromkeys(tids))


def test_in_our_own_namespace_a_thread_is_what_it_says() -> None:
    assert mutexes_linux.tids_inside(fake({"status": "NSpid:\t7\n"}, (7, 8))) == {7: 7, 8: 8}
    assert mutexes_linux.tids_inside(fake({"status": "Name:\tx\n"}, (7,))) == {7: 7}


def test_in_another_namespace_it_has_another_number() -> None:
    statuses = {
        "status": "NSpid:\t70\t1\n",
        "task/70/status": "NSpid:\t70\t1\n",
        "task/81/status": "NSpid:\t81\t4\nx:\t1\n",
    }
    assert mutexes_linux.tids_inside(fake(statuses, (70, 81))) == {1: 70, 4: 81}


# --- on real processes

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the mutexes of glibc")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return compile_herd(tmp_path_factory.mktemp("stuck"), "stuck")


@pytest.fixture
def observers() -> Iterator[list[LinuxObserver]]:
    made: list[LinuxObserver] = []
    yield made
    for observer in made:
        observer.close()


def gathered(observers: list[LinuxObserver], pid: int, *, sleepers: int) -> Evidence:
    observer = open_observer(pid, None)
    assert isinstance(observer, LinuxObserver)
    observers.append(observer)

    def settled(look: Look) -> bool:
        return sum(reading.state is ThreadState.ASLEEP for reading in look.threads) == sleepers

    look = look_until(observer, settled)
    assert (look.slots_seen, look.departed, look.started_ns) == (False, 0, 0)
    return observer.gather(tuple(reading.id for reading in look.threads), OWNERS, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("beside", [(), ("tick",), ("jump", "jump", "jump")], ids=["alone", "a timer", "others run"])
def test_two_that_wait_for_each_other(program: Path, observers: list[LinuxObserver], beside: tuple[str, ...]) -> None:
    with herd(program, None, "ab", "ba", *beside) as process:
        evidence = gathered(observers, process.pid, sleepers=3 + beside.count("tick"))
        assert len(evidence.mutex_cycle) == 2
        one, other = evidence.mutex_cycle
        words = {entry.id: entry.sleeps_in for entry in evidence.threads}
        assert words[one] == f"futex wait (untimed, private), owned by thread {other.tid}"
        assert words[other] == f"futex wait (untimed, private), owned by thread {one.tid}"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["twice", "robust"])
def test_one_that_waits_for_itself(program: Path, observers: list[LinuxObserver], role: str) -> None:
    with herd(program, None, role) as process:
        evidence = gathered(observers, process.pid, sleepers=2)
        (one,) = evidence.mutex_cycle
        assert one.tid != process.pid
        (entry,) = [entry for entry in evidence.threads if entry.id == one]
        assert entry.sleeps_in.endswith(f", owned by thread {one.tid}")
        assert entry.wake is WakeSource.NONE


@pytest.mark.slow
def test_an_owner_that_waits_for_something_else_is_no_cycle(program: Path, observers: list[LinuxObserver]) -> None:
    with herd(program, None, "hold", "want") as process:
        evidence = gathered(observers, process.pid, sleepers=3)
        assert evidence.mutex_cycle == ()
        (wanting,) = [entry for entry in evidence.threads if ", owned by thread" in entry.sleeps_in]
        (holder,) = [entry for entry in evidence.threads if entry.sleeps_in == "pause"]
        assert wanting.sleeps_in.endswith(f", owned by thread {holder.id.tid}")


@pytest.mark.slow
def test_owners_are_read_only_when_asked_for(program: Path, observers: list[LinuxObserver]) -> None:
    with herd(program, None, "ab", "ba") as process:
        gathered(observers, process.pid, sleepers=3)
        look = observers[0].look(late_ns=0)
        ids = tuple(reading.id for reading in look.threads)
        evidence = observers[0].gather(ids, frozenset({EvidenceKind.WAKE_SOURCES}), 0.05)
        assert evidence.mutex_cycle == ()
        assert not any("owned" in entry.sleeps_in for entry in evidence.threads)


def test_we_own_nothing_that_we_wait_for() -> None:
    observer = open_observer(os.getpid(), None)
    ids = tuple(reading.id for reading in observer.look(late_ns=0).threads)
    assert observer.gather(ids, OWNERS, 0.05).mutex_cycle == ()
    observer.close()
