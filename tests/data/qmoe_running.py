"""Builds kernel qmoe, makes its data, and runs it in a child process with a hard limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from livetrap import build
from livetrap.data import qmoe
from livetrap.model import BuildSpec

ROOT = Path(__file__).resolve().parents[2]


def built(cache: Path, *, compiler: str = "gcc", flags: tuple[str, ...] = ("-O2",)) -> build.Built:
    """The kernel's module."""
    found = build.find_compiler(compiler)
    assert isinstance(found, build.Compiler)
    return build.build(BuildSpec(compiler=compiler, flags=flags, kernel="qmoe"), compiler=found, cache=cache)


def job(cache: Path, shape: qmoe.Shape, *, technique: str = "acquire_yield", threads: int = 1) -> dict[str, Any]:
    """One trial of a shape; its data is made where it is not there yet."""
    fields = {name: getattr(shape, name) for name in shape.__struct_fields__}
    return {
        "data": str(qmoe.provide(fields, cache=cache)),
        "arguments": dict(zip(fields, shape.numbers, strict=True)),
        "shape": fields,
        "technique": technique,
        "threads": threads,
    }


def run(module: build.Built, jobs: Iterable[dict[str, Any]], *, limit_s: float = 60.0) -> list[dict[str, Any]]:
    """All jobs in one child process, numpy with one thread; TimeoutExpired, and nothing left, when it takes longer."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.data.qmoe_child", module.module, str(module.path)],
        input=json.dumps(list(jobs)),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=ROOT,
        env={**os.environ, **single},
    )
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results
