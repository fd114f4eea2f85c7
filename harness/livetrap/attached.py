"""What `livetrap attach` found out about a process that was already running."""

from __future__ import annotations

from livetrap.model import Event, Frozen, Judgement


class Attached(Frozen, kw_only=True):
    """One process, judged."""

    judgement: Judgement
    events: tuple[Event, ...]
    """All that was seen, in order."""
    names: dict[str, str]
    """Names of its threads, by thread id as text."""
    evidence: dict[str, object]
    """What livetrap.evidence.collect gathered after the verdict; texts of the target as they are."""
