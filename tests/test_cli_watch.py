"""`livetrap watch` and `livetrap attach` as commands: options, bad input in one line, streams, exit statuses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import livetrap.cli.attach as attach_module
import livetrap.cli.watch as watch_module
from livetrap import watching
from livetrap.attached import Attached
from livetrap.cli import main
from livetrap.cli.watch_options import assignments, duration
from livetrap.errors import HarnessError
from livetrap.model import Judgement, PlannedTrial, Record, Shape, VariantRole, Verdict
from livetrap.store import Store
from livetrap.watching import Options, Watch
from tests.test_cli import Capture, one_error
from tests.test_store import add, make_record


def make_watched(number: int, trial: PlannedTrial, verdict: Verdict) -> Record:
    return msgspec.structs.replace(
        make_record(number, verdict=verdict),
        scenario=trial.scenario,
        variant=trial.variant,
        role=VariantRole.WATCHED,
        cell=trial.cell,
        expected=trial.expected,
        as_expected=verdict is Verdict.PASSED,
        compiler="",
        shape=Shape(spinning=1, parked=1) if verdict is Verdict.LIVELOCK else Shape(),
        evidence={"reason": "1 thread polls", "output": "\x1b[31mround 7\x1b[0m\n"},
    )


class Pretence:
    """Stands for the campaign: trial i ends with verdict i, those beyond pass."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self.given: Watch | None = None
        self.command = ""
        self.ends_with: Callable[[], None] = lambda: None

    def watch(self, planned: Watch, *, store: Store, listener: object, command: str, **_: object) -> None:
        self.given, self.command = planned, command
        store.begin_campaign({"scenario": planned.name, "seed": planned.seed, "command": command}, {})
        listener.started(planned)  # type: ignore[attr-defined]
        for number, trial in enumerate(watching.trials(planned), start=1):
            verdict = self.verdicts[number - 1] if number <= len(self.verdicts) else Verdict.PASSED
            listener.trial_started(trial)  # type: ignore[attr-defined]
            record = make_watched(store.next_id(), trial, verdict)
            add(store, record)
            listener.trial_finished(record)  # type: ignore[attr-defined]
            if planned.ends_at(verdict):
                break
        self.ends_with()


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretence:
    pretence = Pretence()
    monkeypatch.setattr(watch_module, "campaign", pretence)
    return pretence


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "prog"
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5h", 5400.0), ("10m", 600.0), ("10 min", 600.0), ("250ms", 0.25), ("2d", 172800)],
)
def test_duration(text: str, seconds: float) -> None:
    assert duration("for", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf", "1e3", "5 weeks", "9999999d"])
def test_no_duration(text: str) -> None:
    with pytest.raises(HarnessError, match="--for"):
        duration("for", text)


def test_assignments() -> None:
    assert assignments("env", ["N=2,4", "MODE=fast, slow", "N=8,2", "OPT=a=b"]) == {
        "N": (2, 4, 8),
        "MODE": ("fast", "slow"),
        "OPT": ("a=b",),
    }
    assert assignments("env", ["V=007,-1,1_000,9999999999999999999"]) == {"V": ("007", -1, "1_000", "9" * 19)}
    assert assignments("param", None) == {}


def test_options_reach_the_watch(pretend: Pretence, program: str, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    line = (
        "watch --trials 2 --for 10m --timeout 20 --stall 1.5 --startup 3 --env N=2,4 --param t=1 --placement free "
        "--disturb none,pause --progress regex:^step --jobs 3 --keep-going --leave --core --seed 9 --db"
    )
    assert main([*line.split(), str(db), "--on-hang", "gdb -p {pid}", "--", program, "-x", "{t}", "--trials"]) == 0
    watch = pretend.given
    assert watch is not None
    assert watch.options == Options(
        command=(program, "-x", "{t}", "--trials"),
        environment={"N": (2, 4)},
        parameters={"t": (1,)},
        placements=("free",),
        disturbances=("none", "pause"),
        trials=2,
        for_s=600.0,
        timeout_s=20.0,
        stall_s=1.5,
        startup_s=3.0,
        progress="regex:^step",
        jobs=3,
        keep_going=True,
        on_hang="gdb -p {pid}",
        leave=True,
        core=True,
        seed=9,
    )
    assert pretend.command.startswith("livetrap watch --trials 2")


def test_options_of_the_command_are_its_own_without_dashes_too(pretend: Pretence, program: str, tmp_path: Path) -> None:
    assert main(["watch", "--trials", "1", "--db", str(tmp_path / "a.db"), program, "--trials", "x", "--", "-h"]) == 0
    assert pretend.given is not None
    assert pretend.given.options.command == (program, "--trials", "x", "--", "-h")


BAD_INPUT = [
    ([], "there is no command"),
    (["--"], "there is no command"),
    (["--", ""], "there is no command"),
    (["--", "--trials", "3"], "'--trials' is no command"),
    (["--", "/nonexistent/a.out"], "/nonexistent/a.out"),
    (["--", "no-such-program-anywhere"], "no-such-program-anywhere"),
    (["--", "/etc/passwd"], "/etc/passwd"),
    (["--", "/"], "cannot run"),
    (["--env", "N", "--", "true"], "--env N has no values"),
    (["--env", "N=", "--", "true"], "--env N has no values"),
    (["--env", "N=1,,2", "--", "true"], "has an empty value"),
    (["--env", "=1", "--", "true"], "must be a name and its values"),
    (["--env", "LIVETRAP_PAGE=1", "--", "true"], "the harness's own"),
    (["--env", "placement=1", "--", "true"], "--placement"),
    (["--env", "N=1", "--param", "N=1", "--", "true", "{N}"], "one name for two things"),
    (["--param", "n=1", "--", "true"], "the command has no {n}"),
    (["--", "true", "{n}"], "unknown placeholder {n}"),
    (["--trials", "0", "--", "true"], "--trials 0"),
    (["--for", "soon", "--", "true"], "--for 'soon'"),
    (["--timeout", "nan", "--", "true"], "--timeout nan"),
    (["--stall", "40", "--", "true"], "--timeout 80 or more"),
    (["--stall", "-1", "--", "true"], "--stall -1"),
    (["--startup", "nan", "--", "true"], "--startup nan"),
    (["--jobs", "0", "--", "true"], "--jobs 0"),
    (["--placement", "fre", "--", "true"], "--placement fre"),
    (["--placement", "", "--", "true"], "--placement is empty"),
    (["--disturb", "hog:2", "--", "true"], "--disturb hog:2"),
    (["--progress", "beat", "--", "true"], "did you mean 'beats'"),
    (["--progress", "regex:", "--", "true"], "has no expression"),
    (["--progress", "regex:(", "--", "true"], "no regular expression"),
    (["--on-hang", " ", "--", "true"], "--on-hang is empty"),
    (["--seed", "-1", "--", "true"], "--seed -1"),
    (["--trials", "x", "--", "true"], "--trials 'x': must be a whole number, e.g. --trials 10"),
    (["--timeout=10s", "--", "true"], "--timeout '10s': must be a number, e.g. --timeout 10"),
    (["--jobs", "1", "--jobs", "x", "--", "true"], "--jobs 'x'"),
    (["--startup", "61", "--", "true"], "--startup 61: must be at most --timeout 60; give --timeout 61 or more"),
    (["--for", "99999999999d", "--", "true"], "--for 99999999999d: is too long; at most 2592000 seconds (30d)"),
    (["--disturb", "hogs:2+none", "--", "true"], "none cannot be joined with others"),
    (["--progress", "", "--", "true"], "--progress is empty"),
    (["--db", "", "--", "true"], "--db"),
    (["--json", "/nonexistent/x.json", "--", "true"], "--json"),
    (["--nonsense", "--", "true"], "--nonsense"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD_INPUT)
def test_bad_input_is_one_line(arguments: list[str], words: str, pretend: Pretence, capsys: Capture) -> None:
    assert words in one_error(capsys, status=main(["watch", *arguments]))
    assert pretend.given is None


@pytest.mark.parametrize("arguments", [["--nonsense", "--", "true"], ["--", "/nonexistent/a.out"], ["--trials", "0"]])
def test_bad_input_is_no_fault_of_the_commit(arguments: list[str], capsys: Capture) -> None:
    one_error(capsys, status=main(["watch", "--bisect", *arguments]), expected=125)


def test_the_options_of_a_command_do_not_bisect(capsys: Capture) -> None:
    assert main(["watch", "--nonsense", "--", "true", "--bisect"]) == 2
    assert "--nonsense" in capsys.readouterr().err


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_the_table_tells_which_setting_hung_how_often(
    pretend: Pretence, program: str, tmp_path: Path, capsys: Capture
) -> None:
    pretend.verdicts = [Verdict.PASSED, Verdict.LIVELOCK] * 3
    db = tmp_path / "a.db"
    assert main(["watch", "--env", "N=2,4", "--keep-going", "--trials", "3", "--db", str(db), "--", program]) == 1
    out, err = capsys.readouterr()
    assert "2  passed 3/3" in out
    assert "0 of 3, below 64 % (95 %)" in out
    assert "4  livelock 3/3  3 of 3, 29 to 100 % (95 %)  1 spinning, 1 parked" in out
    assert "trial 2 (N=4): livelock (observed), 1 spinning, 1 parked" in out
    assert "    round 7\n" in out
    assert "NOT as expected: hung 3 of 6 trials, in " in out
    assert f"record: {db}" in out
    assert f"livetrap show {db} 2" in out
    assert "2 cells, 6 trials, seed" in err


def test_it_ends_at_the_first_hang_and_says_so(
    pretend: Pretence, program: str, tmp_path: Path, capsys: Capture
) -> None:
    pretend.verdicts = [Verdict.LIVELOCK]
    assert main(["watch", "--db", str(tmp_path / "a.db"), "--", program]) == 1
    out = capsys.readouterr().out
    assert "livelock 1/1" in out
    assert "--keep-going" in out


@pytest.mark.parametrize(
    ("verdict", "status", "bisect", "words"),
    [
        (Verdict.PASSED, 0, 0, "every trial passed"),
        (Verdict.DEADLOCK, 1, 1, "NOT as expected"),
        (Verdict.CRASHED, 1, 1, "NOT as expected"),
        (Verdict.WAITING, 3, 125, "1 waiting, 1 passed: not every trial passed, in "),
        (Verdict.INCONCLUSIVE, 3, 125, "1 inconclusive, 1 passed: not every trial passed, in "),
    ],
)
def test_exit_status(
    verdict: Verdict,
    status: int,
    bisect: int,
    words: str,
    pretend: Pretence,
    program: str,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    pretend.verdicts = [verdict]
    line = ["--trials", "2", "--db", str(tmp_path / "a.db"), "--", program]
    assert main(["watch", *line]) == status
    assert words in capsys.readouterr().out
    assert main(["watch", "--bisect", *line]) == bisect


def test_interrupted_keeps_what_there_is(pretend: Pretence, program: str, tmp_path: Path, capsys: Capture) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    pretend.ends_with = interrupt
    assert main(["watch", "--bisect", "--trials", "2", "--db", str(tmp_path / "a.db"), "--", program]) == 130
    assert "interrupted: hung 0 of 2 trials, in" in capsys.readouterr().out


def test_whoever_reads_may_leave(pretend: Pretence, program: str, tmp_path: Path, capsys: Capture) -> None:
    def leave() -> None:
        raise BrokenPipeError

    pretend.ends_with = leave
    line = ["--trials", "1", "--db", str(tmp_path / "a.db"), "--", program]
    assert main(["watch", *line]) == 141
    assert main(["watch", "--bisect", *line]) == 125
    assert "Error" not in capsys.readouterr().err


def test_a_failure_is_told_after_the_summary(pretend: Pretence, program: str, tmp_path: Path, capsys: Capture) -> None:
    def fail() -> None:
        raise HarnessError("the disk is full", status=3)

    pretend.ends_with = fail
    assert main(["watch", "--trials", "2", "--db", str(tmp_path / "a.db"), "--", program]) == 3
    out, err = capsys.readouterr()
    assert "ended early: hung 0 of 2 trials, in" in out
    assert err.endswith("livetrap: the disk is full\n")


@pytest.mark.usefixtures("pretend")
def test_json_on_stdout_leaves_it_to_the_lines(
    program: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["watch", "--trials", "2", "--json", "-", "--db", str(tmp_path / "a.db"), "--", program]) == 0
    out, err = capfdbinary.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["schema"], line["scenario"], line["role"]) for line in lines] == [(1, "watch", "watched")] * 2
    assert b"every trial passed" in err


def test_a_watch_that_could_run_nothing(pretend: Pretence, program: str, tmp_path: Path, capsys: Capture) -> None:
    pretend.verdicts = [Verdict.SKIPPED]
    assert main(["watch", "--placement", "spread", "--db", str(tmp_path / "a.db"), "--", program]) == 3
    out = capsys.readouterr().out
    assert "skipped 1/1" in out
    assert "nothing is said: hung 0 of 0 trials, 1 more say nothing, in" in out
    assert "trial 1 (placement=spread): skipped" in out


# --- attach ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    seen = SimpleNamespace(given=None, verdict=Verdict.LIVELOCK)

    def attach(pid: int, *, for_s: float, stacks: bool, note: Callable[[str], None]) -> Attached:
        seen.given = (pid, for_s, stacks)
        note("looking at it")
        judgement = Judgement(verdict=seen.verdict, reason="it spins", rule="settle-1", shape=Shape(spinning=1))
        return Attached(judgement=judgement, events=(), names={str(pid): "prog"}, evidence={"missing": ["gdb"]})

    monkeypatch.setattr(attach_module, "campaign", SimpleNamespace(attach=attach))
    return seen


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.LIVELOCK, 1),
        (Verdict.DEADLOCK, 1),
        (Verdict.INCONCLUSIVE, 3),
        (Verdict.SLOW, 0),
        (Verdict.WAITING, 0),
        (Verdict.PASSED, 0),
    ],
)
def test_attach(attached: SimpleNamespace, verdict: Verdict, status: int, capsys: Capture) -> None:
    attached.verdict = verdict
    assert main(["attach", "123"]) == status
    assert attached.given == (123, 10.0, False)
    out, err = capsys.readouterr()
    assert out.startswith(f"process 123 (prog): {verdict.value}")
    assert err == "looking at it\n"


