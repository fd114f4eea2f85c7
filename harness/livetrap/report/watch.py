"""What came of a watch: how often each cell hung, the first hang of each kind in full, and the last lines."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from livetrap.model import BUGS, HANGS, UNCOUNTED, Record, Shape, Value, Verdict, cell_key
from livetrap.report.evidence import left_of, print_gathered, threads_of, wakeable_of
from livetrap.report.summary import shapes_text, values_text, verdicts_text
from livetrap.report.text import one_line, plural, print_columns, seconds, styled
from livetrap.report.trial import print_threads
from livetrap.stats import rate_text
from livetrap.watching import VARIANT, Watch, exit_status

MOST_CELLS = 40
"""Rows of the table; cells that hung come first where there are more."""
MOST_TOLD = 3
"""Trials that are told in full."""
MOST_THREADS = 64
ENDS = {0: "every trial passed", 1: "NOT as expected", 3: "nothing is said"}
HUNG = "hung"


class Tally:
    """What a watch has come to so far: counts and shapes a cell, and the few trials that are told in full."""

    def __init__(self) -> None:
        self.trials = 0
        self.counts: Counter[Verdict] = Counter()
        self.told: list[Record] = []
        """The first trial of each verdict but `passed`, by cells: hangs have the first word."""
        self.last: Record | None = None
        self.left: list[tuple[int, ...]] = []
        """The processes of each hang that was left alive."""
        self._cells: dict[str, Counter[Verdict]] = {}
        self._shapes: dict[str, dict[Shape, None]] = {}

    def add(self, record: Record) -> None:
        """Counts a finished trial."""
        key = cell_key(VARIANT, record.cell)
        counts = self._cells.setdefault(key, Counter())
        self.trials += 1
        self.counts[record.verdict] += 1
        counts[record.verdict] += 1
        self.last = record
        left = left_of(record.evidence)
        if left:
            self.left.append(left)
        if record.verdict in HANGS:
            self._shapes.setdefault(key, {})[record.shape] = None
        if record.verdict is not Verdict.PASSED and counts[record.verdict] == 1:
            self.told.append(record)
            self.told.sort(key=_weight)
            del self.told[MOST_TOLD:]

    def of(self, cell: Mapping[str, Value]) -> Counter[Verdict]:
        """The verdicts of one cell."""
        return self._cells.get(cell_key(VARIANT, cell), Counter())

    def shapes(self, cell: Mapping[str, Value]) -> tuple[Shape, ...]:
        """The shapes of one cell's hangs, each once."""
        return tuple(self._shapes.get(cell_key(VARIANT, cell), {}))


def _weight(record: Record) -> tuple[bool, bool, int]:
    return record.verdict not in HANGS, record.verdict not in BUGS, record.id


def print_watch(console: Console, watch: Watch, tally: Tally) -> None:
    """The table of cells, then those trials that tell most."""
    if tally.trials:
        console.print()
        _print_table(console, watch, tally)
    told = tally.told[: MOST_TOLD if tally.counts.keys() & BUGS else 1]
    for record in told:
        console.print()
        print_trial_found(console, record)
    console.print()


def print_watch_end(
    console: Console,
    watch: Watch,
    tally: Tally,
    *,
    took_s: float,
    db: Path,
    interrupted: bool = False,
    failed: bool = False,
) -> None:
    """The last lines: how it ended, and where the record is. `failed`: it ended early, not by an interruption."""
    _print_left(console, tally)
    ending = "interrupted" if interrupted else "ended early" if failed else ENDS[exit_status(tally.counts)]
    hung = sum(tally.counts[verdict] for verdict in HANGS)
    counted = sum(count for verdict, count in tally.counts.items() if verdict not in UNCOUNTED)
    uncounted = sum(tally.counts.values()) - counted
    ended = hung and not (watch.options.keep_going or interrupted or failed)
    stopped = "; it ends at the first hang, --keep-going goes on" if ended else ""
    others = [f", {verdict.value} {count}" for verdict, count in tally.counts.items() if verdict in BUGS - HANGS]
    beside = "".join([*others, f", {uncounted} more say nothing" if uncounted else ""])
    done = f"hung {hung} of {plural(counted, 'trial')}{beside}, in {seconds(took_s)}{stopped}"
    if ending == ENDS[3] and tally.counts[Verdict.PASSED]:
        ending = ", ".join(f"{count} {verdict.value}" for verdict, count in tally.counts.most_common())
        done = f"not every trial passed, in {seconds(took_s)}"
    console.print(Text.assemble((f"{ending}: ", "bold"), done), soft_wrap=True)
    telling = tally.told[0] if tally.told else tally.last
    if telling:
        console.print(f"record: {db}  (one trial of it: livetrap show {db} {telling.id})", soft_wrap=True)


