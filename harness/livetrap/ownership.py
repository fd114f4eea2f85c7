"""Who owns the mutexes that sleepers wait for, and whether owners wait for each other. Pure.

glibc keeps the owner's thread id in the mutex (struct __pthread_mutex_s, the same on x86-64 and arm64):

    0   lock    the futex: 0 free, 1 taken, 2 taken and waited for; robust and priority-inheriting ones: the owner's id
    4   count   of a recursive mutex
    8   owner   thread id; 0 before the lock is given up, set after it is taken
    12  users
    16  kind    type in the lowest two bits, then flags

A thread that waits for one sleeps in a futex call without a time-out at the mutex's address, for the value 2. A
priority-inheriting futex names its owner by itself, by the kernel's rules (futex(2)). C++'s std::mutex is a mutex of
pthread.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from livetrap.model import Frozen, ThreadId
from livetrap.wake import FutexWait

MUTEX_BYTES = 20
"""What is read of a mutex, from the futex on."""

_MUTEX = struct.Struct("<IIIII")
_CONTENDED = 2
_LEAST_READINGS = 3
_TID_MASK = 0x3FFF_FFFF
"""FUTEX_TID_MASK of linux/futex.h."""
_WAITERS = 0x8000_0000
"""FUTEX_WAITERS, set in the word of a robust mutex that is waited for."""
_RECURSIVE, _ERROR_CHECK = 1, 2
_ROBUST = 16
_KNOWN_KIND = 3 | _ROBUST | 128 | 256 | 512
"""Type, robust, shared between processes, and the two flags of lock elision (nptl/pthreadP.h)."""


class Sleep(Frozen, kw_only=True):
    """One reading of a thread that sleeps for a mutex."""

    call: str
    """The text of /proc/PID/task/TID/syscall."""
    ran: bytes
    """Whatever moves when the thread runs; empty: not known."""
    owner: ThreadId


def may_be_mutex(call: FutexWait) -> bool:
    """Whether a mutex is waited for like this; cheap to ask, and mostly false."""
    return call.names_owner or call.value == _CONTENDED or bool((call.value or 0) & _WAITERS)


def owner(call: FutexWait, memory: bytes) -> int | None:
    """The id of the thread that owns what `call` waits for, as the process itself counts threads; None: not a mutex.

    `memory` is what the process has at the futex, MUTEX_BYTES of it. Whether such a thread lives is not asked here.
    """
    if len(memory) < 4:
        return None
    word = int.from_bytes(memory[:4], "little")
    if call.names_owner:
        return word & _TID_MASK or None
    if len(memory) < MUTEX_BYTES:
        return None
    _, _, holder, users, kind = _MUTEX.unpack_from(memory)
    if not holder or not users or kind & ~_KNOWN_KIND:
        return None
    if kind & _ROBUST:
        return holder if word == holder | _WAITERS == call.value else None
    return holder if word == _CONTENDED == call.value else None


def waits_for_itself(memory: bytes) -> bool:
    """Whether a mutex of this kind lets its own owner wait for it; recursive and checking ones do not."""
    return len(memory) >= MUTEX_BYTES and _MUTEX.unpack_from(memory)[4] & 3 not in {_RECURSIVE, _ERROR_CHECK}


def settled(readings: Sequence[Mapping[ThreadId, Sleep]]) -> dict[ThreadId, ThreadId]:
    """Owners by waiting thread, of those that three or more readings show alike and that never ran meanwhile.

    Each reading was over before the next began. So what the middle ones say held for all of these threads at once.
    """
    if len(readings) < _LEAST_READINGS:
        return {}
    first, *later = readings
    alike = {id_: seen for id_, seen in first.items() if all(reading.get(id_) == seen for reading in later)}
    return {id_: seen.owner for id_, seen in alike.items() if seen.ran}


def cycle(owners: Mapping[ThreadId, ThreadId]) -> tuple[ThreadId, ...]:
    """Threads each of which waits for the next, and the last for the first; empty where there are none.

    Of several cycles the one with the least thread id; it begins with that.
    """
    found: list[tuple[ThreadId, ...]] = []
    visited: set[ThreadId] = set()
    for start in sorted(owners):
        path: dict[ThreadId, None] = {}
        at: ThreadId | None = start
        while at is not None and at not in visited:
            visited.add(at)
            path[at] = None
            at = owners.get(at)
        if at is not None and at in path:
            ring = list(path)[list(path).index(at) :]
            least = ring.index(min(ring))
            found.append((*ring[least:], *ring[:least]))
    return min(found, default=())
