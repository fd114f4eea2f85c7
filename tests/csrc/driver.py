"""Compiles csrc as the build does, and the small driver `run.c` with it, for tests of the C side alone."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
DRIVER = Path(__file__).with_name("run.c")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
COMMON = ("-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-pthread", "-fvisibility=hidden", f"-I{CSRC / 'include'}")
KERNELS = sorted(file for file in (CSRC / "kernels").glob("*.c") if "." not in file.stem)
PARTS = sorted((CSRC / "kernels").glob("*.*.c"))
"""Files that go with a kernel's own."""
TECHNIQUES = sorted((CSRC / "techniques").glob("*.c"))
RUNTIME = sorted((CSRC / "runtime").glob("*.c"))


@functools.cache
def compilers() -> tuple[str, ...]:
    """gcc and clang, as far as they are installed; on macOS `gcc` is another name of clang."""
    names = ("clang",) if sys.platform == "darwin" else ("gcc", "clang")
    return tuple(name for name in names if shutil.which(name))


def registry() -> str:
    """What the build writes as registry.c."""
    lines = ['#include "registry.h"']
    for kind, files in (("kernel", KERNELS), ("technique", TECHNIQUES)):
        lines += [f"extern const struct lt_{kind} lt_{kind}_{file.stem};" for file in files]
        entries = ", ".join(f"&lt_{kind}_{file.stem}" for file in files)
        lines.append(f"const struct lt_{kind} *const lt_{kind}s[] = {{{entries}}};")
        lines.append(f"const size_t lt_{kind}s_total = {len(files)};")
    return "\n".join(lines) + "\n"


def compile_c(command: list[str], *, folder: Path | None = None, timeout_s: float = 120) -> None:
    """Runs a compiler in `folder`; its words are the failure's."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def build(folder: Path, *, compiler: str, level: str) -> Path:
    """The driver with the runtime and all kernels and techniques, all at that level of optimisation; no warnings."""
    table = folder / "registry.c"
    table.write_text(registry())
    files = [str(file) for file in (*RUNTIME, *KERNELS, *PARTS, *TECHNIQUES, table, DRIVER)]
    runtime = f"-I{CSRC / 'runtime'}"
    compile_c([compiler, *COMMON, runtime, *WARNINGS, level, "-c", *files], folder=folder)
    objects = [str(file) for file in folder.glob("*.o")]
    compile_c([compiler, "-pthread", *objects, "-o", str(folder / "run")])
    return folder / "run"


def run(
    driver: Path, *words: object, page: str = "", timeout_s: float = 20, pass_fds: tuple[int, ...] = ()
) -> tuple[int, str]:
    """One trial of the driver: its exit status and message. A trial that outlives `timeout_s` raises TimeoutExpired."""
    done = subprocess.run(
        [driver, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        pass_fds=pass_fds,
        env={**os.environ, "LIVETRAP_PAGE": page},
    )
    return done.returncode, done.stdout.partition(" ")[2].strip()
