"""Databases as campaigns would leave them, made in a moment."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from livetrap.model import (
    BUGS,
    HANGS,
    UNCOUNTED,
    Certainty,
    Event,
    Evidence,
    Gaps,
    Judgement,
    Look,
    Mark,
    Phase,
    Placement,
    PlannedTrial,
    Record,
    Role,
    Rules,
    Shape,
    Slot,
    ThreadId,
    ThreadJudgement,
    ThreadReading,
    ThreadState,
    Value,
    VariantRole,
    Verdict,
    WaitKind,
)
from livetrap.recording import recipe_of
from livetrap.store import Store

MS = 1_000_000
ZERO = 1_000 * MS
"""When the start line of a made trial is released, on its clock."""


def reading(
    tid: int,
    *,
    state: ThreadState = ThreadState.RUNNABLE,
    cpu_ns: int | None = 0,
    waited_ns: int | None = 0,
    beats: int | None = None,
    generation: int = 1,
) -> ThreadReading:
    slot = None
    if beats is not None:
        slot = Slot(
            index=tid,
            generation=generation,
            pid=10,
            tid=tid,
            beats=beats,
            mark=Mark.WAIT,
            kind=WaitKind.SPIN,
            site=1,
            arrivals=1,
        )
    return ThreadReading(id=ThreadId(10, tid), state=state, cpu_ns=cpu_ns, waited_ns=waited_ns, slot=slot)


def look(at_ms: float, *threads: ThreadReading) -> Look:
    return Look(at_ns=ZERO + int(at_ms * MS), late_ns=0, threads=threads, started_ns=ZERO, slots_seen=True)


def stalled(*, looks: int = 40, threads: int = 4) -> tuple[list[Event], Judgement]:
    """A trial that beats for 100 ms and then spins in all but its last thread, which sleeps; a look every 10 ms."""
    events: list[Event] = []
    for number in range(looks):
        at = 10 * number
        spinning = [
            reading(11 + i, cpu_ns=at * MS // 2, waited_ns=at * MS // 4, beats=min(at, 100)) for i in range(threads - 1)
        ]
        events.append(look(at, *spinning, reading(10 + threads, state=ThreadState.ASLEEP, beats=3)))
    last = events[-1]
    assert isinstance(last, Look)
    events.append(Evidence(look=msgspec.structs.replace(last, at_ns=last.at_ns + 5 * MS)))
    judgement = Judgement(
        verdict=Verdict.LIVELOCK,
        reason=f"{threads - 1} spinning",
        rule="settle-4",
        phase=Phase.RUNNING,
        shape=Shape(spinning=threads - 1, parked=1),
        threads=(
            *(ThreadJudgement(id=ThreadId(10, 11 + i), role=Role.SPINNING, cpu_s=0.2) for i in range(threads - 1)),
            ThreadJudgement(id=ThreadId(10, 10 + threads), role=Role.PARKED, sleeps_in="futex (untimed, private)"),
        ),
        settled_ns=last.at_ns + 6 * MS,
        last_beat_ns=ZERO + 100 * MS,
        beats=300,
    )
    return events, judgement


class Making:
    """A database that grows by a trial at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store.open(path)

    def campaign(self, scenario: str = "raw-spin-flag", **about: object) -> int:
        plan = {"kind": "run", "scenario": scenario, "started": "2026-01-01T00:00:00+00:00", "seed": 5, **about}
        return self.store.begin_campaign(plan, {"machine": "here", "cpu": "a CPU", "compilers": {"gcc": "12.2"}})

    def trial(
        self,
        verdict: Verdict = Verdict.PASSED,
        *,
        variant: str = "buggy",
        role: VariantRole = VariantRole.BUGGY,
        cell: Mapping[str, Value] = {"threads": 2, "placement": "free"},
        expected: tuple[Verdict, ...] | None = None,
        evidence: Mapping[str, object] = {},
        events: tuple[list[Event], Judgement] | None = None,
        scenario: str = "raw-spin-flag",
        repeat: str = "",
    ) -> int:
        expects = expected if expected is not None else (verdict,)
        looks, judgement = events or ([], Judgement(verdict=verdict, reason="so it was", rule="ended"))
        id_ = self.store.next_id()
        record = Record(
            id=id_,
            scenario=scenario,
            variant=variant,
            role=role,
            cell=dict(cell),
            compiler="gcc 12.2",
            placement={"requested": "free", "effective": "free"},
            seed=id_,
            verdict=verdict,
            certainty=Certainty.OBSERVED,
            phase=Phase.RUNNING,
            shape=judgement.shape if verdict in HANGS else Shape(),
            expected=expects,
            as_expected=None if verdict in UNCOUNTED or not expects else verdict in expects,
            wall_s=0.3,
            stall_s=0.3,
            verdict_latency_s=0.3 if verdict in BUGS else None,
            longest_stall_s=0.0,
            beats=7,
            evidence={"reason": judgement.reason, "rule": judgement.rule, **evidence},
        )
        planned = PlannedTrial(
            ordinal=id_,
            scenario=scenario,
            variant=variant,
            role=role,
            cell=dict(cell),
            parameters={},
            seed=id_,
            placement=Placement(requested="free"),
            rules=Rules(),
            expected=expects,
        )
        self.store.add(
            record,
            recipe=recipe_of(planned, built=None, compiler="gcc 12.2", command="livetrap run x", repeat=repeat),
            rules=Rules(),
            gaps=Gaps(),
            judgement=judgement,
            events=looks,
        )
        return id_

    def end(self) -> Path:
        self.store.amend_campaign({"ended": "2026-01-01T00:01:00+00:00"})
        self.store.close()
        return self.path


