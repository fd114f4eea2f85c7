"""Makes a module of a kernel: compiles what the cache does not have, links, and moves the whole to its place."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from livetrap.build.cache import Cache, failure, key
from livetrap.build.compilers import Compiler, environment
from livetrap.build.flags import check_flags
from livetrap.build.sources import WRAPPER, Unit, headers, object_key, python_identity, read_source, units
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec, Frozen
from livetrap.resources import csrc_dir

_JOBS = 2
_COMPILE_S = 120.0
_NO_ROOM = os.strerror(errno.ENOSPC)
_PREAMBLE = '#include "trial.h"\n#include "child.h"\n'


class Built(Frozen):
    """A module, ready to be loaded."""

    module: str
    """Its name; no two modules have the same."""
    path: Path
    command: tuple[str, ...]
    """How the kernel was compiled."""
    fresh: bool
    """It was made just now, not found in the cache."""


class Runner:
    """Runs compilers, at most two at a time, each in a process group of its own that can be ended as a whole."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._lock = threading.Lock()

    def run(self, command: tuple[str, ...]) -> tuple[str, str]:
        """What it prints to stdout and to stderr. HarnessError: it failed; the compiler's words are the detail."""
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(),
                process_group=0,
            )
        except OSError as error:
            raise HarnessError(f"cannot run the compiler {command[0]}: {error.strerror}", status=3) from None
        with self._lock:
            self._running.add(process.pid)
        try:
            out, err = process.communicate(timeout=_COMPILE_S)
        except subprocess.TimeoutExpired:
            _end_group(process.pid)
            process.communicate()
            raise HarnessError(f"the compiler took over {_COMPILE_S:.0f} s", detail=shlex.join(command)) from None
        except BaseException:
            _end_group(process.pid)
            raise
        finally:
            with self._lock:
                self._running.discard(process.pid)
        words = err.decode(errors="replace")
        if process.returncode != 0:
            raise _failed(command, process.returncode, words)
        return out.decode(errors="surrogateescape"), words

    def end_all(self) -> None:
        """Ends the compilers that still run."""
        with self._lock:
            for pid in self._running:
                _end_group(pid)


def _failed(command: tuple[str, ...], status: int, words: str) -> HarnessError:
    detail = f"{shlex.join(command)}\n{words}"
    if _NO_ROOM in words:
        return HarnessError(
            "no room is left on the disk: make room, or set LIVETRAP_CACHE to another folder", status=3, detail=detail
        )
    return HarnessError(f"{Path(command[0]).name} failed (status {status})", detail=detail)


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _about(error: HarnessError, unit: Unit, spec: BuildSpec, compiler: Compiler) -> HarnessError:
    """The same error in words of the kernel's file; what the machine lacks is not the file's fault."""
    if error.status == 3:
        return error
    where = unit.source or unit.name
    flags = " ".join(spec.flags)
    return HarnessError(
        f"{where} does not compile with {compiler.name} {flags} ({error}): mend what the compiler says below",
        status=error.status,
        detail=error.detail,
    )


def _content(unit: Unit, spec: BuildSpec, compiler: Compiler, runner: Runner) -> str:
    if unit.source is None:
        return unit.text
    if not unit.own:
        return read_source(unit.source)
    try:
        text, _ = runner.run((compiler.path, *unit.flags, "-E", "-P", str(unit.source)))
    except HarnessError as error:
        raise _about(error, unit, spec, compiler) from None
    return text


def _write_wrapper(unit: Unit, path: Path) -> None:
    import cffi  # noqa: PLC0415  it brings a C parser along: only when something has to be built

    ffi = cffi.FFI()
    ffi.cdef(unit.text)
    ffi.set_source(WRAPPER, _PREAMBLE, compiler_verbose=0)  # else it prints what it generates
    ffi.emit_c_code(str(path))


