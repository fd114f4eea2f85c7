"""The harness's side of a supervisor: starts it, has it run trials of kernels one after the other, and closes it."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

import _cffi_backend
import psutil

import livetrap
from livetrap.build import Built
from livetrap.errors import HarnessError
from livetrap.model import Frozen, PlannedTrial
from livetrap.targets.kernel import launch_message
from livetrap.targets.messages import Inbox, Message, pack
from livetrap.targets.output import Output
from livetrap.targets.portable import kill_marked, wait_gone
from livetrap.targets.reaping import TOKEN

PAGE_FD = 3
"""The page's descriptor in a trial's process."""

_BOOT = "import sys; sys.path += sys.argv[1:4]; import livetrap.targets.supervisor_process as it; it.main(sys.argv[4:])"
_CLOSE_S = 2.0
_MARGIN_S = 1.0


class SharedPage(Protocol):
    """What is needed of a page (see `livetrap.page`)."""

    @property
    def fd(self) -> int:
        """Its descriptor in this process."""

    def spec(self, fd_number: int, /) -> str:
        """LIVETRAP_PAGE for a process that has it under that number."""


class Launched(Frozen):
    """A trial's process."""

    pid: int
    started_ns: int
    """When it had been forked."""


class Exit(Frozen):
    """How a trial's main process ended."""

    exit_code: int | None
    """None: a signal ended it."""
    signal: int | None
    cpu_s: float
    """CPU time of it and of all that it waited for."""
    at_ns: int
    """When it was reaped."""


class Sweep(Frozen):
    """What was left of a trial, and is no more."""

    killed: int
    took_s: float


