"""What fuzzing draws from, in which order, what it remembers, and how a search of it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from livetrap import fuzzing, strategies
from livetrap.errors import HarnessError
from livetrap.falsifying import Falsifier, Found
from livetrap.fuzzing import MOST_REPEATS, REPLAYS, Memory, Space, Trial, space_of, trial_of
from livetrap.model import (
    Certainty,
    Cpu,
    KernelInfo,
    Manifest,
    ParamInfo,
    Record,
    Shape,
    Topology,
    Value,
    VariantRole,
    Verdict,
)
from livetrap.plan import Options, Plan, plan
from livetrap.scenario import Scenario, parse

TOPOLOGY = Topology(
    os="linux", arch="x86_64", cpus=tuple(Cpu(id=i, core=i, package=0) for i in range(4)), affinity=True
)
KERNEL = KernelInfo(name="k", params={"rounds": ParamInfo(name="rounds", least=1, most=10_000, fallback=1000)})
TEXT = """
schema = 1
name = "s"
summary = "s"
[target]
kernel = "k"
[axes]
threads = [4, 2, 8]
placement = ["one-core", "free"]
disturbance = ["hogs:4", "none", "migrate", "hogs:2"]
flags = ["-O2", "-O0"]
[variants.buggy]
role = "buggy"
[variants.narrow]
role = "widened"
parameters = { rounds = 5 }
axes = { threads = [2, 4] }
[variants.fixed]
role = "fixed"
[[expect]]
match = { variant = ["buggy", "narrow"] }
verdicts = ["livelock"]
[[expect]]
verdicts = ["passed"]
"""


def scenario() -> Scenario:
    return parse(TEXT, path="s.toml", kernels=["k"], techniques=[])


def planned(options: Options) -> Plan:
    return plan(
        scenario(),
        options=options,
        topology=TOPOLOGY,
        compilers={"gcc": "gcc 13"},
        manifest=Manifest(kernels={"k": KERNEL}, techniques={}),
        seed=1,
    )


def space(options: Options | None = None, lacking: Mapping[str, str] | None = None) -> Space:
    given = options or Options()
    return space_of("s", planned(given), options=given, kernel=KERNEL, topology=TOPOLOGY, lacking=lacking or {})


def record(trial: Trial, verdict: Verdict) -> Record:
    return Record(
        id=1,
        scenario="s",
        variant=trial.variant,
        role=VariantRole.BUGGY,
        cell=dict(trial.cell),
        compiler="",
        placement={},
        seed=trial.seed,
        verdict=verdict,
        certainty=Certainty.OBSERVED,
        phase=None,
        shape=Shape(),
        expected=(Verdict.LIVELOCK,),
        as_expected=None,
        wall_s=0.0,
        stall_s=0.0,
        verdict_latency_s=None,
        longest_stall_s=0.0,
        beats=0,
        evidence={},
    )


def trial(**cell: Value) -> Trial:
    return Trial(scenario="s", variant="buggy", cell=cell)


def test_the_simplest_comes_first_and_open_axes_are_wider() -> None:
    axes = space().variants["buggy"]
    assert list(axes)[:4] == ["disturbance", "threads", "placement", "rounds"]
    assert axes["disturbance"] == ("none", "migrate", "hogs:2", "hogs:4")
    assert axes["threads"] == (2, 3, 4, 5, 6, 7, 8)
    assert axes["placement"][:4] == ("free", "one-core", "spread", "pack")
    assert axes["rounds"] == (10, 100, 1000)
    assert axes["flags"] == ("-O2", "-O0"), "as written"


def test_a_variant_keeps_what_it_fixes_and_gets_no_value_that_only_others_list() -> None:
    axes = space().variants["narrow"]
    assert axes["threads"] == (2, 3, 4)
    assert "rounds" not in axes


def test_options_are_kept_to() -> None:
    axes = space(Options(threads=(8, 2), placement=("one-core",), variants=("buggy",))).variants
    assert list(axes) == ["buggy"]
    assert axes["buggy"]["threads"] == (2, 8)
    assert axes["buggy"]["placement"] == ("one-core",)


def test_what_cannot_run_here_is_left_out_with_the_reason() -> None:
    found = space(lacking={"migrate": "not today"})
    assert "migrate" not in found.variants["buggy"]["disturbance"]
    assert found.reasons == ("migrate: not today",)


def test_a_trial_is_printed_as_it_is_written_and_read_by_its_key() -> None:
    one = strategies.trial("s", variant="buggy", seed=3, timeout=2, threads=2, placement="free")
    assert eval(repr(one), {"strategies": strategies}) == one
    read = trial_of(one.key)
    assert read is not None and read.key == one.key and read == one
    assert trial_of("[]") is None and trial_of("{") is None


def test_kept_trials_are_those_of_the_space_the_simplest_first() -> None:
    whole = space()
    cell = {name: values[0] for name, values in whole.variants["buggy"].items()}
    plain, wide = trial(**cell), trial(**{**cell, "threads": 8})
    stray = trial(**{**cell, "threads": 99})
    assert whole.kept([stray.key, wide.key, "?", plain.key]) == [plain, wide]


def test_a_trial_is_repeated_only_after_the_first_bug() -> None:
    memory = Memory()
    one, other = trial(threads=2), trial(threads=3)
    for _ in range(30):
        memory.tell(one, [record(one, Verdict.PASSED)])
    memory.tell(one, [record(one, Verdict.INCONCLUSIVE)])
    assert memory.repeats(other) == 1
    memory.tell(one, [record(one, Verdict.DEADLOCK)])
    assert memory.repeats(other) == 30
    assert memory.seen(one)[0].verdict == "deadlock" and not memory.seen(other)
    for _ in range(2 * MOST_REPEATS):
        memory.tell(other, [record(other, Verdict.PASSED)])
    assert memory.repeats(other) == 30, "what passes while shrinking says nothing of how rare the bug is"


def test_one_that_is_known_is_repeated_at_once_and_forgotten_when_it_is_well() -> None:
    one, forgotten = trial(threads=2), list[str]()
    memory = Memory(known=[one.key], forget=forgotten.append)
    assert memory.repeats(one) == REPLAYS
    memory.tell(one, [record(one, Verdict.SKIPPED)])
    assert not forgotten
    memory.tell(one, [record(one, Verdict.PASSED)] * REPLAYS)
    assert forgotten == [one.key] and memory.repeats(one) == 1


@pytest.mark.parametrize(
    ("verdict", "variants", "conclusive", "status"),
    [
        (Verdict.LIVELOCK, ("buggy",), 1, 0),
        (Verdict.CORRUPT, ("buggy",), 1, 1),
        (None, ("buggy",), 9, 1),
        (None, ("fixed",), 9, 0),
        (None, ("fixed",), 0, 3),
    ],
)
def test_exit_status(verdict: Verdict | None, variants: tuple[str, ...], conclusive: int, status: int) -> None:
    drawn = msgspec.structs.replace(space(), variants={name: {} for name in variants})
    bug = record(trial(), verdict) if verdict else None
    assert fuzzing.status(drawn, scenario(), bug, conclusive=conclusive) == status


# --- a search, of a target that is but a function --------------------------------------------------------------------


class Target:
    """Hangs with 3 threads or more where it is not confined, whatever else; counts its trials."""

    def __init__(self) -> None:
        self.ran: list[Trial] = []

    def __call__(self, one: Trial, repeats: int) -> Sequence[Record]:
        self.ran.append(one)
        hangs = int(one.cell["threads"]) >= 3 and one.cell["placement"] != "confined:2" and one.cell["flags"] == "-O2"
        return [record(one, Verdict.LIVELOCK)] if hangs else [record(one, Verdict.PASSED)] * repeats


def search(target: Target, *, seed: int = 1, kept: strategies.Kept | None = None, fresh: bool = False) -> Found:
    return Falsifier(space(), target, seed=seed, for_s=None, most=200, kept=kept, fresh=fresh).run()


@pytest.mark.parametrize("seed", range(4))
def test_what_falsifies_is_shrunk_to_the_simplest(seed: int) -> None:
    found = search(Target(), seed=seed)
    assert found.trial is not None
    cell = found.trial.cell
    assert (cell["threads"], cell["placement"], cell["disturbance"], found.trial.seed) == (3, "free", "none", 0)


def test_the_same_seed_draws_the_same() -> None:
    first, second = Target(), Target()
    search(first, seed=7)
    search(second, seed=7)
    assert first.ran == second.ran


def test_the_next_search_replays_it_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = search(Target(), kept=strategies.Kept("s"))
    again = Target()
    found = search(again, kept=strategies.Kept("s"))
    assert found.replayed and found.trial == first.trial and len(again.ran) == 1
    assert not search(Target(), kept=strategies.Kept("s"), fresh=True).replayed


def test_one_that_is_well_by_now_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    search(Target(), kept=strategies.Kept("s"))
    well = Falsifier(
        space(),
        lambda one, repeats: [record(one, Verdict.PASSED)] * repeats,
        seed=1,
        for_s=None,
        most=3,
        kept=strategies.Kept("s"),
    ).run()
    assert well.trial is None and well.trials == REPLAYS + 3
    assert not strategies.Kept("s").keys()


def test_it_ends_when_the_time_is_over() -> None:
    now = [0.0]

    def attempt(one: Trial, _repeats: int) -> Sequence[Record]:
        now[0] += 1.0
        return [record(one, Verdict.PASSED)]

    found = Falsifier(space(), attempt, seed=1, for_s=5.0, most=None, clock=lambda: now[0]).run()
    assert found.trials == 5 and found.trial is None and not found.ended_early


def test_what_the_harness_could_not_do_is_raised() -> None:
    def refuse(_one: Trial, _repeats: int) -> Sequence[Record]:
        raise HarnessError("the disk is full", status=3)

    with pytest.raises(HarnessError, match="the disk is full"):
        Falsifier(space(), refuse, seed=1, for_s=None, most=5).run()


def test_a_cell_that_the_kernel_does_not_have_is_passed_over() -> None:
    target = Target()

    def attempt(one: Trial, repeats: int) -> Sequence[Record]:
        if one.cell["flags"] == "-O0":
            raise HarnessError("no such cell")
        return target(one, repeats)

    found = Falsifier(space(), attempt, seed=1, for_s=None, most=100).run()
    assert found.trial is not None
