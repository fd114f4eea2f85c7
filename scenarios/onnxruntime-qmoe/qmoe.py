"""A quantised mixture of experts in numpy: weights, inputs, and what an ONNX Runtime QMoE node makes of them.

Symmetric 4-bit weights, two to a byte, the even column in the low nibble: value = (nibble - 8) * scale, with one scale
a row. A row is an output feature: y = x @ weights.T. The router's input is raw: the best k experts of a token are
chosen first, then weighted by the softmax over those k. The first layer's rows are interleaved, gate and linear.
Source: the operator's definition, docs/ContribOperators.md of microsoft/onnxruntime (com.microsoft.QMoE).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EXPERTS, HIDDEN, INTER, CHOSEN = 32, 64, 64, 4
"""Experts, features of a token, features inside an expert, and experts that each token is sent to."""
ALPHA, LIMIT = 1.702, 7.0
"""Of the activation (swiglu): steepness of its gate, and what gate and linear part are clamped to."""
RELATIVE, ABSOLUTE = 2e-3, 4e-3
"""By how much a right result may differ from `reference`: the node computes in float16."""

Floats = NDArray[np.float32]
Halfs = NDArray[np.float16]
Bytes = NDArray[np.uint8]


def quantise(weights: Floats) -> tuple[Bytes, Halfs, Floats]:
    """Of weights [experts, out, in]: bytes [experts, out, in / 2], scales [experts, out], and as they read back."""
    scales = np.maximum(np.abs(weights).max(axis=2) / 7, 1e-4).astype(np.float16)
    wide = scales.astype(np.float32)[:, :, None]
    steps = np.clip(np.rint(weights / wide), -8, 7)
    nibbles = (steps + 8).astype(np.uint8)
    return nibbles[:, :, 0::2] | nibbles[:, :, 1::2] << 4, scales, (steps * wide).astype(np.float32)


def random_weights(seed: int) -> tuple[Floats, Floats]:
    """Both layers of every expert, before they are quantised."""
    source = np.random.default_rng(seed)
    first = source.standard_normal((EXPERTS, 2 * INTER, HIDDEN)) / np.sqrt(HIDDEN)
    second = source.standard_normal((EXPERTS, HIDDEN, INTER)) / np.sqrt(INTER)
    return first.astype(np.float32), second.astype(np.float32)


def random_feeds(tokens: int, seed: int) -> dict[str, Halfs]:
    """One call's inputs. A token's logits all differ: which of two equal ones is the better is left to the node."""
    source = np.random.default_rng(seed)
    logits = np.tile(np.linspace(-3, 3, EXPERTS), (tokens, 1))
    return {
        "input": source.standard_normal((tokens, HIDDEN)).astype(np.float16),
        "router_probs": source.permuted(logits, axis=1).astype(np.float16),
    }


def reference(first: Floats, second: Floats, feeds: dict[str, Halfs]) -> Floats:
    """What the node should make of one call's inputs, with weights as they read back; [tokens, HIDDEN]."""
    tokens, logits = (feeds[name].astype(np.float32) for name in ("input", "router_probs"))
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :CHOSEN]
    shares = np.exp(np.take_along_axis(logits, chosen, axis=1))
    shares /= shares.sum(axis=1, keepdims=True)
    result = np.zeros_like(tokens)
    for expert in range(EXPERTS):
        rows, place = np.nonzero(chosen == expert)
        inner = tokens[rows] @ first[expert].T
        gate, linear = np.minimum(inner[:, 0::2], LIMIT), np.clip(inner[:, 1::2], -LIMIT, LIMIT)
        outer = (gate / (1 + np.exp(-ALPHA * gate)) * (linear + 1)) @ second[expert].T
        result[rows] += shares[rows, place][:, None] * outer
    return result


def right(result: Halfs, expected: Floats) -> bool:
    """Whether a result is the expected one, as far as float16 can tell."""
    return bool(np.allclose(result.astype(np.float32), expected, rtol=RELATIVE, atol=ABSOLUTE))
