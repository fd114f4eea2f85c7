"""What people see: harmless text, few rows, and the whole of a trial."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from livetrap.errors import HarnessError
from livetrap.expectations import Outcome
from livetrap.expectations import Row as CellRow
from livetrap.model import (
    BuildSpec,
    Ended,
    Placement,
    PlannedTrial,
    Rules,
    Shape,
    Value,
    VariantRole,
    Verdict,
)
from livetrap.plaintext import plain
from livetrap.report.grouping import Cell, Row, group
from livetrap.report.lines import open_lines
from livetrap.report.progress import PLAIN_EVERY_S, LiveProgress, PlainProgress, open_progress
from livetrap.report.summary import print_end, print_summary, shapes_text
from livetrap.report.text import WIDTH, console, fit, one_line, seconds
from livetrap.report.trial import print_trial, repeat_command, timeline
from livetrap.store import Store
from tests.test_store import add, make_events, make_look, make_record

# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain\ttext\nhere", "plain\ttext\nhere"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("\x9b31mred\x9d0;t\x9cx", "redx"),
        ("bell\x07 back\x08 del\x7f nul\x00", "bell back del nul"),
        ("\x1b(B\x1bc\x1b7x", "x"),
        ("cut off \x1b[", "cut off "),
        ("cut off \x1b", "cut off "),
        ("a\rb\r\nc", "ab\nc"),
        ("right\u202eto left", "rightto left"),
        ("\u2713 caf\u00e9", "\u2713 caf\u00e9"),
    ],
)
def test_text_of_a_target_is_made_harmless(text: str, left: str) -> None:
    assert plain(text) == left


def test_one_line() -> None:
    assert one_line("a\n  b\x1b[1m\tc") == "a b c"
    assert one_line("x" * 50, most=10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.0031, "3 ms"),
        (0.0996, "0.1 s"),
        (0.213, "0.21 s"),
        (9.96, "10 s"),
        (84.2, "84 s"),
        (720.0, "12 min"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize("available", [3, 20, 40, 80])
def test_columns_fit(available: int) -> None:
    widths = fit([["ok", "NO"], ["volatile_counter, empty"], ["passed 6/6", "livelock 72/72"]], available)
    assert sum(widths) <= max(available, 3)
    assert min(widths) >= 1


def test_a_column_with_room_is_not_wrapped() -> None:
    assert fit([["ok"], ["livelock 72/72"]], 50) == [2, 14]


# --- rows ------------------------------------------------------------------------------------------------------------


def make_cell(
    variant: str = "buggy", *, verdicts: Mapping[str, int] | None = None, ok: bool | None = True, **axes: Value
) -> Cell:
    threads = axes.get("threads", 2)
    assert isinstance(threads, int)
    counts = {Verdict(name): count for name, count in (verdicts or {"livelock": 2}).items()}
    return Cell(
        variant=variant,
        role=VariantRole(variant),
        axes=axes,
        counts=counts,
        shapes=(Shape(spinning=threads - 1, exited=1),) if Verdict.LIVELOCK in counts else (),
        expected=(Verdict.LIVELOCK,) if variant == "buggy" else (Verdict.PASSED,),
        ok=ok,
    )


def combinations(row: Row) -> int:
    product = 1
    for values in row.axes.values():
        product *= len(values)
    return product


def test_cells_that_agree_become_one_row() -> None:
    cells = [make_cell(threads=n, placement=p) for n in (8, 2, 4) for p in ("free", "one-core")]
    (row,) = group(cells)
    assert row.axes == {"threads": (2, 4, 8), "placement": ("free", "one-core")}
    assert row.counts == {Verdict.LIVELOCK: 12}
    assert row.cells == 6
    assert shapes_text(row.shapes) == "1-7 spinning, 1 exited"


def test_a_cell_that_is_not_as_expected_has_a_row_of_its_own_and_comes_first() -> None:
    cells = [make_cell(threads=n, flags=f) for n in (2, 4) for f in ("-O1", "-O2")]
    cells[3] = make_cell(threads=4, flags="-O2", verdicts={"livelock": 1, "passed": 1}, ok=False)
    cells.append(make_cell(threads=8, flags="-O2", verdicts={"passed": 2}, ok=False))
    rows = group(cells)
    assert [row.ok for row in rows[:2]] == [False, False]
    assert [row.cells for row in rows[:2]] == [1, 1]
    assert sum(row.cells for row in rows) == 5


def test_a_row_is_always_a_full_product_and_no_cell_is_lost() -> None:
    odd = {(2, "-O1"), (4, "-O2"), (8, "-O1")}
    cells = [
        make_cell(threads=n, flags=f, verdicts={"passed" if (n, f) in odd else "livelock": 2})
        for n in (2, 4, 8)
        for f in ("-O1", "-O2", "-O3")
    ]
    rows = group(cells)
    assert sum(row.cells for row in rows) == len(cells)
    assert sum(sum(row.counts.values()) for row in rows) == 2 * len(cells)
    for row in rows:
        assert combinations(row) == row.cells
        assert len(row.counts) == 1


def test_variants_do_not_mix_and_axes_may_differ() -> None:
    cells = [make_cell(threads=2, body="empty"), make_cell("fixed", threads=2, verdicts={"passed": 3})]
    assert [(row.variant, row.axes) for row in group(cells)] == [
        ("buggy", {"threads": (2,), "body": ("empty",)}),
        ("fixed", {"threads": (2,)}),
    ]
    assert group([]) == []


# --- the table -------------------------------------------------------------------------------------------------------


def printed(console_: Console) -> str:
    assert isinstance(console_.file, io.StringIO)
    return console_.file.getvalue()


def cell_row(variant: str = "buggy", *, ok: bool | None = True, **cell: Value) -> CellRow:
    fixed = variant == "fixed"
    verdict = Verdict.PASSED if fixed else Verdict.LIVELOCK
    return CellRow(
        variant=variant,
        role=VariantRole(variant),
        cell=cell,
        planned=2,
        n=2 if ok is not None else 0,
        verdicts={verdict: 2} if ok is not None else {},
        skipped=0 if ok is not None else 2,
        expected=(verdict,),
        ok=ok,
    )


def full_matrix() -> list[CellRow]:
    return [
        cell_row(variant, threads=n, placement=p, flags=f, compiler=c, body=b)
        for variant in ("buggy", "fixed")
        for n in (2, 4, 8, 16)
        for p in ("free", "one-core", "spread")
        for f in ("-O1", "-O2", "-O3")
        for c in ("gcc", "clang")
        for b in ("empty", "volatile_counter")
    ]


def test_a_large_matrix_is_a_short_table_of_100_columns() -> None:
    out = console(io.StringIO())
    outcome = Outcome(rows=tuple(full_matrix()), exit_status=0, messages=())
    print_summary(out, outcome, [])
    lines = printed(out).splitlines()
    assert len(lines) <= 12
    assert max(len(line) for line in lines) <= WIDTH
    text = " ".join(printed(out).split())
    assert "livelock 288/288" in text
    assert "passed 288/288" in text


def test_deviations_are_told_and_capped() -> None:
    rows = [cell_row(threads=n, ok=False) for n in range(1, 31)]
    messages = ("skipped: 3", *(f"not as expected: buggy threads={n}" for n in range(1, 31)))
    out = console(io.StringIO())
    print_summary(out, Outcome(rows=tuple(rows), exit_status=1, messages=messages), [])
    text = printed(out)
    assert text.count("NO") == 30
    assert text.count("not as expected: buggy") == 10
    assert "and 20 more cells" in text
    assert "skipped: 3" in text


def test_what_is_skipped_is_shown_apart() -> None:
    out = console(io.StringIO())
    rows = (cell_row(threads=2), cell_row(threads=2, placement="efficiency", ok=None))
    print_summary(out, Outcome(rows=rows, exit_status=0, messages=()), [])
    assert "skipped 2/2" in " ".join(printed(out).split())


def test_markup_and_escapes_in_names_do_nothing() -> None:
    out = console(io.StringIO())
    rows = (cell_row(body="[red]x[/red]\x1b[31m"), cell_row(body="[bold]"))
    print_summary(out, Outcome(rows=rows, exit_status=0, messages=("[/] :smile: \x1b[2J",)), [])
    text = printed(out)
    assert "[red]x[/red]" in text.replace("\n", "")
    assert "[/] :smile:" in text
    assert "\x1b" not in text


def test_the_last_lines_name_the_record_and_a_trial() -> None:
    out = console(io.StringIO())
    records = [make_record(1), make_record(2, verdict=Verdict.SLOW), make_record(3)]
    print_end(out, Outcome(rows=(), exit_status=1, messages=()), records, took_s=3.0, db=Path("a.db"))
    assert "NOT as expected: 0 cells, 3 trials in 3 s" in printed(out)
    assert "livetrap show a.db 2" in printed(out)


# --- progress --------------------------------------------------------------------------------------------------------


def planned() -> PlannedTrial:
    return PlannedTrial(
        ordinal=0,
        scenario="raw-spin-flag",
        variant="buggy",
        role=VariantRole.BUGGY,
        cell={"threads": 8, "body": "[x]"},
        build=BuildSpec(compiler="gcc", flags=("-O2",), kernel="flag_handoff"),
        kernel="flag_handoff",
        technique="",
        parameters={},
        threads=8,
        align="spin",
        seed=1,
        placement=Placement(requested="free"),
        rules=Rules(),
        expected=(),
    )


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_every_few_seconds_and_at_the_end() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = PlainProgress(stream, clock=clock)
    progress.started(40)
    for number in range(40):
        progress.trial_started(planned())
        clock.now += 0.5
        verdict = Verdict.PASSED if number % 2 else Verdict.LIVELOCK
        progress.trial_finished(make_record(number, verdict=verdict))
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 40 * 0.5 / PLAIN_EVERY_S
    assert lines[0] == "10 of 40 trials in 5 s, about 15 s left: livelock 5, passed 5"
    assert lines[-1] == "40 of 40 trials in 20 s: livelock 20, passed 20"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, stream = Clock(), Terminal()
    progress = open_progress(stream, clock=clock)
    assert isinstance(progress, LiveProgress)
    progress.started(2)
    clock.now += 1
    progress.trial_started(planned())
    clock.now += 1
    progress.trial_finished(make_record(1))
    progress.print("a note")
    progress.close()
    progress.close()
    text = stream.getvalue()
    assert "buggy threads=8 body=[x]" in text
    assert "1/2" in text
    assert "2 s left" in text
    assert "a note" in text


def test_a_pipe_gets_plain_lines() -> None:
    assert isinstance(open_progress(io.StringIO()), PlainProgress)


# --- JSON lines ------------------------------------------------------------------------------------------------------

FIELDS = {
    *("schema", "id", "scenario", "variant", "role", "cell", "compiler", "placement", "seed", "verdict", "certainty"),
    *("phase", "shape", "expected", "as_expected", "wall_s", "stall_s", "verdict_latency_s", "longest_stall_s"),
    *("beats", "evidence"),
}


def test_each_record_is_a_line_that_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with open_lines(str(path)) as lines:
        lines.write(make_record(1))
        assert json.loads(path.read_text())["id"] == 1
        lines.write(make_record(2))
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    assert [document["id"] for document in documents] == [1, 2]
    assert set(documents[0]) == FIELDS
    assert documents[0]["expected"] == ["livelock"]
    assert documents[0]["shape"]["spinning"] == 7


def test_json_to_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "no" / "x.jsonl"):
        with pytest.raises(HarnessError, match="--json"), open_lines(str(wrong)):
            pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_json_to_a_full_disk() -> None:
    with open_lines("/dev/full") as lines, pytest.raises(HarnessError, match="cannot be written") as caught:
        lines.write(make_record())
    assert caught.value.status == 3


# --- one trial -------------------------------------------------------------------------------------------------------


def test_a_trial_in_full(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        store.begin_campaign({}, {})
        add(store, recipe={"build_command": ["gcc", "-O2", "a b.c"], "nested": {"x": [1]}})
        stored = store.load(1)
    out = console(io.StringIO())
    print_trial(out, stored, plan={"seed": 5})
    text = printed(out)
    for part in (
        "trial 1: raw-spin-flag, variant buggy: livelock (observed), as expected",
        "7 threads spin",
        "settle-4",
        "7 spinning, 1 exited",
        "gcc -O2 'a b.c'",
        "10/11",
        "the last looks",
        "livetrap run raw-spin-flag --variant buggy --threads 8 --flags=-O2 --seed 5",
    ):
        assert part in text
    assert max(len(line) for line in text.splitlines()) <= WIDTH


def test_a_trial_that_never_ran_is_shown_too(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.db") as store:
        store.begin_campaign({}, {})
        add(store, events=[])
        stored = store.load(1)
    out = console(io.StringIO())
    print_trial(out, stored, plan={})
    assert "the last looks" not in printed(out)


def test_the_command_that_repeats_a_cell_is_quoted() -> None:
    record = make_record()
    cell: dict[str, Value] = {"threads": 2, "flags": "-O2 -g", "body": "x;y", "technique": "acquire_spin"}
    changed = type(record)(**{**{name: getattr(record, name) for name in record.__struct_fields__}, "cell": cell})
    assert repeat_command(changed, plan={"path": "/my scenarios/x"}) == (
        "livetrap run '/my scenarios/x' --variant buggy --threads 2 '--flags=-O2 -g' --axis 'body=x;y' "
        "--technique acquire_spin"
    )


def test_the_timeline_is_the_difference_of_looks() -> None:
    settled = 5_000_000
    events = [make_look(1_000_000), make_look(3_000_000), *make_events(0)]
    moments = list(timeline([*events[:2], Ended(at_ns=settled)], settled_ns=settled))
    assert len(moments) == 1
    (moment,) = moments
    assert moment.before_s == pytest.approx(0.002)
    assert moment.since_s == pytest.approx(0.002)
    assert moment.beats == 8
    assert moment.new_beats == 0
    assert moment.awake == 2
    assert all(used == pytest.approx(1.0) for used in moment.cpu_ms.values())
    assert len(moment.cpu_ms) == 2
    many = [make_look(1_000_000 * i) for i in range(100)]
    assert len(list(timeline(many, settled_ns=settled))) == 12
    assert list(timeline([], settled_ns=settled)) == []
