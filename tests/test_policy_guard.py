"""Keeps the founding bug fixed: the four guards of the policy, and their ties to the code that is built and run.

Change the plan, or the technique that it stands for, and one of these fails: that is what they are for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from livetrap.build.compilers import installed_compilers
from livetrap.errors import HarnessError
from livetrap.policy import (
    ALLOWED_TECHNIQUES,
    BARRIER_KINDS,
    POLICY,
    OrtQmoeCpuFp16LivelockPolicy,
    plan_barrier,
    satisfied_by,
)
from tests.compiled_wait import ARM64, Toolchain, called, compiled, for_arm64, native, parsed, waits
from tests.end_to_end.running import livetrap

PLAN = plan_barrier(POLICY)
PLANS = [plan_barrier(OrtQmoeCpuFp16LivelockPolicy(barrier_kind=kind)) for kind in BARRIER_KINDS]
GIVES_WAY = {"atomic_acq_rel": "sched_yield", "condition_variable": "pthread_cond_wait"}
"""What each step of a wait of that kind must call. The system's barrier has no loop of ours."""

SCENARIO = """
schema = 1
name = "policy-guard"
summary = "The planned technique and a forbidden one, on one barrier."
[target]
kernel = "barrier_rounds"
[target.parameters]
rounds = 20
[budget]
trials = 3
timeout_s = 10.0
[axes]
threads = [2, 4]
flags = ["-O2"]
[variants.buggy]
role = "buggy"
axes = {{ technique = ["{forbidden}"] }}
[variants.fixed]
role = "fixed"
axes = {{ technique = [{planned}] }}
[[expect]]
match = {{ variant = "buggy" }}
verdicts = ["livelock"]
[[expect]]
verdicts = ["passed"]
"""

# --- the four guards -------------------------------------------------------------------------------------------------


def test_the_barrier_is_of_an_allowed_kind_and_no_raw_spin() -> None:
    assert PLAN.kind in {"atomic_acq_rel", "condition_variable", "os_barrier"}
    assert PLAN.technique != "raw_spin"
    assert PLAN.technique in ALLOWED_TECHNIQUES
    assert PLAN.kind in satisfied_by(PLAN.technique)
    assert satisfied_by("raw_spin") == ()
    with pytest.raises(HarnessError, match="atomic_acq_rel, condition_variable, os_barrier"):
        OrtQmoeCpuFp16LivelockPolicy(barrier_kind="raw_spin")


def test_a_spin_must_yield() -> None:
    assert PLAN.must_yield
    with pytest.raises(HarnessError, match="spin_must_yield"):
        OrtQmoeCpuFp16LivelockPolicy(spin_must_yield=False)


def test_apple_silicon_is_covered() -> None:
    assert {"apple-silicon", "arm", "arm64"} <= set(PLAN.platforms)


def test_the_affected_kernel_is_listed() -> None:
    assert "QMoECPU<MLFloat16>" in POLICY.affected_kernels
    assert "QMoECPU<MLFloat16>" in POLICY.describe()


# --- tied to what runs -----------------------------------------------------------------------------------------------

Trials = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    """One campaign with the planned technique of each kind and a forbidden one, by technique."""
    if not installed_compilers():
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("guard") / "policy-guard"
    folder.mkdir()
    planned = ", ".join(f'"{name}"' for name in dict.fromkeys(plan.technique for plan in PLANS))
    (folder / "scenario.toml").write_text(SCENARIO.format(planned=planned, forbidden="raw_spin"))
    done = livetrap("run", folder, "--json", "-", folder=folder.parent, limit_s=90)
    by_technique: Trials = {}
    for trial in done.trials:
        by_technique.setdefault(trial["cell"]["technique"], []).append(trial)
    assert by_technique, done.err
    return by_technique


@pytest.mark.slow
@pytest.mark.parametrize("technique", [plan.technique for plan in PLANS])
def test_the_planned_technique_passes(trials: Trials, technique: str) -> None:
    assert len(trials[technique]) >= 6
    for trial in trials[technique]:
        assert trial["verdict"] == "passed", (technique, trial["cell"], trial["verdict"], trial["evidence"]["reason"])


@pytest.mark.slow
def test_a_forbidden_technique_is_caught(trials: Trials) -> None:
    assert len(trials["raw_spin"]) >= 6
    for trial in trials["raw_spin"]:
        assert trial["verdict"] == "livelock", (trial["cell"], trial["verdict"], trial["evidence"]["reason"])
        assert trial["shape"]["spinning"] >= 1


