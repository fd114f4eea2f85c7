"""What a disturbance does to a target step by step, and how that is undone: the part that all systems share."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Protocol

import psutil

from livetrap.disturbances import Step
from livetrap.model import ThreadId, ThreadState
from livetrap.observe.proctree import read_at, state_of

Tids = Callable[[], list[ThreadId]]


class Act(Protocol):
    """One kind of disturbance, applied to one target."""

    one_at_a_time: bool
    """The next step comes after the last one's end."""

    def begin(self, step: Step) -> object | None:
        """Does what the step says. Returns what `end` takes to undo it; None: nothing was done."""

    def end(self, done: object) -> None:
        """Undoes one step."""

    def note(self) -> str:
        """What took effect so far, in words."""


class Pause:
    """Stops all processes of the target, and continues them. A process that is stopped already is left alone."""

    one_at_a_time = True

    def __init__(self, tids: Tids) -> None:
        self._tids = tids
        self._pauses = 0
        self._failed = ""

    def begin(self, step: Step) -> object | None:
        """Stops them; see Act."""
        del step
        stopped: list[_Process] = []
        for pid in sorted({id_.pid for id_ in self._tids()}):
            if (process := _Process.find(pid)) is None:
                continue
            if process.stopped():
                process.close()
                continue
            try:
                process.send(signal.SIGSTOP)
            except OSError as error:
                self._failed = error.strerror or str(error)
                process.close()
                continue
            stopped.append(process)
        self._pauses += bool(stopped)
        return stopped or None

    def end(self, done: object) -> None:
        """Continues them; see Act."""
        assert isinstance(done, list)
        for process in reversed(done):
            with contextlib.suppress(OSError):
                process.send(signal.SIGCONT)
            process.close()

    def note(self) -> str:
        """See Act."""
        return f"pause: {self._pauses} times" + (f" ({self._failed})" if self._failed else "")


class _Process:
    """A process, held so that its number cannot come to mean another one, where the system offers that."""

    def __init__(self, pid: int, fd: int | None) -> None:
        self._pid, self._fd = pid, fd

    @classmethod
    def find(cls, pid: int) -> _Process | None:
        """None when it is gone."""
        if sys.platform != "linux":
            return cls(pid, None)
        try:
            return cls(pid, os.pidfd_open(pid))
        except OSError:
            return None

    def stopped(self) -> bool:
        """Whether it is stopped already, or traced."""
        if sys.platform == "linux":
            return state_of(read_at(None, f"/proc/{self._pid}/stat", 64)) in (None, ThreadState.STOPPED)
        try:
            return psutil.Process(self._pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return True

    def send(self, number: signal.Signals) -> None:
        """OSError when it cannot be."""
        if sys.platform != "linux":
            os.kill(self._pid, number)
        elif self._fd is not None:
            signal.pidfd_send_signal(self._fd, number)

    def close(self) -> None:
        """The process may no longer be used."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
