"""Weights, inputs and the float32 reference of one mixture-of-experts step. The only module here that needs numpy.

Source: the operator com.microsoft::QMoE of onnxruntime. A weight of b bits stands for (number - 2^(b-1)) * scale of its
block; of two 4-bit weights in a byte the low one is the even column. Rows are output features: y = x W^T. SwiGLU is
interleaved (even rows gates, odd ones linear): gate / (1 + e^(-1.702 gate)) * (linear + 1), gate at most 7, linear from
-7 to 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from livetrap.data.qmoe import Shape

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Reals = npt.NDArray[Any]
"""Of the shape's own type: float16 or float32."""
ALPHA, LIMIT = 1.702, 7.0
LARGE = {"fp16": 6e4, "fp32": 1e30}
SPECIAL_EVERY = 3
"""With `nan` and `inf`, every third token has such an input, and every third one such a logit."""


def dtype_of(shape: Shape) -> np.dtype[Any]:
    """The type that numbers are kept in."""
    return np.dtype(np.float16 if shape.dtype == "fp16" else np.float32).newbyteorder("<")


def quantise(weights: Floats, *, bits: int, block: int) -> tuple[Bytes, Floats, Floats]:
    """Weights [..., columns] -> packed [..., columns * bits / 8], scales [..., columns / block], dequantised.

    Scales are numbers that float16 has.
    """
    half = 1 << (bits - 1)
    grouped = weights.reshape(*weights.shape[:-1], -1, block)
    least = np.float32(1e-4)
    scales = np.maximum(np.abs(grouped).max(-1, keepdims=True) / np.float32(half - 1), least)
    scales = scales.astype(np.float16).astype(np.float32)
    steps = np.clip(np.rint(grouped / scales), -half, half - 1).astype(np.float32)
    numbers = (steps + half).astype(np.uint8).reshape(weights.shape)
    packed = numbers if bits == 8 else numbers[..., 0::2] | (numbers[..., 1::2] << 4)
    dequantised = (steps * scales).reshape(weights.shape)
    return np.ascontiguousarray(packed), np.ascontiguousarray(scales[..., 0]), dequantised


def dequantise(packed: Bytes, scales: Floats, *, bits: int) -> Floats:
    """What packed weights stand for: the inverse of `quantise`."""
    numbers = packed
    if bits == 4:
        numbers = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
    signed = numbers.astype(np.float32) - np.float32(1 << (bits - 1))
    grouped = signed.reshape(*scales.shape, -1) * scales[..., None].astype(np.float32)
    return np.ascontiguousarray(grouped.reshape(numbers.shape), dtype=np.float32)


def inputs(shape: Shape, rng: np.random.Generator) -> tuple[Reals, Reals]:
    """Input [tokens, hidden] and logits [tokens, experts] of the kind that `shape.inputs` names."""
    dtype = dtype_of(shape)
    x = rng.standard_normal((shape.tokens, shape.hidden)).astype(np.float32)
    logits = rng.standard_normal((shape.tokens, shape.experts)).astype(np.float32)
    if shape.inputs == "large":
        x = np.clip(x, -1, 1) * np.float32(LARGE[shape.dtype])
    if shape.inputs == "denormal":
        return (x * 8).astype(dtype) * np.finfo(dtype).smallest_subnormal, logits.astype(dtype)
    if shape.inputs in ("nan", "inf"):
        special = np.float32(shape.inputs)
        columns = rng.integers(shape.hidden, size=shape.tokens)
        experts = rng.integers(shape.experts, size=shape.tokens)
        for token in range(shape.tokens):
            signed = -special if token % 2 else special
            if token % SPECIAL_EVERY == 0:
                x[token, columns[token]] = signed
            elif token % SPECIAL_EVERY == 1:
                logits[token, experts[token]] = signed
    return x.astype(dtype), logits.astype(dtype)


def step(x: Floats, logits: Floats, first: Floats, second: Floats, *, top_k: int) -> Floats:
    """One step in float32: x [tokens, hidden], logits [tokens, experts], dequantised weights -> [tokens, hidden].

    `first` is [experts, 2 * inter, hidden], `second` [experts, hidden, inter].
    """
    out = np.zeros_like(x)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
    values = np.take_along_axis(logits, chosen, 1)
    weights = np.exp(values - values.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    for expert in range(len(first)):
        tokens, places = np.nonzero(chosen == expert)
        if len(tokens):
            y = swiglu(x[tokens] @ first[expert].T) @ second[expert].T
            out[tokens] += weights[tokens, places][:, None] * y
    return out


def swiglu(y: Floats) -> Floats:
    """The activation of [tokens, 2 * inter], gates and linear columns in turn -> [tokens, inter]."""
    gate = np.minimum(y[:, 0::2], np.float32(LIMIT))
    linear = np.clip(y[:, 1::2], np.float32(-LIMIT), np.float32(LIMIT))
    return gate / (np.float32(1) + np.exp(np.float32(-ALPHA) * gate)) * (linear + np.float32(1))


def arrays(shape: Shape, *, seed: int) -> tuple[bytes, ...]:
    """The file's seven arrays: input, logits, packed weights and scales of both products, expected output."""
    rng = np.random.default_rng(seed)
    dtype = dtype_of(shape)
    e, hidden, inter = shape.experts, shape.hidden, shape.inter
    w1 = rng.standard_normal((e, 2 * inter, hidden), dtype=np.float32) / np.float32(np.sqrt(hidden))
    w2 = rng.standard_normal((e, hidden, inter), dtype=np.float32) / np.float32(np.sqrt(inter))
    packed1, scales1, first = quantise(w1, bits=shape.bits, block=shape.block)
    packed2, scales2, second = quantise(w2, bits=shape.bits, block=shape.block)
    x, logits = inputs(shape, rng)
    with np.errstate(all="ignore"):  # NaN, infinities and overflow are what some inputs are about
        expected = step(x.astype(np.float32), logits.astype(np.float32), first, second, top_k=shape.top_k)
        kept = expected.astype(dtype)
    scales = (scales1.astype(dtype), scales2.astype(dtype))
    return tuple(array.tobytes() for array in (x, logits, packed1, scales[0], packed2, scales[1], kept))
