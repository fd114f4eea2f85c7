"""Whether this process may be forked: whatever a thread holds at that moment, the child would wait for without end."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import psutil

_OURS = ("livetrap", "pytest_timeout")
"""Beginnings of names of Python threads that hold nothing a test needs: a watch's, a timer of pytest-timeout's."""
_RUNNER = "execnet"
"""pytest-xdist's workers have its threads, which wait for the controller's words."""


def obstacle(*, spare: int = 0) -> str:
    """Why a fork of this process could hang, in words; empty: it cannot. `spare`: so many native threads are known."""
    if sys.platform == "darwin":
        return "the libraries of macOS do not work in a forked process"
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    here = threading.get_ident()
    others = [
        names.get(ident, f"{ident}, of {_outermost(frame).f_globals.get('__name__', '?')}")
        for ident, frame in frames.items()
        if ident != here and not _harmless(names.get(ident, ""), frame)
    ]
    native = _count() - len(frames) - spare
    found = [f"Python thread {name}" for name in others[:3]]
    if native > 0:
        found.append(f"{native} native thread{'s' if native > 1 else ''}")
    return f"this process has {', '.join(found)}" if found else ""


def _harmless(name: str, frame: FrameType) -> bool:
    module = str(_outermost(frame).f_globals.get("__name__", ""))
    return name.startswith(_OURS) or module.partition(".")[0] == _RUNNER


def _outermost(frame: FrameType) -> FrameType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _count() -> int:
    """Threads of this process, native ones too."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return int(psutil.Process().num_threads())
