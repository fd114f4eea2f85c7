"""One trial: launch the target, do what the judge commands, end and reap it.

This loop decides nothing. It hands events to the judge, carries out its commands, and keeps the events for the record.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from livetrap import judge
from livetrap.build import Built
from livetrap.model import (
    Ended,
    Event,
    Frozen,
    Gaps,
    Gather,
    Judgement,
    LimitReached,
    LookAgain,
    PlannedTrial,
    Settle,
)
from livetrap.observe import Observer, open_observer
from livetrap.page import Page
from livetrap.targets.supervisor import Exit, Supervisor

SPARE_SLOTS = 16
"""Slots beyond the team's, for threads and children that a kernel makes itself."""


class Outcome(Frozen, kw_only=True):
    """What came of one trial."""

    judgement: Judgement
    events: tuple[Event, ...]
    gaps: Gaps
    wall_s: float
    """From launch to verdict."""
    reap_s: float
    """From verdict until nothing of it was left."""
    killed: int
    """Processes that had to be killed."""
    cpu_s: float | None
    """CPU time of the main process; None where it did not end by itself."""
    output: str
    """The tail of what it wrote."""
    modules: dict[str, str]
    """Paths of the program files that program counters were found in, by name."""
    suspect: bool
    """It was suspect at some time, or did not end by itself: its events are to be kept whole."""


def run_trial(
    trial: PlannedTrial,
    *,
    built: Built,
    arguments: Mapping[str, int],
    supervisor: Supervisor,
    gaps: Gaps,
) -> Outcome:
    """Runs one trial to its verdict and leaves nothing of it behind.

    Raises HarnessError where the target could not be started or the supervisor was lost.
    """
    with Page.create(trial.threads + SPARE_SLOTS) as page:
        launched = supervisor.launch(built=built, trial=trial, page=page, arguments=dict(arguments))
        watch = _Watch(trial, launched.pid, launched.started_ns, page=page, supervisor=supervisor, gaps=gaps)
        try:
            settled = watch.run()
        finally:
            watch.close()
            swept = supervisor.sweep(deadline_s=2.0)
        return Outcome(
            judgement=settled,
            events=tuple(watch.events),
            gaps=gaps,
            wall_s=(settled.settled_ns - launched.started_ns) / 1e9,
            reap_s=swept.took_s,
            killed=swept.killed,
            cpu_s=watch.exit.cpu_s if watch.exit else None,
            output=supervisor.output_tail() if settled.verdict != "passed" else "",
            modules=watch.modules,
            suspect=watch.suspect,
        )


class _Watch:
    """The hand that observes one running target."""

    def __init__(
        self, trial: PlannedTrial, pid: int, started_ns: int, *, page: Page, supervisor: Supervisor, gaps: Gaps
    ) -> None:
        self.exit: Exit | None = None
        self.events: list[Event] = []
        self._pid = pid
        self._page = page
        self._supervisor = supervisor
        self._rules = trial.rules
        self._state = judge.begin(trial.rules, gaps)
        self._limit_ns = started_ns + int(trial.rules.limit_s * 1e9)
        self._due_ns = started_ns + int(trial.rules.look_s * 1e9)
        self._observer: Observer | None = None

    def run(self) -> Judgement:
        """Watches until the judge settles."""
        while True:
            due = min(self._due_ns, self._limit_ns)
            self.exit = self._supervisor.wait(max(0.0, (due - time.monotonic_ns()) / 1e9))
            if self.exit:
                return self._fold(self._ended(self.exit))
            settled = self._look(due)
            if settled:
                return self._unless_ended(settled)

    @property
    def suspect(self) -> bool:
        """The judge suspected it, or it was still there at the end."""
        return self._state.ever_suspect or self.exit is None

    @property
    def modules(self) -> dict[str, str]:
        """Paths of the program files that the observer named."""
        return dict(self._observer.modules) if self._observer else {}

    def close(self) -> None:
        """Lets go of the target."""
        if self._observer:
            self._observer.close()

    def _look(self, due_ns: int) -> Judgement | None:
        if self._observer is None:
            self._observer = open_observer(
                self._pid, self._page, output_fd=self._supervisor.output_fd, adopters=self._supervisor.pids
            )
        now = time.monotonic_ns()
        look = self._observer.look(late_ns=max(0, now - due_ns))
        event: Event = LimitReached(look=look) if now >= self._limit_ns else look
        while True:
            self.events.append(event)
            self._state, command = judge.step(self._state, event)
            match command:
                case Settle(judgement=judgement):
                    return judgement
                case Gather(threads=threads, kinds=kinds, deadline_s=deadline_s):
                    event = self._observer.gather(threads, kinds, deadline_s)
                case LookAgain(after_s=after_s):
                    self._due_ns = time.monotonic_ns() + int(after_s * 1e9)
                    return None

    def _unless_ended(self, settled: Judgement) -> Judgement:
        """A target that has ended by itself in the meantime is judged by its end."""
        self.exit = self._supervisor.wait(0.0)
        if self.exit is None:
            return settled
        self._state = judge.begin(self._rules, Gaps())
        self.events.pop()
        for event in self.events:
            self._state, _ = judge.step(self._state, event)
        return self._fold(self._ended(self.exit))

    def _fold(self, event: Ended) -> Judgement:
        self.events.append(event)
        self._state, command = judge.step(self._state, event)
        assert isinstance(command, Settle)
        return command.judgement

    def _ended(self, exit_: Exit) -> Ended:
        header = self._page.header()
        beats = header.departed_beats + sum(slot.beats for slot in self._page.slots())
        message = header.message
        if exit_.signal is not None and not message:
            message = self._supervisor.output_tail().strip().rpartition("\n")[2][:500]
        return Ended(
            at_ns=exit_.at_ns,
            exit_code=exit_.exit_code,
            signal=exit_.signal,
            result=header.result,
            team=header.team,
            message=message,
            started_ns=header.started_ns,
            beats=beats,
            departed=header.departed,
        )
