"""Python environments for commands: one for each list of packages, made on first use, kept in the cache.

Each is a venv in a folder named by what is in it. It is made in place, under a lock, since scripts inside know their
own path; a stamp says that it is whole. With `uv` on the PATH it is uv that makes it, else venv and pip.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import livetrap
from livetrap.build import cache as build_cache
from livetrap.model import Frozen, NotAvailable
from livetrap.plaintext import plain

MAKE_S = 120.0
"""Time limit of making an empty environment, in seconds."""
INSTALL_S = 240.0
"""Time limit of fetching and installing packages, in seconds."""
READY = "livetrap-ready"
"""The stamp: a file in the environment, written last."""
BEATS = ("__init__.py", "beats.py")
"""The files of this package that a program needs to count its beats: they use nothing but the standard library."""
MOST_REASON = 300
STEP_ASIDE = b'''

def _step_aside() -> None:
    """This copy has beats alone: where the program has a livetrap of its own, it is that which it means."""
    import importlib.machinery
    import os
    import sys

    here = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))
    others = [entry for entry in sys.path if os.path.realpath(entry) != here]
    found = importlib.machinery.PathFinder.find_spec(__name__, others)
    if found is not None and found.has_location:
        sys.path[:] = others
        del sys.modules[__name__]
        __import__(__name__)


_step_aside()
'''
"""What the copy of `__init__.py` ends with."""

Note = Callable[[str], None]


class Ran(Frozen, kw_only=True):
    """How a program that was run here ended."""

    status: int | None
    """Its exit status, -N for signal N; None: it did not end in time, and was killed."""
    output: str
    """What it wrote, standard error included."""


def interpreter(packages: Sequence[str], *, cache: Path, note: Note) -> Path | NotAvailable:
    """The interpreter of an environment with these packages, made where it is not there; or why there is none.

    An environment that was made before needs no network. `note` is told when one has to be made. Raises HarnessError
    for a cache that cannot be used.
    """
    folder = _folder(cache, "environments") / _key(packages)
    python = folder / "bin" / "python"
    try:
        with _locked(
            folder.with_suffix(".lock"), waiting=lambda: note("waiting for an environment that is being made")
        ):
            if not ((folder / READY).is_file() and python.exists()):
                note(f"making an environment with {' '.join(packages)}")
                failed = _make(folder, packages)
                if failed:
                    shutil.rmtree(folder, ignore_errors=True)
                    return NotAvailable(reason=failed)
                (folder / READY).touch()
    except OSError as error:
        raise build_cache.failure("cannot make an environment in", folder, error) from None
    return python


def beats_folder(cache: Path) -> Path:
    """A folder for PYTHONPATH whose `livetrap` counts beats, and is nothing else: no dependency, any Python.

    Raises HarnessError for a cache that cannot be written.
    """
    source = Path(livetrap.__file__).parent
    files = {name: (source / name).read_bytes() for name in BEATS if (source / name).is_file()}
    files["__init__.py"] += STEP_ASIDE
    digest = build_cache.key({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    place = _folder(cache, "beats") / digest
    if place.is_dir():
        return place
    with build_cache.Cache(cache).workshop() as workshop:
        made = workshop / "made"
        try:
            (made / "livetrap").mkdir(parents=True)
            for name, content in files.items():
                (made / "livetrap" / name).write_bytes(content)
        except OSError as error:
            raise build_cache.failure("cannot write the cache folder", cache, error) from None
        return keep(made, place)


def keep(made: Path, place: Path) -> Path:
    """Moves a folder to its place; where another process was first, that one's is as good. HarnessError: it fails."""
    try:
        made.rename(place)
    except OSError as error:
        if not place.is_dir():
            raise build_cache.failure("cannot write the cache folder", place.parent, error) from None
    return place


def run(
    command: Sequence[str], *, limit_s: float, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Ran:
    """Runs a program without input to its end, or to the time limit in seconds; nothing of its session is left."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=_clean() | dict(environment or {}),
        start_new_session=True,
    )
    try:
        written, _ = process.communicate(timeout=limit_s)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        written, status = b"", None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
    return Ran(status=status, output=plain(written.decode(errors="replace")))


def told(ran: Ran, *, what: str, limit_s: float) -> str:
    """Why a program failed, in one line."""
    if ran.status is None:
        return f"{what}: not done within {limit_s:g} s"
    lines = [line.strip() for line in ran.output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|fatal)\b|\w*Error: ", line)]
    word = (errors or lines or [f"ended with {ran.status}"])[-1]
    word = re.sub(r"^(\W+|ERROR: |error: )", "", word)
    return f"{what}: {word[:MOST_REASON]}"


def _make(folder: Path, packages: Sequence[str]) -> str:
    """Makes an environment; why it cannot be made, in one line, or nothing."""
    shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
    make, install = _commands(folder, shutil.which("uv"))
    made = run(make, limit_s=MAKE_S)
    if made.status != 0:
        return told(made, what="cannot make a Python environment", limit_s=MAKE_S)
    installed = run([*install, "--only-binary", ":all:", *packages], limit_s=INSTALL_S)
    if installed.status != 0:
        return told(installed, what=f"cannot install {' '.join(packages)}", limit_s=INSTALL_S)
    return ""


def _commands(folder: Path, uv: str | None) -> tuple[list[str], list[str]]:
    """How to make an empty environment, and how to install into it."""
    python = str(folder / "bin" / "python")
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        return make, [uv, "pip", "install", "--quiet", "--python", python]
    make = [sys.executable, "-m", "venv", str(folder)]
    pip = [python, "-m", "pip"]
    if importlib.util.find_spec("pip"):  # ours installs into it from outside: it needs none, which saves some seconds
        make.insert(3, "--without-pip")
        pip = [sys.executable, "-m", "pip", "--python", python]
    options = ["--disable-pip-version-check", "--no-input", "--timeout", "10", "--retries", "2"]
    return make, [*pip, *options, "install", "--quiet"]


def _key(packages: Sequence[str]) -> str:
    """A name for an environment: what is in it, and for which interpreter it is."""
    return build_cache.key(
        {
            "packages": "\n".join(sorted(packages)),
            "python": sys.version,
            "base": sys.base_prefix,
            "machine": f"{platform.system()} {platform.machine()}",
        }
    )


def _folder(cache: Path, part: str) -> Path:
    """A part of the cache; checked and made as the rest of it. HarnessError: it cannot be used."""
    folder = build_cache.Cache(cache).path / part
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise build_cache.failure("cannot use the cache folder", folder, error) from None
    return folder


@contextlib.contextmanager
def _locked(file: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Waits until no other process makes the same thing. The lock ends with the process, however it ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _clean() -> dict[str, str]:
    """The environment of this process without what would lead another interpreter to this one's packages."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
