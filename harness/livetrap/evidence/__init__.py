"""Evidence after the verdict: spin sites, stacks, a core dump, a user's hook. Each is optional and bounded.

The verdict never rests on this. Stacks, cores and hooks stop or disturb the target: only once it is judged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from livetrap.evidence import site
from livetrap.evidence import stacks as stacks_
from livetrap.evidence.core import dump_core
from livetrap.evidence.hook import run_hook
from livetrap.evidence.printed import Stack
from livetrap.model import Role, ThreadJudgement

__all__ = ["collect", "dump_core", "run_hook"]


def collect(
    pids: int | Sequence[int],
    threads: Sequence[ThreadJudgement],
    *,
    modules: Mapping[str, str],
    listings: Mapping[str, Sequence[str]] | None = None,
    stacks: bool,
    deadline_s: float,
) -> dict[str, object]:
    """What a record says of where the threads are; only keys that have something to say.

    `pids` are the processes to take stacks of, besides those of `threads`; `modules` gives the paths of the modules
    that sites name, `listings` the disassembly of the loop at each site. Takes at most about `deadline_s` seconds.

    Keys: `spin_sites`: site, where (or null), threads, role, loop, traits, pc_where, listing. If asked for, `stacks`:
    pid, tid, name, frames; `python_stacks`: a text for each thread; `stacks_by`: the debuggers; `stacks_took_s`: for so
    long they worked. `missing`: sentences.
    """
    end = time.monotonic() + deadline_s
    sites, missing = site.described(threads, modules=modules, listings=listings or {}, end=end)
    told: dict[str, object] = {"spin_sites": sites}
    if stacks:
        told |= _stacks(_order((pids,) if isinstance(pids, int) else pids, threads), end, missing)
    told["missing"] = missing
    return {name: value for name, value in told.items() if value}


def _stacks(pids: Sequence[int], end: float, missing: list[str]) -> dict[str, object]:
    found = stacks_.collect(pids, end=end)
    missing += found.missing
    return {
        "stacks": [_stack(stack) for stack in found.native],
        "python_stacks": [_text(stack) for stack in found.python],
        "stacks_by": ", ".join(found.by),
        "stacks_took_s": round(found.took_s, 3),
    }


def _stack(stack: Stack) -> dict[str, object]:
    fields = msgspec.structs.asdict(stack) | {"frames": list(stack.frames)}
    return {name: value for name, value in fields.items() if value}


def _text(stack: Stack) -> str:
    name = f' "{stack.name}"' if stack.name else ""
    return "\n".join([f"{stack.pid}/{stack.tid}{name}", *(f"  {frame}" for frame in stack.frames)])


def _order(pids: Sequence[int], threads: Sequence[ThreadJudgement]) -> list[int]:
    """All processes, those with a thread that spins first."""
    live = [thread for thread in threads if thread.role is not Role.EXITED]
    live.sort(key=lambda thread: thread.role is not Role.SPINNING)
    return list(dict.fromkeys([*(thread.id.pid for thread in live), *pids]))
