"""Evidence of single threads on Linux, gathered without disturbing a sleeper.

Sleepers are read through /proc alone: nothing stops them and nothing is sent to them. Awake threads of our own runtime
are sent the signal that has their program counter stored in the page. A thread could fall asleep between the check and
the signal, and the signal would then interrupt the call that it sleeps in. So a signal goes only to a thread that was
awake in the last look, is awake in a reading taken immediately before (some microseconds), and does not say that it is
about to sleep. The handler restarts interrupted calls, so what is left of the gap can end only a futex wait whose word
has changed without a wake-up.
"""

from __future__ import annotations

import ctypes
import re
import signal
import sys
import time
from collections.abc import Callable, Collection

from livetrap import wake
from livetrap.host import arch_name
from livetrap.model import AWAKE, EvidenceKind, Mark, Slot, ThreadEvidence, ThreadId, ThreadState, WaitKind
from livetrap.observe import pipes
from livetrap.observe.proctree import ProcessFiles, ThreadFiles, Tree
from livetrap.page import Page, one_line

assert sys.platform == "linux"

_POLL_S = 0.001
_LONGEST_POLL_S = 0.008
_MAPS_BYTES = 1 << 22
_MOST_NAMED = 3
"""So many of the descriptors that a thread waits for are named."""
_TIMER_SIGNALS = sum(1 << (number - 1) for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF))
_SYS_TGKILL = {"x86_64": 234, "arm64": 131}
_libc = ctypes.CDLL(None, use_errno=True)


def send_signal(thread: ThreadId, number: int) -> bool:
    """Sends a signal to one thread (tgkill(2)); False when that failed."""
    call = _SYS_TGKILL.get(arch_name())
    if call is None:
        return False
    arguments = (ctypes.c_long(value) for value in (call, thread.pid, thread.tid, number))
    return int(_libc.syscall(*arguments)) == 0


