"""The Linux observer against real processes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

from livetrap.errors import HarnessError
from livetrap.model import EvidenceKind, Look, Mark, ThreadId, ThreadState, WaitKind, WakeSource
from livetrap.observe import open_observer, symbols, thread_name
from livetrap.observe.linux import LinuxObserver
from livetrap.observe.proctree import Budget
from livetrap.page import Page
from tests.observe.herds import at_site, compile_herd, eventually, herd, look_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]
EVERYTHING = frozenset(EvidenceKind)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_herd(tmp_path_factory.mktemp("herd"))


@pytest.fixture
def page() -> Iterator[Page]:
    with Page.create(64) as made:
        yield made


def asleep(look: Look, count: int) -> bool:
    return sum(reading.state is ThreadState.ASLEEP for reading in look.threads) == count


def test_spinners_and_sleepers_are_told_apart(program: Path, page: Page, tmp_path: Path) -> None:
    with (
        (tmp_path / "output").open("wb") as output,
        herd(program, page, "spin", "spin", "condition", "beat") as process,
    ):
        observer = open_observer(process.pid, page, output_fd=output.fileno())
        assert isinstance(observer, LinuxObserver)
        first = look_until(observer, lambda look: len(at_site(look, 1)) == 2 and asleep(look, 2))
        second = look_until(observer, lambda look: look.at_ns > first.at_ns + 300_000_000)
        assert len(second.threads) == 5
        assert (second.processes, second.departed, second.slots_seen, second.overflow) == (1, 0, True, False)
        assert (second.output_bytes, second.io_count, second.probe_passes, second.suspended_ns) == (0, None, None, 0)
        for before, after in zip(at_site(first, 1), at_site(second, 1), strict=True):
            assert before.id == after.id
            assert after.state is ThreadState.RUNNABLE
            assert after.slot is not None
            assert (after.slot.mark, after.slot.kind, after.slot.beats) == (Mark.WAIT, WaitKind.SPIN, 0)
            for name in ("cpu_ns", "switches", "waited_ns"):
                assert getattr(after, name) >= getattr(before, name)
            assert (after.cpu_ns or 0) + (after.waited_ns or 0) > (before.cpu_ns or 0) + (before.waited_ns or 0) + 1e8
        (main,) = [reading for reading in second.threads if reading.id.tid == process.pid]
        assert (main.state, main.slot) == (ThreadState.ASLEEP, None)
        assert any(reading.slot and reading.slot.beats > 1000 for reading in second.threads)
        output.write(b"four")
        output.flush()
        assert observer.look(late_ns=7).output_bytes == 4
        assert observer.look(late_ns=10**9).late_ns == 10**9
        observer.close()


def test_threads_that_go_are_seen_to_go(program: Path, page: Page) -> None:
    with herd(program, page, "brief", "brief", "condition") as process:
        observer = open_observer(process.pid, page)
        assert len(observer.look(late_ns=0).threads) == 4
        look = look_until(observer, lambda look: len(look.threads) == 2)
        assert (look.departed, look.departed_beats) == (2, 4)
        observer.close()


@pytest.mark.parametrize("listed", [True, False], ids=["children", "scan"])
def test_the_whole_tree_is_watched(program: Path, page: Page, listed: bool) -> None:
    with herd(program, page, "fork", "fork") as process:
        observer = LinuxObserver(process.pid, page, list_children=listed)
        look = look_until(observer, lambda look: look.processes == 3 and len(at_site(look, 1)) == 2)
        spinners = at_site(look, 1)
        assert process.pid not in {reading.id.pid for reading in spinners}
        parked = [reading.id for reading in look.threads if reading.id.pid == process.pid]
        evidence = observer.gather(tuple(parked), EVERYTHING, 0.05)
        assert len(evidence.threads) == 3
        assert {found.wake for found in evidence.threads} == {WakeSource.NONE}, evidence.threads
        os.kill(spinners[0].id.pid, signal.SIGKILL)
        look_until(observer, lambda look: look.processes == 2)
        observer.close()


def test_an_orphan_is_found_when_evidence_is_gathered(program: Path, page: Page) -> None:
    with herd(program, page, "orphan") as process:
        assert eventually(lambda: any(slot.site == 1 for slot in page.slots()))
        observer = open_observer(process.pid, page)

        def found() -> bool:
            look = observer.gather((), frozenset(), 0.05).look
            return look.processes == 2 and len(at_site(look, 1)) == 1

        assert eventually(found)
        observer.close()


def test_wake_sources(program: Path, page: Page) -> None:
    roles = ("condition", "timed", "sleep", "accept", "read", "timer", "pause", "spin")
    with herd(program, page, *roles) as process:
        observer = open_observer(process.pid, page)
        look = look_until(observer, lambda look: asleep(look, 8))
        evidence = observer.gather(tuple(reading.id for reading in look.threads), EVERYTHING, 0.05)
        found = [(entry.wake, entry.sleeps_in.partition(" (pipe")[0]) for entry in evidence.threads]
        first = look.threads[1].id.tid
        assert (WakeSource.NONE, f"futex wait-bitset (untimed, joins thread {first})") in found
        assert (WakeSource.NONE, "futex wait-bitset (untimed, private)") in found
        assert (WakeSource.TIMER, "futex wait-bitset (timed)") in found
        assert {source for source, words in found if "nanosleep" in words} == {WakeSource.TIMER}
        assert (WakeSource.TIMER, "read (anon_inode:[timerfd])") in found
        assert (WakeSource.OUTSIDE, "accept") in found
        assert len(found) == 9
        assert sum(source is None for source, _ in found) == 1, "the spinner"
        observer.close()


def test_program_counters_of_spinners_and_no_sleeper_is_disturbed(program: Path, page: Page) -> None:
    with herd(program, page, "spin", "spin", "spin", "sleep", "sleep") as process:
        observer = open_observer(process.pid, page)
        look_until(observer, lambda look: len(at_site(look, 1)) == 3 and asleep(look, 3))
        for _ in range(20):
            look = observer.look(late_ns=0)
            evidence = observer.gather(tuple(reading.id for reading in look.threads), EVERYTHING, 0.5)
            spinners = {reading.id for reading in at_site(look, 1)}
            answers = [entry for entry in evidence.threads if entry.id in spinners]
            assert len(answers) == 3
            assert all(entry.pc_site.startswith("herd+0x") for entry in answers), answers
            assert [reading.slot.beats for reading in at_site(evidence.look, 2) if reading.slot] == [0, 0]
        if shutil.which("addr2line"):
            place = symbols.resolve_site(answers[0].pc_site, observer.modules)
            assert place is not None
            assert place.startswith("spin_here at ")
            assert "/herd.c:" in place
        observer.close()


def test_gathering_keeps_its_deadline(program: Path, page: Page) -> None:
    with herd(program, page, *["spin"] * 16, *["yield"] * 2) as process:
        observer = open_observer(process.pid, page)
        look = look_until(observer, lambda look: len(at_site(look, 1)) == 16)
        began = time.monotonic()
        evidence = observer.gather(tuple(reading.id for reading in look.threads), EVERYTHING, 0.05)
        took = time.monotonic() - began
        assert took < 0.5, "50 ms, and what a busy machine adds"
        assert len(evidence.threads) == 19
        answered = [entry for entry in evidence.threads if entry.pc_site]
        silent = [entry for entry in evidence.threads if entry.unreadable]
        assert len(answered) + len(silent) == 18
        assert evidence.look.at_ns > look.at_ns
        observer.close()


def test_a_stopped_target_and_one_that_goes_on(program: Path, page: Page) -> None:
    with herd(program, page, "spin", "sleep") as process:
        observer = open_observer(process.pid, page)
        look_until(observer, lambda look: asleep(look, 2))
        os.killpg(process.pid, signal.SIGSTOP)
        look = look_until(observer, lambda look: {reading.state for reading in look.threads} == {ThreadState.STOPPED})
        evidence = observer.gather(tuple(reading.id for reading in look.threads), EVERYTHING, 0.05)
        assert {entry.wake for entry in evidence.threads} == {WakeSource.UNKNOWN}
        os.killpg(process.pid, signal.SIGCONT)
        look = look_until(observer, lambda look: asleep(look, 2))
        evidence = observer.gather(tuple(reading.id for reading in look.threads), EVERYTHING, 0.05)
        assert {entry.wake for entry in evidence.threads} == {WakeSource.NONE, WakeSource.TIMER, None}
        observer.close()


def test_a_target_that_is_killed(program: Path, page: Page) -> None:
    with herd(program, page, "spin", "sleep") as process:
        observer = open_observer(process.pid, page)
        before = look_until(observer, lambda look: len(look.threads) == 3)
        process.kill()
        look_until(observer, lambda look: all(reading.state is ThreadState.GONE for reading in look.threads))
        process.wait(5)
        look = look_until(observer, lambda look: not look.threads)
        assert look.processes == 0
        ids = tuple(reading.id for reading in before.threads)
        assert observer.gather(ids, EVERYTHING, 0.05).threads == ()
        observer.close()
        observer.close()
        late = open_observer(process.pid, page)
        assert late.look(late_ns=0).threads == ()
        late.close()


@pytest.mark.parametrize("most", [0, 3])
def test_few_descriptors_are_enough_and_all_are_given_back(program: Path, page: Page, most: int) -> None:
    with herd(program, page, "spin", "fork", "condition") as process:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        observer = LinuxObserver(process.pid, page, budget=Budget(most=most))
        look_until(observer, lambda look: len(look.threads) == 5 and asleep(look, 3))
        assert len(os.listdir("/proc/self/fd")) <= before + most + 2, "and one a process"  # noqa: PTH208
        observer.close()
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_without_schedstat_times_are_coarse(program: Path, page: Page) -> None:
    with herd(program, page, "spin") as process:
        observer = LinuxObserver(process.pid, page, schedstat=False)
        look = look_until(observer, lambda look: any((reading.cpu_ns or 0) > 50_000_000 for reading in look.threads))
        assert {reading.switches for reading in look.threads} == {None}
        assert {reading.waited_ns for reading in look.threads} == {None}
        assert all((reading.cpu_ns or 0) % 1_000_000 == 0 for reading in look.threads)
        observer.close()


def test_a_name_cannot_pass_for_a_state(program: Path, page: Page) -> None:
    with herd(program, page, "name") as process:
        observer = open_observer(process.pid, page)
        look_until(observer, lambda look: asleep(look, 2))
        observer.close()


def test_io_counts_for_silent_targets_only(page: Page) -> None:
    observer = open_observer(os.getpid(), page)
    first = observer.look(late_ns=0).io_count
    assert first is not None
    Path("/proc/self/stat").read_bytes()
    assert (observer.look(late_ns=0).io_count or 0) > first
    observer.close()


@pytest.mark.parametrize(
    ("progress", "output", "counts"), [("", 4, True), ("output", 4, False), ("io", None, True), ("beats", None, False)]
)
def test_what_shows_progress(tmp_path: Path, progress: str, output: int | None, counts: bool) -> None:
    with (tmp_path / "output").open("w+b", buffering=0) as file:
        file.write(b"a\nb\n")
        observer = open_observer(os.getpid(), None, output_fd=file.fileno(), progress=progress)
        look = observer.look(late_ns=0)
        assert (look.output_bytes, look.io_count is not None) == (output, counts)
        observer.close()


def test_a_progress_that_there_is_not() -> None:
    with pytest.raises(HarnessError, match="not one of output"):
        open_observer(os.getpid(), None, progress="hope")


def test_what_a_thread_calls_itself() -> None:
    me = ThreadId(os.getpid(), os.getpid())
    assert thread_name(me) == Path("/proc/self/comm").read_text().strip()
    assert thread_name(ThreadId(os.getpid(), 2**22)) == ""


def test_the_probe_thread_is_left_out(page: Page) -> None:
    os.pwrite(page.fd, os.getpid().to_bytes(4, "little"), 256)
    os.pwrite(page.fd, os.getpid().to_bytes(8, "little"), 264)
    observer = open_observer(os.getpid(), page)
    assert ThreadId(os.getpid(), os.getpid()) not in {reading.id for reading in observer.look(late_ns=0).threads}
    observer.close()


def test_a_look_costs_no_more_than_psutil_takes_for_less(program: Path, page: Page) -> None:
    def cost(action: object) -> float:
        took = []
        for _ in range(100):
            began = time.thread_time()
            action()  # type: ignore[operator]
            took.append(time.thread_time() - began)
        return sorted(took)[50]

    with herd(program, page, *["spin"] * 8) as process:
        observer = open_observer(process.pid, page)
        look_until(observer, lambda look: len(at_site(look, 1)) == 8)
        plain = psutil.Process(process.pid)
        assert cost(lambda: observer.look(late_ns=0)) < 1.5 * cost(plain.threads)
        observer.close()
