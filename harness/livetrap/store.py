"""The record: one SQLite file (WAL) that holds every finished trial, on disk before the next one begins.

A trial is one row, written in one transaction. What is queried stands in columns of its own; the rest are documents:
JSON where people may want to read it, and the events as zlib over msgpack. Everything that a user can get wrong about
the file (or that the machine gets wrong, such as a full disk) is a `HarnessError`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from livetrap.database import check_place, connect_to_read, connect_to_write, lock_for_writing, told
from livetrap.errors import HarnessError
from livetrap.model import Event, Frozen, Gaps, Judgement, Record, Rules, Shape, Value, VariantRole, Verdict, cell_key


class Stored(Frozen):
    """One trial as it lies in the database."""

    campaign: int
    record: Record
    recipe: dict[str, object]
    rules: Rules
    gaps: Gaps
    judgement: Judgement
    events: tuple[Event, ...]
    suspect: bool


class Campaign(Frozen, kw_only=True):
    """One campaign as it lies in the database."""

    id: int
    plan: dict[str, object]
    """As it was given to `begin_campaign`, and what was added since: `uid`; `ended` once it ran to its end."""
    environment: dict[str, object]

    def text(self, name: str) -> str:
        """What the plan says of that, as text; empty where it says nothing."""
        return str(self.plan.get(name, "") or "")


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What tables and counts need of a record: all but its evidence, which is most of it."""

    id: int
    scenario: str
    variant: str
    role: VariantRole
    cell: dict[str, Value]
    seed: int
    verdict: Verdict
    shape: Shape
    expected: tuple[Verdict, ...]
    as_expected: bool | None
    wall_s: float
    stall_s: float
    verdict_latency_s: float | None = None

    @property
    def cell_key(self) -> str:
        """The cell as text, the same for equal cells."""
        return cell_key(self.variant, self.cell)


class Identity(Frozen, kw_only=True):
    """What says which trial of which plan a row is."""

    id: int
    campaign: str
    """The uid of the campaign that it was recorded in, where it was merged into another; empty: its own."""
    cell_key: str
    seed: int
    ordinal: int


class _Planned(msgspec.Struct, frozen=True):
    """What `Identity` takes of the trial in a recipe."""

    ordinal: int
    variant: str
    cell: dict[str, Value]
    seed: int


class _Recipe(msgspec.Struct, frozen=True):
    trial: _Planned
    campaign: str = ""


_GLANCE = msgspec.json.Decoder(Glance)
_IDENTITY = msgspec.json.Decoder(_Recipe)
_RECORD = msgspec.json.Decoder(Record)
_RECIPE = msgspec.json.Decoder(dict[str, object])
_RULES = msgspec.json.Decoder(Rules)
_GAPS = msgspec.json.Decoder(Gaps)
_JUDGEMENT = msgspec.json.Decoder(Judgement)
_EVENTS = msgspec.msgpack.Decoder(tuple[Event, ...])


def pack_events(events: Sequence[Event]) -> bytes:
    """Events as they are stored: level 1 is a third of the time of the default, for a tenth more bytes."""
    return zlib.compress(msgspec.msgpack.encode(events), level=1)


def unpack_events(packed: bytes) -> tuple[Event, ...]:
    """The events of `pack_events`, the same to the last field."""
    return _EVENTS.decode(zlib.decompress(packed))


def default_path(scenario: str, *, now: datetime, environment: Mapping[str, str] = os.environ) -> Path:
    """Where a campaign is recorded when no `--db` is given; the folder is made, readable by its owner alone.

    `$XDG_STATE_HOME/livetrap`, else `~/.local/state/livetrap`; the name holds the scenario, UTC time and our pid.
    Raises HarnessError (status 3) when the folder cannot be made.
    """
    base = environment.get("XDG_STATE_HOME", "")
    state = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    folder = state / "livetrap"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"the folder for records, {folder}, cannot be made ({reason}); give a file with --db"
        raise HarnessError(message, status=3) from error
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in scenario) or "campaign"
    return folder / f"{name}-{now:%Y%m%dT%H%M%SZ}-{os.getpid()}.db"


