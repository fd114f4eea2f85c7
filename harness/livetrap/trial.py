"""One trial: launch the target, do what the judge commands, gather evidence, end and reap it.

Nothing here decides. Events go to the judge, its commands are carried out, and the events are kept for the record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

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
    Rules,
    Settle,
    ThreadId,
)
from livetrap.observe import Observer, open_observer
from livetrap.page import Page
from livetrap.targets.owner import Exit, Owner
from livetrap.targets.supervisor import Launched, Supervisor

SPARE_SLOTS = 16
"""Slots beyond the team's, for threads and children that a kernel makes itself."""
COMMAND_SLOTS = 256
"""Slots for the threads of a command; those that find none are judged from outside."""
SWEEP_S = 2.0
QUIET_NS = 500_000_000
"""Nothing is disturbed in the last half second before the time limit."""


class Disturbing(Protocol):
    """Noise around a running target (livetrap.disturb)."""

    @property
    def note(self) -> str:
        """What took effect."""

    def quiet(self) -> None:
        """Holds still: the target is suspect, and is to be judged undisturbed."""

    def resume(self) -> None:
        """Goes on after that."""

    def stop(self) -> None:
        """Ends it and takes back what can be taken back."""


class Aftermath(Frozen, kw_only=True):
    """What was done about a target that was still alive when it was judged."""

    evidence: dict[str, object] = {}
    leave: bool = False
    """It is to be left alive."""


class Outcome(Frozen, kw_only=True):
    """What came of one trial."""

    judgement: Judgement
    events: tuple[Event, ...] = ()
    gaps: Gaps
    wall_s: float = 0.0
    """From launch to verdict."""
    reap_s: float = 0.0
    """From verdict, or from the last evidence, until nothing of it was left."""
    killed: int = 0
    """Processes that had to be killed."""
    exit: Exit | None = None
    """How the main process ended; None: it did not end by itself."""
    output: str = ""
    """The tail of what it wrote."""
    modules: dict[str, str] = {}
    """Paths of the program files that program counters were found in, by name."""
    listings: dict[str, tuple[str, ...]] = {}
    """Disassembly of the loops that threads were seen in, by where they begin."""
    evidence: dict[str, object] = {}
    """What was gathered after the verdict."""
    suspect: bool = False
    """It was suspect at some time, or did not end by itself: its events are to be kept whole."""


