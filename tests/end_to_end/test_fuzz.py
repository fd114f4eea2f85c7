"""`livetrap fuzz`, and the strategies in a test of one's own: found, shrunk, replayed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.running import livetrap

pytestmark = pytest.mark.slow

OWN = """
import sys
import hypothesis
import livetrap
from livetrap import strategies

NARROW = dict(threads=[1, 2], flags="-O2", compiler="gcc", placement="free", disturbance="none", timeout=5)

@hypothesis.settings(max_examples=5)
@hypothesis.given(trial=strategies.trials("raw-spin-flag", **NARROW))
def test_fixed(trial):
    livetrap.run(trial).expect("passed")

@hypothesis.settings(max_examples=20)
@hypothesis.given(trial=strategies.trials("raw-spin-flag", variant="buggy", **NARROW))
def test_buggy(trial):
    livetrap.run(trial).expect("passed")

@hypothesis.settings(max_examples=5, deadline=500)
@hypothesis.given(trial=strategies.trials("raw-spin-flag", **NARROW))
def test_hurried(trial):
    livetrap.run(trial)

test_fixed()
try:
    test_buggy()
except AssertionError as error:
    print(error, *error.__notes__)
try:
    test_hurried()
except livetrap.errors.HarnessError as error:
    print(error)
one = livetrap.run("raw-spin-flag", variant="fixed", threads=2, trials=1, flags="-O2", compiler="gcc", placement="free")
one.expect()
print(one[0].verdict, len(one))
"""


def test_found_shrunk_and_replayed(tmp_path: Path) -> None:
    arguments = (
        "fuzz",
        "raw-spin-flag",
        "--variant",
        "buggy",
        "--compiler",
        "gcc",
        "--flags",
        "-O1,-O2",
        "--json",
        "-",
    )
    first = livetrap(*arguments, "--seed", "3", "--db", "a.db", folder=tmp_path, limit_s=60)
    assert first.status == 0, first.err
    told = first.trials[-1]
    assert told["falsified"] and not told["replayed"] and told["verdict_found"] == "livelock"
    assert (told["cell"]["threads"], told["cell"]["placement"], told["cell"]["disturbance"]) == (2, "free", "none")
    second = livetrap(*arguments, "--db", "b.db", folder=tmp_path, limit_s=60)
    again = second.trials[-1]
    assert second.status == 0 and again["replayed"] and again["trials"] == 1
    assert (again["cell"], again["recipe"]) == (told["cell"], told["recipe"])
    pasted = livetrap(*told["recipe"][1:], "--json", "-", folder=tmp_path, limit_s=60)
    assert pasted.trials[0]["verdict"] == "livelock" and pasted.trials[0]["seed"] == first_seed(first.trials, told)


def first_seed(trials: list[dict[str, object]], told: dict[str, object]) -> object:
    return next(one["seed"] for one in trials if one.get("id") == told["trial"])


def test_what_is_fixed_is_not_falsified(tmp_path: Path) -> None:
    done = livetrap(
        *("fuzz", "raw-spin-flag", "--variant", "fixed", "--trials", "4", "--flags", "-O2", "--compiler", "gcc"),
        folder=tmp_path,
        limit_s=60,
    )
    assert done.status == 0, done.err
    assert "no proof" in done.out and "as expected: 4 examples" in done.out


@pytest.mark.soak
def test_in_a_test_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)

    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    environment.pop("CI", None)
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "raw-spin-flag: 1 of 1 trial not passed" in done.stdout
    assert "livelock, 1 spinning, 1 exited" in done.stdout
    assert "trial=strategies.trial('raw-spin-flag', variant='buggy', disturbance='none', threads=2" in done.stdout
    assert "again: livetrap run raw-spin-flag --variant buggy --threads 2" in done.stdout
    assert "deadline of 500 ms" in done.stdout
    assert done.stdout.splitlines()[-1] == "passed 1"


def test_importing_the_package_stays_light() -> None:
    code = "import sys, livetrap; print([m for m in ('msgspec', 'hypothesis', 'rich', 'unittest') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
