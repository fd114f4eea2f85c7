"""`livetrap merge A B ... -o C`: joins files of several machines into one."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from livetrap import merging
from livetrap.cli.campaigning import ended_like_ctrl_c
from livetrap.database import SIDE_FILES, check_name, check_place
from livetrap.errors import HarnessError
from livetrap.merging import Joined
from livetrap.model import Frozen
from livetrap.report.text import console, one_line, plural
from livetrap.store import Campaign, Store


class Place(Frozen, kw_only=True):
    """Where a trial lies."""

    file: str
    id: int
    origin: str
    ordinal: int


Found = dict[tuple[str, str, int, int], Place]
"""Trials by the uid of the campaign that they were recorded in, their cell, their seed and their ordinal."""


def merge_command(
    files: Annotated[list[str] | None, typer.Argument(metavar="A B ...", help="Databases that livetrap wrote.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="C", help="The file that is made.")] = None,
) -> int:
    """Joins campaigns of several files into a new one, each trial once, shards of a plan as one campaign."""
    given = list(dict.fromkeys(files or ()))
    if not given:
        raise HarnessError("there is nothing to merge; give files, e.g. livetrap merge a.db b.db -o all.db")
    if output is None:
        raise HarnessError("-o is missing; give the file that is made, e.g. -o all.db")
    for name in given:
        check_name("a file", name)
    check_name("-o", output)
    target = Path(output)
    _check_target(target)
    with ended_like_ctrl_c(), contextlib.ExitStack() as stack:
        stores = {name: stack.enter_context(Store.open(name, create=False)) for name in given}
        return _merge(stores, target, console(sys.stdout))


def _check_target(target: Path) -> None:
    """Raises HarnessError where the file cannot be made, or is there with something in it."""
    check_place(target, create=True)
    for path in (target, *(target.with_name(target.name + suffix) for suffix in SIDE_FILES)):
        if path.exists() and path.stat().st_size > 0:
            raise HarnessError(f"-o {target}: {path} is there already; give a new file, or remove that")


def _merge(stores: Mapping[str, Store], target: Path, out: Console) -> int:
    campaigns = {file: store.campaigns() for file, store in stores.items()}
    merging.check_scenarios(campaigns)
    found, seen = _found(stores, campaigns)
    with_own = {place.origin for place in found.values()}
    parts = [part for every in campaigns.values() for one in every for part in merging.parts_of(one)]
    joined = merging.join(part for part in parts if not part.joins or part.uid in with_own)
    told: list[str] = []
    total = 0
    with _made(target) as made:
        for number, one in enumerate(joined, start=1):
            places = _of(one, found, stores)
            plan, environment = merging.document(one, trials=len(places))
            made.begin_campaign(plan, environment)
            for place in places:
                made.copy(stores[place.file], place.id, origin=place.origin)
            total += len(places)
            told.append(_campaign_text(number, one, plan, made))
    twice = seen - total
    once = f"; {plural(twice, 'row')} of trials that were there already counted once" if twice else ""
    out.print(
        f"{target}: {plural(len(joined), 'campaign')}, {plural(total, 'trial')} of {plural(len(stores), 'file')}{once}",
        soft_wrap=True,
    )
    for line in told:
        out.print(one_line(line, most=2000), soft_wrap=True)
    return 0


def _found(stores: Mapping[str, Store], campaigns: Mapping[str, Sequence[Campaign]]) -> tuple[Found, int]:
    """Each trial once, where most is known of it; and how many rows there are in all."""
    found: Found = {}
    seen = 0
    for file, store in stores.items():
        for one in campaigns[file]:
            for identity in store.identities(one.id):
                seen += 1
                origin = merging.origin(identity, one)
                known = (origin, identity.cell_key, identity.seed, identity.ordinal)
                place = Place(file=file, id=identity.id, origin=origin, ordinal=identity.ordinal)
                found[known] = _better(found[known], place, stores) if known in found else place
    return found, seen


def _better(one: Place, other: Place, stores: Mapping[str, Store]) -> Place:
    """The one of two rows of the same trial that knows more; the same, whichever comes first."""
    return max(one, other, key=lambda place: merging.without_id(stores[place.file].record_text(place.id)))


def _of(joined: Joined, found: Found, stores: Mapping[str, Store]) -> list[Place]:
    """The trials of a campaign, each of its plan once, in the order of the plan."""
    uids = {part.uid for part in joined.parts}
    single: dict[tuple[str, int, int], Place] = {}
    for (origin, cell, seed, ordinal), place in found.items():
        if origin in uids:
            known = (cell, seed, ordinal)
            single[known] = _better(single[known], place, stores) if known in single else place
    return [single[known] for known in sorted(single, key=lambda known: (known[2], known[0], known[1]))]


@contextlib.contextmanager
def _made(target: Path) -> Iterator[Store]:
    """A database under another name, which gets its own once it is whole; nothing is left of it otherwise."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=".livetrap-merge-", dir=target.absolute().parent))
    except OSError as error:
        raise HarnessError(f"-o {target} cannot be made ({error.strerror}); give a file elsewhere", status=3) from error
    try:
        with Store.open(folder / "made.db") as made, made.at_once():
            yield made
        _check_target(target)
        (folder / "made.db").replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _campaign_text(number: int, joined: Joined, plan: Mapping[str, object], made: Store) -> str:
    counts: Counter[str] = Counter()
    cells: set[str] = set()
    for glance in made.glances(number):
        counts[glance.verdict.value] += 1
        cells.add(glance.cell_key)
    shards = f" (shards {', '.join(map(str, joined.shards))})" if joined.shards else ""
    verdicts = ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "no trial"
    text = f"campaign {number}: {plan.get('scenario', '')}{shards}: {plural(len(cells), 'cell')}, {verdicts}"
    if joined.missing:
        text += f"; missing: {', '.join(map(str, joined.missing))}"
    elif not plan.get("ended"):
        text += "; it did not end"
    return text
