"""The page: layout as in livetrap.h, both ways to make one, and a target that writes nonsense into it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from livetrap import page as pages
from livetrap.errors import HarnessError
from livetrap.model import Mark, ThreadId, WaitKind
from livetrap.page import HEADER_BYTES, HEADER_FIELDS, SLOT_BYTES, SLOT_FIELDS, Page, one_line

INCLUDE = Path(__file__).resolve().parents[1] / "csrc" / "include"
KINDS = [pytest.param(False, id="file")]
if sys.platform == "linux":
    KINDS.append(pytest.param(True, id="memory"))


def put(page: Page, at: int, code: str, value: object) -> None:
    """Writes as a target would, through a descriptor of the page."""
    os.pwrite(page.fd, struct.pack("<" + code, value), at)


def put_header(page: Page, **values: object) -> None:
    for name, value in values.items():
        put(page, *HEADER_FIELDS[name], value)


def put_slot(page: Page, index: int, **values: object) -> None:
    for name, value in values.items():
        at, code = SLOT_FIELDS[name]
        put(page, HEADER_BYTES + index * SLOT_BYTES + at, code, value)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_layout_is_that_of_the_header(tmp_path: Path) -> None:
    def rows(struct_name: str, fields: dict[str, tuple[int, str]]) -> str:
        return "".join(
            f'    printf("{name} %zu %zu\\n", offsetof(struct {struct_name}, {name}),'
            f" sizeof(((struct {struct_name} *)0)->{name}));\n"
            for name in fields
        )

    source = tmp_path / "layout.c"
    source.write_text(
        '#include "livetrap.h"\n#include <stdio.h>\nint main(void) {\n'
        + rows("lt_page_header", HEADER_FIELDS)
        + rows("lt_slot", SLOT_FIELDS)
        + '    printf("%u %u %u %u %llx\\n", LT_ABI_VERSION, LT_HEADER_BYTES, LT_SLOT_BYTES, LT_MESSAGE_BYTES,'
        + " (unsigned long long)LT_PAGE_MAGIC);\n    return 0;\n}\n"
    )
    program = tmp_path / "layout"
    subprocess.run(
        ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-I", INCLUDE, source, "-o", program, "-pthread"], check=True, timeout=60
    )
    lines = subprocess.run([program], check=True, capture_output=True, text=True, timeout=10).stdout.splitlines()
    expected = [
        f"{name} {at} {struct.calcsize('<' + code)}"
        for fields in (HEADER_FIELDS, SLOT_FIELDS)
        for name, (at, code) in fields.items()
    ]
    assert lines[:-1] == expected
    constants = [pages.VERSION, HEADER_BYTES, SLOT_BYTES, pages.MESSAGE_BYTES, f"{pages.MAGIC:x}"]
    assert lines[-1].split() == [str(value) for value in constants]


def test_every_field_of_the_header_file_is_known() -> None:
    text = (INCLUDE / "livetrap.h").read_text()
    for name, fields in (("lt_slot", SLOT_FIELDS), ("lt_page_header", HEADER_FIELDS)):
        match = re.search(rf"struct {name} \{{(.*?)\}};", text, re.DOTALL)
        assert match
        found = re.findall(r"^\s+\w+ (\w+)(?:\[\w+\])?;", match[1], re.MULTILINE)
        assert [field for field in found if not field.startswith("reserved")] == list(fields)


@pytest.mark.parametrize("anonymous", KINDS)
def test_a_new_page_is_empty_and_names_itself(anonymous: bool) -> None:
    with Page.create(8, anonymous=anonymous) as page:
        header = page.header()
        assert (header.slots_used, header.probe, header.probe_passes, header.message) == (0, None, None, "")
        assert page.slots() == []
        assert 0 < page.nonce < 1 << 63
        assert page.spec(7) == f"1:7:{page.nonce:x}:{page.path}"
        assert (page.path == "") is anonymous
        assert os.fstat(page.fd).st_size == HEADER_BYTES + 8 * SLOT_BYTES
        magic, version, slots, nonce, size = struct.unpack("<QIIQQ", os.pread(page.fd, 32, 0))
        assert (magic, version, slots, nonce, size) == (pages.MAGIC, 1, 8, page.nonce, HEADER_BYTES + 8 * SLOT_BYTES)
        assert not os.get_inheritable(page.fd)


def test_a_page_in_a_file_is_private_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = Page.create(2, anonymous=False)
    folder = Path(page.path).parent
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(page.path).stat().st_mode) == 0o600
    page.close()
    page.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="seals are Linux's")
def test_a_target_cannot_shrink_the_page() -> None:
    with Page.create(2) as page, pytest.raises(PermissionError):
        os.ftruncate(page.fd, 10)


def test_pages_differ_in_their_nonce() -> None:
    with Page.create(1) as one, Page.create(1) as other:
        assert one.nonce != other.nonce


@pytest.mark.parametrize("slots", [0, -1, 10**6])
def test_an_impossible_size_is_refused(slots: int) -> None:
    with pytest.raises(HarnessError, match="from 1 to"):
        Page.create(slots)


def test_no_room_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(HarnessError, match="no room for a page") as caught:
        Page.create(4, anonymous=False)
    assert caught.value.status == 3
    assert "\n" not in str(caught.value)


def test_only_claimed_slots_are_read() -> None:
    with Page.create(4) as page:
        for index, claimed in enumerate((1, 0, 1, 1)):
            put_slot(page, index, claimed=claimed, pid=10, tid=20 + index, beats=index, mark=2, kind=1, site=5)
        put_header(page, slots_used=3)
        assert [(slot.index, slot.tid, slot.beats) for slot in page.slots()] == [(0, 20, 0), (2, 22, 2)]
        slot = page.slots()[0]
        assert (slot.mark, slot.kind, slot.site, slot.cpu_ns) == (Mark.WAIT, WaitKind.SPIN, 5, None)


def test_what_changes_is_read_anew_and_what_does_not_is_kept() -> None:
    with Page.create(2) as page:
        put_slot(page, 0, claimed=1, pid=1, tid=1)
        put_slot(page, 1, claimed=1, pid=1, tid=2)
        put_header(page, slots_used=2)
        before = page.slots()
        put_slot(page, 1, beats=9, placed=-22, cpu_ns=4, switches=3)
        after = page.slots()
        assert after[0] is before[0]
        assert (after[1].beats, after[1].placed, after[1].cpu_ns, after[1].switches) == (9, -22, 4, 3)
        after.clear()
        assert len(page.slots()) == 2
        put_slot(page, 0, claimed=0)
        assert [slot.tid for slot in page.slots()] == [2]


def test_the_header_is_read() -> None:
    with Page.create(1) as page:
        put_header(
            page, departed_beats=7, departed=2, overflow=1, probe_pid=5, probe_tid=6, probe_passes=3, team=4, result=2
        )
        put_header(page, started_ns=11, finished_ns=12, message=b"caf\xc3\xa9\0junk")
        header = page.header()
        assert (header.departed_beats, header.departed, header.overflow, header.probe) == (7, 2, True, ThreadId(5, 6))
        assert (header.probe_passes, header.team, header.result, header.message) == (3, 4, 2, "café")
        assert (header.started_ns, header.finished_ns) == (11, 12)


def test_nonsense_says_nothing() -> None:
    with Page.create(2) as page:
        put_slot(page, 0, claimed=1, mark=77, kind=2**32 - 1, run_state=99, generation=2**32 - 1)
        put_slot(page, 1, claimed=7)
        put_header(page, slots_used=2**32 - 1, message=b"\xff\x1b[31mred\x1b[0m\r\nnext\x07\xe2\x80\xae")
        (slot,) = page.slots()
        assert (slot.mark, slot.kind) == (Mark.NONE, WaitKind.NONE)
        assert page.header().slots_used == 2
        assert page.header().message == "\ufffdred next"


@given(some.binary(min_size=HEADER_BYTES + 3 * SLOT_BYTES, max_size=HEADER_BYTES + 3 * SLOT_BYTES))
def test_no_bytes_can_make_reading_raise(junk: bytes) -> None:
    with Page.create(3) as page:
        os.pwrite(page.fd, junk, 0)
        put_header(page, slots_used=3)
        for index in range(3):
            put_slot(page, index, claimed=1)
        page.header()
        assert len(page.slots()) == 3


@given(some.text(some.characters(exclude_categories=())))
def test_one_line_has_no_control_characters(text: str) -> None:
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", one_line(text))
