"""What a CI gets of a watch whose trials are killed and that is itself ended before its time."""

from __future__ import annotations

import signal
import time
import uuid
from pathlib import Path
from xml.etree import ElementTree

import pytest

from livetrap.errors import HarnessError
from livetrap.store import Store
from tests.end_to_end.running import start, survivors

pytestmark = pytest.mark.slow
LIMIT_S = 30.0


def trials_in(db: Path) -> int:
    try:
        with Store.open(db, create=False) as store:
            return len(store.ids())
    except HarnessError:  # not there yet
        return 0


def test_killed_trials_and_an_interruption(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    db, xml, page, summary = (tmp_path / name for name in ("w.db", "w.xml", "w.html", "summary.md"))
    options: list[str | Path] = ["--trials", "5000", "--db", db, "--junit", xml, "--html", page, "--github"]
    command = ["sh", "-c", "kill -KILL $$"]
    process = start("watch", *options, "--", *command, mark=mark, folder=tmp_path, GITHUB_STEP_SUMMARY=str(summary))
    try:
        until = time.monotonic() + LIMIT_S
        while trials_in(db) < 2 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        left = survivors(mark)
    assert not left
    assert process.returncode == 130, err
    root = ElementTree.parse(xml).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "1")
    failure, error = root.find(".//failure"), root.find(".//error")
    assert failure is not None
    assert failure.get("type") == "crashed"
    assert "signal 9" in str(failure.text) or "SIGKILL" in str(failure.text)
    assert error is not None
    assert "of 5000 trials are on record" in str(error.get("message"))
    assert "\n::error title=livetrap%3A crashed in sh::" in out
    assert "unfinished" in summary.read_text(encoding="utf-8")
    assert page.stat().st_size > 0
