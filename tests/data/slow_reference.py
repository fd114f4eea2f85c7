"""One mixture-of-experts step in plain Python floats, read out of a data file: nothing shared with the provider."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

HEADER = "<QI9IQ7QddI4x"
DTYPE, TOKENS, HIDDEN, INTER, EXPERTS, TOP_K, BITS, BLOCK = range(2, 10)
SIZE, INPUT, LOGITS, W1, S1, W2, S2, EXPECTED = range(11, 19)


class File:
    """A data file, taken apart."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fields: tuple[Any, ...] = struct.unpack_from(HEADER, data)
        self.code = "e" if self.fields[DTYPE] == 1 else "f"

    def __getitem__(self, field: int) -> int:
        return int(self.fields[field])

    def real(self, array: int, place: int) -> float:
        """A number of an array."""
        at = self[array] + place * struct.calcsize(self.code)
        return float(struct.unpack_from(f"<{self.code}", self.data, at)[0])

    def weight(self, array: int, place: int) -> float:
        """A dequantised weight; its scales are in the next array."""
        scale = self.real(array + 1, place // self[BLOCK])
        if self[BITS] == 8:
            return (self.data[self[array] + place] - 128) * scale
        byte = self.data[self[array] + place // 2]
        return ((byte >> 4 if place % 2 else byte & 15) - 8) * scale

    def reals(self, array: int, count: int) -> list[float]:
        """The first numbers of an array."""
        return [self.real(array, place) for place in range(count)]


def step(file: File) -> list[float]:
    """The output, token by token."""
    hidden = file[HIDDEN]
    out: list[float] = []
    for token in range(file[TOKENS]):
        logits = [file.real(LOGITS, token * file[EXPERTS] + expert) for expert in range(file[EXPERTS])]
        chosen = sorted(range(file[EXPERTS]), key=lambda e: (math.isnan(logits[e]), -logits[e], e))[: file[TOP_K]]
        x = [file.real(INPUT, token * hidden + column) for column in range(hidden)]
        results = [expert_output(file, expert, x) for expert in chosen]
        weights = softmax([logits[expert] for expert in chosen])
        out += [
            sum(weight * result[column] for weight, result in zip(weights, results, strict=True))
            for column in range(hidden)
        ]
    return out


def expert_output(file: File, expert: int, x: Sequence[float]) -> list[float]:
    """What one expert makes of one token."""
    hidden, inter = file[HIDDEN], file[INTER]
    rows = range(expert * 2 * inter, (expert + 1) * 2 * inter)
    y = [sum(value * file.weight(W1, row * hidden + c) for c, value in enumerate(x)) for row in rows]
    active = [swiglu(gate, linear) for gate, linear in zip(y[0::2], y[1::2], strict=True)]
    rows = range(expert * hidden, (expert + 1) * hidden)
    return [sum(value * file.weight(W2, row * inter + c) for c, value in enumerate(active)) for row in rows]


def swiglu(gate: float, linear: float) -> float:
    """The activation; NaN stays NaN."""
    gate = gate if math.isnan(gate) else min(gate, 7.0)
    linear = linear if math.isnan(linear) else max(-7.0, min(linear, 7.0))
    return gate / (1.0 + exp(-1.702 * gate)) * (linear + 1.0)


def softmax(values: Sequence[float]) -> list[float]:
    """Weights of the chosen; NaN among them makes all of them NaN."""
    powers = [exp(value - values[0]) for value in values]
    return [power / sum(powers) for power in powers]


def exp(x: float) -> float:
    """As in float32: infinite where that overflows."""
    return math.inf if x > 88.73 else math.exp(x)
