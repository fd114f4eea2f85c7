"""What goes into a module: the files, how each is compiled, and a name for what each compiles to."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import _cffi_backend

from livetrap.build.cache import key
from livetrap.build.compilers import Compiler, environment
from livetrap.errors import HarnessError, nearest
from livetrap.model import BuildSpec, Frozen
from livetrap.resources import kernel_names, technique_names

WRAPPER = "_livetrap"
"""The name of cffi's part of a module; the module's own name has the key before it, so that no two are the same."""

_RUNTIME_FLAGS = ("-O2",)
_COMMON = ("-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-pthread", "-fvisibility=hidden", "-g", "-Wall", "-Wextra")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHER_PLATFORM = "platform_macos" if sys.platform != "darwin" else "platform_linux"


class Unit(Frozen):
    """One file to compile."""

    name: str
    source: Path | None
    """None: the file is generated, `text` has it."""
    text: str
    """Of a generated file; for cffi's wrapper, the declarations that it is made from."""
    flags: tuple[str, ...]
    """All flags but those for input and output."""
    own: bool = False
    """The user's own file: it may include others, so that its content is what the preprocessor makes of it."""

    def command(self, *, compiler: Compiler, source: Path, output: Path) -> tuple[str, ...]:
        """The command that compiles it."""
        return (compiler.path, *self.flags, "-c", str(source), "-o", str(output))


def python_includes() -> tuple[Path, ...]:
    """Folders of Python's own headers. HarnessError: they are not installed."""
    folders = tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("include", "platinclude")))
    if not any((folder / "Python.h").is_file() for folder in folders):
        how = "xcode-select --install" if sys.platform == "darwin" else "apt install python3-dev"
        raise HarnessError(f"Python.h is not in {folders[0]}, and a module cannot be built without it: {how}", status=3)
    return folders


def python_identity() -> str:
    """The interpreter and cffi that a module is made for."""
    parts = (sysconfig.get_config_var("SOABI"), sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_platform())
    return " ".join([*map(str, parts), sys.version, f"cffi {_cffi_backend.__version__}"])


def declarations(csrc: Path) -> str:
    """What cffi is told: the plain declarations of the runtime's two headers for the harness."""
    lines: list[str] = []
    for header in ("trial.h", "child.h"):
        text = (csrc / "runtime" / header).read_text(encoding="utf-8")
        lines += [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines)


def registry(kernels: Iterable[str], techniques: Iterable[str]) -> str:
    """registry.c: which kernels and techniques a module has."""
    lines = ["/* Written by livetrap's build. */", '#include "registry.h"']
    for kind, names in (("kernel", tuple(kernels)), ("technique", tuple(techniques))):
        lines += [f"extern const struct lt_{kind} lt_{kind}_{name};" for name in names]
        listed = ", ".join(f"&lt_{kind}_{name}" for name in names) or "NULL"
        lines.append(f"const struct lt_{kind} *const lt_{kind}s[] = {{{listed}}};")
        lines.append(f"const size_t lt_{kind}s_total = {len(names)};")
    return "\n".join(lines) + "\n"


def kernel_files(spec: BuildSpec, csrc: Path) -> tuple[Path, ...]:
    """The kernel's file; with neither kernel nor file named, all that are shipped.

    HarnessError: no such kernel or file, or a file whose name is not the kernel's.
    """
    if spec.kernel_file:
        path = Path(spec.kernel_file).absolute()
        if not path.is_file():
            raise HarnessError(f"kernel {spec.kernel!r}: there is no file {path}")
        if path.suffix != ".c" or not _IDENTIFIER.fullmatch(path.stem) or spec.kernel != path.stem:
            raise HarnessError(
                f"kernel {spec.kernel!r}: {path} must be called NAME.c, NAME being the kernel's name and a C identifier"
            )
        return (path,)
    names = kernel_names(csrc)
    if not spec.kernel:
        return tuple(csrc / "kernels" / f"{name}.c" for name in names)
    if spec.kernel not in names:
        raise HarnessError(f"there is no kernel {spec.kernel!r}: {nearest(spec.kernel, names)}")
    return (csrc / "kernels" / f"{spec.kernel}.c",)


def kernel_parts(kernel: Path) -> tuple[Path, ...]:
    """The files that go with a kernel's own: NAME.PART.c beside NAME.c, linked into the same module."""
    found = (path for path in kernel.parent.glob("*.*.c") if path.name.startswith(f"{kernel.stem}."))
    return tuple(sorted(path for path in found if path.is_file()))


def may_use_technique(kernel: Path, csrc: Path) -> bool:
    """Only lt_team_wait() leads to a technique: False where no file of a shipped kernel names that, headers included.

    What a user's own file includes is not known here: True.
    """
    if not kernel.is_relative_to(csrc):
        return True
    return any(
        "lt_team_wait" in read_source(path) for path in (kernel, *kernel_parts(kernel), *kernel.parent.glob("*.h"))
    )


def units(spec: BuildSpec, csrc: Path) -> tuple[Unit, ...]:
    """All files of a module. The flags of the axis apply to kernels and techniques, -O2 to all else.

    For kernels that use no technique, those are compiled at -O2 always: the module is whole, and a first build is fast.
    """
    include = ("-I", str(csrc / "include"))
    inner = (*_COMMON, *_RUNTIME_FLAGS, *include, "-I", str(csrc / "runtime"))
    varied = (*_COMMON, *spec.flags, *include)
    kernels = kernel_files(spec, csrc)
    techniques = technique_names(csrc)
    waits = varied if any(may_use_technique(path, csrc) for path in kernels) else (*_COMMON, *_RUNTIME_FLAGS, *include)
    runtime = sorted(path for path in (csrc / "runtime").glob("*.c") if path.stem != _OTHER_PLATFORM)
    python = tuple(part for folder in python_includes() for part in ("-I", str(folder)))
    listed = registry((path.stem for path in kernels), techniques)
    return (
        # The wrapper takes longest to compile: first, so that the others fill the time beside it.
        Unit(name="wrapper", source=None, text=declarations(csrc), flags=(*inner, *python)),
        *(
            Unit(name=f"kernel_{path.stem}", source=path, text="", flags=varied, own=bool(spec.kernel_file))
            for kernel in kernels
            for path in (kernel, *kernel_parts(kernel))
        ),
        *(
            Unit(name=f"technique_{name}", source=csrc / "techniques" / f"{name}.c", text="", flags=waits)
            for name in techniques
        ),
        *(Unit(name=path.stem, source=path, text="", flags=inner) for path in runtime),
        Unit(name="registry", source=None, text=listed, flags=inner),
    )


def headers(csrc: Path) -> str:
    """A name for the content of all our headers: few and small, so that every object depends on all of them."""
    texts = {str(path.relative_to(csrc)): read_source(path) for path in csrc.rglob("*.h")}
    return key(texts)


def read_source(path: Path) -> str:
    """A file as text that `key` takes, whatever bytes are in it."""
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def object_key(unit: Unit, *, content: str, compiler: Compiler, headers_key: str) -> str:
    """A name for what the unit compiles to; `content` is its text, for a user's own file preprocessed."""
    return key(
        {
            "name": unit.name,
            "content": content,
            "headers": headers_key,
            "compiler": f"{compiler.path} {compiler.version}",
            "environment": repr(sorted(environment().items())),
            "flags": "\0".join(unit.flags),
            "python": python_identity() if unit.name == "wrapper" else "",
        }
    )
