"""What is seen of a target: looks, evidence, its end. Events are what a judge folds."""

from __future__ import annotations

import msgspec

from livetrap.model.words import Frozen, LoopKind, Mark, ThreadState, WaitKind, WakeSource


class ThreadId(msgspec.Struct, frozen=True, order=True):
    """A thread, by process and thread id."""

    pid: int
    tid: int


class Slot(Frozen, kw_only=True):
    """One thread's slot in the page, as read."""

    index: int
    generation: int
    pid: int
    tid: int
    beats: int
    mark: Mark
    kind: WaitKind
    site: int
    arrivals: int
    cpu_ns: int | None = None
    run_state: int = 0
    switches: int | None = None
    pc: int = 0
    pc_count: int = 0
    pc_signal: int = 0
    placed: int = 0
    team_index: int = 0


class PageHeader(Frozen, kw_only=True):
    """The header of the page, as read."""

    departed_beats: int
    departed: int
    overflow: bool
    slots_used: int
    probe: ThreadId | None
    probe_passes: int | None
    team: int
    started_ns: int
    finished_ns: int
    result: int
    message: str


class ThreadReading(Frozen, kw_only=True):
    """One thread of the process tree at one look."""

    id: ThreadId
    state: ThreadState
    cpu_ns: int | None = None
    switches: int | None = None
    """Times scheduled in."""
    waited_ns: int | None = None
    """Time spent runnable, waiting for a CPU."""
    slot: Slot | None = None


class Look(Frozen, kw_only=True, tag="look"):
    """One reading of everything, the harness's own threads in the target left out."""

    at_ns: int
    late_ns: int
    """How much later than asked it came: the watchdog can be starved too."""
    threads: tuple[ThreadReading, ...]
    departed: int = 0
    """Threads with a slot that have gone."""
    departed_beats: int = 0
    slots_seen: bool = False
    """Some slot was ever claimed."""
    overflow: bool = False
    started_ns: int = 0
    """When the start line was released; 0 where there is none or it is not yet."""
    output_bytes: int | None = None
    io_count: int | None = None
    processes: int = 1
    probe_passes: int | None = None
    suspended_ns: int = 0
    """How long the machine has been suspended since the trial began."""


class PolledWord(Frozen, kw_only=True):
    """Memory that the exit of a loop depends on, as it was when the thread was looked at."""

    address: int
    size: int
    """In bytes."""
    value: int
    shared: bool = False
    """It lies in a mapping that other processes may have too: it may be written from outside."""


class Loop(Frozen, kw_only=True):
    """The loop that an awake thread was in at one short stop."""

    kind: LoopKind
    site: str = ""
    """Where the loop begins, as module+offset."""
    frame: str = ""
    """The loop's first address, the stack pointer and all registers that the loop only reads, as one short text: equal
    in two stops when none of them has changed."""
    polled: tuple[PolledWord, ...] = ()
    """What a poll reads; empty for all other kinds."""
    moved: bool = False
    """A polled word changed while, or since, it was last looked at: whoever sets it is alive."""
    traits: tuple[str, ...] = ()
    """Of `plain load`, `atomic`, `compare-and-swap`, `pause`, `yield`: what the loop does."""
    why: str = ""
    """Of an unknown loop: what made it so."""


class ThreadEvidence(Frozen, kw_only=True):
    """What was gathered of one thread without disturbing it."""

    id: ThreadId
    wake: WakeSource | None = None
    """Of a sleeper."""
    sleeps_in: str = ""
    """In words, e.g. `futex (untimed, private)`."""
    pc: int | None = None
    """Of an awake thread: a program counter."""
    pc_site: str = ""
    """The same as module+offset."""
    loop: Loop | None = None
    """Of an awake thread whose registers were read."""
    unreadable: str = ""
    """What could not be read, and why."""


class Evidence(Frozen, kw_only=True, tag="evidence"):
    """What was gathered, and a look taken *after* gathering, so that the beats are read again."""

    look: Look
    threads: tuple[ThreadEvidence, ...] = ()
    mutex_cycle: tuple[ThreadId, ...] = ()
    """Threads that each sleep for a mutex that the next one owns, the last for one of the first: the same in two
    readings between which none of them ran."""
    timers: tuple[int, ...] = ()
    """Processes that a timer of their own may interrupt: they catch SIGALRM or its like, or have POSIX timers."""


class Ended(Frozen, kw_only=True, tag="ended"):
    """The target's main process has ended by itself."""

    at_ns: int
    exit_code: int | None = None
    signal: int | None = None
    result: int = 0
    """enum lt_result of the page's header."""
    team: int = 0
    """Size of livetrap's own team in it; 0: a program that is not one of our kernels."""
    message: str = ""
    """What the kernel said beside its result, or the last line of a failed assertion."""
    started_ns: int = 0
    """When the start line was released; 0 where there is none."""
    beats: int = 0
    """All beats of the trial."""
    departed: int = 0


class LimitReached(Frozen, kw_only=True, tag="limit-reached"):
    """The time limit is over; `look` is the last one."""

    look: Look


Event = Look | Evidence | Ended | LimitReached
