"""The file that the record lies in: made, opened and locked, and what can be wrong with it told in one line.

What a user can get wrong about the file (or the machine, such as a full disk) is a `HarnessError`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec

from livetrap.errors import HarnessError

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


SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite puts behind the name for its own files beside a database."""


def check_name(name: str, given: str) -> None:
    """Raises HarnessError for the empty name, which else stands for the folder where one is."""
    if not given:
        raise HarnessError(f"{name} is empty; give the file of a database, such as trials.db")


def same_file(path: Path, other: Path) -> bool:
    """Whether both lead to one file, by whatever links; also where it is not there yet."""
    try:
        if path.exists() and other.exists():
            return path.samefile(other)
        return path.resolve() == other.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return False


def check_file(path: str | Path) -> None:
    """Raises the HarnessError that opening `path` to append to it would, as far as it can be told; makes nothing."""
    place = Path(path)
    check_place(place, create=True)
    if place.exists() and place.stat().st_size > 0:
        with told(place):
            connect_to_read(place).close()


def check_place(path: Path, *, create: bool) -> None:
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


def lock_for_writing(path: Path) -> int:
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


def connect_to_write(path: Path) -> sqlite3.Connection:
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


def connect_to_read(path: Path) -> sqlite3.Connection:
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
def told(path: Path) -> Iterator[None]:
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
