"""Hogs: processes that burn CPU beside a target, and end with the harness."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from livetrap.errors import HarnessError

_SCRIPT = Path(__file__).with_name("herd_process.py")
_ANSWER_S = 10.0
"""Time in which it must have started its hogs. It competes with them for the CPU."""
_CLOSE_S = 5.0


class Herd:
    """Keeps hogs at hand: the process that forks them stays from one trial to the next. It starts with the first."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._burning: tuple[int, tuple[int, ...]] = (0, ())
        self._owed = 0
        """Answers that have not come yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def burning(self) -> int:
        """How many hogs burn."""
        return self._burning[0]

    def burn(self, count: int, cpus: Sequence[int] = ()) -> None:
        """Has so many hogs burn on those CPUs (none: anywhere), and returns when they do.

        Does nothing when they do already. HarnessError, status 3: they could not be started.
        """
        if self._burning == (count, tuple(cpus)):
            return
        self._send(count, cpus)
        assert self._process is not None
        assert self._process.stdout is not None
        answers = self._process.stdout.fileno()
        # One dot for each line; those of `rest`, which does not wait, come before.
        while self._owed:
            ready, _, _ = select.select([answers], [], [], _ANSWER_S)
            dots = os.read(answers, 64) if ready else b""
            if not dots:
                self.close()
                raise HarnessError("hogs: the process that burns CPU could not be started", status=3)
            self._owed -= len(dots)

    def rest(self) -> None:
        """Has all hogs end; does not wait for it."""
        if self._process is not None and self.burning:
            with contextlib.suppress(HarnessError):
                self._send(0, ())

    def close(self) -> None:
        """Ends all. May be called again."""
        process, self._process, self._burning = self._process, None, (0, ())
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()  # the hogs end by themselves then
            process.wait()
        process.stdout.close()

    def _send(self, count: int, cpus: Sequence[int]) -> None:
        process = self._process
        if process is None:
            try:
                process = self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_SCRIPT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise HarnessError(f"hogs: cannot start a process: {error.strerror or error}", status=3) from None
            self._owed = 0
        assert process.stdin is not None
        try:
            process.stdin.write(f"{count} {','.join(map(str, cpus))}\n".encode())
            process.stdin.flush()
        except OSError:
            self.close()
            raise HarnessError("hogs: the process that burns CPU has died", status=3) from None
        self._owed += 1
        self._burning = (count, tuple(cpus))