class Store:
    """An open database. Use as a context manager, or call `close`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, lock: int | None = None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._next_id = 0
        self._campaign = 0

    @classmethod
    def open(cls, path: str | Path, *, create: bool = True) -> Store:
        """Opens `path`: with `create` to append to it (it is made when missing), else to read what is in it.

        Raises HarnessError where it is a folder, not ours, not to be had, or held by another campaign.
        """
        place = Path(path)
        check_place(place, create=create)
        if not create:
            with told(place):
                return cls(connect_to_read(place), place)
        lock = lock_for_writing(place)
        try:
            with told(place):
                return cls(connect_to_write(place), place, lock=lock)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; what was added is in it. A second call does nothing."""
        # Closing can fail only in folding the log into the file: it then stays beside it, and nothing is lost.
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin_campaign(self, plan: Mapping[str, object], environment: Mapping[str, object]) -> int:
        """Records that a campaign begins; returns its id. `plan` may name its `scenario` and when it `started`.

        What tells it from all others, its `uid`, is added to the plan where that has none.
        """
        plan = {"uid": uuid.uuid4().hex, **plan}
        row = (str(plan.get("scenario", "")), str(plan.get("started", "")), _json(plan), _json(environment))
        with told(self.path):
            cursor = self._connection.execute(
                "INSERT INTO campaigns (scenario, started, plan, environment) VALUES (?, ?, ?, ?)", row
            )
        if cursor.lastrowid is None:  # cannot be after an INSERT
            raise HarnessError(f"{self.path}: the campaign got no id", status=3)
        self._campaign = cursor.lastrowid
        return cursor.lastrowid

    def go_on(self, campaign: int) -> None:
        """What is added from here on belongs to a campaign that is in the file. HarnessError: there is none such."""
        self.campaign(campaign)
        self._campaign = campaign

    def amend_campaign(self, changes: Mapping[str, object]) -> None:
        """Adds to the plan of the campaign begun last, or replaces in it."""
        plan, _ = self.campaign(self._campaign)
        with told(self.path):
            self._connection.execute(
                "UPDATE campaigns SET plan = ? WHERE id = ?", (_json({**plan, **changes}), self._campaign)
            )

    @property
    def current(self) -> int:
        """The id of the campaign begun last, or gone on with; 0: none."""
        return self._campaign

    def next_id(self) -> int:
        """An id for the next trial: unique in the file, ascending from 1."""
        if not self._next_id:
            with told(self.path):
                (largest,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM trials").fetchone()
            self._next_id = int(largest) + 1
        given = self._next_id
        self._next_id += 1
        return given

    def add(
        self,
        record: Record,
        *,
        recipe: Mapping[str, object],
        rules: Rules,
        gaps: Gaps,
        judgement: Judgement,
        events: Sequence[Event] = (),
        suspect: bool = False,
    ) -> None:
        """Adds one finished trial, of the campaign begun last, in one transaction.

        When this returns, the row survives a kill of this process.
        """
        as_expected = None if record.as_expected is None else int(record.as_expected)
        row = (
            record.id,
            self._campaign,
            record.scenario,
            record.variant,
            record.verdict.value,
            as_expected,
            int(suspect),
            record.wall_s,
            _json(record),
            _json(recipe),
            _json(rules),
            _json(gaps),
            _json(judgement),
            pack_events(events),
        )
        with told(self.path):
            self._connection.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def amend(self, record: Record) -> None:
        """Replaces the record of a trial that was added: more is known of it, and its verdict is the same."""
        with told(self.path):
            self._connection.execute("UPDATE trials SET record = ? WHERE id = ?", (_json(record), record.id))

    def records(self, campaign: int | None = None) -> Iterator[Record]:
        """The records of one campaign, or of all, by id."""
        where, values = ("", ()) if campaign is None else (" WHERE campaign = ?", (campaign,))
        with told(self.path):
            for (record,) in self._connection.execute(f"SELECT record FROM trials{where} ORDER BY id", values):
                yield _RECORD.decode(record)

    def glances(self, campaign: int | None = None) -> Iterator[Glance]:
        """What tables need of the records of one campaign, or of all, by id: several times as fast as `records`."""
        where, values = ("", ()) if campaign is None else (" WHERE campaign = ?", (campaign,))
        with told(self.path):
            for (record,) in self._connection.execute(f"SELECT record FROM trials{where} ORDER BY id", values):
                yield _GLANCE.decode(record)

    def identities(self, campaign: int) -> Iterator[Identity]:
        """Which trials of its plan a campaign has, by id."""
        with told(self.path):
            rows = self._connection.execute("SELECT id, recipe FROM trials WHERE campaign = ? ORDER BY id", (campaign,))
            for id_, text in rows:
                recipe = _IDENTITY.decode(text)
                trial = recipe.trial
                yield Identity(
                    id=id_,
                    campaign=recipe.campaign,
                    cell_key=cell_key(trial.variant, trial.cell),
                    seed=trial.seed,
                    ordinal=trial.ordinal,
                )

    def record_text(self, trial: int) -> str:
        """The record of a trial as it is stored."""
        with told(self.path):
            row = self._connection.execute("SELECT record FROM trials WHERE id = ?", (trial,)).fetchone()
        return str(row[0]) if row else ""

    def copy(self, other: Store, trial: int, *, origin: str) -> None:
        """Adds a trial of another database to the campaign begun last, under an id of this one.

        `origin`: the uid of the campaign that it was recorded in.
        """
        id_ = self.next_id()
        with told(other.path):
            row = other._connection.execute(
                "SELECT record, recipe, scenario, variant, verdict, as_expected, suspect, wall_s, rules, gaps,"
                " judgement, events FROM trials WHERE id = ?",
                (trial,),
            ).fetchone()
            record = msgspec.structs.replace(_RECORD.decode(row[0]), id=id_)
            recipe = {**_RECIPE.decode(row[1]), "campaign": origin}
        named, rest = row[2:8], row[8:]
        with told(self.path):
            self._connection.execute(
                f"INSERT INTO trials VALUES ({', '.join('?' * 14)})",
                (id_, self._campaign, *named, _json(record), _json(recipe), *rest),
            )

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """What is added meanwhile is one transaction: all of it, or nothing."""
        with told(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        with told(self.path):
            self._connection.execute("COMMIT")

    def ids(self) -> list[int]:
        """The ids of all trials, ascending."""
        with told(self.path):
            return [int(row[0]) for row in self._connection.execute("SELECT id FROM trials ORDER BY id")]

    def load(self, trial: int) -> Stored:
        """All that is stored of one trial. Raises HarnessError when there is no such id."""
        with told(self.path):
            row = self._connection.execute(
                "SELECT campaign, record, recipe, rules, gaps, judgement, events, suspect FROM trials WHERE id = ?",
                # SQLite's integers end at 2^63: a larger number names no trial either.
                (trial if 0 <= trial < 2**63 else -1,),
            ).fetchone()
            if row is None:
                raise HarnessError(f"{self.path} has no trial {trial}; {self._what_ids()}")
            return Stored(
                campaign=row[0],
                record=_RECORD.decode(row[1]),
                recipe=_RECIPE.decode(row[2]),
                rules=_RULES.decode(row[3]),
                gaps=_GAPS.decode(row[4]),
                judgement=_JUDGEMENT.decode(row[5]),
                events=unpack_events(row[6]),
                suspect=bool(row[7]),
            )

    def campaign(self, campaign: int) -> tuple[dict[str, object], dict[str, object]]:
        """Plan and environment of a campaign, as they were given to `begin_campaign`."""
        with told(self.path):
            row = self._connection.execute(
                "SELECT plan, environment FROM campaigns WHERE id = ?", (campaign,)
            ).fetchone()
        if row is None:
            raise HarnessError(f"{self.path} has no campaign {campaign}")
        return _RECIPE.decode(row[0]), _RECIPE.decode(row[1])

    def campaigns(self) -> tuple[Campaign, ...]:
        """All campaigns, by id."""
        with told(self.path):
            rows = self._connection.execute("SELECT id, plan, environment FROM campaigns ORDER BY id").fetchall()
            return tuple(
                Campaign(id=id_, plan=_RECIPE.decode(plan), environment=_RECIPE.decode(where))
                for id_, plan, where in rows
            )

    def _what_ids(self) -> str:
        least, largest = self._connection.execute("SELECT min(id), max(id) FROM trials").fetchone()
        return "it has none" if least is None else f"its trials are {least} to {largest}"


def _json(document: object) -> str:
    return msgspec.json.encode(document).decode()
