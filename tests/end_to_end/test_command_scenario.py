"""A scenario with a command, as real processes under the real harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap

pytestmark = pytest.mark.slow

SCENARIO = """
schema = 1
name = "locks"
summary = "A Python program takes a lock twice."
[target]
command = ["{python}", "work.py", "{prepared}/word", "{threads}"]
environment = { TWICE = "{twice}" }
[target.prepare]
command = ["/bin/sh", "-c", "echo well > '{prepared}/word'"]
[budget]
trials = 1
timeout_s = 15.0
[axes]
threads = [3]
placement = ["free", "one-core", "spread"]
[variants.buggy]
role = "buggy"
parameters = { twice = "yes" }
[variants.fixed]
role = "fixed"
parameters = { twice = "no" }
[[expect]]
match = { variant = "buggy" }
verdicts = ["deadlock"]
"""
WORK = """
import os, pathlib, sys, threading
import livetrap

print(pathlib.Path(sys.argv[1]).read_text(), flush=True)
for _ in range(int(sys.argv[2])):
    livetrap.beat()
lock = threading.Lock()
lock.acquire()
if os.environ["TWICE"] == "yes":
    lock.acquire()
"""


def test_a_command_with_what_it_needs(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "work.py").write_text(WORK)
    cache = str(tmp_path / "cache")
    done = livetrap("run", "locks", "--json", "-", folder=tmp_path, limit_s=60, LIVETRAP_CACHE=cache)
    assert done.status == 0, done.err
    assert "preparing locks" in done.err
    seen = {(trial["variant"], trial["cell"]["placement"]): trial for trial in done.trials}
    assert len(seen) == 6
    for (variant, placement), trial in seen.items():
        if placement == "spread":
            assert trial["verdict"] == "skipped"
            assert "cannot be placed one by one" in trial["evidence"]["reason"]
            continue
        assert trial["verdict"] == {"buggy": "deadlock", "fixed": "passed"}[variant], trial
        assert trial["beats"] == 3
        assert trial["compiler"] == ""
        if variant == "buggy":
            assert trial["evidence"]["output"].startswith("well")
            assert {name: count for name, count in trial["shape"].items() if count} == {"parked": 1}
    assert len(seen["fixed", "one-core"]["placement"]["effective"]) == 1


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "scenario.toml").write_text(SCENARIO.replace('"{python}", "work.py"', '"./work"'))
    done = livetrap("run", folder, folder=tmp_path, limit_s=30, LIVETRAP_CACHE=str(tmp_path / "cache"))
    assert (done.status, done.out) == (2, "")
    assert "target.command: " in done.err
    assert "Traceback" not in done.err
