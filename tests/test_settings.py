"""Settings of [tool.livetrap]: found upwards, for all commands or for one, and wrong ones told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from livetrap import cli, settings
from livetrap.cli import main
from livetrap.errors import HarnessError
from livetrap.settings import Option, Settings, defaults
from tests.test_cli import Capture, one_error

COMMANDS = {
    "run": (
        Option(name="timeout", flag="timeout", kind="float"),
        Option(name="json", flag="json", kind="str"),
        Option(name="flags", flag="flags", kind="list"),
        Option(name="trials", flag="trials", kind="int"),
    ),
    "fold": (
        Option(name="json", flag="json", kind="bool"),
        Option(name="until_s", flag="until-long", kind="float"),
    ),
}


def read(**table: object) -> dict[str, settings.Table]:
    return defaults(Settings(path="p.toml", table=table), COMMANDS)


def test_for_all_commands_and_for_one() -> None:
    assert read(timeout=3, json=True, trials=2, run={"trials": 5, "flags": "-O2"}, fold={"until_long": 1.5}) == {
        "run": {"timeout": 3.0, "trials": 5, "flags": ["-O2"]},
        "fold": {"json": True, "until_s": 1.5},
    }
    assert read(run={"flags": ["-O1", "-O2"]}) == {"run": {"flags": ["-O1", "-O2"]}}
    assert read() == {}


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ({"timout": 3}, "tool.livetrap.timout: unknown; did you mean 'timeout'"),
        ({"timeout": "3"}, "tool.livetrap.timeout: must be a number"),
        ({"json": 3}, "must be text or true or false"),
        ({"run": {"until-long": 3}}, "tool.livetrap.run.until-long: run has no such option"),
        ({"run": {"trials": True}}, "tool.livetrap.run.trials: must be a whole number"),
        ({"run": {"trials": 1.5}}, "must be a whole number"),
        ({"run": {"flags": [True]}}, "must be a list of text"),
        ({"rum": {"trials": 1}}, "tool.livetrap.rum: no such command; did you mean 'run'"),
    ],
)
def test_wrong_ones(table: dict[str, object], part: str) -> None:
    with pytest.raises(HarnessError, match=part) as caught:
        read(**table)
    assert str(caught.value).startswith("p.toml: ")


def test_found_upwards(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.livetrap]\ntrials = 1\n", encoding="utf-8")
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'livetrap-user'\n", encoding="utf-8")
    found = settings.find(inner)
    assert found is not None
    assert (found.path, found.table) == (str(tmp_path / "pyproject.toml"), {"trials": 1})
    (inner / "pyproject.toml").write_bytes(b"\xff[broken, and not ours")
    assert settings.find(inner) == found
    (inner / "pyproject.toml").write_text("[tool.livetrap\n", encoding="utf-8")
    with pytest.raises(HarnessError, match="cannot be read for its"):
        settings.find(inner)
    (inner / "pyproject.toml").write_text("[tool]\nlivetrap = 3\n", encoding="utf-8")
    with pytest.raises(HarnessError, match="must be a table"):
        settings.find(inner)


def test_every_option_of_every_command_is_known() -> None:
    options = {name: {one.flag: one.kind for one in cli._options(command)} for name, command in cli.COMMANDS.items()}
    assert options["run"]["timeout"] == "float"
    assert options["run"]["trials"] == "int"
    assert options["run"]["flags"] == "list"
    assert options["watch"]["for"] == "str"
    assert options["watch"]["keep-going"] == "bool"
    assert {kind for kinds in options.values() for kind in kinds.values()} <= set(settings.WORDS)


def test_the_command_line_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.livetrap]\ntimeout = -3\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "--timeout -3" in one_error(capsys, status=main(["run", "raw-spin-flag"]))
    assert "--timeout -4" in one_error(capsys, status=main(["run", "raw-spin-flag", "--timeout", "-4"]))
    assert main(["--version"]) == 0
