"""One trial in full: verdict, recipe, threads, the last looks, and the command that repeats its cell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath

from rich.console import Console
from rich.table import Table
from rich.text import Text

from livetrap.model import (
    AWAKE,
    Ended,
    Event,
    Evidence,
    Frozen,
    LimitReached,
    Look,
    Record,
    Rules,
    ThreadId,
    ThreadJudgement,
    ThreadState,
    Value,
    VariantRole,
)
from livetrap.observe.symbols import resolve_site
from livetrap.plaintext import plain
from livetrap.report.evidence import GATHERED, print_gathered
from livetrap.report.text import one_line, plural, print_columns, seconds, styled
from livetrap.store import Stored
from livetrap.topology import cpu_list_text

LOOKS_SHOWN = 12
THREADS_SHOWN = 2
LATE_S = 0.01
"""A look that came later than this says so."""
THREADS_TITLE = "threads, since the last beat"
THREADS_HEAD = ("thread", "role", "mark", "beats", "CPU", "ran", "woken by", "where")
OPTIONS = {"threads": "--threads", "placement": "--placement", "technique": "--technique", "compiler": "--compiler"}
"""Axes with an option of their own; `flags` needs an equals sign, all others go through `--axis`."""


def print_trial(console: Console, stored: Stored, *, plan: Mapping[str, object]) -> None:
    """Prints everything that is stored of a trial; `plan` is what its campaign stored of its plan."""
    _print_verdict(console, stored)
    _print_pairs(console, "recipe", recipe_pairs(stored))
    threads = stored.judgement.threads
    if threads:
        module = str(stored.recipe.get("path", ""))
        print_threads(console, threads, stored.judgement.wakeable, modules={PurePath(module).name: module})
    print_gathered(console, stored.record.evidence)
    looks = list(timeline(stored.events, settled_ns=stored.judgement.settled_ns))
    if looks:
        _print_timeline(console, looks)
    console.print("\nrepeat this cell")
    console.print(f"  {repeat_text(stored, plan)}", soft_wrap=True)


def repeat_text(stored: Stored, plan: Mapping[str, object]) -> str:
    """The command line of the cell; of a command that was watched as it was recorded, or that of its whole watch."""
    if stored.record.role is VariantRole.WATCHED:
        return plain(str(stored.recipe.get("repeat") or plan.get("command", "")))  # a script in it keeps its lines
    return repeat_command(stored.record, plan=plan)


def repeat_command(record: Record, *, plan: Mapping[str, object]) -> str:
    """The command line that runs the cell of this trial again, quoted for a shell.

    With the seed of the whole run: a trial's own seed follows from that, its cell and its repetition.
    """
    words = ["livetrap", "run", str(plan.get("path") or record.scenario), "--variant", record.variant]
    for axis, value in record.cell.items():
        words += _option(axis, value)
    if "seed" in plan:
        words += ["--seed", str(plan["seed"])]
    return " ".join(shlex.quote(one_line(word, most=4000)) for word in words)


def _option(axis: str, value: Value) -> list[str]:
    if axis in OPTIONS:
        return [OPTIONS[axis], str(value)]
    return [f"--flags={value}"] if axis == "flags" else ["--axis", f"{axis}={value}"]


def _print_verdict(console: Console, stored: Stored) -> None:
    record, judgement = stored.record, stored.judgement
    fit = {True: "as expected", False: "NOT as expected", None: "counts neither for nor against"}[record.as_expected]
    expected = " or ".join(verdict.value for verdict in record.expected) or "nothing"
    title = Text.assemble(
        f"trial {record.id}: {one_line(record.scenario)}, variant {one_line(record.variant)}: ",
        styled(record.verdict),
        f" ({record.certainty.value}), {fit} (expected {expected})",
    )
    console.print(title)
    console.print(f"  {one_line(judgement.reason, most=2000)}")
    pairs = {
        "rule": f"{judgement.rule or '-'}, phase {judgement.phase or '-'}",
        "shape": str(record.shape),
        "beats": str(record.beats),
        "times": f"wall {seconds(record.wall_s)}, stall {seconds(record.stall_s)}, last beat to verdict "
        f"{seconds(record.verdict_latency_s)}, longest stall that ended {seconds(record.longest_stall_s)}",
        "end": ending_text(record.evidence),
        "events": f"{len(stored.events)} stored{' (suspect: all of them)' if stored.suspect else ''}",
    }
    told = ("reason", "rule", "threads", "wakeable", "reap_s", "killed", "cpu_s", *GATHERED)
    pairs |= {name: value_text(value) for name, value in record.evidence.items() if name not in told}
    _print_pairs(console, "", pairs)


def ending_text(evidence: Mapping[str, object]) -> str:
    """What it took to be rid of the target."""
    words = []
    for name, text in (("cpu_s", "used {} of CPU"), ("reap_s", "reaped {} after the verdict")):
        value = evidence.get(name)
        if isinstance(value, int | float):
            words.append(text.format(seconds(value)))
    if evidence.get("killed"):
        words.append(f"{evidence['killed']} of its processes killed")
    return ", ".join(words)


def recipe_pairs(stored: Stored) -> dict[str, str]:
    """All that repeats the trial, what is said elsewhere left out."""
    record = stored.record
    shown = {
        "cell": " ".join(f"{name}={value}" for name, value in record.cell.items()),
        "compiler": record.compiler,
        "placement": _placement(record.placement),
        "seed": str(record.seed),
    }
    trial = stored.recipe.get("trial")
    if isinstance(trial, dict):
        shown |= {name: value_text(trial.get(name) or "") for name in ("kernel", "parameters", "disturbance")}
        command = trial.get("command")
        if isinstance(command, dict):
            names = ("argv", "environment", "folder", "progress")
            shown |= {name: value_text(command.get(name) or "") for name in names}
    rules = {name: getattr(stored.rules, name) for name in stored.rules.__struct_fields__}
    changed = {name: value for name, value in rules.items() if value != getattr(Rules(), name)}
    shown["rules"] = ", ".join(f"{name} {value}" for name, value in changed.items()) or "the defaults"
    known = {*shown, "trial", "compiler_version"}
    return shown | {name.replace("_", " "): value_text(v) for name, v in stored.recipe.items() if name not in known}


def _placement(placement: Mapping[str, object]) -> str:
    effective = placement.get("effective")
    if isinstance(effective, list):
        effective = "CPUs " + ", ".join(cpu_list_text(cpus) for cpus in effective)
    return f"{placement.get('requested', '-')}; took effect: {effective if effective is not None else 'not run'}"


def value_text(value: object) -> str:
    """A value of a document as people read it: text as it is, a list of words with spaces, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    if isinstance(value, Mapping) and all(isinstance(item, str | int | float) for item in value.values()):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return json.dumps(value, ensure_ascii=False)


