"""Kernel qmoe itself, in a child process: its numbers against the reference, its speed, and files that do not fit."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from livetrap import build
from livetrap.data import qmoe
from livetrap.data.qmoe_file import HEADER
from tests.csrc.driver import COMMON, CSRC, WARNINGS, compile_c, compilers
from tests.data.qmoe_running import built, job, run

pytestmark = pytest.mark.slow

BUILDS = [(compiler, "-O2") for compiler in compilers()] + [
    (compilers()[0], "-O0"),
    (compilers()[0], "-O2 -DQMOE_SOFTWARE_HALF -DQMOE_BASELINE"),
]
SHAPES = [
    qmoe.Shape(),
    qmoe.Shape(tokens=1, hidden=16, inter=16, experts=1, top_k=1, block=16),
    qmoe.Shape(tokens=7, hidden=32, inter=128, experts=3, top_k=3, bits=8, block=16),
    qmoe.Shape(tokens=130, hidden=64, inter=64, experts=2, top_k=1, block=64),
    qmoe.Shape(tokens=50, hidden=192, inter=64, experts=32, bits=8, block=32),
    qmoe.Shape(tokens=16, hidden=160, inter=96, experts=40, top_k=9, block=32),
]
Pool = tuple[build.Built, Path]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("qmoe") / "cache"


@pytest.fixture(scope="module")
def module(cache: Path) -> build.Built:
    return built(cache, compiler=compilers()[0])


@pytest.mark.parametrize(("compiler", "flags"), BUILDS)
def test_numbers_are_the_reference_s(cache: Path, compiler: str, flags: str) -> None:
    """Every shape, some with every kind of input, in both types, on one thread and on three."""
    shapes = [
        msgspec.structs.replace(shape, dtype=dtype, inputs=inputs)
        for shape in SHAPES
        for dtype in qmoe.DTYPES
        for inputs in (qmoe.INPUTS if shape.tokens < 20 else ("normal",))
    ]
    module = built(cache, compiler=compiler, flags=tuple(flags.split()))
    results = run(module, [job(cache, shape, threads=threads) for shape in shapes for threads in (1, 3)])
    assert [result for result in results if result["status"] != 0] == []


def test_how_fp16_is_done_is_told(cache: Path, module: build.Built) -> None:
    software = built(cache, compiler=compilers()[0], flags=("-O2", "-DQMOE_SOFTWARE_HALF"))
    assert build.manifest(software).kernels["qmoe"].summary.endswith("fp16 by software conversion")
    assert build.manifest(module).kernels["qmoe"].summary.endswith(("fp16 by _Float16", "fp16 by software conversion"))


@pytest.mark.parametrize("dtype", qmoe.DTYPES)
@pytest.mark.parametrize("technique", ["acquire_backoff", "condition_variable", "os_barrier", "futex_wait"])
def test_every_step_is_checked(cache: Path, module: build.Built, dtype: str, technique: str) -> None:
    one = job(cache, qmoe.Shape(dtype=dtype), technique=technique, threads=4)
    one["arguments"]["steps"] = 50
    assert run(module, [one]) == [{"status": 0, "message": ""}]


def changed(good: dict[str, Any], path: Path, change: Callable[[bytearray], object]) -> dict[str, Any]:
    """The job with another file."""
    content = bytearray(Path(good["data"]).read_bytes())
    change(content)
    path.write_bytes(content)
    return {**good, "data": str(path)}


@pytest.mark.parametrize("value", [0.25, float("nan"), float("inf")])
def test_a_wrong_expectation_is_found(cache: Path, module: build.Built, tmp_path: Path, value: float) -> None:
    shape = qmoe.Shape()
    good = job(cache, shape, threads=2)
    place = HEADER.unpack_from(Path(good["data"]).read_bytes())[18] + 4 * (3 * shape.hidden + 5)

    def change(content: bytearray) -> None:
        (old,) = struct.unpack_from("<f", content, place)
        struct.pack_into("<f", content, place, old + value)

    (result,) = run(module, [changed(good, tmp_path / "data", change)])
    assert result["status"] == 1
    assert result["message"].startswith("step 1: element 5 of token 3 is ")


def set_at(offset: int, value: int) -> Callable[[bytearray], object]:
    return lambda content: struct.pack_into("<Q", content, offset, value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.clear(), "cannot be read or is empty"),
        (lambda content: content.__delitem__(slice(100, None)), "is none that provider qmoe"),
        (lambda content: content.__delitem__(slice(-64, None)), "is none that provider qmoe"),
        (set_at(0, 7), "is none that provider qmoe"),
        (lambda content: struct.pack_into("<I", content, 8, 9), "is none that provider qmoe"),
        (lambda content: struct.pack_into("<I", content, 20, 32), "is for hidden 32, not 64"),
        (set_at(56, 3), "array 0 of the file of LIVETRAP_DATA does not lie inside it"),
        (set_at(56 + 6 * 8, 1 << 62), "array 6 of the file of LIVETRAP_DATA does not lie inside it"),
    ],
)
def test_a_file_that_does_not_fit(
    cache: Path, module: build.Built, tmp_path: Path, change: Callable[[bytearray], object], words: str
) -> None:
    (result,) = run(module, [changed(job(cache, qmoe.Shape()), tmp_path / "data", change)])
    assert result["status"] == 4
    assert words in result["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, 'no LIVETRAP_DATA: its scenario must say data = "qmoe" under [target]'),
        ({"hidden": 100}, "hidden 100 and inter 64: must be multiples of the block, 32"),
        ({"block": 48}, "block 48: must be a power of two, 16 or more"),
        ({"bits": 6}, "bits 6: must be 4 or 8"),
        ({"top_k": 9}, "top_k 9: must be at most the number of experts, 8"),
    ],
)
def test_the_kernel_alone_refuses_bad_shapes(
    cache: Path, module: build.Built, arguments: dict[str, int], words: str
) -> None:
    one = job(cache, qmoe.Shape())
    one["arguments"] |= arguments
    (result,) = run(module, [{**one, "data": ""}])
    assert result["status"] == 4
    assert words in result["message"]


def test_within_three_times_numpy(cache: Path, module: build.Built) -> None:
    """In fp32, one thread each, numpy with weights dequantised beforehand; the fastest of several."""
    shapes = [
        qmoe.Shape(),
        qmoe.Shape(tokens=256, experts=32),
        qmoe.Shape(tokens=128, hidden=256, inter=256, experts=16),
    ]
    jobs = [{**job(cache, shape), "time": steps} for shape, steps in zip(shapes, (20, 2, 1), strict=True)]
    for result in run(module, jobs):
        assert result["kernel_s"] <= 3 * result["numpy_s"], result


def test_the_software_conversion_is_numpy_s(tmp_path: Path) -> None:
    """Every half to float; floats around every half, and random ones, to half."""
    source, library = tmp_path / "half.c", tmp_path / "half.so"
    source.write_text(
        '#include "qmoe_half.h"\n'
        "void to_float(const uint16_t *from, float *to, int n) { while (n-- > 0) to[n] = qmoe_from_half(from[n]); }\n"
        "void to_half(const float *from, uint16_t *to, int n) { while (n-- > 0) to[n] = qmoe_to_half(from[n]); }\n"
    )
    flags = [flag for flag in COMMON if "visibility" not in flag]
    flags += ["-shared", "-O2", "-DQMOE_SOFTWARE_HALF", f"-I{CSRC / 'kernels'}", *WARNINGS]
    compile_c([compilers()[0], *flags, str(source), "-o", str(library)])
    convert = ctypes.CDLL(str(library))
    halves = np.arange(1 << 16, dtype=np.uint16)
    wide = np.empty(1 << 16, dtype=np.float32)
    convert.to_float(halves.ctypes.data_as(ctypes.c_void_p), wide.ctypes.data_as(ctypes.c_void_p), len(halves))
    assert np.array_equal(wide, halves.view(np.float16).astype(np.float32), equal_nan=True)
    words = np.random.default_rng(1).integers(1 << 32, size=1 << 20, dtype=np.uint64).astype(np.uint32)
    finite = wide[np.isfinite(wide)]
    near = np.concatenate([np.nextafter(finite, np.float32(np.inf)), finite, np.nextafter(finite, -np.float32(np.inf))])
    between = (finite.astype(np.float64) + np.roll(finite, 1)) / 2
    floats = np.ascontiguousarray(np.concatenate([words.view(np.float32), near, between.astype(np.float32), wide]))
    found = np.empty(len(floats), dtype=np.uint16)
    convert.to_half(floats.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p), len(floats))
    with np.errstate(all="ignore"):
        expected = floats.astype(np.float16)
    assert np.array_equal(found.view(np.float16), expected, equal_nan=True)
    assert np.array_equal(np.signbit(found.view(np.float16)), np.signbit(expected))
