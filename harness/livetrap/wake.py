"""What could still wake a sleeping thread, told from the system call that it sleeps in. Pure.

The call comes as the text of Linux's /proc/PID/task/TID/syscall: the number, six arguments, stack pointer and program
counter; `-1` and two registers for a thread asleep outside any call; `running` for one that is not asleep at all
(proc_pid_syscall(5)).

`none` is what convicts, so it is said only of what nothing outside the process tree can end.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from livetrap.model import ThreadState, WakeSource
from livetrap.syscalls import CALLS

Answer = tuple[WakeSource, str]


class Call(NamedTuple):
    """One system call that a thread sleeps in, and what is known around it."""

    args: tuple[int, ...]
    """All six."""
    live_tids: Collection[int]
    tree_pids: Collection[int]
    pid: int
    maps: str
    fd: str
    fd_inside: bool


def classify(
    arch: str,
    syscall_line: str | None,
    state: ThreadState,
    *,
    pid: int = 0,
    live_tids: Collection[int] = (),
    tree_pids: Collection[int] = (),
    maps: str = "",
    fd: str = "",
    fd_inside: bool = False,
    unreadable: str = "",
) -> Answer:
    """Wake source of a thread in `state`, and in words what it sleeps in.

    `arch` is `x86_64` or `arm64`; `live_tids` are the threads of its own process `pid`, `tree_pids` the processes of
    the target's tree. `maps` is the text of /proc/PID/maps ("" where it was not read), needed only for a futex that is
    not flagged private. `fd` is what the descriptors point to that it waits for (`pipe:[123]`; "" where not known), and
    `fd_inside` that all are pipes whose other ends are held within the tree. `syscall_line` is None where it could not
    be read; `unreadable` then says why. Never raises, whatever the text.
    """
    if state is ThreadState.UNINTERRUPTIBLE:
        return WakeSource.OUTSIDE, "uninterruptible sleep"
    if state is not ThreadState.ASLEEP:
        return WakeSource.UNKNOWN, f"not asleep ({state})"
    if syscall_line is None:
        return WakeSource.UNKNOWN, f"cannot be read: {unreadable}" if unreadable else "cannot be read"
    numbers = _numbers(syscall_line)
    if numbers is None:
        return WakeSource.UNKNOWN, "running by now" if syscall_line.strip() == "running" else "not understood"
    if numbers[0] == -1:
        return WakeSource.UNKNOWN, "asleep outside any system call"
    if len(numbers) < 7:
        return WakeSource.UNKNOWN, "not understood"
    name = CALLS.get(arch, {}).get(numbers[0])
    if name is None:
        return WakeSource.UNKNOWN, f"system call {numbers[0]}"
    call = Call(numbers[1:7], live_tids, tree_pids, pid, maps, fd, fd_inside)
    return _RULES.get(name, _outside)(name, call)


def descriptors(arch: str, syscall_line: str, memory: Sequence[bytes] = ()) -> list[int]:
    """All descriptors that the call waits for, where `classify` can use what they point to; empty where not known.

    `memory` is what the process's memory has at `poll_memory`.
    """
    name, args = _call(arch, syscall_line)
    if name in _BY_DESCRIPTOR:
        return [_int32(args[0])]
    if name in {"poll", "ppoll"}:
        return [fd for piece in memory for fd, _, _ in struct.iter_unpack("=ihh", piece) if fd >= 0]
    if name in {"select", "pselect6"}:
        wanted = 0
        for piece in memory:
            wanted |= int.from_bytes(piece, "little")
        return [fd for fd in range(min(_int32(args[0]), wanted.bit_length())) if wanted >> fd & 1]
    return []


def poll_memory(arch: str, syscall_line: str) -> list[tuple[int, int]]:
    """Address and size of the memory that says what an untimed poll or select waits for; empty for all other calls.

    The kernel has copied it when the call began. Should another thread have written there since, it misleads: nobody
    who polls has a reason to.
    """
    name, args = _call(arch, syscall_line)
    if name not in _POLLS or _RULES[name](name, _bare(args))[0] is WakeSource.TIMER:
        return []
    if name in {"poll", "ppoll"}:
        return [(args[0], 8 * args[1])] if 0 < args[1] <= _MOST_POLLED else []
    count = _int32(args[0])
    if name not in {"select", "pselect6"} or not 0 < count <= _MOST_POLLED:
        return []
    return [(address, (count + 63) // 64 * 8) for address in args[1:4] if address]


def epoll_descriptor(arch: str, syscall_line: str) -> int | None:
    """The instance that an untimed epoll_wait waits for; None for all other calls."""
    name, args = _call(arch, syscall_line)
    if not name.startswith("epoll") or _RULES[name](name, _bare(args))[0] is WakeSource.TIMER:
        return None
    return _int32(args[0])


def epoll_watches(fdinfo: str) -> list[tuple[int, int]]:
    """Descriptor and inode of all that an epoll instance watches, from its /proc/PID/fdinfo text (proc_pid_fdinfo(5)).

    Inode -1 where the kernel does not tell (before Linux 4.13).
    """
    lines = re.findall(r"^tfd:\s*([0-9]{1,9}) (.*)$", fdinfo, re.MULTILINE)
    inodes = [re.search(r" ino:([0-9a-f]{1,16})\b", rest) for _, rest in lines]
    return [(int(fd), int(at[1], 16) if at else -1) for (fd, _), at in zip(lines, inodes, strict=True)]


def wants_maps(arch: str, syscall_line: str) -> bool:
    """Whether `classify` needs the process's maps: for a futex that is not flagged private, without a time-out."""
    numbers = _numbers(syscall_line)
    if numbers is None or len(numbers) < 7:
        return False
    name = CALLS.get(arch, {}).get(numbers[0])
    if name == "futex":
        return not numbers[2] & _FUTEX_PRIVATE and not numbers[4]
    return name == "futex_wait" and not numbers[4] & _FUTEX_PRIVATE and not numbers[5]