def _print_pairs(console: Console, title: str, pairs: Mapping[str, str]) -> None:
    if title:
        console.print(f"\n{title}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        if value:
            grid.add_row(f"  {one_line(name)}", one_line(value, most=2000))
    console.print(grid)


# --- threads ---------------------------------------------------------------------------------------------------------


def print_threads(
    console: Console,
    threads: Iterable[ThreadJudgement],
    wakeable: Iterable[ThreadId],
    *,
    modules: Mapping[str, str],
) -> None:
    console.print(f"\n{THREADS_TITLE}")
    print_columns(console, THREADS_HEAD, _texts(thread_rows(threads, wakeable, modules=modules)))


def thread_rows(
    threads: Iterable[ThreadJudgement], wakeable: Iterable[ThreadId], *, modules: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """One row of texts a thread, under `THREADS_HEAD`; `modules` as for `where`."""
    woken = set(wakeable)
    rows: list[tuple[str, ...]] = []
    for thread in threads:
        wake = thread.wake.value if thread.wake else ""
        rows.append(
            (
                f"{thread.id.pid}/{thread.id.tid}",
                thread.role.value,
                thread.mark.name.lower() if thread.mark is not None else "-",
                "-" if thread.beats is None else str(thread.beats),
                seconds(thread.cpu_s),
                "-" if thread.switches is None else plural(thread.switches, "time"),
                f"{wake} (could still be woken)" if thread.id in woken else wake,
                where(thread, modules=modules),
            )
        )
    return rows


def _texts(rows: Iterable[Sequence[str]]) -> list[list[Text]]:
    return [[Text(text) for text in row] for row in rows]


def where(thread: ThreadJudgement, *, modules: Mapping[str, str]) -> str:
    """Where a thread is, in words: what it sleeps in, its program counter, its wait site.

    `modules` gives the paths of modules: a program counter in a file that is there becomes a function and a line.
    """
    parts = [one_line(thread.sleeps_in), one_line(resolve_site(thread.pc_site, modules) or thread.pc_site)]
    if thread.loop is not None:
        parts.append(f"{thread.loop.value} loop")
    if thread.site:
        times = f", arrived {plural(thread.arrivals, 'time')}" if thread.arrivals else ""
        parts.append(f"site {thread.site}{times}")
    return "; ".join(part for part in parts if part)


# --- the last looks --------------------------------------------------------------------------------------------------


class Moment(Frozen):
    """One look, against the one before it."""

    before_s: float
    """Seconds before the verdict."""
    beats: int
    new_beats: int
    cpu_ms: dict[ThreadId, float]
    """CPU time that each thread has used since the look before; threads that used none are left out."""
    since_s: float
    """Seconds since the look before."""
    awake: int
    asleep: int
    late_s: float
    what: str = ""
    """`evidence` or `limit` where it was taken for that."""


def timeline(events: Iterable[Event], *, settled_ns: int, most: int = LOOKS_SHOWN) -> Iterator[Moment]:
    """The last looks of a trial; the first of all has nothing before it and is left out."""
    looks = [_look(event) for event in events if not isinstance(event, Ended)]
    for (before, _), (look, what) in list(pairwise(looks))[-most:]:
        used = {thread.id: thread.cpu_ns for thread in before.threads if thread.cpu_ns is not None}
        cpu_ms = {
            thread.id: (thread.cpu_ns - used[thread.id]) / 1e6
            for thread in look.threads
            if thread.cpu_ns is not None and thread.cpu_ns > used.get(thread.id, thread.cpu_ns)
        }
        yield Moment(
            before_s=(settled_ns - look.at_ns) / 1e9,
            beats=_beats(look),
            new_beats=_beats(look) - _beats(before),
            cpu_ms=cpu_ms,
            since_s=(look.at_ns - before.at_ns) / 1e9,
            awake=sum(thread.state in AWAKE for thread in look.threads),
            asleep=sum(thread.state is ThreadState.ASLEEP for thread in look.threads),
            late_s=look.late_ns / 1e9,
            what=what,
        )


def _look(event: Look | Evidence | LimitReached) -> tuple[Look, str]:
    match event:
        case Look():
            return event, ""
        case Evidence():
            return event.look, "evidence gathered"
        case LimitReached():
            return event.look, "time limit"


def _beats(look: Look) -> int:
    return look.departed_beats + sum(thread.slot.beats for thread in look.threads if thread.slot)


def _print_timeline(console: Console, moments: Iterable[Moment]) -> None:
    rows = []
    for moment in moments:
        late = f"{seconds(moment.late_s)} late" if moment.late_s >= LATE_S else ""
        rows.append(
            (
                f"-{max(0.0, moment.before_s):.3f}",
                str(moment.beats),
                f"+{moment.new_beats}",
                f"{sum(moment.cpu_ms.values()):.1f} ms in {moment.since_s * 1000:.0f} ms",
                _most(moment.cpu_ms),
                str(moment.awake),
                str(moment.asleep),
                ", ".join(text for text in (moment.what, late) if text),
            )
        )
    console.print("\nthe last looks, in seconds before the verdict; CPU time since the look before")
    print_columns(console, ("at", "beats", "new", "CPU", "by thread, ms", "awake", "asleep", ""), _texts(rows))


def _most(cpu_ms: Mapping[ThreadId, float]) -> str:
    """The threads that used most: `101 8.0, 102 7.1 and 5 more`."""
    most = sorted(cpu_ms.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{thread.tid} {ms:.1f}" for thread, ms in most[:THREADS_SHOWN])
    return f"{shown} and {len(most) - THREADS_SHOWN} more" if len(most) > THREADS_SHOWN else shown
