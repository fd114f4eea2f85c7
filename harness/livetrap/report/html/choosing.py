"""Which trials a page tells in full, where nobody says so: those that tell most. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from livetrap.model import BUGS, HANGS, UNCOUNTED, Verdict
from livetrap.store import Glance

MOST_TRIALS = 16


def choose(campaigns: Mapping[int, Sequence[Glance]], *, most: int = MOST_TRIALS) -> dict[int, list[int]]:
    """The ids of the trials to tell, by campaign: the first of each verdict of each variant, in turn by campaign.

    What is not as expected comes first, then hangs; what passed only where nothing else did.
    """
    queues = {id_: [glance.id for glance in _ranked(glances)] for id_, glances in campaigns.items()}
    chosen: dict[int, list[int]] = {id_: [] for id_ in queues}
    left = most
    while left > 0 and any(queues.values()):
        for id_, queue in queues.items():
            if queue and left > 0:
                chosen[id_].append(queue.pop(0))
                left -= 1
    return chosen


def _ranked(glances: Sequence[Glance]) -> list[Glance]:
    firsts: dict[tuple[str, Verdict, bool | None], Glance] = {}
    for glance in glances:
        firsts.setdefault((glance.variant, glance.verdict, glance.as_expected), glance)
    ranked = sorted(firsts.values(), key=_rank)
    telling = [one for one in ranked if one.as_expected is False or one.verdict is not Verdict.PASSED]
    return telling or ranked[:1]


def _rank(glance: Glance) -> tuple[bool, bool, bool, bool, int]:
    verdict = glance.verdict
    return (
        glance.as_expected is not False,
        verdict not in HANGS,
        verdict not in BUGS,
        verdict in UNCOUNTED,
        glance.id,
    )
