"""Owners of mutexes, from the bytes that glibc keeps; and cycles of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from livetrap import ownership
from livetrap.model import ThreadId
from livetrap.ownership import Sleep
from livetrap.wake import FutexWait

WAITERS = 1 << 31


def mutex(*, lock: int = 2, count: int = 0, owner: int = 101, users: int = 1, kind: int = 0) -> bytes:
    return struct.pack("<IIIII", lock, count, owner, users, kind)


def wait(value: int | None = 2, *, names_owner: bool = False) -> FutexWait:
    return FutexWait(0x7F0000000010, value, names_owner)


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 128, 256, 512, 1 | 128])
def test_the_owner_stands_beside_the_futex(kind: int) -> None:
    assert ownership.owner(wait(), mutex(kind=kind)) == 101


@pytest.mark.parametrize(
    ("call", "memory"),
    [
        (wait(1), mutex()),
        (wait(None), mutex()),
        (wait(), mutex(lock=0)),
        (wait(), mutex(lock=1)),
        (wait(), mutex(owner=0)),
        (wait(), mutex(users=0)),
        (wait(), mutex(kind=64)),
        (wait(), mutex(kind=0x7F00)),
        (wait(), mutex()[:-1]),
        (wait(), b""),
        (wait(101 | WAITERS), mutex(kind=16)),
        (wait(101 | WAITERS), mutex(lock=102 | WAITERS, kind=16)),
        (wait(None, names_owner=True), b""),
        (wait(None, names_owner=True), (WAITERS).to_bytes(4, "little")),
    ],
)
def test_what_is_no_mutex_that_someone_owns(call: FutexWait, memory: bytes) -> None:
    assert ownership.owner(call, memory) is None


def test_a_robust_mutex_has_its_owner_twice() -> None:
    assert ownership.owner(wait(101 | WAITERS), mutex(lock=101 | WAITERS, kind=16)) == 101


def test_a_futex_that_inherits_priority_names_its_owner() -> None:
    assert ownership.owner(wait(None, names_owner=True), (77 | WAITERS).to_bytes(4, "little")) == 77


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (wait(2), True),
        (wait(101 | WAITERS), True),
        (wait(None, names_owner=True), True),
        (wait(0), False),
        (wait(1), False),
        (wait(None), False),
    ],
)
def test_what_may_be_a_mutex(call: FutexWait, expected: bool) -> None:
    assert ownership.may_be_mutex(call) is expected


@given(some.binary(max_size=24), some.integers(0, 2**32 - 1) | some.none(), some.booleans())
def test_no_bytes_make_it_raise(memory: bytes, value: int | None, names_owner: bool) -> None:
    ownership.owner(wait(value, names_owner=names_owner), memory)
    ownership.waits_for_itself(memory)


@pytest.mark.parametrize(
    ("kind", "expected"), [(0, True), (1, False), (2, False), (3, True), (128, True), (129, False)]
)
def test_which_mutex_hangs_its_own_owner(kind: int, expected: bool) -> None:
    assert ownership.waits_for_itself(mutex(kind=kind)) is expected


def id_(tid: int) -> ThreadId:
    return ThreadId(100, tid)


def sleep(owner: int, *, call: str = "202 0x10", ran: bytes = b"7 1") -> Sleep:
    return Sleep(call=call, ran=ran, owner=id_(owner))


def test_what_three_readings_agree_on_is_settled() -> None:
    reading = {id_(1): sleep(2), id_(2): sleep(1)}
    assert ownership.settled([reading] * 3) == {id_(1): id_(2), id_(2): id_(1)}


@pytest.mark.parametrize(
    "other",
    [{}, {1: sleep(3)}, {1: sleep(2, call="202 0x20")}, {1: sleep(2, ran=b"8 1")}],
    ids=["gone", "another owner", "another call", "it ran"],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_moved_is_not(other: dict[int, Sleep], at: int) -> None:
    readings = [{id_(1): sleep(2)} for _ in range(3)]
    readings[at] = {id_(tid): seen for tid, seen in other.items()}
    assert ownership.settled(readings) == {}


def test_too_few_readings_and_threads_that_may_have_run_settle_nothing() -> None:
    assert ownership.settled([{id_(1): sleep(2)}] * 2) == {}
    assert ownership.settled([]) == {}
    assert ownership.settled([{id_(1): sleep(2, ran=b"")}] * 3) == {}


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ({}, ()),
        ({1: 2}, ()),
        ({1: 2, 2: 3}, ()),
        ({1: 1}, (1,)),
        ({1: 2, 2: 1}, (1, 2)),
        ({3: 1, 1: 2, 2: 3}, (1, 2, 3)),
        ({1: 3, 3: 2, 2: 1}, (1, 3, 2)),
        ({1: 2, 2: 5, 5: 4, 4: 5}, (4, 5)),
        ({9: 8, 8: 9, 1: 2, 4: 3, 3: 4}, (3, 4)),
    ],
)
def test_cycles(owners: dict[int, int], expected: tuple[int, ...]) -> None:
    found = ownership.cycle({id_(tid): id_(owner) for tid, owner in owners.items()})
    assert found == tuple(map(id_, expected))


@given(some.dictionaries(some.integers(0, 30), some.integers(0, 30)))
def test_a_cycle_is_one(owners: dict[int, int]) -> None:
    edges = {id_(tid): id_(owner) for tid, owner in owners.items()}
    found = ownership.cycle(edges)
    for at, thread in enumerate(found):
        assert edges[thread] == found[(at + 1) % len(found)]
    acyclic = True
    for start in edges:
        seen, at_ = set(), start
        while at_ in edges and at_ not in seen:
            seen.add(at_)
            at_ = edges[at_]
        acyclic &= at_ not in seen
    assert bool(found) is not acyclic
