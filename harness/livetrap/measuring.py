"""Measures the cells of a comparison: builds what they need, then runs a process for each cell, pass after pass."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from livetrap import build, host, seeds
from livetrap.comparison import OPENMP, RAW, Cell, Run, enough, read
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec, Frozen, NotAvailable, PlannedTrial, Rules, Topology, VariantRole
from livetrap.page import Page
from livetrap.placement import place
from livetrap.targets.supervisor import Exit, Supervisor

PASSES = 5
"""Runs of each cell, each in a pass over all of them."""
LIMIT_S = 2.0
"""How much longer than its window a run may take before it is ended; its figure is then a lower bound."""
WARM_SHARE = 8
"""Of csrc/kernels/rounds_window.h."""
SET_OFF_S = 10.0
"""So long its team may take to set off."""
STEP_S = 0.25
"""So often it is asked whether a run has taken too long: seldom, as asking disturbs it."""
SPARE_SLOTS = 16
SWEEP_S = 5.0
TECHNIQUES_KERNEL = "timed_rounds"
DIRECT_KERNEL = "raw_rounds"
OPENMP_FLAG = "-fopenmp"
BARRIERS = {RAW: 0, OPENMP: 1}
"""Places in the choices of the direct kernel's parameter `barrier`."""


class Prepared(Frozen, kw_only=True):
    """Cells with what they need to run."""

    cells: tuple[Cell, ...]
    builds: dict[Cell, build.Built] = {}
    lacking: dict[Cell, str] = {}
    """Why this machine cannot run a cell."""
    topology: Topology
    versions: dict[str, str] = {}
    """Of the compilers."""


def compilers(asked: Sequence[str]) -> tuple[str, ...]:
    """Those asked for, else the first that is installed. HarnessError, status 3: there is none."""
    installed = build.installed_compilers()
    found = tuple(asked) or tuple(installed)[:1]
    if not found or (asked and not any(isinstance(build.find_compiler(name), build.Compiler) for name in asked)):
        missing = build.find_compiler(asked[0] if asked else "gcc")
        raise HarnessError(f"no C compiler: {getattr(missing, 'reason', 'none is installed')}", status=3)
    return found


def prepare(cells: Sequence[Cell], *, topology: Topology, cache: Path, note: Callable[[str], None]) -> Prepared:
    """Builds what the cells need.

    HarnessError: a technique does not compile. A barrier that a compiler does not have is no error: its cells lack it.
    """
    found = {name: build.find_compiler(name) for name in {cell.situation.compiler for cell in cells}}
    made: dict[BuildSpec, build.Built | str] = {}
    builds: dict[Cell, build.Built] = {}
    lacking: dict[Cell, str] = {}
    for cell in cells:
        where = cell.situation
        compiler = found[where.compiler]
        if isinstance(compiler, NotAvailable):
            lacking[cell] = compiler.reason
            continue
        placed = place(where.placement, topology, threads=where.threads, seed=0)
        if isinstance(placed, NotAvailable):
            lacking[cell] = placed.reason
            continue
        spec = _spec(cell)
        if spec not in made:
            made[spec] = _make(spec, compiler, cache=cache, note=note, optional=cell.barrier == OPENMP)
        built = made[spec]
        if isinstance(built, str):
            lacking[cell] = built
        else:
            builds[cell] = built
    versions = {name: one.version for name, one in found.items() if isinstance(one, build.Compiler)}
    return Prepared(cells=tuple(cells), builds=builds, lacking=lacking, topology=topology, versions=versions)


def _spec(cell: Cell) -> BuildSpec:
    flags = tuple(cell.situation.flags.split())
    if cell.barrier == OPENMP and OPENMP_FLAG not in flags:
        flags = (*flags, OPENMP_FLAG)
    kernel = DIRECT_KERNEL if cell.barrier in BARRIERS else TECHNIQUES_KERNEL
    return BuildSpec(compiler=cell.situation.compiler, flags=flags, kernel=kernel)


def _make(
    spec: BuildSpec, compiler: build.Compiler, *, cache: Path, note: Callable[[str], None], optional: bool
) -> build.Built | str:
    """The module, or why an optional one cannot be made."""
    words = f"building {spec.kernel} with {spec.compiler} {' '.join(spec.flags)}"
    try:
        return build.build(spec, compiler=compiler, cache=cache, starting=lambda: note(words))
    except HarnessError as error:
        if not optional or error.status == 3:
            raise
        return f"{spec.compiler} has no OpenMP here ({_complaint(error.detail)})"


