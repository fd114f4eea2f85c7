"""Progress of a campaign: a live line on a terminal, a plain line every few seconds elsewhere.

Nothing here runs in a thread of its own: it draws when a trial begins or ends, and no more than a few times a second,
so that watching costs the harness next to nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import IO

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from livetrap.model import PlannedTrial, Record, Verdict
from livetrap.report.text import console, one_line, plural, seconds, styled

LIVE_EVERY_S = 0.2
PLAIN_EVERY_S = 5.0


class Tally:
    """What is known so far, and how long the rest may take."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self.total: int | None = 0
        """None: a time ends it, not a number."""
        self.for_s: float | None = None
        self.done = 0
        self.counts: Counter[Verdict] = Counter()
        self.current = ""

    def start(self, total: int | None, for_s: float | None) -> None:
        self.total = total
        self.for_s = for_s
        self._began = self._clock()

    def begin(self, trial: PlannedTrial) -> None:
        self.current = cell_text(trial)

    def end(self, record: Record) -> None:
        self.done += 1
        self.counts[record.verdict] += 1

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @property
    def left_s(self) -> float | None:
        """Estimated from the trials so far, at most what is left of the time; None where neither is known."""
        estimates = []
        if self.for_s is not None:
            estimates.append(max(0.0, self.for_s - self.elapsed_s))
        if self.done and self.total is not None:
            estimates.append(self.elapsed_s / self.done * (self.total - self.done))
        return min(estimates, default=None)

    @property
    def share(self) -> float:
        """How much is over, from 0 to 1, by trials or by time, whichever is further."""
        by_trials = self.done / max(1, self.total) if self.total is not None else 0.0
        by_time = self.elapsed_s / self.for_s if self.for_s else 0.0
        return min(1.0, max(by_trials, by_time))

    @property
    def over(self) -> bool:
        """All trials are done; never known where a time ends it."""
        return self.total is not None and self.done >= self.total

    def verdicts(self) -> Text:
        """`livelock 12, passed 30`, in colours."""
        parts = [styled(verdict, f"{verdict.value} {self.counts[verdict]}") for verdict in self.counts]
        return Text(", ").join(parts) if parts else Text("no trial yet", style="dim")


def cell_text(trial: PlannedTrial) -> str:
    """The cell of a trial on one line: `buggy threads=8 placement=free flags=-O2`."""
    return one_line(" ".join([trial.variant, *(f"{name}={value}" for name, value in trial.cell.items())]))


class PlainProgress:
    """One line every few seconds."""

    def __init__(self, stream: IO[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console(stream)
        self._clock = clock
        self._tally = Tally(clock=clock)
        self._last = clock()

    def started(self, total: int | None, *, for_s: float | None = None) -> None:
        self._tally.start(total, for_s)
        self._last = self._clock()

    def trial_started(self, trial: PlannedTrial) -> None:
        self._tally.begin(trial)

    def trial_finished(self, record: Record) -> None:
        tally = self._tally
        tally.end(record)
        now = self._clock()
        if now - self._last < PLAIN_EVERY_S and not tally.over:
            return
        self._last = now
        left = f", about {seconds(tally.left_s)} left" if not tally.over and tally.left_s is not None else ""
        took = f"{seconds(tally.elapsed_s)}{left}"
        amount = f"{tally.done} of {plural(tally.total, 'trial')}" if tally.total else plural(tally.done, "trial")
        self.print(Text.assemble(f"{amount} in {took}: ", tally.verdicts()))

    def print(self, text: Text | str) -> None:
        self._console.print(text)

    def close(self) -> None:
        """Nothing is left to clear away."""


class LiveProgress:
    """A bar with what is running now, redrawn in place."""

    def __init__(self, stream: IO[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console(stream)
        self._clock = clock
        self._tally = Tally(clock=clock)
        self._drawn = clock()
        # Without its own refreshing thread; standard output and error stay what they are.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def started(self, total: int | None, *, for_s: float | None = None) -> None:
        self._tally.start(total, for_s)
        self._live.start()
        self._draw(now=True)

    def trial_started(self, trial: PlannedTrial) -> None:
        self._tally.begin(trial)
        self._draw()

    def trial_finished(self, record: Record) -> None:
        self._tally.end(record)
        self._draw()

    def print(self, text: Text | str) -> None:
        self._console.print(text)

    def close(self) -> None:
        """Clears the bar away; a second call does nothing."""
        self._live.stop()

    def _draw(self, *, now: bool = False) -> None:
        at = self._clock()
        if not now and at - self._drawn < LIVE_EVERY_S:
            return
        self._drawn = at
        self._live.update(self._lines(), refresh=True)

    def _lines(self) -> Group:
        tally = self._tally
        first = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=1.0, completed=tally.share, width=24)
        left = f"{seconds(tally.left_s)} left" if tally.left_s is not None else ""
        amount = f"{tally.done}/{tally.total}" if tally.total is not None else str(tally.done)
        first.add_row(bar, amount, left, tally.verdicts())
        return Group(first, Text(tally.current, style="dim", no_wrap=True, overflow="ellipsis"))


Progress = PlainProgress | LiveProgress


def open_progress(stream: IO[str], *, clock: Callable[[], float] = time.monotonic) -> Progress:
    """The progress that suits the stream."""
    out = console(stream)
    live = out.is_terminal and not out.is_dumb_terminal
    return LiveProgress(stream, clock=clock) if live else PlainProgress(stream, clock=clock)
