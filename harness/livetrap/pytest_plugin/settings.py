"""What a test asks for: its mark, over the command line, over the configuration file.

HarnessError: that makes no sense.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

import msgspec
import pytest

from livetrap.errors import HarnessError, nearest
from livetrap.model import Frozen, Rules
from livetrap.pytest_plugin import MODES
from livetrap.scenario_model import MOST_TIMEOUT_S

_NAMES = ("timeout", "stall", "mode")


class Settings(Frozen, kw_only=True):
    """How one test is run."""

    timeout_s: float = 60.0
    """Its time limit."""
    stall_s: float | None = None
    """A shorter standstill is never suspect; None: the rules' own floors."""
    mode: str = "auto"
    """One of MODES."""

    @property
    def rules(self) -> Rules:
        """The numbers that its judgement rests on; as `livetrap watch --timeout --stall` has them."""
        usual = Rules(limit_s=self.timeout_s)
        if self.stall_s is None:
            return usual
        return msgspec.structs.replace(
            usual,
            floor_s=self.stall_s,
            silent_floor_s=self.stall_s,
            finishing_floor_s=max(usual.finishing_floor_s, self.stall_s),
        )


def usual(config: pytest.Config) -> Settings:
    """Of tests whose mark says nothing else."""
    found = Settings()
    for source in ("ini", "option"):
        given: dict[str, object] = {}
        for name in _NAMES:
            value = config.getini(f"livetrap_{name}") if source == "ini" else config.getoption(f"livetrap_{name}")
            if value not in (None, ""):
                given[name] = value
        where = "in the configuration file, livetrap_" if source == "ini" else "--livetrap-"
        found = changed(found, given, where=where)
    return found


def of_test(item: pytest.Item, usual: Settings, *, everyone: bool) -> Settings | None:
    """Of one test; None: it runs as usual. The nearest mark that names a setting decides it."""
    marks = list(item.iter_markers("livetrap"))
    if not marks and not everyone:
        return None
    found = usual
    for mark in reversed(marks):
        if mark.args:
            raise HarnessError(
                f"@pytest.mark.livetrap of {item.nodeid}: takes names only, such as timeout=30, not {mark.args[0]!r}"
            )
        found = changed(found, mark.kwargs, where=f"@pytest.mark.livetrap of {item.nodeid}: ")
    return found if found.mode != "off" else None


def changed(settings: Settings, given: Mapping[str, object], *, where: str) -> Settings:
    """The settings with those values in place of theirs."""
    unknown = next((name for name in given if name not in _NAMES), None)
    if unknown is not None:
        raise HarnessError(f"{where}{unknown!r} is not known; {nearest(unknown, _NAMES)}")
    stall = given.get("stall", settings.stall_s)
    mode = given.get("mode", settings.mode)
    if mode not in MODES:
        raise HarnessError(f"{where}mode {mode!r}: one of {', '.join(MODES)}")
    return Settings(
        timeout_s=_seconds("timeout", given.get("timeout", settings.timeout_s), where),
        stall_s=None if stall is None else _seconds("stall", stall, where),
        mode=str(mode),
    )


def _seconds(name: str, value: object, where: str) -> float:
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
    if not 0 < number <= MOST_TIMEOUT_S:
        raise HarnessError(f"{where}{name} {value!r}: must be a number of seconds above 0, at most {MOST_TIMEOUT_S:g}")
    return number
