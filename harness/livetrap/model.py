"""The frozen types that travel between the layers, in the words of the design.

Times are integers in nanoseconds on the monotonic clock (`*_ns`) or floats in seconds (`*_s`). A field that a system
cannot give is None, and the rule that wants it falls back or stays silent.
"""

from __future__ import annotations

import enum
import typing

import msgspec

Value = str | int
"""The value of an axis in a cell."""


class Verdict(enum.StrEnum):
    """What is said of one trial."""

    PASSED = "passed"
    LIVELOCK = "livelock"
    DEADLOCK = "deadlock"
    STARVATION = "starvation"
    SLOW = "slow"
    WAITING = "waiting"
    CORRUPT = "corrupt"
    RACE = "race"
    CRASHED = "crashed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"
    ERROR = "error"


HANGS = frozenset({Verdict.LIVELOCK, Verdict.DEADLOCK, Verdict.STARVATION})
"""Verdicts that call a hang."""
BUGS = HANGS | {Verdict.CORRUPT, Verdict.RACE, Verdict.CRASHED, Verdict.FAILED}
"""Verdicts that call a bug of the target."""
UNCOUNTED = frozenset({Verdict.INCONCLUSIVE, Verdict.SKIPPED, Verdict.ERROR})
"""Verdicts that count neither for nor against an expectation."""


class Certainty(enum.StrEnum):
    """*Proven*: the state cannot change. Everything else is *observed*."""

    PROVEN = "proven"
    OBSERVED = "observed"


class VariantRole(enum.StrEnum):
    """What a variant is there for."""

    BUGGY = "buggy"
    FIXED = "fixed"
    WIDENED = "widened"
    LOOK_ALIKE = "look-alike"


class Mark(enum.IntEnum):
    """What a thread says that it is doing (enum lt_mark)."""

    NONE = 0
    RUN = 1
    WAIT = 2
    PARKED = 3
    DONE = 4


class WaitKind(enum.IntEnum):
    """How a thread says that it waits (enum lt_wait_kind)."""

    NONE = 0
    SPIN = 1
    UNTIMED = 2
    TIMED = 3
    OUTSIDE = 4


class ThreadState(enum.StrEnum):
    """What the system says of a thread. Linux has one letter for running and runnable: both are `runnable` there."""

    RUNNING = "running"
    RUNNABLE = "runnable"
    ASLEEP = "asleep"
    UNINTERRUPTIBLE = "uninterruptible"
    STOPPED = "stopped"
    GONE = "gone"
    UNKNOWN = "unknown"


AWAKE = frozenset({ThreadState.RUNNING, ThreadState.RUNNABLE})
"""States of a thread that has, or wants, a CPU."""


class Phase(enum.StrEnum):
    """Where a target with slots stands."""

    STARTING = "starting"
    RUNNING = "running"
    FINISHING = "finishing"


class Role(enum.StrEnum):
    """What a thread did since the last beat."""

    SPINNING = "spinning"
    COMPUTING = "computing"
    POLLING = "polling"
    PARKED = "parked"
    STARVED = "starved"
    EXITED = "exited"
    STOPPED = "stopped"
    UNDECIDED = "undecided"
    """Awake, but it has not yet had its allowance: nothing can be said."""


class WakeSource(enum.StrEnum):
    """What could still wake a sleeper."""

    NONE = "none"
    TIMER = "timer"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


class EvidenceKind(enum.StrEnum):
    """What a judge can ask the hand that observes to gather."""

    WAKE_SOURCES = "wake-sources"
    PROGRAM_COUNTERS = "program-counters"
    LOOPS = "loops"
    MUTEX_OWNERS = "mutex-owners"


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all travelling types."""


# --- what is seen ----------------------------------------------------------------------------------------------------


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
    unreadable: str = ""
    """What could not be read, and why."""


class Evidence(Frozen, kw_only=True, tag="evidence"):
    """What was gathered, and a look taken *after* gathering, so that the beats are read again."""

    look: Look
    threads: tuple[ThreadEvidence, ...] = ()
    mutex_cycle: tuple[ThreadId, ...] = ()
    """Owners that wait for each other, the same in two readings."""
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


# --- what is decided -------------------------------------------------------------------------------------------------


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
    burst_s: float = 0.5
    """A thread that waits again and again spins in bursts only when nothing has beaten for this long ..."""
    burst_cpu_ns: int = 1_000_000
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
    """Between two gatherings while a window stays open; grows to ten times that."""
    void_late_s: float = 0.1
    """A look later than this voids the time that it closes."""
    look_s: float = 0.02
    """Least time between looks; an eighth of the window, where that is more."""
    slow_look_s: float = 0.05
    """Most time between looks, and that while a window stays open for long."""
    gather_s: float = 0.05
    """Deadline for gathering evidence."""
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


# --- what is planned -------------------------------------------------------------------------------------------------


class Cpu(Frozen, kw_only=True):
    """One logical CPU."""

    id: int
    core: int
    package: int
    node: int = 0
    efficiency: int | None = None
    """Class of a hybrid machine: 0 the most efficient, higher is faster; None where all are alike."""


class Topology(Frozen, kw_only=True):
    """The machine as this process may use it."""

    os: str
    """`linux` or `macos`."""
    arch: str
    """`x86_64` or `arm64`."""
    cpus: tuple[Cpu, ...]
    affinity: bool
    """Threads can be pinned to CPUs."""
    qos: bool = False
    """Threads can be given a quality-of-service class (macOS)."""
    quota_cpus: float | None = None
    """The container's CPU quota in CPUs; None: no limit."""


