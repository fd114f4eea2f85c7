"""What a scenario's command needs on this machine: its environments, and what is made once for all trials."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from livetrap import environments, placeholders, scenario_command
from livetrap.build import cache as build_cache
from livetrap.environments import Note
from livetrap.errors import HarnessError
from livetrap.model import CommandSpec, NotAvailable, PlannedTrial, Value
from livetrap.scenario_model import Preparation, Scenario
from livetrap.targets.command import resolve

PREPARE_S = 120.0
"""Time limit of a scenario's own preparation, in seconds."""
MOST_FILES = 1000
MOST_BYTES = 100_000_000
"""More than so many files, or bytes in them, beside a scenario.toml is surely a mistake."""


def equip(
    trials: Sequence[PlannedTrial], scenario: Scenario, *, cache: Path, note: Note = lambda _text: None
) -> tuple[PlannedTrial, ...]:
    """The trials with their commands filled in; those whose environment cannot be made here are skipped, saying why.

    Environments are made for trials that are to run only, each once. Raises HarnessError (status 2) for packages that
    are none once filled in, and for a program that cannot be started; and for a cache that cannot be used.
    """
    provider = _Provider(scenario, cache=cache, note=note)
    return tuple(provider.equipped(trial) for trial in trials)


def countable(
    trials: Iterator[PlannedTrial], *, cache: Path, python_path: str, note: Note = lambda _text: None
) -> Iterator[PlannedTrial]:
    """The trials of a watch, with `import livetrap` working in every Python that their commands run.

    It is found last: behind a PYTHONPATH that the command is given, else behind `python_path`, the harness's own.
    Where the cache cannot be used, `note` is told, and the trials stay as they are.
    """
    try:
        folder = str(environments.beats_folder(cache))
    except HarnessError as error:
        note(f"Python programs find no `import livetrap`: {error}")
        folder = ""
    for trial in trials:
        command = trial.command
        if command is None or not folder:
            yield trial
            continue
        before = command.environment.get("PYTHONPATH", python_path)
        environment = {**command.environment, "PYTHONPATH": f"{before}{os.pathsep}{folder}" if before else folder}
        yield msgspec.structs.replace(trial, command=msgspec.structs.replace(command, environment=environment))


class _Provider:
    """Makes each thing once."""

    def __init__(self, scenario: Scenario, *, cache: Path, note: Note) -> None:
        self._scenario = scenario
        self._cache = cache
        self._note = note
        self._folder = Path(scenario.folder or ".").absolute()
        self._interpreters: dict[tuple[str, ...], Path | NotAvailable] = {(): Path(sys.executable)}
        self._prepared: Path | NotAvailable | None = None

    def equipped(self, trial: PlannedTrial) -> PlannedTrial:
        """A trial with its command filled in, or with why it cannot run."""
        if trial.skip:
            return trial
        target = self._scenario.target
        values: dict[str, Value] = {**trial.parameters, **trial.cell, "seed": trial.seed, "folder": str(self._folder)}
        needs = {"python": self._interpreter(scenario_command.packages_of(target, values))}
        if target.prepare:
            needs["prepared"] = self._preparation(target.prepare)
        for name, found in needs.items():
            if isinstance(found, NotAvailable):
                return msgspec.structs.replace(trial, skip=found.reason)
            values[name] = str(found)
        command = self._startable(scenario_command.command_of(target, values))
        path = [str(environments.beats_folder(self._cache)), command.environment.get("PYTHONPATH", "")]
        environment = {**command.environment, "PYTHONPATH": os.pathsep.join(part for part in path if part)}
        return msgspec.structs.replace(trial, command=msgspec.structs.replace(command, environment=environment))

    def _startable(self, command: CommandSpec) -> CommandSpec:
        try:
            return resolve(command)
        except HarnessError as error:
            raise HarnessError(f"{self._scenario.path}: target.command: {error}", status=error.status) from None

    def _interpreter(self, packages: tuple[str, ...]) -> Path | NotAvailable:
        if packages not in self._interpreters:
            self._interpreters[packages] = environments.interpreter(packages, cache=self._cache, note=self._note)
        return self._interpreters[packages]

    def _preparation(self, wanted: Preparation) -> Path | NotAvailable:
        if self._prepared is None:
            self._prepared = self._prepare(wanted)
        return self._prepared

    def _prepare(self, wanted: Preparation) -> Path | NotAvailable:
        """The folder that is made once, from the cache or made."""
        cache = build_cache.Cache(self._cache)
        place = cache.path / "prepared" / _key(wanted, self._folder)
        if place.is_dir():
            return place
        python = self._interpreter(wanted.packages)
        if isinstance(python, NotAvailable):
            return python
        self._note(f"preparing {self._scenario.name}")
        with cache.workshop() as workshop:
            made = workshop / "made"
            made.mkdir()
            values = {"folder": str(self._folder), "python": str(python), "prepared": str(made)}
            command = [placeholders.fill(word, values) for word in wanted.command]
            try:
                ran = environments.run(
                    command,
                    limit_s=PREPARE_S,
                    folder=self._folder,
                    environment={"PYTHONDONTWRITEBYTECODE": "1"},
                )
            except OSError as error:
                return NotAvailable(reason=f"cannot prepare it: {command[0]}: {error.strerror}")
            if ran.status != 0:
                return NotAvailable(reason=environments.told(ran, what="cannot prepare it", limit_s=PREPARE_S))
            place.parent.mkdir(mode=0o700, exist_ok=True)
            return environments.keep(made, place)


def _key(wanted: Preparation, folder: Path) -> str:
    """A name for what is prepared: the scenario's files, and how it is made. HarnessError: they cannot be read."""
    parts = {"packages": "\0".join(wanted.packages), "command": "\0".join(wanted.command), "python": sys.version}
    try:
        files = sorted(path for path in folder.rglob("*") if _is_source(path.relative_to(folder)) and path.is_file())
        if len(files) > MOST_FILES or sum(file.stat().st_size for file in files) > MOST_BYTES:
            most = f"at most {MOST_FILES} files and {MOST_BYTES // 1_000_000} MB"
            raise HarnessError(f"{folder}: too much beside scenario.toml to watch for changes; have {most} there")
        for file in files:
            parts[f"file {file.relative_to(folder)}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise HarnessError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return build_cache.key(parts)


def _is_source(path: Path) -> bool:
    return not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
