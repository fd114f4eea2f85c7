"""What correct barriers cost beside one another: which are measured, what the runs say, which one to take. Pure.

A cell is one barrier with a number of threads, a placement, flags and a compiler. Each is measured in several runs, in
passes over all cells, so that what else the machine does falls on all of them alike. What is told of a cell is the
median of its runs, with the quartiles as its spread.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from livetrap.errors import HarnessError
from livetrap.model import Frozen, NotAvailable, Topology
from livetrap.placement import QOS_FAST, QOS_SLOW, place
from livetrap.policy import ALLOWED_TECHNIQUES, plan_barrier, standing

RAW = "raw pthread_barrier_t"
OPENMP = "OpenMP barrier"
DIRECT = (RAW, OPENMP)
"""Barriers that are called directly, with no interface of ours between: yardsticks."""
SPIN = "acquire_spin"
"""Correct, and outside the policy: what a spin costs that never yields. The other yardstick."""
ALIKE = 0.1
"""Two techniques within this share, or within the usual spread, are alike: the one with less CPU time is taken."""
NOISY = 0.25
"""A usual spread above this is told of."""

_LINE = re.compile(r"^rounds=(\d+) wall_ns=(\d+) cpu_ns=(\d+) at_ns=(\d+)$", re.MULTILINE)
_RIGHT, _WRONG, _SKIPPED, _ERROR = 1, 2, 3, 4
"""enum lt_result."""
_RESULTS = {_WRONG: "wrong", _SKIPPED: "skipped", _ERROR: "error"}


class Situation(Frozen, kw_only=True):
    """What the barriers that are compared with one another have in common."""

    threads: int
    placement: str
    flags: str
    compiler: str
    cpus: int
    """CPUs that all threads together may use; 0: the placement is not to be had here."""

    @property
    def outnumbered(self) -> bool:
        """There are more threads than CPUs that they may use."""
        return self.threads > self.cpus


class Cell(Frozen, kw_only=True):
    """One barrier in one situation."""

    barrier: str
    """A technique, or one of DIRECT."""
    situation: Situation


class Run(Frozen, kw_only=True):
    """What one process has shown of a cell."""

    state: str
    """`measured`, `at-least` (it had to be ended: each round took at least so long), or what went wrong: `wrong`,
    `crashed`, `skipped`, `error`."""
    ns: float = 0.0
    """Wall time of a round."""
    cpu_ns: float | None = None
    """CPU time of a round, all threads together."""
    reason: str = ""
    """Of one that was not measured."""

    @property
    def counts(self) -> bool:
        """It has a figure."""
        return self.state in {"measured", "at-least"}


class Figure(Frozen, kw_only=True):
    """Several runs in one: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


class Row(Frozen, kw_only=True):
    """What is told of a cell."""

    cell: Cell
    state: str
    """As that of a run; `not-run` where there was none."""
    ns: Figure | None = None
    cpu_ns: Figure | None = None
    slowdown: float | None = None
    """Where threads outnumber CPUs: ns a round against the same barrier where they do not; None: nothing to compare."""
    runs: int = 0
    """Those with a figure."""
    reason: str = ""

    @property
    def at_least(self) -> bool:
        """Its figures are lower bounds."""
        return self.state == "at-least"


class Chosen(Frozen, kw_only=True):
    """Techniques to measure, and what to say of those left out."""

    techniques: tuple[str, ...]
    notes: tuple[str, ...] = ()


# --- what is measured ------------------------------------------------------------------------------------------------


def choose(asked: Sequence[str], *, known: Iterable[str]) -> Chosen:
    """The techniques that the policy lets pass, and the spin as a yardstick; `asked` empty: all that are `known`.

    HarnessError: nothing of what was asked for is left.
    """
    wanted = tuple(asked) or tuple(known)
    techniques = tuple(name for name in wanted if name in ALLOWED_TECHNIQUES or name == SPIN)
    notes = [f"left out: {name} {standing(name).reason}" for name in wanted if name not in techniques]
    if not techniques:
        raise HarnessError(
            f"--technique {','.join(asked)}: {asked[0]} {standing(asked[0]).reason}; "
            f"give one of {', '.join((*ALLOWED_TECHNIQUES, SPIN))}"
        )
    if SPIN in techniques:
        notes.append(f"a yardstick, and outside the policy: {SPIN} {standing(SPIN).reason}")
    return Chosen(techniques=techniques, notes=tuple(notes))


