"""Disturbs a running target as `livetrap.disturbances` says: from outside, by its seed, and undone when it stops.

Nothing here decides anything but what a thread's id makes of a decision that was drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from livetrap.disturb.disturber import Disturber, own_cpus
from livetrap.disturb.herd import Herd
from livetrap.disturb.lacking import lacking
from livetrap.disturb.threads import TreeThreads
from livetrap.disturbances import Kind, parse
from livetrap.model import ThreadId

__all__ = ["Disturber", "Herd", "TreeThreads", "lacking", "prepare", "start"]


def prepare(text: str, *, cpus: Sequence[int] = (), herd: Herd) -> None:
    """What may be done before the target is launched, so that it is disturbed from its first moment: the hogs burn.

    Arguments as for `start`, which is to follow. HarnessError: no disturbance, or (status 3) it could not be done.
    """
    herd.burn(parse(text).amount(Kind.HOGS), tuple(sorted(cpus)) or own_cpus())


def start(
    text: str,
    *,
    pid: int,
    seed: int,
    cpus: Sequence[int] = (),
    tids: Callable[[], list[ThreadId]] | None = None,
    herd: Herd | None = None,
) -> Disturber:
    """Disturbs the target until it is told to stop.

    `text` as `disturbances.parse` reads it (HarnessError); its `jitter` is the target's own business. `pid`: the
    target's main process. `cpus`: those that it may use; none: those of this process. `tids`: what tells the threads
    that may be disturbed, called from another thread; None: all below `pid`. `herd`: what keeps the burning processes
    of `hogs` warm from one trial to the next; None: they are started now, which takes some 20 ms.
    What cannot be done is said in the disturber's `note`.
    """
    return Disturber(
        parse(text),
        pid=pid,
        seed=seed,
        cpus=tuple(sorted(cpus)),
        tids=tids if tids is not None else TreeThreads(pid),
        herd=herd,
    )
