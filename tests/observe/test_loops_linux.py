"""Loops of awake threads: who is stopped and who is not, on this very process; and real programs that spin."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc and ptrace", allow_module_level=True)

from msgspec.structs import replace

from livetrap import loops
from livetrap.host import arch_name
from livetrap.model import Evidence, EvidenceKind, Loop, LoopKind, PolledWord, ThreadEvidence, ThreadId, ThreadState
from livetrap.observe import loops_linux, open_observer, stops_linux
from livetrap.observe.linux import LinuxObserver
from livetrap.observe.loops_linux import LoopGatherer
from livetrap.observe.mappings import Keeper
from livetrap.observe.proctree import Tree
from livetrap.observe.stops_linux import Asked, Result, Stop
from tests.observe.herds import compile_herd, herd, look_until

ME = ThreadId(os.getpid(), os.getpid())
LOOPS = frozenset({EvidenceKind.LOOPS})


class Bench:
    """This process as the target: stops are made up, and so is the loop, which polls a word that the test owns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.word = ctypes.c_uint32(0)
        self.stops = 0
        self.searches = 0
        self.code = ctypes.create_string_buffer(b"\xeb\xfe\x90\x90")
        self.at = ctypes.addressof(self.code)
        self.result: Result = self.stop_at(self.at)
        self.after_stop: Callable[[], None] = lambda: None
        self.found = loops.Found(
            kind=LoopKind.POLL,
            start=self.at,
            end=self.at + 2,
            polled=((ctypes.addressof(self.word), 4),),
            frame="f",
            traits=("plain load",),
            lines=("0x0: jmp 0x0",),
        )
        self.tree = Tree(os.getpid())
        self.gatherer = LoopGatherer(self.tree, Keeper(), arch="x86_64")
        monkeypatch.setattr(stops_linux, "stop", self._stop)
        monkeypatch.setattr(loops, "find_loop", self._find)

    def stop_at(self, pc: int) -> Stop:
        return Stop(pc=pc, sp=0, values={"rax": 1}, stack_at=0, stack=b"", took_ns=1)

    def gather(self) -> ThreadEvidence:
        return self.gatherer.gather([ME], deadline_ns=time.monotonic_ns() + 10**9)[ME]

    def loop(self) -> Loop:
        loop = self.gather().loop
        assert loop is not None
        return loop

    def _stop(self, asked: Sequence[Asked], *, arch: str, deadline_ns: int) -> dict[ThreadId, Result]:
        assert (arch, deadline_ns > 0) == ("x86_64", True)
        self.stops += len(asked)
        self.after_stop()
        return {files.id: self.result for _, files in asked}

    def _find(self, registers: loops.Registers, read: loops.Read, *, entry_of: loops.EntryOf) -> loops.Found:
        self.searches += 1
        assert read(registers.pc, 4)
        entry_of(registers.pc)
        return self.found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(monkeypatch)
    yield made
    made.tree.close()


def test_a_poll_that_stands_still(bench: Bench) -> None:
    words = (PolledWord(address=ctypes.addressof(bench.word), size=4, value=0),)
    for _ in range(5):
        evidence = bench.gather()
        assert evidence.loop is not None
        assert (evidence.loop.kind, evidence.loop.polled, evidence.loop.moved) == (LoopKind.POLL, words, False)
        assert evidence.pc == bench.at
    assert (bench.stops, bench.searches) == (5, 1), "the same registers and code are classified once"
    # The site of anonymous memory is another one when that has grown.
    assert set(bench.gatherer.listings.values()) == {("0x0: jmp 0x0",)}
    assert evidence.loop.site in bench.gatherer.listings


def test_whose_word_has_moved_is_not_stopped(bench: Bench) -> None:
    bench.gather()
    bench.word.value = 7
    loop = bench.loop()
    assert (loop.moved, loop.polled[0].value, bench.stops) == (True, 7, 1)
    loop = bench.loop()
    assert (loop.moved, loop.polled[0].value, bench.stops) == (False, 7, 2)


def test_but_now_and_then_it_is_stopped_all_the_same(bench: Bench) -> None:
    seen = []
    for value in range(9):
        bench.word.value = value
        seen.append((bench.loop().moved, bench.stops))
    assert seen == [(False, 1), (True, 1), (True, 1), (True, 1), (True, 2), (True, 2), (True, 2), (True, 2), (True, 3)]


