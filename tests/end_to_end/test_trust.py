"""Trust: under two CPU hogs no healthy trial is called a hang, and no hang is missed.

`make soak` runs the whole of it, CI a twentieth.
"""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from tests.end_to_end.hogs import hogs
from tests.end_to_end.running import livetrap

HEALTHY = """
schema = 1
name = "healthy"
summary = "Barriers that work."

[target]
kernel = "barrier_rounds"

[budget]
timeout_s = 20.0

[axes]
threads = [8, 16]

[variants.yield]
role = "look-alike"
trials = {yield_}
parameters = {{ rounds = 10 }}
axes = {{ technique = ["acquire_yield", "condition_variable"] }}

[variants.burns]
role = "look-alike"
trials = {burns}
parameters = {{ rounds = 3 }}
axes = {{ technique = ["acquire_spin"] }}

[variants.computes]
role = "look-alike"
trials = {computes}
parameters = {{ rounds = 2, compute_us = 60000 }}
axes = {{ technique = ["acquire_spin"] }}

[[expect]]
match = {{ variant = "yield" }}
verdicts = ["passed"]

[[expect]]
match = {{}}
verdicts = ["passed", "slow"]
"""

SLEEPS = """
schema = 1
name = "sleeps"
summary = "The publisher sleeps two seconds while the others spin."

[target]
kernel = "flag_handoff"
parameters = {{ moment = "late", delay_us = 2000000, flag = "acquire", body = "empty" }}

[budget]
timeout_s = 20.0
trials = {trials}

[axes]
threads = [8]

[variants.sleeps]
role = "look-alike"

[[expect]]
match = {{}}
verdicts = ["passed"]
"""

BURNS_ON_ONE_CORE = """
schema = 1
name = "one-core"
summary = "Sixteen threads burn on one core."

[target]
kernel = "barrier_rounds"

[budget]
timeout_s = 5.0
trials = {trials}

[axes]
threads = [16]
placement = ["one-core"]
technique = ["acquire_spin"]

[variants.burns]
role = "look-alike"

[[expect]]
match = {{}}
verdicts = ["passed", "slow"]
"""


def verdicts(folder: Path, text: str, *, limit_s: float) -> collections.Counter[str]:
    """Runs a scenario and counts its verdicts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.toml").write_text(text)
    done = livetrap("run", folder, "--json", "-", folder=folder, limit_s=limit_s)
    return collections.Counter(trial["verdict"] for trial in done.trials)


def check_healthy(folder: Path, *, share: float, limit_s: float) -> None:
    """2,000 healthy trials, times `share`, without a hang verdict; at least 95 % passed, no error."""
    text = HEALTHY.format(yield_=round(300 * share), burns=round(230 * share), computes=round(150 * share))
    with hogs(2, limit_s=limit_s):
        seen = verdicts(folder / "healthy", text, limit_s=limit_s)
        seen += verdicts(folder / "sleeps", SLEEPS.format(trials=round(40 * share)), limit_s=limit_s)
    assert sum(seen.values()) >= round(1990 * share), seen
    assert set(seen) <= {"passed", "slow"}, seen
    assert seen["passed"] >= 0.95 * sum(seen.values()), seen


def check_missed(folder: Path, *, trials: int, limit_s: float) -> None:
    """Not one raw spin is missed."""
    options = ["--variant", "buggy", "--axis", "body=volatile_counter", "--flags=-O2", "--compiler", "gcc"]
    with hogs(2, limit_s=limit_s):
        done = livetrap(
            *["run", "raw-spin-flag", "--threads", "8", "--placement", "free", "--trials", str(trials), *options],
            *["--json", "-"],
            folder=folder,
            limit_s=limit_s,
        )
    seen = collections.Counter(trial["verdict"] for trial in done.trials)
    assert seen == {"livelock": trials}


def check_burning(folder: Path, *, trials: int, limit_s: float) -> None:
    """Burning on one core is passed or slow, never a hang."""
    with hogs(2, limit_s=limit_s):
        seen = verdicts(folder / "one-core", BURNS_ON_ONE_CORE.format(trials=trials), limit_s=limit_s)
    assert set(seen) <= {"passed", "slow"}, seen


@pytest.mark.slow
def test_a_twentieth_of_the_healthy_trials(tmp_path: Path) -> None:
    check_healthy(tmp_path, share=0.05, limit_s=110)


@pytest.mark.slow
def test_a_twentieth_of_the_raw_spins(tmp_path: Path) -> None:
    check_missed(tmp_path, trials=10, limit_s=60)


@pytest.mark.slow
def test_burning_on_one_core_is_no_hang(tmp_path: Path) -> None:
    check_burning(tmp_path, trials=1, limit_s=60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_healthy_trials(tmp_path: Path) -> None:
    check_healthy(tmp_path, share=1.0, limit_s=3000)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_all_raw_spins(tmp_path: Path) -> None:
    check_missed(tmp_path, trials=200, limit_s=1000)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_much_burning_on_one_core(tmp_path: Path) -> None:
    check_burning(tmp_path, trials=50, limit_s=1000)
