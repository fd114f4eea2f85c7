"""One more trial of a cell beside those that a plan has: with a seed, a placement and a command of its own. Pure."""

from __future__ import annotations

import msgspec

from livetrap import placeholders
from livetrap.model import CommandSpec, NotAvailable, PlannedTrial, Topology
from livetrap.placement import place, place_command
from livetrap.scenario_model import Target
from livetrap.seeds import trial_seed


def again(
    trial: PlannedTrial, *, target: Target, topology: Topology, seed: int, repetition: int, ordinal: int
) -> PlannedTrial:
    """The trial of the same cell that a longer plan would have as its `repetition`, counted from 0.

    `trial` is any of that cell that can run here, `target` that of its scenario, `seed` the campaign's.
    """
    own = trial_seed(seed, repetition, trial.cell_key)
    strategy = str(trial.cell.get("placement", "free"))
    if trial.command is None:
        placement = place(strategy, topology, threads=trial.threads, seed=own)
    else:
        placement = place_command(strategy, topology, seed=own)
    return msgspec.structs.replace(
        trial,
        ordinal=ordinal,
        seed=own,
        placement=placement,
        command=_reseeded(trial.command, target, was=trial.seed, now=own) if trial.command else None,
        skip=placement.reason if isinstance(placement, NotAvailable) else "",
    )


def _reseeded(command: CommandSpec, target: Target, *, was: int, now: int) -> CommandSpec:
    """The command with another seed wherever the scenario has {seed}; all else was filled in before, and stays."""

    def word(filled: str, template: str) -> str:
        return filled.replace(str(was), str(now)) if "seed" in placeholders.names(template) else filled

    return msgspec.structs.replace(
        command,
        argv=tuple(word(filled, template) for filled, template in zip(command.argv, target.command, strict=True)),
        environment={
            name: word(filled, str(target.environment.get(name, ""))) for name, filled in command.environment.items()
        },
    )
