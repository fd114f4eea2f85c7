"""`make bench`: the figures that livetrap promises, measured on this machine, on a quiet one if they are to be quoted.

    python tests/bench/run.py [--trials 200] [--json FILE]

Exit status 1 when a figure is not met.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import commands
import psutil
import records

from livetrap import build, campaign, resources, scenario
from livetrap.model import BuildSpec, PlannedTrial, Record
from livetrap.plan import Options, Plan
from livetrap.store import Store
from livetrap.targets.loading import load_module

WATCHED = """
schema = 1
name = "watched"
summary = "A hang that is watched for five seconds before anything may be said."
[target]
kernel = "flag_handoff"
parameters = { flag = "plain", body = "volatile_counter", moment = "late" }
[budget]
timeout_s = 10.0
[judging]
floor_s = 5.0
[axes]
threads = [8]
[variants.watched]
role = "buggy"
"""


@dataclasses.dataclass
class Clocked:
    """Takes the records of a campaign, and the CPU time of the harness and of its helpers during each trial."""

    measure_cpu: bool = False
    records: list[Record] = dataclasses.field(default_factory=list)
    walls_s: list[float] = dataclasses.field(default_factory=list)
    shares: list[float] = dataclasses.field(default_factory=list)
    _began: float = 0.0
    _cpu: float = 0.0

    def started(self, plan: Plan) -> None: ...

    def note(self, text: str) -> None: ...

    def trial_started(self, _trial: PlannedTrial) -> None:
        self._cpu = _harness_cpu_s() if self.measure_cpu else 0.0
        self._began = time.monotonic()

    def trial_finished(self, record: Record) -> None:
        wall = time.monotonic() - self._began
        self.records.append(record)
        self.walls_s.append(wall)
        if self.measure_cpu:
            self.shares.append((_harness_cpu_s() - self._cpu) / wall)


def _harness_cpu_s() -> float:
    """CPU time of this process, its supervisor and its forker, in seconds; what they have reaped is not in it."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def run(where: str, *, cache: Path, trials: int, measure_cpu: bool = False, **options: object) -> Clocked:
    """Runs a scenario and clocks it."""
    found = scenario.load(
        where,
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=resources.technique_names(),
    )
    asked = Options(trials=trials, seed=1, **options)  # type: ignore[arg-type]
    prepared = campaign.prepare(found, options=asked, cache=cache, seed=1)
    clocked = Clocked(measure_cpu)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "bench.db") as store:
        campaign.run(prepared, store=store, listener=clocked)
    return clocked


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def beat_cost_ns(cache: Path) -> float:
    """Nanoseconds a beat, the least of five measurements of ten million."""
    compiler = next(iter(build.installed_compilers().values()))
    spec = BuildSpec(compiler=compiler.name, flags=("-O2",), kernel="flag_handoff")
    built = build.build(spec, compiler=compiler, cache=cache)
    module = load_module(built.module, str(built.path))
    return min(float(module.lib.lt_beat_cost_ns(10_000_000)) for _ in range(5))


def main() -> int:
    """Measures, prints, and says whether all is met."""
    parser = argparse.ArgumentParser(description="Measures what livetrap promises.")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    cache = build.default_cache()
    rows: list[tuple[str, float, float, str]] = []

    hangs = run(
        "raw-spin-flag",
        cache=cache,
        trials=asked.trials,
        threads=(8,),
        placement=("free",),
        flags=("-O2",),
        variants=("buggy",),
        axes={"body": ("volatile_counter",)},
        compiler=("gcc",),
    )
    missed = sum(record.verdict != "livelock" for record in hangs.records)
    latencies = [record.verdict_latency_s or 0.0 for record in hangs.records]
    reaps = [float(str(record.evidence.get("reap_s", 0))) for record in hangs.records]
    rows.append((f"raw-spin-flag, 8 threads, {len(latencies)} trials: missed", missed, 0, ""))
    rows.append(("last beat to verdict, median", statistics.median(latencies), 0.35, "s"))
    rows.append(("last beat to verdict, 95th percentile", percentile(latencies, 0.95), 0.7, "s"))

    wide = run(
        "raw-spin-flag",
        cache=cache,
        trials=max(10, asked.trials // 10),
        threads=(16,),
        placement=("free",),
        flags=("-O2",),
        variants=("buggy",),
        axes={"body": ("volatile_counter",)},
        compiler=("gcc",),
    )
    reaps = [float(str(record.evidence["reap_s"])) for record in wide.records]
    rows.append(("verdict to reaped, 16 spinning threads, median", statistics.median(reaps) * 1e3, 50, "ms"))
    rows.append(("verdict to reaped, 16 spinning threads, greatest", max(reaps) * 1e3, 50, "ms"))

    quick = run(
        "raw-spin-flag",
        cache=cache,
        trials=asked.trials,
        threads=(2,),
        placement=("free",),
        flags=("-O2",),
        variants=("fixed",),
        axes={"moment": ("early",)},
        compiler=("gcc",),
    )
    rows.append(("passing trial, 2 threads, record and all, median", statistics.median(quick.walls_s) * 1e3, 5, "ms"))
    rows.append(("one beat", beat_cost_ns(cache), 5, "ns"))

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scenario.toml").write_text(WATCHED)
        watched = run(folder, cache=cache, trials=2, measure_cpu=True)  # the first starts the supervisor
    rows.append(("CPU of the harness while it watches 8 spinning threads", watched.shares[-1] * 100, 3, "% of a core"))

    rows += commands.rows(starts=asked.trials, triples=max(2, asked.trials // 30))
    rows += records.rows()

    met = True
    for name, value, bound, unit in rows:
        good = value <= bound
        met &= good
        print(f"{'ok  ' if good else 'OVER'}  {name}: {value:.3g} {unit} (at most {bound:g})")
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} CPUs")
    if asked.json:
        asked.json.write_text(
            json.dumps([dict(zip(("name", "value", "bound", "unit"), row, strict=True)) for row in rows])
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
