"""What a run may claim about a fix."""

from __future__ import annotations

from livetrap.claims import fix_claims, seen_text
from livetrap.expectations import Row
from livetrap.model import VariantRole, Verdict


def row(variant: str, verdicts: dict[str, int], *, shows_bug: bool = False, **cell: int | str) -> Row:
    counts = {Verdict(name): count for name, count in verdicts.items()}
    return Row(
        variant=variant,
        role=VariantRole(variant),
        cell=cell,
        planned=sum(verdicts.values()),
        n=sum(verdicts.values()),
        verdicts=counts,
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
