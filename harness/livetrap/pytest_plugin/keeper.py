"""The keeper: a process between pytest and the child that runs a test, which owns all that the test starts.

    pytest ── keeper ── child ── (whatever the test starts)

Both are forked: the child is pytest as it stands, with the fixtures that it has set up. Orphans come to the keeper
(Linux), and when pytest has gone, for whatever reason, or asks for it, the keeper kills all of them, again and again
until nothing is left.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import secrets
import select
import socket
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from livetrap.errors import HarnessError
from livetrap.targets.messages import Inbox, Message, pack
from livetrap.targets.owner import Exit, Launched, Sweep
from livetrap.targets.reaping import (
    TOKEN,
    Bell,
    adopt_orphans,
    finder,
    ignore_terminal_signals,
    is_portable,
    kill_all,
    reap,
)

_START_S = 20.0
_CLOSE_S = 5.0
_MARGIN_S = 1.0
_CHUNK = 1 << 14


class Keeper:
    """pytest's end; an `Owner` of what the test starts."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        """Use `start`."""
        self._pid = pid
        self._link = link
        self._inbox = Inbox()
        self._exit: Exit | None = None
        self._clean = False
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)

    @classmethod
    def start(cls, body: Callable[[], None]) -> tuple[Keeper, Launched]:
        """Forks a child that runs `body` and ends. HarnessError: it cannot be forked."""
        ours, theirs = socket.socketpair()
        token = secrets.token_hex(8)
        harness = os.getpid()
        try:
            pid = _fork()
        except OSError as error:
            ours.close()
            theirs.close()
            raise HarnessError(f"the test cannot be forked: {error.strerror or error}", status=3) from None
        if pid == 0:
            ours.close()
            _keep(theirs, body, token=token, harness=harness)
        theirs.close()
        keeper = cls(pid, ours)
        answer: Any = keeper._receive("started", _START_S)
        if answer is None:
            keeper.close()
            raise HarnessError("the test's child did not start", status=3)
        return keeper, Launched(pid=answer[1], started_ns=answer[2])

    @property
    def output_fd(self) -> None:
        """Not known: it writes where pytest does. Its I/O is seen."""
        return

    @property
    def pids(self) -> tuple[int, ...]:
        """The process that takes in its orphans."""
        return (self._pid,)

    def wait(self, timeout_s: float) -> Exit | None:
        """How the child ended, or None if it still runs after that time."""
        if self._exit is None:
            self._receive("exit", timeout_s)
        return self._exit

    def sweep(self, deadline_s: float) -> Sweep:
        """Kills and reaps all that the test has left. HarnessError: something cannot be killed within the deadline."""
        if self._exit is not None and self._clean:
            return Sweep(killed=0, took_s=0.0)
        begun = time.monotonic()
        self._say(("sweep", deadline_s))
        answer: Any = self._receive("swept", deadline_s + _MARGIN_S)
        if answer is None or answer[2]:
            left = "what it left" if answer is None else f"processes {', '.join(map(str, answer[2]))}"
            raise HarnessError(f"{left} could not be killed", status=3)
        return Sweep(killed=answer[1], took_s=time.monotonic() - begun)

    def output_tail(self) -> str:
        """Not known: empty."""
        return ""

    def close(self) -> None:
        """Ends the keeper and all that it owns; may be called again."""
        if self._link.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)
            self._link.settimeout(_CLOSE_S)
            while self._link.recv(_CHUNK):  # until it has gone
                pass
        self._link.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, 9)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _say(self, message: Message) -> None:
        try:
            self._link.sendall(pack(message))
        except OSError:
            raise HarnessError("the process that keeps the test has died", status=3) from None

    def _receive(self, wanted: str, timeout_s: float) -> Message | None:
        """The next message of that kind, or None after that time; notes an exit that comes by."""
        end = time.monotonic() + timeout_s
        while True:
            message: Any = self._inbox.next()
            if message is not None:
                if message[0] == "exit":
                    self._exit = Exit(exit_code=message[1], signal=message[2], cpu_s=message[3], at_ns=message[4])
                    self._clean = message[5]
                if message[0] == wanted:
                    return message  # type: ignore[no-any-return]
                continue
            left_ms = max(0, math.ceil((end - time.monotonic()) * 1000))
            if self._poll.poll(left_ms):
                data = b""
                with contextlib.suppress(OSError):
                    data = self._link.recv(_CHUNK)
                if not data:
                    raise HarnessError("the process that keeps the test has died", status=3)
                self._inbox.feed(data)
            elif time.monotonic() >= end:
                return None


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: they have been looked at, or it was asked for
        return os.fork()


# --- the keeper's process --------------------------------------------------------------------------------------------


def _keep(link: socket.socket, body: Callable[[], None], *, token: str, harness: int) -> NoReturn:
    """All of the keeper's life."""
    try:
        gc.disable()
        os.setsid()  # a terminal's Ctrl-C is for pytest alone
        portable = is_portable() or not adopt_orphans()
        child = _fork()
        if child == 0:
            link.close()
            gc.enable()
            os.setsid()
            _end_with_parent()
            os.environ[TOKEN] = token
            body()
            os._exit(1)
        _Keeping(link, child, token=token, portable=portable, harness=harness).run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _end_with_parent() -> None:
    """Should somebody kill the keeper alone, the kernel kills the child (Linux)."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG


class _Keeping:
    def __init__(self, link: socket.socket, child: int, *, token: str, portable: bool, harness: int) -> None:
        ignore_terminal_signals()
        self._link = link
        self._child = child
        self._bell = Bell()
        self._found = finder(token, portable=portable, spare=(harness,))
        self._end: tuple[int | None, int | None, float, int] | None = None
        self._portable = portable
        self._harness = _watch(harness)

    def run(self) -> None:
        """Serves pytest until it has gone; then kills all."""
        self._link.sendall(pack(("started", self._child, time.monotonic_ns())))
        poll = select.poll()
        for fd in (self._link.fileno(), self._bell.fd, *(() if self._harness is None else (self._harness,))):
            poll.register(fd, select.POLLIN)
        inbox = Inbox()
        with contextlib.suppress(OSError):
            while True:
                self._reap()
                ready = {fd for fd, _ in poll.poll()}
                self._bell.silence()
                if self._harness in ready:
                    break
                if self._link.fileno() in ready:
                    data = self._link.recv(_CHUNK)
                    if not data:
                        break
                    inbox.feed(data)
                while (message := inbox.next()) is not None:
                    self._sweep(message)
        kill_all(found=self._found, bell=self._bell, on_exit=lambda *_: None, deadline_s=None)

    def _sweep(self, message: Message) -> None:
        deadline_s: Any = message[1]
        killed, left = kill_all(found=self._found, bell=self._bell, on_exit=self._exited, deadline_s=deadline_s)
        self._tell_end(clean=not left)
        self._link.sendall(pack(("swept", killed, tuple(left))))

    def _exited(self, pid: int, status: int, cpu_s: float) -> None:
        if pid == self._child:
            self._child = 0
            code = os.waitstatus_to_exitcode(status)
            self._end = (code if code >= 0 else None, -code if code < 0 else None, cpu_s, time.monotonic_ns())

    def _tell_end(self, *, clean: bool) -> None:
        if self._end is not None:
            self._link.sendall(pack(("exit", *self._end, clean)))
            self._end = None

    def _reap(self) -> None:
        clean = reap(self._exited)
        if self._end is not None:
            self._tell_end(clean=clean and not (self._portable and self._found()))


def _watch(pid: int) -> int | None:
    """A descriptor that becomes readable when that process has gone (Linux)."""
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None
