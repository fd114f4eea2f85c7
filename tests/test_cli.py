"""The command line: one line for whatever goes wrong, the right stream for everything, the right exit status."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

import livetrap.cli.campaigning as run_module
import livetrap.cli.doctor as doctor_module
import livetrap.cli.rejudge as rejudge_module
from livetrap import __version__, cli
from livetrap.cli import COMMANDS, main
from livetrap.cli.options import axes, numbers, words
from livetrap.cli.options import flags as flag_lists
from livetrap.errors import HarnessError
from livetrap.expectations import Outcome
from livetrap.model import Certainty, Cpu, Gaps, Judgement, NotAvailable, Record, Rules, Shape, Topology, Verdict
from livetrap.narrowing import Options
from livetrap.store import Store
from tests.test_store import JUDGEMENT, add, make_events, make_record

Capture = pytest.CaptureFixture[str]


def one_error(capture: Capture, *, status: int, expected: int = 2) -> str:
    """The one line on standard error; nothing else was printed."""
    out, err = capture.readouterr()
    assert status == expected
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("livetrap: ")
    return err


# --- usage -----------------------------------------------------------------------------------------------------------


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"livetrap {__version__}\n"


def test_help(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", text, re.MULTILINE), command
    assert main([]) == 2


BAD_USAGE = [
    (["rnu"], "did you mean 'run'"),
    (["run"], "SCENARIO_OR_FOLDER"),
    (["run", "raw-spin-falg"], "did you mean 'raw-spin-flag'"),
    (["run", "raw-spin-flag", "--tread", "2"], "--tread"),
    (["run", "raw-spin-flag", "--threads", "0"], "--threads 0"),
    (["run", "raw-spin-flag", "--threads", "-1"], "--threads -1"),
    (["run", "raw-spin-flag", "--threads", "1,1000000"], "--threads 1000000"),
    (["run", "raw-spin-flag", "--threads", "x"], "--threads 'x'"),
    (["run", "raw-spin-flag", "--threads", "2.5"], "--threads '2.5'"),
    (["run", "raw-spin-flag", "--threads", "9" * 30], "--threads"),
    (["run", "raw-spin-flag", "--threads="], "--threads is empty"),
    (["run", "raw-spin-flag", "--timeout", "-1"], "--timeout -1"),
    (["run", "raw-spin-flag", "--timeout", "0"], "--timeout 0"),
    (["run", "raw-spin-flag", "--timeout", "nan"], "--timeout nan"),
    (["run", "raw-spin-flag", "--timeout", "soon"], "--timeout"),
    (["run", "raw-spin-flag", "--timeout", "1e-9"], "--timeout 1e-09: must be from 0.05"),
    (["run", "raw-spin-flag", "--threads", "1,,2"], "--threads '1,,2': has an empty value"),
    (["run", "raw-spin-flag", "--threads", "1,"], "--threads '1,': has an empty value"),
    (["run", "raw-spin-flag", "--variant", "buggy,"], "--variant 'buggy,': has an empty value"),
    (["run", "raw-spin-flag", "--flags=-O1,,-O2"], "--flags '-O1,,-O2': has an empty value"),
    (["run", "raw-spin-flag", "--axis", "body=empty,"], "--axis 'body=empty,'"),
    (["run", "raw-spin-flag", "--flags=-Wl,-zfoo"], "'-Wl,-zfoo' cannot be used"),
    (["run", "raw-spin-flag", "--flags=-O2 -Xq"], "'-Xq' is not for compiling"),
    (["run", "raw-spin-flag", "--flags=-g"], "no optimisation level"),
    (["run", "raw-spin-flag", "--technique", "raw_spinn"], "did you mean 'raw_spin'"),
    (["run", "raw-spin-flag", "--compiler", "/bin/false"], "'/bin/false': is no C compiler"),
    (["run", "raw-spin-flag", "--compiler", "/no/such/gcc"], "'/no/such/gcc': is no C compiler"),
    (["run", "raw-spin-flag", "--compiler", "gcx"], "unknown compiler 'gcx'"),
    (["run", "raw-spin-flag", "--json="], "--json is empty"),
    (["run", "raw-spin-flag", "--db="], "--db is empty"),
    (["run", "raw-spin-flag", "--json", "/"], "is a folder"),
    (["diagnose", "raw-spin-flag", "--db="], "--db is empty"),
    (["show", "", "1"], "DB is empty"),
    (["rejudge", ""], "DB is empty"),
    (["run", "raw-spin-flag", "--trials", "0"], "--trials 0"),
    (["run", "raw-spin-flag", "--seed", "-1"], "seed -1"),
    (["run", "raw-spin-flag", "--placement", "fre"], "did you mean 'free'"),
    (["run", "raw-spin-flag", "--axis", "body"], "--axis 'body'"),
    (["run", "raw-spin-flag", "--axis", "=empty"], "--axis '=empty'"),
    (["run", "raw-spin-flag", "--json", "/no/such/folder/x"], "--json"),
    (["run", "raw-spin-flag", "--db", "/"], "is a folder"),
    (["run", "raw-spin-flag", "--db", "/no/such/folder/x.db"], "does not exist"),
    (["show", "/no/such.db", "1"], "does not exist"),
    (["show", "/no/such.db", "x"], "ID"),
    (["rejudge", "/no/such.db"], "does not exist"),
    (["rejudge", "/no/such.db", "--floor", "-1"], "--floor -1"),
    (["rejudge", "/no/such.db", "--floor", "nan"], "--floor nan"),
]


@pytest.mark.parametrize(("arguments", "part"), BAD_USAGE, ids=[" ".join(case[0])[:60] for case in BAD_USAGE])
def test_bad_usage_is_one_line(
    arguments: list[str], part: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_is_built(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(run_module, "campaign", SimpleNamespace(prepare=nothing_is_built))
    assert part in one_error(capsys, status=main(arguments))


def test_what_is_wrong_in_detail_stands_below_the_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HarnessError("x.c does not compile", status=2, detail="x.c:1: \x1b[31merror\x1b[0m\nnext line\n")

    monkeypatch.setattr(run_module, "campaign", SimpleNamespace(prepare=fails))
    assert main(["run", "raw-spin-flag"]) == 2
    assert capsys.readouterr().err == "livetrap: x.c does not compile\nx.c:1: error\nnext line\n"


def test_an_internal_error_is_one_line_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.delenv(cli.TRACEBACK, raising=False)
    monkeypatch.setattr(run_module, "campaign", SimpleNamespace(prepare=fails))
    assert "internal error: ZeroDivisionError" in one_error(capsys, status=main(["run", "raw-spin-flag"]), expected=3)
    monkeypatch.setenv(cli.TRACEBACK, "1")
    assert main(["run", "raw-spin-flag"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str, /) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    assert main(["list"]) == 141
    assert capsys.readouterr().err == ""


# --- values of options -----------------------------------------------------------------------------------------------


def test_lists_may_be_repeated_and_have_commas() -> None:
    assert words("flags", ["-O1,-O2 -g", "-O1", " -O3 , x"]) == ("-O1", "-O2 -g", "-O3", "x")
    assert words("flags", None) == ()
    assert numbers("threads", ["1,2", "4", "2"]) == (1, 2, 4)
    assert axes(["body=empty,volatile_counter", "align=spin", "body=empty,x"]) == {
        "body": ("empty", "volatile_counter", "x"),
        "align": ("spin",),
    }
    assert axes(None) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-O1,-O2"], ("-O1", "-O2")),
        (["-O1 , -O2 -g", "-O1"], ("-O1", "-O2 -g")),
        (["-O2 -fsanitize=undefined,bounds,-O3"], ("-O2 -fsanitize=undefined,bounds", "-O3")),
        (["-O2 -DPAIR=1,-2,-O3"], ("-O2 -DPAIR=1,-2", "-O3")),
        (["-O2 -Wl,-zfoo,-y,-O3"], ("-O2 -Wl,-zfoo,-y,-O3",)),
        (["-O2,-Wl,-zfoo,-O3"], ("-O2", "-Wl,-zfoo,-O3")),
        (["-O2 -Wl,-zfoo -g,-O3"], ("-O2 -Wl,-zfoo -g", "-O3")),
        (None, ()),
    ],
)
def test_a_comma_in_flags_splits_only_before_a_flag(given: list[str] | None, expected: tuple[str, ...]) -> None:
    assert flag_lists(given) == expected


@pytest.mark.parametrize("given", ["", ",", "-O1,", ",-O1", "-O1,,-O2"])
def test_empty_flags(given: str) -> None:
    with pytest.raises(HarnessError, match="empty"):
        flag_lists([given])


# --- run, with a campaign that only pretends ------------------------------------------------------------------------


@dataclass
class Pretence:
    """Stands in for `livetrap.campaign`: gives these records and ends so."""

    records: list[Record]
    ends_with: Callable[[], None] = lambda: None
    given: Options | None = None
    command: str = ""
    plan: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            notes=("narrowed: flags -O2",), trials=(), seed=7, scenario=SimpleNamespace(name="raw-spin-flag")
        )
    )

    def prepare(
        self, scenario: object, *, options: Options, cache: Path, seed: int, note: object, **_: object
    ) -> object:
        assert scenario
        assert cache
        assert callable(note)
        assert 0 <= seed < 1 << 32
        note("building flag_handoff with gcc -O2")
        self.given = options
        return SimpleNamespace(plan=self.plan, builds={}, versions={})

    def run(self, prepared: object, *, store: Store, listener: object, command: str, **_: object) -> None:
        assert prepared
        self.command = command
        store.begin_campaign({"scenario": "raw-spin-flag", "seed": 7}, {})
        listener.started(self.plan)  # type: ignore[attr-defined]
        for record in self.records:
            add(store, record)
            listener.trial_finished(record)  # type: ignore[attr-defined]
        self.ends_with()


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretence:
    pretence = Pretence([make_record(1), make_record(2)])
    monkeypatch.setattr(run_module, "campaign", pretence)
    outcome = Outcome(rows=(), exit_status=0, messages=("not reproduced: needs -O1 or higher",))
    monkeypatch.setattr(run_module, "expectations", SimpleNamespace(summarise=lambda *_, **__: outcome))
    return pretence


def test_options_reach_the_plan(pretend: Pretence, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    line = (
        "run raw-spin-flag --threads 2,4 --placement free --technique acquire_spin --flags=-O2 --flags -O3 "
        "--compiler gcc --variant buggy --axis body=empty --trials 3 --timeout 2.5 --seed 9 --db"
    )
    assert main([*line.split(), str(db)]) == 0
    assert pretend.given == Options(
        threads=(2, 4),
        placement=("free",),
        technique=("acquire_spin",),
        flags=("-O2", "-O3"),
        compiler=("gcc",),
        axes={"body": ("empty",)},
        variants=("buggy",),
        trials=3,
        timeout_s=2.5,
        seed=9,
    )
    assert pretend.command == f"livetrap {line} {db}"


def test_the_table_goes_to_stdout_and_progress_to_stderr(pretend: Pretence, tmp_path: Path, capsys: Capture) -> None:
    db = tmp_path / "a.db"
    assert main(["run", "raw-spin-flag", "--db", str(db)]) == 0
    assert pretend.given == Options()
    out, err = capsys.readouterr()
    assert "building flag_handoff" in err
    assert "narrowed: flags -O2" in err
    assert "not reproduced: needs -O1 or higher" in out
    assert "as expected" in out
    assert f"livetrap show {db} 1" in out
    with Store.open(db, create=False) as store:
        assert store.ids() == [1, 2]


@pytest.mark.usefixtures("pretend")
def test_json_to_stdout_leaves_nothing_else_there(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["run", "raw-spin-flag", "--json", "-", "--db", str(tmp_path / "a.db")]) == 0
    out, err = capsysbinary.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
    assert b"as expected" in err


@pytest.mark.usefixtures("pretend")
def test_without_db_the_record_lies_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["run", "raw-spin-flag"]) == 0
    (db,) = (tmp_path / "livetrap").iterdir()
    assert db.name.startswith("raw-spin-flag-")
    assert str(db) in capsys.readouterr().out


def interrupt() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts back what an interruption leaves ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("ends_with", [interrupt, terminate])
def test_an_interrupted_run_ends_with_a_summary(
    ends_with: Callable[[], None], pretend: Pretence, tmp_path: Path, capsys: Capture
) -> None:
    pretend.ends_with = ends_with
    assert main(["run", "raw-spin-flag", "--db", str(tmp_path / "a.db")]) == 130
    out, err = capsys.readouterr()
    assert "interrupted: 0 cells, 2 trials" in out
    assert "Traceback" not in out + err
    # After a signal, all are ignored until the process has ended.
    ignored = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert ignored == (signal.getsignal(signal.SIGINT) is signal.SIG_IGN) == (ends_with is terminate)
    with Store.open(tmp_path / "a.db", create=False) as store:
        assert store.ids() == [1, 2]


def test_an_interrupt_before_the_first_trial(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "campaign", SimpleNamespace(prepare=interrupted))
    assert main(["run", "raw-spin-flag"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_full_disk_in_mid_campaign(pretend: Pretence, tmp_path: Path, capsys: Capture) -> None:
    def full() -> None:
        raise HarnessError("a.db: the disk is full", status=3)

    pretend.ends_with = full
    assert main(["run", "raw-spin-flag", "--db", str(tmp_path / "a.db")]) == 3
    out, err = capsys.readouterr()
    assert err.splitlines()[-1] == "livetrap: a.db: the disk is full"
    assert "ended early: 0 cells, 2 trials" in out
    assert "as expected" not in out
    assert f"livetrap show {tmp_path / 'a.db'} 1" in out


@pytest.mark.usefixtures("handlers")
def test_an_interrupt_while_the_table_is_printed(
    pretend: Pretence, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pretend
    monkeypatch.setattr("livetrap.cli.run.print_summary", lambda *_: terminate())
    assert main(["run", "raw-spin-flag", "--db", str(tmp_path / "a.db")]) == 130
    assert "interrupted: 0 cells, 2 trials" in capsys.readouterr().out


# --- what --json must not destroy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["notes\n", "[1]\n", '{"a": 1}\n', "{\n", "\n", '"schema"\n', "\udcff"])
def test_json_destroys_nothing_else(content: str, tmp_path: Path, capsys: Capture, pretend: Pretence) -> None:
    file = tmp_path / "a"
    file.write_text(content, errors="surrogateescape")
    before = file.read_bytes()
    message = one_error(capsys, status=main(["run", "raw-spin-flag", "--json", str(file), "--db", f"{file}.db"]))
    assert f"{file} has something else in it" in message
    assert file.read_bytes() == before
    assert pretend.given is None


def test_json_over_a_database(db: Path, capsys: Capture, pretend: Pretence) -> None:
    before = db.read_bytes()
    one_error(capsys, status=main(["run", "raw-spin-flag", "--json", str(db)]))
    assert db.read_bytes() == before
    assert pretend.given is None


@pytest.mark.usefixtures("pretend")
@pytest.mark.parametrize("content", ["", '{"schema":1,"id":7}\nrest'])
def test_json_over_its_own_lines(content: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(content)
    assert main(["run", "raw-spin-flag", "--json", str(file), "--db", str(tmp_path / "a.db")]) == 0
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [1, 2]


def test_json_is_kept_where_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HarnessError("x.c does not compile")

    monkeypatch.setattr(run_module, "campaign", SimpleNamespace(prepare=fails))
    file = tmp_path / "a.json"
    file.write_text('{"schema":1}\n')
    assert main(["run", "raw-spin-flag", "--json", str(file)]) == 2
    assert file.read_text() == '{"schema":1}\n'


@pytest.mark.usefixtures("pretend")
@pytest.mark.parametrize("how", ["name", "dots", "link", "hard", "dangling", "log"])
def test_one_file_for_both(how: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.db"
    other = tmp_path / "other"
    match how:
        case "dots":
            other = tmp_path / ".." / tmp_path.name / "a.db"
        case "link":
            path.touch()
            other.symlink_to(path)
        case "hard":
            path.touch()
            other.hardlink_to(path)
        case "dangling":
            other.symlink_to("a.db")
        case _:
            other = tmp_path / ("a.db" if how == "name" else "a.db-wal")
    message = one_error(capsys, status=main(["run", "raw-spin-flag", "--db", str(path), "--json", str(other)]))
    assert "give each its own" in message


@pytest.mark.usefixtures("pretend")
def test_json_to_what_is_no_file(tmp_path: Path) -> None:
    assert main(["run", "raw-spin-flag", "--json", os.devnull, "--db", str(tmp_path / "a.db")]) == 0


# --- show, rejudge ---------------------------------------------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with Store.open(path) as store:
        store.begin_campaign({"scenario": "raw-spin-flag", "seed": 7}, {})
        add(store)
        add(store)
        add(store, make_record(3, verdict=Verdict.SKIPPED), events=[])
    return path


def test_show(db: Path, capsys: Capture) -> None:
    assert main(["show", str(db), "2"]) == 0
    out = capsys.readouterr().out
    assert "trial 2: raw-spin-flag, variant buggy: livelock" in out
    assert "--seed 7" in out


def test_show_of_no_such_trial(db: Path, capsys: Capture) -> None:
    assert "its trials are 1 to 3" in one_error(capsys, status=main(["show", str(db), "9"]))


def judged(verdict: Verdict) -> Judgement:
    return Judgement(verdict=verdict, reason="so", rule="settle-4", shape=Shape(), certainty=Certainty.OBSERVED)


def pretend_judge(monkeypatch: pytest.MonkeyPatch, *, when_floor_is: dict[float, Verdict]) -> None:
    def refold(rules: Rules, gaps: Gaps, events: tuple[object, ...]) -> Judgement:
        assert gaps == Gaps(cell_s=0.25)
        assert list(events) == make_events()
        return judged(when_floor_is[rules.floor_s])

    monkeypatch.setattr(rejudge_module, "judge", SimpleNamespace(refold=refold))


def test_rejudge_of_the_same(db: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_judge(monkeypatch, when_floor_is={0.5: JUDGEMENT.verdict})
    assert main(["rejudge", str(db)]) == 0
    assert capsys.readouterr().out == (
        "2 trials folded again: 2 the same, 0 changed; 1 trial without events left out\n"
    )


def test_rejudge_that_changes_without_a_reason_is_a_bug(
    db: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_judge(monkeypatch, when_floor_is={0.5: Verdict.SLOW})
    assert main(["rejudge", str(db)]) == 1
    out = capsys.readouterr().out
    assert "trial 1 (raw-spin-flag, buggy): livelock (observed) -> slow (observed): so" in out
    assert "serious bug" in out


def test_rejudge_with_another_floor(
    db: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_judge(monkeypatch, when_floor_is={60.0: Verdict.SLOW})
    assert main(["rejudge", str(db), "--floor", "60", "--json"]) == 1
    out, err = capsysbinary.readouterr()
    documents = [json.loads(line) for line in out.splitlines()]
    assert [document["rejudged_verdict"] for document in documents] == ["slow", "slow"]
    assert [document["same"] for document in documents] == [False, False]
    assert b"serious bug" not in err
    assert b"2 changed" in err


# --- list, doctor ----------------------------------------------------------------------------------------------------


def test_list(capsys: Capture) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "raw-spin-flag" in out
    assert "techniques" in out


HYBRID = Topology(
    os="linux",
    arch="x86_64",
    cpus=tuple(Cpu(id=i, core=i, package=0, efficiency=i // 2) for i in range(4)),
    affinity=True,
    quota_cpus=1.5,
)


def pretend_host(monkeypatch: pytest.MonkeyPatch, topology: Topology, *, compiler: bool) -> None:
    checks = (("schedstat", True, "CPU times"), ("memfd", False, "not on \x1b[31mthis\x1b[0m system"))
    host = SimpleNamespace(topology=lambda: topology, checks=lambda: checks)
    found = SimpleNamespace(version="gcc 12.2.0", path="/usr/bin/gcc")
    build = SimpleNamespace(
        find_compiler=lambda name: found if compiler else NotAvailable(reason=f"no {name} here"),
        default_cache=lambda: Path("/cache"),
        check_cache=lambda _: None,
        python_includes=lambda: (Path("/include"),),
    )
    monkeypatch.setattr(doctor_module, "host", host)
    monkeypatch.setattr(doctor_module, "build", build)


def test_doctor(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_host(monkeypatch, HYBRID, compiler=True)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for line in (
        "4 CPUs (0-3) on 4 cores, 1 package, 1 memory node",
        "class 0: 2 CPUs, class 1: 2 CPUs",
        "1.5 of 4 CPUs: spinning threads will be throttled",
        "gcc 12.2.0 (/usr/bin/gcc)",
        "[n/a] memfd",
        "not on this system",
    ):
        assert line in out
    assert "[ok]  performance" in out


def test_doctor_of_a_poor_machine(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = Topology(os="macos", arch="arm64", cpus=(Cpu(id=0, core=0, package=0),), affinity=False)
    pretend_host(monkeypatch, topology, compiler=False)
    assert main(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "[n/a] gcc" in out
    assert "[n/a] one-core" in out
    assert "[n/a] efficiency classes" in out


@pytest.mark.parametrize("broken", ["check_cache", "python_includes"])
def test_doctor_tries_what_a_build_needs(broken: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise HarnessError("cache folder /cache belongs to another user (id 7): set LIVETRAP_CACHE")

    pretend_host(monkeypatch, HYBRID, compiler=True)
    monkeypatch.setattr(f"livetrap.cli.doctor.build.{broken}", fails)
    assert main(["doctor"]) == 3
    name = {"check_cache": "builds", "python_includes": "Python.h"}[broken]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if f" {name} " in line]
    assert line.startswith("  [n/a]")
    assert "belongs to another user" in line


# --- streams that cannot be written ----------------------------------------------------------------------------------


def test_closed_standard_output(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["list"]) == 3
    err = capsys.readouterr().err
    assert "standard output is closed" in err
    assert err.count("\n") == 1


CLOSED = [
    (">&-", 3, "standard output is closed"),
    (">/dev/full", 3, "standard output cannot be written (No space left on device)"),
    (">&- 2>&- <&-", 3, ""),
    ("2>/dev/full", 0, ""),
    ("2>&- <&-", 0, ""),
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("redirection", "status", "part"), CLOSED)
@pytest.mark.parametrize("command", ["list", "--version", "--help"])
def test_streams_of_a_real_process(command: str, redirection: str, status: int, part: str, unbuffered: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m livetrap {command} {redirection}', sys.executable],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == status
    assert part in done.stderr
    assert done.stderr.count("\n") == bool(part)
    assert bool(done.stdout) == (status == 0)
