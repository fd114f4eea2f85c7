"""Joins campaigns of several files into one: what belongs together, and what is the same trial seen twice. Pure.

Every campaign has a uid, and a trial is known by the uid of the campaign that it was recorded in, its cell, its seed
and its ordinal. A campaign that was put together says of which parts; so what is merged again is not counted again.
Shards of one plan (the same scenario, options, seed and sources) become one campaign; where a shard was run twice, its
runs go to different campaigns, the first with the firsts of the others.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from livetrap.build.cache import key
from livetrap.errors import HarnessError
from livetrap.model import Frozen
from livetrap.sharding import Shard, parse
from livetrap.store import Campaign, Identity

_SHARD_WORDS = re.compile(r" '?--shard(?:=| )'?[0-9]+/[0-9]+'?")
_OF_A_PART = ("uid", "shard", "parts", "ended", "resumed", "trials", "started", "command")
"""What a campaign of several parts says otherwise than they do, or not at all."""


class Part(Frozen, kw_only=True):
    """A campaign as it was run, by itself or as part of one that was put together."""

    uid: str
    plan: dict[str, object]
    environment: dict[str, object]
    joins: str = ""
    """The uid of a part of the campaign that it went on with, once that was put together; empty: it was run by
    itself."""

    @property
    def shard(self) -> Shard | None:
        """Which shard of its plan it is; None: it is all of it."""
        text = str(self.plan.get("shard", "") or "")
        return parse(text) if text else None

    @property
    def started(self) -> str:
        """When it began."""
        return str(self.plan.get("started", ""))


class Joined(Frozen, kw_only=True):
    """A campaign of the file that is made."""

    parts: tuple[Part, ...]
    """By shard; those that went on with it last."""
    uid: str

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards that it is of, if it is."""
        return tuple(part.shard for part in self.parts if part.shard is not None)

    @property
    def missing(self) -> tuple[Shard, ...]:
        """The shards that it lacks."""
        shards = self.shards
        if not shards:
            return ()
        have, count = {shard.index for shard in shards}, shards[0].count
        return tuple(Shard(index=index, count=count) for index in range(1, count + 1) if index not in have)


def uid_of(campaign: Campaign) -> str:
    """What tells a campaign from all others; of one that was recorded without, its documents do."""
    return campaign.text("uid") or key({"plan": _text(campaign.plan), "environment": _text(campaign.environment)})


def parts_of(campaign: Campaign) -> tuple[Part, ...]:
    """The parts that a campaign is of; last itself, for what was added to it after it was put together."""
    own = {name: value for name, value in campaign.plan.items() if name != "parts"}
    listed = campaign.plan.get("parts")
    try:
        parts = msgspec.convert(listed, tuple[Part, ...]) if listed else ()
    except msgspec.ValidationError as error:
        raise HarnessError(f"campaign {campaign.id} was put together by another version: {error}") from error
    joins = min((part.uid for part in parts), default="")
    return (*parts, Part(uid=uid_of(campaign), plan=own, environment=campaign.environment, joins=joins))


def check_scenarios(files: Mapping[str, Sequence[Campaign]]) -> None:
    """Raises HarnessError where the files are not all of the same scenarios; one without campaigns says nothing."""
    named = {file: sorted({one.text("scenario") for one in found}) for file, found in files.items() if found}
    if not named:
        raise HarnessError(f"there is no campaign in {', '.join(files)}; nothing is merged")
    (first, names), *others = named.items()
    for file, other in others:
        if other != names:
            raise HarnessError(
                f"{file} has campaigns of {', '.join(other)}, {first} of {', '.join(names)}: "
                "only files of the same scenarios can be merged"
            )