def test_a_word_that_moves_while_evidence_is_gathered(bench: Bench) -> None:
    def move() -> None:
        bench.word.value += 1

    bench.gather()
    bench.after_stop = move
    assert bench.loop().moved, "against what it was before the stop"


def test_who_is_on_the_way_out_is_not_stopped_while_its_words_move(bench: Bench) -> None:
    bench.found = replace(bench.found, kind=LoopKind.UNKNOWN, why="it is on its way out")
    seen = []
    for value in (0, 1, 2, 2):
        bench.word.value = value
        loop = bench.loop()
        seen.append((loop.kind, loop.moved, bench.stops))
    unknown = LoopKind.UNKNOWN
    assert seen == [(unknown, False, 1), (unknown, True, 1), (unknown, True, 1), (unknown, False, 2)]


def test_another_loop_does_not_move(bench: Bench) -> None:
    bench.gather()
    bench.word.value = 1
    bench.after_stop = lambda: None
    bench.found = replace(bench.found, frame="g")
    bench.result = bench.stop_at(bench.at + 2)
    assert bench.loop().moved, "not stopped: it may be there still"
    loop = bench.loop()
    assert (loop.frame, loop.moved) == ("g", False)


def test_changed_code_is_classified_again(bench: Bench) -> None:
    bench.gather()
    bench.gather()
    assert bench.searches == 1
    bench.code.value = b"\x90\x90\xeb\xfe"
    bench.gather()
    assert bench.searches == 2


def test_what_is_shared_and_what_cannot_be_read(bench: Bench) -> None:
    bench.found = replace(bench.found, polled=((8, 4),))
    loop = bench.loop()
    assert (loop.kind, loop.polled) == (LoopKind.UNKNOWN, ())
    assert "cannot be read" in loop.why


def _in_a_program() -> dict[str, int]:
    """Where code is that nobody changes."""
    at = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert at is not None
    return {"start": at, "end": at + 2}


@pytest.mark.parametrize("kind", [LoopKind.ENDLESS, LoopKind.COMPUTE, LoopKind.UNKNOWN])
def test_other_loops_poll_nothing(bench: Bench, kind: LoopKind) -> None:
    bench.found = replace(bench.found, kind=kind, polled=(), why="a\x1b[2Jb", **_in_a_program())
    for _ in range(2):
        loop = bench.loop()
        assert (loop.kind, loop.polled, loop.moved) == (kind, (), False)
        assert "\x1b" not in loop.why
    assert bench.stops == 2


def test_generated_code_may_be_changed(bench: Bench) -> None:
    """The bench's code lies in memory that can be written."""
    bench.found = replace(bench.found, kind=LoopKind.ENDLESS)
    loop = bench.loop()
    assert (loop.kind, loop.why) == (LoopKind.UNKNOWN, "generated code, which may be changed")
    bench.found = replace(bench.found, **_in_a_program())
    bench.result = bench.stop_at(bench.at + 2)
    assert bench.loop().kind is LoopKind.ENDLESS