def _compile(unit: Unit, spec: BuildSpec, compiler: Compiler, runner: Runner, workshop: Path) -> Path:
    """Compiles one unit in the workshop."""
    source = unit.source
    if source is None:
        source = workshop / f"{unit.name}.c"
        try:
            if unit.name == "wrapper":
                _write_wrapper(unit, source)
            else:
                source.write_text(unit.text, encoding="utf-8")
        except OSError as error:
            raise failure("cannot write the cache folder", workshop, error) from None
    output = workshop / f"{unit.name}.o"
    try:
        runner.run(unit.command(compiler=compiler, source=source, output=output))
    except HarnessError as error:
        raise _about(error, unit, spec, compiler) from None
    return output


def _present(path: Path) -> bool:
    """A power cut can leave an empty file behind."""
    return path.is_file() and path.stat().st_size > 0


def _link_flags(spec: BuildSpec) -> tuple[str, ...]:
    shape = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
    return (*shape, "-pthread", *spec.flags)


def _make(todo: list[tuple[Unit, str]], *, spec: BuildSpec, compiler: Compiler, cache: Cache, runner: Runner) -> None:
    """Compiles what is missing, two at a time, and keeps each object as soon as it is there."""
    with cache.workshop() as workshop, ThreadPoolExecutor(max_workers=_JOBS) as pool:

        def one(unit: Unit, name: str) -> None:
            cache.keep_object(_compile(unit, spec, compiler, runner, workshop), name)

        futures = [pool.submit(one, unit, name) for unit, name in todo]
        try:
            for future in futures:
                future.result()
        except BaseException:  # an interruption too must leave no compiler behind
            for future in futures:
                future.cancel()
            runner.end_all()
            raise


def build(spec: BuildSpec, *, compiler: Compiler, cache: Path, csrc: Path | None = None) -> Built:
    """The module of the spec's kernel with all techniques, from the cache or made.

    `csrc`: other C sources than livetrap's own (for tests). A spec without a kernel gives a module of all kernels.
    HarnessError: bad flags, no such kernel, it does not compile, the cache cannot be used, no Python headers.
    """
    csrc = csrc or csrc_dir()
    check_flags(spec.flags)
    opened = Cache(cache)
    runner = Runner()
    headers_key = headers(csrc)
    parts = []
    for unit in units(spec, csrc):
        content = _content(unit, spec, compiler, runner)
        parts.append((unit, object_key(unit, content=content, compiler=compiler, headers_key=headers_key)))
    names = {unit.name: name for unit, name in parts}
    module_key = key({**names, "link": "\0".join(_link_flags(spec)), "python": python_identity()})
    kernel = next(unit for unit, _ in parts if unit.name.startswith("kernel_"))
    file = f"{WRAPPER}{sysconfig.get_config_var('EXT_SUFFIX')}"
    place = opened.module(module_key)
    fresh = not _present(place / file)
    if fresh:
        todo = [(unit, name) for unit, name in parts if not _present(opened.object(name))]
        if todo:
            _make(todo, spec=spec, compiler=compiler, cache=opened, runner=runner)
        if place.is_dir() and not _present(place / file):  # modules come whole: this one was damaged later
            opened.forget_module(module_key)
        objects = [str(opened.object(name)) for name in names.values()]
        _link(objects, spec=spec, compiler=compiler, cache=opened, runner=runner, module_key=module_key, file=file)
    return Built(
        module=f"livetrap_{module_key}.{WRAPPER}",
        path=place / file,
        command=kernel.command(compiler=compiler, source=kernel.source or Path(), output=Path(f"{kernel.name}.o")),
        fresh=fresh,
    )


def _link(
    objects: list[str], *, spec: BuildSpec, compiler: Compiler, cache: Cache, runner: Runner, module_key: str, file: str
) -> None:
    with cache.workshop() as workshop:
        made = workshop / "module"
        made.mkdir(mode=0o700)
        try:
            runner.run((compiler.path, *_link_flags(spec), *objects, "-o", str(made / file)))
        except HarnessError as error:
            if error.status == 3:
                raise
            raise HarnessError(
                f"kernel {spec.kernel!r} does not link with {compiler.name} {' '.join(spec.flags)} ({error}): "
                "mend what the linker says below",
                status=error.status,
                detail=error.detail,
            ) from None
        cache.keep_module(made, module_key)
