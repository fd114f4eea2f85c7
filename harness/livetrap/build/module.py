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
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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
_Part = tuple[Unit, str]
"""What is compiled, and the key of what comes of it."""
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
    source: str = ""
    """The kernel's file, for messages."""


class Runner:
    """Runs compilers, at most two at a time, each in a process group of its own that can be ended as a whole.

    Their temporary files go to `folder`: a compiler that is killed leaves them behind.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: set[int] = set()
        self._ended = False
        self._lock = threading.Lock()

    def run(self, command: tuple[str, ...]) -> tuple[str, str]:
        """What it prints to stdout and to stderr. HarnessError: it failed; the compiler's words are the detail."""
        process = self._start(command)
        try:
            out, err = process.communicate(timeout=_COMPILE_S)
        except subprocess.TimeoutExpired:
            _end_group(process.pid)
            process.communicate()
            raise HarnessError(f"the compiler took over {_COMPILE_S:.0f} s", detail=shlex.join(command)) from None
        except BaseException:
            _end_group(process.pid)
            process.communicate()  # until the last of them has gone, so that it writes nothing any more
            raise
        finally:
            with self._lock:
                self._running.discard(process.pid)
        words = err.decode(errors="replace")
        if process.returncode != 0:
            raise _failed(command, process.returncode, words)
        return out.decode(errors="surrogateescape"), words

    def _start(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                raise HarnessError("the build was ended", status=3)
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment() | {"TMPDIR": str(self._folder)},
                    process_group=0,
                )
            except OSError as error:
                raise HarnessError(f"cannot run the compiler {command[0]}: {error.strerror}", status=3) from None
            self._running.add(process.pid)
            return process

    def end_all(self) -> None:
        """Ends the compilers that still run, and starts no other."""
        with self._lock:
            self._ended = True
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


def _content(unit: Unit, spec: BuildSpec, compiler: Compiler, cache: Cache) -> str:
    if unit.source is None:
        return unit.text
    if not unit.own:
        return read_source(unit.source)
    with cache.workshop() as workshop:
        try:
            text, _ = Runner(workshop).run((compiler.path, *unit.flags, "-E", "-P", str(unit.source)))
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


def _make(todo: list[_Part], *, spec: BuildSpec, compiler: Compiler, cache: Cache) -> None:
    """Compiles what is missing, two at a time, and keeps each object as soon as it is there."""
    with cache.workshop() as workshop, ThreadPoolExecutor(max_workers=_JOBS) as pool:
        runner = Runner(workshop)

        def one(unit: Unit, name: str) -> None:
            cache.keep_object(_compile(unit, spec, compiler, runner, workshop), name)

        futures: list[Future[None]] = []
        try:
            for unit, name in todo:
                futures.append(pool.submit(one, unit, name))
            for future in futures:
                future.result()
        except BaseException:  # an interruption too must leave no compiler behind
            for future in futures:
                future.cancel()
            runner.end_all()
            raise


class _Recipe(Frozen):
    """A module that may be in the cache or not: its parts and its place."""

    spec: BuildSpec
    compiler: Compiler
    parts: tuple[_Part, ...]
    key: str
    file: str

    def built(self, cache: Cache, *, fresh: bool) -> Built:
        """What to load."""
        kernel = next(unit for unit, _ in self.parts if unit.name.startswith("kernel_"))
        source = kernel.source or Path()
        return Built(
            module=f"livetrap_{self.key}.{WRAPPER}",
            path=cache.module(self.key) / self.file,
            command=kernel.command(compiler=self.compiler, source=source, output=Path(f"{kernel.name}.o")),
            fresh=fresh,
            source=str(source) if self.spec.kernel else "",
        )


def _recipe(spec: BuildSpec, *, compiler: Compiler, cache: Cache, csrc: Path) -> _Recipe:
    """Raises as `build`, but for what has to be compiled."""
    check_flags(spec.flags)
    headers_key = headers(csrc)
    parts = []
    for unit in units(spec, csrc):
        content = _content(unit, spec, compiler, cache)
        parts.append((unit, object_key(unit, content=content, compiler=compiler, headers_key=headers_key)))
    names = {unit.name: name for unit, name in parts}
    return _Recipe(
        spec=spec,
        compiler=compiler,
        parts=tuple(parts),
        key=key({**names, "link": "\0".join(_link_flags(spec)), "python": python_identity()}),
        file=f"{WRAPPER}{sysconfig.get_config_var('EXT_SUFFIX')}",
    )


def find(spec: BuildSpec, *, compiler: Compiler, cache: Path, csrc: Path | None = None) -> Built | None:
    """The module of `build` where it is in the cache, whole. Raises as `build`."""
    opened = Cache(cache)
    recipe = _recipe(spec, compiler=compiler, cache=opened, csrc=csrc or csrc_dir())
    return recipe.built(opened, fresh=False) if opened.whole(recipe.key, recipe.file) else None


def build(
    spec: BuildSpec,
    *,
    compiler: Compiler,
    cache: Path,
    csrc: Path | None = None,
    starting: Callable[[], None] = lambda: None,
) -> Built:
    """The module of the spec's kernel with all techniques, from the cache or made.

    `csrc`: other C sources than livetrap's own (for tests). `starting` is called before anything is made. A spec
    without a kernel gives a module of all kernels.
    HarnessError: bad flags, no such kernel, it does not compile, the cache cannot be used, no Python headers.
    """
    opened = Cache(cache)
    recipe = _recipe(spec, compiler=compiler, cache=opened, csrc=csrc or csrc_dir())
    fresh = not opened.whole(recipe.key, recipe.file)
    if fresh:
        starting()
        _make_module(recipe, cache=opened)
    return recipe.built(opened, fresh=fresh)


def _make_module(recipe: _Recipe, *, cache: Cache) -> None:
    spec, compiler = recipe.spec, recipe.compiler
    todo = [(unit, name) for unit, name in recipe.parts if not _present(cache.object(name))]
    if todo:
        _make(todo, spec=spec, compiler=compiler, cache=cache)
    if cache.module(recipe.key).is_dir():  # modules come whole: this one was damaged later
        cache.forget_module(recipe.key)
    try:
        _link(recipe, cache=cache)
    except HarnessError as error:
        kept = [part for part in recipe.parts if part not in todo]
        if error.status == 3 or not kept:
            raise
        # An object from the cache may be damaged: only once all are new is it the kernel's fault.
        _make(kept, spec=spec, compiler=compiler, cache=cache)
        _link(recipe, cache=cache)


def _link(recipe: _Recipe, *, cache: Cache) -> None:
    spec, compiler = recipe.spec, recipe.compiler
    objects = [str(cache.object(name)) for _, name in recipe.parts]
    with cache.workshop() as workshop:
        made = workshop / "module"
        made.mkdir(mode=0o700)
        try:
            Runner(workshop).run((compiler.path, *_link_flags(spec), *objects, "-o", str(made / recipe.file)))
        except HarnessError as error:
            if error.status == 3:
                raise
            raise HarnessError(
                f"kernel {spec.kernel!r} does not link with {compiler.name} {' '.join(spec.flags)} ({error}): "
                "mend what the linker says below",
                status=error.status,
                detail=error.detail,
            ) from None
        cache.keep_module(made, recipe.key, recipe.file)
