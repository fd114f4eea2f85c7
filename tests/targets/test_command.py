"""Which file a command runs, and what is said of one that cannot be run."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from livetrap.errors import HarnessError
from livetrap.model import CommandSpec
from livetrap.targets.command import launch_message, page_spec, program, refusal, resolve
from livetrap.targets.messages import Inbox, pack


def script(path: Path, text: str = "#!/bin/sh\n", *, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def command(*argv: str, folder: str | Path = "", **environment: str) -> CommandSpec:
    return CommandSpec(argv=argv, folder=str(folder), environment=environment)


def test_found_in_the_path_of_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = script(tmp_path / "one" / "tool"), script(tmp_path / "two" / "tool")
    monkeypatch.setenv("PATH", str(one.parent))
    assert program(command("tool")) == one
    assert program(command("tool", PATH=f"{tmp_path}/none:{two.parent}:{one.parent}")) == two
    assert resolve(command("tool", "-x")).argv == ("tool", "-x")


def test_relative_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = script(tmp_path / "inner" / "bin" / "tool")
    monkeypatch.chdir(tmp_path)
    resolved = resolve(command("bin/tool", folder="inner"))
    assert (resolved.folder, resolved.argv) == (str(tmp_path / "inner"), ("bin/tool",))
    assert program(resolved) == tool
    assert program(command("tool", folder=tmp_path / "inner", PATH="bin")) == tool
    assert program(command("inner/bin/tool")) == tool
    assert resolve(command("inner/bin/tool")).folder == ""
    assert program(command(str(tool), folder="/")) == tool


def test_a_file_that_cannot_be_run_is_passed_over(tmp_path: Path) -> None:
    script(tmp_path / "one" / "tool", mode=0o644)
    (tmp_path / "two" / "tool").mkdir(parents=True)
    good = script(tmp_path / "three" / "tool")
    assert program(command("tool", PATH=f"{tmp_path}/one:{tmp_path}/two:{tmp_path}/three")) == good
    with pytest.raises(HarnessError, match=r"no program 'tool' in PATH: '.*one/tool' is there, but it is not exec"):
        program(command("tool", PATH=f"{tmp_path}/one:{tmp_path}/two"))


BAD = [
    pytest.param(command(), "no command is given", id="none"),
    pytest.param(command(""), "no command is given", id="empty"),
    pytest.param(command("no-such-tool"), "no program 'no-such-tool' in PATH$", id="not in PATH"),
    pytest.param(command("our-script"), r"in PATH; did you mean \./our-script\?", id="no dot in PATH"),
    pytest.param(command("./none"), "'./none': there is no such file", id="no file"),
    pytest.param(command("./plain/below"), "no such file", id="below a file"),
    pytest.param(command("./plain"), "not executable", id="not executable"),
    pytest.param(command("./sub"), "is a folder", id="folder"),
    pytest.param(command("./fifo"), "not a regular file", id="fifo"),
    pytest.param(command("./lost"), "interpreter '/no/such', there is no such file", id="interpreter"),
    pytest.param(command("./dos"), "carriage return", id="carriage return"),
    pytest.param(command("./blank"), "names no interpreter", id="no interpreter"),
    pytest.param(command("./our-script", folder="none"), "folder .*none' does not exist", id="no folder"),
    pytest.param(command("./our-script", folder="plain"), "is no folder", id="folder is a file"),
    pytest.param(command("./our-script", "a\0b"), "zero byte", id="zero byte"),
    pytest.param(command("./our-script", A="a\0b"), "zero byte", id="zero byte in the environment"),
    pytest.param(CommandSpec(argv=("./our-script",), environment={"A=B": ""}), "'A=B' cannot be", id="variable"),
    pytest.param(command("\x1b[31mred"), "no program 'red'", id="escapes"),
]


@pytest.mark.parametrize(("bad", "said"), BAD)
def test_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: CommandSpec, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "our-script")
    script(tmp_path / "plain", mode=0o644)
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "fifo")
    script(tmp_path / "lost", "#!/no/such -x\n")
    script(tmp_path / "dos", "#!/bin/sh\r\necho\r\n")
    script(tmp_path / "blank", "#!\n")
    with pytest.raises(HarnessError, match=said) as caught:
        resolve(bad)
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)


def test_a_program_that_may_not_be_read(tmp_path: Path) -> None:
    """An interpreter line cannot be checked then; the system will."""
    secret = script(tmp_path / "secret", "#!/no/such\n", mode=0o111)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    assert program(command(str(secret))) == secret


def test_the_working_folder_is_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Path:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", gone)
    with pytest.raises(HarnessError, match="is no more"):
        program(command("sh"))
    assert program(command(str(script(tmp_path / "tool")), folder=tmp_path))


def test_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "\udcff")
    monkeypatch.setenv("LIVETRAP_PAGE", "another's")
    message = launch_message(
        command=command("sh", "-c", "\udce9", folder="/", OTHER="x"),
        spec="1:3:ab:",
        token={"T": "t"},
        cpus=(1,),
        limits={4: -1},
    )
    inbox = Inbox()
    inbox.feed(pack(message))
    assert inbox.next() == message
    _, path, argv, environment, folder, cpus, limits = message
    assert path.endswith(b"/sh")
    assert argv == (b"sh", b"-c", b"\xe9")
    found = dict(environment)
    assert (found[b"MINE"], found[b"OTHER"], found[b"T"]) == (b"\xff", b"x", b"t")
    assert found[b"LIVETRAP_PAGE"] == b"1:3:ab:"
    assert (folder, cpus, limits) == (b"/", (1,), ((4, -1),))


class Pages:
    """A page with a path, or without one."""

    fd = 7

    def __init__(self, path: str) -> None:
        self.path = path

    def spec(self, fd_number: int) -> str:
        return f"1:{fd_number}:ab:{self.path}"


def test_the_page_has_a_path() -> None:
    assert page_spec(Pages("/tmp/page")) == "1:3:ab:/tmp/page"
    assert page_spec(Pages("")) == ("1:3:ab:" + (f"/proc/{os.getpid()}/fd/7" if sys.platform == "linux" else ""))


@pytest.mark.parametrize(
    ("number", "said", "status"),
    [
        (errno.ENOEXEC, "neither a program", 2),
        (errno.ENOENT, "its loader", 2),
        (errno.EACCES, "does not permit", 2),
        (errno.E2BIG, "too long", 2),
        (errno.EAGAIN, "the reason", 3),
        (0, "the reason", 3),
    ],
)
def test_refused_by_the_system(number: int, said: str, status: int) -> None:
    error = refusal(command("tool"), reason="the reason", number=number)
    assert said in str(error)
    assert error.status == status