def test_attach_says_what_stacks_do_before_it_looks(attached: SimpleNamespace, capsys: Capture) -> None:
    assert main(["attach", "--for", "1m", "--stacks", "9"]) == 1
    assert attached.given == (9, 60.0, True)
    first, second = capsys.readouterr().err.splitlines()
    assert "can end a hang" in first
    assert second == "looking at it"


def test_attach_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def attach(_pid: int, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(attach_module, "campaign", SimpleNamespace(attach=attach))
    assert main(["attach", "9"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"interrupted after \d+ ms: nothing is said\n", err)


@pytest.mark.usefixtures("attached")
def test_attach_json(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "a.json"
    assert main(["attach", "9", "--json", str(path)]) == 1
    document = json.loads(path.read_bytes())
    assert (document["schema"], document["verdict"], document["pid"], document["threads"]) == (1, "livelock", 9, [])
    assert b"process 9" in capfdbinary.readouterr().out
    assert main(["attach", "9", "--json", "-"]) == 1
    out, err = capfdbinary.readouterr()
    assert json.loads(out) == document
    assert b"process 9" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "PID"),
        (["prog"], "PID 'prog'"),
        (["0"], "PID '0'"),
        (["-5"], "-5"),
        (["99999999999"], "PID '99999999999'"),
        (["1", "--for", "0"], "--for 0"),
        (["1", "--for", "2d"], "at most 86400"),
        (["1", "--json", ""], "--json is empty"),
    ],
)
def test_attach_bad_input(attached: SimpleNamespace, arguments: list[str], words: str, capsys: Capture) -> None:
    assert words in one_error(capsys, status=main(["attach", *arguments]))
    assert attached.given is None


@pytest.mark.parametrize("whose", [os.getpid, os.getppid])
def test_attach_to_the_harness_itself_is_refused(whose: Callable[[], int], capsys: Capture) -> None:
    pid = whose()
    assert str(pid) in one_error(capsys, status=main(["attach", str(pid)]))
