"""Going on with a campaign: which one, what is left of it, what has changed; and settings of a pyproject.toml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from livetrap import resuming
from livetrap.errors import HarnessError
from livetrap.model import Record, Verdict
from livetrap.plan import Options
from livetrap.store import Campaign
from tests.test_expectations import SPIN, record, right
from tests.test_plan import made

FINGERPRINT = {"scenario": "s1", "kernel": "k1", "compilers": {"gcc": "12"}}
HOST = {"cpu": "fast", "os": "linux", "arch": "arm64", "machine": "here"}


def campaign(number: int = 1, *, kind: str = "run", ended: bool = False, **more: Any) -> Campaign:
    plan = {"kind": kind, **resuming.about(Options(threads=(2,)), seed=9, fingerprint=FINGERPRINT), **more}
    return Campaign(id=number, plan={**plan, "ended": "then"} if ended else plan, environment=dict(HOST))


def left(had: list[Record], *, ends: Callable[[Record], bool] = lambda _: False) -> list[int]:
    return [trial.ordinal for trial in resuming.rest(iter(made(SPIN).trials), had, ends=ends)]


# --- which one -------------------------------------------------------------------------------------------------------


def test_the_last_that_did_not_end_is_gone_on_with() -> None:
    several = [
        campaign(1),
        campaign(2, ended=True),
        campaign(3),
        campaign(4, ended=True),
        campaign(5, kind="rerun", ended=True),
    ]
    assert resuming.choose(several, file="a.db", wanted=None).id == 3
    assert resuming.choose(several, file="a.db", wanted=1).id == 1
    assert resuming.choose(several[1:2], file="a.db", wanted=None).id == 2
    assert resuming.choose([several[3], several[4]], file="a.db", wanted=None).id == 4


@pytest.mark.parametrize(
    ("several", "wanted", "part"),
    [
        ([], None, "a.db has no campaign"),
        ([campaign(1), campaign(2)], 3, "a.db has no campaign 3; it has campaigns 1 to 2"),
        ([campaign(1)], 0, "it has campaign 1"),
        ([campaign(1, ended=True), campaign(2, kind="hunt")], None, "is a hunt, which cannot .* --campaign 1 can be"),
        ([campaign(1, kind="rerun")], 1, "is a rerun, which cannot be gone on with$"),
        ([Campaign(id=1, plan={}, environment={})], None, "does not tell its options"),
    ],
)
def test_none_can_be_gone_on_with(several: list[Campaign], wanted: int | None, part: str) -> None:
    with pytest.raises(HarnessError, match=part) as caught:
        resuming.choose(several, file="a.db", wanted=wanted)
    assert caught.value.status == 2


def test_options_come_back() -> None:
    options = Options(threads=(2, 4), axes={"body": ("empty", 3)}, trials=7, timeout_s=2.5)
    stored = msgspec.json.decode(msgspec.json.encode(resuming.about(options, seed=5, fingerprint={})))
    found = resuming.options_of(Campaign(id=1, plan=stored, environment={}), Options)
    assert found == msgspec.structs.replace(options, seed=5)
    with pytest.raises(HarnessError, match="options are not on record"):
        resuming.options_of(Campaign(id=1, plan={"options": {"threads": "x"}}, environment={}), Options)


# --- what is left ----------------------------------------------------------------------------------------------------


def test_what_is_on_record_is_not_run_again() -> None:
    trials = made(SPIN).trials
    had = [record(trial, right(trial)) for trial in trials]
    assert left([]) == [trial.ordinal for trial in trials]
    assert left(had) == []
    assert left(had[3:]) == [0, 1, 2]
    assert left([had[5], had[1]]) == [t.ordinal for t in trials if t.ordinal not in {1, 5}]


def test_what_ends_it_is_asked_in_the_order_of_the_plan() -> None:
    had = [record(trial, right(trial)) for trial in made(SPIN).trials[:4]]
    asked: list[int] = []

    def ends(one: Record) -> bool:
        asked.append(one.id)
        return one.id == 2

    assert left([*reversed(had)], ends=ends) == []
    assert asked == [0, 1, 2]


def test_gaps_are_those_of_trials_that_passed() -> None:
    first, second, *_ = made(SPIN).trials
    had = [
        msgspec.structs.replace(record(first, "passed"), longest_stall_s=0.2),
        msgspec.structs.replace(record(first, "passed"), longest_stall_s=0.1),
        msgspec.structs.replace(record(second, Verdict.LIVELOCK), longest_stall_s=5.0),
    ]
    assert resuming.gaps(had) == {first.cell_key: 0.2}


# --- what has changed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fingerprint", "host", "said"),
    [
        ({}, {}, []),
        ({}, {"machine": "there"}, []),
        ({"scenario": "s2"}, {}, ["the scenario file"]),
        ({"kernel": "k2"}, {}, ["the sources of the kernel"]),
        ({"compilers": {"gcc": "13"}}, {}, ["the compiler gcc (12, now 13)"]),
        ({"compilers": {"clang": "19"}}, {}, ["the compiler gcc (12, now not used)"]),
        ({"compilers": {"gcc": "12", "clang": "19"}}, {}, []),
        ({}, {"cpu": "slow"}, ["the CPU (fast, now slow)"]),
    ],
)
def test_changes_are_told(fingerprint: dict[str, object], host: dict[str, str], said: list[str]) -> None:
    begun = campaign()
    found = resuming.changes(begun, fingerprint={**FINGERPRINT, **fingerprint}, environment={**HOST, **host})
    assert found == said
    if not said:
        resuming.refuse(begun, found)
        return
    with pytest.raises(HarnessError, match="--anyway") as caught:
        resuming.refuse(begun, found)
    assert said[0] in str(caught.value)
