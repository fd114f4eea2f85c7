"""Runs the command line in a child process that the test owns, and looks that nothing of it survives."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import psutil

MARK = "LIVETRAP_TEST_MARK"


@dataclasses.dataclass(frozen=True)
class Finished:
    """What one run of the command left."""

    status: int
    out: str
    err: str
    wall_s: float

    @property
    def trials(self) -> list[dict[str, Any]]:
        """The objects of `--json -`."""
        return [json.loads(line) for line in self.out.splitlines()]


def livetrap(*arguments: str | Path, folder: Path, limit_s: float, **environment: str) -> Finished:
    """Runs `livetrap ...` to its end and asserts that none of its processes is left."""
    mark = uuid.uuid4().hex
    began = time.monotonic()
    process = start(*arguments, mark=mark, folder=folder, **environment)
    try:
        out, err = process.communicate(timeout=limit_s)
    finally:
        process.kill()
        left = survivors(mark)
    assert not left, left
    return Finished(process.returncode, out, err, time.monotonic() - began)


def start(*arguments: str | Path, mark: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Starts `livetrap ...` with every one of its processes marked in its environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LIVETRAP_PAGE")}
    return subprocess.Popen(
        [sys.executable, "-m", "livetrap", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env={**inherited, "XDG_STATE_HOME": str(folder), **environment, MARK: mark},
    )


def survivors(mark: str, *, within_s: float = 2.0) -> list[str]:
    """Processes with that mark that are still there after `within_s`; they are killed then."""
    until = time.monotonic() + within_s
    while True:
        left = marked(mark)
        if not left or time.monotonic() > until:
            break
        time.sleep(0.02)
    told = []
    for process in left:
        try:
            told.append(f"{process.pid} {process.cmdline()}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return told


def marked(mark: str) -> list[psutil.Process]:
    """Live processes that carry the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
