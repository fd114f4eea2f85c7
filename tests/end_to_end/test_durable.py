"""Campaigns that outlive their process: killed at any moment, gone on with, split, merged, and repeated."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from livetrap.model import Verdict
from livetrap.store import Store
from tests.end_to_end.running import livetrap, start, survivors

SPIN = ("raw-spin-flag", "--variant", "buggy,fixed", "--threads", "2", "--placement", "free")
NARROW = (*SPIN, "--flags=-O2", "--compiler", "gcc")

Known = tuple[str, int]


def trials_of(path: Path) -> Counter[Known]:
    """The trials in a file, by cell and seed; the file is whole."""
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with Store.open(path, create=False) as store:
        assert [record.id for record in store.records()] == list(range(1, len(store.ids()) + 1))
        return Counter((glance.cell_key, glance.seed) for glance in store.glances())


def killed(*words: str | Path, after_s: float, folder: Path, begun: bool = True) -> int:
    """Runs a command that is killed so long after its first trial began, or after its start; nothing of it survives.

    How many trials it said were over.
    """
    mark = uuid.uuid4().hex
    told = folder / f"{mark}.json"
    process = start(words[0], "--json", told, *words[1:], mark=mark, folder=folder)
    until = time.monotonic() + 60.0
    while begun and not told.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    assert not survivors(mark, within_s=5.0)
    return len(told.read_bytes().splitlines()) if told.is_file() else 0


def kill_and_resume(folder: Path, *, kills: int, seed: int, trials: int = 8) -> int:
    """A run that is killed at random moments, each time gone on with; returns how many kills found it running."""
    chance = random.Random(seed)
    db, told, hits = folder / "a.db", 0, 0
    words: tuple[str | Path, ...] = ("run", *NARROW, "--trials", str(trials), "--seed", "5", "--db", db)
    for _ in range(kills):
        begun = db.exists() and trials_of_safely(db) is not None
        after_s, early = chance.uniform(0.0, 0.1 * trials), chance.random() < 0.2
        told += killed(*(("resume", db) if begun else words), after_s=after_s, begun=not early, folder=folder)
        if not db.exists() or trials_of_safely(db) is None:
            assert told == 0
            continue
        on_record = trials_of(db)
        assert on_record.total() >= told, "a finished trial is lost"
        assert set(on_record.values()) <= {1}
        hits += on_record.total() < 2 * trials
    begun = db.exists() and trials_of_safely(db) is not None
    last = livetrap(*(("resume", db) if begun else words), folder=folder, limit_s=60.0)
    assert last.status == 0, last.err
    assert f"livelock {trials}/{trials}" in last.out
    assert f"passed {trials}/{trials}" in last.out
    assert set(trials_of(db).values()) == {1}
    assert trials_of(db).total() == 2 * trials
    with Store.open(db, create=False) as store:
        assert len(store.campaigns()) == 1
    return hits


def trials_of_safely(path: Path) -> Counter[Known] | None:
    """The same; None where the process was killed before its campaign had begun."""
    if path.stat().st_size == 0:
        return None
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        begun = tables and connection.execute("SELECT count(*) FROM campaigns").fetchone()[0]
    connection.close()
    return trials_of(path) if begun else None


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_killed_at_a_random_moment_and_gone_on_with(tmp_path: Path) -> None:
    assert kill_and_resume(tmp_path, kills=3, seed=1) > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_fifty_times(tmp_path: Path) -> None:
    hits = 0
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        hits += kill_and_resume(folder, kills=5, seed=number, trials=20)
    assert hits >= 15


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_shards_merged_are_the_whole_run(tmp_path: Path) -> None:
    words = ("run", *NARROW, "--trials", "3", "--seed", "9")
    whole = livetrap(*words, "--db", "w.db", folder=tmp_path, limit_s=40.0)
    assert whole.status == 0, whole.err
    for index in (1, 2):
        part = livetrap(*words, "--shard", f"{index}/2", "--db", f"{index}.db", folder=tmp_path, limit_s=40.0)
        assert part.status == 0, part.err
    merged = livetrap("merge", "1.db", "2.db", "1.db", "-o", "m.db", folder=tmp_path, limit_s=20.0)
    assert merged.status == 0, merged.err
    assert trials_of(tmp_path / "m.db") == trials_of(tmp_path / "w.db")
    summary = livetrap("resume", "m.db", folder=tmp_path, limit_s=40.0)
    assert summary.status == 0
    assert summary.out.splitlines()[:-2] == whole.out.splitlines()[:-2]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_trial_is_repeated_from_its_recipe(tmp_path: Path) -> None:
    ran = livetrap("run", *NARROW, "--trials", "1", "--db", "a.db", folder=tmp_path, limit_s=40.0)
    assert ran.status == 0, ran.err
    with Store.open(tmp_path / "a.db", create=False) as store:
        hung = next(one for one in store.records() if one.verdict is Verdict.LIVELOCK)
    again = livetrap("rerun", "a.db", str(hung.id), "--trials", "2", folder=tmp_path, limit_s=20.0)
    assert again.status == 0, again.err
    assert "the same in 2 of 2: recorded livelock; now 2 livelock" in again.out
    with Store.open(tmp_path / "a.db", create=False) as store:
        first, second = store.campaigns()
        assert second.text("kind") == "rerun"
        assert second.plan["of"] == {"campaign": first.text("uid"), "trial": hung.id}
        repeated = list(store.records(second.id))
    assert len(repeated) == 2
    assert all((one.cell, one.seed, one.placement) == (hung.cell, hung.seed, hung.placement) for one in repeated)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_watch_is_killed_and_gone_on_with(tmp_path: Path) -> None:
    words = ("watch", "--trials", "12", "--seed", "3", "--db", "a.db")
    killed(*words, "--", "/bin/sleep", "0.3", after_s=1.0, folder=tmp_path)
    before = trials_of(tmp_path / "a.db")
    done = livetrap("resume", "a.db", folder=tmp_path, limit_s=40.0)
    assert done.status == 0, done.err
    assert "passed 12/12" in done.out
    after = trials_of(tmp_path / "a.db")
    assert after.total() == 12
    assert set(after.values()) == {1}
    assert before <= after
