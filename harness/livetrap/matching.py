"""Match tables: which expectation holds for a cell. First match wins. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from livetrap.model import BUGS, Value, VariantRole, Verdict
from livetrap.scenario_model import Expectation, compiler_family

ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "os": ("linux", "macos"),
    "arch": ("x86_64", "arm64"),
    "compiler": ("gcc", "clang"),
}
"""Keys of a match that speak of the machine, not of the scenario, with their valid values."""
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
STANDARD: dict[VariantRole, tuple[Verdict, ...]] = {
    VariantRole.BUGGY: tuple(verdict for verdict in Verdict if verdict in BUGS),
    VariantRole.WIDENED: tuple(verdict for verdict in Verdict if verdict in BUGS),
    VariantRole.FIXED: (Verdict.PASSED,),
    VariantRole.LOOK_ALIKE: (Verdict.PASSED,),
}
"""Accepted verdicts of a cell that no expectation matches: a bug, or none, by the variant's role."""


def comparison(condition: Value) -> tuple[str, int] | None:
    """The operator and the number of a condition such as `>=4`; None for a plain value."""
    match = re.fullmatch(r"(<=?|>=?)\s*(-?\d{1,18})", condition) if isinstance(condition, str) else None
    return (match[1], int(match[2])) if match else None


def value_matches(key: str, condition: Value | Sequence[Value], value: Value | None) -> bool:
    """Whether one condition (a value, a comparison, or a list of which one must hold) is true of a cell's value.

    Flags match when all those of the condition are among the cell's, so that `-O2` matches `-O2 -g` as well; a
    compiler matches by its family.
    """
    if isinstance(condition, Sequence) and not isinstance(condition, str):
        return any(value_matches(key, one, value) for one in condition)
    if value is None:
        return False
    compared = comparison(condition)
    if compared is not None and isinstance(value, int):
        return COMPARISONS[compared[0]](value, compared[1])
    if key == "flags" and isinstance(condition, str) and isinstance(value, str):
        return set(condition.split()) <= set(value.split())
    if key == "compiler" and isinstance(condition, str) and isinstance(value, str):
        return condition in (value, compiler_family(value))
    return condition == value


def matches(expectation: Expectation, *, variant: str, cell: Mapping[str, Value], os: str, arch: str) -> bool:
    """Whether an expectation speaks of this cell."""
    values: dict[str, Value] = {**cell, "variant": variant, "os": os, "arch": arch}
    return all(value_matches(key, condition, values.get(key)) for key, condition in expectation.match.items())


def expectation_of(
    expect: Sequence[Expectation], *, variant: str, role: VariantRole, cell: Mapping[str, Value], os: str, arch: str
) -> Expectation:
    """The first expectation that matches a cell; that of the variant's role where none does."""
    for expectation in expect:
        if matches(expectation, variant=variant, cell=cell, os=os, arch=arch):
            return expectation
    return Expectation(verdicts=STANDARD[role])


def can_show_bug(expectation: Expectation, role: VariantRole) -> bool:
    """Whether a cell of which this is expected could show the bug."""
    return role in (VariantRole.BUGGY, VariantRole.WIDENED) and any(v in BUGS for v in expectation.verdicts)
