"""Stacks of all threads of a process, from whatever debugger there is. Only after the verdict: it stops the process.

Being stopped ends the system call that a sleeper is in, and the sleeper looks anew at what it waits for: a hang by a
lost wake-up can end by this.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from livetrap import tools
from livetrap.evidence import printed
from livetrap.evidence.held import held, status
from livetrap.evidence.printed import Stack
from livetrap.model import Frozen
from livetrap.page import one_line

MOST_PROCESSES = 16
_MEMORY_BYTES = 8 << 30
"""Address space of a debugger, which maps all program files of its target."""
_MAPS_BYTES = 1 << 22
_LEAST_S = 0.05
_GDB = ("-nx", "-nh", "-batch", "-iex", "set auto-load off", "-iex", "set print frame-arguments none")


class Tool(Frozen, kw_only=True):
    """One way to ask for stacks."""

    name: str
    arguments: tuple[str, ...]
    """`{pid}` stands for the process."""
    parse: Callable[..., tuple[Stack, ...]]
    package: str = ""
    share: float = 0.6
    """Of the time that is left; the rest is for the next."""


_NATIVE = {
    "linux": (
        Tool(
            name="eu-stack",
            arguments=("-i", "-s", "-m", "-n", str(printed.MOST_FRAMES), "-p", "{pid}"),
            parse=printed.eu_stack,
            package="elfutils",
        ),
        # Without debug information, which can take long to read.
        Tool(name="eu-stack", arguments=("-m", "-n", "64", "-p", "{pid}"), parse=printed.eu_stack, package="elfutils"),
        Tool(
            name="gdb",
            arguments=(*_GDB, "-p", "{pid}", "-ex", f"thread apply all backtrace {printed.MOST_FRAMES}"),
            parse=printed.gdb,
            package="gdb",
            share=1.0,
        ),
    ),
    "darwin": (
        Tool(name="sample", arguments=("{pid}", "1", "-mayDie"), parse=printed.sample, package="macOS"),
        Tool(
            name="lldb",
            arguments=("--no-lldbinit", "--batch", "-p", "{pid}", "-o", "thread backtrace all", "-o", "detach"),
            parse=printed.lldb,
            package="the command line tools",
            share=1.0,
        ),
    ),
}
_PYTHON = Tool(
    name="py-spy",
    # The process is held already.
    arguments=("dump", "--json", "--nonblocking", "--pid", "{pid}"),
    parse=printed.py_spy,
    package="py-spy",
    share=0.4,
)
HOW_TO_TRACE = "needs the same user or CAP_SYS_PTRACE, and kernel.yama.ptrace_scope=0"
_REFUSED = re.compile(r"not permitted|permission denied", re.IGNORECASE)
_TELLING = re.compile(r"not permitted|denied|no such|error|cannot|could not", re.IGNORECASE)


class Stacks(Frozen, kw_only=True):
    """What came of it."""

    native: tuple[Stack, ...] = ()
    python: tuple[Stack, ...] = ()
    by: tuple[str, ...] = ()
    """Debuggers that gave them."""
    took_s: float = 0.0
    """For so long debuggers worked, and the processes were stopped."""
    missing: tuple[str, ...] = ()
    """What is not there, and why."""


def collect(pids: Sequence[int], *, end: float) -> Stacks:
    """Native stacks of these processes, and Python's of those that run Python, until `end` (time.monotonic)."""
    began = time.monotonic()
    asked = list(dict.fromkeys(pids))
    found = _Found()
    if len(asked) > MOST_PROCESSES:
        found.missing.append(f"stacks: only {MOST_PROCESSES} of {len(asked)} processes were asked")
        asked = asked[:MOST_PROCESSES]
    with held(asked):
        for count, pid in enumerate(asked):
            mine = time.monotonic() + (end - time.monotonic()) / (len(asked) - count)
            # Python's frames first: they are quick to read, and they say most.
            if _runs_python(pid):
                found.python += found.ask(pid, (_PYTHON,), mine)
            if ways := _NATIVE.get(sys.platform):
                found.native += found.ask(pid, ways, mine)
    return Stacks(
        native=tuple(found.native),
        python=tuple(found.python),
        by=tuple(dict.fromkeys(found.by)),
        took_s=time.monotonic() - began,
        missing=tuple(dict.fromkeys(found.missing)),
    )