class Supervisor:
    """Runs trials, one at a time, in processes that end with this one, whatever happens to it.

    A HarnessError of status 3 says that the supervisor or the forker has died or did not answer: the trial is void,
    nothing of it is left, and the next launch starts both anew.
    """

    def __init__(self, *, start_s: float = 20.0, launch_s: float = 20.0, portable: bool = False) -> None:
        """`start_s`, `launch_s`: deadlines in seconds. `portable`: do as on a system without subreapers (for tests)."""
        self._start_s = start_s
        self._launch_s = launch_s
        self._portable = portable
        self._process: subprocess.Popen[bytes] | None = None
        self._forker: psutil.Process | None = None
        self._token = ""
        self._output = Output()
        self._running = False
        self._exit: Exit | None = None
        self._clean = False

    def __enter__(self) -> Self:
        try:
            self._ensure()
        except HarnessError:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def output_fd(self) -> int:
        """Descriptor of the file that has the trial's output; its size is how much the trial has written."""
        return self._output.fd

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes of the harness's own: the supervisor and the forker; none where they do not run."""
        if self._process is None or self._forker is None:
            return ()
        return (self._process.pid, self._forker.pid)

    @classmethod
    def start(cls, *, start_s: float = 20.0, launch_s: float = 20.0, portable: bool = False) -> Self:
        """A supervisor that runs; see the constructor. HarnessError: it could not be started."""
        supervisor = cls(start_s=start_s, launch_s=launch_s, portable=portable)
        return supervisor.__enter__()

    def _ensure(self) -> None:
        """Starts supervisor and forker, if they do not run. HarnessError: that failed."""
        if self._process is not None:
            return
        self._token = secrets.token_hex(8)
        self._inbox = Inbox()
        self._running = False
        self._output.empty()
        self._control, control = socket.socketpair()
        self._link, link = socket.socketpair()
        try:
            self._process = self._spawn(control, link)
        except OSError as error:
            self._tear_down()
            raise HarnessError(f"cannot start the supervisor: {error.strerror or error}", status=3) from None
        finally:
            control.close()
            link.close()
        self._control.settimeout(self._start_s)
        self._link.settimeout(self._launch_s)
        self._poll = select.poll()
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._link, select.POLLIN)
        self._forker = self._greet()

    def _spawn(self, control: socket.socket, link: socket.socket) -> subprocess.Popen[bytes]:
        fds = (control.fileno(), link.fileno(), self._output.fd)
        imports = [Path(str(module.__file__)).parent for module in (livetrap, psutil)]
        folders = [str(imports[0].parent), str(Path(str(_cffi_backend.__file__)).parent), str(imports[1].parent)]
        words = [*map(str, fds), self._token, str(os.getpid()), str(int(self._portable))]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, *folders, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._output.fd,
            pass_fds=fds,
            env={**os.environ, TOKEN: self._token},
            start_new_session=True,
        )

    def _greet(self) -> psutil.Process:
        """Waits for the supervisor to say that it is ready."""
        inbox = Inbox()
        end = time.monotonic() + self._start_s
        while (message := inbox.next()) is None:
            data = b""
            with contextlib.suppress(OSError):
                data = self._control.recv(4096)
            if not data or time.monotonic() > end:
                self._collapse("the supervisor did not start")
            inbox.feed(data)
        try:
            return psutil.Process(int(str(message[1])))
        except psutil.Error:
            self._collapse("the forker did not start")

    def launch(self, *, built: Built, trial: PlannedTrial, page: SharedPage, arguments: dict[str, int]) -> Launched:
        """Forks the trial; returns when that is done. The one before must have been swept.

        HarnessError, status 3: it cannot be forked or its module not loaded (then all else goes on), or see the class.
        """
        if self._running:
            raise RuntimeError("the trial before has not been swept")
        message = launch_message(built=built, trial=trial, spec=page.spec(PAGE_FD), arguments=arguments)
        self._ensure()
        self._output.empty()
        self._exit, self._clean, self._running = None, False, True
        self._send(message, page.fd)
        answer = self._receive(("launched", "failed"), self._launch_s)
        if answer is None:
            self._collapse(f"the forker did not start the trial within {self._launch_s:g} s")
        if answer[0] == "failed":
            self._running = False
            raise HarnessError(f"the trial could not be started: {answer[1]}", status=3, detail=self.output_tail())
        values: Any = answer
        return Launched(pid=values[1], started_ns=values[2])

    def wait(self, timeout_s: float) -> Exit | None:
        """How the trial's main process ended, or None if it still runs after that time."""
        if self._exit is None and self._running:
            self._receive(("exit",), timeout_s)
        return self._exit

    def sweep(self, deadline_s: float) -> Sweep:
        """Kills and reaps all that is left of the trial. After a clean exit that is nothing, and costs nothing.

        HarnessError: something of it could not be killed within the deadline.
        """
        if not self._running or (self._exit is not None and self._clean):
            self._running = False
            return Sweep(killed=0, took_s=0.0)
        begun = time.monotonic()
        self._send(("sweep", deadline_s))
        values: Any = self._receive(("swept",), deadline_s + _MARGIN_S)
        if values is None:
            self._collapse(f"the forker did not end the trial within {deadline_s:g} s")
        if values[3]:
            self._collapse(f"processes {', '.join(map(str, values[3]))} of the trial could not be killed")
        self._running = False
        return Sweep(killed=values[1], took_s=time.monotonic() - begun)

    def output_tail(self) -> str:
        """The last 16 KiB that the trial wrote to stdout and stderr, stripped of terminal escapes; mostly empty."""
        return self._output.tail()

    def close(self) -> None:
        """Ends supervisor and forker and all that they own, within a few seconds. No error, whatever their state."""
        self._tear_down()
        self._output.close()

    def _send(self, message: Message, *fds: int) -> None:
        data = pack(message)
        try:
            sent = socket.send_fds(self._link, [data], list(fds)) if fds else 0
            self._link.sendall(data[sent:])
        except OSError as error:
            self._collapse(f"the forker does not listen ({error.strerror or error})")

    def _receive(self, wanted: tuple[str, ...], timeout_s: float) -> Message | None:
        """The next message of a kind that is wanted, or None after that time. Notes an exit that comes by."""
        end = time.monotonic() + timeout_s
        while True:
            message = self._next()
            if message is not None:
                if message[0] == "exit":
                    self._note_exit(message)
                if message[0] in wanted:
                    return message
                continue
            left_ms = max(0, math.ceil((end - time.monotonic()) * 1000))
            ready = [fd for fd, _ in self._poll.poll(left_ms)]
            if self._link.fileno() in ready:
                self._take()
            elif ready:
                self._collapse("the supervisor has died")
            elif time.monotonic() >= end:
                return None

    def _next(self) -> Message | None:
        try:
            return self._inbox.next()
        except ValueError as error:
            self._collapse(f"the forker speaks nonsense ({error})")

    def _take(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = self._link.recv(1 << 16)
        if not data:
            self._collapse("the forker has died")
        self._inbox.feed(data)

    def _note_exit(self, message: Message) -> None:
        values: Any = message
        _, code, signal, cpu_s, at_ns, self._clean = values
        self._exit = Exit(exit_code=code, signal=signal, cpu_s=cpu_s, at_ns=at_ns)

    def _collapse(self, why: str) -> NoReturn:
        """Ends everything; the next launch starts anew."""
        said = self.output_tail()
        left = self._tear_down()
        rest = f"processes {left} could not be killed" if left else "nothing of it is left"
        raise HarnessError(f"{why}: the trial is void, {rest}", status=3, detail=said)

    def _tear_down(self) -> list[int]:
        """Closes our ends, on which both end by themselves; helps where they do not. Process ids that are left."""
        process, forker = self._process, self._forker
        self._process, self._forker, self._running = None, None, False
        for end in ("_control", "_link"):
            if hasattr(self, end):
                getattr(self, end).close()
        if process is None:
            return []
        orderly = False
        with contextlib.suppress(subprocess.TimeoutExpired):
            orderly = process.wait(_CLOSE_S) == 0  # it has seen to it that nothing is left
        if orderly:
            return []
        if forker is not None:
            wait_gone(forker, within_s=_CLOSE_S)  # it does the same
        left = kill_marked(self._token, deadline_s=_CLOSE_S)
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_S)
        return left
