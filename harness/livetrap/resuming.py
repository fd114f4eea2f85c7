"""Going on with a campaign that stopped: which one, what is left of it, and what has changed since. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from livetrap.errors import HarnessError
from livetrap.model import PlannedTrial, Record, Verdict, cell_key
from livetrap.store import Campaign

RESUMABLE = ("run", "diagnose", "watch")
"""Kinds of campaigns that can be gone on with: their plan is known before the first trial."""
HOST = {"cpu": "the CPU", "os": "the system", "arch": "the architecture"}
"""What of the environment must be the same, and its name."""
SOURCES = {
    "scenario": "the scenario file",
    "kernel": "the sources of the kernel",
    "program": "the program",
    "folder": "the folder that it runs in",
}
"""The same of a fingerprint."""

Asked = TypeVar("Asked", bound=msgspec.Struct)


def about(options: msgspec.Struct, *, seed: int, fingerprint: Mapping[str, object]) -> dict[str, object]:
    """What a plan document holds so that the campaign can be gone on with: its options with the seed, and what ran."""
    asked = msgspec.to_builtins(msgspec.structs.replace(options, seed=seed))
    return {"options": asked, "fingerprint": dict(fingerprint)}


def options_of(campaign: Campaign, kind: type[Asked]) -> Asked:
    """The options that a campaign was begun with. HarnessError: the record does not have them."""
    try:
        return msgspec.convert(campaign.plan.get("options"), kind)
    except msgspec.ValidationError as error:
        raise HarnessError(
            f"campaign {campaign.id} cannot be gone on with: its options are not on record ({error})"
        ) from error


def choose(campaigns: Sequence[Campaign], *, file: str, wanted: int | None) -> Campaign:
    """The campaign to go on with: the one wanted, else the last that did not end, else the last.

    Raises HarnessError where there is none, or it is of a kind that cannot be gone on with.
    """
    if not campaigns:
        raise HarnessError(f"{file} has no campaign; give a database that `livetrap run` wrote")
    found = {one.id: one for one in campaigns}
    if wanted is not None and wanted not in found:
        raise HarnessError(f"{file} has no campaign {wanted}; it has {_listed(list(found))}")
    fit = [one for one in campaigns if one.text("kind") in RESUMABLE]
    unfinished = [one for one in fit if not one.text("ended")]
    chosen = found[wanted] if wanted is not None else (unfinished or fit or campaigns)[-1]
    if wanted is None and not unfinished and not campaigns[-1].text("ended"):
        chosen = campaigns[-1]
    kind = chosen.text("kind") or "run"
    if kind not in RESUMABLE:
        other = f"; --campaign {fit[-1].id} can be" if fit else ""
        raise HarnessError(f"campaign {chosen.id} of {file} is a {kind}, which cannot be gone on with{other}")
    if "options" not in chosen.plan:
        raise HarnessError(f"campaign {chosen.id} of {file} does not tell its options: an older livetrap wrote it")
    return chosen


def _listed(ids: Sequence[int]) -> str:
    return f"campaign {ids[0]}" if len(ids) == 1 else f"campaigns {ids[0]} to {ids[-1]}"


def rest(
    trials: Iterator[PlannedTrial], had: Iterable[Record], *, ends: Callable[[Record], bool]
) -> Iterator[PlannedTrial]:
    """The trials that are not on record yet, up to one on record that `ends` says was the last.

    A trial is known by its cell and its seed, which follows from its repetition. `ends` is told each that is on record
    when it would have been its turn, as if it had just run.
    """
    done = {(cell_key(record.variant, record.cell), record.seed): record for record in had}
    for trial in trials:
        record = done.pop((trial.cell_key, trial.seed), None)
        if record is None:
            yield trial
        elif ends(record):
            return


def gaps(had: Iterable[Record]) -> dict[str, float]:
    """The longest healthy gap of each cell, in seconds, by its key: of its trials that passed."""
    longest: dict[str, float] = {}
    for record in had:
        if record.verdict is Verdict.PASSED:
            key = cell_key(record.variant, record.cell)
            longest[key] = max(longest.get(key, 0.0), record.longest_stall_s)
    return longest


def changes(
    campaign: Campaign, *, fingerprint: Mapping[str, object], environment: Mapping[str, object] = {}
) -> list[str]:
    """What is not as it was when the campaign began, in words; what is not on record has not changed."""
    before = campaign.plan.get("fingerprint")
    then = before if isinstance(before, Mapping) else {}
    found = [
        name for key, name in SOURCES.items() if key in then and key in fingerprint and then[key] != fingerprint[key]
    ]
    found += _compilers(then.get("compilers"), fingerprint.get("compilers"))
    for key, name in HOST.items():
        was, now = campaign.environment.get(key), environment.get(key)
        if was and now and was != now:
            found.append(f"{name} ({was}, now {now})")
    return found


def _compilers(then: object, now: object) -> list[str]:
    if not isinstance(then, Mapping) or not isinstance(now, Mapping):
        return []
    return [
        f"the compiler {name} ({version}, now {now.get(name, 'not used')})"
        for name, version in then.items()
        if now.get(name) != version
    ]


def refuse(campaign: Campaign, changed: Collection[str]) -> None:
    """Raises the HarnessError that says what has changed; not where nothing has."""
    if changed:
        names = " and ".join(changed)
        raise HarnessError(
            f"changed since campaign {campaign.id} began: {names}; its trials would not be of one plan: "
            "begin a new one, or go on with --anyway"
        )
