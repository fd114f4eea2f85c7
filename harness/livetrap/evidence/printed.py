"""Reads what debuggers print: stacks of threads. Pure, and never raises, whatever they print."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import msgspec

from livetrap.model import Frozen
from livetrap.page import one_line

MOST_THREADS = 512
MOST_FRAMES = 64
_CHARACTERS = 300
_LINE_CHARACTERS = 4000


class Stack(Frozen, kw_only=True):
    """One thread's stack, the innermost frame first."""

    pid: int
    tid: int
    name: str = ""
    frames: tuple[str, ...] = ()
    """`function at file:line [module]`, as much of it as is known."""


class _Building:
    """Stacks while they are read."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._threads: dict[int, list[list[str]]] = {}
        self._names: dict[int, str] = {}
        self._now: list[list[str]] | None = None

    def thread(self, tid: int, name: str = "") -> None:
        """The frames that follow are of this thread."""
        self._now = None
        if len(self._threads) < MOST_THREADS:
            self._now = self._threads.setdefault(tid, [])
            self._names[tid] = one_line(name)[:_CHARACTERS]

    def frame(self, function: str, *, place: str = "", module: str = "") -> None:
        """The next frame."""
        if self._now is not None and len(self._now) < MOST_FRAMES:
            self._now.append([one_line(part)[:_CHARACTERS] for part in (function, place, module)])

    def place(self, text: str) -> None:
        """File and line of the last frame."""
        if self._now:
            self._now[-1][1] = self._now[-1][1] or one_line(text)[:_CHARACTERS]

    def stacks(self) -> tuple[Stack, ...]:
        """Those that have a frame."""
        return tuple(
            Stack(pid=self._pid, tid=tid, name=self._names[tid], frames=tuple(_text(*frame) for frame in frames))
            for tid, frames in self._threads.items()
            if frames
        )


def _text(function: str, place: str, module: str) -> str:
    text = f"{function or '?'} at {place}" if place else function or "?"
    return f"{text} [{module}]" if module else text


def _lines(text: str) -> Iterator[str]:
    return (line[:_LINE_CHARACTERS] for line in text.splitlines())


def eu_stack(text: str, *, pid: int) -> tuple[Stack, ...]:
    """Of `eu-stack -p PID`, with or without `-i -s -m`."""
    built = _Building(pid)
    for line in _lines(text):
        if match := re.match(r"TID (\d+):", line):
            built.thread(int(match[1]))
        elif match := re.match(r"#\d+\s+0x([0-9a-f]+)(?: - 1)?(?: (.*?))??(?: - (/.*|\[.*))?$", line):
            function = (match[2] or "").strip()
            built.frame(function or f"0x{match[1].lstrip('0')}", module=(match[3] or "").rpartition("/")[2].strip("[]"))
        elif match := re.match(r" {4}(\S.*?:\d+)(?::\d+)?$", line):
            built.place(match[1])
    return built.stacks()


def gdb(text: str, *, pid: int) -> tuple[Stack, ...]:
    """Of gdb's `thread apply all backtrace`."""
    built = _Building(pid)
    for line in _lines(text):
        if match := re.match(r'Thread \d+ \((?:.*?\b(?:LWP|process) (\d+)\)?)(?: "(.*)")?\):', line):
            built.thread(int(match[1]), match[2] or "")
        elif match := re.match(r"#\d+\s+(?:0x[0-9a-f]+ in )?(.*)$", line):
            function, place, module = _gdb_frame(match[1])
            built.frame(function, place=place, module=module)
    return built.stacks()


def _gdb_frame(text: str) -> tuple[str, str, str]:
    """Function, file:line and module of `function (arguments) at file:line` or `... from module`."""
    head, place, module = text, "", ""
    if " at " in text:
        head, _, place = text.rpartition(" at ")
    elif " from " in text:
        head, _, module = text.rpartition(" from ")
    return re.sub(r" \((?:[\w:~]+=[^()]*|\.\.\.)?\)$", "", head.strip()), place, module.rpartition("/")[2]


def lldb(text: str, *, pid: int) -> tuple[Stack, ...]:
    """Of lldb's `thread backtrace all`."""
    built = _Building(pid)
    for line in _lines(text):
        if match := re.match(r"[ *]+thread #\d+(?:, name = '(.*?)')?(?:.*?tid = (0x[0-9a-f]+|\d+))?", line):
            built.thread(int(match[2], 0) if match[2] else len(built.stacks()) + 1, match[1] or "")
        elif match := re.match(r"[ *]+frame #\d+: 0x[0-9a-f]+ (?:(.*?)`)?(.*)$", line):
            function, _, place = match[2].partition(" at ")
            built.frame(function, place=place, module=match[1] or "")
    return built.stacks()


def sample(text: str, *, pid: int) -> tuple[Stack, ...]:
    """Of macOS's `sample PID`: of each thread's tree the branch that was seen most, which it prints first."""
    built = _Building(pid)
    branch: list[tuple[str, str]] = []
    depth, is_open = -1, False

    def close() -> None:
        for function, module in reversed(branch):
            built.frame(function, module=module)
        branch.clear()

    for line in _lines(text):
        if match := re.match(r"\s+\d+ Thread_(\d+)(.*)$", line):
            close()
            built.thread(int(match[1]), match[2].strip(": "))
            depth, is_open = -1, True
        elif is_open and (match := re.match(r"([ +!:|]*)\d+ (.+?)(?:  \(in (.*?)\).*)?$", line)):
            is_open = len(match[1]) > depth
            depth = len(match[1])
            if is_open:
                branch.append((match[2], match[3] or ""))
        elif not line.strip() or line.startswith("Total number"):
            is_open = False
    close()
    return built.stacks()


def py_spy(text: str, *, pid: int) -> tuple[Stack, ...]:
    """Of `py-spy dump --json`."""
    built = _Building(pid)
    with contextlib.suppress(msgspec.MsgspecError):
        for thread in msgspec.json.decode(text[max(0, text.find("[")) :], type=list[_SpiedThread]):
            built.thread(thread.os_thread_id or thread.thread_id, thread.thread_name or "")
            for frame in thread.frames:
                built.frame(frame.name, place=f"{frame.filename}:{frame.line}")
    return built.stacks()


class _SpiedFrame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    line: int = 0


class _SpiedThread(msgspec.Struct):
    thread_id: int = 0
    os_thread_id: int | None = None
    thread_name: str | None = None
    frames: list[_SpiedFrame] = []
