"""The words of the design as types: verdicts, marks, roles, sources. All else is made of them."""

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
    WATCHED = "watched"
    """A command of the user's: nothing is known of it. Never in a scenario."""


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


class LoopKind(enum.StrEnum):
    """What the loop is that an awake thread runs in."""

    ENDLESS = "endless"
    """No way out, or one whose condition nothing in it can change."""
    POLL = "poll"
    """Its exit depends on memory that it does not change."""
    COMPUTE = "compute"
    """Its exit depends on a value that it changes."""
    UNKNOWN = "unknown"


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all travelling types."""
