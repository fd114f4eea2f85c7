"""Short stops: what registers say, who is never stopped, and that nobody stays so."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("needs ptrace", allow_module_level=True)

from livetrap.host import arch_name
from livetrap.model import AWAKE, ThreadState
from livetrap.observe import stops_linux
from livetrap.observe.proctree import Tree
from livetrap.observe.stops_linux import FELL_ASLEEP, Asked, Stop
from tests.observe.herds import compile_herd, eventually, herd

SVC = b"\x01\x00\x00\xd4"
NO_CALL = 2**64 - 1


def minus(value: int) -> int:
    return 2**64 - value


def x86(**changed: int) -> bytes:
    names = stops_linux._X86_NAMES
    values = {name: 100 + at for at, name in enumerate(names)} | {"orig_rax": NO_CALL} | changed
    return struct.pack("<27Q", *(values[name] for name in names), *[0] * (27 - len(names)))


def nothing(_: int, __: int) -> bytes:
    return b""


def test_registers_of_x86_64() -> None:
    found = stops_linux.x86_64(x86(rip=0x1234, rsp=0x7FFD, rbx=5, eflags=0x246), nothing)
    assert not isinstance(found, str)
    pc, sp, values = found
    assert (pc, sp, values["rbx"], values["rsp"], values["rflags"]) == (0x1234, 0x7FFD, 5, 0x7FFD, 0x246)
    assert len(values) == 17
    assert not {"rip", "cs", "orig_rax"} & values.keys()


@pytest.mark.parametrize("answer", [512, 513, 514, 516, errno.EINTR])
def test_who_is_found_in_a_call_that_was_interrupted_had_fallen_asleep(answer: int) -> None:
    assert stops_linux.x86_64(x86(orig_rax=202, rax=minus(answer)), nothing) == FELL_ASLEEP


@pytest.mark.parametrize(
    "registers", [{"orig_rax": 24, "rax": 0}, {"rax": minus(512)}, {"orig_rax": 202, "rax": minus(11)}]
)
def test_a_call_that_has_ended_is_none(registers: dict[str, int]) -> None:
    assert not isinstance(stops_linux.x86_64(x86(**registers), nothing), str)


def arm64(pc: int = 0x4000, **changed: int) -> bytes:
    general = [changed.get(f"x{number}", 200 + number) for number in range(31)]
    return struct.pack("<34Q", *general, 0x7FFD, pc, 0x6000_0000)


def test_registers_of_arm64() -> None:
    found = stops_linux.arm64(arm64(x3=7), nothing)
    assert not isinstance(found, str)
    pc, sp, values = found
    assert (pc, sp, values["x3"], values["x30"], values["nzcv"]) == (0x4000, 0x7FFD, 7, 230, 0x6000_0000)
    assert len(values) == 32


@pytest.mark.parametrize(
    ("at", "x0", "asleep"),
    [(0x4000, 0, True), (0x3FFC, minus(errno.EINTR), True), (0x3FFC, 0, False), (0x4004, 0, False)],
)
def test_where_an_arm64_call_stands(at: int, x0: int, asleep: bool) -> None:
    found = stops_linux.arm64(arm64(x0=x0), lambda address, _: SVC if address == at else b"\0\0\0\0")
    assert (found == FELL_ASLEEP) is asleep


@pytest.mark.parametrize("reader", [stops_linux.x86_64, stops_linux.arm64])
@pytest.mark.parametrize("size", [0, 68, 72])
def test_a_32_bit_program(reader: Callable[..., object], size: int) -> None:
    assert "32-bit" in str(reader(bytes(size), nothing))


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (errno.ESRCH, "", "gone"),
        (errno.EPERM, "TracerPid:\t77\nUid:\t0\t0\n", "already traced by process 77"),
        (errno.EPERM, f"TracerPid:\t0\nUid:\t{os.geteuid() + 1}\t0\n", f"belongs to user {os.geteuid() + 1}; run as"),
        (
            errno.EPERM,
            f"TracerPid:\t0\nUid:\t{os.geteuid()}\t0\n",
            "not permitted: run as its user or with CAP_SYS_PTRACE",
        ),
        (errno.EPERM, "", "CAP_SYS_PTRACE"),
        (errno.ENOSYS, "", "not implemented"),
    ],
)
def test_why_there_is_no_stop(error: int, status: str, words: str) -> None:
    process: Any = SimpleNamespace(read=lambda *_: status.encode())
    assert words in stops_linux.why_not(process, 1, error)


def test_nobody_is_stopped_where_it_is_not_known_how() -> None:
    tree = Tree(os.getpid())
    asked = [(process, files) for process in tree.processes for files in process.threads.values()]
    deadline_ns = time.monotonic_ns() + 10**9
    assert set(stops_linux.stop(asked, arch="riscv64", deadline_ns=deadline_ns).values()) == {
        "not known how to on riscv64"
    }
    assert stops_linux.stop([], arch="x86_64", deadline_ns=deadline_ns) == {}
    assert set(stops_linux.stop(asked, arch="x86_64", deadline_ns=deadline_ns).values()) == {
        "a process cannot stop itself"
    }
    tree.close()


# --- on real processes


def real(test: Callable[..., None]) -> Callable[..., None]:
    """A test that needs real processes whose registers may be read."""
    known = pytest.mark.skipif(arch_name() not in {"x86_64", "arm64"}, reason="no registers are read on this machine")
    return pytest.mark.slow(pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")(known(test)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_herd(tmp_path_factory.mktemp("stuck"), "stuck")


@pytest.fixture
def trees() -> Iterator[Callable[[int], Tree]]:
    made: list[Tree] = []

    def make(pid: int) -> Tree:
        made.append(Tree(pid))
        return made[-1]

    yield make
    for tree in made:
        tree.close()


def awake(tree: Tree) -> list[Asked]:
    tree.renew(search=False, lost=True)
    return [
        (process, files) for process in tree.processes for files in process.threads.values() if files.state() in AWAKE
    ]


def stop(asked: list[Asked], *, within_s: float = 2.0) -> list[Stop | str]:
    deadline_ns = time.monotonic_ns() + int(within_s * 1e9)
    return list(stops_linux.stop(asked, arch=arch_name(), deadline_ns=deadline_ns).values())


def all_stop(asked: list[Asked]) -> bool:
    return all(isinstance(result, Stop) for result in stop(asked))


@real
def test_stops_are_read_and_over_at_once(program: Path, trees: Callable[[int], Tree]) -> None:
    with herd(program, None, "jump", "poll", "tick") as process:
        tree = trees(process.pid)
        assert eventually(lambda: len(awake(tree)) == 2)
        asked = awake(tree)[:2]
        if not all_stop(asked):
            pytest.skip(f"no thread may be stopped here: {stop(asked)}")
        pcs = set()
        for _ in range(20):
            for result in stop(asked):
                assert isinstance(result, Stop)
                assert result.stack_at <= result.sp < result.stack_at + len(result.stack)
                pcs.add(result.pc)
            assert all(files.state() in AWAKE for _, files in asked)
        assert 2 <= len(pcs) <= 4, "one instruction, and a loop of three"


@real
def test_sleepers_are_never_stopped(program: Path, trees: Callable[[int], Tree]) -> None:
    with herd(program, None, "hold") as process:
        tree = trees(process.pid)
        assert eventually(lambda: not awake(tree))
        files = [(one, thread) for one in tree.processes for thread in one.threads.values()]

        def switches() -> list[bytes]:
            return [one.read(f"task/{thread.id.tid}/schedstat", 64) for one, thread in files]

        before = switches()
        assert set(stop(files)) == {FELL_ASLEEP}
        assert switches() == before, "nobody ran"


@real
def test_no_signal_gets_lost(program: Path, trees: Callable[[int], Tree]) -> None:
    with herd(program, None, "signals") as process:
        tree = trees(process.pid)
        assert eventually(lambda: len(awake(tree)) == 1)
        if not all_stop(awake(tree)):
            pytest.skip("no thread may be stopped here")
        for _ in range(200):
            (asked,) = awake(tree)[:1] or [None]
            if asked is None:
                continue
            # To the very thread that is stopped: queued, one by one.
            _send(asked[1].id.pid, asked[1].id.tid, signal.SIGRTMIN + 1)
            stop([asked])
        assert process.wait(5) == 42, "it has counted 200 of them"


def _send(pid: int, tid: int, number: int) -> None:
    call = {"x86_64": 234, "arm64": 131}[arch_name()]
    assert ctypes.CDLL(None).syscall(*map(ctypes.c_long, (call, pid, tid, number))) == 0


@real
def test_a_thread_that_got_no_cpu_is_free_again(program: Path, trees: Callable[[int], Tree]) -> None:
    with herd(program, None, *["poll"] * 12) as process:
        tree = trees(process.pid)
        assert eventually(lambda: len(awake(tree)) == 12)
        asked = awake(tree)
        if not all_stop(asked):
            pytest.skip("no thread may be stopped here")
        for _, files in asked:
            os.sched_setaffinity(files.id.tid, {min(os.sched_getaffinity(0))})
        # One of the two at least has to wait its turn, behind ten that nobody stops.
        assert eventually(lambda: stops_linux.NO_TIME in stop(asked[-2:], within_s=0.001))
        for _, files in asked:
            status = Path(f"/proc/{process.pid}/task/{files.id.tid}/status").read_text()
            assert "\nTracerPid:\t0\n" in status
        assert eventually(lambda: len(awake(tree)) == 12)


@real
def test_who_is_traced_by_another(program: Path, trees: Callable[[int], Tree]) -> None:
    with herd(program, None, "poll") as process:
        tree = trees(process.pid)
        assert eventually(lambda: len(awake(tree)) == 1)
        (asked,) = awake(tree)
        if not all_stop([asked]):
            pytest.skip("no thread may be stopped here")
        seized, go_on = threading.Event(), threading.Event()

        def trace() -> None:
            stops_linux._ptrace(stops_linux._SEIZE, asked[1].id.tid)
            seized.set()
            go_on.wait(10)

        tracer = threading.Thread(target=trace)
        tracer.start()
        try:
            assert seized.wait(10)
            assert stop([asked]) == [f"already traced by process {os.getpid()}"]
        finally:
            go_on.set()
            tracer.join(10)


@real
def test_threads_that_come_and_go_meanwhile(program: Path, trees: Callable[[int], Tree]) -> None:
    with herd(program, None, "churn", "jump") as process:
        tree = trees(process.pid)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            for result in stop(awake(tree), within_s=0.05):
                assert isinstance(result, Stop | str)
        process.kill()
        while files := awake(tree):
            stop(files, within_s=0.05)
        assert process.wait(5) == -signal.SIGKILL, "how it ended is still its parent's to see"
        assert all(files.state() in {None, ThreadState.GONE} for files in tree.threads())
