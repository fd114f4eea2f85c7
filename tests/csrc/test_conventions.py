"""What every C file keeps to."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from tests.csrc.driver import CSRC, KERNELS, PARTS, TECHNIQUES

FILES = sorted([*CSRC.rglob("*.c"), *CSRC.rglob("*.h")])
BUGGY = {"raw_spin"}


def name(file: Path) -> str:
    return str(file.relative_to(CSRC))


def code(stem: str) -> list[str]:
    """A technique's lines below its opening comment, its own name and summary taken out."""
    text = (CSRC / "techniques" / f"{stem}.c").read_text().partition("*/")[2]
    return [line.replace(stem, "X") for line in text.splitlines() if ".summary" not in line]


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_file_opens_with_what_it_shows(file: Path) -> None:
    text = file.read_text()
    assert text.startswith(f"/*\n * {file.stem}"), "the opening comment begins with the file's name"
    assert all(len(line) <= 120 for line in text.splitlines())
    assert text.endswith("\n")


@pytest.mark.parametrize("file", [file for file in FILES if file.name != "livetrap.h"], ids=name)
def test_files_and_functions_are_short(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert len(lines) < 200
    start = 0
    for number, line in enumerate(lines):
        if line.endswith(") {") and not line.startswith(" "):
            start = number
        if line == "}":
            assert number - start < 50, f"a function of {number - start} lines ends at line {number + 1}"


@pytest.mark.parametrize("file", [*KERNELS, *TECHNIQUES], ids=name)
def test_a_kernel_or_technique_names_its_source_and_itself(file: Path) -> None:
    text = file.read_text()
    kind = file.parent.name.removesuffix("s")
    assert "\n * Source: " in text.partition("*/")[0]
    assert f"const struct lt_{kind} lt_{kind}_{file.stem} = {{" in text
    assert f'.name = "{file.stem}",' in text


@pytest.mark.parametrize("file", PARTS, ids=name)
def test_a_part_belongs_to_a_kernel(file: Path) -> None:
    kernel = file.stem.partition(".")[0]
    assert kernel in {kernel.stem for kernel in KERNELS}
    defined = re.findall(r"^\w[^\n;=]*?\b(\w+)\([^\n;]*\) \{$", file.read_text(), re.MULTILINE)
    assert all(word.startswith(f"{kernel}_") for word in defined), "all kernels' names meet in one module"


@pytest.mark.parametrize("file", TECHNIQUES, ids=name)
def test_bugs_are_marked(file: Path) -> None:
    assert ("/* BUG: " in file.read_text()) == (file.stem in BUGGY)


@pytest.mark.parametrize("twin", ["volatile_spin", "relaxed_spin"])
def test_the_fixed_twin_differs_in_the_marked_lines_only(twin: str) -> None:
    changed = [line for line in difflib.ndiff(code("raw_spin"), code(twin)) if line.startswith("- ")]
    assert len(changed) == 2
    assert all("/* BUG: " in line for line in changed)


def test_platforms_differ_in_the_platform_files_only() -> None:
    elsewhere = [
        file for file in [*KERNELS, *PARTS, *TECHNIQUES] if re.search(r"__linux__|__APPLE__", file.read_text())
    ]
    assert elsewhere == []
