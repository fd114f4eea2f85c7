"""What `livetrap attach` found out: the verdict, one line a thread, the spin site, stacks, and what may not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from livetrap.attached import Attached
from livetrap.model import (
    HANGS,
    UNCOUNTED,
    Certainty,
    Ended,
    Evidence,
    Frozen,
    Judgement,
    Look,
    LoopKind,
    Mark,
    Role,
    Shape,
    ThreadEvidence,
    ThreadId,
    ThreadJudgement,
    ThreadReading,
    ThreadState,
    Verdict,
    WakeSource,
)
from livetrap.report.evidence import print_sites, print_stacks
from livetrap.report.text import one_line, plural, print_columns, seconds, styled

MOST_THREADS = 256
"""Lines of threads; the JSON has all."""


class ThreadLine(Frozen, kw_only=True):
    """One thread as `--json` writes it and the table shows it."""

    pid: int
    tid: int
    name: str
    state: ThreadState
    role: Role | None
    """None: not judged, since it came late or the process ended."""
    cpu_share: float | None
    """CPU time over the time in which it was looked at; 1 is one CPU. None: the system does not tell."""
    cpu_wait_share: float | None
    """The same of the time in which it wanted a CPU and had none."""
    mark: Mark | None
    beats: int | None
    """Since it was first looked at."""
    sleeps_in: str
    wake: WakeSource | None
    could_be_woken: bool
    """It is one of those that keep the verdict from being certain."""
    loop: LoopKind | None
    loop_site: str
    loop_traits: tuple[str, ...]
    loop_why: str
    """Of a loop of unknown kind: what made it so."""
    unreadable: str
    """What could not be read of it, and why."""


class Report(Frozen, kw_only=True):
    """The whole of it, as `--json` writes it."""

    schema: int = 1
    pid: int
    name: str
    verdict: Verdict
    certainty: Certainty
    shape: Shape
    rule: str
    reason: str
    looked_s: float
    """From the first look to the last."""
    beats: int
    threads: tuple[ThreadLine, ...]
    evidence: dict[str, object]


def report_of(pid: int, attached: Attached) -> Report:
    """What is told of a process, out of all that was seen. Pure."""
    judged = attached.judgement
    looks = _looks(attached)
    return Report(
        pid=pid,
        name=one_line(attached.names.get(str(pid), "")),
        verdict=judged.verdict,
        certainty=judged.certainty,
        shape=judged.shape,
        rule=judged.rule,
        reason=judged.reason,
        looked_s=round((looks[-1].at_ns - looks[0].at_ns) / 1e9, 6) if looks else 0.0,
        beats=judged.beats,
        threads=_threads(attached, looks) if judged.rule != "ended" else (),
        evidence=attached.evidence,
    )


def exit_status(judgement: Judgement) -> int:
    """1: it hangs. 3: nothing can be said. 0: anything else."""
    if judgement.verdict in HANGS:
        return 1
    return 3 if judgement.verdict in UNCOUNTED else 0


def print_attached(console: Console, report: Report) -> None:
    """The report as people read it."""
    certainty = f" ({report.certainty.value})" if report.verdict in HANGS else ""
    name = f" ({report.name})" if report.name else ""
    console.print(
        Text.assemble(
            (f"process {report.pid}{name}: ", "bold"), styled(report.verdict), f"{certainty}, {report.shape}"
        ),
        soft_wrap=True,
    )
    console.print(Text(f"  {one_line(report.reason, most=2000)}"), soft_wrap=True)
    console.print(f"  looked at for {seconds(report.looked_s)}, {plural(report.beats, 'beat')}")
    if report.threads:
        _print_threads(console, report.threads)
    print_sites(console, report.evidence)
    print_stacks(console, report.evidence)
    _print_untold(console, report.threads)


# --- threads ---------------------------------------------------------------------------------------------------------


def _looks(attached: Attached) -> list[Look]:
    return [
        event if isinstance(event, Look) else event.look for event in attached.events if not isinstance(event, Ended)
    ]


def _threads(attached: Attached, looks: Sequence[Look]) -> tuple[ThreadLine, ...]:
    if not looks:
        return ()
    firsts: dict[ThreadId, tuple[int, ThreadReading]] = {}
    for look in looks:
        for reading in look.threads:
            firsts.setdefault(reading.id, (look.at_ns, reading))
    gathered = (event.threads for event in attached.events if isinstance(event, Evidence))
    evidence = {thread.id: thread for threads in gathered for thread in threads}
    judged = {thread.id: thread for thread in attached.judgement.threads}
    woken = set(attached.judgement.wakeable)
    last = looks[-1]
    return tuple(
        _line(
            reading,
            judged.get(reading.id) or ThreadJudgement(id=reading.id, role=Role.UNDECIDED),
            known=reading.id in judged,
            first=firsts[reading.id][1],
            elapsed_ns=last.at_ns - firsts[reading.id][0],
            name=attached.names.get(str(reading.id.tid), ""),
            could_be_woken=reading.id in woken,
            evidence=evidence.get(reading.id) or ThreadEvidence(id=reading.id),
        )
        for reading in last.threads
    )


def _line(
    reading: ThreadReading,
    judged: ThreadJudgement,
    *,
    known: bool,
    first: ThreadReading,
    elapsed_ns: int,
    name: str,
    could_be_woken: bool,
    evidence: ThreadEvidence,
) -> ThreadLine:
    slot, before = reading.slot, first.slot
    same = slot is not None and before is not None and slot.generation == before.generation
    return ThreadLine(
        pid=reading.id.pid,
        tid=reading.id.tid,
        name=one_line(name),
        state=reading.state,
        role=judged.role if known else None,
        cpu_share=_share(first.cpu_ns, reading.cpu_ns, elapsed_ns),
        cpu_wait_share=_share(first.waited_ns, reading.waited_ns, elapsed_ns),
        mark=slot.mark if slot is not None else None,
        beats=slot.beats - before.beats if slot is not None and before is not None and same else None,
        sleeps_in=one_line(judged.sleeps_in),
        wake=judged.wake,
        could_be_woken=could_be_woken,
        loop=judged.loop,
        loop_site=one_line(judged.loop_site or judged.pc_site),
        loop_traits=judged.loop_traits,
        loop_why=one_line(evidence.loop.why) if evidence.loop and evidence.loop.kind is LoopKind.UNKNOWN else "",
        unreadable=one_line(evidence.unreadable),
    )


def _share(before: int | None, now: int | None, elapsed_ns: int) -> float | None:
    if before is None or now is None or elapsed_ns <= 0:
        return None
    return round(max(0, now - before) / elapsed_ns, 4)


def _print_threads(console: Console, threads: Sequence[ThreadLine]) -> None:
    rows = [
        [
            Text(text)
            for text in (
                f"{thread.pid}/{thread.tid}",
                thread.name,
                thread.state.value,
                thread.role.value if thread.role else "-",
                _percent(thread.cpu_share),
                _percent(thread.cpu_wait_share),
                _doing(thread),
                thread.wake.value if thread.wake else "",
            )
        ]
        for thread in threads[:MOST_THREADS]
    ]
    console.print()
    print_columns(
        console, ("thread", "name", "state", "role", "CPU", "wants CPU", "sleeps or runs in", "woken by"), rows
    )
    woken = [f"{thread.pid}/{thread.tid}" for thread in threads if thread.could_be_woken]
    if woken:
        console.print(f"could still be woken: {one_line(', '.join(woken))}")
    if len(threads) > MOST_THREADS:
        console.print(f"and {plural(len(threads) - MOST_THREADS, 'more thread')}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


def _doing(thread: ThreadLine) -> str:
    """What it sleeps in, or the loop that it runs in; its mark and beats where it has any."""
    parts = [thread.sleeps_in]
    if thread.loop is not None:
        traits = f" ({', '.join(map(one_line, thread.loop_traits))})" if thread.loop_traits else ""
        parts.append(f"{thread.loop.value} loop at {thread.loop_site or 'an unknown place'}{traits}")
    elif thread.loop_site:
        parts.append(thread.loop_site)
    if thread.mark:
        parts.append(f"marked {thread.mark.name.lower()}")
    if thread.beats:
        parts.append(plural(thread.beats, "beat"))
    return "; ".join(part for part in parts if part)


def _print_untold(console: Console, threads: Sequence[ThreadLine]) -> None:
    """What may not be read or could not be told, and of how many threads."""
    reasons = Counter(thread.unreadable for thread in threads if thread.unreadable)
    reasons.update(f"loop at {thread.loop_site}: {thread.loop_why}" for thread in threads if thread.loop_why)
    if reasons:
        console.print("\nwhat could not be told")
    for reason, count in reasons.most_common():
        console.print(Text(f"  of {plural(count, 'thread')}: {reason}"), soft_wrap=True)
