"""Calls InferenceSession.run again and again, checks each result, and beats once for each call that was right.

    python loop.py FOLDER --threads 16 --tokens 256 [--spinning 0] [--calls 4000] [--seconds 25]

FOLDER is what prepare.py wrote. Ends with 0 after so many calls or seconds, with 1 at the first wrong result.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnxruntime
import qmoe

try:
    from livetrap import beat
except ImportError:  # by hand, without the harness

    def beat() -> None:
        """Nobody counts."""


INPUTS = 8
"""Different inputs, taken in turn."""


def session(model: Path, threads: int, *, spinning: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--spinning", type=int, default=0, choices=(0, 1))
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=25.0)
    arguments = parser.parse_args()
    with np.load(arguments.folder / "weights.npz") as weights:
        first, second = weights["first"], weights["second"]
    feeds = [qmoe.random_feeds(arguments.tokens, seed=1 + i) for i in range(INPUTS)]
    expected = [qmoe.reference(first, second, one) for one in feeds]
    model = session(arguments.folder / "model.onnx", arguments.threads, spinning=bool(arguments.spinning))
    print(f"onnxruntime {onnxruntime.__version__}: {vars(arguments)}", flush=True)
    began, calls = time.monotonic(), 0
    while calls < arguments.calls and time.monotonic() - began < arguments.seconds:
        [result] = model.run(None, feeds[calls % INPUTS])
        if not qmoe.right(result, expected[calls % INPUTS]):
            off = np.abs(result.astype(np.float32) - expected[calls % INPUTS]).max()
            raise SystemExit(f"call {calls + 1}: wrong result, off by {off:.3g}")
        calls += 1
        beat()
    print(f"{calls} calls in {time.monotonic() - began:.1f} s, all right", flush=True)


if __name__ == "__main__":
    main()
