"""What a run may claim about a fix."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from livetrap.claims import fix_claims, seen_text
from livetrap.expectations import Row
from livetrap.model import VariantRole, Verdict


def row(
    variant: str,
    verdicts: dict[str, int],
    *,
    shows_bug: bool = False,
    role: str = "",
    parameters: Mapping[str, int | str] = {},
    apart: Mapping[str, int] = {},
    **cell: int | str,
) -> Row:
    counts = {Verdict(name): count for name, count in verdicts.items()}
    return Row(
        variant=variant,
        role=VariantRole(role or variant),
        cell=cell,
        parameters=dict(parameters),
        planned=sum(verdicts.values()),
        n=sum(verdicts.values()),
        verdicts=counts,
        skipped=apart.get("skipped", 0),
        inconclusive=apart.get("inconclusive", 0),
        error=apart.get("error", 0),
        expected=(Verdict.LIVELOCK,) if shows_bug else (Verdict.PASSED,),
        shows_bug=shows_bug,
        ok=True,
    )


def test_a_fix_is_held_against_its_twin_where_that_could_hang() -> None:
    rows = [
        row("buggy", {"livelock": 10}, shows_bug=True, threads=2, flags="-O2"),
        row("buggy", {"passed": 10}, threads=2, flags="-O0"),
        row("fixed", {"passed": 30}, threads=2, flags="-O2"),
        row("fixed", {"passed": 70}, threads=2, flags="-O0"),
    ]
    (claim,) = fix_claims(rows)
    assert (claim.fix.fixed_hangs, claim.fix.fixed_trials) == (0, 30)
    assert (claim.fix.buggy_hangs, claim.fix.buggy_trials) == (10, 10)
    assert claim.text.startswith(
        "fixed: 0 of 30; at 95 % confidence the rate is below 9.6 %; the buggy twin hung 10 of 10"
    )
    assert "would halve the bound" in claim.text


def test_what_differs_between_the_variants_does_not_keep_them_apart() -> None:
    rows = [
        row("buggy", {"livelock": 4}, shows_bug=True, threads=2, technique="raw_spin", dtype="fp16"),
        row("fixed", {"passed": 5}, threads=2, technique="acquire_yield", dtype="fp16"),
        row("fixed", {"passed": 5}, threads=2, technique="os_barrier", dtype="fp16"),
    ]
    (claim,) = fix_claims(rows)
    assert claim.fix.fixed_trials == 10
    assert claim.fix.buggy_trials == 4


def test_a_bug_that_did_not_show_proves_no_fix() -> None:
    rows = [
        row("buggy", {"passed": 10}, shows_bug=True, threads=2),
        row("fixed", {"passed": 1000}, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert claim.text.startswith("fixed: not reproduced")
    assert claim.fix.holds is None


def test_no_claim_where_the_bug_could_not_show() -> None:
    assert fix_claims([row("buggy", {"passed": 3}, threads=1), row("fixed", {"passed": 3}, threads=1)]) == ()
    assert fix_claims([row("fixed", {"passed": 3}, threads=2)]) == ()


def test_a_fix_that_hangs_does_not_hold() -> None:
    rows = [
        row("buggy", {"livelock": 3}, shows_bug=True, threads=2),
        row("fixed", {"passed": 5, "deadlock": 1}, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert claim.fix.holds is False
    assert "does not hold" in claim.text


def test_corrupt_counts_as_the_bug_and_slow_does_not() -> None:
    assert seen_text({Verdict.CORRUPT: 3}).startswith("3 of 3")
    assert seen_text({Verdict.SLOW: 2, Verdict.PASSED: 3}).startswith("0 of 5, below")


def test_a_fixed_cell_counts_only_where_its_twin_ran() -> None:
    """fp32 was never run with the bug: it says nothing about the fix of fp16."""
    rows = [
        row("buggy", {"livelock": 4}, shows_bug=True, threads=2, technique="raw_spin", dtype="fp16"),
        row("fixed", {"passed": 5}, threads=2, technique="acquire_yield", dtype="fp16"),
        row("fixed", {"passed": 5}, threads=2, technique="acquire_yield", dtype="fp32"),
    ]
    (claim,) = fix_claims(rows)
    assert claim.fix.fixed_trials == 5
    assert claim.differs == ("technique",)


# --- who is whose twin -----------------------------------------------------------------------------------------------

WIDE: dict[str, int | str] = {"stop": "unlocked", "window_us": 200}
"""The same bug as in `BUGGY`, with a delay in its window."""
BUGGY: dict[str, int | str] = {"stop": "unlocked"}
FIXED: dict[str, int | str] = {"stop": "locked"}


def test_a_widened_twin_does_not_raise_the_rate_that_a_fix_is_held_against() -> None:
    rows = [
        row("buggy", {"livelock": 1, "passed": 29}, shows_bug=True, parameters=BUGGY, threads=2),
        row("widened", {"livelock": 30}, shows_bug=True, parameters=WIDE, threads=2),
        row("fixed", {"passed": 50}, parameters=FIXED, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert (claim.fix.buggy_hangs, claim.fix.buggy_trials) == (1, 30)
    assert claim.fix.holds is None
    assert "the buggy twin hung 1 of 30" in claim.text


def test_a_fix_that_is_widened_alike_is_held_against_the_widened_twin() -> None:
    rows = [
        row("buggy", {"passed": 30}, shows_bug=True, parameters={**BUGGY, "rounds": 9}, threads=2),
        row("widened", {"livelock": 30}, shows_bug=True, parameters=WIDE, threads=2),
        row("alike", {"passed": 50}, role="fixed", parameters={**FIXED, "window_us": 200}, threads=2),
        row("plain", {"passed": 50}, role="fixed", parameters={**FIXED, "rounds": 9}, threads=2),
    ]
    alike, plain = fix_claims(rows)
    assert alike.fix.holds
    assert "the widened twin hung 30 of 30" in alike.text
    assert plain.text.startswith("plain: not reproduced: the buggy twin hung 0 of 30")


def test_a_widened_twin_alone_says_nothing_of_a_fix_that_is_not_widened() -> None:
    rows = [
        row("widened", {"livelock": 30}, shows_bug=True, parameters=WIDE, threads=2),
        row("fixed", {"passed": 50}, parameters=FIXED, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert claim.fix.holds is None
    assert "p =" not in claim.text
    assert "a widened twin hung 30 of 30, which is no rate that this fix was up against" in claim.text


def test_cells_that_only_a_widened_twin_shares_do_not_count() -> None:
    rows = [
        row("buggy", {"livelock": 3}, shows_bug=True, parameters=BUGGY, placement="free"),
        row("widened", {"livelock": 3}, shows_bug=True, parameters=WIDE, placement="free"),
        row("widened", {"livelock": 3}, shows_bug=True, parameters=WIDE, placement="one-core"),
        row("fixed", {"passed": 5}, parameters=FIXED, placement="free"),
        row("fixed", {"passed": 7}, parameters=FIXED, placement="one-core"),
    ]
    (claim,) = fix_claims(rows)
    assert (claim.fix.fixed_trials, claim.fix.buggy_trials) == (5, 3)


def test_another_bug_of_the_scenario_is_no_twin() -> None:
    """It hangs always, by other settings: the fix of the rare one must not be held against it."""
    rows = [
        row("rare", {"livelock": 1, "passed": 9}, role="buggy", shows_bug=True, parameters={"by": "tag"}, threads=2),
        row("mutex", {"deadlock": 9}, role="buggy", shows_bug=True, parameters={"by": "mutex", "calls": 9}, threads=2),
        row("fixed", {"passed": 10}, parameters={"by": "section"}, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert (claim.fix.buggy_hangs, claim.fix.buggy_trials) == (1, 10)


def test_a_parameter_that_only_one_of_them_varies_counts_as_one_that_differs() -> None:
    rows = [
        row("buggy", {"livelock": 1}, shows_bug=True, parameters={"flag": "plain", "body": "yield"}, threads=2),
        row(
            "many",
            {"livelock": 9},
            role="buggy",
            shows_bug=True,
            parameters={"flag": "plain", "body": "empty"},
            threads=2,
            body="empty",
        ),
        row("fixed", {"passed": 9}, parameters={"flag": "acquire", "body": "yield"}, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert (claim.fix.buggy_trials, claim.parameters) == (1, ("flag",))


def test_what_differs_beside_the_fix_is_said() -> None:
    rows = [
        row("buggy", {"livelock": 9}, shows_bug=True, parameters={"stop": "unlocked", "rounds": 5000}, threads=2),
        row("fixed", {"passed": 9}, parameters={"stop": "locked", "rounds": 1500}, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert "the two differ in stop and rounds, which may be more than the fix" in claim.text


@pytest.mark.parametrize(
    ("verdicts", "apart", "said"),
    [
        ({"passed": 30}, {}, ""),
        ({"passed": 28, "slow": 2}, {}, "; 2 slow among them, unfinished at the time limit;"),
        ({"passed": 30}, {"inconclusive": 2, "error": 1}, "; not counted: 2 inconclusive, 1 error;"),
    ],
)
def test_what_is_no_pass_is_told_beside_the_claim(verdicts: dict[str, int], apart: dict[str, int], said: str) -> None:
    rows = [
        row("buggy", {"livelock": 9}, shows_bug=True, threads=2),
        row("fixed", verdicts, apart=apart, threads=2),
    ]
    (claim,) = fix_claims(rows)
    assert claim.fix.fixed_trials == 30
    assert said in claim.text
    assert ("not counted" in claim.text, "slow" in claim.text) == ("not counted" in said, "slow" in said)
