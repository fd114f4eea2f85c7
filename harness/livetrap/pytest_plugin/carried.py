"""What a child tells of a test, as a document of plain values: reports, warnings, sections, properties."""

from __future__ import annotations

import builtins
import marshal
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

PHASES = ("setup", "call", "teardown")


class Carried(msgspec.Struct, kw_only=True):
    """The document."""

    reports: dict[str, dict[str, Any]] = {}
    """Of each phase that ended, serialised as pytest does."""
    extra: list[dict[str, Any]] = []
    """Reports of parts of the test (subtests), in order."""
    warnings: list[tuple[str, str, str, str, int]] = []
    """Module and name of the category, text, file, line."""
    sections: list[tuple[str, str, str]] = []
    """Captured output: phase, which, text."""
    properties: list[tuple[str, Any]] = []
    stop: tuple[str, str, int | None] | None = None
    """`exit` or `interrupt`, with the message and exit status of `pytest.exit`."""
    should_stop: str = ""
    should_fail: str = ""
    trouble: str = ""
    """Why a fresh interpreter could not run the test."""


def pack(carried: Carried) -> bytes:
    """As bytes. Values that are not plain become their text."""
    return marshal.dumps({name: _plain(value) for name, value in msgspec.structs.asdict(carried).items()})


def unpack(data: bytes) -> Carried:
    """What `pack` was given; of bytes that are not whole, an empty one."""
    try:
        return Carried(**marshal.loads(data))
    except (EOFError, ValueError, TypeError):
        return Carried()


def _plain(value: object) -> object:
    match value:
        case None | bool():
            return value
        case str() | int() | float() | bytes():
            return _bare(value)
        case Mapping():
            return {_plain(name): _plain(one) for name, one in value.items()}
        case tuple():
            return tuple(_plain(one) for one in value)
        case Sequence():
            return [_plain(one) for one in value]
        case os.PathLike():
            return os.fspath(value)
    return str(value)


def _bare(value: str | int | float | bytes) -> str | int | float | bytes:
    """The value without a class of its own, as an enum's member has."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    return int(value) if isinstance(value, int) else float(value)


# --- reports ---------------------------------------------------------------------------------------------------------


def report_to(config: pytest.Config, report: pytest.TestReport) -> dict[str, Any]:
    """A report as a document."""
    data: dict[str, Any] = config.hook.pytest_report_to_serializable(config=config, report=report)
    return data


def report_from(config: pytest.Config, data: Mapping[str, Any], *, nodeid: str) -> pytest.TestReport:
    """The report again. `nodeid`: the test's, which pytest-xdist may have changed."""
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(config=config, data=dict(data))
    if report.nodeid != nodeid:
        report.nodeid = nodeid
    return report


# --- warnings --------------------------------------------------------------------------------------------------------


def warning_to(message: warnings.WarningMessage) -> tuple[str, str, str, str, int]:
    """A warning as plain values."""
    kind = message.category or type(message.message)
    return kind.__module__, kind.__name__, str(message.message), message.filename, message.lineno


def warning_from(values: tuple[str, str, str, str, int]) -> warnings.WarningMessage:
    """The warning again; a category that is not known here becomes UserWarning."""
    module, name, text, file, line = values
    kind = getattr(sys.modules.get(module, builtins), name, None)
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        kind, text = UserWarning, f"{name}: {text}"
    try:
        message = kind(text)
    except Exception:
        message, kind = UserWarning(f"{name}: {text}"), UserWarning
    return warnings.WarningMessage(message=message, category=kind, filename=file, lineno=line)


def write(file: Path, carried: Carried) -> None:
    """Puts the document into a file, whole or not at all."""
    part = file.with_suffix(".part")
    part.write_bytes(pack(carried))
    part.replace(file)
