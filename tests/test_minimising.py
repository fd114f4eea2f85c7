"""Shrinking: which simpler recipes there are, and when one is kept."""

from __future__ import annotations

from typing import Any

import pytest

from livetrap.minimising import LEAST_TRIALS, MOST_TRIALS, Test, simpler

# A class of the module that pytest would take for one of tests.
Test.__test__ = False  # type: ignore[attr-defined]


def changes(cell: dict[str, Any], *, rounds: int | None = None) -> list[str]:
    return [change for change, _ in simpler(cell, rounds=rounds)]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ({"disturbance": "none", "placement": "free"}, []),
        ({"disturbance": "migrate"}, ["disturbance migrate -> none"]),
        ({"disturbance": "hogs:4"}, ["disturbance hogs:4 -> none", "disturbance hogs:4 -> hogs:2"]),
        ({"disturbance": "hogs:1"}, ["disturbance hogs:1 -> none"]),
        (
            {"disturbance": "hogs:2+demote"},
            [
                "disturbance hogs:2+demote -> none",
                "disturbance hogs:2+demote -> demote",
                "disturbance hogs:2+demote -> hogs:2",
                "disturbance hogs:2+demote -> hogs:1+demote",
            ],
        ),
        ({"threads": 8}, ["threads 8 -> 2", "threads 8 -> 4", "threads 8 -> 7"]),
        ({"threads": 3}, ["threads 3 -> 2", "threads 3 -> 1"]),
        ({"threads": 2}, ["threads 2 -> 1"]),
        ({"threads": 1}, []),
        ({"placement": "spread"}, ["placement spread -> free", "placement spread -> one-core"]),
        ({"placement": "random"}, [f"placement random -> {name}" for name in ("free", "one-core", "spread", "pack")]),
        ({"rounds": 100}, ["rounds 100 -> 10", "rounds 100 -> 50"]),
        ({"rounds": 1}, []),
    ],
)
def test_what_is_simpler(cell: dict[str, Any], expected: list[str]) -> None:
    assert changes(cell) == expected


def test_the_order_and_rounds_that_are_no_axis() -> None:
    cell = {"threads": 2, "placement": "one-core", "flags": "-O2", "disturbance": "pause"}
    assert [change.split()[0] for change in changes(cell, rounds=20)] == [
        *("disturbance", "threads", "placement", "rounds", "rounds")
    ]
    assert dict(simpler(cell, rounds=20))["rounds 20 -> 2"] == {**cell, "rounds": 2}


def told(floor: float, outcomes: str) -> Test:
    test = Test(floor=floor)
    for outcome in outcomes:
        test = test.told(hit=outcome == "h")
    return test


@pytest.mark.parametrize(
    ("floor", "outcomes", "kept"),
    [
        (1.0, "hhhhhhhh", True),
        (1.0, "hhhhhhh", None),
        (1.0, "p", False),
        (0.5, "hhhhhhhh", True),
        (0.5, "h" * 7 + "p" * 8, None),
        (0.5, "p" * 9, False),
        (0.5, "", None),
        (0.001, "hhhhhhhh", True),
        (0.001, "h", True),
    ],
)
def test_when_a_recipe_is_kept(floor: float, outcomes: str, kept: bool | None) -> None:
    assert told(floor, outcomes).kept is kept


@pytest.mark.parametrize("floor", [1e-6, 0.001, 0.1, 0.33, 0.9, 1.0])
def test_it_is_always_decided(floor: float) -> None:
    test = Test(floor=floor)
    assert LEAST_TRIALS <= test.most <= MOST_TRIALS
    assert told(floor, "p" * test.most).kept is False
    assert told(floor, "h" * test.most).kept is True
