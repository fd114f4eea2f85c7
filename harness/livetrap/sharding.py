"""Splits a plan into shards that together are the plan: each trial in exactly one, whoever splits it. Pure.

The cells of a plan are put into a fixed order, the widest first, those of one variant side by side, and within that by
a hash; then they are dealt out like cards, each further repetition of a cell to the next shard. So every shard has its
share, within one trial, of every width and every variant, and a cell with several trials is in several shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from livetrap.errors import HarnessError
from livetrap.model import Frozen, PlannedTrial
from livetrap.plan import Plan
from livetrap.seeds import derived

MOST_SHARDS = 1000


class Shard(Frozen, kw_only=True):
    """One part of a plan that is split."""

    index: int
    """From 1."""
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse(text: str) -> Shard:
    """The shard that `2/3` names: the second of three. HarnessError: it names none."""
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text, re.ASCII)
    if found is None:
        raise HarnessError(f"--shard {text!r}: must be I/N, the I-th of N shards, e.g. --shard 1/2")
    index, count = int(found[1]), int(found[2])
    if not 1 <= count <= MOST_SHARDS:
        raise HarnessError(f"--shard {text}: there must be from 1 to {MOST_SHARDS} shards")
    if not 1 <= index <= count:
        raise HarnessError(f"--shard {text}: there are {count}, so it must be one from 1/{count} to {count}/{count}")
    return Shard(index=index, count=count)


def take(plan: Plan, shard: Shard | None) -> Plan:
    """The plan with the trials of one shard alone, which keep their ordinals; None: the plan as it is.

    Raises HarnessError where the plan has fewer trials than there are shards.
    """
    if shard is None:
        return plan
    check(shard, trials=len(plan.trials))
    return msgspec.structs.replace(plan, trials=tuple(of_shard(plan.trials, shard, ranks(plan.trials))))


def check(shard: Shard, *, trials: int) -> None:
    """Raises HarnessError where a plan of so many trials has none for some shard."""
    if trials < shard.count:
        raise HarnessError(f"--shard {shard}: the plan has {trials} trials; take at most as many shards")


def share(rank: int, trials: int, shard: Shard | None) -> int:
    """How many of a cell's trials fall to a shard; None: all."""
    if shard is None:
        return trials
    first = (shard.index - 1 - rank) % shard.count
    return max(0, -(-(trials - first) // shard.count))


def ranks(trials: Iterable[PlannedTrial]) -> dict[str, int]:
    """The place of each cell, by its key, in the order in which cells are dealt out."""
    first: dict[str, PlannedTrial] = {}
    for trial in trials:
        first.setdefault(trial.cell_key, trial)
    keys = sorted(first, key=lambda key: (-first[key].threads, first[key].variant, derived("shard", key), key))
    return {key: rank for rank, key in enumerate(keys)}


def of_shard(trials: Iterable[PlannedTrial], shard: Shard | None, ranks: Mapping[str, int]) -> Iterator[PlannedTrial]:
    """Those trials that fall to a shard, by their cell and by how many of that cell came before; None: all."""
    seen: dict[str, int] = {}
    for trial in trials:
        key = trial.cell_key
        repetition = seen.get(key, 0)
        seen[key] = repetition + 1
        if shard is None or (ranks[key] + repetition) % shard.count == shard.index - 1:
            yield trial


def common_seed(*parts: object, bits: int = 32) -> int:
    """The seed of a split run that names none: all shards must have the same, so it follows from what is run."""
    return derived("shards", *parts) % (1 << bits)
