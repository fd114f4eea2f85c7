"""Evidence of a real hang, by the debuggers of this machine."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from livetrap import evidence, tools
from livetrap.evidence import core, stacks
from livetrap.evidence.files import readable
from livetrap.model import LoopKind, Role, ThreadId, ThreadJudgement

SOURCE = Path(__file__).resolve().parent / "spinner.c"
ET_CORE = 4
TO_ITSELF = {"x86_64": b"\xeb\xfe", "aarch64": b"\x00\x00\x00\x14"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or not (shutil.which("gcc") and shutil.which("addr2line")),
        reason="needs gcc and binutils on Linux",
    ),
]


def compiled(folder: Path, *flags: str) -> Path:
    program = folder / "spinner"
    subprocess.run(["gcc", "-O2", "-pthread", *flags, SOURCE, "-o", program], check=True, timeout=60)
    return program


@contextlib.contextmanager
def running(program: Path) -> Iterator[int]:
    process = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait(10)
        if process.stdout:
            process.stdout.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("real"), "-g")


@pytest.fixture(scope="module")
def hang(program: Path) -> Iterator[int]:
    """It is stopped by a debugger again and again; it hangs none the less."""
    with running(program) as pid:
        yield pid


@pytest.fixture
def traceable(hang: int) -> int:
    """The process, if this machine lets a child of ours trace it."""
    tool = tools.find("eu-stack")
    if tool is None:
        pytest.skip("needs eu-stack")
    said = tools.run([tool, "-p", str(hang)], deadline_s=10).text
    if "not permitted" in said:
        pytest.skip(f"may not trace here: {said}")
    return hang


def line_of(text: str) -> int:
    return next(at for at, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def to_itself(program: Path) -> int:
    """Offset of the jump to itself in its file."""
    pattern = TO_ITSELF.get(platform.machine())
    if pattern is None:
        pytest.skip(f"no such instruction is known of {platform.machine()}")
    return program.read_bytes().index(pattern)


def spinning(pid: int, site: str) -> ThreadJudgement:
    return ThreadJudgement(
        id=ThreadId(pid, pid), role=Role.SPINNING, pc_site=site, loop=LoopKind.ENDLESS, loop_site=site
    )


def only(value: object) -> Any:
    assert isinstance(value, list)
    (one,) = value
    return one


def where(pid: int, site: str, modules: Mapping[str, str]) -> tuple[object, object]:
    found = evidence.collect(pid, (spinning(pid, site),), modules=modules, stacks=False, deadline_s=10)
    told = only(found["spin_sites"])
    return told["where"], found.get("missing")


def test_the_line_of_the_while(program: Path, hang: int) -> None:
    site = f"spinner+{to_itself(program):#x}"
    expected = f"wait_for_flag at {SOURCE}:{line_of('while (!flag)')}"
    assert where(hang, site, {"spinner": str(program)}) == (expected, None)


@pytest.mark.parametrize(
    ("flag", "place", "missing"),
    [
        ("-g", "wait_for_flag", "lines: spinner has no debug information there (build it with -g)"),
        ("-s", None, "functions and lines: spinner has neither symbols nor debug information there"),
    ],
)
def test_without_debug_information(program: Path, tmp_path: Path, flag: str, place: str | None, missing: str) -> None:
    stripped = tmp_path / "spinner"
    subprocess.run(["strip", flag, "-o", stripped, program], check=True, timeout=60)
    site = f"spinner+{to_itself(stripped):#x}"
    assert where(os.getpid(), site, {"spinner": str(stripped)}) == (place, [missing])


def test_a_program_that_was_deleted_while_it_ran(program: Path, tmp_path: Path) -> None:
    copy = tmp_path / "spinner"
    shutil.copy(program, copy)
    site = f"spinner+{to_itself(program):#x}"
    with running(copy) as pid:
        copy.unlink()
        place, missing = where(pid, site, {"spinner": f"{copy} (deleted)"})
    assert (place, missing) == (f"wait_for_flag at {SOURCE}:{line_of('while (!flag)')}", None)
    assert not readable(f"{copy} (deleted)", pid=pid).path


@pytest.mark.parametrize("tool", ["eu-stack", "gdb"])
def test_stacks(traceable: int, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tools.find(tool) is None:
        pytest.skip(f"needs {tool}")
    find = tools.find
    monkeypatch.setattr(tools, "find", lambda name: find(name) if name == tool else None)
    found = stacks.collect([traceable], end=time.monotonic() + 30)
    assert found.by == (tool,)
    assert {stack.name for stack in found.native} == {"spinner"}
    frames = [stack.frames for stack in found.native]
    assert sum("wait_for_flag at" in stack[0] for stack in frames) == 1
    # Inlined functions have frames of their own.
    assert sum("wait_for at" in stack[0] and "poll_other at" in stack[1] for stack in frames) == 1
    assert sum(any("main at" in frame for frame in stack) for stack in frames) == 1


def test_a_debugger_that_is_ended_leaves_the_process_running(traceable: int, tmp_path: Path) -> None:
    gdb = tools.find("gdb")
    if gdb is None:
        pytest.skip("needs gdb")
    (tmp_path / "eu-stack").write_text(f"#!/bin/sh\nexec {gdb} -nx -batch -p {traceable} -ex 'shell sleep 60'\n")
    (tmp_path / "eu-stack").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        stacks.collect([traceable], end=time.monotonic() + 1.2)
    states = [(task / "stat").read_text().rpartition(") ")[2][0] for task in Path(f"/proc/{traceable}/task").iterdir()]
    assert set(states) <= {"R", "S"}


def test_python_frames() -> None:
    if tools.find("py-spy") is None:
        pytest.skip("needs py-spy")
    script = "import time\ndef nap():\n    print('ready', flush=True)\n    time.sleep(60)\nnap()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            found = evidence.collect(process.pid, (), modules={}, stacks=True, deadline_s=20)
        finally:
            process.kill()
    if "not permitted" in str(found.get("missing")).lower():
        pytest.skip(str(found["missing"]))
    text = only(found["python_stacks"])
    assert text.startswith(f"{process.pid}/{process.pid} ")
    assert "\n  nap at <string>:" in text
    assert found["stacks"], found["missing"]


def test_a_core(traceable: int, tmp_path: Path) -> None:
    if tools.find("gdb") is None:
        pytest.skip("needs gdb")
    path = Path(evidence.dump_core(traceable, tmp_path / "odd 'name", deadline_s=30))
    assert path.name == f"core.{traceable}"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [path] == list(path.parent.iterdir())
    with path.open("rb") as file:
        assert struct.unpack("<4s12xH", file.read(18)) == (b"\x7fELF", ET_CORE)
    assert core.dump(1 << 22, tmp_path / "none", deadline_s=30).why.startswith("gdb gave nothing")
    assert not (tmp_path / "none").exists()
