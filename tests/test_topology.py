"""Topologies out of recorded dumps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from livetrap.errors import HarnessError
from livetrap.model import Topology
from livetrap.topology import cpu_list, cpu_list_text, parse

CPU = "/sys/devices/system/cpu"


def linux_dump(
    cores: Iterable[tuple[int, str]], *, affinity: str | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A dump of cores, each as (package, list of its CPUs)."""
    dump: dict[str, str] = {}
    every: list[int] = []
    for core_id, (package, siblings) in enumerate(cores):
        for cpu in cpu_list(siblings):
            every.append(cpu)
            dump[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = f"{package}\n"
            dump[f"{CPU}/cpu{cpu}/topology/core_id"] = f"{core_id % 4}\n"
            dump[f"{CPU}/cpu{cpu}/topology/thread_siblings_list"] = f"{siblings}\n"
    dump[f"{CPU}/online"] = cpu_list_text(every)
    dump["affinity"] = dump[f"{CPU}/online"] if affinity is None else affinity
    return {**dump, **(extra or {})}


# As this project's first machine gave it: every file that `host` reads, new kernels tell a capacity on x86-64 as well.
VM = linux_dump(
    [(0, "0"), (0, "1")],
    extra={
        f"{CPU}/cpu0/cpu_capacity": "1024",
        f"{CPU}/cpu1/cpu_capacity": "1024",
        "/sys/devices/system/node/node0/cpulist": "0-1",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    },
)
LAPTOP = linux_dump([(0, "0,4"), (0, "1,5"), (0, "2,6"), (0, "3,7")])
SERVER = linux_dump(
    [(core // 4, f"{core},{core + 8}") for core in range(8)],
    extra={"/sys/devices/system/node/node0/cpulist": "0-3,8-11", "/sys/devices/system/node/node1/cpulist": "4-7,12-15"},
)
HYBRID = linux_dump(
    [(0, "0-1"), (0, "2-3"), (0, "4"), (0, "5"), (0, "6"), (0, "7")],
    extra={
        "/sys/devices/cpu_core/cpus": "0-3",
        "/sys/devices/cpu_atom/cpus": "4-7",
        **{f"{CPU}/cpu{cpu}/cpu_capacity": str(1024 - 9 * (cpu % 4)) for cpu in range(4)},
        **{f"{CPU}/cpu{cpu}/cpu_capacity": "623" for cpu in range(4, 8)},
    },
)
BIG_LITTLE = linux_dump(
    [(0, str(cpu)) for cpu in range(8)],
    extra={f"{CPU}/cpu{cpu}/cpu_capacity": str((250, 620, 1024)[(cpu >= 4) + (cpu >= 7)]) for cpu in range(8)},
)
APPLE = {
    "hw.logicalcpu": "8",
    "hw.physicalcpu": "8",
    "hw.packages": "1",
    "hw.nperflevels": "2",
    "hw.perflevel0.logicalcpu": "4",
    "hw.perflevel0.name": "Performance",
    "hw.perflevel1.logicalcpu": "4",
}


def read(dump: Mapping[str, str]) -> Topology:
    return parse(dump, os="macos", arch="arm64") if "hw.logicalcpu" in dump else parse(dump, os="linux", arch="x86_64")


@pytest.mark.parametrize(
    ("dump", "cpus", "cores", "packages", "nodes", "classes"),
    [
        pytest.param(VM, 2, 2, 1, 1, None, id="2-core VM"),
        pytest.param(LAPTOP, 8, 4, 1, 1, None, id="4-core laptop with SMT"),
        pytest.param(SERVER, 16, 8, 2, 2, None, id="2 sockets, 2 nodes"),
        pytest.param(HYBRID, 8, 6, 1, 1, [1, 1, 1, 1, 0, 0, 0, 0], id="hybrid Intel"),
        pytest.param(BIG_LITTLE, 8, 8, 1, 1, [0, 0, 0, 0, 1, 1, 1, 2], id="big.LITTLE of three classes"),
        pytest.param(APPLE, 8, 8, 1, 1, [0, 0, 0, 0, 1, 1, 1, 1], id="Apple M"),
    ],
)
def test_machines(
    dump: Mapping[str, str], cpus: int, cores: int, packages: int, nodes: int, classes: list[int] | None
) -> None:
    topology = read(dump)
    alike: list[int | None] = [None] * cpus
    assert [cpu.id for cpu in topology.cpus] == list(range(cpus))
    assert len({cpu.core for cpu in topology.cpus}) == cores
    assert len({cpu.package for cpu in topology.cpus}) == packages
    assert len({cpu.node for cpu in topology.cpus}) == nodes
    assert [cpu.efficiency for cpu in topology.cpus] == (classes or alike)
    assert topology.quota_cpus is None


def test_macos_pins_nothing() -> None:
    topology = read(APPLE)
    assert (topology.os, topology.affinity, topology.qos) == ("macos", False, True)


def test_intel_mac_has_siblings_and_no_classes() -> None:
    topology = parse({"hw.logicalcpu": "8", "hw.physicalcpu": "4"}, os="macos", arch="x86_64")
    assert [cpu.core for cpu in topology.cpus] == [0, 0, 2, 2, 4, 4, 6, 6]
    assert {cpu.efficiency for cpu in topology.cpus} == {None}


def test_affinity_mask_restricts_and_keeps_classes_of_the_whole_machine() -> None:
    topology = read({**HYBRID, "affinity": "4-6"})
    assert [(cpu.id, cpu.efficiency) for cpu in topology.cpus] == [(4, 0), (5, 0), (6, 0)]
    assert topology.affinity


def test_allowed_cpus_that_are_offline_do_not_count() -> None:
    assert [cpu.id for cpu in read({**VM, "affinity": "0-63"}).cpus] == [0, 1]


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"/sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"/sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"/sys/fs/cgroup/cpu.max": "max 100000", "/sys/fs/cgroup/a/cpu.max": "50000 100000"}, 0.5),
        ({"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "20000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "10000"}, 2.0),
        ({"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
        ({"/sys/fs/cgroup/cpu.max": ""}, None),
        ({"/sys/fs/cgroup/cpu.max": "garbage 0"}, None),
    ],
)
def test_quota(files: Mapping[str, str], quota: float | None) -> None:
    assert read({**LAPTOP, **files}).quota_cpus == quota


def test_a_machine_that_tells_only_its_cpus_has_one_core_each() -> None:
    topology = parse({"affinity": "0-2"}, os="linux", arch="arm64")
    assert [(cpu.core, cpu.package, cpu.node) for cpu in topology.cpus] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]


def test_without_affinity_nothing_can_be_pinned() -> None:
    assert not parse({f"{CPU}/online": "0-3"}, os="linux", arch="arm64").affinity


@pytest.mark.parametrize("dump", [{}, {"affinity": "x"}, {"hw.logicalcpu": "0"}])
def test_no_cpu_at_all(dump: Mapping[str, str]) -> None:
    with pytest.raises(HarnessError, match="no CPU found") as caught:
        read(dump)
    assert caught.value.status == 3


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("5\n", (5,)), ("3-1", ()), ("a,1", (1,)), ("0-99999999999", ())],
)
def test_cpu_list(text: str, cpus: tuple[int, ...]) -> None:
    assert cpu_list(text) == cpus


def test_cpu_list_text() -> None:
    assert cpu_list_text([8, 0, 1, 2, 4, 5]) == "0-2,4-5,8"
    assert cpu_list_text([]) == ""