def test_a_file_that_others_may_write(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(bytes(4096))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped:
        at = int(re.findall(rf"^([0-9a-f]+)-.*{path}$", Path("/proc/self/maps").read_text(), re.MULTILINE)[0], 16)
        assert mapped[0] == 0
        bench.found = replace(bench.found, polled=((at, 4), *bench.found.polled))
        assert [word.shared for word in bench.loop().polled] == [True, False]


def test_why_there_are_no_registers(bench: Bench) -> None:
    bench.result = "already traced by process 7"
    evidence = bench.gather()
    assert (evidence.loop, evidence.pc) == (None, None)
    assert evidence.unreadable == "registers: already traced by process 7"


def test_telling_loops_takes_no_more_than_its_share(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops_linux, "_WORK_NS", -1)
    evidence = bench.gather()
    assert (evidence.loop, evidence.pc, bench.searches) == (None, bench.at, 0)
    assert evidence.unreadable == "loop: no time was left to tell it"


def test_who_got_no_cpu_is_remembered(bench: Bench) -> None:
    bench.gather()
    before, bench.result = bench.result, stops_linux.NO_TIME
    bench.gather()
    bench.word.value = 5
    assert bench.loop().moved
    bench.result = stops_linux.FELL_ASLEEP
    bench.gather()
    bench.result = before
    assert not bench.loop().moved, "it went elsewhere meanwhile"


# --- on real processes


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    if arch_name() not in {"x86_64", "arm64"}:
        pytest.skip("no registers are read on this machine")
    return compile_herd(tmp_path_factory.mktemp("stuck"), "stuck")


@pytest.fixture
def observers() -> Iterator[list[LinuxObserver]]:
    made: list[LinuxObserver] = []
    yield made
    for observer in made:
        observer.close()


def opened(observers: list[LinuxObserver], pid: int, *, awake: int) -> tuple[LinuxObserver, tuple[ThreadId, ...]]:
    """An observer, and the threads that are awake. Skips where none may be stopped."""
    observer = open_observer(pid, None)
    assert isinstance(observer, LinuxObserver)
    observers.append(observer)
    running = ThreadState.RUNNABLE
    look = look_until(observer, lambda look: sum(one.state is running for one in look.threads) == awake)
    ids = tuple(reading.id for reading in look.threads if reading.state is running)
    for entry in observer.gather(ids, LOOPS, 1.0).threads:
        if "not permitted" in entry.unreadable:
            pytest.skip(entry.unreadable)
    return observer, ids


def found(evidence: Evidence) -> list[Loop]:
    return [entry.loop for entry in evidence.threads if entry.loop is not None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "kind", "traits"),
    [
        ("jump", LoopKind.ENDLESS, ()),
        ("poll", LoopKind.POLL, ("plain load",)),
        ("yield", LoopKind.POLL, ("plain load", "yield")),
        ("compute", LoopKind.COMPUTE, ()),
    ],
)
def test_loops_of_a_silent_program(
    program: Path, observers: list[LinuxObserver], role: str, kind: LoopKind, traits: tuple[str, ...]
) -> None:
    with herd(program, None, role) as process:
        observer, ids = opened(observers, process.pid, awake=1)
        seen = [entry for _ in range(8) for entry in observer.gather(ids, LOOPS, 1.0).threads]
        assert {entry.unreadable for entry in seen} == {""}
        all_loops = [entry.loop for entry in seen if entry.loop is not None]
        assert {loop.kind for loop in all_loops} == {kind}, all_loops
        (site,) = {loop.site for loop in all_loops}
        assert site.startswith("stuck+0x")
        assert set(traits) <= set(all_loops[0].traits)
        assert observer.listings[site]
        assert Path(observer.modules["stuck"]) == program
        if kind is LoopKind.POLL:
            assert len({(loop.frame, loop.polled, loop.moved) for loop in all_loops}) == 1
            (word,) = all_loops[0].polled
            assert (word.value, word.shared, all_loops[0].moved) == (0, False, False)


@pytest.mark.slow
def test_a_word_that_others_may_write(program: Path, observers: list[LinuxObserver]) -> None:
    with herd(program, None, "shared") as process:
        observer, ids = opened(observers, process.pid, awake=1)
        (loop,) = found(observer.gather(ids, LOOPS, 1.0))
        assert [word.shared for word in loop.polled] == [True]


@pytest.mark.slow
def test_a_healthy_wait_is_not_fixed(program: Path, observers: list[LinuxObserver]) -> None:
    with herd(program, None, "follow", "tick") as process:
        observer, ids = opened(observers, process.pid, awake=1)
        seen = []
        for _ in range(12):
            time.sleep(0.015)
            seen += found(observer.gather(ids, LOOPS, 1.0))
        assert {loop.kind for loop in seen} <= {LoopKind.POLL, LoopKind.UNKNOWN}, seen
        standing = [
            after
            for before, after in itertools.pairwise(seen)
            if not after.moved
            and (before.kind, before.frame, before.polled) == (LoopKind.POLL, after.frame, after.polled)
        ]
        assert len(standing) < 6, "another value each time, or a wait that is over"


@pytest.mark.slow
def test_a_program_counter_needs_no_handler(program: Path, observers: list[LinuxObserver]) -> None:
    with herd(program, None, "poll", "hold") as process:
        observer, ids = opened(observers, process.pid, awake=1)
        before = observer.look(late_ns=0)
        everyone = tuple(reading.id for reading in before.threads)
        for _ in range(5):
            evidence = observer.gather(everyone, frozenset({EvidenceKind.PROGRAM_COUNTERS}), 1.0)
            (entry,) = [entry for entry in evidence.threads if entry.id in ids]
            assert entry.pc_site.startswith("stuck+0x")
            assert entry.loop is None
        asleep = [reading for reading in before.threads if reading.id not in ids]
        assert len(asleep) == 2
        assert all(reading in evidence.look.threads for reading in asleep), "no sleeper ever ran"
