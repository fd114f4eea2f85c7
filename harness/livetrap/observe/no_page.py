"""What stands for the page of a target that was not started with one."""

from __future__ import annotations

from livetrap.model import PageHeader, Slot

_UNUSED = PageHeader(
    departed_beats=0,
    departed=0,
    overflow=False,
    slots_used=0,
    probe=None,
    probe_passes=None,
    team=0,
    started_ns=0,
    finished_ns=0,
    result=0,
    message="",
)


class NoPage:
    """Reads like a `Page` that nobody has used."""

    def header(self) -> PageHeader:
        """One without any count."""
        return _UNUSED

    def slots(self) -> list[Slot]:
        """None."""
        return []

    def raw(self) -> bytes:
        """Nothing."""
        return b""
