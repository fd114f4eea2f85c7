"""The walk of docs/writing-a-scenario.md, followed word by word in an empty folder: files, commands, output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.csrc.driver import compilers
from tests.end_to_end.running import MARK, survivors

DOCUMENT = Path(__file__).parents[2] / "docs" / "writing-a-scenario.md"
HEADING = "## A walk from nothing\n"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LIMIT_S = 60.0


def steps() -> list[tuple[str, str]]:
    """Each code block of the walk: `$` and what stands in a console, or a file's name and its text."""
    walk = DOCUMENT.read_text().split(HEADING)[1].split("\n## ")[0]
    found, place = [], 0
    for block in BLOCK.finditer(walk):
        said = walk[place : block.start()]
        place = block.end()
        if block[1] == "console":
            found.append(("$", block[2]))
            continue
        name = re.search(r"Write `([\w.]+)`:\s*$", said)
        assert name, f"a block of {block[1]} without a file's name before it"
        found.append((name[1], block[2]))
    return found


def commands(console: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it should print."""
    told: list[tuple[str, list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            told.append((line[2:], []))
        else:
            told[-1][1].append(line)
    return told


def pattern(lines: list[str]) -> str:
    """A pattern for the lines as they stand, spaces aside: a line `...` is any lines, `...` in one is anything."""
    parts = []
    for line in lines:
        words = [re.escape(word).replace(re.escape("..."), ".*") for word in line.split()]
        parts.append(r"(?:.*\n)*?" if line == "..." else " *" + " +".join(words) + r" *\n")
    return "".join(parts)


def plain(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no C compiler is installed")
def test_the_walk_ends_with_a_caught_hang(tmp_path: Path) -> None:
    folder, caught = tmp_path / "empty", ""
    folder.mkdir()
    mark = "walk" + tmp_path.name
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "COLUMNS": "160",
        MARK: mark,
    }
    if not shutil.which("livetrap", path=environment["PATH"]):
        pytest.skip("livetrap is not on the PATH")
    for name, text in steps():
        if name != "$":
            (folder / name).write_text(text)
            continue
        for command, lines in commands(text):
            program, *words = shlex.split(command)
            if program == "cd":
                folder /= words[0]
                continue
            done = subprocess.run(
                [program, *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            assert done.returncode == (1 if command.endswith("-O0") else 0), done.stdout
            assert re.fullmatch(plain(pattern(lines)), plain(done.stdout)), f"{command}\n{done.stdout}"
            caught += done.stdout
    assert "livelock 3/3" in caught
    assert survivors(mark) == []
    assert sorted(path.name for path in folder.iterdir()) == ["hang.db", "my_hang.c", "scenario.toml"]


def test_files_and_commands_stand_in_it() -> None:
    names = [name for name, _ in steps()]
    assert names == ["$", "scenario.toml", "my_hang.c", "$", "$", "$"]
    assert [command for command, _ in commands(steps()[0][1])] == ["mkdir my-hang", "cd my-hang"]
    assert commands(steps()[3][1])[0][0] == "livetrap run ."


@pytest.mark.parametrize(
    ("lines", "text", "fits"),
    [
        (["..."], "", True),
        (["..."], "a\nb\n", True),
        (["a  b"], "a b \n", True),
        (["a b"], "a c\n", False),
        (["a", "...", "b ... s"], "a\nx\nb 3 s\n", True),
        (["a", "..."], "x\na\n", False),
        ([], "a\n", False),
    ],
)
def test_lines_are_compared_spaces_aside(lines: list[str], text: str, fits: bool) -> None:
    assert bool(re.fullmatch(plain(pattern(lines)), plain(text))) is fits
