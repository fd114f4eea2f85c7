"""Data that a kernel is given: made once for each set of parameters, kept in the cache, and named to the trial.

A scenario names a provider (`[target] data = "qmoe"`); the file that it makes reaches the trial as LIVETRAP_DATA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from livetrap.data import qmoe
from livetrap.errors import HarnessError, nearest
from livetrap.model import KernelInfo, NotAvailable, PlannedTrial, Value

__all__ = ["PROVIDERS", "equip", "given", "provide"]

PROVIDERS = {"qmoe": qmoe.provide}
"""The providers by name; `scenario_model.DATA_PROVIDERS` lists the same names."""


def given(parameters: Mapping[str, Value], kernel: KernelInfo) -> dict[str, Value]:
    """All parameters of a kernel as a trial runs with them: those given, the others by their fallbacks."""
    full: dict[str, Value] = {}
    for name, info in kernel.params.items():
        fallback = info.choices[info.fallback] if info.choices else info.fallback
        full[name] = parameters.get(name, fallback)
    return full


def provide(provider: str, parameters: Mapping[str, Value], *, cache: Path) -> Path | NotAvailable:
    """The file for these parameters, from the cache or made; NotAvailable where what makes it is not installed.

    Raises HarnessError for an unknown provider, parameters that do not go together (status 2), and a cache that cannot
    be written.
    """
    if provider not in PROVIDERS:
        raise HarnessError(f"no data provider {provider!r}; {nearest(provider, PROVIDERS)}")
    return PROVIDERS[provider](parameters, cache=cache)


def equip(
    trials: Iterable[PlannedTrial], provider: str, *, kernel: KernelInfo, cache: Path
) -> tuple[PlannedTrial, ...]:
    """The trials with the file that each is given; those whose file cannot be made here are skipped.

    Raises as `provide`.
    """
    files: dict[tuple[tuple[str, Value], ...], Path | NotAvailable] = {}
    equipped: list[PlannedTrial] = []
    for trial in trials:
        parameters = given(trial.parameters, kernel)
        known = tuple(parameters.items())
        if known not in files:
            files[known] = provide(provider, parameters, cache=cache)
        file = files[known]
        if isinstance(file, Path):
            equipped.append(msgspec.structs.replace(trial, data=str(file)))
        else:
            equipped.append(msgspec.structs.replace(trial, skip=trial.skip or file.reason))
    return tuple(equipped)