class Gatherer:
    """Gathers evidence of the threads of one tree; `send` sends a signal to a thread (for tests: something else)."""

    def __init__(
        self, tree: Tree, page: Page, *, arch: str, send: Callable[[ThreadId, int], bool] = send_signal
    ) -> None:
        self._tree = tree
        self._page = page
        self._arch = arch
        self._send = send
        self.modules: dict[str, str] = {}
        """Paths of the program files that a `pc_site` named, by the name it used."""

    def gather(
        self,
        threads: tuple[ThreadId, ...],
        kinds: frozenset[EvidenceKind],
        *,
        awake: Collection[ThreadId],
        deadline_ns: int,
    ) -> tuple[ThreadEvidence, ...]:
        """What can be had of these threads until the deadline (monotonic clock); one entry for each that still lives.

        `awake` are those that the last look saw awake.
        """
        found: dict[ThreadId, ThreadEvidence] = {}
        ask: list[ThreadId] = []
        maps: dict[int, str] = {}
        tree_pids = frozenset(process.pid for process in self._tree.processes)
        outside = pipes.Outside(tree_pids, deadline_ns=deadline_ns)
        for id_ in threads:
            files = self._tree.find(id_)
            state = files[1].state() if files else None
            if files is None or state is None or state is ThreadState.GONE:
                continue
            if state in AWAKE:
                found[id_] = ThreadEvidence(id=id_)
                if EvidenceKind.PROGRAM_COUNTERS in kinds:
                    ask.append(id_)
            elif EvidenceKind.WAKE_SOURCES in kinds:
                found[id_] = self._sleeper(*files, state, maps, outside, tree_pids)
        found.update(self._counters(ask, awake, maps, deadline_ns))
        return tuple(found[id_] for id_ in threads if id_ in found)

    # --- sleepers

    def _sleeper(
        self,
        process: ProcessFiles,
        thread: ThreadFiles,
        state: ThreadState,
        maps: dict[int, str],
        outside: pipes.Outside,
        tree_pids: frozenset[int],
    ) -> ThreadEvidence:
        name = f"task/{thread.id.tid}/syscall"
        line, unreadable = process.try_read(name, 256)
        text = line.decode("ascii", errors="replace")
        links = pipes.awaited(process, thread.id.tid, self._arch, text)
        source, words = wake.classify(
            self._arch,
            None if unreadable else text,
            state,
            pid=process.pid,
            live_tids=process.threads.keys(),
            tree_pids=tree_pids,
            maps=self._maps(process, maps) if wake.wants_maps(self._arch, text) else "",
            fd=one_line(", ".join(links[:_MOST_NAMED])),
            fd_inside=outside.has_none(links),
            unreadable=unreadable,
        )
        return ThreadEvidence(id=thread.id, wake=source, sleeps_in=words, unreadable=unreadable)

    # --- awake threads

    def _counters(
        self, ask: list[ThreadId], awake: Collection[ThreadId], maps: dict[int, str], deadline_ns: int
    ) -> dict[ThreadId, ThreadEvidence]:
        slots = self._slots()
        caught: dict[int, int] = {}
        found: dict[ThreadId, ThreadEvidence] = {}
        waiting: dict[ThreadId, Slot] = {}
        for id_ in ask:
            slot = slots.get(id_)
            late = time.monotonic_ns() >= deadline_ns
            why = "no time was left to ask" if late else self._why_not(id_, slot, awake, caught)
            if slot is not None and not why:
                waiting[id_] = slot
            else:
                found[id_] = ThreadEvidence(id=id_, unreadable=f"program counter: {why}")
        pause_s = _POLL_S
        while waiting:
            slots = self._slots()
            for id_, before in list(waiting.items()):
                now = slots.get(id_)
                if now is None or now.generation != before.generation:
                    del waiting[id_]
                elif now.pc_count != before.pc_count:
                    del waiting[id_]
                    found[id_] = ThreadEvidence(id=id_, pc=now.pc, pc_site=self._site(id_, now.pc, maps))
            left_s = (deadline_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                break
            if waiting:
                time.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, _LONGEST_POLL_S)
        for id_ in waiting:
            found[id_] = ThreadEvidence(id=id_, unreadable="program counter: no answer to the signal in time")
        return found

    def _slots(self) -> dict[ThreadId, Slot]:
        return {ThreadId(slot.pid, slot.tid): slot for slot in self._page.slots()}

    def _why_not(self, id_: ThreadId, slot: Slot | None, awake: Collection[ThreadId], caught: dict[int, int]) -> str:
        """Signals the thread, unless there is a reason not to, which is returned."""
        if slot is None or slot.pc_signal == 0:
            return "the thread has no handler that stores it"
        if slot.mark is Mark.WAIT and slot.kind is not WaitKind.SPIN:
            return "not asked for, the thread may be about to sleep"
        if id_ not in awake:
            return "not asked for, the thread slept a moment ago"
        found = self._tree.find(id_)
        if found is None:
            return "the thread is gone"
        process, files = found
        if id_.pid not in caught:
            caught[id_.pid] = _caught(process.read("status", 4096))
        # The number comes from the page, where the target may write anything; unhandled it would kill the target.
        number = slot.pc_signal
        if not (signal.SIGRTMIN <= number <= signal.SIGRTMAX and caught[id_.pid] >> (number - 1) & 1):
            return f"signal {number} is not handled"
        if files.state() not in AWAKE:
            return "not asked for, the thread fell asleep"
        return "" if self._send(id_, number) else "the signal could not be sent"

    # --- where a program counter lies

    def _maps(self, process: ProcessFiles, maps: dict[int, str]) -> str:
        if process.pid not in maps:
            maps[process.pid] = process.read("maps", _MAPS_BYTES).decode(errors="replace")
        return maps[process.pid]

    def _site(self, id_: ThreadId, pc: int, maps: dict[int, str]) -> str:
        found = self._tree.find(id_)
        site = locate(self._maps(found[0], maps), pc) if found else None
        if site is None:
            return ""
        path, offset = site
        name = one_line(path.rpartition("/")[2])
        if path.startswith("/"):
            self.modules[name] = path
        return f"{name}+{offset:#x}"


def locate(maps: str, pc: int) -> tuple[str, int] | None:
    """The file that is mapped at `pc` and the offset in that file, from the text of /proc/PID/maps.

    Memory without a file has its own name (`[vdso]`), or `[anonymous]`, and the offset in the mapping.
    """
    for line in maps.splitlines():
        match = re.match(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) \S{4} ([0-9a-f]+) \S+ \d+\s*(.*)", line)
        if match and int(match[1], 16) <= pc < int(match[2], 16):
            return match[4] or "[anonymous]", pc - int(match[1], 16) + int(match[3], 16)
    return None


def _caught(status: bytes) -> int:
    """Signals that the process handles, as a mask, from /proc/PID/status."""
    match = re.search(rb"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return int(match[1], 16) if match else 0


def has_timer(process: ProcessFiles) -> bool:
    """Whether a timer may send the process a signal that it handles, or is set to send it any.

    The kernel does not show whether an alarm is set: who handles its signal is taken to have set one.
    """
    if _caught(process.read("status", 4096)) & _TIMER_SIGNALS:
        return True
    # One line of each POSIX timer tells whom it notifies (proc_pid_timers(5)); the file need not exist.
    return re.search(rb"^notify: (?!none)", process.read("timers", 4096), re.MULTILINE) is not None
