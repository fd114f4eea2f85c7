"""Scenario onnxruntime-qmoe: what it expects, its numbers, its loop. With the wheels it is `make repro-onnxruntime`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from livetrap.model import Verdict
from livetrap.plan import Options, Plan, plan
from livetrap.scenario import load
from tests.test_topology import VM, read

FOLDER = Path(__file__).parents[1] / "scenarios" / "onnxruntime-qmoe"


def made() -> Plan:
    scenario = load("onnxruntime-qmoe", scenarios_dir=FOLDER.parent, kernels=(), techniques=())
    return plan(scenario, options=Options(), topology=read(VM), compilers={}, manifest=None, seed=1)


def test_every_cell_of_the_issue_is_there() -> None:
    cells = {(trial.cell["onnxruntime"], trial.threads, trial.cell["tokens"]) for trial in made().trials}
    assert cells == {
        *(
            (version, threads, tokens)
            for version in ("1.27.0", "1.28.0")
            for threads in (1, 3, 8, 16)
            for tokens in (47, 256)
        ),
        *(("1.32.0", threads, tokens) for threads in (1, 16) for tokens in (47, 256)),
    }


def test_what_each_cell_should_do() -> None:
    for trial in made().trials:
        may_hang = trial.cell["onnxruntime"] == "1.27.0" and trial.threads >= 3 and trial.cell["tokens"] == 256
        assert (Verdict.LIVELOCK in trial.expected) == may_hang, trial.cell_key
        assert Verdict.PASSED in trial.expected
        assert trial.parameters["spinning"] == 0


def test_it_fits_into_five_minutes_where_every_trial_takes_five_seconds() -> None:
    assert len(made().trials) * 5 <= 300 - 90  # 90: to make the environments


def test_all_trials_do_the_same_amount_of_work() -> None:
    """Else the rates of versions could not be compared."""
    assert len({(trial.parameters["calls"], trial.parameters["seconds"]) for trial in made().trials}) == 1


@pytest.fixture
def qmoe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scenario_qmoe", FOLDER / "qmoe.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_packed_weights_read_back(qmoe: ModuleType) -> None:
    weights = np.random.default_rng(3).standard_normal((2, 3, 8)).astype(np.float32)
    packed, scales, back = qmoe.quantise(weights)
    assert (packed.shape, scales.shape, scales.dtype) == ((2, 3, 4), (2, 3), np.float16)
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(weights.shape).astype(np.float32)
    assert np.array_equal((nibbles - 8) * scales.astype(np.float32)[:, :, None], back)
    assert np.abs(back - weights).max() <= scales.max() / 2 + 1e-3


def test_the_reference_one_token_at_a_time(qmoe: ModuleType) -> None:
    first, second = (qmoe.quantise(weights)[2] for weights in qmoe.random_weights(seed=0))
    feeds = qmoe.random_feeds(5, seed=1)
    expected = qmoe.reference(first, second, feeds)
    for token in range(5):
        x, logits = (feeds[name][token].astype(np.float64) for name in ("input", "router_probs"))
        best = np.argsort(logits)[-qmoe.CHOSEN :]
        shares = np.exp(logits[best]) / np.exp(logits[best]).sum()
        total = np.zeros(qmoe.HIDDEN)
        for expert, share in zip(best, shares, strict=True):
            inner = first[expert].astype(np.float64) @ x
            gate, linear = np.minimum(inner[0::2], 7), np.clip(inner[1::2], -7, 7)
            total += share * (second[expert] @ (gate / (1 + np.exp(-1.702 * gate)) * (linear + 1)))
        assert np.abs(total - expected[token]).max() < 1e-4
    assert qmoe.right(expected.astype(np.float16), expected)
    expected[3, 7] += 0.02
    assert not qmoe.right(qmoe.reference(first, second, feeds).astype(np.float16), expected)


def test_no_two_logits_of_a_token_are_equal(qmoe: ModuleType) -> None:
    """Which of two equal experts is the better is nobody's to say."""
    logits = qmoe.random_feeds(64, seed=2)["router_probs"]
    assert all(len(set(row.tolist())) == qmoe.EXPERTS for row in logits)


PRETENDED = """
import os, qmoe, numpy
__version__ = "0"
class SessionOptions:
    def add_session_config_entry(self, name, value):
        assert (name, value) == ("session.intra_op.allow_spinning", "0")
class InferenceSession:
    def __init__(self, path, options, providers):
        assert options.intra_op_num_threads == 4
        with numpy.load(path.replace("model.onnx", "weights.npz")) as weights:
            self.weights = weights["first"], weights["second"]
        self.left = int(os.environ["RIGHT"])
    def run(self, names, feeds):
        self.left -= 1
        result = qmoe.reference(*self.weights, feeds).astype(numpy.float16)
        return [result if self.left >= 0 else result * 0]
"""
COUNTING = """
count = 0
def beat():
    global count
    count += 1
import atexit
atexit.register(lambda: print("beats", count))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "status", "words"),
    [(99, 0, ["5 calls in ", "beats 5"]), (3, 1, ["call 4: wrong result, off by ", "beats 3"])],
)
def test_the_loop(right: int, status: int, words: list[str], qmoe: ModuleType, tmp_path: Path) -> None:
    first, second = (qmoe.quantise(weights)[2] for weights in qmoe.random_weights(seed=0))
    np.savez(tmp_path / "weights.npz", first=first, second=second)
    (tmp_path / "onnxruntime.py").write_text(PRETENDED)
    (tmp_path / "livetrap.py").write_text(COUNTING)
    options = ["--threads", "4", "--tokens", "9", "--calls", "5"]
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "loop.py"), str(tmp_path), *options],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "RIGHT": str(right), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == status, ran.stdout
    assert all(word in ran.stdout for word in words)
