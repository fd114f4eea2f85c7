"""Values of options: lists with commas, numbers, `name=a,b`. What they mean to a scenario is for the plan to say."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from livetrap.errors import HarnessError
from livetrap.model import Value
from livetrap.plan import Options, check_seed
from livetrap.scenario_check import check_axis, check_timeout, check_trials
from livetrap.scenario_model import MOST_THREADS


def words(name: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """All values of an option that may be repeated and takes lists with commas, each once, in order.

    Empty where the option is not given. Raises HarnessError where it is given without a value.
    """
    found = _split(",".join(given or ()))
    if given and not found:
        raise HarnessError(f"--{name} is empty; give at least one value, or leave it out")
    return found


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def numbers(name: str, given: Sequence[str] | None) -> tuple[int, ...]:
    """The same for whole numbers. Raises HarnessError for anything else."""
    found = words(name, given)
    for word in found:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", word):
            raise HarnessError(
                f"--{name} {word!r}: must be whole numbers from 1 to {MOST_THREADS}, e.g. --{name} 1,2,4"
            )
    return tuple(dict.fromkeys(int(word) for word in found))


def axes(given: Sequence[str] | None) -> dict[str, tuple[Value, ...]]:
    """`name=a,b` of each --axis; one name given twice has the values of both."""
    found: dict[str, tuple[Value, ...]] = {}
    for text in given or ():
        name, equals, values = text.partition("=")
        split = _split(values)
        if not (name.strip() and equals and split):
            raise HarnessError(
                f"--axis {text!r}: must be a name and its values, e.g. --axis body=empty,volatile_counter"
            )
        found[name.strip()] = tuple(dict.fromkeys((*found.get(name.strip(), ()), *split)))
    return found


def check(options: Options, *, techniques: Collection[str]) -> None:
    """Raises HarnessError for what can be seen to be wrong before anything is built."""
    problems = {
        "trials": check_trials(options.trials) if options.trials is not None else "",
        "timeout": check_timeout(options.timeout_s) if options.timeout_s is not None else "",
    }
    for name in ("threads", "placement", "technique", "flags", "compiler"):
        values: tuple[Value, ...] = getattr(options, name)
        problems[name] = check_axis(name, values, techniques=techniques) if values else ""
    for name, wrong in problems.items():
        if wrong:
            raise HarnessError(f"--{name} {wrong}")
    if options.seed is not None:
        check_seed(options.seed)
