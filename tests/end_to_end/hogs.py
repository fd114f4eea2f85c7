"""Processes that burn CPU beside a test, and end with it at the latest after their own time limit."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

BURN = "import sys, time\nuntil = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < until: pass"


@contextlib.contextmanager
def hogs(count: int, *, limit_s: float) -> Iterator[None]:
    """Keeps `count` single-threaded burners running."""
    running = [subprocess.Popen([sys.executable, "-c", BURN, str(limit_s)]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
