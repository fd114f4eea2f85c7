"""Settings: `[tool.livetrap]` of the nearest pyproject.toml gives options the values that a command line leaves open.

    [tool.livetrap]            for every command that has such an option
    timeout = 20.0
    [tool.livetrap.run]        for this command; goes before those for all
    flags = ["-O1", "-O2"]

Names are those of the options, with - or _. The command line goes before all of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from livetrap.errors import HarnessError, nearest
from livetrap.model import Frozen

FILE = "pyproject.toml"
MOST_BYTES = 10_000_000
WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text", "list": "a list of text"}

Value = bool | int | float | str | list[str]
Table = dict[str, Value]


class Option(Frozen, kw_only=True):
    """An option of a command, as far as a setting can fill it in."""

    name: str
    """As the command's function calls it."""
    flag: str
    """As the command line does, without the dashes."""
    kind: str
    """`bool`, `int`, `float`, `str` or `list`."""


class Settings(Frozen, kw_only=True):
    """The table of a pyproject.toml."""

    path: str
    table: dict[str, object]


def find(folder: Path) -> Settings | None:
    """The settings of the nearest pyproject.toml at or above `folder` that has some; None: there are none.

    Raises HarnessError where one that seems to have some is no TOML.
    """
    for place in (folder, *folder.parents):
        path = place / FILE
        try:
            if not path.is_file() or path.stat().st_size > MOST_BYTES:
                continue
            data = path.read_bytes()
        except OSError:
            continue
        if b"livetrap" not in data:
            continue
        found = _table(path, data)
        if found is not None:
            return Settings(path=str(path), table=found)
    return None


def _table(path: Path, data: bytes) -> dict[str, object] | None:
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if b"tool.livetrap" not in data:
            return None
        raise HarnessError(f"{path}: cannot be read for its [tool.livetrap]: {error}") from error
    tools = document.get("tool")
    found = tools.get("livetrap") if isinstance(tools, dict) else None
    if found is not None and not isinstance(found, dict):
        raise HarnessError(f"{path}: tool.livetrap: must be a table")
    return found


def defaults(settings: Settings, commands: Mapping[str, tuple[Option, ...]]) -> dict[str, Table]:
    """What each command's options are to be where the command line does not say, by the names of their functions.

    Raises HarnessError for a name that no command has, and for a value of another type.
    """
    shared = {name: value for name, value in settings.table.items() if not isinstance(value, dict)}
    given: dict[str, Table] = {}
    known = {option.flag for options in commands.values() for option in options}
    for name, value in shared.items():
        flag = name.replace("_", "-")
        if flag not in known:
            raise HarnessError(f"{settings.path}: tool.livetrap.{name}: unknown; {nearest(flag, known)}")
        fitting = [
            (command, option)
            for command, options in commands.items()
            for option in options
            if option.flag == flag and _fits(value, option.kind)
        ]
        if not fitting:
            kinds = {option.kind for options in commands.values() for option in options if option.flag == flag}
            words = " or ".join(sorted(WORDS[kind] for kind in kinds))
            raise HarnessError(f"{settings.path}: tool.livetrap.{name}: must be {words}")
        for command, option in fitting:
            given.setdefault(command, {})[option.name] = _value(value, option.kind)
    for command, table in settings.table.items():
        if isinstance(table, dict):
            given[command] = {**given.get(command, {}), **_own(settings, command, table, commands)}
    return given


def _own(
    settings: Settings, command: str, table: Mapping[str, object], commands: Mapping[str, tuple[Option, ...]]
) -> Table:
    """The settings of one command."""
    if command not in commands:
        raise HarnessError(f"{settings.path}: tool.livetrap.{command}: no such command; {nearest(command, commands)}")
    options = {option.flag: option for option in commands[command]}
    found: Table = {}
    for name, value in table.items():
        where, flag = f"{settings.path}: tool.livetrap.{command}.{name}", name.replace("_", "-")
        if flag not in options:
            raise HarnessError(f"{where}: {command} has no such option; {nearest(flag, options)}")
        option = options[flag]
        if not _fits(value, option.kind):
            raise HarnessError(f"{where}: must be {WORDS[option.kind]}")
        found[option.name] = _value(value, option.kind)
    return found


def _fits(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "bool"
    if isinstance(value, int):
        return kind in {"int", "float", "list"}
    if isinstance(value, float):
        return kind == "float"
    if isinstance(value, str):
        return kind in {"str", "list"}
    whole = isinstance(value, list) and all(isinstance(one, str | int) and not isinstance(one, bool) for one in value)
    return kind == "list" and whole


def _value(value: object, kind: str) -> Value:
    """A value that fits, as the option takes it."""
    if kind == "list":
        return [str(one) for one in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, bool | int | float | str):
        return float(value) if kind == "float" else value
    return str(value)
