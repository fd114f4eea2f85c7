"""What is done about a target that was still there at its verdict: evidence is gathered, the user's own hook is run."""

from __future__ import annotations

from pathlib import Path

from livetrap import evidence
from livetrap.model import HANGS, Frozen, Judgement, PlannedTrial, Role, Verdict, WakeSource
from livetrap.trial import Aftermath, Outcome, Watch

STACKS_S = 8.0
SITES_S = 3.0
CORE_S = 60.0
HOOK_S = 60.0
MOST_CORES = 4
WITH_STACKS = HANGS | {Verdict.SLOW, Verdict.WAITING}
"""Verdicts on a command whose stacks are worth their time."""


class KernelCare(Frozen):
    """Of kernels: where they spin. Their threads say what they wait for, so no debugger is asked."""

    takes_time: bool = False

    def alive(self, _trial: PlannedTrial, _judgement: Judgement, _watch: Watch) -> Aftermath:
        """Nothing is done while it burns the CPUs."""
        return Aftermath()

    def gone(self, _trial: PlannedTrial, outcome: Outcome) -> dict[str, object]:
        """Function and line of what was noted of it."""
        return evidence.collect(
            (),
            outcome.judgement.threads,
            modules=outcome.modules,
            listings=outcome.listings,
            stacks=False,
            deadline_s=SITES_S,
        )


class CommandCare(Frozen, kw_only=True):
    """Of commands: where they spin and the stacks of all threads; on a hang also what the user asked for."""

    takes_time: bool = True
    on_hang: str = ""
    leave: bool = False
    core: bool = False
    folder: Path = Path()
    """Where core dumps go."""

    def alive(self, _trial: PlannedTrial, judgement: Judgement, watch: Watch) -> Aftermath:
        """Gathers, and runs the user's hook, while it is still there."""
        found = evidence.collect(
            watch.pid,
            judgement.threads,
            modules=watch.modules,
            listings=watch.listings,
            stacks=judgement.verdict in WITH_STACKS,
            deadline_s=STACKS_S,
        )
        if judgement.verdict not in HANGS:
            return Aftermath(evidence=found)
        if self.on_hang:
            found["on_hang"] = evidence.run_hook(self.on_hang, watch.pid, deadline_s=HOOK_S)
        if self.core:
            pids = dict.fromkeys(_hung(judgement) or [watch.pid])
            cores = [evidence.dump_core(pid, self.folder, deadline_s=CORE_S) for pid in [*pids][:MOST_CORES]]
            found["core"] = ", ".join(cores)
        return Aftermath(evidence=found, leave=self.leave)

    def gone(self, _trial: PlannedTrial, _outcome: Outcome) -> dict[str, object]:
        """Nothing is left to be done."""
        return {}


def _hung(judgement: Judgement) -> list[int]:
    """Processes with a thread that spins; where none does, those with one that sleeps for good."""
    spinning = [thread.id.pid for thread in judgement.threads if thread.role is Role.SPINNING]
    return spinning or [thread.id.pid for thread in judgement.threads if thread.wake is WakeSource.NONE]
