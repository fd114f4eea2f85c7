"""Carries out a disturbance: one helper thread that begins and ends steps at their time, and undoes them all."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from livetrap.disturb.acts import Act, Pause, Tids
from livetrap.disturb.herd import Herd
from livetrap.disturbances import STEPPED, Disturbance, Kind, Step, schedule
from livetrap.errors import HarnessError
from livetrap.model import ThreadId

_SHARE = 100
"""The helper thread may use one part in so many of a CPU; steps come later where they would take more."""
_MS = 1_000_000
_START_NS = 2 * _MS
"""CPU time that it may use beyond that."""


class _Quota(Protocol):
    """What is needed of livetrap.disturb.quota_linux.Quota."""

    def tighten(self) -> None: ...

    def relax(self) -> None: ...

    def remove(self) -> None: ...


class _Line:
    """One kind that does something again and again."""

    def __init__(self, act: Act, steps: Iterator[Step]) -> None:
        self.act = act
        self.steps = steps
        self.open: object | None = None
        """What lasts until its next step."""

    def close(self) -> None:
        """Ends what lasts until its next step."""
        if self.open is not None:
            self.act.end(self.open)
            self.open = None


class _Lately:
    """Threads as they were less than 1 ms ago: an end and a begin that fall together need them but once."""

    def __init__(self, tids: Tids) -> None:
        self._tids = tids
        self._found: list[ThreadId] = []
        self._until_ns = 0
        self.failed = ""

    def __call__(self) -> list[ThreadId]:
        if time.monotonic_ns() >= self._until_ns:
            try:
                self._found = self._tids()
            except Exception as error:  # whatever it is: what was begun must be ended
                self._found, self.failed = [], f"threads could not be listed: {error}"
            self._until_ns = time.monotonic_ns() + _MS
        return self._found


class Disturber:
    """Disturbs one target. Made by `livetrap.disturb.start`; `stop` it before the target is swept or left."""

    def __init__(
        self, disturbance: Disturbance, *, pid: int, seed: int, cpus: tuple[int, ...], tids: Tids, herd: Herd | None
    ) -> None:
        self._disturbance = disturbance
        self._pid = pid
        self._cpus = cpus or own_cpus()
        self._tids = _Lately(tids)
        self._changed = threading.Condition()
        self._quiet = self._over = False
        self._failed: list[str] = []
        self._order = itertools.count()
        self._begun = 0
        self._due: list[tuple[int, int, _Line, Step]] = []
        self._ends: list[tuple[int, int, _Line, object]] = []
        self._lines = [_Line(act, schedule(kind, seed)) for kind, act in self._acts()]
        self._herd, self._own_herd = herd, herd is None
        self._quota = self._make_quota()
        self._unquiet()
        self._thread: threading.Thread | None = None
        if self._lines:
            self._plan_all()
            self._thread = threading.Thread(target=self._run, name="disturber", daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def note(self) -> str:
        """What took effect so far, in words; what could not be done is said, too."""
        with self._changed:
            parts = [line.act.note() for line in self._lines]
        hogs, quota = self._disturbance.amount(Kind.HOGS), self._disturbance.amount(Kind.QUOTA)
        if hogs and not any(text.startswith("hogs") for text in self._failed):
            parts.insert(0, f"hogs: {hogs}")
        if self._quota is not None:
            parts.append(f"quota: {quota} % of a CPU")
        if jitter := self._disturbance.amount(Kind.JITTER):
            parts.append(f"jitter: up to {jitter} us")
        return "; ".join([*parts, *self._failed, *filter(None, [self._tids.failed])])

    def quiet(self) -> None:
        """Undoes all and does nothing more until `resume`: while a target is suspect, it is judged undisturbed.

        When it returns, nothing is stopped, pinned or demoted any more. May be called again.
        """
        with self._changed:
            if self._quiet or self._over:
                return
            self._quiet = True
            self._undo_all()
            self._changed.notify()
        if self._herd is not None:
            self._herd.rest()
        if self._quota is not None:
            self._quota.relax()

    def resume(self) -> None:
        """Goes on after `quiet`. May be called again."""
        with self._changed:
            if not self._quiet or self._over:
                return
            self._quiet = False
            self._plan_all()
            self._changed.notify()
        self._unquiet()

    def stop(self) -> None:
        """Undoes all, for good. May be called again."""
        with self._changed:
            self._over = True
            self._undo_all()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        if self._herd is not None:
            (self._herd.close if self._own_herd else self._herd.rest)()
            self._herd = None
        if self._quota is not None:
            self._quota.remove()

    # --- what it does ------------------------------------------------------------------------------------------------

    def _acts(self) -> Iterator[tuple[Kind, Act]]:
        kinds = [part.kind for part in self._disturbance.parts if part.kind in STEPPED]
        for kind in kinds:
            if kind is Kind.PAUSE:
                yield kind, Pause(self._tids)
            elif sys.platform == "linux":
                from livetrap.disturb import acts_linux  # noqa: PLC0415  it is for Linux only

                migrates = kind is Kind.MIGRATE
                yield kind, acts_linux.Migrate(self._tids, self._cpus) if migrates else acts_linux.Demote(self._tids)
            else:
                self._failed.append(f"{kind}: not on this system")

    def _make_quota(self) -> _Quota | None:
        percent = self._disturbance.amount(Kind.QUOTA)
        if not percent:
            return None
        if sys.platform != "linux":
            self._failed.append("quota: not on this system")
            return None
        from livetrap.disturb.quota_linux import Quota  # noqa: PLC0415  it is for Linux only

        try:
            quota = Quota(percent)
        except HarnessError as error:
            self._failed.append(str(error))
            return None
        if not quota.take(sorted({self._pid, *(id_.pid for id_ in self._tids())})):
            self._failed.append("quota: the target could not be put under it")
        return quota

    def _unquiet(self) -> None:
        """What holds all the time: hogs and quota."""
        hogs = self._disturbance.amount(Kind.HOGS)
        if hogs:
            self._herd = self._herd or Herd()
            try:
                self._herd.burn(hogs, self._cpus)
            except HarnessError as error:
                self._failed.append(str(error))
        if self._quota is not None:
            with contextlib.suppress(OSError):
                self._quota.tighten()

    # --- the helper thread; all of this holds the lock ---------------------------------------------------------------

    def _run(self) -> None:
        begun, used = time.monotonic_ns(), time.thread_time_ns()
        with self._changed:
            not_before = 0
            while not self._over:
                begins = self._begun
                self._do_due(not_before_ns=not_before)
                if self._begun != begins:
                    # Only now: waking up costs, too, and would put off what it woke up for.
                    not_before = begun + (time.thread_time_ns() - used - _START_NS) * _SHARE
                self._changed.wait(self._next_s(not_before_ns=not_before))

    def _do_due(self, *, not_before_ns: int) -> None:
        """Does what is due, but begins nothing before that time."""
        now = time.monotonic_ns()
        while self._ends and self._ends[0][0] <= now:
            _, _, line, done = heapq.heappop(self._ends)
            line.act.end(done)
            if line.act.one_at_a_time:
                self._plan(line)
        while self._due and self._due[0][0] <= now and not_before_ns <= now:
            _, _, line, step = heapq.heappop(self._due)
            line.close()
            done = line.act.begin(step)
            self._begun += 1
            if step.for_ns == 0:
                line.open = done
            elif done is not None:
                heapq.heappush(self._ends, (time.monotonic_ns() + step.for_ns, next(self._order), line, done))
            if done is None or not line.act.one_at_a_time:
                self._plan(line)

    def _next_s(self, *, not_before_ns: int) -> float | None:
        """How long until something is due; None: until something changes."""
        times_ns = [self._ends[0][0]] if self._ends else []
        if self._due:
            times_ns.append(max(self._due[0][0], not_before_ns))
        return max(0.0, (min(times_ns) - time.monotonic_ns()) / 1e9) if times_ns else None

    def _plan(self, line: _Line) -> None:
        step = next(line.steps)
        heapq.heappush(self._due, (time.monotonic_ns() + step.after_ns, next(self._order), line, step))

    def _plan_all(self) -> None:
        for line in self._lines:
            self._plan(line)

    def _undo_all(self) -> None:
        self._due.clear()
        while self._ends:  # one that is interrupted is ended again
            _, _, line, done = self._ends[-1]
            line.act.end(done)
            self._ends.pop()
        for line in self._lines:
            line.close()


def own_cpus() -> tuple[int, ...]:
    """CPUs that this process may use, ascending."""
    if sys.platform == "linux":
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))
