"""What marks, options and the configuration file come to."""

from __future__ import annotations

import pytest

from livetrap.errors import HarnessError
from livetrap.pytest_plugin.settings import Settings, changed


def test_a_mark_changes_what_it_names() -> None:
    found = changed(Settings(), {"timeout": 5, "stall": "0.5", "mode": "spawn"}, where="here: ")
    assert found == Settings(timeout_s=5.0, stall_s=0.5, mode="spawn")
    assert changed(found, {}, where="") == found


def test_a_mark_may_take_the_stall_back() -> None:
    assert changed(Settings(stall_s=1.0), {"stall": None}, where="").stall_s is None


def test_rules_are_those_of_watch() -> None:
    usual, quick = Settings(timeout_s=7).rules, Settings(stall_s=0.5).rules
    assert usual.limit_s == 7 and usual.silent_floor_s == 3.0
    assert (quick.floor_s, quick.silent_floor_s, quick.finishing_floor_s) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": 0}, "timeout 0: must be a number of seconds above 0"),
        ({"timeout": -1.5}, "must be a number"),
        ({"timeout": float("nan")}, "must be a number"),
        ({"timeout": 1e99}, "at most"),
        ({"timeout": True}, "must be a number"),
        ({"timeout": "soon"}, "timeout 'soon'"),
        ({"stall": []}, r"stall \[\]"),
        ({"mode": "thread"}, "mode 'thread': one of auto, fork, spawn, off"),
        ({"timeut": 3}, "'timeut' is not known; did you mean 'timeout'"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(given: dict[str, object], said: str) -> None:
    with pytest.raises(HarnessError, match=said) as caught:
        changed(Settings(), given, where="here: ")
    assert str(caught.value).startswith("here: ")
    assert "\n" not in str(caught.value)