class FutexWait(NamedTuple):
    """An untimed wait for one futex."""

    address: int
    value: int | None
    """The awaited one; None where the operation compares nothing."""
    names_owner: bool
    """The futex holds the id of the thread that owns it, by the kernel's rules (futex(2), priority inheritance)."""


def futex_wait(arch: str, syscall_line: str) -> FutexWait | None:
    """The futex that a thread waits for without a time-out; None for all other calls, and what is not understood."""
    name, args = _call(arch, syscall_line)
    if name == "futex" and not args[3]:
        command = args[1] & _FUTEX_COMMAND
        if command in _FUTEX_OWNED:
            return FutexWait(args[0], None, names_owner=True)
        if command in {_FUTEX_WAIT, _FUTEX_WAIT_BITSET}:
            return FutexWait(args[0], args[2] & 0xFFFF_FFFF, names_owner=False)
    if name == "futex_wait" and not args[4]:
        return FutexWait(args[0], args[1] & 0xFFFF_FFFF, names_owner=False)
    return None


def private_mapping(maps: str, address: int) -> bool | None:
    """Whether the address lies in a private mapping; None where the text does not tell."""
    for match in re.finditer(r"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) [r-][w-][x-]([ps]) ", maps, re.MULTILINE):
        if int(match[1], 16) <= address < int(match[2], 16):
            return match[3] == "p"
    return None


@functools.lru_cache(maxsize=1024)
def _numbers(line: str) -> tuple[int, ...] | None:
    words = line.split()
    if not words or not re.fullmatch(r"-1|[0-9]{1,9}", words[0], re.ASCII):
        return None
    if not all(re.fullmatch(r"0x[0-9a-f]{1,16}", word) for word in words[1:]):
        return None
    return int(words[0]), *(int(word, 16) for word in words[1:])


def _call(arch: str, line: str) -> tuple[str, tuple[int, ...]]:
    """Name and six arguments; the name is empty where it is not known, or there is no call."""
    numbers = _numbers(line)
    if numbers is None or len(numbers) < 7:
        return "", ()
    return CALLS.get(arch, {}).get(numbers[0], ""), numbers[1:7]


def _bare(args: tuple[int, ...]) -> Call:
    """The call with nothing known around it."""
    return Call(args, (), (), 0, "", "", fd_inside=False)


def _int32(value: int) -> int:
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


# --- one rule a family of calls --------------------------------------------------------------------------------------

_FUTEX_PRIVATE = 128
_FUTEX_COMMAND = 0x7F
_FUTEX_WAIT, _FUTEX_WAIT_BITSET = 0, 9
_FUTEX_OWNED = frozenset({6, 13})
_FUTEX_WAITS = {0: "wait", 6: "lock-pi", 9: "wait-bitset", 11: "wait-requeue-pi", 13: "lock-pi2"}
_FUTEX_COMPARES = frozenset({0, 9, 11})
"""Operations whose third argument is the awaited value."""


def _futex(_: str, call: Call) -> Answer:
    command = call.args[1] & _FUTEX_COMMAND
    if command not in _FUTEX_WAITS:
        return WakeSource.UNKNOWN, f"futex operation {command}"
    private = bool(call.args[1] & _FUTEX_PRIVATE)
    value = call.args[2] if command in _FUTEX_COMPARES else None
    return _futex_answer(f"futex {_FUTEX_WAITS[command]}", call, private=private, value=value, timed=bool(call.args[3]))


def _futex_wait(_: str, call: Call) -> Answer:
    """futex_wait(2) of Linux 6.7: address, value, mask, flags, time-out, clock."""
    private = bool(call.args[3] & _FUTEX_PRIVATE)
    return _futex_answer("futex wait", call, private=private, value=call.args[1], timed=bool(call.args[4]))


