"""Python environments for commands: made once, kept, and a reason in one line where one cannot be made."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from livetrap import environments
from livetrap.environments import Ran, beats_folder, interpreter, told
from livetrap.errors import HarnessError
from livetrap.model import NotAvailable


class Installer:
    """Stands in for venv and pip."""

    def __init__(self, *ends: Ran) -> None:
        self.ends = list(ends)
        self.commands: list[list[str]] = []

    def run(self, command: Sequence[str], *, limit_s: float, **_: object) -> Ran:
        assert limit_s > 0
        self.commands.append(list(command))
        if "venv" in command:
            python = Path(command[-1], "bin", "python")
            python.parent.mkdir(parents=True)
            python.touch()
        return self.ends.pop(0) if self.ends else Ran(status=0, output="")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def install(monkeypatch: pytest.MonkeyPatch, *ends: Ran, uv: str | None = None) -> Installer:
    installer = Installer(*ends)
    monkeypatch.setattr(environments, "run", installer.run)
    monkeypatch.setattr("shutil.which", lambda _name: uv)
    return installer


def test_made_once_for_each_list_of_packages(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer = install(monkeypatch)
    notes: list[str] = []
    first = interpreter(["a==1", "b==2"], cache=cache, note=notes.append)
    assert isinstance(first, Path)
    assert first.parts[-2:] == ("bin", "python")
    assert interpreter(["b==2", "a==1"], cache=cache, note=notes.append) == first
    assert notes == ["making an environment with a==1 b==2"]
    assert interpreter(["a==1"], cache=cache, note=notes.append) != first
    assert [command[1:3] for command in installer.commands] == [["-m", "venv"], ["-m", "pip"]] * 2
    assert installer.commands[1][-4:] == ["--only-binary", ":all:", "a==1", "b==2"]


def test_one_that_another_process_is_making_is_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    made = interpreter(["a==1"], cache=cache, note=print)
    assert isinstance(made, Path)
    other = os.open(made.parent.parent.with_suffix(".lock"), os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        os.close(other)  # it is done

    assert interpreter(["a==1"], cache=cache, note=note) == made
    assert notes == ["waiting for an environment that is being made"]


def test_uv_where_it_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer = install(monkeypatch, uv="/bin/uv")
    interpreter(["a==1"], cache=cache, note=print)
    assert [command[:2] for command in installer.commands] == [["/bin/uv", "venv"], ["/bin/uv", "pip"]]


def test_what_fails_is_told_in_one_line_and_tried_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = "WARNING: x\nERROR: Could not find it\nERROR: No matching distribution found for a==1\n[notice] new pip\n"
    bad, good = Ran(status=1, output=output), Ran(status=0, output="")
    installer = install(monkeypatch, good, bad)
    found = interpreter(["a==1"], cache=cache, note=print)
    assert found == NotAvailable(reason="cannot install a==1: No matching distribution found for a==1")
    assert isinstance(interpreter(["a==1"], cache=cache, note=print), Path)
    assert len(installer.commands) == 4


def test_no_venv(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer = install(monkeypatch, Ran(status=1, output="No module named venv\n"))
    found = interpreter(["a==1"], cache=cache, note=print)
    assert found == NotAvailable(reason="cannot make a Python environment: No module named venv")
    assert len(installer.commands) == 1


def test_one_that_was_not_finished_is_made_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    python = interpreter(["a==1"], cache=cache, note=print)
    assert isinstance(python, Path)
    folder = python.parent.parent
    (folder / environments.READY).unlink()
    (folder / "left").touch()
    interpreter(["a==1"], cache=cache, note=print)
    assert not (folder / "left").exists()
    assert (folder / environments.READY).exists()


@pytest.mark.parametrize(
    ("ran", "line"),
    [
        (Ran(status=None, output="x"), "what: not done within 3 s"),
        (Ran(status=2, output=""), "what: ended with 2"),
        (Ran(status=1, output="  one\n\n  ╰─▶ last words\n"), "what: last words"),
        (Ran(status=1, output='Traceback:\n  x\nValueError: "no"\nmore\n'), 'what: ValueError: "no"'),
        (Ran(status=1, output="error: " + "x" * 999), "what: " + "x" * 300),
    ],
)
def test_told(ran: Ran, line: str) -> None:
    assert told(ran, what="what", limit_s=3) == line


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="cache"):
        interpreter(["a==1"], cache=tmp_path / "file", note=print)


def test_the_beats_folder_has_nothing_else(cache: Path) -> None:
    folder = beats_folder(cache)
    assert [path.name for path in folder.iterdir()] == ["livetrap"]
    assert {path.name for path in (folder / "livetrap").iterdir()} == set(environments.BEATS)
    assert beats_folder(cache) == folder


# --- real processes --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_any_python_can_beat_with_the_beats_folder(cache: Path) -> None:
    code = "import sys, livetrap; livetrap.beat(); print([name for name in sys.modules if name.startswith('msgspec')])"
    ran = environments.run(
        [sys.executable, "-S", "-c", code], limit_s=20, environment={"PYTHONPATH": str(beats_folder(cache))}
    )
    assert (ran.status, ran.output) == (0, "[]\n")


@pytest.mark.slow
def test_a_livetrap_of_the_program_s_own_is_found_instead(cache: Path, tmp_path: Path) -> None:
    package = tmp_path / "theirs" / "livetrap"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("MINE = True\n")
    (package / "more.py").touch()
    path = os.pathsep.join([str(beats_folder(cache)), str(package.parent)])
    code = "import livetrap.more; print(livetrap.MINE, livetrap.__file__)"
    ran = environments.run([sys.executable, "-S", "-c", code], limit_s=20, environment={"PYTHONPATH": path})
    assert (ran.status, ran.output) == (0, f"True {package / '__init__.py'}\n")


@pytest.mark.slow
def test_a_program_that_does_not_end_is_killed_with_its_children() -> None:
    seconds = f"50.{os.getpid()}"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep({seconds})'])"
    ran = environments.run([sys.executable, "-c", code], limit_s=0.5)
    assert ran == Ran(status=None, output="")
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True, timeout=10).stdout
    assert f"time.sleep({seconds})" not in listing


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with one wheel: package `tiny`, version 1.0."""
    name = "tiny-1.0"
    files = {
        "tiny.py": "WORD = 'tiny'\n",
        f"{name}.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{name}.dist-info/RECORD"
    files[record] = "".join(f"{file},,\n" for file in (*files, record))
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return tmp_path


OFFLINE: Mapping[str, str] = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}


@pytest.mark.slow
def test_a_real_one(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    python = interpreter(["tiny==1.0"], cache=cache, note=lambda _text: None)
    assert isinstance(python, Path), python
    ran = environments.run([str(python), "-c", "import tiny; print(tiny.WORD)"], limit_s=20)
    assert ran == Ran(status=0, output="tiny\n")
    (wheels / "tiny-1.0-py3-none-any.whl").unlink()
    assert interpreter(["tiny==1.0"], cache=cache, note=pytest.fail) == python  # nothing is fetched, nothing made
