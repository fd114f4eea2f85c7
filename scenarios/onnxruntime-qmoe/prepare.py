"""Writes a model of one com.microsoft::QMoE node, and its weights as they read back, into a folder.

    python prepare.py FOLDER        writes model.onnx and weights.npz

Once, with onnx installed: the environments under test then need onnxruntime and numpy alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import qmoe
from onnx import TensorProto, helper, numpy_helper


def main(folder: Path) -> None:
    first, second = (qmoe.quantise(weights) for weights in qmoe.random_weights(seed=0))
    tensors = {
        "first_weights": first[0],
        "first_scales": first[1],
        "second_weights": second[0],
        "second_scales": second[1],
    }
    node = helper.make_node(
        "QMoE",
        ["input", "router_probs", "first_weights", "first_scales", "", "second_weights", "second_scales", ""],
        ["output"],
        domain="com.microsoft",
        k=qmoe.CHOSEN,
        activation_type="swiglu",
        activation_alpha=qmoe.ALPHA,
        activation_beta=1.0,
        swiglu_fusion=1,
        swiglu_limit=qmoe.LIMIT,
        normalize_routing_weights=1,
        expert_weight_bits=4,
    )
    graph = helper.make_graph(
        [node],
        "qmoe",
        [
            helper.make_tensor_value_info("input", TensorProto.FLOAT16, ["tokens", qmoe.HIDDEN]),
            helper.make_tensor_value_info("router_probs", TensorProto.FLOAT16, ["tokens", qmoe.EXPERTS]),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT16, ["tokens", qmoe.HIDDEN])],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "weights.npz", first=first[2], second=second[2])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