def situations(
    topology: Topology,
    *,
    threads: Sequence[int],
    placements: Sequence[str],
    flags: Sequence[str],
    compilers: Sequence[str],
) -> tuple[Situation, ...]:
    """All that was asked for, and one with as many threads as CPUs where a slowdown would have nothing to refer to."""
    found = [
        Situation(
            threads=count, placement=placement, flags=flag, compiler=compiler, cpus=cpus_of(placement, topology, count)
        )
        for placement in placements
        for flag in flags
        for compiler in compilers
        for count in sorted(threads)
    ]
    usable = cpus_of("free", topology, 2)
    for one in tuple(found):
        if one.cpus and one.outnumbered and usable >= 2 and base_of(one, found) is None:
            most = min(usable, one.threads)
            found.append(Situation(threads=most, placement="free", flags=one.flags, compiler=one.compiler, cpus=usable))
    return tuple(dict.fromkeys(found))


def base_of(one: Situation, among: Iterable[Situation]) -> Situation | None:
    """What a slowdown refers to: not outnumbered, two threads at least, with the same flags and compiler.

    The same placement first, else free; of several the one with the most threads.
    """
    fit = [
        other
        for other in among
        if not other.outnumbered
        and 2 <= other.threads <= one.threads
        and (other.flags, other.compiler) == (one.flags, one.compiler)
        and other.placement in {one.placement, "free"}
    ]
    return max(fit, key=lambda other: (other.placement == one.placement, other.threads), default=None)


def cpus_of(placement: str, topology: Topology, threads: int) -> int:
    """How many CPUs the threads may use together, a quota counted in; 0: this machine has no such placement."""
    placed = place(placement, topology, threads=threads, seed=0)
    if isinstance(placed, NotAvailable):
        return 0
    count = len({cpu for cpus in placed.cpus for cpu in cpus}) or len(topology.cpus)
    if placed.qos:
        fastest = max(cpu.efficiency or 0 for cpu in topology.cpus)
        classes = {QOS_FAST: {fastest}, QOS_SLOW: {0}}
        wanted = set().union(*(classes.get(qos, set()) for qos in placed.qos))
        count = sum(cpu.efficiency in wanted for cpu in topology.cpus) or count
    quota = topology.quota_cpus
    return count if quota is None else min(count, max(1, int(quota)))


def cells(chosen: Sequence[str], found: Iterable[Situation]) -> tuple[Cell, ...]:
    """Each technique and each yardstick in each situation."""
    return tuple(Cell(barrier=name, situation=one) for one in found for name in (*chosen, *DIRECT))


# --- what the runs say -----------------------------------------------------------------------------------------------


def read(
    output: str, *, result: int, message: str, signal: int | None, killed_ns: int | None, started_ns: int, warm_ns: int
) -> Run:
    """One run, from what its team printed (see csrc/kernels/rounds_window.h) and from the page.

    `killed_ns`: when it was ended at its time limit, None: it ended by itself. `started_ns`: when the team set off, by
    the same clock; 0: it did not. `warm_ns`: how long its warm-up may take, but for one round.
    """
    lines = [tuple(map(int, line)) for line in _LINE.findall(output)]
    if killed_ns is not None:
        return _cut_short(lines, killed_ns=killed_ns, started_ns=started_ns, warm_ns=warm_ns)
    if signal is not None:
        return Run(state="crashed", reason=f"ended by signal {signal}")
    if result != _RIGHT or not lines or not lines[-1][0]:
        return Run(state=_RESULTS.get(result, "error"), reason=message or "it told nothing")
    rounds, wall_ns, cpu_ns, _ = lines[-1]
    return Run(state="measured", ns=wall_ns / rounds, cpu_ns=cpu_ns / rounds)


def _cut_short(lines: Sequence[tuple[int, ...]], *, killed_ns: int, started_ns: int, warm_ns: int) -> Run:
    if not started_ns:
        return Run(state="error", reason="its threads had not set off by the time limit")
    if not lines:
        return Run(state="at-least", ns=float(max(0, killed_ns - started_ns - warm_ns)))
    rounds, wall_ns, _, at_ns = lines[-1]
    return Run(state="at-least", ns=(wall_ns + max(0, killed_ns - at_ns)) / (4 * rounds + 1))


def enough(runs: Sequence[Run]) -> bool:
    """A cell needs no further run: it has failed, or was too slow twice."""
    return any(not run.counts for run in runs) or sum(run.state == "at-least" for run in runs) >= 2


def summarise(runs: Mapping[Cell, Sequence[Run]]) -> tuple[Row, ...]:
    """A row for each cell, in their order."""
    plain = {cell: _row(cell, its) for cell, its in runs.items()}
    present = tuple(dict.fromkeys(cell.situation for cell in runs))
    return tuple(_with_slowdown(row, plain, present) for row in plain.values())