def join(parts: Iterable[Part]) -> tuple[Joined, ...]:
    """The campaigns that these parts come to, by when they began; a part that is given twice counts once."""
    single = {part.uid: part for part in sorted(parts, key=lambda part: (part.uid, "ended" in part.plan))}
    whole: list[list[Part]] = []
    split: dict[str, dict[int, list[Part]]] = {}
    for part in sorted(single.values(), key=lambda part: (part.started, part.uid)):
        if part.joins:
            continue
        if part.shard is None:
            whole.append([part])
        else:
            split.setdefault(plan_key(part), {}).setdefault(part.shard.index, []).append(part)
    for by_index in split.values():
        runs = itertools.zip_longest(*(by_index[index] for index in sorted(by_index)))
        whole += [[part for part in run if part is not None] for run in runs]
    home = {part.uid: group for group in whole for part in group}
    joined = [(group, _uid(group)) for group in whole]
    for part in single.values():
        if part.joins in home:
            home[part.joins].append(part)
    joined.sort(key=lambda entry: (min(part.started for part in entry[0]), entry[1]))
    return tuple(Joined(parts=tuple(group), uid=uid) for group, uid in joined)


def plan_key(part: Part) -> str:
    """The same for shards of one plan: of its scenario, options, seed, number of shards, sources and system."""
    plan, environment = part.plan, part.environment
    options, sources = _without(plan.get("options"), "shard"), _without(plan.get("fingerprint"), "compilers")
    return key(
        {
            "kind": _text(plan.get("kind")),
            "scenario": _text(plan.get("scenario")),
            "seed": _text(plan.get("seed")),
            "options": _text(options),
            "sources": _text(sources),
            "shards": str(part.shard.count if part.shard else 0),
            "system": _text([environment.get("os"), environment.get("arch")]),
        }
    )


def document(joined: Joined, *, trials: int) -> tuple[dict[str, object], dict[str, object]]:
    """Plan and environment of a campaign that is put together; of a single part, its own. `trials`: those it has."""
    first = joined.parts[0]
    run = [part for part in joined.parts if not part.joins]
    if len(run) == 1:
        return {**first.plan, "uid": first.uid}, dict(first.environment)
    plan = {name: value for name, value in first.plan.items() if name not in _OF_A_PART}
    if "options" in plan:
        plan["options"] = _without(plan["options"], "shard")
    planned = [part.plan.get("trials") for part in run]
    whole = not joined.missing
    plan |= {
        "uid": joined.uid,
        "started": min(part.started for part in run),
        "command": _SHARD_WORDS.sub("", str(first.plan.get("command", ""))),
        "trials": sum(count for count in planned if isinstance(count, int)) if whole else trials,
        "parts": [
            msgspec.to_builtins(Part(uid=part.uid, plan=part.plan, environment=part.environment)) for part in run
        ],
    }
    ends = [str(part.plan.get("ended", "")) for part in run]
    later = [str(part.plan["ended"]) for part in joined.parts if part.joins and part.plan.get("ended")]
    if later or (whole and all(ends)):
        plan["ended"] = max([*ends, *later])
    return plan, _common([part.environment for part in run])


def origin(identity: Identity, campaign: Campaign) -> str:
    """The uid of the campaign that a trial was recorded in."""
    return identity.campaign or uid_of(campaign)


def without_id(record: str) -> tuple[int, str]:
    """A stored record as it is compared with another of the same trial: the longer one knows more, whatever its id."""
    text = re.sub(r'"id":\d+', '"id":0', record, count=1)
    return len(text), text


def _uid(group: Sequence[Part]) -> str:
    """The uid of what these parts come to: the same, whoever puts them together."""
    if len(group) == 1:
        return group[0].uid
    return key({str(i): uid for i, uid in enumerate(sorted(part.uid for part in group))})


def _common(environments: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What is the same, as it is; where machines differ, what each of them says."""
    names = dict.fromkeys(name for one in environments for name in one)
    found: dict[str, object] = {}
    for name in names:
        values = [one[name] for one in environments if name in one]
        tables = [value for value in values if isinstance(value, Mapping)]
        if len(tables) == len(values):
            found[name] = _common(tables)
        else:
            texts = sorted({str(value) for value in values})
            found[name] = " | ".join(texts) if len(texts) > 1 else values[0]
    return found


def _without(value: object, left_out: str) -> object:
    """A table without one of its entries; anything else as it is."""
    return {name: one for name, one in value.items() if name != left_out} if isinstance(value, Mapping) else value


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