def usual(path: Path) -> Path:
    """A campaign with a buggy and a fixed variant over threads, placements and flags; some trials with all evidence."""
    made = Making(path)
    made.campaign(trials=72)
    told = {
        "spin_sites": [
            {
                "site": "a.so+0x12",
                "where": "wait at flag.c:4",
                "threads": 3,
                "loop": "poll",
                "traits": ["plain load"],
                "listing": ["0x12  mov eax, [rdi]", "0x14  jmp 0x12"],
            }
        ],
        "stacks": [
            {"pid": 10, "tid": 11 + i, "name": "worker", "frames": ["wait at flag.c:4", "main"]} for i in range(3)
        ],
        "stacks_by": "gdb",
        "output": "a line\nthe last line\n",
        "missing": ["the stack of 10/14: it went away"],
    }
    cells = itertools.product((1, 2, 8), ("free", "one-core"), ("-O0", "-O2"))
    for threads, placement, flags in cells:
        cell: dict[str, Value] = {"threads": threads, "placement": placement, "flags": flags}
        for _ in range(3):
            hangs = threads > 1 and flags == "-O2"
            made.trial(
                Verdict.LIVELOCK if hangs else Verdict.PASSED,
                cell=cell,
                events=stalled(threads=max(4, threads)) if hangs else None,
                evidence=told if hangs else {},
            )
            made.trial(Verdict.PASSED, variant="fixed", role=VariantRole.FIXED, cell=cell)
    return made.end()


def big(path: Path) -> Path:
    """10,000 trials in 5,000 cells, some with all the evidence that there can be."""
    made = Making(path)
    made.campaign(trials=10_000)
    events = stalled(looks=300, threads=40)
    frames = [f"a_function_with_a_long_name_{i} at some/folder/of/sources/file_{i}.c:{i}" for i in range(32)]
    evidence = {
        "stacks": [{"pid": 1, "tid": i, "frames": [*frames, str(i)]} for i in range(300)],
        "output": "a long line of output\n" * 5000,
    }
    with made.store.at_once():
        for number in range(10_000):
            cell: dict[str, Value] = {
                "threads": 1 + number % 50,
                "placement": f"p{number // 50 % 4}",
                "body": number // 200 % 25,
            }
            hangs = number % 97 == 0
            made.trial(
                Verdict.LIVELOCK if hangs else Verdict.PASSED,
                variant=f"v{number % 7}",
                cell=cell,
                expected=(Verdict.PASSED,),
                events=events if hangs and number < 1000 else None,
                evidence=evidence if hangs and number < 1000 else {},
            )
    return made.end()