def _print_left(console: Console, tally: Tally) -> None:
    """All that are left alive, where it is more than the one hang that is told in full."""
    if len(tally.left) > 1:
        pids = " ".join(str(pid) for left in tally.left for pid in left)
        hangs = plural(len(tally.left), "hung trial")
        console.print(f"left alive of {hangs}: {pids}  (when done: kill -KILL {pids})", soft_wrap=True)


# --- the table -------------------------------------------------------------------------------------------------------


def _print_table(console: Console, watch: Watch, tally: Tally) -> None:
    ran = [cell for cell in watch.cells if tally.of(cell)]
    axes = {name: tuple(dict.fromkeys(cell[name] for cell in ran)) for name in ran[0]}
    if axes:
        text = "; ".join(f"{one_line(name)} {values_text(values)}" for name, values in axes.items())
        console.print(Text(text, style="dim"))
    varied = [name for name, values in axes.items() if len(values) > 1]
    shown = (
        sorted(ran, key=lambda cell: not tally.of(cell).keys() & BUGS)[:MOST_CELLS] if len(ran) > MOST_CELLS else ran
    )
    rows = [
        [
            *(Text(one_line(str(cell[name]))) for name in varied),
            verdicts_text(tally.of(cell)),
            Text(_rate(tally.of(cell))),
            Text(shapes_text(tally.shapes(cell))),
        ]
        for cell in shown
    ]
    print_columns(console, [*map(one_line, varied), "verdicts", HUNG, "shape"], rows, whole=[HUNG])
    if len(shown) < len(ran):
        console.print(f"and {plural(len(ran) - len(shown), 'more cell')}, the cells that hung are all above if any is")


def _rate(counts: Mapping[Verdict, int]) -> str:
    """How often it hung, with the exact interval; of conclusive trials alone."""
    counted = sum(count for verdict, count in counts.items() if verdict not in UNCOUNTED)
    return rate_text(sum(counts.get(verdict, 0) for verdict in HANGS), counted) if counted else ""


# --- one trial -------------------------------------------------------------------------------------------------------


def print_trial_found(console: Console, record: Record) -> None:
    """A trial that did not pass: verdict and why, threads, spin site, stacks, output, and what is left of it."""
    evidence = record.evidence
    cell = " ".join(f"{name}={value}" for name, value in record.cell.items())
    certainty = f" ({record.certainty.value})" if record.verdict in HANGS else ""
    shape = f", {record.shape}" if record.verdict in HANGS else ""
    title = f"trial {record.id}{f' ({one_line(cell)})' if cell else ''}: "
    console.print(Text.assemble((title, "bold"), styled(record.verdict), f"{certainty}{shape}"), soft_wrap=True)
    console.print(Text(f"  {one_line(str(evidence.get('reason', '')), most=2000)}"), soft_wrap=True)
    for line in _ending(record):
        console.print(Text(f"  {line}"), soft_wrap=True)
    threads = threads_of(evidence)
    if threads:
        print_threads(console, threads[:MOST_THREADS], wakeable_of(evidence), modules={})
        if len(threads) > MOST_THREADS:
            console.print(f"  and {plural(len(threads) - MOST_THREADS, 'more thread')}")
    print_gathered(console, evidence)


def _ending(record: Record) -> Sequence[str]:
    """How it ended and what else is known of it, a line each."""
    evidence = record.evidence
    times = f"after {seconds(record.wall_s)}, {plural(record.beats, 'beat')}"
    if record.verdict in HANGS:
        times += f", {seconds(record.stall_s)} since the last sign of progress"
    lines = [times]
    code = evidence.get("exit_code")
    if isinstance(code, int) and record.verdict not in {Verdict.FAILED, Verdict.CRASHED}:  # whose reason has it
        lines.append(f"exit code {code}")
    if evidence.get("disturbance"):
        lines.append(f"disturbed: {one_line(str(evidence['disturbance']), most=400)}")
    return lines


def command_text(command: Sequence[str]) -> str:
    """A command as a shell takes it, on one line."""
    return one_line(shlex.join(command), most=400)
