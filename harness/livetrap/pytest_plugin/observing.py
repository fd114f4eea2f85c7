"""Watches the child that runs a test, by the same watch and judge as every target, and gathers evidence of it."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import msgspec

from livetrap import evidence
from livetrap.model import Frozen, Gaps, Judgement, Rules
from livetrap.page import Page
from livetrap.plaintext import plain
from livetrap.pytest_plugin.child import DUMP_SIGNAL
from livetrap.targets.owner import Exit, Launched, Owner
from livetrap.trial import SWEEP_S, Watch

STACKS_S = 8.0
START_S = 60.0
"""An interpreter may take so long until its test begins."""
_DUMP_S = 1.0
_NAP_S = 0.01
_MOST_BYTES = 1 << 16


class Seen(Frozen, kw_only=True):
    """What was seen of a child."""

    judgement: Judgement
    exit: Exit | None
    """How it ended by itself; None: it had to be ended."""
    evidence: Mapping[str, object] = {}
    dump: str = ""
    """Python stacks of its threads, as Python itself wrote them: of a crash, or after the verdict."""
    output: str = ""
    """The end of what it wrote, where pytest does not have it anyway."""
    modules: Mapping[str, str] = {}


class _Begun(Exception):
    """The test begins."""


def _raising(begun: Callable[[], bool]) -> Callable[[], bool]:
    def ask() -> bool:
        if begun():
            raise _Begun
        return False

    return ask


def observe(
    owner: Owner,
    launched: Launched,
    *,
    page: Page,
    rules: Rules,
    dump: IO[bytes],
    output: Callable[[int], str] = lambda _pid: "",
    begun: Callable[[], bool] | None = None,
) -> Seen:
    """Watches it to its verdict, and leaves nothing of it behind. `output` reads the end of what it wrote, by its pid.

    The time limit counts from when `begun` is true, if that is given: an interpreter has to start first.

    HarnessError: its owner was lost. KeyboardInterrupt and whatever else is raised meanwhile goes on, after the same.
    """

    def watch_from(began_ns: int, rules: Rules, begun: Callable[[], bool] = lambda: False) -> Watch:
        return Watch(launched.pid, began_ns, rules=rules, gaps=Gaps(), page=page, owner=owner, cancelled=begun)

    found: dict[str, object] = {}
    wrote = ""
    first = msgspec.structs.replace(rules, limit_s=rules.limit_s + START_S)
    watch = watch_from(launched.started_ns, first if begun else rules, _raising(begun) if begun else lambda: False)
    try:
        try:
            judgement = watch.run()
        except _Begun:
            watch.close()
            watch = watch_from(time.monotonic_ns(), rules)
            judgement = watch.run()
        if watch.exit is None:
            found = evidence.collect(
                launched.pid,
                judgement.threads,
                modules=watch.modules,
                listings=watch.listings,
                stacks=True,
                deadline_s=STACKS_S,
            )
            if "python_stacks" not in found:
                _ask_for_stacks(launched.pid, dump)
            wrote = output(launched.pid)
    finally:
        watch.close()
        owner.sweep(SWEEP_S)
    return Seen(
        judgement=judgement,
        exit=watch.exit,
        evidence=found,
        dump=_text(dump),
        output=wrote or plain(owner.output_tail()),
        modules=watch.modules,
    )


def _ask_for_stacks(pid: int, dump: IO[bytes]) -> None:
    """Has Python write the stacks of all threads; waits for that a moment."""
    if not DUMP_SIGNAL:
        return
    with contextlib.suppress(OSError):
        os.kill(pid, DUMP_SIGNAL)
        end, size = time.monotonic() + _DUMP_S, -1
        while time.monotonic() < end and (size <= 0 or os.fstat(dump.fileno()).st_size != size):
            size = os.fstat(dump.fileno()).st_size
            time.sleep(_NAP_S)


def _text(dump: IO[bytes]) -> str:
    try:
        return plain(os.pread(dump.fileno(), _MOST_BYTES, 0).decode(errors="replace")).strip()
    except OSError:
        return ""


def captured(pid: int) -> str:
    """The end of what a process wrote to files that have no name, as pytest's captures are (Linux)."""
    texts: dict[tuple[int, int], str] = {}
    for fd in (1, 2):
        with contextlib.suppress(OSError), Path(f"/proc/{pid}/fd/{fd}").open("rb") as file:
            known = os.fstat(file.fileno())
            if stat.S_ISREG(known.st_mode):
                file.seek(max(0, known.st_size - _MOST_BYTES))
                texts[known.st_dev, known.st_ino] = plain(file.read().decode(errors="replace")).strip()
    return "\n".join(text for text in texts.values() if text)
