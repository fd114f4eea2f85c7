"""The harness is killed or interrupted in mid-campaign: nothing of it is left, and nothing that finished is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.running import start, survivors

PROCESS = Path(__file__).parent / "cases" / "process"
pytestmark = pytest.mark.slow

CAMPAIGNS = {
    "spinning": ("raw-spin-flag", "--variant", "buggy", "--flags=-O2", "--threads", "16", "--trials", "200"),
    "forks-and-sessions": (str(PROCESS), "--variant", "orphan,fork-pool", "--trials", "200", "--timeout", "20"),
}


@contextlib.contextmanager
def running(name: str, database: Path) -> Iterator[tuple[subprocess.Popen[str], list[int], str]]:
    """A campaign that has finished three trials; yields it, their ids, and the mark of its processes."""
    mark = uuid.uuid4().hex
    process = start(*("run", *CAMPAIGNS[name], "--db", database, "--json", "-"), mark=mark, folder=database.parent)
    try:
        assert process.stdout
        yield process, [json.loads(process.stdout.readline())["id"] for _ in range(3)], mark
    finally:
        process.kill()
        process.communicate(timeout=20)
        survivors(mark, within_s=0)


def rows(database: Path) -> list[int]:
    """Ids of the trials in the file, after SQLite's own check of it."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [row[0] for row in connection.execute("SELECT id FROM trials ORDER BY id")]


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_and_nothing_is_lost(tmp_path: Path, campaign: str, how: signal.Signals) -> None:
    database = tmp_path / "killed.db"
    with running(campaign, database) as (process, ids, mark):
        os.kill(process.pid, how)
        left = survivors(mark)
        out, err = process.communicate(timeout=20)
    assert not left, left
    ids += [json.loads(line)["id"] for line in out.splitlines() if line.endswith("}")]
    kept = rows(database)
    # A trial is stored before it is told; at most one was stored and not yet told.
    assert set(ids) <= set(kept)
    assert len(kept) <= len(ids) + 1
    if how is signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert "interrupted" in err.lower()
        assert "livelock" in err


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "gap_ms", [0, pytest.param(20, marks=pytest.mark.soak), 100, pytest.param(300, marks=pytest.mark.soak)]
)
def test_a_second_interrupt_changes_nothing(tmp_path: Path, gap_ms: int, second: signal.Signals) -> None:
    database = tmp_path / "killed.db"
    with running("forks-and-sessions", database) as (process, _, mark):
        os.kill(process.pid, signal.SIGINT)
        for _ in range(3):
            time.sleep(gap_ms / 1000)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, second)
        left = survivors(mark)
        _, err = process.communicate(timeout=20)
    assert not left, left
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith(f"record: {database}")
    assert "Traceback" not in err
