"""What the harness can do on this machine, for `livetrap doctor`: each point is tried, where needed on a live child."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from livetrap.errors import HarnessError
from livetrap.model import ThreadId
from livetrap.page import Page

Check = tuple[str, bool, str]
"""What was tried, whether it works here, and why not or what it is good for."""

_CHILD_S = 20.0
"""The child ends by itself after this long, should the harness be killed meanwhile."""
_ASK_S = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_CHILD = (
    "import ctypes, select, sys;"
    "print(getattr(ctypes.CDLL(None), 'prctl', lambda *a: -1)(%d, 1, 0, 0, 0), flush=True);"
    "select.select([sys.stdin], [], [], %f)"
)


def checks() -> list[Check]:
    """Tries everything; takes well under a second, at most a few. Raises nothing: what fails is in the list."""
    try:
        with _child() as (pid, subreaper):
            return _checks(pid, subreaper)
    except (OSError, subprocess.SubprocessError) as error:
        return [("a child process", False, str(error))]


def _checks(pid: int, subreaper: bool) -> list[Check]:
    task = Path(f"/proc/{pid}/task/{pid}")
    return [
        _try("schedstat", lambda: _schedstat(task), "CPU times by thread, about every 4 ms"),
        _try("children", lambda: _text(task / "children"), "child processes as the kernel lists them"),
        _try("syscall", lambda: _text(task / "syscall"), "what a sleeper sleeps in, without stopping it"),
        _try("maps", lambda: _text(Path(f"/proc/{pid}/maps")), "where a program counter lies"),
        _try("signals", lambda: _send_nothing(pid), "a spinning thread's program counter"),
        _try("pidfd", lambda: _pidfd(pid), "processes named without mistake"),
        ("subreaper", subreaper, "orphans of a trial come to its supervisor" if subreaper else _missing("prctl")),
        _try("memfd", lambda: Page.create(1, anonymous=True).close(), "the page as anonymous memory"),
        _try("page file", lambda: Page.create(1, anonymous=False).close(), "the page as a private file"),
        _try("affinity", lambda: _affinity(pid), "threads pinned to CPUs, read back"),
        _try("psutil threads", lambda: _psutil_threads(pid), "CPU times by thread where there is no /proc"),
        _tool("addr2line", "function and line of a program counter"),
    ]


def _try(name: str, action: Callable[[], object], use: str) -> Check:
    try:
        action()
    except (OSError, ValueError, AttributeError, HarnessError, psutil.Error) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        return name, False, words
    return name, True, use


def _missing(what: str) -> str:
    return f"no {what} on {platform.system()}"


@contextlib.contextmanager
def _child() -> Iterator[tuple[int, bool]]:
    """A small live child, and whether it could become a subreaper; killed and reaped in any case."""
    code = _CHILD % (_PR_SET_CHILD_SUBREAPER, _CHILD_S)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        first = child.stdout.readline() if child.stdout else b""
        yield child.pid, first.strip() == b"0"
    finally:
        child.kill()
        child.communicate()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _schedstat(task: Path) -> None:
    if not any(map(int, _text(task / "schedstat").split())):
        raise ValueError("this kernel keeps no such times (CONFIG_SCHED_INFO)")


def _send_nothing(pid: int) -> None:
    if sys.platform != "linux":
        raise OSError(_missing("tgkill"))
    from livetrap.observe import gather_linux  # noqa: PLC0415 (not importable elsewhere)

    if not gather_linux.send_signal(ThreadId(pid, pid), 0):
        raise OSError(os.strerror(ctypes.get_errno()))


def _pidfd(pid: int) -> None:
    if sys.platform != "linux":
        raise OSError(_missing("pidfd_open"))
    os.close(os.pidfd_open(pid))


def _affinity(pid: int) -> None:
    if sys.platform != "linux":
        raise OSError("this system has no affinity" if sys.platform == "darwin" else _missing("affinity"))
    wanted = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(pid, wanted)
    if os.sched_getaffinity(pid) != wanted:
        raise ValueError("asked for, but silently not done")


def _psutil_threads(pid: int) -> None:
    """Asked in a thread of its own: on some machines the answer never comes."""
    answer: list[str] = []

    def ask() -> None:
        try:
            psutil.Process(pid).threads()
            answer.append("")
        except (psutil.Error, OSError, NotImplementedError) as error:
            answer.append(str(error) or type(error).__name__)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ASK_S)
    if not answer:
        raise ValueError(f"no answer within {_ASK_S:.0f} s")
    if answer[0]:
        raise ValueError(answer[0])


def _tool(name: str, use: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return name, False, "not installed (it comes with binutils)"
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S * 2, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return name, False, str(error)
    return name, done.returncode == 0, use if done.returncode == 0 else f"{path} --version fails"