class _Found:
    """What has come of it so far."""

    def __init__(self) -> None:
        self.native: list[Stack] = []
        self.python: list[Stack] = []
        self.by: list[str] = []
        self.missing: list[str] = []

    def ask(self, pid: int, ways: Sequence[Tool], end: float) -> Iterator[Stack]:
        """Asks for the stacks of one process."""
        stacks, name, failures = _ask(pid, ways, end)
        self.missing += failures
        if name:
            self.by.append(name)
        return map(_named, stacks)


def _ask(pid: int, ways: Sequence[Tool], end: float) -> tuple[tuple[Stack, ...], str, list[str]]:
    """The stacks from the first tool that gives any, its name, and what went wrong until then."""
    found = [(tool, path) for tool in ways if (path := tools.find(tool.name))]
    if not found:
        return (), "", [_not_installed(ways)]
    tracer = status(pid, "TracerPid")
    if tracer not in {"", "0"}:
        return (), "", [f"stacks of process {pid}: process {tracer} already traces it"]
    failures: list[str] = []
    for tool, path in found:
        left_s = (end - time.monotonic()) * tool.share
        if left_s < _LEAST_S:
            failures.append(f"stacks of process {pid}: no time was left for {tool.name}")
            break
        argv = [path, *(word.replace("{pid}", str(pid)) for word in tool.arguments)]
        done = tools.run(argv, deadline_s=left_s, memory_bytes=_MEMORY_BYTES)
        stacks = tool.parse(done.text, pid=pid)
        if stacks:
            if done.late:
                failures.append(f"stacks of process {pid}: {tool.name} was ended after {left_s:.1f} s: not all")
            return stacks, tool.name, failures
        failures.append(f"stacks of process {pid}: {tool.name} {why_not(done, left_s)}")
        if _REFUSED.search(done.text):
            failures[-1] += f"; {HOW_TO_TRACE}"
            break
    return (), "", failures


def _named(stack: Stack) -> Stack:
    """The stack with its thread's name, where the debugger does not tell it and /proc does."""
    with contextlib.suppress(OSError):
        if not stack.name:
            name = Path(f"/proc/{stack.pid}/task/{stack.tid}/comm").read_text(errors="replace")
            return msgspec.structs.replace(stack, name=one_line(name))
    return stack


def _not_installed(ways: Sequence[Tool]) -> str:
    what = "Python frames" if _PYTHON in ways else "stacks"
    names = list(dict.fromkeys(f"{tool.name} ({tool.package})" for tool in ways))
    if len(names) == 1:
        return f"{what}: {names[0]} is not installed"
    return f"{what}: none of {', '.join(names)} is installed"


def why_not(done: tools.Ran, limit_s: float) -> str:
    """What a debugger that gave nothing said, as the rest of a sentence that begins with its name."""
    if done.why:
        return f"could not be started: {one_line(done.why)}"
    if done.late:
        return f"was ended, it had not answered within {limit_s:.1f} s"
    lines = [line.strip() for line in done.text.splitlines() if line.strip()]
    said = next((line for line in lines if _TELLING.search(line)), lines[-1] if lines else "")
    return f"gave nothing (status {done.status}){f': {one_line(said)[:200]}' if said else ''}"


def _runs_python(pid: int) -> bool:
    """Whether the process is a Python interpreter, or has one in it."""
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/exe").readlink().name
        with Path(f"/proc/{pid}/maps").open("rb") as maps:
            return name.startswith("python") or b"/libpython" in maps.read(_MAPS_BYTES)
    return False
