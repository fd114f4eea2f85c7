"""The C side alone, through `run.c`: techniques, kernels, start lines, the page, the stored program counter."""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.csrc.driver import TECHNIQUES, compilers, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not compilers(), reason="no C compiler is installed")]

CORRECT = [file.stem for file in TECHNIQUES if file.stem != "raw_spin"]
RIGHT, WRONG, SKIPPED, ERROR = (0, ""), 1, 3, 4
HANGS_AFTER_S = 0.5
"""A trial that ends takes a few milliseconds."""
MAGIC, SLOTS, NONCE = 0x454741505054524C, 16, 0xABCDEF
HEADER_BYTES, SLOT_BYTES = 1024, 128
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


class PageFile:
    """A page in a file, as the harness makes it."""

    def __init__(self, path: Path, *, slots: int = SLOTS) -> None:
        self.path = path
        size = HEADER_BYTES + slots * SLOT_BYTES
        line = struct.pack("<QIIQQ", MAGIC, 1, slots, NONCE, size)
        path.write_bytes(line + bytes(size - len(line)))

    def spec(self, fd: int = -1, *, path: bool = True, nonce: int = NONCE) -> str:
        return f"1:{fd}:{nonce:x}:{self.path if path else ''}"

    def read(self, offset: int, form: str) -> tuple[int, ...]:
        return struct.unpack_from(f"<{form}", self.path.read_bytes(), offset)

    @property
    def departed(self) -> tuple[int, int]:
        """Beats of threads that have gone, and how many have."""
        beats, threads = self.read(128, "QQ")
        return beats, threads

    @property
    def slots_used(self) -> int:
        return self.read(148, "I")[0]

    @property
    def result(self) -> int:
        return self.read(296, "I")[0]

    @property
    def message(self) -> str:
        return self.path.read_bytes()[384:1024].partition(b"\0")[0].decode()


@pytest.fixture
def page(tmp_path: Path) -> PageFile:
    return PageFile(tmp_path / "page")


@pytest.mark.parametrize("technique", CORRECT)
def test_correct_techniques_pass(plain: Path, optimised: Path, technique: str) -> None:
    for driver, threads in itertools.product((plain, optimised), (1, 2, 5)):
        assert run(driver, "barrier_rounds", technique, threads, "spin", "rounds=12") == RIGHT


@pytest.mark.parametrize("silent", ["no", "yes"])
def test_jitter_delays_waits_and_changes_no_result(optimised: Path, silent: str) -> None:
    """Two delays a wait, half of them none: 200 rounds of up to 400 us take some 40 ms at least; without, some 1 ms."""
    words = ("barrier_rounds", "acquire_yield", 2, "spin", "rounds=200", f"silent={silent}")
    for jitter, least_s in ((0, 0.0), (400, 0.03)):
        began = time.monotonic()
        assert run(optimised, *words, f"@jitter={jitter}") == RIGHT
        assert time.monotonic() - began > least_s


def test_jitter_stays_out_of_the_wait_s_mark(optimised: Path, page: PageFile) -> None:
    """A thread alone is never seen to wait: what delays it lies before and after its waits."""
    words = [str(optimised), "barrier_rounds", "acquire_yield", "1", "none", "rounds=300", "@jitter=1000"]
    with subprocess.Popen(words, env={**os.environ, "LIVETRAP_PAGE": page.spec()}, stdout=subprocess.DEVNULL) as trial:
        try:
            marks = [0, 0, 0, 0, 0]
            until = time.monotonic() + 10
            while trial.poll() is None and time.monotonic() < until:
                marks[page.read(HEADER_BYTES + 8, "I")[0]] += 1
            assert trial.poll() == 0
        finally:
            trial.kill()
    assert marks[1] > 20 * marks[2]


def test_raw_spin_passes_unoptimised(plain: Path) -> None:
    for threads in (1, 2, 5):
        assert run(plain, "barrier_rounds", "raw_spin", threads, "clock", "rounds=12") == RIGHT


