"""The page's layout in livetrap.h is the one that its comments document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.csrc.driver import CSRC, compile_c, compilers

HEADER = CSRC / "include" / "livetrap.h"
FIELD = re.compile(r"^\s+\w+ (\w+)(?:\[\w+\])?;\s+/\*\s+(\d+)\s", re.MULTILINE)
FIRST_LINE = {"magic": 0, "version": 8, "slot_count": 12, "nonce": 16, "size": 24, "request": 32}


def documented(struct: str) -> dict[str, int]:
    text = HEADER.read_text()
    start = text.index(f"struct {struct} {{")
    return {name: int(offset) for name, offset in FIELD.findall(text[start : text.index("\n};", start)])}


def test_every_field_is_documented() -> None:
    slot = documented("lt_slot")
    assert list(slot)[:2] == ["beats", "mark"]
    assert len(slot) == 22
    assert list(slot.values()) == sorted(slot.values())
    assert len(documented("lt_page_header")) == 12


@pytest.mark.parametrize("compiler", compilers())
@pytest.mark.parametrize("language", ["c11", "gnu11", "c++11"])
def test_offsets(tmp_path: Path, compiler: str, language: str) -> None:
    offsets = {
        "lt_slot": documented("lt_slot"),
        "lt_page_header": {**FIRST_LINE, **documented("lt_page_header")},
    }
    keyword = "static_assert" if "+" in language else "_Static_assert"
    lines = ["#include <livetrap.h>"]
    for struct, fields in offsets.items():
        lines += [
            f'{keyword}(offsetof(struct {struct}, {name}) == {offset}, "{name}");' for name, offset in fields.items()
        ]
    lines.append("int main(void) { lt_run(); lt_beat(); lt_wait_begin(1, LT_WAIT_SPIN); lt_wait_end();")
    lines.append("lt_parked(); lt_done(); return 0; }")
    source = tmp_path / ("user.cc" if "+" in language else "user.c")
    source.write_text("\n".join(lines) + "\n")
    kind = "c++" if "+" in language else "c"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    compile_c(
        [compiler, "-x", kind, f"-std={language}", *warnings, "-fsyntax-only", f"-I{CSRC / 'include'}", str(source)]
    )
