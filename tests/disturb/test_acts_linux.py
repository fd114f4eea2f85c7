"""Steps on a made-up target: what is changed, what is left alone, and that all of it is undone."""

from __future__ import annotations

import os
import sys

import pytest

from livetrap.disturbances import Step
from livetrap.model import ThreadId

if sys.platform != "linux":
    pytest.skip("Linux only", allow_module_level=True)

from livetrap.disturb.acts_linux import Demote, Migrate

STEP = Step(after_ns=1, thread=1, luck=3, for_ns=5)
BOTH = frozenset({0, 1})


class Target:
    """Threads of two processes, the second of which has one thread; what the system would hold of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.masks = {11: BOTH, 12: BOTH, 13: BOTH, 14: BOTH, 20: BOTH}
        self.policies = dict.fromkeys(self.masks, os.SCHED_OTHER)
        self.refuses = False
        for name in ("getaffinity", "setaffinity", "getscheduler", "setscheduler"):
            monkeypatch.setattr(os, f"sched_{name}", getattr(self, f"_{name}"))

    def threads(self) -> list[ThreadId]:
        return [ThreadId(20 if tid == 20 else 11, tid) for tid in sorted(self.masks)]

    def _getaffinity(self, tid: int) -> frozenset[int]:
        if tid not in self.masks:
            raise ProcessLookupError
        return self.masks[tid]

    def _setaffinity(self, tid: int, cpus: frozenset[int]) -> None:
        if self.refuses:
            raise PermissionError(1, "not permitted")
        self.masks[tid] = frozenset(cpus)

    def _getscheduler(self, tid: int) -> int:
        if tid not in self.masks:
            raise ProcessLookupError
        return self.policies[tid]

    def _setscheduler(self, tid: int, policy: int, _param: object) -> None:
        self.policies[tid] = policy


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


def test_migrated_and_back(target: Target) -> None:
    act = Migrate(target.threads, (0, 1))
    done = act.begin(STEP)
    moved = {tid for tid, mask in target.masks.items() if len(mask) == 1}
    assert moved
    assert 20 not in moved, "a process with one thread is left alone"
    assert act.note() == f"migrate: {len(moved)} times"
    assert done is not None
    act.end(done)
    assert set(target.masks.values()) == {BOTH}


def test_a_thread_born_of_one_that_is_pinned(target: Target) -> None:
    act = Migrate(target.threads, (1,))
    done = act.begin(STEP)
    target.masks[15] = frozenset({1})
    target.masks[16] = frozenset({0})  # its own wish
    assert done is not None
    act.end(done)
    assert target.masks.pop(16) == {0}
    assert set(target.masks.values()) == {BOTH}


def test_a_thread_born_so_is_not_taken_for_itself(target: Target) -> None:
    """It would be given back what it had only from the one that was held."""
    act = Demote(target.threads)
    first = act.begin(STEP)
    assert target.policies[12] == os.SCHED_IDLE
    target.masks[15], target.policies[15] = BOTH, os.SCHED_IDLE
    assert act.begin(Step(after_ns=1, thread=4, luck=0, for_ns=1)) is None
    assert first is not None
    act.end(first)
    assert set(target.policies.values()) == {os.SCHED_OTHER}


def test_what_the_target_sets_itself_stays(target: Target) -> None:
    act = Migrate(target.threads, (1,))
    done = act.begin(STEP)
    moved = next(tid for tid, mask in target.masks.items() if mask == {1})
    target.masks[moved] = frozenset({0})
    assert done is not None
    act.end(done)
    assert target.masks[moved] == {0}


def test_threads_that_are_gone(target: Target) -> None:
    act = Migrate(target.threads, (1,))
    done = act.begin(STEP)
    target.masks.clear()
    assert done is not None
    act.end(done)
    assert act.begin(STEP) is None


def test_refusals_are_told(target: Target) -> None:
    target.refuses = True
    act = Migrate(target.threads, (1,))
    assert act.begin(STEP) is None
    assert act.note() == "migrate: 0 times (not permitted)"


def test_other_policies_are_left_alone(target: Target) -> None:
    reset_on_fork = 0x40000000
    act = Demote(target.threads)
    target.policies[12] = os.SCHED_FIFO
    assert act.begin(STEP) is None
    target.policies[12] = os.SCHED_BATCH | reset_on_fork
    done = act.begin(STEP)
    assert target.policies[12] == os.SCHED_IDLE | reset_on_fork
    assert act.begin(STEP) is None, "it is held already"
    assert done is not None
    act.end(done)
    assert target.policies[12] == os.SCHED_BATCH | reset_on_fork
