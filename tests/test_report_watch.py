"""What people see of a watch and of a process that was attached to."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from livetrap import watching
from livetrap.attached import Attached
from livetrap.model import (
    Certainty,
    Evidence,
    Judgement,
    Look,
    Loop,
    LoopKind,
    Record,
    Role,
    Shape,
    ThreadEvidence,
    ThreadId,
    ThreadJudgement,
    ThreadReading,
    ThreadState,
    VariantRole,
    Verdict,
    WakeSource,
)
from livetrap.report.attach import exit_status, print_attached, report_of
from livetrap.report.evidence import MOST_FRAMES, MOST_LINES, print_gathered, threads_of, wakeable_of
from livetrap.report.text import WIDTH, console
from livetrap.report.trial import print_trial
from livetrap.report.watch import MOST_CELLS, MOST_TOLD, Tally, print_trial_found, print_watch, print_watch_end
from livetrap.store import Store
from livetrap.watching import Options, Watch
from tests.test_store import add, make_record
from tests.test_watching import machine

SECOND = 1_000_000_000
ESCAPE = "\x1b[31m"


def out() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return console(stream), stream


def gathered(evidence: Mapping[str, object]) -> str:
    to, stream = out()
    print_gathered(to, evidence)
    return stream.getvalue()


def make_watched(number: int, *, verdict: Verdict, evidence: Mapping[str, object] | None = None, **cell: int) -> Record:
    return msgspec.structs.replace(
        make_record(number, verdict=verdict),
        scenario="watch",
        variant="command",
        role=VariantRole.WATCHED,
        cell=dict(cell),
        compiler="",
        expected=(Verdict.PASSED,),
        as_expected=verdict is Verdict.PASSED,
        evidence={"reason": "because", **(evidence or {})},
    )


def make_watch(cells: int) -> Watch:
    options = Options(command=("a",), environment={"N": tuple(range(cells))})
    return watching.plan(options, topology=machine(2), seed=7)


# --- evidence --------------------------------------------------------------------------------------------------------

SITE = {
    "site": f"a.out+0x11{ESCAPE}d0",
    "where": "main.c:12 in waiter",
    "threads": 2,
    "loop": "poll",
    "traits": ["plain load", "pause"],
    "listing": ["11d0: mov eax, dword ptr [rip + 0x2e3a]  <- polled", "11d6: test eax, eax", "11d8: je 0x11d0"],
}


def test_spin_sites() -> None:
    text = gathered({"spin_sites": [SITE, {"site": "b+1", "where": None, "threads": 1}]})
    assert "  main.c:12 in waiter (a.out+0x11d0): 2 threads in a loop that polls memory (plain load, pause)\n" in text
    assert "      11d6: test eax, eax\n" in text
    assert "  b+1: 1 thread\n" in text


def test_stacks_and_what_is_missing() -> None:
    frames = [f"f{i} at a.c:{i}" for i in range(MOST_FRAMES + 3)]
    text = gathered(
        {
            "stacks": [{"pid": 10, "tid": 11, "name": f"w{ESCAPE}orker", "frames": frames}],
            "python_stacks": ["Thread 10 (active)\n    run (a.py:3)"],
            "stacks_by": "eu-stack",
            "stacks_took_s": 0.5,
            "missing": [f"gdb is {ESCAPE}not installed"],
        }
    )
    assert "stacks, taken after the verdict, by eu-stack, in 0.5 s\n  10/11 worker\n      f0 at a.c:0\n" in text
    assert "... 3 more lines" in text
    assert "run (a.py:3)" in text
    assert "  gdb is not installed\n" in text


def test_output_and_what_is_left() -> None:
    lines = "".join(f"line {i}{ESCAPE}\n" for i in range(MOST_LINES + 2))
    text = gathered({"output": lines, "left": [77, 78], "core": "/tmp/core.77", "on_hang": "a\nb\n"})
    assert "line 0\n" not in text
    assert "... 2 lines before" in text
    assert f"    line {MOST_LINES + 1}\n" in text
    assert "left alive: 77, 78  (debugger: gdb -p 77; when done: kill -KILL 77 78)" in text
    assert "core dump: /tmp/core.77" in text
    assert "said by --on-hang\n    a\n    b\n" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("wrong", [None, 7, "text", {"a": 1}, [1, None, ["x"], "y"]])
@pytest.mark.parametrize(
    "key", ["spin_sites", "stacks", "python_stacks", "missing", "left", "output", "core", "threads"]
)
def test_evidence_of_another_form_is_left_out(key: str, wrong: object) -> None:
    gathered({key: wrong})
    assert threads_of({"threads": wrong}) == ()
    assert wakeable_of({"wakeable": wrong}) == ()


def test_threads_come_back_out_of_a_record() -> None:
    thread = ThreadJudgement(id=ThreadId(pid=1, tid=2), role=Role.PARKED, wake=WakeSource.NONE, loop=LoopKind.POLL)
    evidence = {"threads": msgspec.to_builtins((thread,)), "wakeable": msgspec.to_builtins((thread.id,))}
    assert threads_of(evidence) == (thread,)
    assert wakeable_of(evidence) == (thread.id,)


# --- a watch ---------------------------------------------------------------------------------------------------------


def test_one_trial() -> None:
    thread = ThreadJudgement(id=ThreadId(pid=1, tid=2), role=Role.SPINNING, cpu_s=0.5, pc_site="a.out+0x11d0")
    to, stream = out()
    print_trial_found(
        to,
        make_watched(
            3,
            verdict=Verdict.LIVELOCK,
            evidence={"threads": msgspec.to_builtins((thread,)), "spin_sites": [SITE], "disturbance": "hogs: 2 burn"},
            N=2,
        ),
    )
    text = stream.getvalue()
    assert text.startswith(
        "trial 3 (N=2): livelock (observed), 7 spinning, 1 exited\n  because\n  after 0.21 s, 1 beat,"
    )
    assert "disturbed: hogs: 2 burn" in text
    assert "1/2     spinning" in text
    assert "spin site\n" in text


def test_how_it_ended() -> None:
    to, stream = out()
    print_trial_found(to, make_watched(1, verdict=Verdict.CRASHED, evidence={"exit_code": None, "signal": 11}))
    print_trial_found(to, make_watched(2, verdict=Verdict.FAILED, evidence={"exit_code": 3, "signal": None}))
    text = stream.getvalue()
    assert text.startswith("trial 1: crashed\n")
    assert "exit code" not in text  # the reason has it
    print_trial_found(to, make_watched(3, verdict=Verdict.CORRUPT, evidence={"exit_code": 3, "signal": None}))
    assert stream.getvalue().endswith("  exit code 3\n")


def test_hangs_are_told_first_and_few_in_full() -> None:
    tally = Tally()
    for number in range(1, 9):
        tally.add(make_watched(number, verdict=Verdict.FAILED, N=number))
    tally.add(make_watched(9, verdict=Verdict.SLOW, N=0))
    tally.add(make_watched(10, verdict=Verdict.DEADLOCK, N=0))
    assert [record.id for record in tally.told] == [10, 1, 2]
    assert len(tally.told) == MOST_TOLD
    assert tally.of({"N": 0}) == {Verdict.SLOW: 1, Verdict.DEADLOCK: 1}
    assert tally.trials == 10


def test_all_that_are_left_alive_are_told(tmp_path: Path) -> None:
    tally, watch = Tally(), make_watch(1)
    for number in range(1, 6):
        tally.add(make_watched(number, verdict=Verdict.DEADLOCK, evidence={"left": [100 + number, 200 + number]}, N=0))
    to, stream = out()
    print_watch_end(to, watch, tally, took_s=1.0, db=tmp_path)
    pids = "101 201 102 202 103 203 104 204 105 205"
    assert stream.getvalue().startswith(f"left alive of 5 hung trials: {pids}  (when done: kill -KILL {pids})\n")


def test_many_cells_show_those_that_hung() -> None:
    tally = Tally()
    watch = make_watch(MOST_CELLS + 10)
    for number, cell in enumerate(watch.cells, start=1):
        last = number == len(watch.cells)
        tally.add(make_watched(number, verdict=Verdict.LIVELOCK if last else Verdict.PASSED, N=int(cell["N"])))
    to, stream = out()
    print_watch(to, watch, tally)
    text = stream.getvalue()
    assert "1 of 1, 2.5 to 100 % (95 %)" in text
    assert "and 10 more cells" in text
    assert max(len(line) for line in text.splitlines()[2:]) <= WIDTH


def test_a_watch_without_trials_prints_no_table() -> None:
    to, stream = out()
    print_watch(to, make_watch(1), Tally())
    assert stream.getvalue().strip() == ""


def test_show_tells_of_a_command(tmp_path: Path) -> None:
    watch = make_watch(1)
    (trial,) = list(
        watching.trials(msgspec.structs.replace(watch, options=msgspec.structs.replace(watch.options, trials=1)))
    )
    record = make_watched(1, verdict=Verdict.LIVELOCK, evidence={"spin_sites": [SITE]}, N=0)
    with Store.open(tmp_path / "a.db") as store:
        store.begin_campaign({"scenario": "a", "command": "livetrap watch -- a"}, {})
        add(store, record)
        stored = msgspec.structs.replace(store.load(1), recipe={"trial": msgspec.to_builtins(trial)})
    to, stream = out()
    print_trial(to, stored, plan={"command": "livetrap watch -- a"})
    assert "argv" in stream.getvalue()
    assert "spin site\n" in stream.getvalue()
    assert stream.getvalue().endswith("repeat this cell\n  livetrap watch -- a\n")
    repeated = msgspec.structs.replace(stored, recipe={"repeat": "livetrap watch --seed 7 -- a"})
    print_trial(to, repeated, plan={})
    assert stream.getvalue().endswith("  livetrap watch --seed 7 -- a\n")


# --- attach ----------------------------------------------------------------------------------------------------------

MAIN, SPINNER, LATE = (ThreadId(pid=10, tid=tid) for tid in (10, 11, 12))


def reading(of: ThreadId, at_s: float, *, cpu: float, waited: float | None = 0.0) -> ThreadReading:
    return ThreadReading(
        id=of,
        state=ThreadState.RUNNABLE if cpu else ThreadState.ASLEEP,
        cpu_ns=int(cpu * at_s * SECOND),
        waited_ns=None if waited is None else int(waited * at_s * SECOND),
    )


def make_attached() -> Attached:
    first = Look(
        at_ns=SECOND, late_ns=0, threads=(reading(MAIN, 1, cpu=0.0), reading(SPINNER, 1, cpu=0.75, waited=0.25))
    )
    last = Look(
        at_ns=3 * SECOND,
        late_ns=0,
        threads=(
            reading(MAIN, 3, cpu=0.0),
            reading(SPINNER, 3, cpu=0.75, waited=0.25),
            reading(LATE, 3, cpu=0.0, waited=None),
        ),
    )
    evidence = Evidence(
        look=last,
        threads=(ThreadEvidence(id=LATE, unreadable="registers: not permitted; same user needed"),),
    )
    judgement = Judgement(
        verdict=Verdict.LIVELOCK,
        certainty=Certainty.PROVEN,
        reason="1 thread spins for ever",
        rule="settle-1",
        shape=Shape(spinning=1, parked=1),
        threads=(
            ThreadJudgement(id=MAIN, role=Role.PARKED, wake=WakeSource.OUTSIDE, sleeps_in="accept"),
            ThreadJudgement(
                id=SPINNER,
                role=Role.SPINNING,
                loop=LoopKind.POLL,
                loop_site="a.out+0x11d0",
                loop_traits=("plain load",),
            ),
        ),
        wakeable=(MAIN,),
    )
    return Attached(
        judgement=judgement,
        events=(first, evidence),
        names={"10": f"server{ESCAPE}", "11": "worker"},
        evidence={"spin_sites": [SITE]},
    )


def test_report_of_a_process() -> None:
    report = report_of(10, make_attached())
    assert (report.name, report.looked_s, len(report.threads)) == ("server", 2.0, 3)
    main, spinner, late = report.threads
    assert (main.cpu_share, main.cpu_wait_share, main.could_be_woken) == (0.0, 0.0, True)
    assert (spinner.cpu_share, spinner.cpu_wait_share, spinner.name) == (0.75, 0.25, "worker")
    assert (late.role, late.cpu_share, late.cpu_wait_share) == (None, None, None)
    document = msgspec.json.decode(msgspec.json.encode(report))
    assert document["schema"] == 1
    assert document["threads"][1]["loop"] == "poll"


def test_print_attached() -> None:
    to, stream = out()
    print_attached(to, report_of(10, make_attached()))
    text = stream.getvalue()
    assert text.startswith("process 10 (server): livelock (proven), 1 spinning, 1 parked\n  1 thread spins for ever\n")
    lines = {line.split()[0]: " ".join(line.split()) for line in text.splitlines() if line.startswith("10/")}
    assert lines["10/10"] == "10/10 server asleep parked 0 % 0 % accept outside"
    assert "could still be woken: 10/10\n" in text
    assert lines["10/11"] == "10/11 worker runnable spinning 75 % 25 % poll loop at a.out+0x11d0 (plain load)"
    assert lines["10/12"] == "10/12 asleep - - -"
    assert "what could not be told\n  of 1 thread: registers: not permitted; same user needed\n" in text
    assert "spin site\n" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("kind", "untold"), [(LoopKind.UNKNOWN, True), (LoopKind.COMPUTE, False), (LoopKind.ENDLESS, False)]
)
def test_why_a_loop_is_unknown(kind: LoopKind, untold: bool) -> None:
    attached = make_attached()
    *events, evidence = attached.events
    assert isinstance(evidence, Evidence)
    loop = Loop(kind=kind, site="a.out+0x11d0", why="it calls f")
    told = msgspec.structs.replace(evidence, threads=(ThreadEvidence(id=SPINNER, loop=loop),))
    to, stream = out()
    print_attached(to, report_of(10, msgspec.structs.replace(attached, events=(*events, told))))
    assert ("  of 1 thread: loop at a.out+0x11d0: it calls f\n" in stream.getvalue()) is untold
    assert ("could not be told" in stream.getvalue()) is untold


def test_nothing_was_seen() -> None:
    judgement = Judgement(verdict=Verdict.PASSED, reason="it ended", rule="ended")
    to, stream = out()
    print_attached(to, report_of(10, Attached(judgement=judgement, events=(), names={}, evidence={})))
    assert stream.getvalue().startswith("process 10: passed, no threads\n")
    assert exit_status(judgement) == 0
