"""What a scenario's command needs on this machine: environments, what is prepared, and the command filled in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livetrap import environments, provisions, watching
from livetrap.errors import HarnessError
from livetrap.model import NotAvailable, PlannedTrial
from livetrap.plan import Options, plan
from livetrap.provisions import countable, equip
from livetrap.scenario import parse
from livetrap.scenario_model import Scenario
from tests.test_topology import VM, read
from tests.test_watching import machine

TEXT = """
schema = 1
name = "mine"
summary = "x"
[target]
command = ["{python}", "{folder}/loop.py", "{prepared}", "{version}", "{{seed}}"]
environment = { PYTHONPATH = "{folder}/lib" }
packages = ["thing=={version}"]
[target.prepare]
packages = ["maker==1.0"]
command = ["/bin/cp", "{folder}/loop.py", "{prepared}/copy"]
[budget]
trials = 2
[axes]
version = ["1.0", "2.0"]
placement = ["free", "pack"]
[variants.buggy]
role = "buggy"
"""


def watched(**environment: str) -> PlannedTrial:
    options = watching.Options(command=("a",), environment={name: (value,) for name, value in environment.items()})
    watch = watching.plan(options, topology=machine(2), seed=1)
    return watching.trial(watch, watch.cells[0], ordinal=0, repetition=0)


@pytest.mark.parametrize(
    ("own", "given", "before"),
    [("", {}, ""), ("/own", {}, "/own:"), ("/own", {"PYTHONPATH": "/given", "N": "1"}, "/given:")],
)
def test_a_watched_program_finds_beats_last(tmp_path: Path, own: str, given: dict[str, str], before: str) -> None:
    (trial,) = countable(iter([watched(**given)]), cache=tmp_path / "cache", python_path=own)
    assert trial.command is not None
    folder = environments.beats_folder(tmp_path / "cache")
    assert trial.command.environment == {**given, "PYTHONPATH": f"{before}{folder}"}
    assert trial.cell == given


def test_a_watch_goes_on_without_beats(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    notes: list[str] = []
    trials = [watched()]
    assert list(countable(iter(trials), cache=tmp_path / "file", python_path="", note=notes.append)) == trials
    assert notes[0].startswith("Python programs find no `import livetrap`: ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir()
    (made / "loop.py").write_text("pass\n")
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """The environments asked for; there is none with thing==2.0."""
    seen: list[tuple[str, ...]] = []

    def interpreter(packages: tuple[str, ...], **_: object) -> Path | NotAvailable:
        seen.append(packages)
        if packages == ("thing==2.0",):
            return NotAvailable(reason="no thing")
        python = tmp_path / packages[0]
        if not python.exists():
            python.symlink_to(sys.executable)
        return python

    monkeypatch.setattr(environments, "interpreter", interpreter)
    return seen


def made(folder: Path, text: str = TEXT) -> tuple[tuple[PlannedTrial, ...], Scenario]:
    scenario = parse(text, path="s.toml", folder=str(folder), kernels=(), techniques=())
    planned = plan(scenario, options=Options(), topology=read(VM), compilers={}, manifest=None, seed=1)
    return planned.trials, scenario


@pytest.fixture
def equipped(folder: Path, tmp_path: Path) -> Callable[..., list[PlannedTrial]]:
    def call(text: str = TEXT, note: Callable[[str], None] = lambda _text: None) -> list[PlannedTrial]:
        trials, scenario = made(folder, text)
        return list(equip(trials, scenario, cache=tmp_path / "cache", note=note))

    return call


def running(trials: list[PlannedTrial]) -> PlannedTrial:
    return next(trial for trial in trials if not trial.skip)


@pytest.mark.slow
def test_commands_are_filled_in(
    equipped: Callable[..., list[PlannedTrial]], asked: list[tuple[str, ...]], folder: Path, tmp_path: Path
) -> None:
    notes: list[str] = []
    trials = equipped(note=notes.append)
    assert [trial.skip for trial in trials].count("no thing") == 2
    assert [trial.skip for trial in trials].count("pack: the threads of a command cannot be placed one by one") == 4
    command = running(trials).command
    assert command is not None
    python, loop, prepared, version, braces = command.argv
    assert (python, loop) == (str(tmp_path / "thing==1.0"), str(folder / "loop.py"))
    assert (version, braces, command.folder) == ("1.0", "{seed}", str(folder))
    assert (Path(prepared) / "copy").read_text() == "pass\n"
    beats, theirs = command.environment["PYTHONPATH"].split(os.pathsep)
    assert (Path(beats) / "livetrap" / "beats.py").is_file()
    assert theirs == f"{folder}/lib"
    assert sorted(asked) == [("maker==1.0",), ("thing==1.0",), ("thing==2.0",)]
    assert notes == ["preparing mine"]
    assert not list((tmp_path / "cache").glob("tmp-*"))


@pytest.mark.slow
def test_it_is_prepared_once_and_anew_when_a_file_changes(
    equipped: Callable[..., list[PlannedTrial]], asked: list[tuple[str, ...]], folder: Path
) -> None:
    def prepared() -> str:
        command = running(equipped()).command
        assert command is not None
        return command.argv[2]

    first = prepared()
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").touch()
    (folder / ".hidden").touch()
    assert prepared() == first
    assert asked.count(("maker==1.0",)) == 1
    (folder / "loop.py").write_text("pass  # changed\n")
    assert prepared() != first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ('["/bin/sh", "-c", "echo ERROR: no room >&2; exit 3"]', "cannot prepare it: no room"),
        ('["/bin/false"]', "cannot prepare it: ended with 1"),
        ('["{folder}/nothing"]', "cannot prepare it: {folder}/nothing: No such file or directory"),
    ],
)
def test_what_cannot_be_prepared_is_skipped(
    command: str, reason: str, equipped: Callable[..., list[PlannedTrial]], asked: list[tuple[str, ...]], folder: Path
) -> None:
    old = '["/bin/cp", "{folder}/loop.py", "{prepared}/copy"]'
    trials = equipped(TEXT.replace(old, command))
    assert {trial.skip for trial in trials if trial.cell == {"version": "1.0", "placement": "free"}} == {
        reason.replace("{folder}", str(folder))
    }
    assert asked


PLAIN = """
schema = 1
name = "mine"
summary = "x"
[target]
command = ["{python}", "-c", "pass"]
[variants.buggy]
role = "buggy"
"""


def test_without_packages_it_is_our_own_interpreter(equipped: Callable[..., list[PlannedTrial]]) -> None:
    command = running(equipped(PLAIN)).command
    assert command is not None
    assert command.argv[0] == sys.executable
    assert os.pathsep not in command.environment["PYTHONPATH"]


def test_an_environment_that_cannot_be_made_is_a_skip(
    equipped: Callable[..., list[PlannedTrial]], asked: list[tuple[str, ...]]
) -> None:
    trials = equipped(PLAIN.replace("command =", 'packages = ["thing==2.0"]\ncommand ='))
    assert {trial.skip for trial in trials} == {"no thing"}
    assert asked == [("thing==2.0",)]


def test_a_program_that_is_not_there_is_told_before_any_trial(equipped: Callable[..., list[PlannedTrial]]) -> None:
    with pytest.raises(HarnessError, match=r"^s\.toml: target\.command: .*no-such-program") as caught:
        equipped(PLAIN.replace("{python}", "no-such-program"))
    assert caught.value.status == 2


def test_too_much_beside_a_scenario(
    equipped: Callable[..., list[PlannedTrial]],
    asked: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provisions, "MOST_FILES", 0)
    with pytest.raises(HarnessError, match="too much beside"):
        equipped()
    assert asked
