"""Whether a compiler of this machine can link as its flags ask: link-time optimisation needs a linker that knows it."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from livetrap.build.compilers import Compiler, environment
from livetrap.errors import HarnessError

_TRY_S = 30.0


def lacking_lto(compiler: Compiler, flags: tuple[str, ...]) -> str:
    """Why this compiler cannot link with the `-flto` among these flags; empty where it can, or none is there."""
    if not any(flag == "-flto" or flag.startswith("-flto=") for flag in flags):
        return ""
    if _links(compiler, flags):
        return ""
    help_ = "xcode-select --install" if sys.platform == "darwin" else "apt install lld, and add -fuse-ld=lld"
    return f"{compiler.name} cannot link with -flto here: {help_}"


@functools.cache
def _links(compiler: Compiler, flags: tuple[str, ...]) -> bool:
    shape = "-bundle" if sys.platform == "darwin" else "-shared"
    try:
        with tempfile.TemporaryDirectory(prefix="livetrap-") as folder:
            source = Path(folder) / "one.c"
            source.write_text("int one(void) { return 1; }\n", encoding="utf-8")
            done = subprocess.run(
                (compiler.path, *flags, "-fPIC", shape, str(source), "-o", str(source.with_suffix(".so"))),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRY_S,
                env=environment() | {"TMPDIR": folder},
                check=False,
            )
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        raise HarnessError(f"cannot try {compiler.path}: {error.strerror or error}", status=3) from None
    return done.returncode == 0
