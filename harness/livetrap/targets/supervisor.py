"""The harness's side of a supervisor: starts it, has it run trials one after the other, and closes it."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import secrets
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import _cffi_backend
import psutil

import livetrap
from livetrap.build import Built
from livetrap.errors import HarnessError
from livetrap.model import CommandSpec, PlannedTrial
from livetrap.targets import command as commands
from livetrap.targets import kernel
from livetrap.targets.messages import Inbox, Message, pack
from livetrap.targets.output import Output
from livetrap.targets.owner import Exit, Launched, SharedPage, Sweep
from livetrap.targets.portable import alive, kill_marked, marked, wait_gone
from livetrap.targets.reaping import TOKEN
from livetrap.targets.spawning import PAGE_FD

__all__ = ["Exit", "Launched", "SharedPage", "Supervisor", "Sweep"]

_BOOT = "import sys; sys.path += sys.argv[1:4]; import livetrap.targets.supervisor_process as it; it.main(sys.argv[4:])"
_CLOSE_S = 2.0
_MARGIN_S = 1.0


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
        self._main = 0
        """Process id of the trial's main process."""
        self._left = False
        """Trials were left alive, and have the output open."""
        self._exit: Exit | None = None
        self._clean = False
        # Those that the supervisor lowers for kernels, and one that an observer may raise.
        which = (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
        self._limits = {one: resource.getrlimit(one)[0] for one in which}

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
        if self._left:
            self._output.close()
            self._output, self._left = Output(), False
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
        message = kernel.launch_message(built=built, trial=trial, spec=page.spec(PAGE_FD), arguments=arguments)
        answer = self._launch(message, page)
        if answer[0] == "failed":
            raise HarnessError(f"the trial could not be started: {answer[1]}", status=3, detail=self.output_tail())
        return Launched(pid=answer[1], started_ns=answer[2])

    def launch_command(self, *, command: CommandSpec, page: SharedPage, cpus: tuple[int, ...] = ()) -> Launched:
        """Starts a command on those CPUs (none: wherever this process may run); returns when its program runs.

        The trial before must have been swept. HarnessError: it cannot be started (status 2: see `command.program`; or
        its file is no program; status 3: the system refuses), then all else goes on; or see the class.
        """
        spec = commands.page_spec(page)
        self._ensure()
        message = commands.launch_message(
            command=command, spec=spec, token={TOKEN: self._token}, cpus=cpus, limits=self._limits
        )
        answer = self._launch(message, page)
        if answer[0] == "failed":
            raise commands.refusal(command, reason=answer[1], number=answer[2])
        return Launched(pid=answer[1], started_ns=answer[2])

    def _launch(self, message: Message, page: SharedPage) -> Message:
        """Has the forker start that, with the page; its answer, `launched` or `failed`."""
        if self._running:
            raise RuntimeError("the trial before has not been swept")
        self._ensure()
        self._output.empty()
        self._exit, self._clean, self._running = None, False, True
        self._send(message, page.fd)
        answer = self._receive(("launched", "failed"), self._launch_s)
        if answer is None:
            self._collapse(f"the forker did not start the trial within {self._launch_s:g} s")
        self._running = answer[0] == "launched"
        self._main = answer[1] if self._running else 0
        return answer

    def wait(self, timeout_s: float) -> Exit | None:
        """How the trial's main process ended, or None if it still runs after that time.

        Bounds what its output takes: a command that writes without end must be waited for every now and then.
        """
        self._output.trim()
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

    def leave(self) -> tuple[int, ...]:
        """Leaves the trial alive, as it is, whatever becomes of the harness: its process ids, the main one first.

        Supervisor and forker end, the next launch starts new ones. What it writes from here on takes memory until it
        ends. HarnessError: see the class; then it is not left.
        """
        process, forker = self._process, self._forker
        if not self._running or process is None or forker is None:
            return ()
        pids = self._alive(forker)
        answer = b""
        with contextlib.suppress(OSError):
            self._control.sendall(pack(("leave",)))
            answer = self._control.recv(4096)
        if not answer:
            self._collapse("the supervisor does not answer")
        self._send(("leave",))
        try:
            process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            for one in (forker, process):  # in this order: while the forker has the supervisor, it does no harm
                with contextlib.suppress(psutil.Error):
                    one.kill()
            process.wait(_CLOSE_S)
        self._process, self._forker, self._running, self._left = None, None, False, True
        self._control.close()
        self._link.close()
        return pids

    def _alive(self, forker: psutil.Process) -> tuple[int, ...]:
        """What is alive of the trial: of what descends from the forker, or is marked and descends from nobody."""
        found = {one.pid for one in forker.children(recursive=True) if alive(one)}
        if self._portable or sys.platform != "linux":
            found.update(set(marked(self._token)) - set(self.pids))
        return tuple(sorted(found, key=lambda pid: (pid != self._main, pid)))

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
