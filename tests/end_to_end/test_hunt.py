"""`livetrap hunt` over real trials: what hangs is found and hangs again by its recipe, what does not is no proof."""

from __future__ import annotations

import json
import signal
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest

from livetrap.store import Store
from tests.csrc.driver import compilers
from tests.end_to_end.running import Finished, livetrap, start, survivors

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not compilers(), reason="no C compiler is installed")]

NARROW = ("--variant", "buggy", "--threads", "2", "--placement", "free")


def hunt(folder: Path, *words: str | Path) -> tuple[Finished, dict[str, Any]]:
    """A hunt in raw-spin-flag's buggy variant, and its closing object."""
    own = ("--compiler", compilers()[0], "--json", "-")
    done = livetrap("hunt", "raw-spin-flag", *NARROW, *own, *words, folder=folder, limit_s=90)
    return done, done.trials[-1]


def test_a_hang_its_recipe_and_the_report(tmp_path: Path) -> None:
    database, page = tmp_path / "h.db", tmp_path / "h.html"
    done, told = hunt(
        tmp_path, "--flags=-O0", "--flags=-O2", "--disturb", "none", "--trials", "8", "--db", database, "--html", page
    )
    assert done.status == told["exit_status"] == 0, done.err
    assert told["best"]["cell"]["flags"] == "-O2"
    assert told["best"]["fresh"]
    assert told["best"]["hits"] == told["best"]["trials"] > 0
    assert "hung after " in done.err
    with Store.open(database, create=False) as store:
        records = list(store.records())
        (campaign,) = store.campaigns()
    assert campaign.text("kind") == "hunt"
    assert campaign.text("ended")
    assert len(records) == told["trials"] == len(done.trials) - 1
    first = next(record for record in records if record.verdict == "livelock")
    assert first.id == told["first_trial"]
    assert "</html>" in page.read_text()
    again = livetrap(*told["best"]["recipe"][1:], "--json", "-", folder=tmp_path, limit_s=60)
    assert {trial["verdict"] for trial in again.trials} == {"livelock"}
    assert again.status == 0


def test_nothing_hangs(tmp_path: Path) -> None:
    done, told = hunt(tmp_path, "--flags=-O0", "--disturb", "none,pause", "--trials", "6")
    assert done.status == told["exit_status"] == 1
    assert (told["trials"], told["hits"], told["best"]) == (6, 0, None)
    assert "that is no proof that nothing can" in done.err


@pytest.mark.soak
def test_shrinking(tmp_path: Path) -> None:
    words = ("--flags=-O2", "--threads", "4", "--disturb", "hogs:2", "--trials", "4", "--minimise", "--floor", "1")
    done, told = hunt(tmp_path, *words)
    assert done.status == 0, done.err
    small = told["smallest"]["cell"]
    assert (small["threads"], small["disturbance"]) == (2, "none")
    assert told["smallest"]["hits"] == told["smallest"]["trials"] == 8


def test_interrupted(tmp_path: Path) -> None:
    """What there is by then is told, and is in the file."""
    database, mark = tmp_path / "h.db", uuid.uuid4().hex
    words = ("--variant", "fixed", "--threads", "2", "--for", "60", "--db", database, "--json", "-")
    process = start("hunt", "raw-spin-flag", *words, mark=mark, folder=tmp_path)
    try:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        left = survivors(mark)
    assert not left, left
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["interrupted"]
    assert "interrupted: 0 hangs in " in err
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
