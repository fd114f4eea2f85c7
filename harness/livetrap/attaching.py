"""Judges a process that already runs, which the harness neither starts nor ends."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from livetrap import evidence
from livetrap.attached import Attached
from livetrap.model import Gaps, Rules, ThreadId, Verdict
from livetrap.observe import thread_name
from livetrap.targets.process import RunningProcess
from livetrap.trial import Watch

STACKS_S = 10.0


def attach(pid: int, *, for_s: float, stacks: bool, note: Callable[[str], None]) -> Attached:
    """Watches the tree of a process for at most `for_s` seconds, and says what it is.

    No sleeper is stopped before the verdict; `stacks` stops all threads once, after it. Raises HarnessError for a
    process that is not there, or that may not be inspected.
    """
    owner = RunningProcess.open(pid)
    name = thread_name(ThreadId(pid, pid))
    watch = Watch(
        pid, time.monotonic_ns(), rules=Rules(limit_s=for_s), gaps=Gaps(), page=None, owner=owner, progress=""
    )
    try:
        judgement = watch.run()
        if watch.exit is not None:
            reason = "it ended while it was watched, and how, only its parent can see"
            judgement = msgspec.structs.replace(judgement, verdict=Verdict.INCONCLUSIVE, reason=reason)
            return Attached(judgement=judgement, events=tuple(watch.events), names={str(pid): name}, evidence={})
        names = {str(id_.tid): thread_name(id_) for id_ in watch.threads}
        if stacks:
            note("reading the stacks of all threads: this stops the process for a moment, and can end a hang")
        found = evidence.collect(
            pid,
            judgement.threads,
            modules=watch.modules,
            listings=watch.listings,
            stacks=stacks,
            deadline_s=STACKS_S,
        )
        return Attached(judgement=judgement, events=tuple(watch.events), names=names, evidence=found)
    finally:
        watch.close()
        owner.close()
