"""`livetrap doctor`: what this machine can do, each [ok] or [n/a] and why."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator

from rich.text import Text

from livetrap import build, host, store
from livetrap.database import check_place
from livetrap.errors import HarnessError
from livetrap.model import Frozen, NotAvailable, Topology
from livetrap.placement import STRATEGIES, place
from livetrap.report.text import console, one_line, plural
from livetrap.scenario_model import COMPILERS
from livetrap.topology import cpu_list_text

THREADS = 2
"""Of the placements that are tried out, on paper."""
HEADERS = "Python.h"
BUILDS = "builds"


class Check(Frozen, kw_only=True):
    """One thing that this machine has or has not."""

    name: str
    ok: bool
    text: str


def doctor_command() -> int:
    """What this machine can do: cores, quota, compilers, placements, probes; exits 3 if it can run no trial."""
    topology = host.topology()
    compilers = list(compiler_checks())
    folders = list(folder_checks())
    sections = {
        "machine": list(machine_checks(topology)),
        "compilers": compilers,
        "folders": folders,
        "placements": list(placement_checks(topology)),
        "probes": [Check(name=name, ok=ok, text=text) for name, ok, text in host.checks()],
    }
    out = console(sys.stdout)
    for title, checks in sections.items():
        out.print(Text(title, style="bold"))
        width = max((len(check.name) for check in checks), default=0)
        for check in checks:
            mark = Text("[ok] ", style="green") if check.ok else Text("[n/a]", style="yellow")
            line = Text.assemble("  ", mark, f" {one_line(check.name):<{width}}  {one_line(check.text, most=1000)}")
            out.print(line, soft_wrap=True)
    needed = {check.name: check.ok for check in (*compilers, *folders)}
    usable = any(needed[name] for name in COMPILERS) and needed[HEADERS] and needed[BUILDS]
    return 0 if usable else 3


def machine_checks(topology: Topology) -> Iterator[Check]:
    """Cores, classes and quota."""
    cpus = topology.cpus
    cores, packages, nodes = ({getattr(cpu, name) for cpu in cpus} for name in ("core", "package", "node"))
    ids = cpu_list_text(cpu.id for cpu in cpus)
    text = f"{plural(len(cpus), 'CPU')} ({ids}) on {plural(len(cores), 'core')}, {plural(len(packages), 'package')}"
    yield Check(name="system", ok=True, text=f"{topology.os} {topology.arch}")
    yield Check(name="cores", ok=True, text=f"{text}, {plural(len(nodes), 'memory node')}")
    classes = sorted({cpu.efficiency for cpu in cpus if cpu.efficiency is not None})
    if classes:
        counts = [sum(cpu.efficiency == each for cpu in cpus) for each in classes]
        named = ", ".join(f"class {each}: {plural(n, 'CPU')}" for each, n in zip(classes, counts, strict=True))
        yield Check(name="efficiency classes", ok=True, text=f"{named} (a higher class is faster)")
    else:
        yield Check(name="efficiency classes", ok=False, text="all CPUs are alike, as far as the system says")
    pin = "threads can be pinned to CPUs" if topology.affinity else "this system pins no thread to a CPU"
    yield Check(name="affinity", ok=topology.affinity, text=pin)
    quota = topology.quota_cpus
    if quota is None:
        yield Check(name="CPU quota", ok=True, text="none")
    else:
        enough = quota >= len(cpus)
        small = "" if enough else ": spinning threads will be throttled, and more trials `inconclusive`"
        yield Check(name="CPU quota", ok=True, text=f"{quota:g} of {plural(len(cpus), 'CPU')}{small}")


def compiler_checks() -> Iterator[Check]:
    """The two families of compilers, of which one is enough, and what else a build takes."""
    for name in COMPILERS:
        found = build.find_compiler(name)
        if isinstance(found, NotAvailable):
            yield Check(name=name, ok=False, text=found.reason)
        else:
            yield Check(name=name, ok=True, text=f"{found.version} ({found.path})")
    yield _tried(HEADERS, lambda: ", ".join(map(str, build.python_includes())))


def folder_checks() -> Iterator[Check]:
    """Where builds and records go; both are made where they are not there, as a run would."""
    yield _tried(BUILDS, _cache)
    yield _tried("records", _records)


def _cache() -> str:
    path = build.default_cache()
    build.check_cache(path)
    return str(path)


def _records() -> str:
    path = store.default_path("trial", now=datetime.datetime.now(datetime.UTC))
    check_place(path, create=True)
    return str(path.parent)


def _tried(name: str, action: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, text=action())
    except HarnessError as error:
        return Check(name=name, ok=False, text=str(error))


def placement_checks(topology: Topology) -> Iterator[Check]:
    """Every placement, tried with two threads."""
    for strategy in STRATEGIES:
        placed = place(strategy.replace(":K", f":{THREADS}"), topology, threads=THREADS, seed=0)
        if isinstance(placed, NotAvailable):
            yield Check(name=strategy, ok=False, text=placed.reason)
            continue
        text = "wherever the system puts them"
        if placed.cpus:
            cpus = " and ".join(cpu_list_text(each) for each in placed.cpus)
            text = f"{THREADS} threads would run on CPUs {cpus}"
        elif placed.qos:
            text = "as a quality-of-service class, a hint"
        yield Check(name=strategy, ok=True, text=text)
