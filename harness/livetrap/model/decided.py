"""What is decided: the rules of a judgement, the judgement, and what a judge commands."""

from __future__ import annotations

from livetrap.model.seen import ThreadId
from livetrap.model.words import Certainty, EvidenceKind, Frozen, LoopKind, Mark, Phase, Role, Verdict, WakeSource


class Rules(Frozen, kw_only=True):
    """The numbers that a judgement rests on. Every trial stores its own."""

    limit_s: float = 10.0
    """The trial's time limit."""
    floor_s: float = 0.15
    """A stall shorter than this is never suspect."""
    silent_floor_s: float = 3.0
    """The same for a target without slots."""
    finishing_floor_s: float = 1.0
    """The same once all slots are DONE."""
    gap_factor: float = 3.0
    """A stall is suspect when it is this many times the longest healthy gap."""
    cpu_allowance_ns: int = 12_000_000
    """CPU time that a thread may spend without a beat before that counts against it; above a tick of a coarse clock."""
    switch_allowance: int = 20
    """The same in times scheduled in: a yield loop runs often and briefly."""
    timer_fires: int = 3
    """Wake-ups by a timer, without a beat, after which a sleeper is known to poll ..."""
    poller_s: float = 2.5
    """... if it has done so for that long: it may have napped before it does something."""
    woken_s: float = 0.5
    """A thread that is woken in vain again and again spins in bursts when nothing has beaten for this long."""
    burst_s: float = 10.0
    """A thread that waits anew again and again spins in bursts when it has done so at every look for this long ..."""
    burst_cpu_ns: int = 200_000
    """... and each time it used less CPU time than this: more, and it computes between its waits."""
    starved_after_s: float = 0.3
    """A thread that wanted a CPU for this long and got under `starved_share` of it is starved by the host."""
    starved_share: float = 0.05
    starvation_s: float = 1.0
    """Time in WAIT without a beat, while others beat, that makes a thread suspect of starvation."""
    starvation_beats: int = 20
    """How often the others must have beaten in that time."""
    settled_sleep_s: float = 0.02
    """A thread that slept throughout for this long is parked."""
    regather_s: float = 0.1
    """Between two gatherings while a window stays open; grows to ten times that, in silent targets to 25 times."""
    void_late_s: float = 0.1
    """A look later than this voids the time that it closes."""
    look_s: float = 0.02
    """Least time between looks; an eighth of the window, where that is more."""
    slow_look_s: float = 0.05
    """Most time between looks, and that while a window stays open for long ..."""
    silent_look_s: float = 0.1
    """... of targets that beat; of silent ones."""
    gather_s: float = 0.05
    """Deadline for gathering evidence."""
    fixed_looks: int = 20
    """Stops of a thread in one and the same poll, none of its registers and polled words changed, ..."""
    fixed_s: float = 1.0
    """... over at least this long, after which a poll without a mark counts as spinning."""
    stop_s: float = 0.1
    """Deadline for reading the registers of awake threads, all together."""
    startup_s: float | None = None
    """Judge threads in NONE before the first beat only after this time; None: only on proof or at the limit."""


class Gaps(Frozen, kw_only=True):
    """Longest healthy gaps between beats known before the trial starts."""

    cell_s: float = 0.0
    """Of earlier trials in the same cell that passed."""


class Shape(Frozen, kw_only=True):
    """How many threads of the target do what; the harness's own are not in it."""

    spinning: int = 0
    computing: int = 0
    polling: int = 0
    parked: int = 0
    exited: int = 0
    starved: int = 0
    stopped: int = 0
    undecided: int = 0

    def __str__(self) -> str:
        counts = [(getattr(self, name), name) for name in self.__struct_fields__]
        return ", ".join(f"{count} {name}" for count, name in counts if count) or "no threads"


class ThreadJudgement(Frozen, kw_only=True):
    """One thread's role and what it rests on."""

    id: ThreadId
    role: Role
    mark: Mark | None = None
    wake: WakeSource | None = None
    sleeps_in: str = ""
    site: int | None = None
    arrivals: int | None = None
    beats: int | None = None
    cpu_s: float | None = None
    """CPU time counted against its allowance."""
    switches: int | None = None
    pc_site: str = ""
    loop: LoopKind | None = None
    """Of the loop that it was last seen in ..."""
    loop_site: str = ""
    """... and where that begins."""
    loop_traits: tuple[str, ...] = ()


class Judgement(Frozen, kw_only=True):
    """A verdict with what it rests on."""

    verdict: Verdict
    certainty: Certainty = Certainty.OBSERVED
    reason: str
    """One sentence."""
    rule: str = ""
    """Which rule settled it, e.g. `settle-4`, `limit-3`, `ended`."""
    phase: Phase | None = None
    shape: Shape = Shape()
    threads: tuple[ThreadJudgement, ...] = ()
    wakeable: tuple[ThreadId, ...] = ()
    """Threads that could still be woken from outside."""
    settled_ns: int = 0
    last_beat_ns: int = 0
    """The last beat; where there was none, the start line; where there is none, the first look. An early bound."""
    longest_stall_s: float = 0.0
    """The longest stall that resolved itself, by looks."""
    beats: int = 0

    @property
    def stall_s(self) -> float:
        """From the last beat to the verdict, in seconds."""
        return max(0.0, (self.settled_ns - self.last_beat_ns) / 1e9)


class LookAgain(Frozen, kw_only=True, tag="look-again"):
    """Take a look in `after_s` seconds."""

    after_s: float


class Gather(Frozen, kw_only=True, tag="gather"):
    """Gather evidence of these threads within the deadline, then look, without disturbing any sleeper."""

    threads: tuple[ThreadId, ...]
    kinds: frozenset[EvidenceKind]
    deadline_s: float


class Settle(Frozen, kw_only=True, tag="settle"):
    """The trial is judged."""

    judgement: Judgement


Command = LookAgain | Gather | Settle
