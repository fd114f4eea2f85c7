"""What a disturbance does to single threads on Linux, step by step: pin them, take their priority."""

from __future__ import annotations

import abc
import os
import sys

from livetrap.disturb.acts import Tids
from livetrap.disturbances import Step, destinations
from livetrap.model import Frozen, ThreadId

assert sys.platform == "linux"

_RESET_ON_FORK = 0x40000000
"""SCHED_RESET_ON_FORK of <linux/sched.h>, a bit beside the policy."""


class _Held(Frozen):
    """A thread that was changed."""

    id: ThreadId
    before: object
    now: object
    others: frozenset[ThreadId]
    """Threads that there were by then: a later one may have inherited the change."""


class ThreadAct(abc.ABC):
    """Changes one setting of threads for a while. One that the target changes itself meanwhile stays as it made it."""

    one_at_a_time = False
    _name: str

    def __init__(self, tids: Tids) -> None:
        self._tids = tids
        self._held: dict[ThreadId, _Held] = {}
        self._times = 0
        self._failed = ""

    def begin(self, step: Step) -> object | None:
        """See livetrap.disturb.acts.Act."""
        threads = self._tids()
        others = frozenset(threads)
        changed = [
            held
            for id_, wanted in self._chosen(step, threads)
            if id_ not in self._held and (held := self._change(id_, wanted, others)) is not None
        ]
        self._times += len(changed)
        self._held.update((held.id, held) for held in changed)
        return changed or None

    def end(self, done: object) -> None:
        """See livetrap.disturb.acts.Act."""
        assert isinstance(done, list)
        threads = self._tids()
        for held in done:
            self._held.pop(held.id, None)
            self._undo(held.id, held)
            for id_ in threads:
                if id_ not in held.others:
                    self._undo(id_, held)

    def note(self) -> str:
        """See livetrap.disturb.acts.Act."""
        return f"{self._name}: {self._times} times" + (f" ({self._failed})" if self._failed else "")

    def _change(self, id_: ThreadId, wanted: object, others: frozenset[ThreadId]) -> _Held | None:
        try:
            before = self._get(id_.tid)
            now = self._instead(before, wanted)
            # What a thread may have from one that is held, the end of that one undoes.
            inherited = any(before == held.now and id_ not in held.others for held in self._held.values())
            if now is None or now == before or inherited:
                return None
            self._set(id_.tid, now)
        except ProcessLookupError:
            return None
        except OSError as error:
            self._failed = error.strerror or str(error)
            return None
        return _Held(id=id_, before=before, now=now, others=others)

    def _undo(self, id_: ThreadId, held: _Held) -> None:
        try:
            if self._get(id_.tid) == held.now:
                self._set(id_.tid, held.before)
        except ProcessLookupError:
            pass
        except OSError as error:
            self._failed = f"not undone: {error.strerror or error}"

    @abc.abstractmethod
    def _chosen(self, step: Step, threads: list[ThreadId]) -> list[tuple[ThreadId, object]]:
        """Which threads the step means, and what it wants of each."""

    @abc.abstractmethod
    def _instead(self, before: object, wanted: object) -> object | None:
        """What a thread's setting becomes; None: this one is to be left alone."""

    @abc.abstractmethod
    def _get(self, tid: int) -> object: ...

    @abc.abstractmethod
    def _set(self, tid: int, value: object) -> None: ...


class Migrate(ThreadAct):
    """Pins threads to one CPU each for a while, which moves those that run.

    A process that has one thread is left alone: it may be about to count the CPUs that it is allowed, to make as many
    threads.
    """

    _name = "migrate"

    def __init__(self, tids: Tids, cpus: tuple[int, ...]) -> None:
        super().__init__(tids)
        self._cpus = cpus

    def _chosen(self, step: Step, threads: list[ThreadId]) -> list[tuple[ThreadId, object]]:
        counts: dict[int, int] = {}
        for id_ in threads:
            counts[id_.pid] = counts.get(id_.pid, 0) + 1
        several = [id_ for id_ in threads if counts[id_.pid] > 1]
        where = destinations(step, threads=len(several), cpus=self._cpus)
        return [(several[place], frozenset({cpu})) for place, cpu in where.items()]

    def _instead(self, before: object, wanted: object) -> object | None:
        del before
        return wanted

    def _get(self, tid: int) -> object:
        return frozenset(os.sched_getaffinity(tid))

    def _set(self, tid: int, value: object) -> None:
        assert isinstance(value, frozenset)
        os.sched_setaffinity(tid, value)


class Demote(ThreadAct):
    """Has a thread run at the lowest priority for a while: when nobody else wants the CPU, or nearly so."""

    _name = "demote"

    def _chosen(self, step: Step, threads: list[ThreadId]) -> list[tuple[ThreadId, object]]:
        return [(threads[step.thread % len(threads)], os.SCHED_IDLE)] if threads else []

    def _instead(self, before: object, wanted: object) -> object | None:
        assert isinstance(before, int)
        assert isinstance(wanted, int)
        if before & ~_RESET_ON_FORK not in (os.SCHED_OTHER, os.SCHED_BATCH):
            return None
        return wanted | before & _RESET_ON_FORK

    def _get(self, tid: int) -> object:
        return os.sched_getscheduler(tid)

    def _set(self, tid: int, value: object) -> None:
        assert isinstance(value, int)
        os.sched_setscheduler(tid, value, os.sched_param(0))
