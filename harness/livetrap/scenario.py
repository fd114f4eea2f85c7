"""Reads a scenario: TOML text into frozen types, with one-line errors that name the file and the key.

`load` reads the scenario's file; nothing else here touches the system.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from livetrap.errors import HarnessError, nearest
from livetrap.model import Rules, Value, VariantRole, Verdict
from livetrap.scenario_check import TARGETS, check, fail
from livetrap.scenario_model import Budget, Expectation, Preparation, Scenario, Target, Variant

__all__ = ["FILE_NAME", "Scenario", "load", "parse"]

FILE_NAME = "scenario.toml"
SCHEMA = 1
MOST_BYTES = 1_000_000
TOML_WORDS = {
    "`int | str`": "a whole number or text",
    "`int | str | array`": "a whole number, text, or a list of them",
    "`object`": "a table",
    "`array`": "a list",
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "Object missing": "missing",
}
"""msgspec's words, and those of a reader of TOML."""
TOP_KEYS = tuple(name for name in Scenario.__struct_fields__ if name not in ("path", "folder"))
JUDGING_KEYS = tuple(name for name in Rules.__struct_fields__ if name != "limit_s")


def load(where: str, *, scenarios_dir: Path, kernels: Collection[str], techniques: Collection[str]) -> Scenario:
    """The scenario of a shipped name, a folder, or a scenario.toml.

    `kernels` and `techniques` are the names that csrc offers. Raises HarnessError (status 2) for a name or a file that
    is not there, and for whatever is wrong in it.
    """
    file = find(where, scenarios_dir=scenarios_dir)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise HarnessError(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise HarnessError(f"{file}: {len(data)} bytes; a scenario has at most {MOST_BYTES}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise HarnessError(f"{file}:{line}:{column}: not UTF-8; TOML is") from error
    scenario = parse(text, path=str(file), folder=str(file.parent), kernels=kernels, techniques=techniques)
    if scenario.target.file and not (file.parent / scenario.target.file).is_file():
        fail(scenario.path, "target.file", f"no file {scenario.target.file!r} beside {FILE_NAME}")
    return scenario


def find(where: str, *, scenarios_dir: Path) -> Path:
    """The scenario.toml of a shipped name, a folder, or itself. A shipped name goes before a folder of that name."""
    shipped = shipped_names(scenarios_dir)
    if where in shipped:
        return scenarios_dir / where / FILE_NAME
    path = Path(where)
    if path.is_dir() and where:
        if (path / FILE_NAME).is_file():
            return path / FILE_NAME
        raise HarnessError(f"{where}: a folder without {FILE_NAME}; a scenario is a folder that has one")
    if path.is_file():
        if path.suffix == ".toml":
            return path
        raise HarnessError(f"{where}: not a scenario; name its folder or its {FILE_NAME}")
    if "/" in where or path.suffix == ".toml":
        raise HarnessError(f"{where}: no such file or folder; name a scenario's folder, or: {', '.join(shipped)}")
    raise HarnessError(f"unknown scenario {where!r}; {nearest(where, shipped)}")


def shipped_names(scenarios_dir: Path) -> list[str]:
    """Names of the scenarios in a folder, sorted."""
    return sorted(file.parent.name for file in scenarios_dir.glob(f"*/{FILE_NAME}"))


def parse(text: str, *, path: str, folder: str = "", kernels: Collection[str], techniques: Collection[str]) -> Scenario:
    """The scenario of a TOML text. Raises HarnessError for whatever is wrong in it, naming `path` and the key."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise HarnessError(_syntax(str(error), text, path)) from error
    _check_schema(data, path)
    _check_keys(data, path)
    _check_target(data, path)
    _check_words(data, path)
    _check_types(data, path)
    try:
        scenario = msgspec.convert({**data, "path": path, "folder": folder}, Scenario)
    except msgspec.ValidationError as error:
        raise HarnessError(_mistyped(str(error), path)) from error
    check(scenario, kernels=kernels, techniques=techniques)
    rules_of(scenario, limit_s=scenario.budget.timeout_s)
    return scenario


def rules_of(scenario: Scenario, *, limit_s: float) -> Rules:
    """The rules that this scenario's trials are judged by, under a time limit in seconds."""
    try:
        return msgspec.convert({**scenario.judging, "limit_s": limit_s}, Rules)
    except msgspec.ValidationError as error:
        raise HarnessError(_mistyped(str(error).replace("$.", "$.judging."), scenario.path)) from error


# --- errors ----------------------------------------------------------------------------------------------------------


def _syntax(message: str, text: str, path: str) -> str:
    """`file:line:column: what` of a TOML error."""
    match = re.search(r"\s*\(at line (\d+), column (\d+)\)$", message)
    if match:
        return f"{path}:{match[1]}:{match[2]}: {message[: match.start()]}"
    lines = text.split("\n")
    message = message.removesuffix(" (at end of document)")
    return f"{path}:{len(lines)}:{len(lines[-1]) + 1}: {message or 'nested too deeply'}"


def _mistyped(message: str, path: str) -> str:
    """`file: key: what` of a conversion error, in TOML's words."""
    what, _, where = message.partition(" - at ")
    key = where.strip("`").removeprefix("$").removeprefix(".")
    for name, word in TOML_WORDS.items():
        what = what.replace(name, word)
    return f"{path}: {key}: {what[:1].lower()}{what[1:]}" if key else f"{path}: {what[:1].lower()}{what[1:]}"


def _check_schema(data: Mapping[str, Any], path: str) -> None:
    schema = data.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        found = f"{schema!r} is not known" if "schema" in data else "missing"
        fail(path, "schema", f"{found}; this version of livetrap reads schema = {SCHEMA}")


def _check_target(data: Mapping[str, Any], path: str) -> None:
    if "target" not in data:
        fail(path, "target", f"missing; it has either {TARGETS}")


def _check_keys(data: Mapping[str, Any], path: str) -> None:
    """Unknown keys, before anything else looks at the data: the nearest valid name helps most."""
    tables: list[tuple[str, Any, tuple[str, ...]]] = [
        ("", data, TOP_KEYS),
        ("target", data.get("target"), Target.__struct_fields__),
        ("budget", data.get("budget"), Budget.__struct_fields__),
        ("judging", data.get("judging"), JUDGING_KEYS),
    ]
    target = data.get("target")
    if isinstance(target, dict):
        tables.append(("target.prepare", target.get("prepare"), Preparation.__struct_fields__))
    variants = data.get("variants")
    if isinstance(variants, dict):
        tables += [(f"variants.{name}", table, Variant.__struct_fields__) for name, table in variants.items()]
    expect = data.get("expect")
    if isinstance(expect, list):
        tables += [(f"expect[{i}]", table, Expectation.__struct_fields__) for i, table in enumerate(expect)]
    for key_path, table, known in tables:
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                fail(path, f"{key_path}.{key}".removeprefix("."), f"unknown key; {nearest(key, known)}")


def _check_types(data: Mapping[str, Any], path: str) -> None:
    """The values of tables with free keys, one by one: msgspec's own errors leave such keys out."""
    one, several = Value, tuple[Value, ...]
    target, variants = data.get("target"), data.get("variants")
    tables: list[tuple[str, Any, Any]] = [("axes", data.get("axes"), several), ("judging", data.get("judging"), float)]
    if isinstance(target, dict):
        tables.append(("target.parameters", target.get("parameters"), one))
        tables.append(("target.environment", target.get("environment"), one))
    for name, variant in variants.items() if isinstance(variants, dict) else ():
        if isinstance(variant, dict):
            tables.append((f"variants.{name}.parameters", variant.get("parameters"), one))
            tables.append((f"variants.{name}.axes", variant.get("axes"), several))
    expect = data.get("expect")
    for i, expectation in enumerate(expect) if isinstance(expect, list) else ():
        if isinstance(expectation, dict):
            tables.append((f"expect[{i}].match", expectation.get("match"), one | several))
    tables.append(("variants", variants, Variant))
    for key_path, table, wanted in tables:
        for key, value in table.items() if isinstance(table, dict) else ():
            try:
                msgspec.convert(value, wanted)
            except msgspec.ValidationError as error:
                what, _, where = str(error).partition(" - at ")
                inside = where.strip("`").removeprefix("$")
                raise HarnessError(_mistyped(f"{what} - at `$.{key_path}.{key}{inside}`", path)) from error


def _check_words(data: Mapping[str, Any], path: str) -> None:
    """Words out of a fixed set: roles and verdicts."""
    roles, verdicts_known = [role.value for role in VariantRole], [verdict.value for verdict in Verdict]
    variants = data.get("variants")
    for name, variant in variants.items() if isinstance(variants, dict) else ():
        role = variant.get("role") if isinstance(variant, dict) else None
        if isinstance(role, str) and role not in roles:
            fail(path, f"variants.{name}.role", f"unknown role {role!r}; {nearest(role, roles)}")
    expect = data.get("expect")
    for i, expectation in enumerate(expect) if isinstance(expect, list) else ():
        verdicts = expectation.get("verdicts") if isinstance(expectation, dict) else None
        for verdict in verdicts if isinstance(verdicts, list) else ():
            if isinstance(verdict, str) and verdict not in verdicts_known:
                fail(path, f"expect[{i}].verdicts", f"unknown verdict {verdict!r}; {nearest(verdict, verdicts_known)}")
