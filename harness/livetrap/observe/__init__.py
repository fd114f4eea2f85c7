"""Looks at a target and gathers evidence of its threads, without ever disturbing one that sleeps."""

from __future__ import annotations

import sys
from typing import Protocol

from livetrap.model import Evidence, EvidenceKind, Look, ThreadId
from livetrap.page import Page, one_line

if sys.platform == "linux":
    from livetrap.observe import linux, proctree


class Observer(Protocol):
    """Reads one target for as long as it runs. No method raises because the target, or a part of it, has gone."""

    @property
    def modules(self) -> dict[str, str]:
        """Paths of the program files that a `pc_site` named so far, by the name it used (see `symbols`)."""

    @property
    def listings(self) -> dict[str, tuple[str, ...]]:
        """The instructions of each loop found so far, one a line, by the loop's site."""

    def look(self, *, late_ns: int) -> Look:
        """One reading of everything, taken now; `late_ns` is how much later than asked it comes."""

    def gather(self, threads: tuple[ThreadId, ...], kinds: frozenset[EvidenceKind], deadline_s: float) -> Evidence:
        """Gathers what can be had of these threads within the deadline, then looks again. Kinds that this system
        cannot give are left out."""

    def close(self) -> None:
        """Releases everything but the page; may be called again."""


def thread_name(thread: ThreadId) -> str:
    """What a thread calls itself; empty where it has gone, or this system does not tell."""
    if sys.platform != "linux":
        return ""
    return one_line(proctree.read_at(None, f"/proc/{thread.pid}/task/{thread.tid}/comm", 64).decode(errors="replace"))


def open_observer(
    pid: int,
    page: Page | None,
    *,
    output_fd: int | None = None,
    adopters: tuple[int, ...] = (),
    progress: str = "",
) -> Observer:
    """The best observer that this system has for the process tree of `pid`.

    `page` is None for a target that was not started with one. `output_fd` is the file that takes the target's output,
    if its size is to be watched. `adopters` are processes of the harness that take in the target's orphans, and have no
    children but the target, its orphans and each other; where there are no such (macOS), orphans are lost. `progress`
    says what shows that the target goes on, as in `progress.Progress`; raises HarnessError where it says nothing known.
    """
    if sys.platform == "linux" and proctree.available():
        return linux.LinuxObserver(pid, page, output_fd=output_fd, adopters=adopters, progress=progress)
    from livetrap.observe import portable  # noqa: PLC0415 (psutil takes long to load, and is not needed on Linux)

    return portable.PortableObserver(pid, page, output_fd=output_fd, progress=progress)
