"""Evidence of single threads on Linux, gathered without disturbing a sleeper.

Sleepers are read through /proc alone: nothing stops them and nothing is sent to them. Awake threads of our own runtime
are sent the signal that has their program counter stored in the page; others, and all whose loops are wanted, are
stopped for a moment (`stops_linux`). A thread could fall asleep between the check and the signal or stop, and that
would then interrupt the call that it sleeps in. So only a thread is disturbed that was awake in the last look, is awake
in a reading taken immediately before (some microseconds), and does not say that it is about to sleep. Interrupted calls
are restarted, so what is left of the gap can end only a futex wait whose word has changed without a wake-up.
"""

from __future__ import annotations

import ctypes
import re
import signal
import sys
import time
from collections.abc import Callable, Collection

from msgspec.structs import replace

from livetrap import wake
from livetrap.host import arch_name
from livetrap.model import AWAKE, EvidenceKind, Mark, Slot, ThreadEvidence, ThreadId, ThreadState, WaitKind
from livetrap.observe import pipes
from livetrap.observe.loops_linux import LoopGatherer
from livetrap.observe.mappings import Keeper, Mappings
from livetrap.observe.mutexes_linux import tids_inside
from livetrap.observe.no_page import NoPage
from livetrap.observe.proctree import ProcessFiles, ThreadFiles, Tree
from livetrap.page import Page, one_line

assert sys.platform == "linux"

