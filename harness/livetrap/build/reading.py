"""Has a module tell what it offers, in a process that may die of it, or hang: see targets/teller.py."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import _cffi_backend

import livetrap
from livetrap.errors import HarnessError
from livetrap.model import Frozen
from livetrap.targets.output import Output
from livetrap.targets.portable import kill_marked
from livetrap.targets.reaping import TOKEN

_BOOT = "import sys; sys.path += sys.argv[1:3]; import livetrap.targets.teller as it; it.main(sys.argv[3:])"
_LOADED = b"loaded\n"
_MOST_BYTES = 1 << 22
_KILL_S = 2.0


class Told(Frozen):
    """How the process ended, and what it had told until then."""

    loaded: bool
    """The module was loaded: what came later is of the telling."""
    text: bytes
    status: int
    """Its exit status; 0 where a signal ended it."""
    signal: int
    """0: none."""
    late: bool
    """It was ended since its time was over."""
    output: str
    """What was printed meanwhile."""


def read(module: str, path: Path, *, limit_s: float) -> Told:
    """Starts the process, reads what it tells, and leaves nothing of it.

    HarnessError, status 3: it cannot be started.
    """
    token = secrets.token_hex(8)
    output = Output()
    ours, theirs = os.pipe()
    try:
        try:
            process = _start(module, path, theirs, output.fd, token, limit_s)
        finally:
            os.close(theirs)
        data, late = b"", True
        try:
            data, late = _take(ours, process, time.monotonic() + limit_s)
        finally:
            _end(process, token)
        ended = process.returncode
        return Told(
            loaded=data.startswith(_LOADED),
            text=data.removeprefix(_LOADED),
            status=max(0, ended),
            signal=0 if late else max(0, -ended),
            late=late,
            output=output.tail(),
        )
    finally:
        os.close(ours)
        output.close()


def _start(module: str, path: Path, fd: int, output: int, token: str, limit_s: float) -> subprocess.Popen[bytes]:
    folders = [str(Path(str(it.__file__)).parent) for it in (livetrap, _cffi_backend)]
    folders[0] = str(Path(folders[0]).parent)
    words = [str(fd), str(math.ceil(limit_s) + 1), module, str(path)]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, *folders, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(fd,),
            env={**os.environ, TOKEN: token},
            start_new_session=True,
        )
    except OSError as error:
        raise HarnessError(f"cannot start {sys.executable}: {error.strerror or error}", status=3) from None


def _take(fd: int, process: subprocess.Popen[bytes], end: float) -> tuple[bytes, bool]:
    """All that it writes until it ends, and whether that was too late. A child of its own may keep the pipe open."""
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while time.monotonic() < end and len(data) < _MOST_BYTES:
        ready = poll.poll(10)
        if ready:
            new = os.read(fd, 1 << 16)
            data += new
            if not new:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - time.monotonic()))
                break
        elif process.poll() is not None:
            break
    return data, process.poll() is None


def _end(process: subprocess.Popen[bytes], token: str) -> None:
    """Kills and reaps it, and whatever it has started, in whatever session."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kill_marked(token, deadline_s=_KILL_S)
