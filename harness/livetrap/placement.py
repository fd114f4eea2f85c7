"""Turns the name of a placement into CPUs for each thread, on a given topology. Pure.

    free           wherever the system puts them
    spread         one thread a core, across nodes and packages first; then the cores' other CPUs; then round again
    pack           as close together as they fit: a core's siblings, then its neighbours
    one-core       all on one CPU
    confined:K     all on the same K neighbouring CPUs, moving freely among them
    random         each pinned to a CPU of its own luck; two may meet
    performance    on the fast CPUs of a hybrid machine (macOS: quality-of-service class user-interactive)
    efficiency     on the slow ones (macOS: class background)
    mixed          in turn on a fast and on a slow one

More threads than CPUs wrap round. macOS pins nothing: there the last three are quality-of-service classes, a hint, and
the rest but `free` is not available.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from livetrap.errors import HarnessError, nearest
from livetrap.model import Cpu, NotAvailable, Placement, Topology
from livetrap.topology import cpu_list_text

QOS_FAST = 0x21
"""QOS_CLASS_USER_INTERACTIVE of <sys/qos.h>."""
QOS_SLOW = 0x09
"""QOS_CLASS_BACKGROUND of <sys/qos.h>."""
MOST_CONFINED = 4096

STRATEGIES = ("free", "spread", "pack", "one-core", "confined:K", "random", "performance", "efficiency", "mixed")
"""All names; K of `confined:K` is a number of CPUs."""
CLASSES = ("performance", "efficiency", "mixed")
"""Those that need a hybrid machine."""

Pins = tuple[tuple[int, ...], ...]


def check_strategy(name: str) -> str:
    """What is wrong with the name of a placement, in words; empty when nothing is."""
    match = re.fullmatch(r"confined:(.*)", name)
    if match is None:
        return "" if name in STRATEGIES and name != "confined:K" else f"unknown placement {name!r}; {_known(name)}"
    if re.fullmatch(r"[1-9]\d{0,5}", match[1]) and int(match[1]) <= MOST_CONFINED:
        return ""
    return f"placement {name!r}: K of confined:K must be a number of CPUs from 1 to {MOST_CONFINED}, e.g. confined:2"


def place(strategy: str, topology: Topology, *, threads: int, seed: int) -> Placement | NotAvailable:
    """The placement of `threads` threads, or why this machine does not have it.

    The same arguments give the same placement. Raises HarnessError for a name that is no placement.
    """
    wrong = check_strategy(strategy)
    if wrong:
        raise HarnessError(wrong)
    if strategy == "free":
        return Placement(requested=strategy)
    if strategy in CLASSES:
        reason = _class_missing(strategy, topology)
        if reason:
            return NotAvailable(reason=reason)
        if not topology.affinity:
            return Placement(requested=strategy, qos=_qos(strategy, threads))
    elif not topology.affinity:
        return NotAvailable(reason=_unpinnable(strategy, topology))
    if strategy.startswith("confined:"):
        return _confined(strategy, topology, threads=threads, seed=seed)
    return Placement(requested=strategy, cpus=_PINNED[strategy](topology.cpus, threads, seed))


def place_command(strategy: str, topology: Topology, *, seed: int) -> Placement | NotAvailable:
    """The CPUs of a command, one entry for all its threads; or why this machine does not have that placement.

    Raises HarnessError for a name that is no placement.
    """
    if strategy in ("free", "one-core", "random") or strategy.startswith("confined:"):
        return place(strategy, topology, threads=1, seed=seed)
    wrong = check_strategy(strategy)
    if wrong:
        raise HarnessError(wrong)
    return NotAvailable(reason=f"{strategy}: the threads of a command cannot be placed one by one")


# --- pinned to CPUs --------------------------------------------------------------------------------------------------


def _spread(cpus: Sequence[Cpu], threads: int, _seed: int) -> Pins:
    """Every core once before any core twice; nodes and packages in turn."""
    cores: dict[tuple[int, int, int], list[Cpu]] = {}
    for cpu in _packed(cpus):
        cores.setdefault((cpu.node, cpu.package, cpu.core), []).append(cpu)
    place_in_group: dict[tuple[int, int], int] = {}
    ranked = []
    for (node, package, _core), siblings in cores.items():
        index = place_in_group.setdefault((node, package), 0)
        place_in_group[node, package] += 1
        ranked += [((sibling, index, node, package), cpu.id) for sibling, cpu in enumerate(siblings)]
    return _wrapped([cpu for _rank, cpu in sorted(ranked)], threads)


def _pack(cpus: Sequence[Cpu], threads: int, _seed: int) -> Pins:
    return _wrapped([cpu.id for cpu in _packed(cpus)], threads)


def _one_core(cpus: Sequence[Cpu], threads: int, seed: int) -> Pins:
    return _wrapped([random.Random(seed).choice([cpu.id for cpu in cpus])], threads)


def _random(cpus: Sequence[Cpu], threads: int, seed: int) -> Pins:
    source = random.Random(seed)
    return tuple((source.choice(cpus).id,) for _ in range(threads))


def _performance(cpus: Sequence[Cpu], threads: int, _seed: int) -> Pins:
    return _wrapped(_fast(cpus), threads)


def _efficiency(cpus: Sequence[Cpu], threads: int, _seed: int) -> Pins:
    return _wrapped(_slow(cpus), threads)


def _mixed(cpus: Sequence[Cpu], threads: int, _seed: int) -> Pins:
    sides = (_fast(cpus), _slow(cpus))
    return tuple((sides[i % 2][i // 2 % len(sides[i % 2])],) for i in range(threads))


_PINNED: dict[str, Callable[[Sequence[Cpu], int, int], Pins]] = {
    "spread": _spread,
    "pack": _pack,
    "one-core": _one_core,
    "random": _random,
    "performance": _performance,
    "efficiency": _efficiency,
    "mixed": _mixed,
}


def _confined(strategy: str, topology: Topology, *, threads: int, seed: int) -> Placement | NotAvailable:
    wanted = int(strategy.removeprefix("confined:"))
    order = [cpu.id for cpu in _packed(topology.cpus)]
    if wanted > len(order):
        return NotAvailable(reason=f"{strategy} needs {wanted} CPUs; this process may use {_amount(order)}")
    first = random.Random(seed).randrange(len(order))
    chosen = tuple(sorted((order + order)[first : first + wanted]))
    return Placement(requested=strategy, cpus=(chosen,) * threads)


def _packed(cpus: Sequence[Cpu]) -> list[Cpu]:
    """Neighbours beside each other."""
    return sorted(cpus, key=lambda cpu: (cpu.node, cpu.package, cpu.core, cpu.id))


def _wrapped(order: Sequence[int], threads: int) -> Pins:
    return tuple((order[i % len(order)],) for i in range(threads))


# --- classes of a hybrid machine -------------------------------------------------------------------------------------


def _fast(cpus: Sequence[Cpu]) -> list[int]:
    most = max(cpu.efficiency or 0 for cpu in cpus)
    return [cpu.id for cpu in _packed(cpus) if cpu.efficiency == most]


def _slow(cpus: Sequence[Cpu]) -> list[int]:
    return [cpu.id for cpu in _packed(cpus) if cpu.efficiency == 0]


def _qos(strategy: str, threads: int) -> tuple[int, ...]:
    if strategy == "mixed":
        return tuple((QOS_FAST, QOS_SLOW)[i % 2] for i in range(threads))
    return ({"performance": QOS_FAST, "efficiency": QOS_SLOW}[strategy],) * threads


def _class_missing(strategy: str, topology: Topology) -> str:
    """Why a class of CPUs cannot be had here; empty when it can."""
    classes = {cpu.efficiency for cpu in topology.cpus if cpu.efficiency is not None}
    if not classes:
        return f"{strategy} needs a hybrid machine; all CPUs here are alike, as far as the system tells"
    if not topology.affinity and not topology.qos:
        return _unpinnable(strategy, topology)
    usable = _amount([cpu.id for cpu in topology.cpus])
    if strategy != "efficiency" and max(classes) == 0:
        return f"{strategy} needs a performance CPU; there is none among the {usable} that this process may use"
    if strategy != "performance" and min(classes) > 0:
        return f"{strategy} needs an efficiency CPU; there is none among the {usable} that this process may use"
    return ""


def _unpinnable(strategy: str, topology: Topology) -> str:
    if topology.os == "macos":
        return f"{strategy} needs threads pinned to CPUs, which macOS does not offer"
    return f"{strategy} needs threads pinned to CPUs, and this system does not say which it would allow"


def _amount(cpus: Sequence[int]) -> str:
    return f"{len(cpus)} ({cpu_list_text(cpus)})"


def _known(name: str) -> str:
    return nearest(name, STRATEGIES)
