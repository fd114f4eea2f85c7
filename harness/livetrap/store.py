"""The record: one SQLite file (WAL) that holds every finished trial, on disk before the next one begins.

A trial is one row, written in one transaction. What is queried stands in columns of its own; the rest are documents:
JSON where people may want to read it, and the events as zlib over msgpack. Everything that a user can get wrong about
the file (or that the machine gets wrong, such as a full disk) is a `HarnessError`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import msgspec

from livetrap.errors import HarnessError
from livetrap.model import Event, Frozen, Gaps, Judgement, Record, Rules

APPLICATION_ID = 0x4C545241
"""The bytes "LTRA" in the file's header: this database is ours."""
VERSION = 1
"""Of the tables below (`user_version` in the file's header)."""
BUSY_S = 2.0
"""How long to wait for another process that holds the file."""

_TABLES = """
CREATE TABLE campaigns (
    id INTEGER PRIMARY KEY,
    scenario TEXT NOT NULL,
    started TEXT NOT NULL,
    plan TEXT NOT NULL,
    environment TEXT NOT NULL
);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    scenario TEXT NOT NULL,
    variant TEXT NOT NULL,
    verdict TEXT NOT NULL,
    as_expected INTEGER,
    suspect INTEGER NOT NULL,
    wall_s REAL NOT NULL,
    record TEXT NOT NULL,
    recipe TEXT NOT NULL,
    rules TEXT NOT NULL,
    gaps TEXT NOT NULL,
    judgement TEXT NOT NULL,
    events BLOB NOT NULL
);
CREATE INDEX trials_by_campaign ON trials (campaign);
"""


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


def check_file(path: str | Path) -> None:
    """Raises the HarnessError that opening `path` to append to it would, as far as it can be told; makes nothing."""
    place = Path(path)
    _check_place(place, create=True)
    if place.exists() and place.stat().st_size > 0:
        with _told(place):
            _connect_to_read(place).close()


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
        _check_place(place, create=create)
        if not create:
            with _told(place):
                return cls(_connect_to_read(place), place)
        lock = _lock_for_writing(place)
        try:
            with _told(place):
                return cls(_connect_to_write(place), place, lock=lock)
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
        """Records that a campaign begins; returns its id. `plan` may name its `scenario` and when it `started`."""
        row = (str(plan.get("scenario", "")), str(plan.get("started", "")), _json(plan), _json(environment))
        with _told(self.path):
            cursor = self._connection.execute(
                "INSERT INTO campaigns (scenario, started, plan, environment) VALUES (?, ?, ?, ?)", row
            )
        if cursor.lastrowid is None:  # cannot be after an INSERT
            raise HarnessError(f"{self.path}: the campaign got no id", status=3)
        self._campaign = cursor.lastrowid
        return cursor.lastrowid

    def next_id(self) -> int:
        """An id for the next trial: unique in the file, ascending from 1."""
        if not self._next_id:
            with _told(self.path):
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
        with _told(self.path):
            self._connection.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def records(self, campaign: int | None = None) -> Iterator[Record]:
        """The records of one campaign, or of all, by id."""
        where, values = ("", ()) if campaign is None else (" WHERE campaign = ?", (campaign,))
        with _told(self.path):
            for (record,) in self._connection.execute(f"SELECT record FROM trials{where} ORDER BY id", values):
                yield _RECORD.decode(record)

    def ids(self) -> list[int]:
        """The ids of all trials, ascending."""
        with _told(self.path):
            return [int(row[0]) for row in self._connection.execute("SELECT id FROM trials ORDER BY id")]

    def load(self, trial: int) -> Stored:
        """All that is stored of one trial. Raises HarnessError when there is no such id."""
        with _told(self.path):
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
        with _told(self.path):
            row = self._connection.execute(
                "SELECT plan, environment FROM campaigns WHERE id = ?", (campaign,)
            ).fetchone()
        if row is None:
            raise HarnessError(f"{self.path} has no campaign {campaign}")
        return _RECIPE.decode(row[0]), _RECIPE.decode(row[1])

    def _what_ids(self) -> str:
        least, largest = self._connection.execute("SELECT min(id), max(id) FROM trials").fetchone()
        return "it has none" if least is None else f"its trials are {least} to {largest}"


def _json(document: object) -> str:
    return msgspec.json.encode(document).decode()


