"""Tools that hang, flood or fail."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from livetrap import tools


def shell(script: str, *, deadline_s: float = 10.0, most_bytes: int = 1000, tail: bool = False) -> tools.Ran:
    return tools.run(["/bin/sh", "-c", script], deadline_s=deadline_s, most_bytes=most_bytes, tail=tail)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int, limit_s: float = 5.0) -> bool:
    """Whether it goes in time; an orphan is reaped by init, a zombie until then."""
    end = time.monotonic() + limit_s
    while alive(pid):
        with contextlib.suppress(OSError):
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def test_what_it_says_and_how_it_ends() -> None:
    done = shell("echo one; echo '\x1b[31mtwo' >&2; exit 3")
    assert (done.text, done.status, done.late, done.cut, done.why) == ("one\ntwo\n", 3, False, False, "")
    assert done.last_line == "two"
    assert shell("kill -9 $$").status == -9


def test_the_network_is_not_asked_for_debug_information(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://example.org")
    assert shell('echo "<$DEBUGINFOD_URLS>"').text == "<>\n"


def test_a_tool_that_is_not_there() -> None:
    done = tools.run(["/nonexistent/tool"], deadline_s=1.0)
    assert (done.status, done.why) == (127, "No such file or directory")
    assert tools.run(["a\0b"], deadline_s=1.0).why


def test_stdin_is_empty() -> None:
    assert shell("cat; echo end").text == "end\n"


def test_one_that_hangs_is_killed_with_its_children() -> None:
    began = time.monotonic()
    done = shell("trap '' TERM; sleep 60 & echo $!; sleep 60", deadline_s=0.3)
    assert done.late
    assert time.monotonic() - began < 5
    assert gone(int(done.text))


def test_a_child_that_keeps_the_pipe_open_does_not_hold_it_up() -> None:
    began = time.monotonic()
    done = shell("sleep 60 & echo $!")
    assert time.monotonic() - began < 5
    assert (done.late, done.status) == (False, 0)
    assert gone(int(done.text))


@pytest.mark.parametrize(("tail", "kept"), [(False, b"first"), (True, b"last\n")])
def test_a_flood_is_bounded(tail: bool, kept: bytes) -> None:
    done = shell("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last", most_bytes=5, tail=tail)
    assert (done.text.encode(), done.cut, done.status) == (kept, True, 0)


def test_one_that_floods_for_ever_ends_in_time() -> None:
    assert shell("while :; do echo x; done", deadline_s=0.05).late


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_memory_is_limited() -> None:
    hog = "import time; time.sleep(0.05); b = bytearray(1 << 30)"
    done = tools.run([sys.executable, "-S", "-c", hog], deadline_s=10.0, memory_bytes=1 << 29)
    assert (done.last_line, done.status) == ("MemoryError", 1)


def test_one_beside_this_python_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.find("sh") is None
    monkeypatch.setattr(sys, "executable", "/bin/python3")
    assert tools.find("sh") == "/bin/sh"
