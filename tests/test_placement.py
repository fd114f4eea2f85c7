"""Placements on the recorded machines, and what must hold of each on any."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livetrap.errors import HarnessError
from livetrap.model import Cpu, NotAvailable, Placement, Topology
from livetrap.placement import QOS_FAST, QOS_SLOW, check_strategy, place
from tests.test_topology import APPLE, BIG_LITTLE, HYBRID, LAPTOP, SERVER, VM, read


def cpus(strategy: str, topology: Topology, threads: int, seed: int = 1) -> list[int]:
    """The one CPU of each thread."""
    placement = place(strategy, topology, threads=threads, seed=seed)
    assert isinstance(placement, Placement)
    assert all(len(mask) == 1 for mask in placement.cpus)
    return [mask[0] for mask in placement.cpus]


def reason(strategy: str, topology: Topology) -> str:
    placement = place(strategy, topology, threads=2, seed=1)
    assert isinstance(placement, NotAvailable)
    return placement.reason


@pytest.mark.parametrize(
    ("strategy", "dump", "threads", "expected"),
    [
        ("spread", VM, 4, [0, 1, 0, 1]),
        ("spread", LAPTOP, 6, [0, 1, 2, 3, 4, 5]),
        ("pack", LAPTOP, 6, [0, 4, 1, 5, 2, 6]),
        ("spread", SERVER, 9, [0, 4, 1, 5, 2, 6, 3, 7, 8]),
        ("pack", SERVER, 4, [0, 8, 1, 9]),
        ("spread", HYBRID, 8, [0, 2, 4, 5, 6, 7, 1, 3]),
        ("performance", HYBRID, 5, [0, 1, 2, 3, 0]),
        ("efficiency", HYBRID, 3, [4, 5, 6]),
        ("mixed", HYBRID, 4, [0, 4, 1, 5]),
        ("performance", BIG_LITTLE, 2, [7, 7]),
        ("mixed", BIG_LITTLE, 4, [7, 0, 7, 1]),
    ],
)
def test_pinned(strategy: str, dump: dict[str, str], threads: int, expected: list[int]) -> None:
    assert cpus(strategy, read(dump), threads) == expected


def test_free_asks_for_nothing() -> None:
    assert place("free", read(SERVER), threads=64, seed=3) == Placement(requested="free")
    assert place("free", read(APPLE), threads=2, seed=3) == Placement(requested="free")


def test_confined_threads_share_neighbours() -> None:
    placement = place("confined:2", read(SERVER), threads=5, seed=4)
    assert isinstance(placement, Placement)
    assert len(set(placement.cpus)) == 1
    assert len(placement.cpus) == 5
    assert len(placement.cpus[0]) == 2


def test_quality_of_service_on_macos() -> None:
    for strategy, expected in (
        ("performance", (QOS_FAST,) * 3),
        ("efficiency", (QOS_SLOW,) * 3),
        ("mixed", (QOS_FAST, QOS_SLOW, QOS_FAST)),
    ):
        assert place(strategy, read(APPLE), threads=3, seed=0) == Placement(requested=strategy, qos=expected)


@pytest.mark.parametrize("strategy", ["spread", "pack", "one-core", "confined:2", "random"])
def test_macos_says_that_it_pins_nothing(strategy: str) -> None:
    assert reason(strategy, read(APPLE)) == f"{strategy} needs threads pinned to CPUs, which macOS does not offer"


def test_honest_reasons() -> None:
    assert "hybrid machine" in reason("performance", read(VM))
    assert reason("confined:4", read(VM)) == "confined:4 needs 4 CPUs; this process may use 2 (0-1)"
    slow_only = read({**HYBRID, "affinity": "4-7"})
    assert reason("performance", slow_only) == (
        "performance needs a performance CPU; there is none among the 4 (4-7) that this process may use"
    )
    assert "efficiency CPU" in reason("mixed", read({**HYBRID, "affinity": "0-3"}))
    assert "does not say" in reason("spread", read({"/sys/devices/system/cpu/online": "0-3"}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one_core", "did you mean 'one-core'"),
        ("confined", "did you mean 'confined:K'"),
        ("confined:K", "K of confined:K"),
        ("confined:0", "K of confined:K"),
        ("confined:-1", "K of confined:K"),
        ("confined:1000000", "K of confined:K"),
        ("", "known: "),
    ],
)
def test_unknown_names(name: str, words: str) -> None:
    assert words in check_strategy(name)
    with pytest.raises(HarnessError, match="placement"):
        place(name, read(VM), threads=2, seed=0)


# --- properties ------------------------------------------------------------------------------------------------------


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Any machine with affinity: some cores of 1 or 2 CPUs in some packages, some of them allowed."""
    found: list[Cpu] = []
    hybrid = draw(st.booleans())
    for core in range(draw(st.integers(1, 12))):
        package, siblings = draw(st.integers(0, 2)), draw(st.integers(1, 2))
        first = len(found)
        efficiency = draw(st.integers(0, 2)) if hybrid else None
        for _ in range(siblings):
            found.append(Cpu(id=len(found), core=first, package=package, node=package // 2, efficiency=efficiency))
        del core
    allowed = draw(st.sets(st.sampled_from(found).map(lambda cpu: cpu.id), min_size=1))
    return Topology(os="linux", arch="x86_64", cpus=tuple(c for c in found if c.id in allowed), affinity=True)


STRATEGY = st.sampled_from(
    ["free", "spread", "pack", "one-core", "confined:1", "confined:3", "random", "performance", "efficiency", "mixed"]
)
THREADS = st.integers(1, 40)
SEED = st.integers(0, 2**53 - 1)


@settings(max_examples=40, deadline=None)
@given(STRATEGY, machines(), THREADS, SEED)
def test_every_thread_is_on_allowed_cpus_and_the_seed_decides(
    strategy: str, topology: Topology, threads: int, seed: int
) -> None:
    placement = place(strategy, topology, threads=threads, seed=seed)
    assert placement == place(strategy, topology, threads=threads, seed=seed)
    if isinstance(placement, NotAvailable):
        assert strategy in ("confined:3", "performance", "efficiency", "mixed")
        return
    assert placement.requested == strategy
    assert placement.qos == ()
    assert len(placement.cpus) == (0 if strategy == "free" else threads)
    allowed = {cpu.id for cpu in topology.cpus}
    assert all(mask and set(mask) <= allowed for mask in placement.cpus)


@settings(max_examples=40, deadline=None)
@given(machines(), THREADS)
def test_spread_uses_as_many_cores_as_it_can_and_pack_as_few(topology: Topology, threads: int) -> None:
    core = {cpu.id: cpu.core for cpu in topology.cpus}
    sizes = sorted((list(core.values()).count(number) for number in set(core.values())), reverse=True)
    spread, pack = (cpus(name, topology, threads) for name in ("spread", "pack"))
    assert len({core[cpu] for cpu in spread}) == min(threads, len(sizes))
    for used in (spread, pack):
        assert len(set(used)) == min(threads, len(core))
        assert max(used.count(cpu) for cpu in used) - min(used.count(cpu) for cpu in core) <= 1
    order = [core[cpu] for cpu in pack[: len(core)]]
    assert order == sorted(order, key=order.index), "a core is filled before the next begins"


@settings(max_examples=40, deadline=None)
@given(machines(), THREADS)
def test_spread_takes_packages_in_turn(topology: Topology, threads: int) -> None:
    package = {cpu.id: (cpu.node, cpu.package) for cpu in topology.cpus}
    spread = cpus("spread", topology, threads)
    assert len({package[cpu] for cpu in spread}) == min(threads, len(set(package.values())))


@settings(max_examples=40, deadline=None)
@given(machines(), THREADS, SEED)
def test_one_core_is_one_cpu(topology: Topology, threads: int, seed: int) -> None:
    assert len(set(cpus("one-core", topology, threads, seed))) == 1


@settings(max_examples=40, deadline=None)
@given(machines(), THREADS, SEED)
def test_classes_are_kept(topology: Topology, threads: int, seed: int) -> None:
    efficiency = {cpu.id: cpu.efficiency for cpu in topology.cpus}
    most = max((value for value in efficiency.values() if value is not None), default=0)
    for strategy, allowed in (("performance", {most}), ("efficiency", {0}), ("mixed", {0, most})):
        if isinstance(place(strategy, topology, threads=threads, seed=seed), Placement):
            assert {efficiency[cpu] for cpu in cpus(strategy, topology, threads, seed)} <= allowed