def _futex_answer(what: str, call: Call, *, private: bool, value: int | None, timed: bool) -> Answer:
    if timed:
        return WakeSource.TIMER, f"{what} (timed)"
    if private:
        return WakeSource.NONE, f"{what} (untimed, private)"
    # glibc's join looks shared: the word holds the id of the awaited thread, and the kernel clears it at its exit.
    if value is not None and _int32(value) in call.live_tids:
        return WakeSource.NONE, f"{what} (untimed, joins thread {_int32(value)})"
    mapped = private_mapping(call.maps, call.args[0])
    if mapped:
        return WakeSource.NONE, f"{what} (untimed, in a private mapping)"
    return WakeSource.OUTSIDE, f"{what} (untimed, shared)"


def _futex_waitv(_: str, call: Call) -> Answer:
    """Several words at once: waiters, how many, flags, time-out, clock. Whether they are private stands in memory."""
    if call.args[3]:
        return WakeSource.TIMER, "futex waitv (timed)"
    return WakeSource.UNKNOWN, "futex waitv (untimed)"


def _wait4(name: str, call: Call) -> Answer:
    return _awaits(name, call, _int32(call.args[0]))


def _waitid(name: str, call: Call) -> Answer:
    by_pid = 1
    return _awaits(name, call, _int32(call.args[1]) if _int32(call.args[0]) == by_pid else -1)


def _awaits(name: str, call: Call, wanted: int) -> Answer:
    """Only a child can be waited for, and a child of the tree is in the tree."""
    others = {pid for pid in call.tree_pids if pid != call.pid}
    if wanted > 0:
        if wanted in others:
            return WakeSource.NONE, f"{name} (for process {wanted} of the tree)"
        return WakeSource.UNKNOWN, f"{name} (for process {wanted}, not known)"
    return (WakeSource.NONE if others else WakeSource.UNKNOWN), f"{name} (for any child)"


def _sleep(name: str, _: Call) -> Answer:
    return WakeSource.TIMER, name


def _restart(name: str, _: Call) -> Answer:
    """restart_syscall(2): a call with a time-out, begun anew after a stop. (An untimed poll too: outside, not none.)"""
    return WakeSource.TIMER, f"{name} (a timed wait, after a stop)"


def _timed_by_pointer(position: int) -> Callable[[str, Call], Answer]:
    """Calls whose time-out is a pointer, NULL for none."""

    def rule(name: str, call: Call) -> Answer:
        if call.args[position]:
            return WakeSource.TIMER, f"{name} (timed)"
        return _untimed(name, call)

    return rule


def _timed_by_ms(position: int) -> Callable[[str, Call], Answer]:
    """Calls whose time-out is a number, negative for none."""

    def rule(name: str, call: Call) -> Answer:
        if _int32(call.args[position]) >= 0:
            return WakeSource.TIMER, f"{name} (timed)"
        return _untimed(name, call)

    return rule


def _untimed(name: str, call: Call) -> Answer:
    if call.fd_inside and name in _POLLS:
        return WakeSource.NONE, f"{name} (untimed, {call.fd}), all of whose ends are in the tree"
    return WakeSource.OUTSIDE, f"{name} (untimed, {call.fd})" if call.fd else f"{name} (untimed)"


def _transfer(name: str, call: Call) -> Answer:
    what = f"{name} ({call.fd})" if call.fd else name
    if "timerfd" in call.fd:
        return WakeSource.TIMER, what
    if call.fd_inside:
        return WakeSource.NONE, f"{what}, all of whose ends are in the tree"
    return WakeSource.OUTSIDE, what


def _outside(name: str, _: Call) -> Answer:
    return WakeSource.OUTSIDE, name


_BY_DESCRIPTOR = frozenset({"read", "readv", "preadv", "write", "writev", "recvfrom", "recvmsg", "sendto", "sendmsg"})

_POLLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
_MOST_POLLED = 1024
"""Whoever polls more descriptors than this is not asked for them."""

_RULES: dict[str, Callable[[str, Call], Answer]] = {
    "futex": _futex,
    "futex_wait": _futex_wait,
    "futex_waitv": _futex_waitv,
    "wait4": _wait4,
    "waitid": _waitid,
    "nanosleep": _sleep,
    "clock_nanosleep": _sleep,
    "restart_syscall": _restart,
    "poll": _timed_by_ms(2),
    "epoll_wait": _timed_by_ms(3),
    "epoll_pwait": _timed_by_ms(3),
    "epoll_pwait2": _timed_by_pointer(3),
    "ppoll": _timed_by_pointer(2),
    "select": _timed_by_pointer(4),
    "pselect6": _timed_by_pointer(4),
    "rt_sigtimedwait": _timed_by_pointer(2),
    "semtimedop": _timed_by_pointer(3),
    "recvmmsg": _timed_by_pointer(4),
    "mq_timedsend": _timed_by_pointer(4),
    "mq_timedreceive": _timed_by_pointer(4),
    "io_getevents": _timed_by_pointer(4),
    "io_pgetevents": _timed_by_pointer(4),
    **dict.fromkeys(_BY_DESCRIPTOR, _transfer),
}
"""Calls that are in the tables but not here end by something outside, whatever their arguments."""