def test_raw_spin_hangs_optimised(optimised: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(optimised, "barrier_rounds", "raw_spin", 2, "none", timeout_s=HANGS_AFTER_S)


@pytest.mark.parametrize("flag", ["plain", "volatile", "relaxed", "acquire"])
def test_every_wait_passes_unoptimised(plain: Path, flag: str) -> None:
    bodies = ("empty", "volatile_counter", "plain_counter", "pause", "yield")
    for body, moment in itertools.product(bodies, ("early", "late")):
        words = (f"flag={flag}", f"body={body}", f"moment={moment}", "delay_us=300")
        assert run(plain, "flag_handoff", "-", 3, "spin", *words) == RIGHT


@pytest.mark.parametrize("flag", ["volatile", "relaxed", "acquire"])
def test_fixed_flags_pass_optimised(optimised: Path, flag: str) -> None:
    for threads, how in itertools.product((1, 2, 4), ("sleep", "compute")):
        words = (f"flag={flag}", f"delay_how={how}", "body=empty")
        assert run(optimised, "flag_handoff", "-", threads, "none", *words) == RIGHT


@pytest.mark.parametrize("compiler", compilers())
def test_plain_flags_hang_or_vanish_optimised(driver_of: Callable[[str, str], Path], compiler: str) -> None:
    """gcc hangs in all three; clang hangs where the body steps a volatile counter, and deletes the other loops."""
    driver = driver_of(compiler, "-O2")
    vanished = {"empty", "plain_counter"} if compiler == "clang" else set()
    for body in ("empty", "volatile_counter", "plain_counter"):
        words = ("flag_handoff", "-", 3, "spin", "flag=plain", f"body={body}")
        if body in vanished:
            status, message = run(driver, *words)
            assert status == WRONG
            assert "stale payload: 0, not 7" in message
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                run(driver, *words, timeout_s=HANGS_AFTER_S)
    for body in ("pause", "yield"):
        assert run(driver, "flag_handoff", "-", 3, "spin", "flag=plain", f"body={body}") == RIGHT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing", "-", 2, "none"), "there is no kernel nothing in this build"),
        (("barrier_rounds", "nothing", 2, "none"), "there is no technique 'nothing' in this build"),
        (("barrier_rounds", "-", 2, "none"), "there is no technique '' in this build"),
        (("barrier_rounds", "acquire_spin", 0, "none"), "a team has at least one thread"),
        (("barrier_rounds", "acquire_spin", 2, "sideways"), "align is none, spin or clock, not sideways"),
        (("barrier_rounds", "acquire_spin", 2, "none", "laps=2"), "kernel barrier_rounds has no parameter laps"),
        (("barrier_rounds", "acquire_spin", 2, "none", "rounds=0"), "rounds of kernel barrier_rounds is from 1 to"),
        (("flag_handoff", "-", 2, "none", "flag=4"), "flag of kernel flag_handoff is from 0 to 3, not 4"),
        (
            ("barrier_rounds", "acquire_spin", 2, "none", "compute_us=1", "compute_thread=2"),
            "compute_thread is 2, and the team has threads 0 to 1",
        ),
    ],
)
def test_what_cannot_be_run_is_an_error(
    optimised: Path, page: PageFile, words: tuple[object, ...], message: str
) -> None:
    status, said = run(optimised, *words, page=page.spec())
    assert status == ERROR
    assert message in said
    assert page.message == said
    assert page.result == 4


