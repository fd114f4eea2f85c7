"""The figures of the record: what a trial costs to record, and how soon a file of 10,000 trials is opened and told."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from livetrap.model import Certainty, Gaps, Judgement, Phase, Record, Rules, Shape, VariantRole, Verdict
from livetrap.store import Store

TRIALS = 10_000
STACK = [f"lt_wait_for_flag+0x{number:x} at csrc/techniques/raw_spin.c:{number}" for number in range(12)]

Row = tuple[str, float, float, str]


def rows() -> list[Row]:
    """All figures of the record: name, value, bound, unit. Every second trial hung, with stacks of eight threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trials.db"
        added = _filled(path)
        began = time.perf_counter()
        with Store.open(path, create=False) as store:
            found = Counter(
                (glance.cell_key, glance.verdict) for one in store.campaigns() for glance in store.glances(one.id)
            )
        told_s = time.perf_counter() - began
        assert found.total() == TRIALS
    return [
        ("recording a trial, median", statistics.median(added) * 1e3, 1, "ms"),
        ("recording a trial, mean", statistics.mean(added) * 1e3, 1, "ms"),
        (f"opening and counting {TRIALS} trials", told_s, 1, "s"),
    ]


def _filled(path: Path) -> list[float]:
    """Records the trials; how long each took, in seconds."""
    took: list[float] = []
    judgement = Judgement(verdict=Verdict.LIVELOCK, reason="7 threads spin", rule="settle-4")
    recipe = {"trial": {"ordinal": 1, "variant": "buggy", "cell": {"threads": 8}, "seed": 7}, "rest": "x" * 1000}
    with Store.open(path) as store:
        store.begin_campaign({"scenario": "bench"}, {})
        for number in range(TRIALS):
            record = _record(store.next_id(), hung=number % 2 == 1, threads=number % 16)
            began = time.perf_counter()
            store.add(record, recipe=recipe, rules=Rules(), gaps=Gaps(), judgement=judgement)
            took.append(time.perf_counter() - began)
    return took


def _record(number: int, *, hung: bool, threads: int) -> Record:
    return Record(
        id=number,
        scenario="bench",
        variant="buggy",
        role=VariantRole.BUGGY,
        cell={"threads": threads, "placement": "free", "flags": "-O2"},
        compiler="gcc",
        placement={"requested": "free", "effective": "free"},
        seed=number,
        verdict=Verdict.LIVELOCK if hung else Verdict.PASSED,
        certainty=Certainty.OBSERVED,
        phase=Phase.RUNNING,
        shape=Shape(spinning=7, exited=1) if hung else Shape(),
        expected=(Verdict.LIVELOCK,),
        as_expected=hung,
        wall_s=0.2,
        stall_s=0.2,
        verdict_latency_s=0.2,
        longest_stall_s=0.0,
        beats=1,
        evidence={"stacks": {f"worker {thread}": STACK for thread in range(8)}} if hung else {"reason": "finished"},
    )
