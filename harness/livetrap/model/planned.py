"""What is planned, built and recorded: machines, placements, kernels, trials and their records."""

from __future__ import annotations

from collections.abc import Mapping

from livetrap.model.decided import Rules, Shape
from livetrap.model.words import Certainty, Frozen, Phase, Value, VariantRole, Verdict


class Cpu(Frozen, kw_only=True):
    """One logical CPU."""

    id: int
    core: int
    package: int
    node: int = 0
    efficiency: int | None = None
    """Class of a hybrid machine: 0 the most efficient, higher is faster; None where all are alike."""


class Topology(Frozen, kw_only=True):
    """The machine as this process may use it."""

    os: str
    """`linux` or `macos`."""
    arch: str
    """`x86_64` or `arm64`."""
    cpus: tuple[Cpu, ...]
    affinity: bool
    """Threads can be pinned to CPUs."""
    qos: bool = False
    """Threads can be given a quality-of-service class (macOS)."""
    quota_cpus: float | None = None
    """The container's CPU quota in CPUs; None: no limit."""


class Placement(Frozen, kw_only=True):
    """A named strategy made concrete: one entry a thread."""

    requested: str
    cpus: tuple[tuple[int, ...], ...] = ()
    """CPUs that each thread may run on; empty: wherever it likes."""
    qos: tuple[int, ...] = ()
    """macOS quality-of-service class of each thread; empty: unchanged."""


class NotAvailable(Frozen, kw_only=True):
    """A placement, probe or compiler that this machine does not have, and why."""

    reason: str


class BuildSpec(Frozen, kw_only=True):
    """What is compiled and how."""

    compiler: str
    """`gcc` or `clang`, or a path."""
    flags: tuple[str, ...]
    """Flags of the axis, e.g. ("-O2",); the level is always explicit."""
    kernel: str
    kernel_file: str = ""
    """The kernel's C file where it is the scenario's own; empty: one of csrc/kernels."""


class ParamInfo(Frozen, kw_only=True):
    """One parameter of a kernel, as the built module tells it."""

    name: str
    summary: str = ""
    choices: tuple[str, ...] = ()
    """Names that it may take, passed as their index; empty: a number."""
    least: int = 0
    most: int = 0
    fallback: int = 0
    """Value where none is given; the index of a choice."""


class KernelInfo(Frozen, kw_only=True):
    """One kernel, as the built module tells it."""

    name: str
    summary: str = ""
    uses_technique: bool = False
    params: dict[str, ParamInfo] = {}


class TechniqueInfo(Frozen, kw_only=True):
    """One technique, as the built module tells it."""

    name: str
    summary: str = ""
    unavailable: str = ""
    """Why this platform does not have it; empty: it does."""


class Manifest(Frozen, kw_only=True):
    """All kernels and techniques of a built module."""

    kernels: dict[str, KernelInfo] = {}
    techniques: dict[str, TechniqueInfo] = {}


def cell_key(variant: str, cell: Mapping[str, Value]) -> str:
    """A cell as text, the same for equal cells; seeds follow from it."""
    return " ".join([variant, *(f"{name}={value}" for name, value in sorted(cell.items()))])


class CommandSpec(Frozen, kw_only=True):
    """A command as a trial runs it, all placeholders filled in."""

    argv: tuple[str, ...]
    """The program, as the user named it, and its arguments."""
    environment: dict[str, str] = {}
    """Variables that are set beside those of the harness."""
    folder: str = ""
    """Where it runs; empty: where the harness does."""
    progress: str = ""
    """What shows that it goes on: `output`, `io`, `beats` or `regex:RE`; empty: whatever there is."""


class PlannedTrial(Frozen, kw_only=True):
    """One trial, ready to run: with the build and the placement as it took effect, its recipe."""

    ordinal: int
    scenario: str
    variant: str
    role: VariantRole
    cell: dict[str, Value]
    """All axes: threads, placement, technique, flags, compiler, align and the kernel's parameters that vary."""
    build: BuildSpec | None = None
    """None for a command."""
    kernel: str = ""
    """Empty for a command."""
    technique: str = ""
    """Empty for a kernel that uses none."""
    command: CommandSpec | None = None
    """What runs instead of a kernel."""
    disturbance: str = ""
    """E.g. `hogs:4`; empty: none. See livetrap.disturb."""
    parameters: dict[str, Value]
    """All parameters given to the kernel or filled into the command, those that vary and those that do not."""
    threads: int = 1
    """Of the kernel's team; 1 for a command, whose threads are its own business."""
    align: str = "none"
    seed: int
    placement: Placement | NotAvailable
    rules: Rules
    expected: tuple[Verdict, ...]
    """Accepted verdicts; empty: none stated."""
    skip: str = ""
    """Why this machine cannot run it (no such compiler, technique or placement); empty: it can."""
    data: str = ""
    """The file that its kernel is given as LIVETRAP_DATA; empty: none."""

    @property
    def cell_key(self) -> str:
        """The cell as text, the same for equal cells."""
        return cell_key(self.variant, self.cell)


class Record(Frozen, kw_only=True):
    """One finished trial as it is stored and as `--json` writes it."""

    schema: int = 1
    id: int
    scenario: str
    variant: str
    role: VariantRole
    cell: dict[str, Value]
    compiler: str
    placement: dict[str, object]
    seed: int
    verdict: Verdict
    certainty: Certainty
    phase: Phase | None
    shape: Shape
    expected: tuple[Verdict, ...]
    as_expected: bool | None
    """None: the verdict counts neither for nor against, or nothing is expected."""
    wall_s: float
    stall_s: float
    verdict_latency_s: float | None
    longest_stall_s: float
    beats: int
    evidence: dict[str, object]
