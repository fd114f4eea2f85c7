"""Disturbances by name: what each asks for, and what it does when, by its seed. Pure; `livetrap.disturb` does it.

    hogs:N          N processes that burn CPU on the target's CPUs
    migrate         now and then, about half of the target's threads are pinned to random CPUs, until the next time
    demote          now and then, a random thread runs at the lowest priority (SCHED_IDLE) for a while
    pause           now and then, the whole target is stopped, and continued 1 to 50 ms later
    quota:PERCENT   the target gets that much of one CPU in all (150: one and a half), through a control group
    jitter[:US]     own kernels only: random delays of at most US microseconds before and after each wait (default 50)
    none            nothing

`+` joins several: `hogs:2+migrate`. The same seed gives the same sequence of decisions; which thread is meant by one
depends on how many there are by then, and its moment on the machine.
"""

from __future__ import annotations

import enum
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence

from livetrap.errors import HarnessError, nearest
from livetrap.model import Frozen, Topology


class Kind(enum.StrEnum):
    """What a disturbance does."""

    HOGS = "hogs"
    MIGRATE = "migrate"
    DEMOTE = "demote"
    PAUSE = "pause"
    QUOTA = "quota"
    JITTER = "jitter"


FORMS = ("hogs:N", "migrate", "demote", "pause", "quota:PERCENT", "jitter[:US]", "none")
"""All kinds, as they are written."""
DEFAULT_JITTER_US = 50
STEPPED = frozenset({Kind.MIGRATE, Kind.DEMOTE, Kind.PAUSE})
"""Kinds that do something again and again: those that have a schedule."""

_AMOUNTS = {
    Kind.HOGS: ("a number of processes", 1, 256),
    Kind.QUOTA: ("a percentage of one CPU", 1, 100_000),
    Kind.JITTER: ("a number of microseconds", 1, 1_000),
}
_EXAMPLES = {Kind.HOGS: "hogs:4", Kind.QUOTA: "quota:50", Kind.JITTER: "jitter:50"}
_MS = 1_000_000
_BETWEEN = {
    Kind.MIGRATE: (0.5 * _MS, 20.0 * _MS),
    Kind.DEMOTE: (1.0 * _MS, 20.0 * _MS),
    Kind.PAUSE: (2.0 * _MS, 100.0 * _MS),
}
"""Least and greatest time from one step to the next, in ns; one that is still going on is waited for in `pause`."""
_FIRST = (0.1 * _MS, 2.0 * _MS)
"""The same for the first one: most trials are short."""
_LASTS = {
    Kind.DEMOTE: (1.0 * _MS, 50.0 * _MS),
    Kind.PAUSE: (1.0 * _MS, 50.0 * _MS),
}


class Part(Frozen):
    """One of those that are joined by `+`."""

    kind: Kind
    amount: int = 0
    """N of hogs, PERCENT of quota, US of jitter; 0 for the rest."""


class Disturbance(Frozen):
    """What was asked for; no parts: nothing."""

    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """As it is written, in full; empty for none."""
        return "+".join(f"{part.kind}:{part.amount}" if part.amount else str(part.kind) for part in self.parts)

    def amount(self, kind: Kind) -> int:
        """The amount of that kind; 0: it is not asked for, or has none."""
        return next((part.amount for part in self.parts if part.kind is kind), 0)


class Step(Frozen):
    """One decision of a schedule."""

    after_ns: int
    """How long after the step before it began (`pause`: ended)."""
    thread: int
    """`demote`: which thread is meant: this one modulo the number of those there are, in the order of their ids."""
    luck: int
    """`migrate`: what `destinations` draws from."""
    for_ns: int
    """How long it lasts; 0: until the next one."""


