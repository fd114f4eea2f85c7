"""What the options of `livetrap watch` mean, and all that can be seen to be wrong with them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from livetrap import disturbances, expressions
from livetrap.cli.options import checked_seed, words
from livetrap.errors import HarnessError, nearest
from livetrap.model import Value
from livetrap.placement import check_strategy
from livetrap.scenario_check import check_timeout, check_trials
from livetrap.scenario_model import MOST_TIMEOUT_S
from livetrap.watching import DISTURBANCE, PLACEMENT, Options, Values

MOST_JOBS = 256
MOST_FOR_S = 30 * 86_400.0
PROGRESS = ("output", "io", "beats", "regex:RE")
EXAMPLES = {"env": "--env OMP_NUM_THREADS=1,2,4", "param": "--param threads=1,2,4"}
OURS = "LIVETRAP_"
"""Variables that begin so are the harness's own."""

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|min|h|d|)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def duration(option: str, text: str, *, most_s: float = MOST_FOR_S) -> float:
    """Seconds of `90`, `1.5h`, `10m`, `200ms`. HarnessError: anything else, nothing, or more than `most_s`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise HarnessError(f"--{option} {text!r}: must be a time, e.g. --{option} 90, --{option} 10m or --{option} 2h")
    found = float(match[1]) * _UNITS[match[2]]
    if found > most_s:
        days = most_s / _UNITS["d"]
        raise HarnessError(f"--{option} {text}: is too long; at most {most_s:.0f} seconds ({days:g}d)")
    if found <= 0:
        raise HarnessError(f"--{option} {text}: must be more than 0 and at most {most_s:.0f} seconds")
    return found


def assignments(option: str, given: Sequence[str] | None) -> Values:
    """`NAME=a,b` of each --env or --param; one name given twice has the values of both. HarnessError: it is not so."""
    found: Values = {}
    for text in given or ():
        name, _equals, listed = text.partition("=")
        name = name.strip()
        if not _NAME.fullmatch(name):
            raise HarnessError(f"--{option} {text!r}: must be a name and its values, e.g. {EXAMPLES[option]}")
        values = [value.strip() for value in listed.split(",")]
        if not any(values):
            raise HarnessError(f"--{option} {name} has no values; give at least one, e.g. {EXAMPLES[option]}")
        if not all(values):
            raise HarnessError(f"--{option} {text!r}: has an empty value; take out the comma")
        found[name] = tuple(dict.fromkeys((*found.get(name, ()), *map(_value, values))))
    return found


def each(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """The values of --placement or --disturb."""
    return words(option, given)


def check(options: Options) -> None:
    """Raises HarnessError for what can be seen to be wrong before anything runs."""
    _check_command(options.command)
    _check_names(options)
    _check_numbers(options)
    _check_progress(options.progress)
    for placement in options.placements:
        wrong = check_strategy(placement)
        if wrong:
            raise HarnessError(f"--placement {placement}: {wrong}")
    for disturbance in options.disturbances:
        try:
            disturbances.parse(disturbance)
        except HarnessError as error:
            raise HarnessError(f"--disturb {disturbance}: {error}") from None


def _check_command(command: Sequence[str]) -> None:
    if not command or not command[0]:
        raise HarnessError("there is no command; write it after --, e.g. livetrap watch --trials 20 -- ./a.out")
    if command[0].startswith("-"):
        raise HarnessError(f"{command[0]!r} is no command; options stand before --, the command behind it")
    if any("\0" in word for word in command):
        raise HarnessError("the command has a zero byte in it, which no program can be given")


def _check_names(options: Options) -> None:
    for name in options.environment:
        if name.startswith(OURS):
            raise HarnessError(f"--env {name}: names that begin with {OURS} are the harness's own; use another")
        if name in options.parameters:
            raise HarnessError(f"--env {name} and --param {name}: one name for two things; rename the placeholder")
    for option, names in (("env", options.environment), ("param", options.parameters)):
        for name in names:
            if name in {PLACEMENT, DISTURBANCE}:
                right = "--placement" if name == PLACEMENT else "--disturb"
                raise HarnessError(f"--{option} {name}: the name of what {right} varies; use another")


def _check_numbers(options: Options) -> None:
    problems = {
        "trials": check_trials(options.trials) if options.trials is not None else "",
        "timeout": check_timeout(options.timeout_s),
        "jobs": "" if 1 <= options.jobs <= MOST_JOBS else f"{options.jobs}: must be from 1 to {MOST_JOBS}",
        "stall": _stall_problem(options),
        "startup": _startup_problem(options),
    }
    for name, wrong in problems.items():
        if wrong:
            raise HarnessError(f"--{name} {wrong}")
    if options.seed is not None:
        checked_seed(options.seed)


def _stall_problem(options: Options) -> str:
    stall_s = options.stall_s
    if stall_s is None:
        return ""
    if not math.isfinite(stall_s) or not 0 < stall_s <= MOST_TIMEOUT_S:
        return f"{stall_s:g}: must be seconds, more than 0 and at most {MOST_TIMEOUT_S:.0f}"
    if stall_s > options.timeout_s / 2:
        return (
            f"{stall_s:g}: must be at most half of --timeout {options.timeout_s:g}; "
            f"give --timeout {math.ceil(2 * stall_s)} or more"
        )
    return ""


def _startup_problem(options: Options) -> str:
    startup_s = options.startup_s
    if startup_s is None:
        return ""
    if not 0 <= startup_s <= MOST_TIMEOUT_S:  # also refuses nan
        return f"{startup_s:g}: must be seconds from 0 to {MOST_TIMEOUT_S:.0f}"
    if startup_s > options.timeout_s:
        return (
            f"{startup_s:g}: must be at most --timeout {options.timeout_s:g}; "
            f"give --timeout {math.ceil(startup_s)} or more"
        )
    return ""


def _check_progress(progress: str) -> None:
    kind, colon, pattern = progress.partition(":")
    if kind == "regex":
        if not pattern:
            raise HarnessError("--progress regex: has no expression; give one, e.g. --progress 'regex:^step [0-9]+'")
        try:
            expressions.compiled(pattern)
        except HarnessError as error:
            raise HarnessError(f"--progress {progress}: {error}") from None
    elif progress and (colon or progress not in PROGRESS):
        raise HarnessError(f"--progress {progress!r}: unknown; {nearest(progress, PROGRESS)}")


def _value(text: str) -> Value:
    """Whole numbers as numbers, so that tables sort them; the command is given the same text again."""
    return int(text) if _WHOLE.fullmatch(text) else text
