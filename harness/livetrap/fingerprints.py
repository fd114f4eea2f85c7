"""Names for the content of what a campaign runs, so that a later one can tell whether it still runs the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from livetrap import resources
from livetrap.build.cache import key
from livetrap.build.sources import kernel_files, kernel_parts, read_source
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec, CommandSpec
from livetrap.preparing import Prepared
from livetrap.scenario_model import Scenario
from livetrap.targets.command import program

MOST_BYTES = 64 << 20
"""A larger file is known by its size and the time of its last change."""


def of_scenario(scenario: Scenario) -> dict[str, object]:
    """The scenario's file, and its kernel with all that is compiled into it or the scripts of its command."""
    found: dict[str, object] = {"scenario": _file(Path(scenario.path))}
    if scenario.target.command:
        found["program"] = key(dict(_scripts(scenario)))
    else:
        found["kernel"] = key(dict(_sources(scenario)))
    return found


def of_compilers(prepared: Prepared) -> dict[str, object]:
    """The versions of those that built what is run."""
    used = sorted({spec.compiler for spec in prepared.builds})
    return {"compilers": {name: prepared.versions.get(name, "") for name in used}}


def of_command(command: CommandSpec) -> dict[str, object]:
    """A program, and the file that its first argument may be: what an interpreter runs; and the folder they run in."""
    return {"program": key(dict(_words(command))), "folder": _here()}


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _words(command: CommandSpec) -> Iterator[tuple[str, str]]:
    try:
        first = program(command)
    except HarnessError:
        first = Path(command.argv[0])
    for path in (first, *map(Path, command.argv[1:2])):
        yield str(path), _file(path)


def _sources(scenario: Scenario) -> Iterator[tuple[str, str]]:
    csrc = resources.csrc_dir()
    file = scenario.target.file
    spec = BuildSpec(
        compiler="",
        flags=(),
        kernel=scenario.target.kernel_name,
        kernel_file=f"{scenario.folder or '.'}/{file}" if file else "",
    )
    for kernel in kernel_files(spec, csrc):
        for path in (kernel, *kernel_parts(kernel)):
            yield f"kernel {path.name}", read_source(path)
    for path in (*csrc.rglob("*.h"), *(csrc / "runtime").glob("*.c"), *(csrc / "techniques").glob("*.c")):
        yield str(path.relative_to(csrc)), read_source(path)


def _scripts(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Files of the scenario's own folder that its command names."""
    folder = Path(scenario.folder or ".")
    for word in scenario.target.command:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name in word and path.is_file():
                yield path.name, _file(path)


def _file(path: Path) -> str:
    """A name for a file's content; empty where it cannot be read."""
    try:
        status = path.stat()
        if not path.is_file():
            return ""
        if status.st_size > MOST_BYTES:
            return f"{status.st_size} bytes of {status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except (OSError, ValueError):
        return ""