def parse(text: str) -> Disturbance:
    """What `text` asks for; "" and "none" ask for nothing. HarnessError: it is no disturbance."""
    words = [word.strip() for word in text.split("+")]
    if words in ([""], ["none"]):
        return Disturbance()
    if "none" in words:
        raise HarnessError(f"disturbance {text!r}: none cannot be joined with others; take out one of the two")
    parts = tuple(_part(word, text) for word in words)
    kinds = [part.kind for part in parts]
    twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
    if twice is not None:
        raise HarnessError(f"disturbance {text!r}: {twice} stands there twice; each kind may once")
    return Disturbance(parts=parts)


def available(
    disturbance: Disturbance, *, topology: Topology, for_kernel: bool, lacking: Mapping[str, str] | None = None
) -> str:
    """Why it cannot be had here, e.g. `jitter: only for livetrap's own kernels`; "" when it can.

    `lacking` is what the system says of itself (`livetrap.disturb.lacking`): for a kind that it cannot do, why.
    """
    for part in disturbance.parts:
        reason = (lacking or {}).get(part.kind, "") or _missing(part.kind, topology, for_kernel=for_kernel)
        if reason:
            return f"{part.kind}: {reason}"
    return ""


def schedule(kind: Kind, seed: int) -> Iterator[Step]:
    """The endless sequence of what a kind of STEPPED does. Times are spread evenly over their orders of magnitude."""
    source = random.Random(f"{seed} {kind}")
    between = _FIRST
    while True:
        yield Step(
            after_ns=_log_uniform(source, between),
            thread=source.getrandbits(32),
            luck=source.getrandbits(32),
            for_ns=_log_uniform(source, _LASTS[kind]) if kind in _LASTS else 0,
        )
        between = _BETWEEN[kind]


def destinations(step: Step, *, threads: int, cpus: Sequence[int]) -> dict[int, int]:
    """Which of so many threads a step of `migrate` moves, by place, and the CPU of each: about half of them, but one at
    least."""
    if threads == 0:
        return {}
    source = random.Random(step.luck)
    chosen = [place for place in range(threads) if source.random() < 0.5] or [source.randrange(threads)]
    return {place: source.choice(cpus) for place in chosen}


def _part(word: str, text: str) -> Part:
    name, colon, amount = word.partition(":")
    if name not in set(Kind):
        inside = f" in {text!r}" if word != text else ""
        known = nearest(name, [re.split(r"[:\[]", form)[0] for form in FORMS]).partition(" (known")[0]
        hint = "" if known.startswith("known") else f"; {known}"
        raise HarnessError(
            f"unknown disturbance {word!r}{inside}{hint} (there are {', '.join(FORMS)}; + joins several)"
        )
    kind = Kind(name)
    if kind not in _AMOUNTS:
        if colon:
            raise HarnessError(f"disturbance {word!r}: {kind} takes no amount; right would be {str(kind)!r}")
        return Part(kind=kind)
    if kind is Kind.JITTER and not colon:
        return Part(kind=kind, amount=DEFAULT_JITTER_US)
    what, least, most = _AMOUNTS[kind]
    if not re.fullmatch(r"[0-9]{1,9}", amount, re.ASCII) or not least <= int(amount) <= most:
        raise HarnessError(
            f"disturbance {word!r}: {kind} takes {what} from {least} to {most}, for example {_EXAMPLES[kind]!r}"
        )
    return Part(kind=kind, amount=int(amount))


def _missing(kind: Kind, topology: Topology, *, for_kernel: bool) -> str:
    if kind is Kind.JITTER and not for_kernel:
        return "only for livetrap's own kernels"
    if kind is Kind.MIGRATE:
        if not topology.affinity:
            return "threads cannot be pinned to CPUs here"
        if len(topology.cpus) < 2:
            return "this process may use one CPU only"
    if kind in (Kind.DEMOTE, Kind.QUOTA) and topology.os != "linux":
        return "Linux only"
    return ""


def _log_uniform(source: random.Random, bounds: tuple[float, float]) -> int:
    low, high = map(math.log, bounds)
    return round(math.exp(source.uniform(low, high)))