def _complaint(detail: str) -> str:
    """The line of a compiler's or linker's words that says what is missing."""
    lines = [line.strip() for line in detail.splitlines()[1:] if line.strip()]
    telling = [line for line in lines if "error" in line or "cannot find" in line or "not found" in line]
    return (telling or lines or ["it does not build"])[0].rpartition("error: ")[2]


class Measurement:
    """Goes over the cells, pass after pass; what there is by then is in `runs`, also after an interruption."""

    def __init__(self, prepared: Prepared, *, for_s: float, passes: int = PASSES) -> None:
        """`for_s`: how long each cell is measured, all passes together, in seconds."""
        self._prepared = prepared
        self._window_s = for_s / passes
        self._passes = passes
        self.runs: dict[Cell, list[Run]] = {cell: [] for cell in prepared.cells}
        for cell, reason in prepared.lacking.items():
            self.runs[cell].append(Run(state="skipped", reason=reason))

    @property
    def about_s(self) -> float:
        """How long it may take, in seconds."""
        return len(self._prepared.builds) * self._passes * (self._window_s * (1 + 1 / WARM_SHARE) + 0.02)

    def run(self, told: Callable[[int, int], None] = lambda _done, _all: None) -> None:
        """Measures. `told` hears how many passes are done, of how many. Raises KeyboardInterrupt upward."""
        with Supervisor.start() as supervisor:
            for number in range(self._passes):
                order = list(self._prepared.builds)
                random.Random(number).shuffle(order)
                for cell in order:
                    if not enough(self.runs[cell]):
                        self.runs[cell].append(self._one(cell, number, supervisor))
                told(number + 1, self._passes)

    def _one(self, cell: Cell, number: int, supervisor: Supervisor) -> Run:
        window_us = max(1, int(self._window_s * 1e6))
        trial = _trial(cell, number, self._prepared.topology)
        arguments = {"window_us": window_us, "silent": 1}
        if cell.barrier in BARRIERS:
            arguments["barrier"] = BARRIERS[cell.barrier]
        try:
            with Page.create(trial.threads + SPARE_SLOTS) as page:
                supervisor.launch(built=self._prepared.builds[cell], trial=trial, page=page, arguments=arguments)
                ended = _ended(supervisor, page, self._window_s + LIMIT_S)
                now = time.monotonic_ns()
                output, header = supervisor.output_tail(), page.header()
                supervisor.sweep(SWEEP_S)
        except HarnessError as error:
            return Run(state="error", reason=str(error))
        return read(
            output,
            result=header.result,
            message=header.message,
            signal=ended.signal if ended else None,
            killed_ns=None if ended else now,
            started_ns=header.started_ns,
            warm_ns=window_us * 1000 // WARM_SHARE,
        )


def _ended(supervisor: Supervisor, page: Page, limit_s: float) -> Exit | None:
    """How a run ended by itself; None: it had not, that long after its team had set off, or had not set off."""
    launched = time.monotonic()
    while True:
        ended = supervisor.wait(STEP_S)
        if ended is not None:
            return ended
        began_ns = page.header().started_ns
        if time.monotonic() - launched > (SET_OFF_S if not began_ns else limit_s + SET_OFF_S):
            return None
        if began_ns and time.monotonic_ns() - began_ns > limit_s * 1e9:
            return None


def _trial(cell: Cell, number: int, topology: Topology) -> PlannedTrial:
    """One run; CPUs that are drawn by lot are drawn anew in each pass, but for `random`: how many they are counts."""
    where = cell.situation
    seed = 0 if where.placement == "random" else number
    direct = cell.barrier in BARRIERS
    return PlannedTrial(
        ordinal=number,
        scenario="compare",
        variant=cell.barrier,
        role=VariantRole.FIXED,
        cell={"threads": where.threads, "placement": where.placement},
        build=_spec(cell),
        kernel=DIRECT_KERNEL if direct else TECHNIQUES_KERNEL,
        technique="" if direct else cell.barrier,
        parameters={},
        threads=where.threads,
        seed=seeds.derived(number, "compare", cell.barrier),
        placement=place(where.placement, topology, threads=where.threads, seed=seed),
        rules=Rules(),
        expected=(),
    )


def machine() -> Mapping[str, str]:
    """What the reader should know of the machine that the figures are of."""
    told = host.environment()
    return {name: told[name] for name in ("cpu", "cpus_allowed", "os", "arch", "kernel", "livetrap")}
