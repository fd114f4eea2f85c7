"""Whoever owns what a trial runs: what the watching loop asks of it, and in which words it answers."""

from __future__ import annotations

from typing import Protocol

from livetrap.model import Frozen


class SharedPage(Protocol):
    """What is needed of a page (see `livetrap.page`)."""

    @property
    def fd(self) -> int:
        """Its descriptor in this process."""

    def spec(self, fd_number: int, /) -> str:
        """LIVETRAP_PAGE for a process that has it under that number."""


class Launched(Frozen):
    """A trial's process."""

    pid: int
    started_ns: int
    """When it had been started."""


class Exit(Frozen):
    """How a trial's main process ended."""

    exit_code: int | None
    """None: a signal ended it, or that is not known."""
    signal: int | None
    """None: no signal ended it, or that is not known."""
    cpu_s: float | None
    """CPU time of it and of all that it waited for; None: not known."""
    at_ns: int
    """When it was reaped, or seen to have ended."""


class Sweep(Frozen):
    """What was left of a trial, and is no more."""

    killed: int
    took_s: float


class Owner(Protocol):
    """Owns a target while it is watched: a `Supervisor` what it started, a `RunningProcess` nothing at all."""

    @property
    def output_fd(self) -> int | None:
        """The file that takes what the target writes; its size is how much that was. None: not known."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes of the harness's own that take in the target's orphans."""

    def wait(self, timeout_s: float) -> Exit | None:
        """How the target's main process ended, or None if it still runs after that time."""

    def sweep(self, deadline_s: float) -> Sweep:
        """Ends all that is left of what the owner owns."""

    def output_tail(self) -> str:
        """The end of what the target wrote, safe to print; empty where that is not known."""
