"""Strategies of hypothesis that draw trials, and what they are made of. Needs the extra `fuzz`.

@given(trial=strategies.trials("my-scenario"))
def test_never_hangs(trial):
    livetrap.run(trial).expect("passed")

Importing this sets hypothesis' deadline aside where it is still its own default, 200 ms an example: a trial takes as
long as it takes. Settings of a profile or of a test of yours go before.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from livetrap.errors import HarnessError

try:
    import hypothesis
    from hypothesis import strategies as st
    from hypothesis.database import DirectoryBasedExampleDatabase
except ImportError as error:
    raise HarnessError("livetrap.strategies needs hypothesis: pip install 'livetrap[fuzz]'", status=3) from error

from livetrap import api, disturb, fuzzing, host, hunting, trying
from livetrap.fuzzing import MOST_SEED, Memory, Space, Trial
from livetrap.model import Value
from livetrap.resources import technique_names
from livetrap.seeds import derived

__all__ = [
    "Kept",
    "Trial",
    "disturbances",
    "drawn",
    "placements",
    "sizes",
    "techniques",
    "thread_counts",
    "trial",
    "trials",
    "unhurried",
]

_BUSY = (hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much, hypothesis.HealthCheck.data_too_large)
"""Drawing the first trial builds a kernel, and what this machine cannot run is rejected."""
_USUAL = datetime.timedelta(milliseconds=200)
_KEY = b"trials that have shown a bug"

_PHASES = tuple(phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain)

unhurried = hypothesis.settings(deadline=None, suppress_health_check=_BUSY, phases=_PHASES)
"""Settings, and a decorator, of a test that runs trials: no deadline, no complaint that it is slow, and no search for
an explanation, which would run many more, and finds lines of livetrap."""


def thread_counts(most: int | None = None, *, least: int = 1) -> st.SearchStrategy[int]:
    """Numbers of threads, the fewest first; by default up to twice as many as there are CPUs."""
    return st.integers(least, max(least, 2 * len(host.topology().cpus)) if most is None else most)


def placements() -> st.SearchStrategy[str]:
    """Placements that this machine has, the simplest first."""
    return st.sampled_from(fuzzing.placements(host.topology()))


def disturbances(*, for_kernel: bool = True) -> st.SearchStrategy[str]:
    """Disturbances that this machine has, none first."""
    found = hunting.default_disturbances(host.topology(), for_kernel=for_kernel, lacking=disturb.lacking())
    return st.sampled_from(fuzzing.simplest_first("disturbance", found)).map(str)


def techniques(names: Sequence[str] | None = None) -> st.SearchStrategy[str]:
    """Techniques of waiting; by default all."""
    return st.sampled_from(sorted(technique_names()) if names is None else list(names))


def sizes(usual: int) -> st.SearchStrategy[int]:
    """A kernel's rounds: from a hundredth of what is usual to that, the fewest first."""
    return st.sampled_from(fuzzing.sizes(usual))


def trial(scenario: str | Path, *, variant: str, seed: int = 0, timeout: float | None = None, **cell: Value) -> Trial:
    """One trial, as a failed test prints it: for `@example`, and for `livetrap.run`."""
    return Trial(
        scenario=str(scenario),
        variant=variant,
        cell=cell,
        seed=seed,
        timeout_s=None if timeout is None else float(timeout),
    )


def trials(
    scenario: str | Path,
    *,
    variant: str | Iterable[str] = (),
    timeout: float | None = None,
    **narrowing: api.Given,
) -> st.SearchStrategy[Trial]:
    """Trials of a scenario: of its variants that should pass, unless `variant` names others.

    Any other name is an axis with the value, or the values, to draw from: `threads=[2, 4]`. What is left open is drawn
    from more than the scenario lists: see docs/strategies.md. A trial that has shown a bug is not run again in the same
    process, but told again; while hypothesis shrinks, and when an earlier failure is replayed, one is repeated, since
    one pass proves little. Raises HarnessError, when the first is drawn, for what does not fit.
    """
    options = api.options(dict(narrowing), variant=variant, timeout_s=timeout)

    def look() -> tuple[Space, Memory]:
        found = trying.space(str(scenario), options, buggy=False)
        kept = Kept(found.scenario)
        return found, Memory(known=kept.keys(), remember=kept.add, forget=kept.drop)

    return drawn(look)


def drawn(look: Callable[[], tuple[Space, Memory | None]]) -> st.SearchStrategy[Trial]:
    """Trials of a space, which is looked at when the first one is drawn."""
    looked: list[tuple[Space, Memory | None]] = []

    @st.composite
    def trials_of(draw: st.DrawFn) -> Trial:
        if not looked:
            looked.append(look())
        space, memory = looked[0]
        variant = draw(st.sampled_from(list(space.variants)))
        cell: dict[str, Any] = {name: draw(st.sampled_from(values)) for name, values in space.variants[variant].items()}
        return Trial(
            scenario=space.scenario,
            variant=variant,
            cell=cell,
            seed=draw(st.integers(0, MOST_SEED)),
            timeout_s=space.timeout_s,
            memory=memory,
        )

    return trials_of()


class Kept:
    """The trials of a scenario that have shown a bug, by their keys: an example database in the state folder.

    One that cannot be read or written is no failure: then nothing is kept.
    """

    def __init__(self, where: str) -> None:
        base = os.environ.get("XDG_STATE_HOME", "")
        state = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
        path = Path(where).resolve()
        name = f"{path.name}-{derived(str(path)):x}" if path.exists() else where
        self._database = DirectoryBasedExampleDatabase(state / "livetrap" / "fuzz" / name)

    def keys(self) -> set[str]:
        """All of them."""
        with contextlib.suppress(OSError):
            return {key.decode(errors="replace") for key in self._database.fetch(_KEY)}
        return set()

    def add(self, key: str) -> None:
        """One has shown a bug."""
        with contextlib.suppress(OSError):
            self._database.save(_KEY, key.encode())

    def drop(self, key: str) -> None:
        """One is well now."""
        with contextlib.suppress(OSError):
            self._database.delete(_KEY, key.encode())


def _set_aside_the_deadline() -> None:
    if hypothesis.settings().deadline == _USUAL:
        hypothesis.settings.register_profile("livetrap-unhurried", unhurried)
        hypothesis.settings.load_profile("livetrap-unhurried")


_set_aside_the_deadline()
