"""Repeating a trial: its recipe comes back whole, its placement as it took effect, and what it came to is compared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from livetrap import rerunning
from livetrap.errors import HarnessError
from livetrap.model import (
    CommandSpec,
    Gaps,
    NotAvailable,
    Placement,
    PlannedTrial,
    Rules,
    VariantRole,
    Verdict,
)
from livetrap.recording import recipe_of
from livetrap.rerunning import compare, placed, trial_of
from livetrap.store import Stored
from tests.test_expectations import SPIN
from tests.test_plan import made
from tests.test_store import JUDGEMENT, make_record
from tests.test_watching import machine


def stored(recipe: dict[str, Any]) -> Stored:
    """A trial whose recipe went through the database."""
    return Stored(
        campaign=1,
        record=make_record(7),
        recipe=msgspec.json.decode(msgspec.json.encode(recipe)),
        rules=Rules(),
        gaps=Gaps(),
        judgement=JUDGEMENT,
        events=(),
        suspect=False,
    )


def a_command(**changed: Any) -> PlannedTrial:
    trial = PlannedTrial(
        ordinal=3,
        scenario="watch",
        variant="command",
        role=VariantRole.WATCHED,
        cell={"N": 2, "placement": "one-core"},
        command=CommandSpec(argv=("/bin/a", "-x"), environment={"N": "2"}, progress="output"),
        disturbance="hogs:2",
        parameters={},
        seed=2**53 - 1,
        placement=Placement(requested="one-core", cpus=((1,),)),
        rules=Rules(limit_s=3.5, startup_s=None),
        expected=(Verdict.PASSED,),
    )
    return msgspec.structs.replace(trial, **changed)


@pytest.mark.parametrize(
    "trial",
    [
        *made(SPIN).trials[:2],
        a_command(),
        a_command(placement=NotAvailable(reason="no such CPU"), skip="no such CPU"),
        a_command(placement=Placement(requested="performance", qos=(25, 25))),
    ],
)
def test_a_trial_comes_back_from_its_recipe(trial: PlannedTrial) -> None:
    assert trial_of(stored(recipe_of(trial, built=None, compiler="", command=""))) == trial


@pytest.mark.parametrize("recipe", [{}, {"trial": 3}, {"trial": {"ordinal": 1}}, {"trial": {"ordinal": "x"}}])
def test_a_recipe_that_cannot_be_repeated(recipe: dict[str, Any]) -> None:
    with pytest.raises(HarnessError, match="trial 7 has no recipe") as caught:
        trial_of(stored(recipe))
    assert "\n" not in str(caught.value)


def test_the_placement_is_as_it_took_effect() -> None:
    trial = a_command()
    assert placed(trial, machine(2)) == (trial, "")
    moved, note = placed(trial, machine(1))
    assert moved.placement == Placement(requested="one-core", cpus=((0,),))
    assert "placement one-core is worked out anew" in note
    free = a_command(placement=Placement(requested="free"))
    assert placed(free, machine(1, affinity=False)) == (free, "")
    lost, _ = placed(trial, machine(2, affinity=False))
    assert lost.skip


def test_what_was_skipped_then_may_run_now() -> None:
    trial = a_command(placement=NotAvailable(reason="too few CPUs"), skip="too few CPUs")
    found, _ = placed(trial, machine(2))
    assert found.skip == ""
    assert isinstance(found.placement, Placement)


@pytest.mark.parametrize(
    ("recorded", "verdicts", "status", "part"),
    [
        ("livelock", ["livelock"], 0, "the same in 1 of 1"),
        ("livelock", ["passed", "livelock", "passed"], 0, "the same in 1 of 3: recorded livelock; now 2 passed, 1"),
        (
            "livelock",
            ["passed", "passed"],
            1,
            "NOT the same in 0 of 2: recorded livelock; now 2 passed (which does not",
        ),
        ("passed", ["passed", "passed"], 0, "the same in 2 of 2"),
        ("passed", ["passed", "livelock"], 1, "NOT the same in 1 of 2: recorded passed; now 1 passed, 1 livelock"),
        ("slow", ["slow"], 0, "the same"),
        ("livelock", ["inconclusive", "error"], 3, "nothing is said"),
        ("livelock", [], 3, "nothing is said: recorded livelock; now nothing"),
        ("skipped", ["passed"], 3, "nothing is said"),
    ],
)
def test_compared_with_the_record(recorded: str, verdicts: list[str], status: int, part: str) -> None:
    found = compare(Verdict(recorded), [Verdict(one) for one in verdicts])
    assert found.status == status
    assert part in found.text


def test_a_kernel_of_the_scenarios_own_is_found_beside_it(tmp_path: Any) -> None:
    spec = made(SPIN).trials[0].build
    assert spec is not None
    (tmp_path / "mine.c").touch()
    own = msgspec.structs.replace(spec, kernel_file="elsewhere/mine.c")
    assert rerunning._found(own, str(tmp_path)).kernel_file == str(tmp_path / "mine.c")
    assert rerunning._found(own, "") == own
