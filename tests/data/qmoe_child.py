"""Runs kernel qmoe in this process, without the harness: for tests of its numbers and its speed.

    python -m tests.data.qmoe_child MODULE PATH < jobs.json > results.json

A job has `arguments`, `threads`, `technique`, `data`; its result `status` (as lt_trial_run tells it) and `message`.
With `time` in a job, a number of steps, both the kernel and numpy are timed, in seconds a step, the fastest of several.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from livetrap.targets.loading import load_module

FASTEST_OF = 9


def run(module: Any, job: dict[str, Any], **changed: int) -> tuple[int, str]:
    """One trial in this process."""
    ffi, lib = module.ffi, module.lib
    os.environ["LIVETRAP_DATA"] = job["data"]
    arguments = {**job["arguments"], **changed}
    names = [ffi.new("char[]", name.encode()) for name in arguments]
    given = ffi.new("struct lt_argument[]", list(zip(names, arguments.values(), strict=True)))
    words = [ffi.new("char[]", word.encode()) for word in ("qmoe", job["technique"], "none")]
    trial = ffi.new("struct lt_trial *", (*words, job["threads"], 1, given, len(arguments), ffi.NULL, 0, ffi.NULL))
    status = lib.lt_trial_run(trial)
    return status, ffi.string(lib.lt_trial_message()).decode()


def kernel_s(module: Any, job: dict[str, Any], steps: int) -> float:
    """Seconds a step: what more steps take, so that set-up does not count."""

    def took(count: int) -> float:
        began = time.perf_counter()
        status, message = run(module, job, steps=count)
        assert status == 0, message
        return time.perf_counter() - began

    base = min(took(1) for _ in range(FASTEST_OF))
    return (min(took(1 + steps) for _ in range(FASTEST_OF)) - base) / steps


def numpy_s(job: dict[str, Any], steps: int) -> float:
    """Seconds a step of the reference, with weights that are dequantised beforehand."""
    import numpy as np  # noqa: PLC0415

    from livetrap.data import qmoe, qmoe_reference  # noqa: PLC0415

    shape = qmoe.Shape(**job["shape"])
    rng = np.random.default_rng(1)
    x, logits = qmoe_reference.inputs(shape, rng)
    first = rng.standard_normal((shape.experts, 2 * shape.inter, shape.hidden), dtype=np.float32)
    second = rng.standard_normal((shape.experts, shape.hidden, shape.inter), dtype=np.float32)

    def took() -> float:
        began = time.perf_counter()
        for _ in range(steps):
            qmoe_reference.step(x, logits, first, second, top_k=shape.top_k)
        return (time.perf_counter() - began) / steps

    return min(took() for _ in range(FASTEST_OF))


def main() -> None:
    """Does all jobs of stdin."""
    module = load_module(sys.argv[1], sys.argv[2])
    results: list[dict[str, Any]] = []
    for job in json.load(sys.stdin):
        if "time" in job:
            results.append({"kernel_s": kernel_s(module, job, job["time"]), "numpy_s": numpy_s(job, job["time"])})
        else:
            status, message = run(module, job)
            results.append({"status": status, "message": message})
    json.dump(results, sys.stdout)


main()
