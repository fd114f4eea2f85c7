"""What debuggers print, read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap.evidence import printed
from livetrap.evidence.printed import Stack

EU_STACK = """\
PID 1639 - process
TID 1639:
#0  0x00007f43fc8edf16 __futex_abstimed_wait_common64 - /usr/lib/x86_64-linux-gnu/libc.so.6
    ./nptl/futex-internal.c:57:12
#1  0x0000555ac3f7f0c0 main - /tmp/my programs/spin
    /tmp/spin.c:28:5
#2  0x0000555ac3f7f0f1 _start - /tmp/my programs/spin
TID 1642:
#0  0x0000555ac3f7f1e4 std::atomic<int>::load(std::memory_order) const - /tmp/my programs/spin
    /tmp/spin.c:12:12
#1  0x0000555ac3f7f1e4 - /tmp/my programs/spin
#2  0x00007f43fc8f11f5 - 1 start_thread
#3  0x00007ffd00000123
eu-stack: dwfl_thread_getframes tid 1642 at 0x0 in <unknown>: No DWARF information found
"""

GDB = """\
[New LWP 1641]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
0x00007f in ?? ()

Thread 2 (Thread 0x7f43fc0636c0 (LWP 1642) "spin 2"):
#0  0x0000555ac3f7f1e4 in inner_wait (f=...) at spin.c:12
#1  wait2 (arg=..., n=...) at spin.c:17
#2  0x00007f43fc8f11f5 in ?? () from /lib/x86_64-linux-gnu/libfoo.so.6
#3  0x00007f43fc8f11f5 in std::function<void (int)>::operator()(int) const (this=...) at a b.h:1

Thread 1 (process 1639):
#0  main () at spin.c:28
[Inferior 1 (process 1639) detached]
"""

LLDB = """\
(lldb) process attach --pid 12
* thread #1, queue = 'com.apple.main-thread', stop reason = signal SIGSTOP
  * frame #0: 0x0000000183a0b5f0 libsystem_kernel.dylib`__ulock_wait + 8
    frame #1: 0x0000000100003f2c spin`main at spin.c:28:5
  thread #2, name = 'worker'
    frame #0: 0x0000000100003ee8 spin`wait_for_flag(argument=0x0) at spin.c:11:5
"""

SAMPLE = """\
Analysis of sampling spin (pid 12) every 1 millisecond
Call graph:
    800 Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)
    + 800 start  (in dyld) + 2360  [0x1838ff154]
    +   790 main  (in spin) + 60  [0x100003f2c]  spin.c:28
    +   ! 790 __ulock_wait  (in libsystem_kernel.dylib) + 8  [0x183a0b5f0]
    +   10 main  (in spin) + 64  [0x100003f30]
    800 Thread_1235: worker
      800 thread_start  (in libsystem_pthread.dylib) + 8  [0x183a43e3c]
        800 wait_for_flag  (in spin) + 4  [0x100003ee8]

Total number in stack (recursive counted multiple, when >=5):
        1 other  (in spin)
"""

PY_SPY = """\
Warning: something
[{"pid": 1, "thread_id": 14053, "thread_name": "MainThread", "os_thread_id": 77, "active": false, "owns_gil": false,
  "frames": [{"name": "wait", "filename": "/x/threading.py", "module": null, "line": 327, "locals": null}]}]
"""


def test_eu_stack() -> None:
    assert printed.eu_stack(EU_STACK, pid=1639) == (
        Stack(
            pid=1639,
            tid=1639,
            frames=(
                "__futex_abstimed_wait_common64 at ./nptl/futex-internal.c:57 [libc.so.6]",
                "main at /tmp/spin.c:28 [spin]",
                "_start [spin]",
            ),
        ),
        Stack(
            pid=1639,
            tid=1642,
            frames=(
                "std::atomic<int>::load(std::memory_order) const at /tmp/spin.c:12 [spin]",
                "0x555ac3f7f1e4 [spin]",
                "start_thread",
                "0x7ffd00000123",
            ),
        ),
    )


def test_gdb() -> None:
    assert printed.gdb(GDB, pid=1639) == (
        Stack(
            pid=1639,
            tid=1642,
            name="spin 2",
            frames=(
                "inner_wait at spin.c:12",
                "wait2 at spin.c:17",
                "?? [libfoo.so.6]",
                "std::function<void (int)>::operator()(int) const at a b.h:1",
            ),
        ),
        Stack(pid=1639, tid=1639, frames=("main at spin.c:28",)),
    )


def test_lldb() -> None:
    first, second = printed.lldb(LLDB, pid=12)
    assert first.frames == ("__ulock_wait + 8 [libsystem_kernel.dylib]", "main at spin.c:28:5 [spin]")
    assert (second.name, second.frames) == ("worker", ("wait_for_flag(argument=0x0) at spin.c:11:5 [spin]",))


def test_sample_gives_the_branch_that_was_seen_most() -> None:
    assert printed.sample(SAMPLE, pid=12) == (
        Stack(
            pid=12,
            tid=1234,
            name="DispatchQueue_1: com.apple.main-thread (serial)",
            frames=("__ulock_wait [libsystem_kernel.dylib]", "main [spin]", "start [dyld]"),
        ),
        Stack(
            pid=12, tid=1235, name="worker", frames=("wait_for_flag [spin]", "thread_start [libsystem_pthread.dylib]")
        ),
    )


def test_py_spy() -> None:
    assert printed.py_spy(PY_SPY, pid=1) == (
        Stack(pid=1, tid=77, name="MainThread", frames=("wait at /x/threading.py:327",)),
    )
    assert printed.py_spy("Error: Failed to find python version\n[12", pid=1) == ()


def test_text_of_the_target_is_made_harmless_and_short() -> None:
    hostile = f"TID 1:\n#0  0x0000000000000001 a\x1b[31mb\u202e{'x' * 1000} - /a\x1b]0;t\x07b\n"
    (stack,) = printed.eu_stack(hostile, pid=1)
    assert "\x1b" not in stack.frames[0]
    assert "\u202e" not in stack.frames[0]
    assert len(stack.frames[0]) < 320


def test_a_flood_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "MOST_THREADS", 5)
    text = "".join(f"TID {tid}:\n" + "#0  0x0000000000000001 f\n" * 100 for tid in range(9))
    stacks = printed.eu_stack(text, pid=1)
    assert len(stacks) == 5
    assert {len(stack.frames) for stack in stacks} == {printed.MOST_FRAMES}


PARSERS = (printed.eu_stack, printed.gdb, printed.lldb, printed.sample, printed.py_spy)
LINES = "".join((EU_STACK, GDB, LLDB, SAMPLE, PY_SPY)).splitlines()


@pytest.mark.parametrize("parse", PARSERS)
@given(lines=st.lists(st.sampled_from(LINES) | st.text("#0 TIDx:-()[{\"'`\n\x1b\u202e", max_size=30), max_size=12))
def test_whatever_a_debugger_prints_is_read(parse: Callable[..., tuple[Stack, ...]], lines: list[str]) -> None:
    assert all(stack.frames for stack in parse("\n".join(lines), pid=1))