_POLL_S = 0.001
_LONGEST_POLL_S = 0.008
_MOST_NAMED = 3
"""So many of the descriptors that a thread waits for are named."""
_COUNTER = "program counter"
_OF_THE_AWAKE = frozenset({EvidenceKind.PROGRAM_COUNTERS, EvidenceKind.LOOPS})
_TIMER_SIGNALS = sum(
    1 << (number - 1) for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGIO)
)
"""SIGXCPU by a limit of CPU time, SIGIO by a counter of events."""
_SIGNALS_OF_OTHERS = sum(
    1 << (number - 1)
    for number in (
        *(signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
        *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
    )
)
"""Not SIGINT: every Python program handles it. glibc's own two lie below SIGRTMIN."""
_SYS_TGKILL = {"x86_64": 234, "arm64": 131}
_libc = ctypes.CDLL(None, use_errno=True)


def send_signal(thread: ThreadId, number: int) -> bool:
    """Sends a signal to one thread (tgkill(2)); False when that failed."""
    call = _SYS_TGKILL.get(arch_name())
    if call is None:
        return False
    arguments = (ctypes.c_long(value) for value in (call, thread.pid, thread.tid, number))
    return int(_libc.syscall(*arguments)) == 0


class _Around:
    """What is known around the sleepers, read at most once while evidence is gathered."""

    def __init__(self, tree: Tree, keeper: Keeper, deadline_ns: int, *, foreign: bool) -> None:
        self.tree_pids = frozenset(process.pid for process in tree.processes)
        self.outside = pipes.Outside(self.tree_pids, deadline_ns=deadline_ns, foreign=foreign)
        self._keeper = keeper
        self._maps: dict[int, str] = {}
        self._tids: dict[int, dict[int, int]] = {}

    def maps(self, process: ProcessFiles) -> str:
        """The text of its /proc/PID/maps."""
        if process.pid not in self._maps:
            self._maps[process.pid] = self._keeper.of(process, fresh=True).text
        return self._maps[process.pid]

    def tids(self, process: ProcessFiles) -> Collection[int]:
        """Its threads, by the numbers that it knows them by itself."""
        if process.pid not in self._tids:
            self._tids[process.pid] = tids_inside(process)
        return self._tids[process.pid]


class Gatherer:
    """Gathers evidence of the threads of one tree; `send` sends a signal to a thread (for tests: something else)."""

    def __init__(
        self, tree: Tree, page: Page | None, *, arch: str, send: Callable[[ThreadId, int], bool] = send_signal
    ) -> None:
        self._tree = tree
        self._page = page or NoPage()
        self._foreign = page is None
        self._arch = arch
        self._send = send
        self._keeper = Keeper()
        self._loops = LoopGatherer(tree, self._keeper, arch=arch)

    @property
    def modules(self) -> dict[str, str]:
        """Paths of the program files that a site named, by the name it used."""
        return self._loops.modules

    @property
    def listings(self) -> dict[str, tuple[str, ...]]:
        """The instructions of each loop found, by its site."""
        return self._loops.listings

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
        around = _Around(self._tree, self._keeper, deadline_ns, foreign=self._foreign)
        for id_ in threads:
            files = self._tree.find(id_)
            state = files[1].state() if files else None
            if files is None or state is None or state is ThreadState.GONE:
                continue
            if state in AWAKE:
                found[id_] = ThreadEvidence(id=id_)
                ask.append(id_)
            elif EvidenceKind.WAKE_SOURCES in kinds:
                found[id_] = self._sleeper(*files, state, around)
        if kinds & _OF_THE_AWAKE:
            found.update(self._awake(ask, kinds, awake, deadline_ns))
        return tuple(found[id_] for id_ in threads if id_ in found)

    # --- sleepers

    def _sleeper(
        self, process: ProcessFiles, thread: ThreadFiles, state: ThreadState, around: _Around
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
            live_tids=around.tids(process),
            tree_pids=around.tree_pids,
            maps=around.maps(process) if wake.wants_maps(self._arch, text) else "",
            fd=one_line(", ".join(links[:_MOST_NAMED])),
            fd_inside=around.outside.has_none(links),
            unreadable=unreadable,
        )
        return ThreadEvidence(id=thread.id, wake=source, sleeps_in=words, unreadable=unreadable)

    # --- awake threads

    def _awake(
        self,
        ids: list[ThreadId],
        kinds: frozenset[EvidenceKind],
        awake: Collection[ThreadId],
        deadline_ns: int,
    ) -> dict[ThreadId, ThreadEvidence]:
        """Loops by short stops. Program counters by signal where there is a handler, else by a stop too."""
        slots = self._slots()
        classify = EvidenceKind.LOOPS in kinds
        found: dict[ThreadId, ThreadEvidence] = {}
        stop, ask = [], {}
        for id_ in ids:
            slot = slots.get(id_)
            why = _spared(slot, slept=id_ not in awake)
            if why:
                found[id_] = _unread(id_, "registers" if classify else _COUNTER, why)
            elif classify or slot is None or slot.pc_signal == 0:
                stop.append(id_)
            else:
                ask[id_] = slot
        now_ns = time.monotonic_ns()
        until_ns = (now_ns + deadline_ns) // 2 if ask else deadline_ns
        for id_, evidence in self._loops.gather(stop, deadline_ns=until_ns, classify=classify).items():
            slot = slots.get(id_)
            found[id_] = evidence
            if evidence.unreadable and EvidenceKind.PROGRAM_COUNTERS in kinds:
                if slot is None or slot.pc_signal == 0:
                    found[id_] = _unread(
                        id_, _COUNTER, f"the thread has no handler that stores it; {evidence.unreadable}"
                    )
                else:
                    ask[id_] = slot
        for id_, evidence in self._counters(ask, deadline_ns).items():
            before = found[id_].unreadable if id_ in found else ""
            found[id_] = replace(evidence, unreadable="; ".join(filter(None, (before, evidence.unreadable))))
        return found

    def _counters(self, ask: dict[ThreadId, Slot], deadline_ns: int) -> dict[ThreadId, ThreadEvidence]:
        """Program counters by signal."""
        caught: dict[int, int] = {}
        found: dict[ThreadId, ThreadEvidence] = {}
        waiting: dict[ThreadId, Slot] = {}
        for id_, slot in ask.items():
            late = time.monotonic_ns() >= deadline_ns
            why = "no time was left to ask" if late else self._ask(id_, slot, caught)
            if why:
                found[id_] = _unread(id_, _COUNTER, why)
            else:
                waiting[id_] = slot
        pause_s = _POLL_S
        while waiting:
            slots = self._slots()
            for id_, before in list(waiting.items()):
                now = slots.get(id_)
                if now is None or now.generation != before.generation:
                    del waiting[id_]
                elif now.pc_count != before.pc_count:
                    del waiting[id_]
                    found[id_] = ThreadEvidence(id=id_, pc=now.pc, pc_site=self._site(id_, now.pc))
            left_s = (deadline_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                break
            if waiting:
                time.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, _LONGEST_POLL_S)
        for id_ in waiting:
            found[id_] = _unread(id_, _COUNTER, "no answer to the signal in time")
        return found

    def _slots(self) -> dict[ThreadId, Slot]:
        return {ThreadId(slot.pid, slot.tid): slot for slot in self._page.slots()}

    def _ask(self, id_: ThreadId, slot: Slot, caught: dict[int, int]) -> str:
        """Signals the thread, unless there is a reason not to, which is returned."""
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

    def _site(self, id_: ThreadId, pc: int) -> str:
        found = self._tree.find(id_)
        return self._loops.site(self._keeper.of(found[0]), pc) if found else ""


def _spared(slot: Slot | None, *, slept: bool) -> str:
    """Why a thread that is awake at this moment is neither signalled nor stopped; empty: it may be."""
    if slot is not None and slot.mark is Mark.WAIT and slot.kind is not WaitKind.SPIN:
        return "not asked for, the thread may be about to sleep"
    return "not asked for, the thread slept a moment ago" if slept else ""


def _unread(id_: ThreadId, what: str, why: str) -> ThreadEvidence:
    return ThreadEvidence(id=id_, unreadable=f"{what}: {why}")


def locate(maps: str, pc: int) -> tuple[str, int] | None:
    """The file that is mapped at `pc` and the offset in that file, from the text of /proc/PID/maps.

    Memory without a file has its own name (`[vdso]`), or `[anonymous]`, and the offset in the mapping.
    """
    return Mappings(maps).locate(pc)


def _caught(status: bytes) -> int:
    """Signals that the process handles, as a mask, from /proc/PID/status."""
    match = re.search(rb"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return int(match[1], 16) if match else 0


def has_timer(process: ProcessFiles, *, foreign: bool = False) -> bool:
    """Whether a timer may send the process a signal that it handles, or is set to send it any.

    The kernel does not show whether an alarm is set: who handles its signal is taken to have set one. Of a `foreign`
    process, which we have not started, signals that anybody may send it count too.
    """
    if _caught(process.read("status", 4096)) & (_TIMER_SIGNALS | (_SIGNALS_OF_OTHERS if foreign else 0)):
        return True
    # What follows is the kernel's doing: a limit of CPU time ends the process, caught or not.
    if re.search(rb"^Max cpu time\s+\d", process.read("limits", 4096), re.MULTILINE):
        return True
    # One line of each POSIX timer tells whom it notifies (proc_pid_timers(5)); the file need not exist.
    return re.search(rb"^notify: (?!none)", process.read("timers", 4096), re.MULTILINE) is not None
