"""A process that already runs, as a target: nothing of it is ours, so nothing of it is ever ended."""

from __future__ import annotations

import os
import select
import sys
import time
from types import TracebackType
from typing import Self

import psutil

from livetrap.errors import HarnessError
from livetrap.page import one_line
from livetrap.targets.owner import Exit, Sweep

_NAP_S = 0.02
_KERNEL_THREADS = 2
"""Process id of Linux' kthreadd, the parent of all kernel threads."""


class RunningProcess:
    """A process that somebody else has started; an `Owner` that owns nothing. A context manager."""

    def __init__(self, process: psutil.Process, *, pidfd: int | None) -> None:
        """Use `open`."""
        self.pid = process.pid
        self._process = process
        self._pidfd = pidfd

    @classmethod
    def open(cls, pid: int) -> Self:
        """The process of that id, as long as it lives: another that is given its number later is not taken for it.

        HarnessError, status 2: there is none, it has ended, it may not be inspected, it is a thread of the kernel, a
        thread and no process, the harness itself or one of those that wait for it.
        """
        pidfd = None
        try:
            if sys.platform == "linux" and pid > 0:
                pidfd = os.pidfd_open(pid)
        except (OSError, OverflowError):
            pass  # what is wrong with it is found out below
        try:
            return cls(_inspectable(pid), pidfd=pidfd)
        except HarnessError:
            if pidfd is not None:
                os.close(pidfd)
            raise

    @property
    def output_fd(self) -> None:
        """Not known."""
        return

    @property
    def pids(self) -> tuple[int, ...]:
        """None: its orphans do not come to us."""
        return ()

    def wait(self, timeout_s: float) -> Exit | None:
        """That it has ended (only its parent learns how), or None if it still runs after that time."""
        end = time.monotonic() + timeout_s
        while self._lives(max(0.0, end - time.monotonic())):
            if time.monotonic() >= end:
                return None
        return Exit(exit_code=None, signal=None, cpu_s=None, at_ns=time.monotonic_ns())

    def sweep(self, deadline_s: float = 0.0) -> Sweep:  # noqa: ARG002  an Owner's
        """Does nothing."""
        return Sweep(killed=0, took_s=0.0)

    def output_tail(self) -> str:
        """Not known: empty."""
        return ""

    def close(self) -> None:
        """Lets go of it; may be called again."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lives(self, at_most_s: float) -> bool:
        """Whether it lives, after waiting for its end for about that long."""
        if self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            return not poll.poll(at_most_s * 1000)
        if not self._process.is_running() or has_ended(self._process):
            return False
        time.sleep(min(at_most_s, _NAP_S))
        return True


def has_ended(process: psutil.Process) -> bool:
    """Nothing of it runs any more: it is a zombie. One of which only the first thread has ended looks like one."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.AccessDenied:
        return False
    except psutil.Error:
        return True


def _inspectable(pid: int) -> psutil.Process:
    try:
        process = psutil.Process(pid) if pid > 0 else None
        if process is None or not psutil.pid_exists(pid):
            whose = _thread_of(pid)
            if whose:
                raise HarnessError(f"{pid} is a thread of process {whose}: attach to that")
            raise HarnessError(f"there is no process {pid} (any more)")
        if has_ended(process):
            raise HarnessError(
                f"process {pid} has ended: a zombie that its parent, process {process.ppid()}, has not asked about yet"
            )
        _check_place(process)
        _check_access(process)
    except (psutil.NoSuchProcess, OverflowError):
        raise HarnessError(f"there is no process {pid} (any more)") from None
    return process


def _thread_of(pid: int) -> int:
    """Of which process that is a thread (Linux); 0: of none."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            tgid = next((int(line.split()[1]) for line in file if line.startswith("Tgid:")), 0)
    except (OSError, ValueError):
        return 0
    return tgid if tgid != pid else 0


def _check_place(process: psutil.Process) -> None:
    """HarnessError: it is not for us to judge, by its place among the processes."""
    pid = process.pid
    if pid == os.getpid():
        raise HarnessError(f"process {pid} is livetrap itself")
    if pid in {parent.pid for parent in psutil.Process().parents()}:
        raise HarnessError(f"process {pid} ({_name(process)}) is what livetrap was started from: it waits for livetrap")
    # In a container, process 2 is a process like any other.
    kernel = sys.platform == "linux" and _KERNEL_THREADS in (pid, process.ppid()) and not process.cmdline()
    if kernel and psutil.Process(_KERNEL_THREADS).name() == "kthreadd":
        raise HarnessError(f"process {pid} ({_name(process)}) is a thread of the kernel, no program")


def _check_access(process: psutil.Process) -> None:
    """HarnessError: another user's, which the system does not let us inspect."""
    try:
        process.environ()  # needs the right to inspect it, on every system
    except psutil.ZombieProcess:
        pass  # its first thread has ended, others live
    except psutil.AccessDenied:
        whose = _owner(process)
        raise HarnessError(
            f"process {process.pid} ({_name(process)}) {whose} and may not be inspected from here: run livetrap as "
            "root, or as that user"
        ) from None
    except (OSError, ValueError):
        pass


def _owner(process: psutil.Process) -> str:
    try:
        name = process.username()
        uid = process.uids().real
    except psutil.Error:
        return "belongs to another user"
    return "has guarded itself" if uid == os.getuid() else f"belongs to user {one_line(name)}"


def _name(process: psutil.Process) -> str:
    try:
        return one_line(process.name()) or "?"
    except psutil.Error:
        return "?"
