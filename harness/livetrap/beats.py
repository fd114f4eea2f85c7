"""Heartbeats of Python programs: `livetrap.beat()`, what `lt_beat()` of `livetrap.h` is for C (see there for the page).

It stands alone: any Python from 3.8 on, nothing but the standard library, nothing else of this package.

Python has no atomic operations. So its threads claim slots from the top of the page downward, one process at a time
under a lock on the page, and only while enough slots below are free: C's threads, which claim from the bottom up, never
come near. What two languages might still write at once is the header's count of beats of threads that have gone: there,
in a program whose C and Python threads end at the same instant, some may get lost.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["beat"]

_MAGIC = 0x454741505054524C
_VERSION = 1
_HEADER_BYTES = 1024
_SLOT_BYTES = 128
_FIRST_LINE = struct.Struct("<QIIQQ")

# Places in the header, in words of 8 or 4 bytes, and within a slot.
_DEPARTED_BEATS_8, _DEPARTED_8 = 128 // 8, 136 // 8
_OVERFLOW_4, _USED_4 = 144 // 4, 148 // 4
_BEATS_8, _TID_8 = 0 // 8, 40 // 8
_MARK_4, _PID_4, _GENERATION_4, _PC_SIGNAL_4, _CLAIMED_4 = 8 // 4, 32 // 4, 36 // 4, 60 // 4, 88 // 4
_CLEARED_8 = tuple(at // 8 for at in (0, 8, 16, 24, 48, 64, 72, 80, 104, 112))
"""Beats, mark and kind, site, arrivals, CPU time, switches, pc and its count, depth and outer kind, outer site."""
_CLEARED_4 = tuple(at // 4 for at in (56, 60, 92, 96, 100))
"""Run state, signal, resume, placed, team index."""
_MARK_DONE = 4

_GAP = 8
"""So many slots below one must be free for Python to claim it."""
_TRIES = 8
_NAP_S = 0.0005


class _Page:
    """The page, mapped. Two views of the same memory: in words of 8 and of 4 bytes."""

    def __init__(self, fd: int, slots: int) -> None:
        """`fd` is kept: the lock needs it."""
        memory = memoryview(mmap.mmap(fd, _HEADER_BYTES + slots * _SLOT_BYTES))
        self.by8, self.by4 = memory.cast("Q"), memory.cast("I")
        self.fd = fd
        self.slots = slots
        self.threads = threading.Lock()

    def lock(self) -> bool:
        """Whether the page is ours now, among all Python threads and processes.

        Never waits for long: the owner may be stopped, or be this very thread, which a signal has interrupted.
        """
        if not self.threads.acquire(timeout=_TRIES * _NAP_S):
            return False
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_NAP_S)
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            return True
        self.threads.release()
        return False

    def unlock(self) -> None:
        """To be called once for each lock that was had."""
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        self.threads.release()

    def claim(self) -> int | None:
        """A slot for the calling thread; -1: none is free; None: the lock cannot be had now."""
        if not self.lock():
            return None
        try:
            slot = self._free_slot()
            if slot < 0:
                self.by4[_OVERFLOW_4] = 1
            else:
                self._take(slot)
            return slot
        finally:
            self.unlock()

    def _free_slot(self) -> int:
        by4 = self.by4
        first = _HEADER_BYTES // 4 + _CLAIMED_4
        free = [slot for slot in range(self.slots) if not by4[first + slot * (_SLOT_BYTES // 4)]]
        return free[-1] if len(free) > _GAP else -1

    def _take(self, slot: int) -> None:
        """In the order of livetrap.h: claimed, all fields, the generation; then the slots in use."""
        by8, by4 = self.by8, self.by4
        at8, at4 = _places(slot)
        by4[at4 + _CLAIMED_4] = 1
        for word in _CLEARED_8:
            by8[at8 + word] = 0
        for word in _CLEARED_4:
            by4[at4 + word] = 0
        by4[at4 + _PID_4] = os.getpid()
        by8[at8 + _TID_8] = threading.get_native_id()
        by4[at4 + _GENERATION_4] = (by4[at4 + _GENERATION_4] + 1) & 0xFFFFFFFF
        by4[_USED_4] = self.slots

    def free(self, slot: int) -> None:
        """The thread has gone: its beats go to the header, the slot becomes free."""
        by8, by4 = self.by8, self.by4
        at8, at4 = _places(slot)
        locked = self.lock()
        by8[_DEPARTED_BEATS_8] = (by8[_DEPARTED_BEATS_8] + by8[at8 + _BEATS_8]) & 0xFFFFFFFFFFFFFFFF
        by8[_DEPARTED_8] += 1
        by4[at4 + _PC_SIGNAL_4] = 0
        by4[at4 + _MARK_4] = _MARK_DONE
        by4[at4 + _CLAIMED_4] = 0
        if locked:
            self.unlock()


def _places(slot: int) -> tuple[int, int]:
    """Where a slot begins, in words of 8 and of 4 bytes."""
    at = _HEADER_BYTES + slot * _SLOT_BYTES
    return at // 8, at // 4


class _Thread:
    """A thread's slot. It lies in a thread-local, so it goes when the thread does."""

    def __init__(self, page: _Page) -> None:
        self.page = page
        self.slot: int | None = None
        self.pid = os.getpid()
        self.beats = 0
        self.by8: Any = None
        self.at = 0

    def claim(self) -> None:
        """Asks for a slot; what was beaten before comes with it."""
        self.slot = self.page.claim()
        if self.slot is not None and self.slot >= 0:
            self.at = _places(self.slot)[0] + _BEATS_8
            self.by8 = self.page.by8
            self.by8[self.at] = self.beats

    def __del__(self) -> None:
        # A forked child has copies of its parent's threads, whose slots are not its own.
        if self.by8 is not None and self.pid == os.getpid():
            self.page.free(self.slot or 0)


