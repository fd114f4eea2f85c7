"""What the forker is told of a trial of a kernel."""

from __future__ import annotations

from livetrap import disturbances
from livetrap.build import Built
from livetrap.model import NotAvailable, Placement, PlannedTrial
from livetrap.targets.messages import Message


def mask_words(placement: Placement, threads: int) -> tuple[tuple[int, ...], int]:
    """CPU masks of all threads as 64-bit words, and how many words a thread has; 0: wherever it likes."""
    if not placement.cpus:
        return (), 0
    if len(placement.cpus) != threads:
        raise ValueError(f"a placement of {len(placement.cpus)} threads for a team of {threads}")
    words = max((cpu for cpus in placement.cpus for cpu in cpus), default=0) // 64 + 1
    masks = [0] * (words * threads)
    for thread, cpus in enumerate(placement.cpus):
        for cpu in cpus:
            masks[thread * words + cpu // 64] |= 1 << (cpu % 64)
    return tuple(masks), words


def launch_message(*, built: Built, trial: PlannedTrial, spec: str, arguments: dict[str, int]) -> Message:
    """What the forker is told of a trial."""
    placement = trial.placement
    if isinstance(placement, NotAvailable):
        raise ValueError(f"cannot be placed: {placement.reason}")  # noqa: TRY004  the type is right, the value is not
    masks, words = mask_words(placement, trial.threads)
    return (
        "launch",
        built.module,
        str(built.path),
        spec,
        trial.kernel.encode(),
        trial.technique.encode(),
        trial.align.encode(),
        trial.threads,
        trial.seed & ((1 << 64) - 1),
        tuple((name.encode(), value) for name, value in arguments.items()),
        masks,
        words,
        tuple(placement.qos) or None,
        trial.data,
        disturbances.parse(trial.disturbance).amount(disturbances.Kind.JITTER),
    )