def _row(cell: Cell, runs: Sequence[Run]) -> Row:
    failed = next((run for run in runs if not run.counts), None)
    if failed is not None:
        return Row(cell=cell, state=failed.state, reason=failed.reason)
    if not runs:
        return Row(cell=cell, state="not-run", reason="interrupted before it began")
    at_least = any(run.state == "at-least" for run in runs)
    cpu = [run.cpu_ns for run in runs if run.cpu_ns is not None]
    return Row(
        cell=cell,
        state="at-least" if at_least else "measured",
        ns=_figure([run.ns for run in runs]),
        cpu_ns=_figure(cpu) if cpu and not at_least else None,
        runs=len(runs),
    )


def _figure(values: Sequence[float]) -> Figure:
    if len(values) == 1:
        return Figure(median=values[0], low=values[0], high=values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(median=median, low=low, high=high)


def _with_slowdown(row: Row, rows: Mapping[Cell, Row], present: Sequence[Situation]) -> Row:
    here = row.cell.situation
    base = base_of(here, present) if here.outnumbered and row.ns else None
    reference = rows.get(Cell(barrier=row.cell.barrier, situation=base)) if base else None
    if row.ns is None or reference is None or reference.ns is None or reference.at_least or not reference.ns.median:
        return row
    return Row(
        cell=row.cell,
        state=row.state,
        ns=row.ns,
        cpu_ns=row.cpu_ns,
        slowdown=row.ns.median / reference.ns.median,
        runs=row.runs,
    )


def status_of(rows: Iterable[Row]) -> int:
    """Exit status: 1 where a barrier was wrong or crashed, 3 where none of ours was measured, else 0."""
    found = tuple(rows)
    if any(row.state in {"wrong", "crashed"} for row in found):
        return 1
    return 0 if any(row.ns and row.cell.barrier not in DIRECT for row in found) else 3


# --- which one to take -----------------------------------------------------------------------------------------------


class Standing(Frozen, kw_only=True):
    """How a technique did in all situations together."""

    technique: str
    worst: float
    """In the situation where it did worst: ns a round against the fastest that the policy allows."""
    cpu: float
    """Geometric mean over the situations: CPU ns a round against the least."""


class Advice(Frozen, kw_only=True):
    """Which technique to take."""

    take: str
    """Empty: nothing that the policy allows was measured everywhere."""
    least_cpu: str = ""
    standings: tuple[Standing, ...] = ()
    """Of all that the policy allows and that were measured in every situation, the best first."""


def advise(rows: Iterable[Row]) -> Advice:
    """The technique that is never far from the fastest: of those that the policy allows, the least worst ratio.

    Of several that are alike in that, the one with the least CPU time; among equals the policy's own default.
    """
    found = [row for row in rows if row.cell.barrier in ALLOWED_TECHNIQUES]
    table: dict[Situation, dict[str, Row]] = {}
    for row in found:
        if row.state == "measured":
            table.setdefault(row.cell.situation, {})[row.cell.barrier] = row
    everywhere = [
        name
        for name in dict.fromkeys(row.cell.barrier for row in found)
        if all(name in rows for rows in table.values())
    ]
    if not table or not everywhere:
        return Advice(take="")
    ranked = sorted((_standing(name, table) for name in everywhere), key=lambda each: each.worst)
    alike = [each for each in ranked if each.worst <= ranked[0].worst * (1 + max(ALIKE, usual_spread(found)))]
    default = plan_barrier().technique
    best = min(alike, key=lambda each: (each.cpu, each.technique != default))
    least = min(ranked, key=lambda each: (each.cpu, each.technique != best.technique))
    rest = [each for each in ranked if each is not best]
    return Advice(take=best.technique, least_cpu=least.technique, standings=(best, *rest))


def usual_spread(rows: Iterable[Row]) -> float:
    """The median of the spreads; 0 where there is none."""
    return statistics.median([row.ns.spread for row in rows if row.ns and not row.at_least] or [0.0])


def _standing(name: str, table: Mapping[Situation, Mapping[str, Row]]) -> Standing:
    ratios = [_ns(rows[name]) / min(_ns(row) for row in rows.values()) for rows in table.values()]
    cpu = [_cpu(rows[name]) / min(_cpu(row) for row in rows.values()) for rows in table.values()]
    return Standing(technique=name, worst=max(ratios), cpu=statistics.geometric_mean(cpu))


def _ns(row: Row) -> float:
    return max(1e-3, row.ns.median if row.ns else 0.0)


def _cpu(row: Row) -> float:
    return max(1e-3, row.cpu_ns.median if row.cpu_ns else 0.0)
