"""Conditions against plain arithmetic, and the sums of half-known values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap.loops.values import OPAQUE, Flags, Head, Value, cut, holds, number, opaque, plus, signed

BYTES = st.integers(0, 255)


def _sub(left: int, right: int) -> Flags:
    return Flags("sub", number(left), number(right), 8)


@given(left=BYTES, right=BYTES)
def test_conditions_of_a_compare(left: int, right: int) -> None:
    small, large = signed(left, 8), signed(right, 8)
    wanted = {
        "e": left == right,
        "b": left < right,
        "be": left <= right,
        "l": small < large,
        "le": small <= large,
        "s": (left - right) & 0x80 != 0,
        "o": not -128 <= small - large <= 127,
    }
    for condition, value in wanted.items():
        assert holds(condition, _sub(left, right)) is value
        assert holds(f"n{condition}", _sub(left, right)) is not value


@given(left=BYTES, right=BYTES)
def test_conditions_of_a_test(left: int, right: int) -> None:
    result = left & right
    for kind, carry in (("and", False), ("test", True)):  # x86; arm64, whose cleared carry is x86's set one
        flags = Flags(kind, number(left), number(right), 8)
        assert holds("e", flags) is (result == 0)
        assert holds("s", flags) is (result >= 0x80)
        assert holds("l", flags) is (result >= 0x80)
        assert holds("b", flags) is carry
        assert holds("be", flags) is (carry or result == 0)
        assert holds("o", flags) is False


@given(word=st.integers(0, 15))
def test_conditions_of_raw_flags(word: int) -> None:
    carry, zero, sign, overflow = (bool(word & bit) for bit in (1, 2, 4, 8))
    flags = Flags("raw", number(word), number(0), 64)
    assert holds("b", flags) is carry
    assert holds("be", flags) is (carry or zero)
    assert holds("nl", flags) is (sign == overflow)
    assert holds("nle", flags) is (not zero and sign == overflow)


@pytest.mark.parametrize("condition", ["b", "be", "l", "le", "o"])
def test_of_a_sum_only_zero_and_sign_are_told(condition: str) -> None:
    flags = Flags("zero", number(0x80), number(0), 8)
    assert holds(condition, flags) is None
    assert (holds("e", flags), holds("s", flags)) == (False, True)


def test_what_is_not_known_is_not_told() -> None:
    unknown = Value(OPAQUE, 0)
    assert holds("e", Flags("sub", unknown, number(1), 8)) is None
    assert holds("e", Flags(OPAQUE, number(1), number(1), 8)) is None
    assert holds("p", _sub(1, 1)) is None


def test_a_place_plus_a_number_stays_that() -> None:
    there = plus(Value("rbp", 0), number(-8))
    assert there == Value("rbp", -8)
    assert plus(number(8), there) == Value("rbp", 0)
    assert plus(number(3), number(-4)) == number((1 << 64) - 1)


def test_two_places_are_worked_on_and_doubling_is_not() -> None:
    assert opaque(Value("rax", 0)).sources == {Head("rax")}
    assert plus(Value("rax", 0), Value("rbx", 0)).sources == {Head("rax", True), Head("rbx", True)}
    assert plus(Value("rax", 0), Value("rax", 0)).sources == {Head("rax")}
    assert cut(Value("rax", 5), 32).base == OPAQUE
    assert cut(number(0x1_0000_0001), 32) == number(1)
