"""The figures of watched commands: what starting one costs, what watching costs it, and how soon a hang is called."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from livetrap.model import CommandSpec, Gaps, Placement, PlannedTrial, Rules, VariantRole, Verdict
from livetrap.page import Page
from livetrap.targets.supervisor import Supervisor
from livetrap.trial import Job, Outcome, run_trial

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "end_to_end" / "programs"
ROUNDS_S = 6.0
"""About how long that command runs: silent for so long that it becomes suspect, and is stopped now and then."""

Row = tuple[str, float, float, str]


def rows(*, starts: int, triples: int) -> list[Row]:
    """All figures of commands: name, value, bound, unit."""
    with tempfile.TemporaryDirectory() as folder, Supervisor.start() as supervisor:
        bench = _Bench(Path(folder), supervisor)
        found = [("start and reap of /bin/true over subprocess.run, median", bench.start_ms(starts), 5, "ms")]
        cost, noise, share = bench.watching(triples)
        beside = f"median of {triples}; unwatched against itself {noise:+.1f} %"
        name = f"run time of a watched barrier-bound command ({beside})"
        found.append((name, cost, 1, "% more"))
        found.append(("CPU of the harness while it watches that", share, 3, "% of a core"))
        found.append(("silent livelock: start to verdict", bench.stall_s("plain"), 8, "s"))
        found.append(("silent poll without end: start to verdict", bench.stall_s("poll"), 8, "s"))
        found.append(("silent deadlock: start to verdict", bench.stall_s("deadlock"), 8, "s"))
        return found


class _Bench:
    def __init__(self, folder: Path, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._rounds = _compiled(HERE / "rounds.c", folder)
        self._hangs = _compiled(PROGRAMS / "hangs.c", folder)

    def start_ms(self, count: int) -> float:
        """Median of the differences between a launch by the supervisor and subprocess.run, alternating."""
        spec = CommandSpec(argv=("/bin/true",))
        differences = []
        for _ in range(count):
            began = time.monotonic()
            with Page.create(256) as page:
                self._supervisor.launch_command(command=spec, page=page)
                self._supervisor.wait(5.0)
                self._supervisor.sweep(2.0)
            between = time.monotonic()
            subprocess.run(["/bin/true"], check=True)
            differences.append((between - began) - (time.monotonic() - between))
        return statistics.median(differences) * 1e3

    def watching(self, triples: int) -> tuple[float, float, float]:
        """By how many per cent a watched run takes longer than the two around it, by how many the second of those than
        the first (the noise of the measurement), and the CPU that the harness uses meanwhile, likewise."""
        rounds = 20_000
        while (took := statistics.median(self._alone(rounds) for _ in range(3))) < ROUNDS_S / 2:
            rounds = int(rounds * min(10.0, ROUNDS_S / max(took, 0.01)))
        ratios, noise, shares = [], [], []
        for _ in range(triples):
            before, watched, after = self._alone(rounds), self._watched(rounds), self._alone(rounds)
            ratios.append(2 * watched / (before + after))
            noise.append(after / before)
            shares.append(self._share)
        return (
            (statistics.median(ratios) - 1) * 100,
            (statistics.median(noise) - 1) * 100,
            statistics.median(shares) * 100,
        )

    def stall_s(self, case: str) -> float:
        """From the start of a program that hangs at once to the verdict, in seconds; infinite where it was missed."""
        outcome = self._run((str(self._hangs), case))
        hung = outcome.judgement.verdict in {Verdict.LIVELOCK, Verdict.DEADLOCK}
        return outcome.wall_s if hung else float("inf")

    def _alone(self, rounds: int) -> float:
        done = subprocess.run([self._rounds, "2", str(rounds)], check=True, stdout=subprocess.PIPE, text=True)
        return float(done.stdout)

    def _watched(self, rounds: int) -> float:
        me = psutil.Process()
        began, before = time.monotonic(), _cpu_s(me, self._supervisor.pids)
        outcome = self._run((str(self._rounds), "2", str(rounds)))
        self._share = (_cpu_s(me, self._supervisor.pids) - before) / (time.monotonic() - began)
        assert outcome.judgement.verdict is Verdict.PASSED, outcome.judgement
        return float(self._supervisor.output_tail())

    def _run(self, argv: Sequence[str]) -> Outcome:
        trial = PlannedTrial(
            ordinal=0,
            scenario="bench",
            variant="command",
            role=VariantRole.WATCHED,
            cell={},
            command=CommandSpec(argv=tuple(argv)),
            parameters={},
            seed=1,
            placement=Placement(requested="free"),
            rules=Rules(limit_s=60.0),
            expected=(),
        )
        return run_trial(trial, Job(gaps=Gaps()), supervisor=self._supervisor)


def _cpu_s(me: psutil.Process, pids: Sequence[int]) -> float:
    times = [me.cpu_times(), *(psutil.Process(pid).cpu_times() for pid in pids)]
    return sum(each.user + each.system for each in times)


def _compiled(source: Path, folder: Path) -> Path:
    out = folder / source.stem
    words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-pthread", str(source), "-o", str(out)]
    subprocess.run(words, check=True, timeout=60)
    return out


if __name__ == "__main__":
    for name, value, bound, unit in rows(starts=200, triples=10):
        print(f"{'ok  ' if value <= bound else 'OVER'}  {name}: {value:.3g} {unit} (at most {bound:g})")
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} CPUs")
