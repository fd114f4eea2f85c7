"""The forker: a warm process with the built modules loaded, which forks one process a trial, or starts a command.

It starts one trial at a time, tells when it has exited, and kills what is left of it. When the harness or the
supervisor has gone, it kills all that it owns and ends. It checks nothing that it is told: the harness has. Imports
next to nothing, see the package.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from _socket import CMSG_LEN, SCM_RIGHTS, SOL_SOCKET, socket

from livetrap.targets.loading import load_module
from livetrap.targets.messages import Inbox, pack
from livetrap.targets.reaping import Bell, adopt_orphans, finder, ignore_terminal_signals, kill_all, reap
from livetrap.targets.spawning import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from livetrap.targets.messages import Message
else:
    import _signal as signal  # the same without its enums

_GIVE_UP_S = 30.0
_PAGE = "LIVETRAP_PAGE"
_DATA = "LIVETRAP_DATA"
_FD_BYTES = 4
"""Of a descriptor sent along: a C int."""


class _Gone(Exception):
    """The harness, or the supervisor, has gone."""


class _Leave(Exception):
    """All that runs is to be left alive."""


class Forker:
    """The forker's state: the modules, and the trial that runs."""

    def __init__(self, *, harness: socket, guard: int, output: int, token: str, portable: bool) -> None:
        self._harness = harness
        self._guard = guard
        self._output = output
        self._bell = Bell()
        self._found = finder(token, portable=portable, spare=(os.getppid(),))
        self._portable = portable
        self._adopts = portable
        for fd in (harness.fileno(), guard, output):
            os.set_inheritable(fd, False)
        self._inbox = Inbox()
        self._page_fds: list[int] = []
        self._modules: dict[tuple[str, str], Any] = {}
        self._trial = 0
        """Process id of the trial that runs; 0: none."""
        self._end: tuple[int | None, int | None, float, int] | None = None
        """How it ended, until the harness has been told."""
        self._highest = max(harness.fileno(), guard, output, self._bell.fd) + 64

    def run(self) -> None:
        """Serves the harness until it, or the supervisor, has gone; then kills all, unless that is to be left alive."""
        poll = select.poll()
        for fd in (self._harness.fileno(), self._guard, self._bell.fd):
            poll.register(fd, select.POLLIN)
        try:
            while True:
                ready = {fd for fd, _ in poll.poll()}
                if self._bell.fd in ready:
                    self._bell.silence()
                    self._reap()
                if self._guard in ready:
                    break
                if self._harness.fileno() in ready:
                    self._listen()
        except _Leave:
            return
        except (_Gone, ConnectionError):
            pass
        self._harness.close()
        kill_all(found=self._found, bell=self._bell, on_exit=lambda *_: None, deadline_s=_GIVE_UP_S)

    def _listen(self) -> None:
        data, ancillary, _, _ = self._harness.recvmsg(1 << 18, CMSG_LEN(_FD_BYTES))
        for level, kind, sent in ancillary:
            if (level, kind, len(sent)) == (SOL_SOCKET, SCM_RIGHTS, _FD_BYTES):
                self._page_fds.append(int.from_bytes(sent, sys.byteorder))
                os.set_inheritable(self._page_fds[-1], False)
        if not data:
            raise _Gone
        self._inbox.feed(data)
        while (message := self._inbox.next()) is not None:
            if message[0] in ("launch", "command"):
                self._launch(message)
            elif message[0] == "sweep":
                self._sweep(message)
            elif message[0] == "leave":
                raise _Leave

    def _say(self, *message: object) -> None:
        self._harness.sendall(pack(message))

    def _launch(self, message: Message) -> None:
        """Starts a trial. The page's descriptor came with the message."""
        page = self._page_fds.pop(0)
        try:
            pid = (self._start if message[0] == "launch" else self._spawn)(message, page)
        except Exception as error:  # the harness shall hear of it, whatever it is
            self._say("failed", str(error), getattr(error, "errno", None) or 0)
            return
        finally:
            os.close(page)
        self._trial = pid
        self._say("launched", pid, time.monotonic_ns())

    def _start(self, message: Message, page: int) -> int:
        """What the child reads is made ready here, and stays alive until the fork: it has a copy."""
        values: Any = message
        _, name, path, spec, kernel, technique, align, threads, seed, arguments, *rest = values
        masks, mask_words, qos, data, jitter_us = rest
        module = self._module(name, path)
        ffi, lib = module.ffi, module.lib
        alive = [ffi.new("char[]", text) for text in (kernel, technique, align)]
        names = [ffi.new("char[]", argument) for argument, _ in arguments]
        given = ffi.new("struct lt_argument[]", [(at, value) for at, (_, value) in zip(names, arguments, strict=True)])
        words = ffi.new("uint64_t[]", masks)
        classes = ffi.NULL if qos is None else ffi.new("int32_t[]", qos)
        asked = (*alive, threads, seed, given, len(arguments), words, mask_words, classes, jitter_us)
        trial = ffi.new("struct lt_trial *", asked)
        fds = ffi.new("struct lt_child_fds *", (self._output, page, max(self._highest, page)))
        os.putenv(_PAGE, spec)
        os.putenv(_DATA, data)
        pid: int = lib.lt_child_start(trial, fds)
        if pid < 0:
            raise OSError(-pid, f"cannot fork: {os.strerror(-pid)}")
        return pid

    def _spawn(self, message: Message, page: int) -> int:
        if not self._adopts:
            self._adopts = adopt_orphans()
            if not self._adopts:
                raise OSError("the forker cannot adopt orphans")
        return spawn(message, page=page, output=self._output)

    def _module(self, name: str, path: str) -> Any:
        module = self._modules.get((name, path))
        if module is None:
            module = load_module(name, path)
            refused = 0 if self._portable else module.lib.lt_child_adopt_orphans()
            if refused:
                raise OSError(-refused, "the forker cannot adopt orphans")
            self._modules[name, path] = module
            gc.freeze()  # else a collection would touch, and so copy, every object
        return module

    def _exited(self, pid: int, status: int, cpu_s: float) -> None:
        """Notes the trial's exit; of the orphans that came to us nobody asks."""
        if pid == self._trial:
            self._trial = 0
            code = os.waitstatus_to_exitcode(status)
            self._end = (code if code >= 0 else None, -code if code < 0 else None, cpu_s, time.monotonic_ns())

    def _tell_end(self, *, clean: bool) -> None:
        if self._end is not None:
            self._say("exit", *self._end, clean)
            self._end = None

    def _reap(self) -> None:
        """Reaps who has exited. Once a trial is reaped, all that it leaves is ours: with no child left, it is clean."""
        clean = reap(self._exited)
        if self._end is not None and self._portable:
            clean = not self._found()
        self._tell_end(clean=clean)

    def _sweep(self, message: Message) -> None:
        """Kills all that is left of the trial."""
        deadline_s: Any = message[1]
        begun = time.monotonic()
        killed, left = kill_all(found=self._found, bell=self._bell, on_exit=self._exited, deadline_s=deadline_s)
        self._tell_end(clean=not left)
        self._say("swept", killed, time.monotonic() - begun, tuple(left))


def main(*, harness: int, guard: int, output: int, token: str, portable: bool) -> None:
    """Runs the forker in the calling process, which has one thread. The descriptors are ours to keep."""
    ignore_terminal_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.disable()
    link = socket(fileno=harness)
    Forker(harness=link, guard=guard, output=output, token=token, portable=portable).run()