class Placement(Frozen, kw_only=True):
    """A named strategy made concrete: one entry a thread."""

    requested: str
    cpus: tuple[tuple[int, ...], ...] = ()
    """CPUs that each thread may run on; empty: wherever it likes."""
    qos: tuple[int, ...] = ()
    """macOS quality-of-service class of each thread; empty: unchanged."""


class NotAvailable(Frozen, kw_only=True):
    """A placement, probe or compiler that this machine does not have, and why."""

    reason: str


class BuildSpec(Frozen, kw_only=True):
    """What is compiled and how."""

    compiler: str
    """`gcc` or `clang`, or a path."""
    flags: tuple[str, ...]
    """Flags of the axis, e.g. ("-O2",); the level is always explicit."""
    kernel: str
    kernel_file: str = ""
    """The kernel's C file where it is the scenario's own; empty: one of csrc/kernels."""


class ParamInfo(Frozen, kw_only=True):
    """One parameter of a kernel, as the built module tells it."""

    name: str
    summary: str = ""
    choices: tuple[str, ...] = ()
    """Names that it may take, passed as their index; empty: a number."""
    least: int = 0
    most: int = 0
    fallback: int = 0
    """Value where none is given; the index of a choice."""


class KernelInfo(Frozen, kw_only=True):
    """One kernel, as the built module tells it."""

    name: str
    summary: str = ""
    uses_technique: bool = False
    params: dict[str, ParamInfo] = {}


class TechniqueInfo(Frozen, kw_only=True):
    """One technique, as the built module tells it."""

    name: str
    summary: str = ""
    unavailable: str = ""
    """Why this platform does not have it; empty: it does."""


class Manifest(Frozen, kw_only=True):
    """All kernels and techniques of a built module."""

    kernels: dict[str, KernelInfo] = {}
    techniques: dict[str, TechniqueInfo] = {}


class PlannedTrial(Frozen, kw_only=True):
    """One trial, ready to run: with the build and the placement as it took effect, its recipe."""

    ordinal: int
    scenario: str
    variant: str
    role: VariantRole
    cell: dict[str, Value]
    """All axes: threads, placement, technique, flags, compiler, align and the kernel's parameters that vary."""
    build: BuildSpec
    kernel: str
    technique: str
    """Empty for a kernel that uses none."""
    parameters: dict[str, Value]
    """All parameters given to the kernel, those that vary and those that do not."""
    threads: int
    align: str
    seed: int
    placement: Placement | NotAvailable
    rules: Rules
    expected: tuple[Verdict, ...]
    """Accepted verdicts; empty: none stated."""
    skip: str = ""
    """Why this machine cannot run it (no such compiler, technique or placement); empty: it can."""
    data: str = ""
    """The file that its kernel is given as LIVETRAP_DATA; empty: none."""

    @property
    def cell_key(self) -> str:
        """The cell as text, the same for equal cells."""
        return " ".join([self.variant, *(f"{name}={value}" for name, value in sorted(self.cell.items()))])


class Record(Frozen, kw_only=True):
    """One finished trial as it is stored and as `--json` writes it."""

    schema: int = 1
    id: int
    scenario: str
    variant: str
    role: VariantRole
    cell: dict[str, Value]
    compiler: str
    placement: dict[str, object]
    seed: int
    verdict: Verdict
    certainty: Certainty
    phase: Phase | None
    shape: Shape
    expected: tuple[Verdict, ...]
    as_expected: bool | None
    """None: the verdict counts neither for nor against, or nothing is expected."""
    wall_s: float
    stall_s: float
    verdict_latency_s: float | None
    longest_stall_s: float
    beats: int
    evidence: dict[str, object]
