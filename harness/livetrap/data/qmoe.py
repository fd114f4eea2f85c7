"""The data provider `qmoe`: weights, inputs and expected outputs of one mixture-of-experts step, as one file.

`csrc/kernels/qmoe_data.h` describes the file. Needs numpy (the extra `qmoe`); without it the trials are skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from livetrap.build.cache import Cache, failure, key
from livetrap.data.qmoe_file import VERSION, is_whole, pack
from livetrap.errors import HarnessError, nearest
from livetrap.model import Frozen, NotAvailable, Value

INSTALL = "pip install 'livetrap[qmoe]'"
DTYPES = ("fp32", "fp16")
INPUTS = ("normal", "nan", "inf", "large", "denormal")
TOLERANCES = {"fp32": (1e-4, 2e-5), "fp16": (2e-3, 4e-3)}
"""Relative and absolute, by dtype: |found - expected| <= absolute + relative * |expected|.

Measured against the float32 reference (block 16 to 64, width 64 to 256, outputs up to 2.6): in fp32 the kernel was off
by at most 3e-6; in fp16 by at most 1e-3, as SwiGLU's results are rounded too, which onnxruntime keeps as floats.
"""
LARGE_FACTOR = 20
"""For `large` inputs the absolute tolerance is this much wider: there SwiGLU's results are up to 56, outputs up to 94,
and an output near 0 was off by up to 1e-5 in fp32, up to 5e-3 in fp16.
"""
MOST_WEIGHTS = 1 << 26
"""Of both products of all experts. They are made as float32: this many take 256 MiB."""
MOST_RESULTS = 1 << 26
"""Of all choices together, tokens times top_k, in the wider of hidden and inter."""
SEED = 29047


class Shape(Frozen, kw_only=True):
    """What the file is for: the kernel's parameters of these names."""

    dtype: str = "fp32"
    tokens: int = 16
    hidden: int = 64
    inter: int = 64
    experts: int = 8
    top_k: int = 4
    bits: int = 4
    block: int = 32
    inputs: str = "normal"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The fields as the file has them: a choice is its place."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return tuple(({**values, "dtype": DTYPES.index(self.dtype), "inputs": INPUTS.index(self.inputs)}).values())


def shape_of(parameters: Mapping[str, Value]) -> Shape:
    """The shape out of a kernel's parameters; the others are not looked at. HarnessError: it can be none."""
    fields: dict[str, Value] = {name: parameters[name] for name in Shape.__struct_fields__ if name in parameters}
    for name, choices in (("dtype", DTYPES), ("inputs", INPUTS)):
        if fields.get(name, choices[0]) not in choices:
            raise _wrong(f"unknown {name} {fields[name]!r}; {nearest(str(fields[name]), choices)}")
    for name, value in fields.items():
        if name not in ("dtype", "inputs") and (not isinstance(value, int) or value < 1):
            raise _wrong(f"{name} {value!r}: must be a whole number, 1 or more")
    shape = Shape(**fields)  # type: ignore[arg-type]
    _check(shape)
    return shape


def _check(shape: Shape) -> None:
    if shape.bits not in (4, 8):
        raise _wrong(f"bits {shape.bits}: must be 4 or 8")
    if shape.block < 16 or shape.block & (shape.block - 1):
        raise _wrong(f"block {shape.block}: must be a power of two, 16 or more")
    for name in ("hidden", "inter"):
        if getattr(shape, name) % shape.block:
            raise _wrong(f"{name} {getattr(shape, name)}: must be a multiple of the block, {shape.block}")
    if shape.top_k > shape.experts:
        raise _wrong(f"top_k {shape.top_k}: must be at most the number of experts, {shape.experts}")
    weights = 3 * shape.experts * shape.hidden * shape.inter
    if weights > MOST_WEIGHTS:
        raise _wrong(f"experts * hidden * inter make {weights} weights: must be at most {MOST_WEIGHTS}")
    results = shape.tokens * shape.top_k * max(shape.hidden, shape.inter)
    if results > MOST_RESULTS:
        raise _wrong(f"tokens * top_k * the wider of hidden and inter are {results}: must be at most {MOST_RESULTS}")


def _wrong(what: str) -> HarnessError:
    return HarnessError(f"data qmoe: {what}")


def provide(parameters: Mapping[str, Value], *, cache: Path) -> Path | NotAvailable:
    """The file for a kernel's parameters, from the cache or made; NotAvailable without numpy.

    Raises HarnessError for a shape that can be none, before anything is made, and for a cache that cannot be written.
    """
    shape = shape_of(parameters)
    if importlib.util.find_spec("numpy") is None:
        return NotAvailable(reason=f"data qmoe needs numpy, which is not installed: {INSTALL}")
    opened = Cache(cache)
    folder = opened.path / "data"
    place = folder / f"qmoe-{_key(shape)}.bin"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if is_whole(place, numbers=shape.numbers):
            return place
        with opened.workshop() as workshop:
            made = workshop / "data"
            made.touch(mode=0o600, exist_ok=False)
            made.write_bytes(make(shape))
            made.replace(place)
    except OSError as error:
        raise failure("cannot write the cache folder", opened.path, error) from None
    return place


def tolerance(shape: Shape) -> tuple[float, float]:
    """Relative and absolute tolerance of a shape's outputs."""
    relative, absolute = TOLERANCES[shape.dtype]
    return relative, absolute * (LARGE_FACTOR if shape.inputs == "large" else 1)


def make(shape: Shape) -> bytes:
    """The file's content. Needs numpy."""
    from livetrap.data.qmoe_reference import arrays  # noqa: PLC0415 - numpy is an extra

    return pack(numbers=shape.numbers, arrays=arrays(shape, seed=SEED), tolerance=tolerance(shape))


def _key(shape: Shape) -> str:
    import numpy as np  # noqa: PLC0415 - an extra

    parts = {"shape": repr(shape), "tolerance": repr(tolerance(shape)), "numpy": np.__version__}
    return key({**parts, "version": str(VERSION), "seed": str(SEED)})
