"""Who owns the mutexes that sleepers wait for, read on Linux from /proc and the process's memory. Nobody is stopped."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from livetrap import ownership, wake
from livetrap.model import ThreadId, ThreadState
from livetrap.observe.proctree import ProcessFiles, ThreadFiles, Tree

assert sys.platform == "linux"

_STATUS_BYTES = 8192


def sleeps(tree: Tree, threads: Iterable[ThreadId], *, arch: str) -> dict[ThreadId, ownership.Sleep]:
    """One reading of those of these threads that sleep for a mutex whose owner lives in their process."""
    found: dict[ThreadId, ownership.Sleep] = {}
    inner: dict[int, dict[int, int]] = {}
    for id_ in threads:
        files = tree.find(id_)
        if files is None or files[1].state() is not ThreadState.ASLEEP:
            continue
        sleep = _sleep(*files, arch, inner)
        if sleep is not None:
            found[id_] = sleep
    return found


def _sleep(
    process: ProcessFiles, thread: ThreadFiles, arch: str, inner: dict[int, dict[int, int]]
) -> ownership.Sleep | None:
    folder = f"task/{thread.id.tid}"
    call = wake.futex_wait(arch, _call(process, folder))
    if call is None or not ownership.may_be_mutex(call):
        return None
    # Before the call is read again: whoever runs in between then differs from the next reading.
    ran = b" ".join(re.findall(rb"ctxt_switches:\s*(\d+)", process.read(f"{folder}/status", _STATUS_BYTES)))
    line = _call(process, folder)
    call = wake.futex_wait(arch, line)
    if call is None:
        return None
    memory = process.memory(call.address, ownership.MUTEX_BYTES)
    tid = ownership.owner(call, memory)
    if tid is None:
        return None
    if process.pid not in inner:
        inner[process.pid] = tids_inside(process)
    owner = inner[process.pid].get(tid)
    if owner is None or (owner == thread.id.tid and not ownership.waits_for_itself(memory)):
        return None
    return ownership.Sleep(call=line, ran=ran, owner=ThreadId(process.pid, owner))


def _call(process: ProcessFiles, folder: str) -> str:
    return process.read(f"{folder}/syscall", 256).decode("ascii", errors="replace")


def tids_inside(process: ProcessFiles) -> dict[int, int]:
    """Ids of the process's threads by what they are in its own namespace (pid_namespaces(7))."""
    if len(_names(process.read("status", _STATUS_BYTES))) <= 1:
        return {tid: tid for tid in process.threads}
    inside = {tid: _names(process.read(f"task/{tid}/status", _STATUS_BYTES)) for tid in process.threads}
    return {names[-1]: tid for tid, names in inside.items() if names}


def _names(status: bytes) -> list[int]:
    """The id of a thread in each of its namespaces, from ours inwards; empty: the kernel does not tell."""
    match = re.search(rb"^NSpid:\s*([\d\s]+?)$", status, re.MULTILINE)
    return [int(name) for name in match[1].split()] if match else []
