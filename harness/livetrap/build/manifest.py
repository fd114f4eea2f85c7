"""What a built module offers: its kernels with their parameters, and its techniques.

A process of its own reads it, since loading a module runs code of the kernel's; what it told is kept beside the module.
"""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import msgspec

from livetrap.build.module import Built
from livetrap.build.reading import Told, read
from livetrap.errors import HarnessError
from livetrap.model import KernelInfo, Manifest, ParamInfo, TechniqueInfo
from livetrap.scenario_model import AXES

_FILE = "manifest-1.json"
"""The number is that of its format."""
_MOST_NAME = 64


class ParamTold(msgspec.Struct):
    """A parameter as the module has it; None: a null pointer."""

    name: str | None
    summary: str | None
    choices: str | None
    least: int
    most: int
    fallback: int


class KernelTold(msgspec.Struct):
    """A kernel as the module has it."""

    name: str | None
    summary: str | None
    uses_technique: bool
    params: list[ParamTold]


class TechniqueTold(msgspec.Struct):
    """A technique as the module has it."""

    name: str | None
    summary: str | None
    unavailable: str | None


class Document(msgspec.Struct):
    """All that a module tells of itself, or why it could not be asked."""

    kernels: list[KernelTold] = []
    techniques: list[TechniqueTold] = []
    error: str = ""


def manifest(built: Built, *, limit_s: float = 10.0) -> Manifest:
    """What the module offers, as it told once. `limit_s`: how long it may take to tell.

    HarnessError: it cannot be loaded, ends or hangs the process that asks it, or tells what makes no sense.
    """
    kept = kept_manifest(built)
    if kept is not None:
        return kept
    told = read(built.module, built.path, limit_s=limit_s)
    try:
        found = checked(_document(told, limit_s=limit_s), only=Path(built.source).stem)
    except ValueError as error:
        where = built.source or built.path.name
        raise HarnessError(f"{where}: {error}", detail=told.output) from None
    _keep(built.path.parent, found)
    return found


def kept_manifest(built: Built) -> Manifest | None:
    """What was told before, without asking the module; None: it was not asked yet, or the file is damaged."""
    try:
        return msgspec.json.decode((built.path.parent / _FILE).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


def _keep(folder: Path, found: Manifest) -> None:
    """Beside the module, whole or not at all; where that fails, it is asked again next time."""
    import tempfile  # noqa: PLC0415  only after a build

    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=folder, prefix=_FILE, delete=False) as file:
        file.write(msgspec.json.encode(found))
        file.flush()
        Path(file.name).replace(folder / _FILE)


def _document(told: Told, *, limit_s: float) -> Document:
    """What was told, if it is whole. ValueError: what happened instead, and what would be right."""
    if told.loaded:
        doing, right = "is asked for its parameters", ".params must have .param_count entries of struct lt_param"
    else:
        doing, right = "is loaded", "a kernel does its work in setup, thread and finish, none in constructors"
    if told.late:
        raise ValueError(f"the kernel does not return within {limit_s:g} s when it {doing}: {right}")
    if told.signal:
        raise ValueError(f"the kernel dies by {_name(told.signal)} when it {doing}: {right}")
    try:
        document = msgspec.json.decode(told.text, type=Document)
    except msgspec.MsgspecError:
        ended = f"the kernel ends its process (status {told.status}) when it {doing}"
        nonsense = f"the kernel writes into what is not its own when it {doing}"
        raise ValueError(f"{ended if told.status or not told.text else nonsense}: {right}") from None
    if document.error and told.loaded:
        raise ValueError(f"{document.error}: {right}")
    if document.error:
        raise ValueError(
            f"the kernel cannot be loaded ({document.error}): a kernel's file NAME.c defines `const struct lt_kernel "
            "lt_kernel_NAME` and uses nothing that is not linked"
        )
    return document


def _name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def checked(document: Document, *, only: str = "") -> Manifest:
    """The manifest of a document that makes sense; with `only`, of the kernel of NAME.c. ValueError: it does not."""
    kernels: dict[str, KernelInfo] = {}
    for kernel in document.kernels:
        if not kernel.name or kernel.name != (only or kernel.name):
            called = f"is called {kernel.name!r}" if kernel.name else "has no name"
            raise ValueError(f'the kernel {called}: that of {only or "NAME"}.c has .name = "{only or "NAME"}"')
        params: dict[str, ParamInfo] = {}
        for place, param in enumerate(kernel.params):
            info = _param(param, place)
            if info.name in params:
                raise ValueError(f"parameter {info.name!r} stands twice: give one of them another name")
            params[info.name] = info
        kernels[kernel.name] = KernelInfo(
            name=kernel.name, summary=kernel.summary or "", uses_technique=kernel.uses_technique, params=params
        )
    techniques = {
        told.name: TechniqueInfo(name=told.name, summary=told.summary or "", unavailable=told.unavailable or "")
        for told in document.techniques
        if told.name
    }
    return Manifest(kernels=kernels, techniques=techniques)


def _param(told: ParamTold, place: int) -> ParamInfo:
    name = told.name or ""
    if not (name.isidentifier() and name.isascii() and len(name) <= _MOST_NAME):
        shown = f"is called {name[:_MOST_NAME]!r}" if name else "has no name"
        raise ValueError(f"parameter {place} {shown}: .name must be letters, digits and underscores")
    if name in AXES:
        raise ValueError(f"parameter {name!r} has the name of an axis: give it one that is none of {', '.join(AXES)}")
    choices = tuple(told.choices.split("|")) if told.choices else ()
    if not all(choices) or len(set(choices)) < len(choices):
        raise ValueError(f"parameter {name!r}: .choices {told.choices!r} must be different words, such as one|other")
    if told.least > told.most:
        raise ValueError(f"parameter {name!r}: .least {told.least} must not be above .most {told.most}")
    if not told.least <= told.fallback <= told.most:
        raise ValueError(f"parameter {name!r}: .fallback {told.fallback} must be from {told.least} to {told.most}")
    return ParamInfo(
        name=name,
        summary=told.summary or "",
        choices=choices,
        least=told.least,
        most=told.most,
        fallback=told.fallback,
    )