class _Local(threading.local):
    thread: _Thread | None = None


def _map(fd: int, nonce: int) -> _Page | None:
    """The page behind a descriptor; None: it is not that page. Nothing of another file is touched."""
    try:
        magic, version, slots, found, size = _FIRST_LINE.unpack(os.pread(fd, _FIRST_LINE.size, 0))
        if (magic, version, found) != (_MAGIC, _VERSION, nonce) or os.fstat(fd).st_size != size:
            return None
        if size != _HEADER_BYTES + slots * _SLOT_BYTES:
            return None
        own = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)  # the program may close its own
        try:
            return _Page(own, slots)
        except BaseException:
            os.close(own)
            raise
    except (OSError, OverflowError, ValueError, struct.error):
        return None


def _find(spec: str) -> _Page | None:
    """The page that LIVETRAP_PAGE names; None without one."""
    parts = spec.split(":", 3)
    try:
        fd, nonce = int(parts[1]), int(parts[2], 16)
    except (IndexError, ValueError):
        return None
    if parts[0] != str(_VERSION) or len(parts) < 4:
        return None
    page = _map(fd, nonce) if fd >= 0 else None
    if page is None and parts[3]:
        try:
            opened = os.open(parts[3], os.O_RDWR | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        page = _map(opened, nonce)
        os.close(opened)
    return page


_page = _find(os.environ.get("LIVETRAP_PAGE", ""))
_local = _Local()


def beat() -> None:
    """One unit of work is COMPLETE (never "still alive"): counted for the calling thread.

    Does nothing where livetrap has not started the program; never raises.
    """
    if _page is None:
        return
    thread = _local.thread
    if thread is None:
        thread = _local.thread = _Thread(_page)
    thread.beats += 1
    if thread.by8 is not None:
        thread.by8[thread.at] = thread.beats
    elif thread.slot is None:
        thread.claim()


def _after_fork() -> None:
    """The child has one thread, which claims a slot of its own at its next beat."""
    global _local  # noqa: PLW0603  one process, one state
    if _page is not None:
        _page.threads = threading.Lock()  # its owner may be a thread that the child does not have
    _local = _Local()


if _page is not None:
    os.register_at_fork(after_in_child=_after_fork)
