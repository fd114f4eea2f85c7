"""Values of options: lists with commas, numbers, `name=a,b`. What they mean to a scenario is for the plan to say."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence

from livetrap import build
from livetrap.errors import HarnessError
from livetrap.model import NotAvailable, Value
from livetrap.plan import Options, check_seed
from livetrap.scenario_check import check_axis, check_timeout, check_trials
from livetrap.scenario_model import MOST_THREADS

_BEFORE_FLAG = re.compile(r",(?=\s*(?:-[A-Za-z]|,|$))")
"""A comma in flags that is no part of one, such as that of -fsanitize=undefined,address."""
_PASSED_ON = re.compile(r"(?:^|[\s,])-W[lpa],\S*")
"""Such a flag goes on to the next space, with all commas in it."""

_WHOLE = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def words(name: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """All values of an option that may be repeated and takes lists with commas, each once, in order.

    Empty where the option is not given. Raises HarnessError where it is given without a value, or with an empty one.
    """
    return _each(name, [part for text in given or () for part in text.split(",")])


def flags(given: Sequence[str] | None) -> tuple[str, ...]:
    """The same for --flags, where a comma is the end of a value only before the next flag."""
    return _each("flags", [part for text in given or () for part in _flag_lists(text)])


def _flag_lists(text: str) -> Iterator[str]:
    """Parts of one --flags; a flag with -Wl, -Wp or -Wa in front of its commas stays whole."""
    kept = [match.span() for match in _PASSED_ON.finditer(text)]
    begin = 0
    for comma in _BEFORE_FLAG.finditer(text):
        if not any(first < comma.start() < end for first, end in kept):
            yield text[begin : comma.start()]
            begin = comma.end()
    yield text[begin:]


def _each(name: str, parts: Sequence[str]) -> tuple[str, ...]:
    found = [part.strip() for part in parts]
    if found and not any(found):
        raise HarnessError(f"--{name} is empty; give at least one value, or leave it out")
    if not all(found):
        raise HarnessError(f"--{name} {','.join(parts)!r}: has an empty value; take out the comma")
    return tuple(dict.fromkeys(found))


def numbers(name: str, given: Sequence[str] | None) -> tuple[int, ...]:
    """The same for whole numbers. Raises HarnessError for anything else."""
    found = words(name, given)
    for word in found:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", word):
            raise HarnessError(
                f"--{name} {word!r}: must be whole numbers from 1 to {MOST_THREADS}, e.g. --{name} 1,2,4"
            )
    return tuple(dict.fromkeys(int(word) for word in found))


def no_number(message: str, words: Sequence[str]) -> str:
    """One line on an option whose value is not the number that it takes, of what click says of it; empty: it is not so.

    Some versions leave out the value, which is then looked for in the command line, `words`.
    """
    found = re.match(
        r"Invalid value for '(?:-\w, |-\w / )*(--[\w-]+)'.*?\b(integer|number|float)\b", message, re.DOTALL
    )
    if not found:
        return ""
    option, whole = found[1], found[2] == "integer"
    given = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
    given += [value for name, value in itertools.pairwise(words) if name == option]
    wrong = next((value for value in given if not re.fullmatch(_WHOLE if whole else _NUMBER, value.strip())), "")
    return f"{option} {wrong!r}: must be a {'whole ' if whole else ''}number, e.g. {option} 10"


def axes(given: Sequence[str] | None) -> dict[str, tuple[Value, ...]]:
    """`name=a,b` of each --axis; one name given twice has the values of both."""
    found: dict[str, tuple[Value, ...]] = {}
    for text in given or ():
        name, equals, values = text.partition("=")
        split = [value.strip() for value in values.split(",")]
        if not (name.strip() and equals and all(split)):
            raise HarnessError(
                f"--axis {text!r}: must be a name and its values, e.g. --axis body=empty,volatile_counter"
            )
        found[name.strip()] = tuple(dict.fromkeys((*found.get(name.strip(), ()), *split)))
    return found


def axes_disturbed(given: Sequence[str] | None, disturb: Sequence[str] | None) -> dict[str, tuple[Value, ...]]:
    """`axes` with the values of --disturb, which is an axis with an option of its own."""
    found = axes(given)
    if disturb is not None:
        if "disturbance" in found:
            raise HarnessError("--disturb and --axis disturbance=...: two ways to say the same; give one")
        found["disturbance"] = words("disturb", disturb)
    return found


def check(options: Options, *, techniques: Collection[str]) -> None:
    """Raises HarnessError for what can be seen to be wrong before anything is built."""
    for name in options.compiler:
        _check_compiler(name)
    problems = {
        "trials": check_trials(options.trials) if options.trials is not None else "",
        "timeout": check_timeout(options.timeout_s) if options.timeout_s is not None else "",
    }
    for name in ("threads", "placement", "technique", "compiler"):
        values: tuple[Value, ...] = getattr(options, name)
        problems[name] = check_axis(name, values, techniques=techniques) if values else ""
    for name, wrong in problems.items():
        if wrong:
            raise HarnessError(f"--{name} {wrong}")
    for one in options.flags:
        _check_flags(one, techniques)
    if options.seed is not None:
        checked_seed(options.seed)


def checked_seed(seed: int) -> None:
    """Raises HarnessError, with the option's name, for a number that cannot be a seed."""
    try:
        check_seed(seed)
    except HarnessError as error:
        raise HarnessError(f"--{error}") from None


def _check_flags(text: str, techniques: Collection[str]) -> None:
    """Each flag by itself first, so that the message names it whole."""
    try:
        build.check_flags(tuple(text.split()))
    except HarnessError as error:
        raise HarnessError(f"--{error}") from None
    wrong = check_axis("flags", (text,), techniques=techniques)
    if wrong:
        raise HarnessError(f"--flags {wrong}")


def _check_compiler(name: str) -> None:
    """A path must lead to a compiler; a name may be of one that is not installed here, whose cells are skipped."""
    if "/" not in name:
        return
    found = build.find_compiler(name)
    if isinstance(found, NotAvailable):
        raise HarnessError(f"--compiler {name!r}: is no C compiler that runs here; give gcc, clang, or the path of one")
