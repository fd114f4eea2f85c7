"""`resume`, `rerun` and `merge` as commands: whatever is wrong with a file or an option is one line."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from livetrap.cli import main
from livetrap.database import VERSION
from livetrap.store import Store
from tests.test_cli import Capture, one_error
from tests.test_store import add, make_record

NAMED = (["resume", "DB"], ["rerun", "DB", "1"], ["merge", "DB", "-o", "OUT"])
"""Commands that read a file that they are given."""


def named(words: list[str], db: Path) -> list[str]:
    return [{"DB": str(db), "OUT": str(db.parent / "out.db")}.get(word, word) for word in words]


def recorded(path: Path, *, trials: int = 40, **plan: object) -> Path:
    with Store.open(path) as store:
        store.begin_campaign({"scenario": "raw-spin-flag", "kind": "run", **plan}, {})
        for number in range(1, trials + 1):
            add(
                store, make_record(number), recipe={"trial": {"ordinal": number, "variant": "a", "cell": {}, "seed": 1}}
            )
    return path


@pytest.mark.parametrize("words", NAMED, ids=lambda words: words[0])
def test_files_that_are_none_of_ours(words: list[str], tmp_path: Path, capsys: Capture) -> None:
    db = tmp_path / "a.db"
    assert "does not exist" in one_error(capsys, status=main(named(words, db)))
    db.touch()
    assert "is empty" in one_error(capsys, status=main(named(words, db)))
    db.write_text("These are notes, and no database at all. " * 30, encoding="utf-8")
    assert "not an SQLite database" in one_error(capsys, status=main(named(words, db)))
    db.unlink()
    recorded(db, trials=1)
    with sqlite3.connect(db) as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")
    other.close()
    assert f"version {VERSION + 1}" in one_error(capsys, status=main(named(words, db)))
    assert "is a folder" in one_error(capsys, status=main(named(words, tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize("words", NAMED, ids=lambda words: words[0])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_truncated_file(words: list[str], share: float, tmp_path: Path, capsys: Capture) -> None:
    db = recorded(tmp_path / "a.db")
    whole = db.read_bytes()
    db.write_bytes(whole[: int(len(whole) * share)])
    status = main(named(words, db))
    out, err = capsys.readouterr()
    assert status in {2, 3}, out
    assert err.count("\n") == 1
    assert err.startswith("livetrap: ")
    assert not (tmp_path / "out.db").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["resume", "DB", "--campaign", "7"], "has no campaign 7; it has campaign 1"),
        (["resume", "DB", "--executor", " "], "does not tell its options"),
        (["resume", "DB"], "does not tell its options"),
        (["resume", ""], "FILE is empty"),
        (["resume"], "FILE"),
        (["rerun", "DB", "77"], "has no trial 77"),
        (["rerun", "DB", "x"], "ID"),
        (["rerun", "DB", "1", "--trials", "0"], "--trials 0"),
        (["rerun", "DB", "1"], "trial 1 has no recipe that can be repeated"),
        (["rerun", "", "1"], "FILE is empty"),
        (["run", "raw-spin-flag", "--shard", "5/4"], "--shard 5/4: there are 4"),
        (["run", "raw-spin-flag", "--shard", "0/2"], "--shard 0/2"),
        (["run", "raw-spin-flag", "--shard", "x"], "--shard 'x'"),
        (["watch", "--shard", "3/2", "--", "true"], "--shard 3/2"),
        (["run", "raw-spin-flag", "--until-confident", "0"], "--until-confident 0"),
        (["run", "raw-spin-flag", "--until-confident", "1"], "--until-confident 1"),
        (["run", "raw-spin-flag", "--until-confident", "nan"], "--until-confident nan"),
        (["run", "raw-spin-flag", "--until-confident", "0.1", "--shard", "1/2"], "--shard and --until-confident"),
        (["run", "raw-spin-flag", "--executor", ""], "--executor is empty"),
    ],
)
def test_bad_usage(words: list[str], part: str, tmp_path: Path, capsys: Capture) -> None:
    db = recorded(tmp_path / "a.db", trials=1)
    assert part in one_error(capsys, status=main(named(words, db)))


def test_a_file_that_another_run_writes(tmp_path: Path, capsys: Capture) -> None:
    with Store.open(recorded(tmp_path / "a.db", trials=1, options={"trials": 1, "seed": 3})) as held:
        status = main(["resume", str(held.path), "--anyway"])
        err = capsys.readouterr().err
    assert status == 3
    assert "is being written by another campaign" in err.splitlines()[-1]


@pytest.mark.skipif(os.geteuid() == 0 or sys.platform != "linux", reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: Capture) -> None:
    db = recorded(tmp_path / "a.db", trials=1)
    tmp_path.chmod(0o500)
    try:
        assert "cannot be written" in one_error(capsys, status=main(["merge", str(db), "-o", str(tmp_path / "m.db")]))
    finally:
        tmp_path.chmod(0o700)


def test_a_scenario_that_has_changed_since(tmp_path: Path, capsys: Capture) -> None:
    fingerprint = {"scenario": "another"}
    db = recorded(tmp_path / "a.db", trials=1, options={"trials": 1, "seed": 3}, fingerprint=fingerprint)
    error = one_error(capsys, status=main(["resume", str(db)]))
    assert "changed since campaign 1 began: the scenario file" in error
    assert "--anyway" in error
