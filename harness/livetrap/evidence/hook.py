"""A command of the user's that is run while a hang is alive (`--on-hang`)."""

from __future__ import annotations

import re

from livetrap import tools
from livetrap.model import Frozen

_MOST_BYTES = 16 << 10


class Hooked(Frozen, kw_only=True):
    """What came of it."""

    command: str
    """As it was run, the pid filled in."""
    output: str = ""
    """The last 16 KiB of what it wrote, harmless."""
    status: int = 0
    """Exit status; negative: the signal that ended it."""
    late: bool = False
    """It was killed since its time was over."""
    took_s: float = 0.0


def fill(command: str, pid: int) -> str:
    """The command with `{pid}` replaced; the shell's own `${pid}` stays."""
    return re.sub(r"(?<!\$)\{pid\}", str(pid), command)


def run_hook(command: str, pid: int, *, deadline_s: float) -> str:
    """Runs it as `run` does: its output, and a last line on how it ended if not with status 0."""
    done = run(command, pid, deadline_s=deadline_s)
    end = ""
    if done.late:
        end = f"(ended, it ran for over {deadline_s:g} s)"
    elif done.status:
        end = f"(exit status {done.status})" if done.status > 0 else f"(ended by signal {-done.status})"
    return "\n".join(part for part in (done.output, end) if part)


def run(command: str, pid: int, *, deadline_s: float) -> Hooked:
    """Runs a shell command, LIVETRAP_PID set, for at most so long; what it leaves in its process group is killed.

    It gets an empty stdin and a session of its own: what should outlive it needs one of its own too (`setsid`).
    """
    filled = fill(command, pid)
    done = tools.run(
        ["/bin/sh", "-c", filled],
        deadline_s=deadline_s,
        most_bytes=_MOST_BYTES,
        tail=True,
        environment={"LIVETRAP_PID": str(pid)},
        debugger=False,
    )
    return Hooked(
        command=filled,
        output=(done.text or done.why).strip(),
        status=done.status,
        late=done.late,
        took_s=done.took_s,
    )
