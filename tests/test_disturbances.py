"""What is a disturbance, where it can be had, and that a seed decides all of it."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap.disturbances import (
    DEFAULT_JITTER_US,
    STEPPED,
    Disturbance,
    Kind,
    Part,
    Step,
    available,
    destinations,
    parse,
    schedule,
)
from livetrap.errors import HarnessError
from livetrap.model import Cpu, Topology

TWO = Topology(
    os="linux", arch="x86_64", cpus=(Cpu(id=0, core=0, package=0), Cpu(id=1, core=1, package=0)), affinity=True
)
ONE = msgspec.structs.replace(TWO, cpus=TWO.cpus[:1])
MAC = msgspec.structs.replace(TWO, os="macos", affinity=False)
MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "parts", "full"),
    [
        ("", (), ""),
        ("none", (), ""),
        ("hogs:4", (Part(kind=Kind.HOGS, amount=4),), "hogs:4"),
        ("migrate", (Part(kind=Kind.MIGRATE),), "migrate"),
        ("quota:150", (Part(kind=Kind.QUOTA, amount=150),), "quota:150"),
        ("jitter", (Part(kind=Kind.JITTER, amount=DEFAULT_JITTER_US),), "jitter:50"),
        ("jitter:7 + pause", (Part(kind=Kind.JITTER, amount=7), Part(kind=Kind.PAUSE)), "jitter:7+pause"),
        ("hogs:02+demote", (Part(kind=Kind.HOGS, amount=2), Part(kind=Kind.DEMOTE)), "hogs:2+demote"),
    ],
)
def test_parsed(text: str, parts: tuple[Part, ...], full: str) -> None:
    found = parse(text)
    assert found == Disturbance(parts=parts)
    assert found.text == full
    assert parse(found.text) == found


def test_amounts() -> None:
    found = parse("hogs:3+migrate")
    assert [found.amount(kind) for kind in (Kind.HOGS, Kind.MIGRATE, Kind.JITTER)] == [3, 0, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hog:4", "unknown disturbance 'hog:4'; did you mean 'hogs'? (there are hogs:N, migrate, demote, pause, "),
        ("xyz", "unknown disturbance 'xyz' (there are hogs:N"),
        ("pause+", "unknown disturbance '' in 'pause+' (there are"),
        ("migrate+none", "none cannot be joined with others"),
        ("hogs", "hogs takes a number of processes from 1 to 256, for example 'hogs:4'"),
        ("hogs:0", "hogs takes a number of processes from 1 to 256"),
        ("hogs:257", "hogs takes a number of processes from 1 to 256"),
        ("hogs:-1", "hogs takes a number"),
        ("hogs:\u0664", "hogs takes a number"),
        ("quota:0", "quota takes a percentage of one CPU from 1 to 100000, for example 'quota:50'"),
        ("jitter:", "jitter takes a number of microseconds from 1 to 1000"),
        ("jitter:1001", "jitter takes a number of microseconds from 1 to 1000"),
        ("pause:5", "pause takes no amount; right would be 'pause'"),
        ("pause+hogs:1+pause", "pause stands there twice"),
    ],
)
def test_what_is_none_is_told(text: str, said: str) -> None:
    with pytest.raises(HarnessError) as failure:
        parse(text)
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)
    assert failure.value.status == 2


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except HarnessError:
        return
    assert parse(found.text) == found


@pytest.mark.parametrize(
    ("text", "topology", "for_kernel", "lacking", "reason"),
    [
        ("none", ONE, False, {}, ""),
        ("hogs:2+migrate+demote+pause+quota:50", TWO, False, {}, ""),
        ("jitter", TWO, True, {}, ""),
        ("hogs:2+jitter", TWO, False, {}, "jitter: only for livetrap's own kernels"),
        ("migrate", ONE, True, {}, "migrate: this process may use one CPU only"),
        ("migrate", MAC, True, {}, "migrate: threads cannot be pinned to CPUs here"),
        ("demote", MAC, True, {}, "demote: Linux only"),
        ("pause+quota:5", MAC, True, {}, "quota: Linux only"),
        ("hogs:1+pause+jitter", MAC, True, {}, ""),
        ("pause+quota:5", TWO, True, {"quota": "no control group"}, "quota: no control group"),
        ("pause", TWO, True, {"quota": "no control group"}, ""),
    ],
)
def test_where_it_can_be_had(
    text: str, topology: Topology, for_kernel: bool, lacking: dict[str, str], reason: str
) -> None:
    assert available(parse(text), topology=topology, for_kernel=for_kernel, lacking=lacking) == reason


@pytest.mark.parametrize("kind", sorted(STEPPED))
def test_a_seed_decides_the_schedule(kind: Kind) -> None:
    def steps(seed: int) -> list[Step]:
        return list(itertools.islice(schedule(kind, seed), 300))

    assert steps(5) == steps(5)
    assert steps(5) != steps(6)
    first, *rest = steps(5)
    assert first.after_ns <= 2 * MS
    assert all(0 < step.after_ns <= 100 * MS for step in rest)
    if kind is Kind.MIGRATE:
        assert {step.for_ns for step in rest} == {0}
    else:
        assert all(MS <= step.for_ns <= 50 * MS for step in rest)
        assert min(step.for_ns for step in rest) < 3 * MS
        assert max(step.for_ns for step in rest) > 30 * MS


def test_kinds_do_not_share_their_luck() -> None:
    assert next(schedule(Kind.DEMOTE, 1)).thread != next(schedule(Kind.PAUSE, 1)).thread


@given(luck=st.integers(0, 2**32 - 1), threads=st.integers(0, 40))
def test_destinations(luck: int, threads: int) -> None:
    step = Step(after_ns=1, thread=0, luck=luck, for_ns=0)
    found = destinations(step, threads=threads, cpus=(3, 5))
    assert found == destinations(step, threads=threads, cpus=(3, 5))
    assert min(threads, 1) <= len(found) <= threads
    assert set(found) <= set(range(threads))
    assert set(found.values()) <= {3, 5}


def test_about_half_of_the_threads_move() -> None:
    moved = [
        len(destinations(step, threads=8, cpus=(0, 1))) for step in itertools.islice(schedule(Kind.MIGRATE, 1), 200)
    ]
    assert 3.5 < sum(moved) / len(moved) < 4.5