class Watch:
    """The hand that observes one running target until it is judged."""

    def __init__(
        self,
        pid: int,
        started_ns: int,
        *,
        rules: Rules,
        gaps: Gaps,
        page: Page | None,
        owner: Owner,
        progress: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.pid = pid
        self.disturbing: Disturbing | None = None
        self.exit: Exit | None = None
        self.events: list[Event] = []
        self._page = page
        self._owner = owner
        self._rules = rules
        self._progress = progress
        self._cancelled = cancelled
        self._state = judge.begin(rules, gaps)
        self._limit_ns = started_ns + int(rules.limit_s * 1e9)
        self._due_ns = started_ns + int(rules.look_s * 1e9)
        self._observer: Observer | None = None

    def run(self) -> Judgement:
        """Watches until the judge settles. KeyboardInterrupt: it was cancelled."""
        while True:
            due = min(self._due_ns, self._limit_ns)
            self.exit = self._owner.wait(max(0.0, (due - time.monotonic_ns()) / 1e9))
            if self.exit:
                return self._fold(self._ended(self.exit))
            if self._cancelled():
                raise KeyboardInterrupt
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

    @property
    def listings(self) -> dict[str, tuple[str, ...]]:
        """Disassembly of the loops that the observer found, by where they begin."""
        return dict(self._observer.listings) if self._observer else {}

    @property
    def started(self) -> bool:
        """The start line of its team was released."""
        return self._state.started_ns > 0

    @property
    def threads(self) -> list[ThreadId]:
        """The threads of the tree at the last look."""
        return sorted(self._state.tracks)

    def close(self) -> None:
        """Lets go of the target."""
        if self._observer:
            self._observer.close()

    def _look(self, due_ns: int) -> Judgement | None:
        if self._observer is None:
            self._observer = open_observer(
                self.pid,
                self._page,
                output_fd=self._owner.output_fd,
                adopters=self._owner.pids,
                progress=self._progress,
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
                    self._disturb(now)
                    self._due_ns = time.monotonic_ns() + int(after_s * 1e9)
                    return None

    def _disturb(self, now: int) -> None:
        """A suspect target, and one at its time limit, is judged undisturbed."""
        if self.disturbing is None:
            return
        if self._state.suspect or now > self._limit_ns - QUIET_NS:
            self.disturbing.quiet()
        else:
            self.disturbing.resume()

    def _unless_ended(self, settled: Judgement) -> Judgement:
        """A target that has ended by itself in the meantime is judged by its end."""
        self.exit = self._owner.wait(0.0)
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
        if self._page is None:
            return Ended(at_ns=exit_.at_ns, exit_code=exit_.exit_code, signal=exit_.signal)
        header = self._page.header()
        beats = header.departed_beats + sum(slot.beats for slot in self._page.slots())
        message = header.message
        if exit_.signal is not None and not message:
            message = self._owner.output_tail().strip().rpartition("\n")[2][:500]
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


class Job(Frozen, kw_only=True):
    """What a trial needs beside its plan."""

    built: Built | None = None
    """The module with the kernel; None for a command."""
    arguments: Mapping[str, int] = {}
    """The kernel's."""
    gaps: Gaps = Gaps()


def run_trial(
    trial: PlannedTrial,
    job: Job,
    *,
    supervisor: Supervisor,
    disturb: Callable[[Watch, Launched], Disturbing | None] = lambda _watch, _launched: None,
    judged: Callable[[Outcome], None] = lambda _outcome: None,
    after: Callable[[Judgement, Watch], Aftermath] = lambda _judgement, _watch: Aftermath(),
    cancelled: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Runs one trial to its verdict and leaves nothing of it behind, unless `after` says so.

    With a target that is still alive at its verdict, `judged` is called with what is known by then; `after` may then
    take its time. Raises HarnessError where the target could not be started or the supervisor was lost.
    """
    slots = COMMAND_SLOTS if trial.command else trial.threads + SPARE_SLOTS
    with Page.create(slots) as page:
        launched = _launch(trial, job, page=page, supervisor=supervisor)
        watch = Watch(
            launched.pid,
            launched.started_ns,
            rules=trial.rules,
            gaps=job.gaps,
            page=page,
            owner=supervisor,
            progress=trial.command.progress if trial.command else "",
            cancelled=cancelled,
        )
        left: tuple[int, ...] = ()
        aftermath, swept, disturbing = Aftermath(), None, None
        try:
            disturbing = watch.disturbing = disturb(watch, launched)
            settled = watch.run()
            if disturbing:
                disturbing.stop()
            if watch.exit is None:
                judged(_outcome(settled, watch, launched, job, supervisor))
                aftermath = after(settled, watch)
        finally:
            if disturbing:
                disturbing.stop()
            watch.close()
            if aftermath.leave:
                left = supervisor.leave()
            else:
                swept = supervisor.sweep(deadline_s=SWEEP_S)
        evidence = dict(aftermath.evidence)
        if disturbing:
            evidence["disturbance"] = disturbing.note
        if left:
            evidence["left"] = list(left)
        return msgspec.structs.replace(
            _outcome(settled, watch, launched, job, supervisor),
            reap_s=swept.took_s if swept else 0.0,
            killed=swept.killed if swept else 0,
            evidence=evidence,
        )


def _outcome(settled: Judgement, watch: Watch, launched: Launched, job: Job, supervisor: Supervisor) -> Outcome:
    """What is known once it is judged."""
    return Outcome(
        judgement=settled,
        events=tuple(watch.events),
        gaps=job.gaps,
        wall_s=(settled.settled_ns - launched.started_ns) / 1e9,
        exit=watch.exit,
        output=supervisor.output_tail() if settled.verdict != "passed" else "",
        modules=watch.modules,
        listings=watch.listings,
        suspect=watch.suspect,
    )


def _launch(trial: PlannedTrial, job: Job, *, page: Page, supervisor: Supervisor) -> Launched:
    if trial.command is None:
        assert job.built is not None
        return supervisor.launch(built=job.built, trial=trial, page=page, arguments=dict(job.arguments))
    cpus = getattr(trial.placement, "cpus", ())
    return supervisor.launch_command(command=trial.command, page=page, cpus=cpus[0] if cpus else ())
