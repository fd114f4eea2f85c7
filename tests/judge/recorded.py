"""Recorded trials: real events, folded again for ever.

    python -m tests.judge.recorded FILE.db [FOLDER]      keeps one suspect trial of each variant in a database

A verdict that was ever wrong is kept here too, as `wrong--NAME`, with what is right of the same events now. Where a
healthy trial was convicted its events end there, so that what is right is that they do not settle (`unsettled`).
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import msgspec

from livetrap.model import Certainty, Event, Frozen, Gaps, Rules, Shape, Verdict
from livetrap.store import Store

FOLDER = Path(__file__).parent / "recorded"


class Recorded(Frozen, kw_only=True):
    """One trial's events, and the verdict that is right."""

    name: str
    verdict: Verdict
    certainty: Certainty
    shape: Shape
    rule: str
    rules: Rules
    gaps: Gaps
    events: tuple[Event, ...]


def read(file: Path) -> Recorded:
    """A kept trial."""
    return msgspec.msgpack.decode(zlib.decompress(file.read_bytes()), type=Recorded)


def keep(database: Path, folder: Path = FOLDER) -> list[Path]:
    """Keeps the first suspect trial of each variant; returns the files that were written."""
    written: dict[str, Path] = {}
    with Store.open(database, create=False) as store:
        for record in store.records():
            name = f"{record.scenario}--{record.variant}"
            stored = store.load(record.id)
            if name in written or not stored.suspect or not stored.events:
                continue
            kept = Recorded(
                name=name,
                verdict=record.verdict,
                certainty=record.certainty,
                shape=record.shape,
                rule=stored.judgement.rule,
                rules=stored.rules,
                gaps=stored.gaps,
                events=stored.events,
            )
            written[name] = folder / f"{name}.trial"
            written[name].write_bytes(zlib.compress(msgspec.msgpack.encode(kept), level=9))
    return list(written.values())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file in keep(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER):
        print(file.name, file.stat().st_size)
