"""Wake sources: one table, and no text at all that makes the classifier raise."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from livetrap import syscalls, wake
from livetrap.model import ThreadState, WakeSource

NONE, TIMER, OUTSIDE, UNKNOWN = WakeSource.NONE, WakeSource.TIMER, WakeSource.OUTSIDE, WakeSource.UNKNOWN
NUMBERS = {arch: {name: number for number, name in calls.items()} for arch, calls in syscalls.CALLS.items()}
MAPS = """\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000001000-7f0000002000 rw-s 00000000 00:01 99    /dev/shm/x (deleted)
"""
IN_PRIVATE, IN_SHARED = 0x7F0000000010, 0x7F0000001010
PRIVATE, REALTIME = 128, 256
MINUS_1 = 2**64 - 1
MINUS_1_INT = 2**32 - 1


def line(number: int, *args: int) -> str:
    filled = (*args, *(0 for _ in range(6 - len(args))))
    return " ".join([str(number), *(hex(value) for value in filled), "0x7ffd00000000", "0x7f1200000000"]) + "\n"


def of(name: str, *args: int, arch: str = "x86_64", **known: object) -> tuple[WakeSource, str]:
    given_: dict[str, object] = {"pid": 100, "live_tids": (100, 101, 102), "tree_pids": (100, 200), **known}
    text = line(NUMBERS[arch][name], *args)
    return wake.classify(arch, text, ThreadState.ASLEEP, **given_)  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
@pytest.mark.parametrize(
    ("operation", "name"),
    [(0, "wait"), (6, "lock-pi"), (9, "wait-bitset"), (11, "wait-requeue-pi"), (13, "lock-pi2")],
)
def test_futex_waits(arch: str, operation: int, name: str) -> None:
    for clock in (0, REALTIME):
        private = operation | PRIVATE | clock
        assert of("futex", IN_SHARED, private, 5, arch=arch) == (NONE, f"futex {name} (untimed, private)")
        assert of("futex", IN_SHARED, private, 5, 0x7FFD, arch=arch) == (TIMER, f"futex {name} (timed)")
        shared = operation | clock
        assert of("futex", IN_SHARED, shared, 5, arch=arch) == (OUTSIDE, f"futex {name} (untimed, shared)")
        assert of("futex", IN_SHARED, shared, 5, 0x7FFD, arch=arch)[0] is TIMER
        assert of("futex", IN_SHARED, shared, 5, arch=arch, maps=MAPS)[0] is OUTSIDE
        assert of("futex", IN_PRIVATE, shared, 5, arch=arch, maps=MAPS)[0] is NONE
        assert of("futex", 0x10, shared, 5, arch=arch, maps=MAPS)[0] is OUTSIDE


@pytest.mark.parametrize("operation", [0, 9, 9 | REALTIME])
def test_a_join_is_known_by_the_awaited_thread_id(operation: int) -> None:
    assert of("futex", IN_PRIVATE, operation, 101) == (NONE, f"{_futex(operation)} (untimed, joins thread 101)")
    assert of("futex", IN_PRIVATE, operation, 103)[0] is OUTSIDE, "no live thread of this process"
    assert of("futex", IN_PRIVATE, operation, 101, 0x7FFD)[0] is TIMER
    assert of("futex", IN_PRIVATE, operation | 2**32, 101 | 7 << 32)[0] is NONE, "upper halves of registers say nothing"


def test_only_an_operation_that_compares_can_be_a_join() -> None:
    assert of("futex", IN_SHARED, 6, 101)[0] is OUTSIDE


def _futex(operation: int) -> str:
    return {0: "futex wait", 9: "futex wait-bitset"}[operation & 127]


@pytest.mark.parametrize(
    ("call", "args", "source"),
    [
        ("futex", (IN_PRIVATE, 1 | PRIVATE, 5), UNKNOWN),
        ("futex_wait", (IN_PRIVATE, 5, MINUS_1_INT, 2 | PRIVATE), NONE),
        ("futex_wait", (IN_PRIVATE, 5, MINUS_1_INT, 2 | PRIVATE, 0x7FFD), TIMER),
        ("futex_wait", (IN_PRIVATE, 5, MINUS_1_INT, 2), OUTSIDE),
        ("futex_wait", (IN_PRIVATE, 102, MINUS_1_INT, 2), NONE),
        ("futex_waitv", (0x7FFD, 2, 0, 0), UNKNOWN),
        ("futex_waitv", (0x7FFD, 2, 0, 0x7FFD), TIMER),
        ("wait4", (200,), NONE),
        ("wait4", (300,), UNKNOWN),
        ("wait4", (MINUS_1,), NONE),
        ("wait4", (MINUS_1_INT,), NONE),
        ("wait4", (0,), NONE),
        ("waitid", (0, 0), NONE),
        ("waitid", (1, 200), NONE),
        ("waitid", (1, 300), UNKNOWN),
        ("waitid", (3, 5), NONE),
        ("nanosleep", (0x7FFD,), TIMER),
        ("clock_nanosleep", (1, 0, 0x7FFD), TIMER),
        ("restart_syscall", (), TIMER),
        ("poll", (0x7FFD, 1, 1000), TIMER),
        ("poll", (0x7FFD, 1, 0), TIMER),
        ("poll", (0x7FFD, 1, MINUS_1_INT), OUTSIDE),
        ("poll", (0x7FFD, 1, MINUS_1), OUTSIDE),
        ("ppoll", (0x7FFD, 1, 0), OUTSIDE),
        ("ppoll", (0x7FFD, 1, 0x7FFE), TIMER),
        ("select", (1, 0x7FFD, 0, 0, 0), OUTSIDE),
        ("select", (1, 0x7FFD, 0, 0, 0x7FFE), TIMER),
        ("pselect6", (1, 0x7FFD, 0, 0, 0), OUTSIDE),
        ("pselect6", (1, 0x7FFD, 0, 0, 0x7FFE), TIMER),
        ("epoll_wait", (4, 0x7FFD, 8, MINUS_1_INT), OUTSIDE),
        ("epoll_wait", (4, 0x7FFD, 8, 50), TIMER),
        ("epoll_pwait", (4, 0x7FFD, 8, MINUS_1_INT), OUTSIDE),
        ("epoll_pwait", (4, 0x7FFD, 8, 50), TIMER),
        ("epoll_pwait2", (4, 0x7FFD, 8, 0), OUTSIDE),
        ("epoll_pwait2", (4, 0x7FFD, 8, 0x7FFE), TIMER),
        ("rt_sigtimedwait", (0x7FFD, 0, 0), OUTSIDE),
        ("rt_sigtimedwait", (0x7FFD, 0, 0x7FFE), TIMER),
        ("semtimedop", (1, 0x7FFD, 1, 0x7FFE), TIMER),
        ("recvmmsg", (3, 0x7FFD, 1, 0, 0x7FFE), TIMER),
        ("mq_timedreceive", (3, 0x7FFD, 9, 0, 0), OUTSIDE),
        ("pause", (), OUTSIDE),
        ("rt_sigsuspend", (0x7FFD,), OUTSIDE),
        ("accept", (3,), OUTSIDE),
        ("accept4", (3,), OUTSIDE),
        ("connect", (3,), OUTSIDE),
        ("recvfrom", (3,), OUTSIDE),
        ("recvmsg", (3,), OUTSIDE),
        ("msgrcv", (3,), OUTSIDE),
        ("read", (0,), OUTSIDE),
        ("write", (1,), OUTSIDE),
        ("flock", (3,), OUTSIDE),
        ("io_uring_enter", (3,), OUTSIDE),
    ],
)
@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
def test_calls(arch: str, call: str, args: tuple[int, ...], source: WakeSource) -> None:
    if call not in NUMBERS[arch]:
        pytest.skip(f"{arch} has no {call}")
    assert of(call, *args, arch=arch)[0] is source


def test_no_child_in_the_tree_means_nothing_known() -> None:
    assert of("wait4", MINUS_1, tree_pids=(100,))[0] is UNKNOWN


@pytest.mark.parametrize(
    ("fd", "inside", "source"),
    [
        ("pipe:[123]", False, OUTSIDE),
        ("pipe:[123]", True, NONE),
        ("anon_inode:[timerfd]", False, TIMER),
        ("anon_inode:[eventfd]", False, OUTSIDE),
        ("/dev/pts/0", False, OUTSIDE),
        ("", False, OUTSIDE),
    ],
)
def test_reads_go_by_what_the_descriptor_is(fd: str, inside: bool, source: WakeSource) -> None:
    answer = of("read", 3, fd=fd, fd_inside=inside)
    assert answer[0] is source
    assert fd in answer[1]


@pytest.mark.parametrize(
    ("text", "state", "answer"),
    [
        (None, ThreadState.ASLEEP, (UNKNOWN, "cannot be read: Permission denied")),
        (None, ThreadState.UNINTERRUPTIBLE, (OUTSIDE, "uninterruptible sleep")),
        ("running\n", ThreadState.ASLEEP, (UNKNOWN, "running by now")),
        ("running\n", ThreadState.RUNNABLE, (UNKNOWN, "not asleep (runnable)")),
        (line(202, 1, 128, 2), ThreadState.STOPPED, (UNKNOWN, "not asleep (stopped)")),
        ("-1 0x7ffd 0x7f12\n", ThreadState.ASLEEP, (UNKNOWN, "asleep outside any system call")),
        (line(499), ThreadState.ASLEEP, (UNKNOWN, "system call 499")),
        ("202 0x1 0x80\n", ThreadState.ASLEEP, (UNKNOWN, "not understood")),
        ("", ThreadState.ASLEEP, (UNKNOWN, "not understood")),
    ],
)
def test_what_is_no_call(text: str | None, state: ThreadState, answer: tuple[WakeSource, str]) -> None:
    assert wake.classify("x86_64", text, state, unreadable="Permission denied") == answer


def test_an_unknown_machine_is_unknown() -> None:
    assert wake.classify("riscv64", line(98, 1, 128, 2), ThreadState.ASLEEP)[0] is UNKNOWN


def test_what_has_to_be_looked_up_beforehand() -> None:
    assert wake.wants_maps("x86_64", line(202, 1, 0, 5))
    assert not wake.wants_maps("x86_64", line(202, 1, PRIVATE, 5))
    assert not wake.wants_maps("x86_64", line(202, 1, 0, 5, 0x7FFD))
    assert wake.wants_maps("arm64", line(455, 1, 5, 0, 2))
    assert not wake.wants_maps("x86_64", "running")
    assert wake.descriptors("x86_64", line(0, 7)) == [7]
    assert wake.descriptors("arm64", line(63, 7)) == [7]
    assert wake.descriptors("x86_64", line(202, 7)) == []
    assert wake.descriptors("x86_64", "junk") == []


def polls(arch: str, call: str, *args: int) -> str:
    return line(NUMBERS[arch][call], *args)


def pollfds(*fds: int) -> bytes:
    return b"".join(struct.pack("=ihh", fd, 1, 0) for fd in fds)


@pytest.mark.parametrize(("arch", "call"), [("x86_64", "poll"), ("x86_64", "ppoll"), ("arm64", "ppoll")])
def test_what_poll_waits_for_stands_in_memory(arch: str, call: str) -> None:
    for_ever, for_a_time = (MINUS_1_INT, 0) if call == "poll" else (0, 0x7FFE)
    for_a_time = for_a_time or 50
    assert wake.poll_memory(arch, polls(arch, call, 0x7FFD, 2, for_ever)) == [(0x7FFD, 16)]
    assert wake.poll_memory(arch, polls(arch, call, 0x7FFD, 2, for_a_time)) == []
    for count in (0, 1025, 2**64 - 1):
        assert wake.poll_memory(arch, polls(arch, call, 0x7FFD, count, for_ever)) == []
    assert wake.descriptors(arch, polls(arch, call, 0x7FFD, 3, for_ever), [pollfds(5, -1, 9)]) == [5, 9]


@pytest.mark.parametrize(("arch", "call"), [("x86_64", "select"), ("x86_64", "pselect6"), ("arm64", "pselect6")])
def test_what_select_waits_for_stands_in_memory(arch: str, call: str) -> None:
    text = polls(arch, call, 66, 0x7F00, 0, 0x7F80, 0)
    assert wake.poll_memory(arch, text) == [(0x7F00, 16), (0x7F80, 16)]
    assert wake.poll_memory(arch, polls(arch, call, 66, 0x7F00, 0, 0x7F80, 0x7FFE)) == []
    for count in (0, 1025, MINUS_1):
        assert wake.poll_memory(arch, polls(arch, call, count, 0x7F00, 0, 0, 0)) == []
    pieces = [(1 << 3 | 1 << 65 | 1 << 66).to_bytes(16, "little"), (1 << 4).to_bytes(16, "little")]
    assert wake.descriptors(arch, text, pieces) == [3, 4, 65]


def test_what_epoll_waits_for_is_told_by_its_descriptor() -> None:
    assert wake.epoll_descriptor("x86_64", polls("x86_64", "epoll_wait", 4, 0x7FFD, 8, MINUS_1_INT)) == 4
    assert wake.epoll_descriptor("arm64", polls("arm64", "epoll_pwait", 4, 0x7FFD, 8, MINUS_1_INT)) == 4
    assert wake.epoll_descriptor("x86_64", polls("x86_64", "epoll_wait", 4, 0x7FFD, 8, 9)) is None
    assert wake.epoll_descriptor("x86_64", polls("x86_64", "epoll_pwait2", 4, 0x7FFD, 8, 0x7FFE)) is None
    assert wake.epoll_descriptor("x86_64", line(0, 4)) is None
    text = (
        "pos:\t0\nflags:\t02\nmnt_id:\t15\n"
        "tfd:        5 events:       19 data:         ffff0005  pos:0 ino:1a sdev:e\n"
        "tfd:       12 events:       19 data: 7\n"
    )
    assert wake.epoll_watches(text) == [(5, 26), (12, -1)]
    assert wake.epoll_watches("junk") == []


@pytest.mark.parametrize("call", ["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"])
@pytest.mark.parametrize("inside", [True, False])
def test_polls_of_pipes_within_the_tree(call: str, inside: bool) -> None:
    for_ever = MINUS_1_INT if call in {"poll", "epoll_wait", "epoll_pwait"} else 0
    at = {"poll": 2, "ppoll": 2, "select": 4, "pselect6": 4}.get(call, 3)
    args = [4, 1, 0, 0, 0]
    args[at] = for_ever
    source, words = of(call, *args, fd="pipe:[7]", fd_inside=inside)
    assert source is (NONE if inside else OUTSIDE)
    assert "untimed" in words
    assert "pipe:[7]" in words
    args[at] = 50
    assert of(call, *args, fd="pipe:[7]", fd_inside=inside)[0] is TIMER


@pytest.mark.parametrize("call", ["rt_sigtimedwait", "semtimedop", "mq_timedreceive", "accept", "pause", "futex_waitv"])
def test_pipes_excuse_no_other_call(call: str) -> None:
    assert of(call, 4, 0, 0, 0, 0, fd="pipe:[7]", fd_inside=True)[0] is not NONE


def test_mappings() -> None:
    assert wake.private_mapping(MAPS, IN_PRIVATE) is True
    assert wake.private_mapping(MAPS, IN_SHARED) is False
    assert wake.private_mapping(MAPS, 0x7F0000002000) is None
    assert wake.private_mapping("", 0) is None


words = some.one_of(some.text(max_size=20), some.integers(-5, 600).map(str), some.integers(0, 2**70).map(hex))


@given(
    some.sampled_from(["x86_64", "arm64", "vax"]),
    some.one_of(some.none(), some.text(), some.lists(words, max_size=12).map(" ".join)),
    some.sampled_from(ThreadState),
    some.text(),
)
def test_it_never_raises(arch: str, text: str | None, state: ThreadState, maps: str) -> None:
    source, _ = wake.classify(arch, text, state, maps=maps)
    assert isinstance(source, WakeSource)
    wake.wants_maps(arch, text or "")
    wake.descriptors(arch, text or "")
    wake.poll_memory(arch, text or "")
    wake.epoll_descriptor(arch, text or "")
    wake.epoll_watches(maps)


@given(
    some.sampled_from(sorted(syscalls.CALLS["x86_64"])), some.lists(some.integers(0, 2**64 - 1), min_size=6, max_size=6)
)
def test_only_a_sleeper_nothing_outside_can_reach_is_convicted(number: int, args: list[int]) -> None:
    source, _ = wake.classify("x86_64", line(number, *args), ThreadState.ASLEEP, pid=1, tree_pids=(1,))
    if source is NONE:
        assert syscalls.CALLS["x86_64"][number] in ("futex", "futex_wait")


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("futex", (0x10, PRIVATE, 2), wake.FutexWait(0x10, 2, names_owner=False)),
        ("futex", (0x10, 9 | PRIVATE | REALTIME, 2, 0, 0, MINUS_1), wake.FutexWait(0x10, 2, names_owner=False)),
        ("futex", (0x10, 0, MINUS_1), wake.FutexWait(0x10, MINUS_1_INT, names_owner=False)),
        ("futex", (0x10, 6 | PRIVATE, 0), wake.FutexWait(0x10, None, names_owner=True)),
        ("futex", (0x10, 13, 0), wake.FutexWait(0x10, None, names_owner=True)),
        ("futex_wait", (0x10, 2, MINUS_1, PRIVATE), wake.FutexWait(0x10, 2, names_owner=False)),
        ("futex", (0x10, PRIVATE, 2, 0x7FFD), None),
        ("futex", (0x10, 6, 0, 0x7FFD), None),
        ("futex", (0x10, 11, 2), None),
        ("futex", (0x10, 1, 2), None),
        ("futex_wait", (0x10, 2, MINUS_1, PRIVATE, 0x7FFD), None),
        ("nanosleep", (0x10, 0), None),
    ],
)
def test_the_futex_of_an_untimed_wait(
    arch: str, name: str, args: tuple[int, ...], expected: wake.FutexWait | None
) -> None:
    assert wake.futex_wait(arch, line(NUMBERS[arch][name], *args)) == expected


@given(some.text())
def test_no_text_makes_the_futex_raise(text: str) -> None:
    assert wake.futex_wait("x86_64", text) is None or text.strip()
