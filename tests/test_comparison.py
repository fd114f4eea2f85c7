"""What correct barriers cost: which are measured, what the runs say, which one to take, and how it is told."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import pytest

from livetrap.cli import main
from livetrap.cli.compare import usual_threads
from livetrap.comparison import (
    DIRECT,
    OPENMP,
    SPIN,
    Cell,
    Row,
    Run,
    Situation,
    advise,
    base_of,
    cells,
    choose,
    cpus_of,
    enough,
    read,
    situations,
    status_of,
    summarise,
    usual_spread,
)
from livetrap.errors import HarnessError
from livetrap.measuring import _complaint
from livetrap.model import Cpu, Topology
from livetrap.policy import ALLOWED_TECHNIQUES
from livetrap.report.compare import advice_words, duration, figures, line_of, missing, ordered, print_comparison
from livetrap.report.compare_page import check_page, page
from livetrap.report.text import console
from livetrap.resources import technique_names

TWO = Topology(
    os="linux",
    arch="x86_64",
    cpus=tuple(Cpu(id=cpu, core=cpu, package=0) for cpu in range(2)),
    affinity=True,
)
FOUR = Topology(os="macos", arch="arm64", cpus=TWO.cpus, affinity=False, qos=True)
PLOT = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")


def situation(threads: int, placement: str = "free", *, cpus: int = 2, flags: str = "-O2") -> Situation:
    return Situation(threads=threads, placement=placement, flags=flags, compiler="gcc", cpus=cpus)


def measured(ns: float, cpu_ns: float | None = None) -> Run:
    return Run(state="measured", ns=ns, cpu_ns=2 * ns if cpu_ns is None else cpu_ns)


def rows_of(table: dict[str, dict[int, list[Run]]]) -> tuple[Row, ...]:
    """Rows of barriers by their runs at each number of threads, on two CPUs."""
    runs = {
        Cell(barrier=name, situation=situation(threads)): its
        for name, by in table.items()
        for threads, its in by.items()
    }
    return summarise(runs)


def row_of(rows: tuple[Row, ...], barrier: str, threads: int) -> Row:
    return next(row for row in rows if (row.cell.barrier, row.cell.situation.threads) == (barrier, threads))


# --- what is measured ------------------------------------------------------------------------------------------------


def test_all_that_the_policy_allows_and_the_spin_as_a_yardstick() -> None:
    chosen = choose((), known=technique_names())
    assert set(chosen.techniques) == {*ALLOWED_TECHNIQUES, SPIN}
    told = " ".join(chosen.notes)
    assert all(f"left out: {name} " in told for name in ("raw_spin", "volatile_spin", "relaxed_spin"))
    assert "a yardstick, and outside the policy: acquire_spin" in told


def test_a_forbidden_technique_beside_others_is_left_out() -> None:
    chosen = choose(("raw_spin", "os_barrier"), known=technique_names())
    assert chosen.techniques == ("os_barrier",)
    assert chosen.notes[0].startswith("left out: raw_spin spins on a plain variable")


def test_forbidden_techniques_alone_are_refused() -> None:
    with pytest.raises(HarnessError, match=r"--technique raw_spin: raw_spin spins on a plain .*; give one of acquire"):
        choose(("raw_spin",), known=technique_names())


def test_each_barrier_in_each_situation() -> None:
    found = cells(("os_barrier",), [situation(2), situation(4)])
    assert [(cell.barrier, cell.situation.threads) for cell in found] == [
        (name, threads) for threads in (2, 4) for name in ("os_barrier", *DIRECT)
    ]


@pytest.mark.parametrize(
    ("threads", "placements", "added"),
    [
        ([2, 16], ["free"], []),
        ([16], ["free"], [("free", 2)]),
        ([2], ["one-core"], [("free", 2)]),
        ([2, 4], ["free", "one-core"], []),
        ([1], ["one-core"], []),
        ([4], ["performance"], []),  # not to be had: nothing to refer to
    ],
)
def test_a_situation_to_refer_to_is_added(threads: list[int], placements: list[str], added: list[object]) -> None:
    found = situations(TWO, threads=threads, placements=placements, flags=["-O2"], compilers=["gcc"])
    assert [(one.placement, one.threads) for one in found[len(threads) * len(placements) :]] == added


def test_what_a_slowdown_refers_to() -> None:
    among = [situation(2), situation(4, cpus=4), situation(2, "one-core", cpus=1), situation(4, "pack", cpus=4)]
    assert base_of(situation(16, cpus=4), among) == among[1]
    assert base_of(situation(16, "pack", cpus=4), among) == among[3]
    assert base_of(situation(3, "one-core", cpus=1), among) == among[0]
    assert base_of(situation(16, flags="-O0"), among) is None


@pytest.mark.parametrize(
    ("placement", "topology", "cpus"),
    [("free", TWO, 2), ("one-core", TWO, 1), ("confined:2", TWO, 2), ("spread", TWO, 2), ("one-core", FOUR, 0)],
)
def test_cpus_that_the_threads_may_use(placement: str, topology: Topology, cpus: int) -> None:
    assert cpus_of(placement, topology, 8) == cpus


def test_a_quota_is_counted_in() -> None:
    assert cpus_of("free", Topology(os="linux", arch="x86_64", cpus=TWO.cpus, affinity=True, quota_cpus=1.5), 8) == 1


@pytest.mark.parametrize(("cpus", "threads"), [(1, (2, 4)), (2, (2, 8)), (8, (2, 8, 32)), (256, (2, 256, 512))])
def test_usual_threads(cpus: int, threads: tuple[int, ...]) -> None:
    assert usual_threads(cpus) == threads


# --- what the runs say -----------------------------------------------------------------------------------------------

OPENED = "rounds=0 wall_ns=0 cpu_ns=0 at_ns=1000\n"


def reading(
    output: str, *, result: int = 1, message: str = "", signal: int | None = None, killed: int | None = None
) -> Run:
    return read(output, result=result, message=message, signal=signal, killed_ns=killed, started_ns=500, warm_ns=100)


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (reading(OPENED + "rounds=4 wall_ns=80 cpu_ns=120 at_ns=1080\n"), measured(20.0, 30.0)),
        (reading("", killed=2600), Run(state="at-least", ns=2000.0)),
        (reading(OPENED, killed=2600), Run(state="at-least", ns=1600.0)),
        (
            reading(OPENED + "rounds=1 wall_ns=400 cpu_ns=1 at_ns=1400\n", killed=2500),
            Run(state="at-least", ns=300.0),
        ),
        (reading("", signal=11), Run(state="crashed", reason="ended by signal 11")),
        (reading(OPENED, result=2, message="thread 1 left"), Run(state="wrong", reason="thread 1 left")),
        (reading("", result=3, message="no such call"), Run(state="skipped", reason="no such call")),
        (reading("", result=4, message="no memory"), Run(state="error", reason="no memory")),
        (reading("", result=1), Run(state="error", reason="it told nothing")),
        (reading("rounds=1 wall_ns=x\n", result=0), Run(state="error", reason="it told nothing")),
    ],
)
def test_a_run_is_read(run: Run, wanted: Run) -> None:
    assert run == wanted


def test_a_run_that_never_set_off() -> None:
    run = read("", result=0, message="", signal=None, killed_ns=10, started_ns=0, warm_ns=0)
    assert run.state == "error"


def test_a_cell_is_left_alone_once_it_failed_or_was_too_slow_twice() -> None:
    slow = Run(state="at-least", ns=1.0)
    assert enough([Run(state="wrong")])
    assert enough([slow, slow])
    assert not enough([])
    assert not enough([slow, measured(1.0), measured(1.0)])


def test_medians_quartiles_and_slowdown() -> None:
    rows = rows_of({"os_barrier": {2: [measured(ns) for ns in (100, 110, 120, 130, 900)], 16: [measured(1200)]}})
    calm, crowded = rows
    assert calm.ns is not None
    assert (calm.ns.median, calm.ns.low, calm.ns.high) == (120, 110, 130)
    assert calm.ns.spread == pytest.approx(1 / 12)
    assert calm.slowdown is None
    assert crowded.slowdown == pytest.approx(10)
    assert usual_spread(rows) == pytest.approx(1 / 24)


def test_a_bound_is_told_as_one() -> None:
    rows = rows_of({SPIN: {2: [measured(100)], 16: [Run(state="at-least", ns=5e8)] * 2}})
    row = row_of(rows, SPIN, 16)
    assert row.at_least
    assert row.cpu_ns is None
    assert figures(row) == ("≥ 500 ms", "", "-", "≥ 5,000,000x")


def test_no_slowdown_against_a_bound() -> None:
    rows = rows_of({SPIN: {2: [Run(state="at-least", ns=5e8)], 16: [Run(state="at-least", ns=6e8)]}})
    assert row_of(rows, SPIN, 16).slowdown is None


@pytest.mark.parametrize(("state", "status"), [("wrong", 1), ("crashed", 1), ("skipped", 3), ("error", 3)], ids=str)
def test_status(state: str, status: int) -> None:
    bad = Run(state=state, reason="why")
    assert status_of(rows_of({"os_barrier": {2: [bad]}, OPENMP: {2: [measured(1)]}})) == status
    assert status_of(rows_of({"os_barrier": {2: [measured(1)]}, OPENMP: {2: [bad]}})) == (1 if status == 1 else 0)


def test_a_compilers_complaint_is_one_line() -> None:
    words = (
        "clang -fopenmp -c x.c\nx.c:15:10: fatal error: 'omp.h' file not found\n#include <omp.h>\n1 error generated.\n"
    )
    assert _complaint(words) == "'omp.h' file not found"
    assert _complaint("gcc ...\n/usr/bin/ld: cannot find -lomp: No such file\n") == (
        "/usr/bin/ld: cannot find -lomp: No such file"
    )


# --- which one to take -----------------------------------------------------------------------------------------------


def test_the_one_that_is_never_far_from_the_fastest() -> None:
    rows = rows_of(
        {
            "acquire_backoff": {2: [measured(100)], 16: [measured(90_000)]},
            "acquire_yield": {2: [measured(120)], 16: [measured(12_000)]},
            "futex_wait": {2: [measured(800)], 16: [measured(10_000)]},
            SPIN: {2: [measured(80)], 16: [measured(9e7)]},
        }
    )
    advice = advise(rows)
    assert advice.take == "acquire_yield"
    assert [each.technique for each in advice.standings] == ["acquire_yield", "futex_wait", "acquire_backoff"]
    assert advice.standings[0].worst == pytest.approx(1.2)
    words = advice_words(advice, rows)
    assert words[0] == (
        "take acquire_yield: 120 ns a round with 2 threads on 2 CPUs, 12 µs a round with 16 threads on 2 CPUs; "
        "at worst 1.2 times the fastest of those that the policy allows"
    )
    assert "1.5 times its time with 2 threads on 2 CPUs, 0.00013 times its time with 16 threads" in words[1]


def test_of_two_that_are_alike_the_one_with_less_cpu_time() -> None:
    rows = rows_of({"acquire_yield": {2: [measured(100, 200)]}, "os_barrier": {2: [measured(105, 50)]}})
    assert advise(rows).take == "os_barrier"
    far = rows_of({"acquire_yield": {2: [measured(100, 200)]}, "os_barrier": {2: [measured(125, 50)]}})
    advice = advise(far)
    assert (advice.take, advice.least_cpu) == ("acquire_yield", "os_barrier")
    told = " ".join(advice_words(advice, far))
    assert "the least CPU time is that of os_barrier, 0.25 of acquire_yield's on average" in told


def test_one_that_was_not_measured_everywhere_is_not_taken() -> None:
    bound = Run(state="at-least", ns=1e9)
    rows = rows_of(
        {"acquire_backoff": {2: [measured(1)], 16: [bound]}, "os_barrier": {2: [measured(9)], 16: [measured(9)]}}
    )
    assert advise(rows).take == "os_barrier"


def test_no_advice_without_a_figure() -> None:
    rows = rows_of({SPIN: {2: [measured(1)]}, "os_barrier": {2: [Run(state="skipped", reason="why")]}})
    assert advise(rows).take == ""
    assert advice_words(advise(rows), rows)[0].startswith("no advice")


# --- how it is told --------------------------------------------------------------------------------------------------

ROWS = rows_of(
    {
        "os_barrier": {2: [measured(1000)] * 5, 16: [measured(9000)] * 5},
        SPIN: {2: [measured(200)] * 5, 16: [Run(state="at-least", ns=5e8)] * 2},
        OPENMP: {2: [Run(state="skipped", reason="clang has no <OpenMP> here")]},
    }
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.4, "0.4 ns"),
        (83, "83 ns"),
        (999.7, "1 µs"),
        (1234, "1.2 µs"),
        (45e6, "45 ms"),
        (2.13e9, "2.1 s"),
        (12e9, "12 s"),
    ],
)
def test_durations(ns: float, text: str) -> None:
    assert duration(ns) == text


def test_the_table() -> None:
    stream = io.StringIO()
    print_comparison(console(stream), ROWS, ("take os_barrier",), ("a note",))
    lines = stream.getvalue().splitlines()
    assert lines[1] == "placement free; flags -O2; compiler gcc"
    assert lines[2].split() == ["threads", "barrier", "a", "round", "spread", "CPU", "a", "round", "slowdown"]
    assert lines[3].split() == ["2", "on", "2", "CPUs", "acquire_spin", "200", "ns", "±0", "%", "400", "ns"]
    assert lines[5].split() == ["16", "on", "2", "CPUs", "os_barrier", "9", "µs", "±0", "%", "18", "µs", "9x"]
    assert lines[6].split() == ["acquire_spin", "≥", "500", "ms", "-", "≥", "2,500,000x"]
    told = ["skipped: OpenMP barrier (2 threads on 2 CPUs): clang has no <OpenMP> here", "a note", "take os_barrier"]
    assert lines[8:] == told
    assert missing(ROWS) == told[:1]
    assert [row.cell.barrier for row in ordered(ROWS)] == [SPIN, "os_barrier", "os_barrier", SPIN]


def test_a_line_of_json() -> None:
    line = line_of(row_of(ROWS, SPIN, 16))
    assert (line.schema, line.state, line.outnumbered, line.ours) == (1, "at-least", True, True)
    assert not line_of(row_of(ROWS, OPENMP, 2)).ours


@pytest.mark.slow
@PLOT
def test_the_page_needs_nothing_beside_it() -> None:
    text = page(ROWS, words=("take <os_barrier>",), notes=("a note",), machine={"cpu": "a & b"})
    assert '<meta name="generator" content="livetrap compare">' in text[:500]
    assert "<svg" in text
    assert "take &lt;os_barrier&gt;" in text
    assert "clang has no &lt;OpenMP&gt; here" in text
    assert "cpu a &amp; b" in text
    assert "<script" not in text
    assert "src=" not in text
    assert "≥ 500 ms" in text


@PLOT
def test_the_page_without_a_figure() -> None:
    assert "<svg" not in page((), words=("no advice",), notes=(), machine={})


@PLOT
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "--html is empty"),
        (".", "is a folder"),
        ("no/such.html", "its folder is not there"),
        ("mine", "is no page of"),
    ],
)
def test_a_bad_place_for_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(HarnessError, match=told):
        check_page(name)


@PLOT
def test_a_page_of_ours_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "old.html").write_text(page((), words=(), notes=(), machine={}))
    check_page(str(tmp_path / "old.html"))


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(
        HarnessError, match=r"--html needs matplotlib, which is not here: pip install 'livetrap\[plot\]'"
    ) as told:
        check_page("x.html")
    assert told.value.status == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--for", "0"], "--for 0: must be from 0.05 to 600 seconds"),
        (["--for", "nan"], "--for nan: must be from"),
        (["--threads", "0"], "--threads 0: must be from 1 to 512"),
        (["--threads", "two"], "--threads 'two': must be whole numbers"),
        (["--placement", "here"], "unknown placement 'here'"),
        (["--technique", "raw_spin"], "--technique raw_spin: raw_spin spins on a plain variable"),
        (["--technique", "os_barier"], "did you mean 'os_barrier'?"),
        (["--flags", "-g"], "no optimisation level"),
        (["--json", "no/such/file"], "cannot be written"),
    ],
)
def test_bad_usage_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    assert main(["compare", *words]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1
