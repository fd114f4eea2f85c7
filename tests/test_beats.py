"""Python's beats: in the page as the harness reads it, beside C's slots, over forks, ends of threads and lost pages."""

from __future__ import annotations

import ast
import ctypes
import fcntl
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from livetrap import beats as without_page
from livetrap.model import Mark
from livetrap.page import HEADER_BYTES, HEADER_FIELDS, SLOT_BYTES, SLOT_FIELDS, Page

SLOTS = 24
PACKAGE = Path(without_page.__file__).parent
slow = pytest.mark.slow


@pytest.fixture
def page() -> Iterator[Page]:
    with Page.create(SLOTS) as made:
        yield made


def load(spec: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module anew, in a process whose LIVETRAP_PAGE is that."""
    monkeypatch.setenv("LIVETRAP_PAGE", spec)
    found = importlib.util.spec_from_file_location("beats_anew", PACKAGE / "beats.py")
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def beats(page: Page, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(page.spec(page.fd), monkeypatch)


def in_thread(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def claim(page: Page, *indexes: int) -> None:
    """As a C thread would."""
    for index in indexes:
        os.pwrite(page.fd, struct.pack("<I", 1), HEADER_BYTES + index * SLOT_BYTES + SLOT_FIELDS["claimed"][0])


def in_child(act: Callable[[], None]) -> int:
    """Exit status of a fork that does that; it ends at once."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_beat_is_counted_for_its_thread(page: Page, beats: ModuleType) -> None:
    assert page.slots() == []
    for _ in range(3):
        beats.beat()
    (slot,) = page.slots()
    assert (slot.index, slot.generation, slot.beats) == (SLOTS - 1, 1, 3)
    assert (slot.pid, slot.tid) == (os.getpid(), threading.get_native_id())
    assert (slot.mark, slot.arrivals, slot.pc_signal, slot.switches) == (Mark.NONE, 0, 0, None)
    header = page.header()
    assert (header.slots_used, header.overflow, header.departed) == (SLOTS, False, 0)


def test_each_thread_has_its_slot_and_frees_it(page: Page, beats: ModuleType) -> None:
    beats.beat()

    def two() -> None:
        beats.beat()
        beats.beat()
        (other, mine) = page.slots()
        assert (other.index, other.beats, other.tid) == (SLOTS - 2, 2, threading.get_native_id())
        assert mine.beats == 1

    in_thread(two)
    assert [slot.beats for slot in page.slots()] == [1]
    header = page.header()
    assert (header.departed_beats, header.departed) == (2, 1)
    in_thread(beats.beat)
    assert (page.header().departed_beats, page.header().departed) == (3, 2)
    beats.beat()
    assert [slot.beats for slot in page.slots()] == [2]


def test_a_slot_used_before_is_cleared(page: Page, beats: ModuleType) -> None:
    raw = bytearray(b"\xff" * SLOT_BYTES)
    struct.pack_into("<I", raw, SLOT_FIELDS["claimed"][0], 0)
    os.pwrite(page.fd, bytes(raw), HEADER_BYTES + (SLOTS - 1) * SLOT_BYTES)
    beats.beat()
    now = os.pread(page.fd, SLOT_BYTES, HEADER_BYTES + (SLOTS - 1) * SLOT_BYTES)
    values = {name: struct.unpack_from(f"<{code}", now, at)[0] for name, (at, code) in SLOT_FIELDS.items()}
    wanted = {"beats": 1, "pid": os.getpid(), "tid": threading.get_native_id(), "claimed": 1}
    assert values == {**dict.fromkeys(values, 0), **wanted}  # the generation has wrapped around


def test_room_is_left_to_c(page: Page, beats: ModuleType) -> None:
    """Python never takes a slot that fewer than 8 free ones lie below: C's claims, from below, could meet it."""
    claim(page, *range(SLOTS - 9))
    in_thread(beats.beat)
    assert page.header().departed == 1
    claim(page, SLOTS - 9)
    beats.beat()
    beats.beat()
    assert [slot.beats for slot in page.slots() if slot.pid] == []
    assert page.header().overflow


def test_slots_in_use_of_c_are_passed_over(page: Page, beats: ModuleType) -> None:
    claim(page, 0, SLOTS - 1, SLOTS - 3)
    beats.beat()
    in_thread(lambda: (beats.beat(), beats.beat()))
    assert [slot.index for slot in page.slots() if slot.beats == 1] == [SLOTS - 2]
    assert page.header().departed_beats == 2


def test_a_fork_drops_its_parents_slot(page: Page, beats: ModuleType) -> None:
    beats.beat()

    def child() -> None:
        beats.beat()
        beats.beat()
        mine = [slot for slot in page.slots() if slot.pid == os.getpid()]
        assert [(slot.beats, slot.tid) for slot in mine] == [(2, threading.get_native_id())]

    assert in_child(child) == 0
    beats.beat()
    assert [slot.beats for slot in page.slots() if slot.pid == os.getpid()] == [2]
    assert page.header().departed == 0


def test_a_fork_beside_a_thread_that_claims(page: Page, beats: ModuleType) -> None:
    """The child has that thread's lock, and nobody who would release it; nor are the threads it has not its own."""
    go_on, claimed = threading.Event(), threading.Event()

    def hold() -> None:
        beats.beat()
        assert beats._page.lock()
        claimed.set()
        go_on.wait(10)
        beats._page.unlock()

    thread = threading.Thread(target=hold)
    thread.start()
    assert claimed.wait(10)

    def child() -> None:
        assert beats._page.threads.acquire(blocking=False)

    status = in_child(child)
    go_on.set()
    thread.join(10)
    assert status == 0
    assert page.header().departed == 1


def test_a_page_locked_by_a_stopped_process(page: Page, beats: ModuleType) -> None:
    """It waits a few ms, goes on without a slot, and brings its beats along when it gets one."""
    held, holder = os.pipe()
    release, releaser = os.pipe()
    pid = os.fork()
    if pid == 0:
        fcntl.lockf(page.fd, fcntl.LOCK_EX)
        os.write(holder, b".")
        os.read(release, 1)
        os._exit(0)
    try:
        os.read(held, 1)
        begun = time.monotonic()
        beats.beat()
        assert time.monotonic() - begun < 1
        assert page.slots() == []
    finally:
        os.write(releaser, b".")
        os.waitpid(pid, 0)
        for fd in (held, holder, release, releaser):
            os.close(fd)
    beats.beat()
    assert [slot.beats for slot in page.slots()] == [2]


def test_a_beat_within_a_claim(page: Page, beats: ModuleType) -> None:
    """As from a signal's handler: the lock is this thread's own."""
    assert beats._page.threads.acquire()
    beats.beat()
    beats._page.threads.release()
    beats.beat()
    assert [slot.beats for slot in page.slots()] == [2]


def test_the_program_may_close_its_descriptors(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = os.dup(page.fd)
    beats = load(page.spec(lost), monkeypatch)
    os.close(lost)
    beats.beat()
    in_thread(beats.beat)
    assert page.header().departed == 1


@pytest.mark.parametrize(
    "spec",
    [
        *("", "x", "1:{fd}:{nonce}", "2:{fd}:{nonce}:", "1:{fd}:1{nonce}:", "1:{fd}:x:", "1:4000:{nonce}:"),
        *("1:-1:{nonce}:", "1:1180591620717411303424:{nonce}:", "1:4000:{nonce}:/no/such", "1:4000:{nonce}:/no\0such"),
        "1:4000:{nonce}:" + __file__,
    ],
)
def test_without_the_page(page: Page, spec: str) -> None:
    assert without_page._find(spec.format(fd=page.fd, nonce=f"{page.nonce:x}")) is None


def test_a_page_of_another_size(page: Page, beats: ModuleType) -> None:
    os.pwrite(page.fd, struct.pack("<I", SLOTS + 1), HEADER_FIELDS["slot_count"][0])
    assert beats._find(page.spec(page.fd)) is None


def test_the_path_when_the_descriptor_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with Page.create(SLOTS, anonymous=False) as page:
        beats = load(page.spec(4000), monkeypatch)
        beats.beat()
        assert [slot.beats for slot in page.slots()] == [1]


def test_places_are_those_of_the_page() -> None:
    for name, (at, code) in {**HEADER_FIELDS, **SLOT_FIELDS}.items():
        size = struct.calcsize(code)
        place = getattr(without_page, f"_{name.upper()}_{size}", None)
        assert place in (None, at // size), name
    cleared = {8 * at + half for at in without_page._CLEARED_8 for half in (0, 4)}
    cleared |= {4 * at for at in without_page._CLEARED_4}
    kept = {"pid", "generation", "tid", "claimed"}
    places = {
        at + half
        for name, (at, code) in SLOT_FIELDS.items()
        if name not in kept
        for half in range(0, struct.calcsize(code), 4)
    }
    assert cleared == places


def test_it_stands_alone() -> None:
    """Only the standard library, and no syntax that Python 3.8 lacks."""
    for name in ("beats.py", "__init__.py"):
        text = (PACKAGE / name).read_text()
        tree = ast.parse(text, feature_version=(3, 8))
        imported = {node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)}
        imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported <= sys.stdlib_module_names | {"livetrap.api", "livetrap.beats"}  # looked up when asked for
        assert not re.search(r"^\s*match ", text, re.MULTILINE)


def test_cost() -> None:
    """Without a page about 50 ns; the bound is for a busy machine."""
    assert min(timeit.repeat(without_page.beat, number=2000, repeat=5)) / 2000 < 1e-6


def test_cost_with_a_page(beats: ModuleType) -> None:
    """About 150 ns; the bound is for a busy machine."""
    beats.beat()
    assert min(timeit.repeat(beats.beat, number=2000, repeat=5)) / 2000 < 3e-6


def test_unknown_names_are_still_unknown() -> None:
    import livetrap  # noqa: PLC0415

    with pytest.raises(AttributeError, match="no attribute 'heartbeat'"):
        _ = livetrap.heartbeat
    assert callable(livetrap.beat)


PROGRAM = """
import os, sys, threading
before = set(sys.modules)
import livetrap
assert len(set(sys.modules) - before) <= 2, set(sys.modules) - before
def work():
    for _ in range(1000):
        livetrap.beat()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
work()
for thread in threads:
    thread.join()
"""


@slow
def test_programs_side_by_side_from_a_copy_of_the_package(page: Page, tmp_path: Path) -> None:
    """No beat is lost, no slot taken twice, and nothing is said at the end of the interpreter."""
    (tmp_path / "livetrap").mkdir()
    for name in ("beats.py", "__init__.py"):
        shutil.copy(PACKAGE / name, tmp_path / "livetrap")
    command = [sys.executable, "-S", "-c", PROGRAM]
    environment = {"PYTHONPATH": str(tmp_path), "LIVETRAP_PAGE": page.spec(page.fd)}
    programs = [
        subprocess.Popen(command, env=environment, pass_fds=(page.fd,), stderr=subprocess.PIPE) for _ in range(3)
    ]
    try:
        said = [program.communicate(timeout=20)[1] for program in programs]
    finally:
        for program in programs:
            program.kill()
    assert said == [b"", b"", b""]
    assert [program.returncode for program in programs] == [0, 0, 0]
    header = page.header()
    slots = page.slots()
    assert header.departed_beats + sum(slot.beats for slot in slots) == 15_000
    assert header.departed + len(slots) == 15
    assert not header.overflow


def test_a_thread_of_another_language(page: Page, beats: ModuleType) -> None:
    """One that C has started, and that comes to Python for one call."""
    callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: beats.beat())
    thread = ctypes.c_void_p()
    pthread = ctypes.CDLL(None)
    assert pthread.pthread_create(ctypes.byref(thread), None, callback, None) == 0
    pthread.pthread_join(thread, None)
    assert (page.header().departed_beats, page.slots()) == (1, [])
