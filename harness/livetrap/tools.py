"""Runs a tool of the system (addr2line, a debugger, a user's hook) so that it can neither hang nor flood us.

Each runs in a session of its own, with an empty stdin, for a limited time, and its whole process group is killed when
that is over, when it has ended, or when we are gone, by whatever. Its output is bounded and made harmless.
"""

from __future__ import annotations

import collections
import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from livetrap.model import Frozen
from livetrap.plaintext import plain

MOST_BYTES = 1 << 20
_CHUNK = 1 << 16
_TICK_MS = 5
_KILL_S = 2.0
# Ends when we have ended, and takes the group with it.
_GUARD = 'read _; kill -KILL -- "-$1" 2>/dev/null'
# Debuggers load and show files that a target names: none from the network, and in words that can be read again.
_ENVIRONMENT = {"DEBUGINFOD_URLS": "", "LC_ALL": "C.UTF-8", "TERM": "dumb"}


class Ran(Frozen, kw_only=True):
    """How a tool ended and what it said."""

    text: str = ""
    """Its stdout and stderr, harmless, bounded: the first or the last part, as asked."""
    status: int = 0
    """Exit status; negative: the signal that ended it."""
    late: bool = False
    """It was killed since its time was over."""
    cut: bool = False
    """It said more than was kept."""
    took_s: float = 0.0
    why: str = ""
    """Why it could not be started; empty: it was."""

    @property
    def last_line(self) -> str:
        """The last line that is not empty: where most tools say what went wrong."""
        return next((line.strip() for line in reversed(self.text.splitlines()) if line.strip()), "")


def find(name: str) -> str | None:
    """The path of a tool: on PATH, or beside this Python (a virtual environment that is not activated)."""
    found = shutil.which(name)
    if found is None:
        beside = Path(sys.executable).with_name(name)
        found = str(beside) if os.access(beside, os.X_OK) and beside.is_file() else None
    return found


def run(
    argv: Sequence[str],
    *,
    deadline_s: float,
    errors: bool = True,
    most_bytes: int = MOST_BYTES,
    tail: bool = False,
    memory_bytes: int | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    debugger: bool = True,
) -> Ran:
    """Runs it to its end, or for `deadline_s` seconds, and leaves nothing of its process group.

    `errors`: stderr is kept too. `tail`: the last `most_bytes` are kept, not the first. `memory_bytes` limits its
    address space (Linux). `environment` is added to that of the harness, and what keeps a `debugger` off the network.
    """
    began = time.monotonic()
    kept, late = _Kept(most_bytes, tail=tail), True
    ours, theirs = os.pipe()
    try:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs if errors else subprocess.DEVNULL,
                env={**os.environ, **(_ENVIRONMENT if debugger else {}), **(environment or {})},
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Ran(status=127, why=str(getattr(error, "strerror", None) or error))
        finally:
            os.close(theirs)
        guard = None
        try:
            _limit(process.pid, memory_bytes)
            guard = start_guard(_GUARD, [process.pid])
            late = _take(ours, process, kept, began + deadline_s)
        finally:
            _end(process)
            end_guard(guard)  # before the group's number may become another's
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_S)
    finally:
        os.close(ours)
    status = -signal.SIGKILL if process.returncode is None else process.returncode
    return Ran(text=kept.text(), status=status, late=late, cut=kept.cut, took_s=time.monotonic() - began)


class _Kept:
    """The first or the last bytes of a stream."""

    def __init__(self, most: int, *, tail: bool) -> None:
        self.cut = False
        self._most = most
        self._tail = tail
        self._size = 0
        self._parts: collections.deque[bytes] = collections.deque()

    def add(self, data: bytes) -> None:
        """Takes the next part."""
        if not self._tail and self._size >= self._most:
            self.cut = True
            return
        self._parts.append(data)
        self._size += len(data)
        while self._tail and self._size - len(self._parts[0]) >= self._most:
            self._size -= len(self._parts.popleft())
            self.cut = True

    def text(self) -> str:
        """What is kept, harmless."""
        data = b"".join(self._parts)
        self.cut = self.cut or len(data) > self._most
        data = data[-self._most :] if self._tail else data[: self._most]
        return plain(data.decode("utf-8", errors="replace"))


def _limit(pid: int, memory_bytes: int | None) -> None:
    if sys.platform == "linux" and memory_bytes is not None:
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _take(fd: int, process: subprocess.Popen[bytes], kept: _Kept, end: float) -> bool:
    """Reads until the process has ended; True: it had not by `end`. A child of its own may keep the pipe open."""
    os.set_blocking(fd, False)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    is_open = True
    while time.monotonic() < end:
        ended = _has_ended(process)  # asked before the last reading, which thereby misses nothing
        if is_open and poll.poll(0 if ended else _TICK_MS):
            data = os.read(fd, _CHUNK)
            if data:
                kept.add(data)
                continue
            is_open = False
        elif not is_open and not ended:
            time.sleep(_TICK_MS / 1000)
        if ended:
            return False
    return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; it is left unreaped where that can be, so that its group's number stays its own."""
    if sys.platform == "linux":
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True
    return process.poll() is not None


def start_guard(script: str, pids: Sequence[int]) -> subprocess.Popen[bytes] | None:
    """A shell that waits until we have ended, by whatever, or have ended it; it then runs on, with the pids as $@.

    `script` begins with `read _`. None where no shell can be started.
    """
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            ["/bin/sh", "-c", script, "livetrap-guard", *map(str, pids)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return None


def end_guard(guard: subprocess.Popen[bytes] | None) -> None:
    """Ends a guard whose script is not to run on."""
    if guard is not None:
        guard.kill()
        guard.wait()
        if guard.stdin:
            guard.stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