@LINUX
def test_threads_that_cannot_be_made(optimised: Path, page: PageFile) -> None:
    """Those that were made before are sent home, none is left at the start line."""
    limited = f"ulimit -v 60000; exec {optimised} barrier_rounds acquire_yield 4000 spin"
    done = subprocess.run(
        ["/bin/sh", "-c", limited],
        env={**os.environ, "LIVETRAP_PAGE": page.spec()},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == ERROR
    assert " of 4000 could not be made: " in done.stdout
    assert page.departed[0] == 0
    assert page.read(280, "Q") == (0,)


@pytest.mark.parametrize("align", ["none", "spin", "clock"])
def test_a_team_of_hundreds(optimised: Path, tmp_path: Path, align: str) -> None:
    page = PageFile(tmp_path / "page", slots=512)
    trial = ("barrier_rounds", "condition_variable", 512, align, "rounds=3")
    assert run(optimised, *trial, page=page.spec()) == RIGHT
    assert page.departed == (3 * 512, 512)


@pytest.mark.parametrize("by_fd", [True, False])
def test_the_page_is_filled(optimised: Path, page: PageFile, by_fd: bool) -> None:
    fd = os.open(page.path, os.O_RDWR)
    try:
        spec = page.spec(fd, path=False) if by_fd else page.spec()
        trial = ("barrier_rounds", "acquire_yield", 3, "spin", "rounds=5")
        before = time.monotonic_ns()
        assert run(optimised, *trial, page=spec, pass_fds=(fd,)) == RIGHT
    finally:
        os.close(fd)
    assert page.departed == (15, 3)
    assert (page.slots_used, page.result, page.message) == (3, 1, "")
    probe_pid, team, probe_tid = page.read(256, "IIQ")
    started_ns, finished_ns = page.read(280, "QQ")
    assert team == 3
    assert before < started_ns <= finished_ns < time.monotonic_ns()
    if sys.platform == "linux":
        assert probe_pid == probe_tid  # the main thread
    indices = {page.read(HEADER_BYTES + slot * SLOT_BYTES + 100, "I")[0] for slot in range(3)}
    assert indices == {1, 2, 3}


def test_a_page_that_is_another_is_left_alone(optimised: Path, page: PageFile) -> None:
    before = page.path.read_bytes()
    trial = ("barrier_rounds", "acquire_yield", 2, "none")
    assert run(optimised, *trial, page=page.spec(nonce=NONCE + 1)) == RIGHT
    assert run(optimised, *trial, page="1:99:zz") == RIGHT
    assert page.path.read_bytes() == before


def test_too_few_slots(optimised: Path, tmp_path: Path) -> None:
    page = PageFile(tmp_path / "page", slots=2)
    trial = ("barrier_rounds", "condition_variable", 4, "none", "rounds=2")
    assert run(optimised, *trial, page=page.spec()) == RIGHT
    assert page.read(144, "I") == (1,), "the overflow flag"
    assert page.departed == (4, 2)


def test_silent_claims_no_slot(optimised: Path, page: PageFile) -> None:
    trial = ("barrier_rounds", "acquire_yield", 3, "none", "silent=yes")
    assert run(optimised, *trial, page=page.spec()) == RIGHT
    assert (page.slots_used, page.departed, page.result) == (0, (0, 0), 1)


@LINUX
def test_placement_is_read_back(optimised: Path, page: PageFile) -> None:
    cpu = min(os.sched_getaffinity(0))
    trial = ("barrier_rounds", "acquire_yield", 2, "spin")
    for word, good in ((f"@cpu={cpu}", True), ("@cpu=8000", False), ("@cpu=9000", False)):
        code, message = run(optimised, *trial, word, page=page.spec())
        assert (code, message) == RIGHT if good else (code == SKIPPED and "could not be placed" in message)
        placed = [page.read(HEADER_BYTES + slot * SLOT_BYTES + 96, "i")[0] for slot in range(2)]
        assert placed == [1, 1] if good else any(code < 0 for code in placed)


@LINUX
def test_a_spinning_thread_stores_its_program_counter(optimised: Path, page: PageFile) -> None:
    words = [str(optimised), "barrier_rounds", "raw_spin", "2", "none"]
    with subprocess.Popen(words, env={**os.environ, "LIVETRAP_PAGE": page.spec()}) as trial:
        try:
            waiting = wait_for_mark(page)
            tid, number = page.read(waiting + 40, "Q")[0], page.read(waiting + 60, "I")[0]
            assert number == signal.SIGRTMIN + 5
            signal_thread(trial.pid, tid, number)
            until = time.monotonic() + 5
            while page.read(waiting + 80, "Q") == (0,):
                assert time.monotonic() < until, "no program counter was stored"
            assert page.read(waiting + 72, "Q") != (0,)
            assert trial.poll() is None
        finally:
            trial.kill()


def wait_for_mark(page: PageFile) -> int:
    """The offset of the first slot whose thread waits, once there is one."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        for slot in range(SLOTS):
            offset = HEADER_BYTES + slot * SLOT_BYTES
            if page.read(offset + 8, "I") == (2,) and page.read(offset + 88, "I") == (1,):
                return offset
    raise AssertionError("no thread waits")


def signal_thread(pid: int, tid: int, number: int) -> None:
    """tgkill: by its number, as Python has no name for it."""
    import ctypes  # noqa: PLC0415

    tgkill = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
    assert ctypes.CDLL(None).syscall(tgkill, pid, ctypes.c_int(tid), number) == 0
