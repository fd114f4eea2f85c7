"""Runs herd.c and stuck.c, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from livetrap.model import Look, ThreadReading
from livetrap.observe import Observer
from livetrap.page import Page

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "csrc" / "include"
LIMIT_S = 10.0


def compile_herd(folder: Path, name: str = "herd") -> Path:
    """The program, with debug information."""
    program = folder / name
    command = [shutil.which("cc") or "cc", "-std=gnu11", "-g", "-O1", "-pthread", "-I", str(INCLUDE)]
    subprocess.run([*command, str(HERE / f"{name}.c"), "-o", str(program)], check=True, timeout=60)
    return program


@contextlib.contextmanager
def herd(program: Path, page: Page | None, *roles: str, fds: tuple[int, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """The program with a thread for each role, in a session of its own, all of which is killed at the end.

    `fds` are descriptors that it inherits.
    """
    environment = {**os.environ, "LIVETRAP_PAGE": page.spec(page.fd)} if page is not None else dict(os.environ)
    process = subprocess.Popen(
        [program, *roles],
        env=environment,
        pass_fds=[*([page.fd] if page is not None else []), *fds],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        if process.stdout:
            process.stdout.close()
        assert eventually(lambda: not session_of(process.pid)), "a process of the herd survived"


def session_of(leader: int) -> list[int]:
    """Processes that are still in the session, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(folder.name))
    return found


def eventually(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
    """Whether the condition comes to hold within the limit."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def look_until(observer: Observer, condition: Callable[[Look], bool], limit_s: float = LIMIT_S) -> Look:
    """The first look for which the condition holds."""
    found: list[Look] = []

    def holds() -> bool:
        found[:] = [observer.look(late_ns=0)]
        return condition(found[0])

    assert eventually(holds, limit_s), f"not seen within {limit_s} s; last: {found}"
    return found[0]


def at_site(look: Look, site: int) -> list[ThreadReading]:
    """Threads whose slot names this site."""
    return [reading for reading in look.threads if reading.slot and reading.slot.site == site]
