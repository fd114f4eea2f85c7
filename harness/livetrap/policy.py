"""The policy that keeps the founding bug from coming back, and the technique that it stands for.

microsoft/onnxruntime#29047: a team of threads in `QMoECPU<MLFloat16>` that now and then never comes back. Public
accounts blame a spin without memory ordering. Whatever the true cause, these rules exclude that one: a barrier orders
memory, a spin gives the CPU away, and the fix holds where memory is weakly ordered. `docs/policy.md` says why.
"""

from __future__ import annotations

from livetrap.errors import HarnessError, nearest
from livetrap.model import Frozen

PLATFORMS = ("apple-silicon", "arm", "arm64")
"""Where memory is weakly ordered: what x86-64 forgives shows there."""
KERNELS = ("QMoECPU<MLFloat16>",)
"""The kernels that the founding bug is known in."""

_TECHNIQUE_OF = {
    "atomic_acq_rel": "acquire_yield",
    "condition_variable": "condition_variable",
    "os_barrier": "os_barrier",
}
BARRIER_KINDS = tuple(_TECHNIQUE_OF)
"""The kinds of barrier that the policy allows."""


class Standing(Frozen, kw_only=True):
    """Where a technique stands with the policy."""

    technique: str
    kinds: tuple[str, ...]
    """The allowed kinds that it satisfies; none: the policy forbids it."""
    spins_without_yield: bool
    reason: str
    """Why, in words that follow the name: "acquire_yield reads ..."."""


_STANDINGS = (
    Standing(
        technique="raw_spin",
        kinds=(),
        spins_without_yield=True,
        reason="spins on a plain variable, which the compiler may read once for all, and never yields",
    ),
    Standing(
        technique="volatile_spin",
        kinds=(),
        spins_without_yield=True,
        reason="reads at each step, but a volatile variable orders nothing (fences beside it have to) and is still a "
        "data race in C11, and it burns its CPU: it never yields",
    ),
    Standing(
        technique="relaxed_spin",
        kinds=(),
        spins_without_yield=True,
        reason="reads an atomic variable at each step, but its loads order nothing (a fence after the loop has to), "
        "and it burns its CPU: it never yields",
    ),
    Standing(
        technique="acquire_spin",
        kinds=(),
        spins_without_yield=True,
        reason="has the ordering, but burns its CPU: it never yields, so that with more threads than CPUs a waiter "
        "spends the time slice that its peer needs",
    ),
    Standing(
        technique="acquire_yield",
        kinds=("atomic_acq_rel",),
        spins_without_yield=False,
        reason="reads an atomic variable with acquire at each step and gives the CPU away in between",
    ),
    Standing(
        technique="acquire_backoff",
        kinds=("atomic_acq_rel",),
        spins_without_yield=False,
        reason="reads an atomic variable with acquire at each step; after a bounded number of pauses it yields, then "
        "naps",
    ),
    Standing(
        technique="futex_wait",
        kinds=("atomic_acq_rel",),
        spins_without_yield=False,
        reason="reads an atomic variable with acquire, and sleeps in the kernel on that word in between",
    ),
    Standing(
        technique="condition_variable",
        kinds=("condition_variable",),
        spins_without_yield=False,
        reason="sleeps in a condition variable, and its mutex does the ordering",
    ),
    Standing(
        technique="os_barrier",
        kinds=("os_barrier",),
        spins_without_yield=False,
        reason="leaves waiting and ordering to the system's own barrier",
    ),
)
ALLOWED_TECHNIQUES = tuple(each.technique for each in _STANDINGS if each.kinds)
"""Techniques that satisfy the policy in one of its kinds."""


def _not_a_kind(kind: object) -> str:
    allowed = f"allowed: {', '.join(BARRIER_KINDS)}"
    found = next((each for each in _STANDINGS if each.technique == kind), None)
    if found is not None and not found.kinds:
        return f"barrier_kind {kind!r} is outside the policy: it {found.reason}; {allowed}"
    if found is not None:
        return f"barrier_kind {kind!r} is a technique, of the kind {' or '.join(found.kinds)}; {allowed}"
    return f"barrier_kind {kind!r} is outside the policy; {allowed}"


def _check_covers(field: str, given: object, needed: tuple[str, ...]) -> None:
    if not isinstance(given, tuple) or not all(isinstance(each, str) and each for each in given):
        raise HarnessError(f"{field}: a tuple of names is wanted, with {', '.join(needed)} at least; not {given!r}")
    missing = [each for each in needed if each not in given]
    if missing:
        raise HarnessError(f"{field}: the policy asks for {', '.join(needed)} at least; missing: {', '.join(missing)}")


class OrtQmoeCpuFp16LivelockPolicy(Frozen, kw_only=True):
    """What a barrier of the affected kernels must be. One that breaks its own rules cannot be made.

    HarnessError: a value outside the policy, saying what is allowed.
    """

    barrier_kind: str = "atomic_acq_rel"
    """`atomic_acq_rel`, `condition_variable` or `os_barrier`."""
    spin_must_yield: bool = True
    must_fix_platforms: tuple[str, ...] = PLATFORMS
    """At least PLATFORMS."""
    affected_kernels: tuple[str, ...] = KERNELS
    """At least KERNELS."""

    def __post_init__(self) -> None:
        if not isinstance(self.barrier_kind, str) or self.barrier_kind not in _TECHNIQUE_OF:
            raise HarnessError(_not_a_kind(self.barrier_kind))
        if self.spin_must_yield is not True:
            raise HarnessError(
                "spin_must_yield: the policy allows only true: a spin that never yields can burn for ever"
            )
        _check_covers("must_fix_platforms", self.must_fix_platforms, PLATFORMS)
        _check_covers("affected_kernels", self.affected_kernels, KERNELS)

    def describe(self) -> str:
        """The policy in one sentence."""
        return (
            f"{', '.join(self.affected_kernels)}: the barrier is {self.barrier_kind} "
            f"(allowed: {', '.join(BARRIER_KINDS)}; never a raw spin), any spin yields, "
            f"and the fix holds on {', '.join(self.must_fix_platforms)}"
        )


class BarrierPlan(Frozen, kw_only=True):
    """What to build for a policy."""

    kind: str
    must_yield: bool
    """Whatever spins, before it sleeps or instead, gives the CPU away."""
    platforms: tuple[str, ...]
    technique: str
    """The technique in csrc/techniques that the kind stands for."""


POLICY = OrtQmoeCpuFp16LivelockPolicy()
"""The default."""


def plan_barrier(policy: OrtQmoeCpuFp16LivelockPolicy = POLICY) -> BarrierPlan:
    """What the policy asks to be built."""
    return BarrierPlan(
        kind=policy.barrier_kind,
        must_yield=policy.spin_must_yield,
        platforms=policy.must_fix_platforms,
        technique=_TECHNIQUE_OF[policy.barrier_kind],
    )


def standing(technique: str) -> Standing:
    """Where one of our techniques stands with the policy, and why. HarnessError: there is no such technique."""
    known = {each.technique: each for each in _STANDINGS}
    if technique not in known:
        raise HarnessError(f"the policy knows no technique {technique!r}: {nearest(technique, known)}")
    return known[technique]


def satisfied_by(technique: str) -> tuple[str, ...]:
    """The allowed kinds that a technique satisfies; none: forbidden. HarnessError: there is no such technique."""
    return standing(technique).kinds
