"""Reads a machine's topology out of text that a hand has dumped. Pure.

The dump is a mapping from names to text, missing names simply left out:

On Linux, each key is the path of a file and its value the file's text, plus the pseudo-key `affinity`:

    affinity                                                    CPUs that this process may use, as a list: `0-3,8`
    /sys/devices/system/cpu/online                              CPUs that there are, as a list
    /sys/devices/system/cpu/cpuN/topology/physical_package_id
    /sys/devices/system/cpu/cpuN/topology/core_id
    /sys/devices/system/cpu/cpuN/topology/thread_siblings_list  (or core_cpus_list, its newer name)
    /sys/devices/system/cpu/cpuN/cpu_capacity                   arm big.LITTLE (1024 = the fastest)
    /sys/devices/system/node/nodeN/cpulist                      NUMA nodes
    /sys/devices/cpu_core/cpus, /sys/devices/cpu_atom/cpus, /sys/devices/cpu_lowpower/cpus    hybrid Intel
    .../cpu.max                                                 cgroup 2, of any level: `max 100000`, `150000 100000`
    .../cpu.cfs_quota_us with .../cpu.cfs_period_us             cgroup 1, of any level

On macOS, each key is the name of a sysctl: `hw.logicalcpu`, `hw.physicalcpu`, `hw.packages`, `hw.nperflevels`,
`hw.perflevelN.logicalcpu` (level 0 is the fastest).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from livetrap.errors import HarnessError
from livetrap.model import Cpu, Topology

CPU = "/sys/devices/system/cpu"
HYBRID = ("/sys/devices/cpu_lowpower/cpus", "/sys/devices/cpu_atom/cpus", "/sys/devices/cpu_core/cpus")
"""Kinds of CPU on a hybrid Intel machine, the most efficient first."""
ALIKE = 1.1
"""Capacities within this factor are of one class: firmware gives favoured cores of one kind slightly more."""
MOST_CPUS = 65_536


def parse(dump: Mapping[str, str], *, os: str, arch: str) -> Topology:
    """The topology of a dump (see the module's text for its form).

    `os` is `linux` or `macos`, `arch` `x86_64` or `arm64`. Unreadable parts are taken as missing: a machine that tells
    nothing but its CPUs has one core each in one package. Raises HarnessError when not even one CPU can be found.
    """
    topology = _macos(dump, arch=arch) if os == "macos" else _linux(dump, os=os, arch=arch)
    if not topology.cpus:
        raise HarnessError("no CPU found in what the system tells of its topology", status=3)
    return topology


def cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers of a kernel list such as `0-3,8`, ascending; empty for anything else."""
    found: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            continue
        first, last = int(match[1]), int(match[2] or match[1])
        if last < MOST_CPUS:
            found.update(range(first, last + 1))
    return tuple(sorted(found))


def cpu_list_text(cpus: Iterable[int]) -> str:
    """The same the other way: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


# --- Linux -----------------------------------------------------------------------------------------------------------


def _linux(dump: Mapping[str, str], *, os: str, arch: str) -> Topology:
    allowed = cpu_list(dump.get("affinity", ""))
    online = cpu_list(dump.get(f"{CPU}/online", "")) or allowed
    # A process may be allowed CPUs that are offline; one CPU of the mask is always online.
    usable = [cpu for cpu in online if not allowed or cpu in allowed] or list(allowed)
    nodes = _nodes(dump)
    classes = _classes(dump, online)
    cpus = tuple(
        Cpu(
            id=cpu,
            core=_core(dump, cpu),
            package=max(0, _number(dump.get(f"{CPU}/cpu{cpu}/topology/physical_package_id")) or 0),
            node=nodes.get(cpu, 0),
            efficiency=classes.get(cpu),
        )
        for cpu in usable
    )
    return Topology(os=os, arch=arch, cpus=cpus, affinity=bool(allowed), quota_cpus=_quota(dump))


def _core(dump: Mapping[str, str], cpu: int) -> int:
    """A core's number, unique in the machine: the lowest of its CPUs (`core_id` is unique within a die only)."""
    folder = f"{CPU}/cpu{cpu}/topology"
    for name in ("thread_siblings_list", "core_cpus_list"):
        siblings = cpu_list(dump.get(f"{folder}/{name}", ""))
        if cpu in siblings:
            return siblings[0]
    return cpu


def _nodes(dump: Mapping[str, str]) -> dict[int, int]:
    nodes: dict[int, int] = {}
    for key, text in dump.items():
        match = re.fullmatch(r"/sys/devices/system/node/node(\d+)/cpulist", key)
        if match:
            nodes.update(dict.fromkeys(cpu_list(text), int(match[1])))
    return nodes


def _classes(dump: Mapping[str, str], online: Iterable[int]) -> dict[int, int]:
    """Efficiency class of each CPU, 0 the most efficient; empty where all are alike.

    Looked at over the whole machine, so that a process confined to one class is still told which it is.
    """
    kinds = [cpu_list(dump.get(path, "")) for path in HYBRID]
    present = [kind for kind in kinds if kind]
    if len(present) > 1:
        return {cpu: rank for rank, kind in enumerate(present) for cpu in kind}
    capacities = {cpu: _number(dump.get(f"{CPU}/cpu{cpu}/cpu_capacity")) for cpu in online}
    known = {cpu: capacity for cpu, capacity in capacities.items() if capacity is not None and capacity > 0}
    ranks: dict[int, int] = {}
    least, rank = 0.0, -1
    for capacity in sorted(set(known.values())):
        if capacity > least * ALIKE:
            least, rank = capacity, rank + 1
        ranks[capacity] = rank
    return {cpu: ranks[capacity] for cpu, capacity in known.items()} if rank > 0 else {}


def _quota(dump: Mapping[str, str]) -> float | None:
    """The tightest CPU quota of all levels, in CPUs."""
    found: list[float] = []
    for key, text in dump.items():
        quota = period = None
        if key.endswith("/cpu.max"):
            words = text.split()
            quota, period = _number(words[0] if words else None), _number(words[1] if len(words) > 1 else "100000")
        elif key.endswith("/cpu.cfs_quota_us"):
            quota = _number(text)
            period = _number(dump.get(key.removesuffix("quota_us") + "period_us", "100000"))
        if quota is not None and period is not None and quota > 0 and period > 0:
            found.append(quota / period)
    return min(found, default=None)


# --- macOS -----------------------------------------------------------------------------------------------------------


def _macos(dump: Mapping[str, str], *, arch: str) -> Topology:
    levels = max(1, _number(dump.get("hw.nperflevels")) or 1)
    total = min(_number(dump.get("hw.logicalcpu")) or 0, MOST_CPUS)
    cores = _number(dump.get("hw.physicalcpu")) or total
    per_core = max(1, total // cores) if cores > 0 else 1
    packages = max(1, _number(dump.get("hw.packages")) or 1)
    classes: list[int | None] = [None] * total
    if levels > 1:
        # macOS counts the efficient CPUs first. The numbers serve only to tell CPUs apart: nothing can be pinned.
        counts = [max(0, _number(dump.get(f"hw.perflevel{level}.logicalcpu")) or 0) for level in range(levels)]
        ranked = [rank for rank, count in enumerate(reversed(counts)) for _ in range(min(count, MOST_CPUS))]
        classes = [*ranked, *([levels - 1] * max(0, total - len(ranked)))]
    cpus = tuple(
        Cpu(
            id=cpu,
            core=cpu // per_core * per_core,
            package=cpu * packages // len(classes),
            efficiency=efficiency,
        )
        for cpu, efficiency in enumerate(classes)
    )
    return Topology(os="macos", arch=arch, cpus=cpus, affinity=False, qos=True)


def _number(text: str | None) -> int | None:
    try:
        return int(text.strip()) if text is not None else None
    except ValueError:
        return None
