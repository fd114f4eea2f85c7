"""A command as a target: whether it can be run, which file that is, and what the forker is told of it."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from livetrap.errors import HarnessError
from livetrap.model import CommandSpec
from livetrap.plaintext import plain
from livetrap.targets.messages import Message
from livetrap.targets.owner import SharedPage
from livetrap.targets.spawning import PAGE_FD

_LINE_BYTES = 256
"""So much of an interpreter line the kernel reads."""
_NO_FILE = "there is no such file"


def resolve(command: CommandSpec) -> CommandSpec:
    """The command with its folder made absolute, once it is known that it can be started; its words stay as they are.

    HarnessError, status 2: no command, no such folder, or see `program`.
    """
    for text in (*command.argv, *command.environment, *command.environment.values(), command.folder):
        if "\0" in text:
            raise HarnessError(f"the command holds a zero byte in {_shown(text)}: no program can be given one")
    for name in command.environment:
        if not name or "=" in name:
            raise HarnessError(f"{_shown(name)} cannot be the name of an environment variable")
    if command.folder:
        command = msgspec.structs.replace(command, folder=str(Path(command.folder).absolute()))
        if not Path(command.folder).is_dir():
            raise HarnessError(f"the command's folder {_shown(command.folder)} does not exist or is no folder")
    program(command)
    return command


def program(command: CommandSpec) -> Path:
    """The file that is run: the first word, looked up in the PATH of its environment, or relative to its folder.

    HarnessError, status 2: there is none, it is a folder or not executable, or its interpreter is not there.
    """
    if not command.argv or not command.argv[0]:
        raise HarnessError("no command is given: name a program to run")
    name = command.argv[0]
    folder = _folder(command)
    if "/" in name:
        path = folder / name
        if why := _unfit(path):
            raise HarnessError(f"cannot run {_shown(name)}: {why} ({_shown(path)})")
    else:
        path = _search(name, folder, command.environment.get("PATH", os.environ.get("PATH", os.defpath)))
    _check_interpreter(name, path, folder)
    return path


def launch_message(
    *, command: CommandSpec, spec: str, token: Mapping[str, str], cpus: tuple[int, ...], limits: Mapping[int, int]
) -> Message:
    """What the forker is told. `token`: more variables; `limits`: soft limits by resource. Errors as of `program`."""
    path = program(command)
    environment = {**os.environ, **command.environment, **token, "LIVETRAP_PAGE": spec}
    return (
        "command",
        os.fsencode(path),
        tuple(map(os.fsencode, command.argv)),
        tuple((os.fsencode(name), os.fsencode(value)) for name, value in environment.items()),
        os.fsencode(_folder(command)),
        cpus,
        tuple(limits.items()),
    )


def page_spec(page: SharedPage) -> str:
    """LIVETRAP_PAGE for a command: where the page has no path of its own, the harness's descriptor is one (Linux).

    Many a program closes what it does not know before it starts another: with a path, that one finds the page still.
    """
    spec = page.spec(PAGE_FD)
    if spec.endswith(":") and sys.platform == "linux":
        return f"{spec}/proc/{os.getpid()}/fd/{page.fd}"
    return spec


def refusal(command: CommandSpec, *, reason: str, number: int) -> HarnessError:
    """What to raise when the system would not start it. `number`: the errno, 0 if there is none."""
    name = _shown(command.argv[0])
    why, status = {
        errno.ENOEXEC: ("it is neither a program of this system nor a script that begins with #!", 2),
        errno.ENOENT: ("its loader, its interpreter or its folder is not there", 2),
        errno.EACCES: (
            "the system does not permit it (a file system without programs, or a folder it may not enter)",
            2,
        ),
        errno.E2BIG: ("its arguments and its environment are too long", 2),
    }.get(number, (plain(reason), 3))
    return HarnessError(f"cannot run {name}: {why}", status=status)


def _folder(command: CommandSpec) -> Path:
    try:
        return Path(command.folder or Path.cwd())
    except OSError:
        raise HarnessError("the folder that livetrap was started in is no more: change to another") from None


def _search(name: str, folder: Path, path: str) -> Path:
    seen = ""
    for place in path.split(os.pathsep):
        candidate = folder / place / name
        why = _unfit(candidate)
        if not why:
            return candidate
        if why != _NO_FILE and not seen:
            seen = f": {_shown(candidate)} is there, but {why}"
    if not seen and not _unfit(folder / name):
        seen = f"; did you mean ./{plain(name)}?"
    raise HarnessError(f"there is no program {_shown(name)} in PATH{seen}")


def _unfit(path: Path) -> str:
    """Why that file cannot be run; empty: it can."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return "its folder may not be read"
    except OSError:
        return _NO_FILE
    if stat.S_ISDIR(mode):
        return "it is a folder, not a program"
    if not stat.S_ISREG(mode):
        return "it is not a regular file"
    if not os.access(path, os.X_OK):
        return "it is not executable (chmod +x, or name its interpreter first)"
    return ""


def _check_interpreter(name: str, path: Path, folder: Path) -> None:
    """An interpreter that is missing would be told as if the script itself were."""
    try:
        with path.open("rb") as file:
            line = file.read(_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return  # a program may be executable and not readable
    if not line.startswith(b"#!"):
        return
    interpreter = os.fsdecode(line[2:].replace(b"\t", b" ").strip(b" ").partition(b" ")[0])
    if not interpreter:
        raise HarnessError(f"cannot run {_shown(name)}: its first line names no interpreter")
    if why := _unfit(folder / interpreter):
        carriage = "; its name ends with a carriage return" if interpreter.endswith("\r") else ""
        raise HarnessError(f"cannot run {_shown(name)}: of its interpreter {_shown(interpreter)}, {why}{carriage}")


def _shown(text: object) -> str:
    """As one word for a message."""
    return repr(plain(str(text)))
