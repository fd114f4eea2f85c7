"""The data provider `qmoe`: packing, the reference against a plain slow one, the file, and what is refused."""

from __future__ import annotations

import importlib.util
import math
import stat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from livetrap import data
from livetrap.data import qmoe, qmoe_reference
from livetrap.data.qmoe_file import HEADER, is_whole
from livetrap.errors import HarnessError
from livetrap.model import KernelInfo, NotAvailable, ParamInfo
from livetrap.scenario_model import DATA_PROVIDERS
from tests.data import slow_reference
from tests.targets.acts import trial

SMALL = qmoe.Shape(tokens=6, hidden=16, inter=32, experts=4, top_k=2, block=16)


def fields(shape: qmoe.Shape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in shape.__struct_fields__}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 64])
def test_packed_weights_come_back(bits: int, block: int) -> None:
    weights = np.random.default_rng(1).standard_normal((3, 5, 64), dtype=np.float32)
    packed, scales, dequantised = qmoe_reference.quantise(weights, bits=bits, block=block)
    assert packed.shape == (3, 5, 64 * bits // 8)
    assert scales.shape == (3, 5, 64 // block)
    assert np.array_equal(qmoe_reference.dequantise(packed, scales, bits=bits), dequantised)
    assert np.abs(dequantised - weights).max() <= scales.max() * 0.51  # half a step, and what rounding the scale cost
    assert np.array_equal(scales, scales.astype(np.float16).astype(np.float32))


def test_the_low_nibble_is_the_even_column() -> None:
    weights = np.zeros((1, 16), dtype=np.float32)
    weights[0, 0], weights[0, 1] = 7.0, -7.0
    packed, scales, _ = qmoe_reference.quantise(weights, bits=4, block=16)
    assert scales.item() == 1.0
    assert packed[0, 0] == (15 | 1 << 4)
    assert packed[0, 1] == (8 | 8 << 4)


@pytest.mark.parametrize("inputs", qmoe.INPUTS)
@pytest.mark.parametrize("dtype", qmoe.DTYPES)
@pytest.mark.parametrize("bits", [4, 8])
def test_the_reference_is_what_a_slow_one_says(inputs: str, dtype: str, bits: int) -> None:
    shape = msgspec.structs.replace(SMALL, inputs=inputs, dtype=dtype, bits=bits)
    file = slow_reference.File(qmoe.make(shape))
    slow = slow_reference.step(file)
    expected = file.reals(slow_reference.EXPECTED, shape.tokens * shape.hidden)
    relative, absolute = qmoe.tolerance(shape)
    assert np.allclose(expected, slow, rtol=relative, atol=absolute, equal_nan=True)
    assert any(map(math.isnan, slow)) == (inputs in ("nan", "inf"))
    assert not all(map(math.isnan, slow))


def test_all_experts_chosen_nan_last() -> None:
    shape = msgspec.structs.replace(SMALL, inputs="nan", top_k=4)
    file = slow_reference.File(qmoe.make(shape))
    expected = file.reals(slow_reference.EXPECTED, shape.tokens * shape.hidden)
    assert np.allclose(expected, slow_reference.step(file), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_the_file_is_made_once_and_private(tmp_path: Path) -> None:
    first = qmoe.provide(fields(SMALL), cache=tmp_path / "cache")
    assert isinstance(first, Path)
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    made = first.stat().st_mtime_ns
    assert qmoe.provide({**fields(SMALL), "steps": 7}, cache=tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == made
    other = qmoe.provide({**fields(SMALL), "bits": 8}, cache=tmp_path / "cache")
    assert other != first
    assert sorted(path.name for path in (tmp_path / "cache").glob("tmp-*")) == []


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "header"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    place = qmoe.provide(fields(SMALL), cache=tmp_path / "cache")
    assert isinstance(place, Path)
    good = place.read_bytes()
    flipped = bytearray(good)
    flipped[-1 if damage == "flipped" else 12] ^= 1
    place.write_bytes({"empty": b"", "cut": good[:-64]}.get(damage, bytes(flipped)))
    assert not is_whole(place, numbers=SMALL.numbers)
    assert qmoe.provide(fields(SMALL), cache=tmp_path / "cache") == place
    assert place.read_bytes() == good


def test_arrays_lie_where_the_header_says() -> None:
    content = qmoe.make(SMALL)
    values = HEADER.unpack_from(content)
    assert values[2:11] == SMALL.numbers
    assert values[11] == len(content)
    assert all(place % 64 == 0 for place in values[12:19])
    assert values[19:21] == qmoe.TOLERANCES["fp32"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"hidden": 100}, "hidden 100: must be a multiple of the block, 16"),
        ({"inter": 24}, "inter 24: must be a multiple of the block, 16"),
        ({"block": 8}, "block 8: must be a power of two, 16 or more"),
        ({"block": 48}, "block 48: must be a power of two"),
        ({"bits": 5}, "bits 5: must be 4 or 8"),
        ({"top_k": 5}, "top_k 5: must be at most the number of experts, 4"),
        ({"tokens": 0}, "tokens 0: must be a whole number, 1 or more"),
        ({"dtype": "bf16"}, "unknown dtype 'bf16'; did you mean 'fp16'?"),
        ({"inputs": "zero"}, "unknown inputs 'zero'"),
        ({"experts": 1024, "hidden": 8192, "inter": 8192}, "weights: must be at most"),
        ({"tokens": 4096, "top_k": 4, "hidden": 8192}, "tokens [*] top_k"),
    ],
)
def test_what_goes_with_no_shape_is_refused(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=words) as raised:
        qmoe.provide({**fields(SMALL), **changed}, cache=tmp_path / "cache")
    assert raised.value.status == 2
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(HarnessError, match="is not a folder"):
        qmoe.provide(fields(SMALL), cache=tmp_path / "cache")


def test_without_numpy_trials_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    found = qmoe.provide(fields(SMALL), cache=tmp_path / "cache")
    assert found == NotAvailable(reason="data qmoe needs numpy, which is not installed: pip install 'livetrap[qmoe]'")
    assert isinstance(found, NotAvailable)
    (skipped,) = data.equip([trial()], "qmoe", kernel=KERNEL, cache=tmp_path / "cache")
    assert (skipped.skip, skipped.data) == (found.reason, "")


KERNEL = KernelInfo(
    name="qmoe",
    params={
        "dtype": ParamInfo(name="dtype", choices=qmoe.DTYPES, fallback=1),
        "hidden": ParamInfo(name="hidden", least=16, most=64, fallback=32),
    },
)


def test_each_trial_gets_the_file_of_its_parameters(tmp_path: Path) -> None:
    plain = trial()
    wide = msgspec.structs.replace(plain, parameters={"hidden": 64})
    off = msgspec.structs.replace(plain, skip="no gcc on this machine")
    equipped = data.equip([plain, wide, plain, off], "qmoe", kernel=KERNEL, cache=tmp_path / "cache")
    assert equipped[0].data == equipped[2].data == equipped[3].data != equipped[1].data
    assert all(Path(each.data).is_file() for each in equipped)
    assert equipped[3].skip == "no gcc on this machine"
    assert data.given({"hidden": 64}, KERNEL) == {"dtype": "fp16", "hidden": 64}


def test_the_providers_are_those_that_a_scenario_may_name(tmp_path: Path) -> None:
    assert tuple(data.PROVIDERS) == DATA_PROVIDERS
    with pytest.raises(HarnessError, match="no data provider 'qmo'; did you mean 'qmoe'"):
        data.provide("qmo", {}, cache=tmp_path)
