"""What is stored of a trial: its record, and the recipe that repeats it."""

from __future__ import annotations

import msgspec

from livetrap.build import Built
from livetrap.model import UNCOUNTED, Gaps, Judgement, NotAvailable, PlannedTrial, Record, Shape, Verdict
from livetrap.trial import Outcome

NOT_RUN = "not-run"
"""The rule of a trial that was skipped, or that the harness could not run."""


def record_of(trial: PlannedTrial, outcome: Outcome, *, id_: int, compiler: str) -> Record:
    """The record of a trial."""
    judged = outcome.judgement
    ran = judged.rule != NOT_RUN
    expected = judged.verdict in trial.expected
    return Record(
        id=id_,
        scenario=trial.scenario,
        variant=trial.variant,
        role=trial.role,
        cell=trial.cell,
        compiler=compiler,
        placement=_placement(trial, judged),
        seed=trial.seed,
        verdict=judged.verdict,
        certainty=judged.certainty,
        phase=judged.phase,
        shape=judged.shape if ran else Shape(),
        expected=trial.expected,
        as_expected=None if judged.verdict in UNCOUNTED or not trial.expected else expected,
        wall_s=round(outcome.wall_s, 6),
        stall_s=round(judged.stall_s, 6) if ran else 0.0,
        verdict_latency_s=round(judged.stall_s, 6) if ran else None,
        longest_stall_s=round(judged.longest_stall_s, 6),
        beats=judged.beats,
        evidence=_evidence(outcome, command=trial.command is not None),
    )


def unrun(verdict: Verdict, reason: str, gaps: Gaps) -> Outcome:
    """The outcome of a trial that was not run, or not to its end."""
    return Outcome(judgement=Judgement(verdict=verdict, reason=reason, rule=NOT_RUN), gaps=gaps)


def recipe_of(
    trial: PlannedTrial, *, built: Built | None, compiler: str, command: str, repeat: str = ""
) -> dict[str, object]:
    """All that repeats a trial; `command`: the campaign's command line; `repeat`: one that runs its cell alone."""
    recipe: dict[str, object] = {"trial": msgspec.to_builtins(trial), "command": command}
    if repeat:
        recipe["repeat"] = repeat
    if trial.command is not None:
        return recipe
    return recipe | {
        "module": built.module if built else "",
        "path": str(built.path) if built else "",
        "build_command": list(built.command) if built else [],
        "compiler_version": compiler,
    }


def _placement(trial: PlannedTrial, judged: Judgement) -> dict[str, object]:
    """The strategy asked for, and the CPUs or classes of each thread; null where it did not run so."""
    if isinstance(trial.placement, NotAvailable):
        return {"requested": str(trial.cell.get("placement", "")), "effective": None}
    effective: object = "free"
    if trial.placement.cpus:
        effective = [list(cpus) for cpus in trial.placement.cpus]
    elif trial.placement.qos:
        effective = {"qos": list(trial.placement.qos)}
    ran = judged.verdict not in {Verdict.SKIPPED, Verdict.ERROR}
    return {"requested": trial.placement.requested, "effective": effective if ran else None}


def _evidence(outcome: Outcome, *, command: bool) -> dict[str, object]:
    judged = outcome.judgement
    evidence: dict[str, object] = {"reason": judged.reason, "rule": judged.rule}
    if judged.threads:
        evidence["threads"] = msgspec.to_builtins(judged.threads)
    if judged.wakeable:
        evidence["wakeable"] = msgspec.to_builtins(judged.wakeable)
    evidence |= outcome.evidence
    if outcome.output:
        evidence["output"] = outcome.output
    if judged.rule != NOT_RUN:
        evidence["reap_s"] = round(outcome.reap_s, 6)
        evidence["killed"] = outcome.killed
    if outcome.exit is not None:
        if outcome.exit.cpu_s is not None:
            evidence["cpu_s"] = round(outcome.exit.cpu_s, 6)
        if command:
            evidence["exit_code"] = outcome.exit.exit_code
            evidence["signal"] = outcome.exit.signal
    return evidence
