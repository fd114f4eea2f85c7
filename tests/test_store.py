"""The store: what goes in comes out, ids stay unique, and everything wrong with the file is told in one line."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from livetrap import database
from livetrap.database import APPLICATION_ID, VERSION
from livetrap.errors import HarnessError
from livetrap.model import (
    Certainty,
    Ended,
    Event,
    Evidence,
    Gaps,
    Judgement,
    LimitReached,
    Look,
    Mark,
    Phase,
    Record,
    Role,
    Rules,
    Shape,
    Slot,
    ThreadEvidence,
    ThreadId,
    ThreadJudgement,
    ThreadReading,
    ThreadState,
    VariantRole,
    Verdict,
    WaitKind,
    WakeSource,
)
from livetrap.store import Store, default_path, pack_events, unpack_events


def make_record(number: int = 1, *, verdict: Verdict = Verdict.LIVELOCK, variant: str = "buggy") -> Record:
    return Record(
        id=number,
        scenario="raw-spin-flag",
        variant=variant,
        role=VariantRole.BUGGY,
        cell={"threads": 8, "flags": "-O2"},
        compiler="gcc 12.2.0",
        placement={"requested": "free", "effective": "free"},
        seed=7,
        verdict=verdict,
        certainty=Certainty.OBSERVED,
        phase=Phase.RUNNING,
        shape=Shape(spinning=7, exited=1),
        expected=(Verdict.LIVELOCK,),
        as_expected=verdict is Verdict.LIVELOCK,
        wall_s=0.21,
        stall_s=0.2,
        verdict_latency_s=0.2,
        longest_stall_s=0.0,
        beats=1,
        evidence={"reason": "7 threads spin"},
    )


def make_look(at_ns: int, *, threads: int = 2) -> Look:
    readings = tuple(
        ThreadReading(
            id=ThreadId(pid=10, tid=11 + i),
            state=ThreadState.RUNNABLE,
            cpu_ns=at_ns // 2 + i,
            switches=3,
            waited_ns=1,
            slot=Slot(
                index=i,
                generation=1,
                pid=10,
                tid=11 + i,
                beats=4,
                mark=Mark.WAIT,
                kind=WaitKind.SPIN,
                site=1,
                arrivals=5,
            ),
        )
        for i in range(threads)
    )
    return Look(at_ns=at_ns, late_ns=0, threads=readings, slots_seen=True, io_count=None)


def make_events(count: int = 3) -> list[Event]:
    evidence = Evidence(
        look=make_look(10_000),
        threads=(ThreadEvidence(id=ThreadId(10, 11), wake=WakeSource.NONE, sleeps_in="futex (untimed, private)"),),
        mutex_cycle=(ThreadId(10, 11), ThreadId(10, 12)),
    )
    looks: list[Event] = [make_look(1_000 * i) for i in range(count)]
    return [*looks, evidence, LimitReached(look=make_look(20_000)), Ended(at_ns=30_000, exit_code=0, message="\u2713")]


JUDGEMENT = Judgement(
    verdict=Verdict.LIVELOCK,
    reason="7 threads spin",
    rule="settle-4",
    phase=Phase.RUNNING,
    shape=Shape(spinning=7, exited=1),
    threads=(ThreadJudgement(id=ThreadId(10, 11), role=Role.SPINNING, mark=Mark.WAIT, cpu_s=0.1),),
)


def add(store: Store, record: Record | None = None, **changed: object) -> Record:
    record = record or make_record(store.next_id())
    given: dict[str, object] = {
        "recipe": {"seed": 2**64 - 1},
        "rules": Rules(floor_s=0.5),
        "gaps": Gaps(cell_s=0.25),
        "judgement": JUDGEMENT,
        "events": make_events(),
        "suspect": True,
    }
    store.add(record, **{**given, **changed})  # type: ignore[arg-type]
    return record


def failure(path: Path | str, *, create: bool = True) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        Store.open(path, create=create)
    assert "\n" not in str(caught.value)
    return caught.value


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    with Store.open(path) as store:
        campaign = store.begin_campaign({"scenario": "raw-spin-flag", "started": "now", "seed": 7}, {"os": "linux"})
        record = add(store)
    with Store.open(path, create=False) as store:
        stored = store.load(record.id)
        assert stored.record == record
        assert stored.campaign == campaign
        assert stored.recipe == {"seed": 2**64 - 1}
        assert stored.rules == Rules(floor_s=0.5)
        assert stored.gaps == Gaps(cell_s=0.25)
        assert stored.judgement == JUDGEMENT
        assert list(stored.events) == make_events()
        assert stored.suspect
        assert store.campaign(campaign)[1] == {"os": "linux"}


def test_events_survive_packing() -> None:
    events = make_events(40)
    assert list(unpack_events(pack_events(events))) == events
    assert unpack_events(pack_events([])) == ()


def test_ids_are_unique_over_campaigns_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    seen = []
    for _ in range(2):
        with Store.open(path) as store:
            campaign = store.begin_campaign({"scenario": "x"}, {})
            seen += [add(store).id for _ in range(3)]
            assert [record.id for record in store.records(campaign)] == seen[-3:]
    assert seen == [1, 2, 3, 4, 5, 6]
    with Store.open(path, create=False) as store:
        assert store.ids() == seen
        assert len(list(store.records())) == 6


def test_a_row_is_in_the_file_before_add_returns(tmp_path: Path) -> None:
    """A process that dies without a chance to close anything loses no finished trial."""
    path = tmp_path / "trials.db"
    code = (
        f"import os, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_store as t\n"
        f"s = t.Store.open({str(path)!r}); s.begin_campaign({{}}, {{}}); t.add(s); t.add(s); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 9
    with Store.open(path, create=False) as store:
        assert store.ids() == [1, 2]
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trials.db"]  # reading it has folded the log in


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    with Store.open(path) as store:
        store.begin_campaign({}, {})
        add(store)
    before = path.read_bytes()
    with Store.open(path, create=False) as store:
        store.load(1)
        with pytest.raises(HarnessError, match="cannot be written"):
            store.begin_campaign({}, {})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["trials.db"]


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    Store.open(path).close()
    header = path.read_bytes()[:72]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == VERSION
    assert [entry.name for entry in tmp_path.iterdir()] == ["trials.db"]


def test_a_transaction_is_quick(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        store.begin_campaign({}, {})
        took = []
        for _ in range(100):
            begun = time.perf_counter()
            add(store, suspect=False)
            took.append(time.perf_counter() - begun)
    assert statistics.median(took) < 0.01  # measured 0.2 ms; the bound is for a busy machine


# --- what can be wrong with the file --------------------------------------------------------------------------------


def test_a_folder(tmp_path: Path) -> None:
    error = failure(tmp_path)
    assert "is a folder" in str(error)
    assert error.status == 2


def test_a_missing_folder(tmp_path: Path) -> None:
    error = failure(tmp_path / "no" / "trials.db")
    assert "does not exist" in str(error)
    assert not (tmp_path / "no").exists()


def test_a_file_as_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    failure(tmp_path / "file" / "trials.db")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.os, "access", lambda *_: False)
    assert "cannot be written" in str(failure(tmp_path / "trials.db"))


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that refuses even root")
def test_a_folder_where_nothing_can_be_made() -> None:
    assert "/proc/livetrap.db" in str(failure("/proc/livetrap.db"))


def test_a_device() -> None:
    assert "not a regular file" in str(failure("/dev/null"))


def test_reading_makes_no_file(tmp_path: Path) -> None:
    error = failure(tmp_path / "trials.db", create=False)
    assert "does not exist" in str(error)
    assert list(tmp_path.iterdir()) == []


def test_another_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE places (url TEXT)")
    other.close()
    before = path.read_bytes()
    for create in (True, False):
        assert "another program's database" in str(failure(path, create=create))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["other.db"]


def test_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are notes, and no database at all. " * 30)
    for create in (True, False):
        assert "not an SQLite database" in str(failure(path, create=create))
    assert path.read_text().startswith("These are notes")


def test_an_empty_file_is_a_new_database_but_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    path.touch()
    assert "is empty" in str(failure(path, create=False))
    with Store.open(path) as store:
        assert store.next_id() == 1


def test_another_version(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    Store.open(path).close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")
    other.close()
    for create in (True, False):
        assert f"version {VERSION + 1}" in str(failure(path, create=create))


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    with Store.open(path) as store:
        store.begin_campaign({}, {})
        add(store)
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(HarnessError, match="disk is full") as caught:
            for _ in range(50):
                add(store)
        assert caught.value.status == 3
    with Store.open(path, create=False) as store:
        assert store.ids()[0] == 1
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_that_another_campaign_writes(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    with Store.open(path) as first:
        error = failure(path)
        assert "another campaign" in str(error)
        assert error.status == 3
        first.begin_campaign({}, {})
        add(first)
        with Store.open(path, create=False) as reader:  # reading while it runs is fine
            assert reader.ids() == [1]
    Store.open(path).close()


def test_a_file_that_another_process_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trials.db"
    Store.open(path).close()
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with Store.open(path) as store, pytest.raises(HarnessError, match="locked") as caught:
        store.begin_campaign({}, {})
    assert caught.value.status == 3
    holder.close()


def test_no_lock_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    Store.open(path).close()
    held = os.open(path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(held)


@pytest.mark.parametrize("wrong", [0, 2, -1, 2**70])
def test_no_such_trial(tmp_path: Path, wrong: int) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        with pytest.raises(HarnessError, match="it has none"):
            store.load(wrong)
        store.begin_campaign({}, {})
        add(store)
        with pytest.raises(HarnessError, match="its trials are 1 to 1"):
            store.load(wrong)


@pytest.mark.parametrize("column", ["events", "record", "judgement"])
def test_a_damaged_row(tmp_path: Path, column: str) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        store.begin_campaign({}, {})
        add(store)
        store._connection.execute(f"UPDATE trials SET {column} = x'7b'")
        with pytest.raises(HarnessError, match="damaged"):
            store.load(1)


# --- many trials -----------------------------------------------------------------------------------------------------


def test_a_campaign_has_a_uid_and_may_be_added_to(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        first, second = store.begin_campaign({"scenario": "x"}, {"os": "linux"}), store.begin_campaign({"uid": "u"}, {})
        store.amend_campaign({"ended": "now"})
        store.go_on(first)
        assert store.current == first
        one, other = store.campaigns()
        assert (one.id, other.id) == (first, second)
        assert len(one.text("uid")) == 32
        assert one.environment == {"os": "linux"}
        assert other.plan == {"uid": "u", "ended": "now"}


def test_what_is_added_at_once_is_added_whole_or_not(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        store.begin_campaign({}, {})
        with pytest.raises(ZeroDivisionError), store.at_once():
            add(store)
            raise ZeroDivisionError
        assert store.ids() == []
        with store.at_once():
            add(store)
        assert len(store.ids()) == 1


@pytest.mark.slow
def test_ten_thousand_trials_are_opened_and_summarised_quickly(tmp_path: Path) -> None:
    """The bar is a second; under load a test allows more. The bench of the store has the figures."""
    path = tmp_path / "trials.db"
    threads = [{"name": f"worker {number}", "frames": ["lt_wait_for_flag at wait.c:12"] * 12} for number in range(8)]
    recipe = {"trial": {"ordinal": 1, "variant": "buggy", "cell": {"threads": 8}, "seed": 7}, "rest": "x" * 1000}
    with Store.open(path) as store, store.at_once():
        store.begin_campaign({"scenario": "x"}, {})
        record = msgspec.structs.replace(make_record(), evidence={"stacks": threads})
        for number in range(1, 10_001):
            add(store, msgspec.structs.replace(record, id=number), recipe=recipe, events=())
    began = time.perf_counter()
    with Store.open(path, create=False) as store:
        (found,) = store.campaigns()
        cells = Counter((glance.cell_key, glance.verdict) for glance in store.glances(found.id))
    took_s = time.perf_counter() - began
    assert list(cells.values()) == [10_000]
    assert took_s < 3.0


# --- where it lies --------------------------------------------------------------------------------------------------

NOON = datetime(2026, 3, 4, 12, 0, 5, tzinfo=UTC)


def test_the_default_place(tmp_path: Path) -> None:
    path = default_path("raw-spin-flag", now=NOON, environment={"XDG_STATE_HOME": str(tmp_path)})
    assert path == tmp_path / "livetrap" / f"raw-spin-flag-20260304T120005Z-{os.getpid()}.db"
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_default_place_without_a_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    path = default_path("a/b c", now=NOON, environment={"XDG_STATE_HOME": "relative"})
    assert path.parent == tmp_path / ".local" / "state" / "livetrap"
    assert path.name.startswith("a-b-c-")


def test_a_default_place_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HarnessError, match="give a file with --db") as caught:
        default_path("x", now=NOON, environment={"XDG_STATE_HOME": str(tmp_path / "file")})
    assert caught.value.status == 3
