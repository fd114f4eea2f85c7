"""Finds the C compilers of this machine and tells GCC from Clang by what they say, not by what they are called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from livetrap.model import Frozen, NotAvailable

_NUMBERED = {"gcc": range(20, 8, -1), "clang": range(24, 10, -1)}
_ASK_S = 20.0


class Compiler(Frozen):
    """A C compiler."""

    name: str
    """As asked for: `gcc`, `clang`, or a path."""
    family: str
    """`gcc` or `clang`."""
    path: str
    version: str
    """The first line that it says of itself."""


def environment() -> dict[str, str]:
    """What a compiler gets of our environment: enough to run, nothing that changes what it makes (CPATH and such).

    No TMPDIR: where its temporary files go is for the build to say, which removes them.
    """
    kept = ("PATH", "HOME", "SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def family_of(version_text: str) -> str | None:
    """`gcc`, `clang` or None, from what `--version` prints. Apple's `gcc` says that it is clang."""
    text = version_text.lower()
    if "clang" in text:
        return "clang"
    if "free software foundation" in text or text.startswith("gcc"):
        return "gcc"
    return None


def _say(*command: str) -> str | None:
    """What a command prints, or None when it fails."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, env=environment(), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _how_to_get(name: str) -> str:
    if sys.platform == "darwin":
        return "xcode-select --install" if name != "gcc" else "brew install gcc"
    return f"apt install {name if name in _NUMBERED else 'gcc'}"


def _only_a_stub(path: str) -> bool:
    """On macOS without the developer tools, /usr/bin/cc is a stub that opens a window: do not touch it."""
    return sys.platform == "darwin" and path.startswith("/usr/bin/") and _say("/usr/bin/xcode-select", "-p") is None


def _candidates(name: str) -> list[str]:
    if name not in _NUMBERED:
        return [name]
    return [name, *(f"{name}-{number}" for number in _NUMBERED[name]), "cc"]


def find_compiler(name: str) -> Compiler | NotAvailable:
    """The compiler of that name: `gcc` and `clang` are families, anything else is a command or a path."""
    found_other = ""
    for candidate in _candidates(name):
        path = shutil.which(candidate)
        if path is None or _only_a_stub(path):
            continue
        text = _say(path, "--version")
        family = family_of(text) if text else None
        if text is None or family is None or (name in _NUMBERED and family != name):
            found_other = f" ({path} is {family or 'neither gcc nor clang'})"
            continue
        return Compiler(name=name, family=family, path=str(Path(path).absolute()), version=text.splitlines()[0].strip())
    return NotAvailable(reason=f"no compiler {name!r} here{found_other}: {_how_to_get(name)}")


def installed_compilers() -> dict[str, Compiler]:
    """Those of `gcc` and `clang` that this machine has."""
    found = {name: find_compiler(name) for name in _NUMBERED}
    return {name: compiler for name, compiler in found.items() if isinstance(compiler, Compiler)}
