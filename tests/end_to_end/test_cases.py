"""The cases of JUDGING.md that kernels can show, as real processes under the real harness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running import Finished, livetrap

CASES = Path(__file__).parent / "cases"
pytestmark = pytest.mark.slow

Trials = dict[str, dict[str, Any]]


def run_all(folder: Path, name: str) -> tuple[Finished, Trials]:
    done = livetrap("run", CASES / name, "--json", "-", folder=folder, limit_s=90)
    return done, {trial["variant"]: trial for trial in done.trials}


@pytest.fixture(scope="module")
def asleep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Trials]:
    return run_all(tmp_path_factory.mktemp("asleep"), "asleep")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Trials]:
    return run_all(tmp_path_factory.mktemp("busy"), "busy")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Trials]:
    return run_all(tmp_path_factory.mktemp("process"), "process")


@pytest.mark.parametrize(
    ("variant", "verdict", "shape"),
    [
        ("lost-wake-up", "deadlock", {"parked": 4}),
        ("lost-wake-up-silent", "deadlock", {"parked": 4}),
        ("sleep", "waiting", {"parked": 4}),
        ("accept", "waiting", {"parked": 4}),
        ("spin-pool", "livelock", {"spinning": 1, "parked": 15}),
        ("spin-timer", "livelock", {"spinning": 1, "parked": 14, "polling": 1}),
        ("spin-accept", "livelock", {"spinning": 1, "parked": 15}),
    ],
)
def test_asleep(asleep: tuple[Finished, Trials], variant: str, verdict: str, shape: dict[str, int]) -> None:
    trial = asleep[1][variant]
    assert trial["verdict"] == verdict, trial
    assert {name: count for name, count in trial["shape"].items() if count} == shape


def test_a_thread_in_accept_is_named_at_the_limit(asleep: tuple[Finished, Trials]) -> None:
    trial = asleep[1]["spin-accept"]
    assert trial["evidence"]["rule"] == "limit-7"
    assert len(trial["evidence"]["wakeable"]) == 1
    assert trial["wall_s"] < 2.5


def test_a_hang_with_an_idle_poller_is_called_within_four_seconds(asleep: tuple[Finished, Trials]) -> None:
    assert asleep[1]["spin-timer"]["verdict_latency_s"] < 4


@pytest.mark.parametrize(
    ("variant", "verdicts"),
    [
        ("starvation", {"starvation"}),
        ("wakers", {"livelock"}),
        ("wakers-silent", {"slow"}),
        ("ping-pong-silent", {"passed", "slow"}),
        ("compute-silent", {"passed"}),
        ("step-silent", {"passed"}),
        ("endless-silent", {"slow"}),
        ("load", {"passed"}),
    ],
)
def test_busy(busy: tuple[Finished, Trials], variant: str, verdicts: set[str]) -> None:
    trial = busy[1][variant]
    assert trial["verdict"] in verdicts, trial


def test_silent_computing_says_in_what_loop_it_was_seen(busy: tuple[Finished, Trials]) -> None:
    assert "in a loop of kind" in busy[1]["endless-silent"]["evidence"]["reason"]


def test_the_starved_thread_is_named(busy: tuple[Finished, Trials]) -> None:
    assert len(busy[1]["starvation"]["evidence"]["wakeable"]) == 1


@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        ("stopped", "inconclusive"),
        ("continued", "passed"),
        ("fork-pool", "livelock"),
        ("orphan", "passed"),
        ("crash", "crashed"),
        ("leave", "failed"),
    ],
)
def test_process(process: tuple[Finished, Trials], variant: str, verdict: str) -> None:
    trial = process[1][variant]
    assert trial["verdict"] == verdict, trial


def test_an_orphan_in_a_session_of_its_own_is_killed(process: tuple[Finished, Trials]) -> None:
    assert process[1]["orphan"]["evidence"]["killed"] >= 1


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Trials]:
    return run_all(tmp_path_factory.mktemp("odd"), "odd")


@pytest.mark.parametrize("variant", ["layers", "nested", "alarm", "daemon", "deadline"])
def test_what_once_was_called_a_hang(odd: tuple[Finished, Trials], variant: str) -> None:
    trials = [trial for trial in odd[0].trials if trial["variant"] == variant]
    assert trials
    assert {trial["verdict"] for trial in trials} == {"passed"}, trials


def test_a_crowd_that_starves_itself_is_a_livelock(odd: tuple[Finished, Trials]) -> None:
    trial = odd[1]["crowd"]
    assert trial["verdict"] == "livelock", trial
    assert trial["shape"]["spinning"] == 63


@pytest.mark.parametrize("name", ["asleep", "busy", "process", "odd"])
def test_all_is_as_expected(request: pytest.FixtureRequest, name: str) -> None:
    done, _ = request.getfixturevalue(name)
    assert done.status in {0, 3}, done.err
