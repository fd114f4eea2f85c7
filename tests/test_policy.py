"""The policy as a value: what it allows, what it refuses and in which words, and where each technique stands."""

from __future__ import annotations

import pytest

from livetrap.errors import HarnessError
from livetrap.policy import (
    ALLOWED_TECHNIQUES,
    BARRIER_KINDS,
    POLICY,
    OrtQmoeCpuFp16LivelockPolicy,
    plan_barrier,
    satisfied_by,
    standing,
)
from livetrap.resources import technique_names


def test_the_default() -> None:
    assert POLICY.barrier_kind == "atomic_acq_rel"
    assert POLICY.spin_must_yield is True
    assert POLICY.must_fix_platforms == ("apple-silicon", "arm", "arm64")
    assert POLICY.affected_kernels == ("QMoECPU<MLFloat16>",)


@pytest.mark.parametrize(
    ("kind", "technique"),
    [
        ("atomic_acq_rel", "acquire_yield"),
        ("condition_variable", "condition_variable"),
        ("os_barrier", "os_barrier"),
    ],
)
def test_the_plan_of_each_kind(kind: str, technique: str) -> None:
    planned = plan_barrier(OrtQmoeCpuFp16LivelockPolicy(barrier_kind=kind))
    assert (planned.kind, planned.must_yield, planned.technique) == (kind, True, technique)
    assert planned.platforms == ("apple-silicon", "arm", "arm64")
    assert kind in satisfied_by(technique)


def test_it_is_frozen() -> None:
    with pytest.raises(AttributeError):
        POLICY.barrier_kind = "raw_spin"  # type: ignore[misc]


@pytest.mark.parametrize(
    "kind", ["raw_spin", "acquire_spin", "acquire_yield", "futex", "", "ATOMIC_ACQ_REL", None, 1, []]
)
def test_another_kind_is_refused(kind: object) -> None:
    with pytest.raises(HarnessError) as told:
        OrtQmoeCpuFp16LivelockPolicy(barrier_kind=kind)  # type: ignore[arg-type]
    assert told.value.status == 2
    assert "allowed: atomic_acq_rel, condition_variable, os_barrier" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_raw_spin_is_refused_in_words() -> None:
    with pytest.raises(HarnessError, match="'raw_spin' is outside the policy: it spins on a plain variable"):
        OrtQmoeCpuFp16LivelockPolicy(barrier_kind="raw_spin")


@pytest.mark.parametrize("value", [False, None, 0, 1])
def test_a_spin_that_need_not_yield_is_refused(value: object) -> None:
    with pytest.raises(HarnessError, match="spin_must_yield"):
        OrtQmoeCpuFp16LivelockPolicy(spin_must_yield=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [(), ("arm64",), ("apple-silicon", "arm"), "apple-silicon", ["arm"], (1,), None])
def test_fewer_platforms_are_refused(given: object) -> None:
    with pytest.raises(HarnessError, match="apple-silicon, arm, arm64"):
        OrtQmoeCpuFp16LivelockPolicy(must_fix_platforms=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [(), ("QMoECPU<float>",), "QMoECPU<MLFloat16>"])
def test_fewer_kernels_are_refused(given: object) -> None:
    with pytest.raises(HarnessError, match="QMoECPU<MLFloat16>"):
        OrtQmoeCpuFp16LivelockPolicy(affected_kernels=given)  # type: ignore[arg-type]


def test_more_than_the_policy_asks_for_is_allowed() -> None:
    wider = OrtQmoeCpuFp16LivelockPolicy(
        must_fix_platforms=("apple-silicon", "arm", "arm64", "x86-64"),
        affected_kernels=("QMoECPU<MLFloat16>", "QMoECPU<float>"),
    )
    assert "x86-64" in plan_barrier(wider).platforms
    assert "QMoECPU<float>" in wider.describe()


def test_it_describes_itself_in_one_line() -> None:
    text = POLICY.describe()
    assert "\n" not in text
    for word in ("QMoECPU<MLFloat16>", "atomic_acq_rel", "yields", "apple-silicon", "never a raw spin"):
        assert word in text


def test_every_technique_has_its_standing() -> None:
    for name in technique_names():
        found = standing(name)
        assert found.reason
        assert set(found.kinds) <= set(BARRIER_KINDS)
        assert not (found.kinds and found.spins_without_yield)
    assert set(ALLOWED_TECHNIQUES) <= set(technique_names())


@pytest.mark.parametrize("name", ["raw_spin", "volatile_spin", "relaxed_spin", "acquire_spin"])
def test_spins_that_only_burn_are_forbidden(name: str) -> None:
    assert satisfied_by(name) == ()
    assert standing(name).spins_without_yield
    assert "never yields" in standing(name).reason
    assert name not in ALLOWED_TECHNIQUES


@pytest.mark.parametrize("name", ["acquire_yield", "acquire_backoff", "futex_wait"])
def test_atomics_that_give_the_cpu_away_are_allowed(name: str) -> None:
    assert satisfied_by(name) == ("atomic_acq_rel",)


def test_an_unknown_technique_is_told_with_the_nearest() -> None:
    with pytest.raises(HarnessError, match="did you mean 'acquire_yield'"):
        satisfied_by("aquire_yield")
