"""Scenario qmoe-fp16-barrier: what it says, and what comes of it under the real harness."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from livetrap import campaign, resources
from livetrap.cli import main
from livetrap.data.qmoe_file import HEADER
from livetrap.model import PlannedTrial, Record, VariantRole, Verdict
from livetrap.plan import Options, Plan
from livetrap.policy import ALLOWED_TECHNIQUES, POLICY, plan_barrier
from livetrap.scenario import Scenario, load
from livetrap.store import Store
from tests.end_to_end.hogs import hogs
from tests.end_to_end.running import livetrap


@pytest.fixture
def scenario() -> Scenario:
    return load(
        "qmoe-fp16-barrier",
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=resources.technique_names(),
    )


def test_the_fixed_variant_has_every_technique_that_the_policy_allows(scenario: Scenario) -> None:
    fixed, buggy, fp32 = (scenario.variants[name] for name in ("fixed", "buggy", "fp32"))
    assert set(fixed.axes["technique"]) == set(ALLOWED_TECHNIQUES)
    assert fixed.axes["dtype"] == ("fp16", "fp32")
    assert (buggy.role, buggy.axes) == (VariantRole.BUGGY, {"dtype": ("fp16",), "technique": ("raw_spin",)})
    assert fp32.axes == {"dtype": ("fp32",), "technique": ("acquire_yield",)}
    assert plan_barrier(POLICY).technique in fixed.axes["technique"]


def test_an_unknown_provider(scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(scenario.path).read_text().replace('data = "qmoe"', 'data = "qmo"')
    (tmp_path / "scenario.toml").write_text(text)
    assert main(["run", str(tmp_path)]) == 2
    assert "target.data: unknown data provider 'qmo'; did you mean 'qmoe'?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("hidden=100", "data qmoe: hidden 100: must be a multiple of the block, 32"),
        ("block=24", "data qmoe: block 24: must be a power of two, 16 or more"),
        ("top_k=9", "data qmoe: top_k 9: must be at most the number of experts, 8"),
        ("bits=5", "data qmoe: bits 5: must be 4 or 8"),
        ("dtype=bf16", "dtype: unknown value 'bf16'; did you mean 'fp16'? (known: fp16, fp32)"),
    ],
)
def test_bad_shapes_are_refused_before_a_trial_runs(tmp_path: Path, option: str, words: str) -> None:
    done = livetrap("run", "qmoe-fp16-barrier", "--axis", option, folder=tmp_path, limit_s=60)
    assert done.status == 2
    assert done.err.splitlines()[-1] == f"livetrap: {words}"
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.slow
def test_the_story(tmp_path: Path) -> None:
    """fp16 with a raw spin at 2 threads or more is a livelock; everything else passes, with right numbers."""
    done = livetrap("run", "qmoe-fp16-barrier", "--trials", "1", "--json", "-", folder=tmp_path, limit_s=90)
    assert done.status == 0, done.err
    for trial in done.trials:
        cell = trial["cell"]
        hangs = cell["dtype"] == "fp16" and cell["technique"] == "raw_spin" and cell["threads"] >= 2
        assert trial["verdict"] == ("livelock" if hangs else "passed"), trial
    assert Counter(trial["variant"] for trial in done.trials) == {"buggy": 8, "fixed": 80, "fp32": 8}
    assert all(trial["shape"]["spinning"] >= 1 for trial in done.trials if trial["verdict"] == "livelock")


class _Quiet:
    """Keeps the records and says nothing."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def started(self, plan: Plan) -> None: ...

    def trial_started(self, trial: PlannedTrial) -> None: ...

    def trial_finished(self, record: Record) -> None:
        self.records.append(record)

    def note(self, text: str) -> None: ...


def prepared(scenario: Scenario, cache: Path) -> campaign.Prepared:
    options = Options(threads=(2,), placement=("free",), technique=("acquire_yield",), variants=("fp32",), trials=2)
    return campaign.prepare(scenario, options=options, cache=cache, seed=1)


def run(plan: campaign.Prepared, folder: Path) -> list[Record]:
    quiet = _Quiet()
    with Store.open(folder / "trials.db") as store:
        campaign.run(plan, store=store, listener=quiet)
    return quiet.records


@pytest.mark.slow
def test_a_wrong_expectation_is_corrupt(scenario: Scenario, tmp_path: Path) -> None:
    plan = prepared(scenario, tmp_path / "cache")
    file = Path(plan.plan.trials[0].data)
    content = bytearray(file.read_bytes())
    struct.pack_into("<f", content, HEADER.unpack_from(content)[18] + 4 * 64, 1234.5)
    file.write_bytes(content)
    records = run(plan, tmp_path)
    assert [record.verdict for record in records] == [Verdict.CORRUPT] * 2
    assert "step 1: element 0 of token 1 is " in str(records[0].evidence["reason"])
    assert [record.verdict for record in run(prepared(scenario, tmp_path / "cache"), tmp_path)] == [Verdict.PASSED] * 2


@pytest.mark.slow
def test_without_its_file_a_trial_is_an_error(scenario: Scenario, tmp_path: Path) -> None:
    plan = prepared(scenario, tmp_path / "cache")
    trials = tuple(msgspec.structs.replace(trial, data="") for trial in plan.plan.trials)
    bare = msgspec.structs.replace(plan, plan=msgspec.structs.replace(plan.plan, trials=trials))
    records = run(bare, tmp_path)
    assert [record.verdict for record in records] == [Verdict.ERROR] * 2
    assert "no LIVETRAP_DATA" in str(records[0].evidence["reason"])


def fixed_under_hogs(folder: Path, *, trials: int, limit_s: float) -> None:
    """That many trials of each allowed technique, each type and each number of threads, beside two hogs."""
    options = ["--variant", "fixed", "--threads", "2,4,8,16", "--placement", "free", "--trials", str(trials)]
    with hogs(2, limit_s=limit_s):
        done = livetrap("run", "qmoe-fp16-barrier", *options, "--json", "-", folder=folder, limit_s=limit_s)
    verdicts = Counter(trial["verdict"] for trial in done.trials)
    total = 4 * 2 * len(ALLOWED_TECHNIQUES) * trials
    assert verdicts.total() == total
    assert set(verdicts) <= {"passed", "slow", "inconclusive"}, verdicts
    assert verdicts["passed"] >= 0.95 * total, verdicts


@pytest.mark.slow
def test_a_twentieth_of_the_healthy_trials(tmp_path: Path) -> None:
    fixed_under_hogs(tmp_path, trials=7, limit_s=100)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_500_trials_of_each_technique_and_type(tmp_path: Path) -> None:
    fixed_under_hogs(tmp_path, trials=125, limit_s=800)