def _check_place(path: Path, *, create: bool) -> None:
    """What can be said of the path before SQLite sees it; SQLite's own words for these are of little help."""
    try:
        if path.is_dir():
            raise HarnessError(f"{path} is a folder; a database is one file, such as {path / 'trials.db'}")
        if path.exists():
            if not path.is_file():
                raise HarnessError(f"{path} is not a regular file; a database is one file on a disk")
            return
    except (OSError, ValueError) as error:
        raise HarnessError(f"{path} cannot be looked at: {error}") from error
    if not create:
        raise HarnessError(f"{path} does not exist; give a database that `livetrap run` wrote")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise HarnessError(f"the folder {folder} of the database does not exist; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HarnessError(f"the folder {folder} of the database cannot be written to; give another --db")


def _lock_for_writing(path: Path) -> int:
    """Takes the file for one campaign at a time, so that ids stay unique; returns the descriptor that holds it.

    An flock, which SQLite does not use; it goes with this process however that ends. The descriptor is closed only
    after SQLite's: closing any descriptor of a file drops the record locks that SQLite holds on it.
    """
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HarnessError(f"{path} cannot be written ({reason}); give another --db") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        message = f"{path} is being written by another campaign; wait for it or give another --db"
        raise HarnessError(message, status=3) from error
    except OSError:
        pass  # a file system without such locks: SQLite's own still keep the file whole
    return lock


def _connect_to_write(path: Path) -> sqlite3.Connection:
    # isolation_level None: every statement is its own transaction, and none is left open by accident.
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        if _is_empty(connection):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
                f"{_TABLES} COMMIT;"
            )
        _check_ours(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        # In WAL mode NORMAL keeps the file whole through a power cut, and every row through a kill of this process.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens to read alone; with the right to write, where there is one, since else SQLite leaves its side files behind.

    In a folder that cannot be written, as a file that nobody changes.
    """
    log = path.with_name(path.name + "-wal")
    modes = ["mode=rw", "mode=ro"]
    if not log.exists() or log.stat().st_size == 0:
        modes.append("mode=ro&immutable=1")
    while True:
        mode = modes.pop(0)
        uri = f"{path.absolute().as_uri()}?{mode}"
        try:
            return _opened_to_read(uri, path)
        except sqlite3.OperationalError as error:
            if not modes or error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
                raise


def _opened_to_read(uri: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON")
        _check_ours(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_empty(connection: sqlite3.Connection) -> bool:
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return not count and not application


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not application and _is_empty(connection):
        raise HarnessError(f"{path} is empty; give a database that `livetrap run` wrote")
    if application != APPLICATION_ID:
        raise HarnessError(f"{path} is another program's database; give one that `livetrap run` wrote, or a new name")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        message = f"{path} has tables of version {version}, this livetrap reads version {VERSION}"
        raise HarnessError(f"{message}; use the livetrap that wrote it, or another --db")


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns what SQLite, or a document in the database, raises into a HarnessError that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        _tell(path, error)
    except (msgspec.MsgspecError, zlib.error, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} is damaged, or another version wrote it: {error}") from error


def _tell(path: Path, error: sqlite3.Error) -> NoReturn:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    texts = {
        sqlite3.SQLITE_FULL: ("the disk is full; make room, or give a --db elsewhere", 3),
        sqlite3.SQLITE_IOERR: (f"the disk failed ({error}); give a --db elsewhere", 3),
        sqlite3.SQLITE_BUSY: ("another process has it locked; wait for that, or give another --db", 3),
        sqlite3.SQLITE_LOCKED: ("another process has it locked; wait for that, or give another --db", 3),
        sqlite3.SQLITE_READONLY: ("it cannot be written to; give another --db", 2),
        sqlite3.SQLITE_CANTOPEN: ("it cannot be opened; give a file in a folder that you can write to", 2),
        sqlite3.SQLITE_NOTADB: ("it is not an SQLite database; give one that `livetrap run` wrote, or a new name", 2),
        sqlite3.SQLITE_CORRUPT: ("it is damaged; give another --db", 2),
        sqlite3.SQLITE_PERM: ("access to it is denied; give another --db", 2),
    }
    text, status = texts.get(code, (str(error), 3))
    raise HarnessError(f"{path}: {text}", status=status) from error
