"""Short stops of awake threads on Linux, to read their registers (ptrace(2)): seize, interrupt, read, go on.

Only threads that are awake are stopped. A thread could fall asleep between the check and the interrupt, and its call
would then be interrupted and begun anew. So it is checked twice, the second time immediately before the interrupt
(some microseconds); one that is found in a blocking call all the same is let go at once, and reported so.

All of it happens in a helper thread that lives no longer than one round of stops. The kernel lets everything go that a
thread traces when that thread ends, stopped or not: so whatever happens, nobody stays stopped, and a thread that got no
CPU in time to stop is free of it again.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from livetrap.model import AWAKE, ThreadId
from livetrap.observe.proctree import ProcessFiles, ThreadFiles, read_at, status_number

assert sys.platform == "linux"

STACK_BELOW = 256
"""So much of the stack is copied below the stack pointer (x86-64 may use 128 bytes there), ..."""
STACK_BYTES = 4096
"""... and so much in all, while the thread is stopped."""

FELL_ASLEEP = "the thread fell asleep"
NO_TIME = "the thread got no CPU in time"
TOO_LATE = "no time was left to ask"
GONE = "the thread is gone"

_SEIZE, _INTERRUPT, _DETACH, _GETREGSET = 0x4206, 0x4207, 17, 0x4204
_NT_PRSTATUS = 1
_WALL = 0x4000_0000
# fmt: off
_X86_NAMES = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
    "orig_rax", "rip", "cs", "eflags", "rsp",
)
# fmt: on
_X86_BYTES = 27 * 8
"""Size of struct user_regs_struct (sys/user.h); a 32-bit program's is smaller."""
_ARM64_BYTES = 34 * 8
"""Size of struct user_pt_regs (asm/ptrace.h): x0 to x30, sp, pc, pstate."""
_ERESTART = range(512, 517)
"""ERESTARTSYS to ERESTART_RESTARTBLOCK (linux/errno.h of the kernel): an interrupted call is to be begun anew."""
_SVC = b"\x01\x00\x00\xd4"
_FEW = 5
"""So often a stop is asked for without a pause: most come within some microseconds."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 20e-6, 1e-3
_EXIT_S = 0.1
# Holds the interpreter's lock: none of these calls waits, and giving it up would only make stops longer.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Stop(NamedTuple):
    """A thread as it was when stopped."""

    pc: int
    sp: int
    values: dict[str, int]
    """Its general registers by their lower-case names (`rax`, `x0`), 64 bit, and the flags as `rflags` or `nzcv`."""
    stack_at: int
    stack: bytes
    """Memory from `stack_at` on, some of it below the stack pointer; empty where it could not be read."""
    took_ns: int
    """From the interrupt to going on: the stop was shorter."""


Asked = tuple[ProcessFiles, ThreadFiles]
Result = Stop | str
"""A string says why there is no stop."""


def stop(threads: Sequence[Asked], *, arch: str, deadline_ns: int) -> dict[ThreadId, Result]:
    """Stops these threads, all at about the same time, until the deadline (monotonic clock). None stays stopped.

    `arch` is `x86_64` or `arm64`. The caller knows of each thread that it was awake when last looked at.
    """
    if arch not in _READERS:
        return {files.id: f"not known how to on {arch}" for _, files in threads}
    if not threads:
        return {}
    round_ = _Round(threads, arch=arch, deadline_ns=deadline_ns)
    # Not threading.Thread: its start waits until the thread runs, one more wait for a CPU on a busy machine.
    _thread.start_new_thread(round_.run, ())
    round_.over.acquire()
    if round_.unfinished:
        _await_exit(round_.helper, deadline_ns=time.monotonic_ns() + int(_EXIT_S * 1e9))
    return round_.results


def _await_exit(tid: int, *, deadline_ns: int) -> None:
    """Waits until a thread of this process has ended for the kernel too, some microseconds after Python says so."""
    path = Path(f"/proc/self/task/{tid}")
    while path.exists() and time.monotonic_ns() < deadline_ns:
        time.sleep(_FIRST_PAUSE_S)


class _Round:
    """One round of stops, run in a thread of its own: only the thread that seized another may ask of it."""

    def __init__(self, threads: Sequence[Asked], *, arch: str, deadline_ns: int) -> None:
        self._threads = threads
        self._arch = arch
        self._deadline_ns = deadline_ns
        self._began: dict[ThreadId, int] = {}
        self.results: dict[ThreadId, Result] = {}
        self.unfinished = False
        """Some thread is still traced when `run` returns."""
        self.helper = 0
        """The thread that runs this."""
        self.over = _thread.allocate_lock()
        """Free when `run` has returned."""
        self.over.acquire()

    def run(self) -> None:
        try:
            self.helper = threading.get_native_id()
            self._stop_all()
        finally:
            self.over.release()

    def _stop_all(self) -> None:
        waiting: list[Asked] = []
        for process, files in self._threads:
            why = self._begin(process, files)
            if why:
                self.results[files.id] = why
            else:
                waiting.append((process, files))
        tries, pause_s = 0, _FIRST_PAUSE_S
        while waiting:
            waiting = [asked for asked in waiting if not self._finish(*asked)]
            if time.monotonic_ns() >= self._deadline_ns:
                break
            tries += 1
            if waiting and tries > _FEW:
                time.sleep(pause_s)
                pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
        for _, files in waiting:
            self.unfinished = True
            self.results[files.id] = NO_TIME

    def _begin(self, process: ProcessFiles, files: ThreadFiles) -> str:
        """Interrupts one thread; why not, if not."""
        if process.pid == os.getpid():
            return "a process cannot stop itself"
        if time.monotonic_ns() >= self._deadline_ns:
            return TOO_LATE
        if files.state() not in AWAKE:
            return FELL_ASLEEP
        tid = files.id.tid
        if _ptrace(_SEIZE, tid) != 0:
            return why_not(process, tid, ctypes.get_errno())
        self._began[files.id] = time.monotonic_ns()
        # One that is seized and then left alone is not stopped; it is free when this thread ends.
        if files.state() not in AWAKE:
            self.unfinished = True
            return FELL_ASLEEP
        if _ptrace(_INTERRUPT, tid) != 0:
            return GONE
        return ""

    def _finish(self, process: ProcessFiles, files: ThreadFiles) -> bool:
        """Reads a thread if it has stopped, and lets it go on; False if it has not yet."""
        tid = files.id.tid
        try:
            # Only looked at: an end stays to be reaped by whose business it is.
            seen = os.waitid(os.P_PID, tid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT | _WALL)
        except ChildProcessError:
            self.results[files.id] = GONE
            return True
        if seen is None:
            return False
        if seen.si_code != os.CLD_TRAPPED:
            self.unfinished = True
            self.results[files.id] = GONE
            return True
        try:
            self.results[files.id] = self._read(process, files)
        finally:
            # A signal that came first is passed on. An event (its number stands in the second byte) is none.
            signal_number = seen.si_status & 0x7F if seen.si_status >> 8 == 0 else 0
            _ptrace(_DETACH, tid, data=signal_number)
        return True

    def _read(self, process: ProcessFiles, files: ThreadFiles) -> Result:
        raw = _registers(files.id.tid)
        if raw is None:
            return GONE
        found = _READERS[self._arch](raw, process.memory)
        if isinstance(found, str):
            return found
        pc, sp, values = found
        stack_at = max(0, sp - STACK_BELOW)
        stack = process.memory(stack_at, STACK_BYTES)
        return Stop(pc, sp, values, stack_at, stack, time.monotonic_ns() - self._began[files.id])


def x86_64(raw: bytes, memory: Callable[[int, int], bytes]) -> tuple[int, int, dict[str, int]] | str:  # noqa: ARG001
    """Program counter, stack pointer and general registers from NT_PRSTATUS of x86-64; a string: why there are none."""
    if len(raw) != _X86_BYTES:
        return "a 32-bit program's cannot be read"
    values = dict(zip(_X86_NAMES, struct.unpack_from(f"<{len(_X86_NAMES)}Q", raw), strict=True))
    call, answer = values.pop("orig_rax"), -_signed(values["rax"])
    # Stopped on the way out of a call that the stop ended: it had begun to sleep.
    if _signed(call) >= 0 and (answer in _ERESTART or answer == errno.EINTR):
        return FELL_ASLEEP
    pc = values.pop("rip")
    del values["cs"]
    values["rflags"] = values.pop("eflags")
    return pc, values["rsp"], values


def arm64(raw: bytes, memory: Callable[[int, int], bytes]) -> tuple[int, int, dict[str, int]] | str:
    """The same from that of arm64."""
    if len(raw) != _ARM64_BYTES:
        return "a 32-bit program's cannot be read"
    *general, sp, pc, state = struct.unpack("<34Q", raw)
    # The kernel has already set the program counter back to a call that is to be begun anew (arch/arm64/kernel/
    # signal.c): who is about to enter one looks alike, and is not worth a guess.
    if memory(pc, 4) == _SVC or (_signed(general[0]) == -errno.EINTR and memory(pc - 4, 4) == _SVC):
        return FELL_ASLEEP
    return pc, sp, {f"x{number}": value for number, value in enumerate(general)} | {"nzcv": state}


_READERS = {"x86_64": x86_64, "arm64": arm64}


def why_not(process: ProcessFiles, tid: int, error: int) -> str:
    """Why a thread could not be seized, and how that can be had."""
    if error == errno.ESRCH:
        return GONE
    if error != errno.EPERM:
        return os.strerror(error).lower()
    status = process.read(f"task/{tid}/status", 4096)
    tracer = status_number(status, "TracerPid")
    if tracer:
        # A thread traces, not a process; this file shows of what process it is one.
        group = status_number(read_at(None, f"/proc/{tracer}/status", 4096), "Tgid")
        return f"already traced by process {group or tracer}"
    owner = status_number(status, "Uid")
    whose = f"it belongs to user {owner}; " if owner not in {None, os.geteuid()} else ""
    scope = read_at(None, "/proc/sys/kernel/yama/ptrace_scope", 8).strip().decode("ascii", errors="replace")
    yama = f", or as root `sysctl kernel.yama.ptrace_scope=0` (it is {scope})" if scope not in {"", "0"} else ""
    return f"not permitted: {whose}run as its user or with CAP_SYS_PTRACE{yama}"


def _ptrace(request: int, tid: int, *, address: int = 0, data: int = 0) -> int:
    return int(_libc.ptrace(request, tid, address, data))


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def _registers(tid: int) -> bytes | None:
    """The general registers of a stopped thread (NT_PRSTATUS), as many bytes as the kernel has of them."""
    buffer = ctypes.create_string_buffer(512)
    vector = _Iovec(ctypes.addressof(buffer), len(buffer))
    with contextlib.suppress(OverflowError):
        if _ptrace(_GETREGSET, tid, address=_NT_PRSTATUS, data=ctypes.addressof(vector)) == 0:
            return buffer.raw[: vector.size]
    return None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