# --- tied to what is compiled ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O3"])
@pytest.mark.parametrize("plan", PLANS[:2], ids=lambda plan: plan.kind)
def test_each_step_of_the_planned_wait_gives_way(plan: Any, flags: str, tmp_path: Path) -> None:
    for toolchain in here():
        found = waits(compiled(plan.technique, toolchain, flags=flags, folder=tmp_path))
        assert found, f"{toolchain.name} {flags}: {plan.technique} has no loop that waits"
        for loop in found:
            wanted = GIVES_WAY[plan.kind]
            assert wanted in loop.calls, f"{toolchain.name} {flags}: {plan.technique} spins without {wanted}:\n{loop}"


@pytest.mark.slow
def test_the_planned_system_barrier_has_no_loop_of_its_own(tmp_path: Path) -> None:
    for toolchain in here():
        functions = compiled(PLANS[2].technique, toolchain, flags="-O2", folder=tmp_path)
        assert waits(functions) == []
        assert "lt_os_barrier_wait" in called(functions)


@pytest.mark.slow
@pytest.mark.parametrize("technique", ["raw_spin", "acquire_spin"])
def test_a_forbidden_wait_is_seen_not_to_yield(technique: str, tmp_path: Path) -> None:
    """The check on the check: these loops are found, and found to call nothing."""
    for toolchain in here():
        found = waits(compiled(technique, toolchain, flags="-O2", folder=tmp_path))
        assert found
        assert not any(loop.calls for loop in found)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_the_planned_wait_loads_with_acquire(flags: str, tmp_path: Path) -> None:
    """Only arm64 shows it: x86-64 compiles an acquire load like a plain one. The other kinds leave it to the system."""
    plan = next(each for each in PLANS if each.kind == "atomic_acq_rel")
    found = waits(compiled(plan.technique, arm64(), flags=flags, folder=tmp_path))
    assert found
    for loop in found:
        assert loop.acquires, f"{plan.technique} {flags}: no acquire load in\n{loop}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("technique", ["raw_spin", "volatile_spin", "relaxed_spin"])
def test_a_load_without_acquire_is_seen(technique: str, tmp_path: Path) -> None:
    found = waits(compiled(technique, arm64(), flags="-O2", folder=tmp_path))
    assert found
    assert not any(loop.acquires for loop in found)


def here() -> tuple[Toolchain, ...]:
    """The compilers of this machine; skips where what they make cannot be read."""
    if not native():
        pytest.skip("no C compiler, or no objdump, here")
    return native()


def arm64() -> Toolchain:
    """What compiles for arm64; skips where nothing does."""
    found = for_arm64()
    if found is None:
        pytest.skip("an acquire load shows on arm64 only, and there is no compiler and disassembler for it here")
    assert found.arch == ARM64
    return found


@pytest.mark.parametrize(
    "listing",
    [
        """
0000000000000010 <spin_until>:
  1b:	jmp    25 <spin_until+0x15>
  20:	call   25 <spin_until+0x15>
			21: R_X86_64_PLT32	sched_yield-0x4
  25:	mov    0x0(%rbp),%eax
  2a:	je     20 <spin_until+0x10>
  33:	jmp    0 <publish>
""",
        """
0000000000000010 <_spin_until>:
      20:      	b	0x28 <_spin_until+0x18>
      24:      	bl	0x24 <_spin_until+0x14>
		0000000000000024:  ARM64_RELOC_BRANCH26	_sched_yield
      28:      	ldapr	w8, [x19]
      2c:      	b.eq	0x24 <_spin_until+0x14>
""",
        """
0000000000000010 <spin_until>:
  24:	bl	0 <sched_yield>
			24: R_AARCH64_CALL26	sched_yield
  28:	ldar	w2, [x20]
  30:	cbz	w2, 24 <spin_until+0x14>
""",
    ],
    ids=["GNU, x86-64", "LLVM, Mach-O", "GNU, arm64"],
)
def test_listings_of_all_disassemblers_are_read(listing: str) -> None:
    (loop,) = waits(parsed(listing))
    assert loop.function == "spin_until"
    assert loop.calls == {"sched_yield"}
    assert loop.acquires == ("lda" in listing)
