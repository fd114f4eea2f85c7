"""The report of a database as a page: what is in it, that it stays small, and that a target cannot get into it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from livetrap.cli import main
from livetrap.errors import HarnessError
from livetrap.model import VariantRole, Verdict
from livetrap.report.html import check_html, render, write_html
from livetrap.report.html.choosing import choose
from livetrap.store import Store

from .making import Making, stalled, usual
from .test_markup import Seen

HOSTILE = (
    "</script></pre><script>document.title='owned'</script>"
    "\x1b[31m\x1b]0;owned\x07\u202egnp\u2066<img src=x onerror=a()>"
)
SEEN = "</script></pre><script>document.title='owned'</script>gnp<img src=x onerror=a()>"


def read(path: Path, **which: list[int]) -> str:
    with Store.open(path, create=False) as store:
        return render(store, **which)


def test_what_is_in_it(tmp_path: Path) -> None:
    text = read(usual(tmp_path / "a.db"))
    seen = Seen(text).text
    for told in (
        "raw-spin-flag: livetrap report",
        "as expected: each of 72 conclusive trials",
        "passed 24, livelock 12",
        "12 of 36, 18 to 51 % (95 %)",
        "fixed: 0 of 12; at 95 % confidence the rate is below",
        "a CPU",
        "12 of 12",
        "Trial 31: livelock (observed)",
        "The stall: no beat from 0.100 s",
        "wait at flag.c:4 (a.so+0x12): 3 threads in a loop that polls memory (plain load)",
        "0x12  mov eax, [rdi]",
        "10/11 worker, 10/12 worker, 10/13 worker",
        "the last line",
        "the stack of 10/14: it went away",
        "livetrap run raw-spin-flag --variant buggy --threads 2 --placement free --flags=-O2 --seed 5",
    ):
        assert told in seen, told
    assert "src=" not in text
    assert "href=" not in text
    assert "<script" not in text
    assert " style=" not in text


def test_nothing_of_a_target_gets_into_it(tmp_path: Path) -> None:
    made = Making(tmp_path / "a.db")
    made.campaign(HOSTILE, command=HOSTILE, path=HOSTILE)
    events, judgement = stalled()
    evidence = {
        HOSTILE: HOSTILE,
        "output": HOSTILE,
        "on_hang": HOSTILE,
        "core": HOSTILE,
        "missing": [HOSTILE, 7],
        "spin_sites": [
            {"site": HOSTILE, "where": HOSTILE, "listing": [HOSTILE], "loop": HOSTILE, "traits": [HOSTILE]},
            5,
        ],
        "stacks": [{"pid": HOSTILE, "tid": HOSTILE, "name": HOSTILE, "frames": [HOSTILE, 7]}, "no stack"],
        "stacks_by": HOSTILE,
        "left": [1, HOSTILE],
    }
    for variant, cell in ((HOSTILE, {HOSTILE: HOSTILE}), (HOSTILE, {HOSTILE: "b"})):
        made.trial(
            Verdict.LIVELOCK,
            variant=variant,
            cell=cell,
            evidence=evidence,
            scenario=HOSTILE,
            events=(events, judgement),
            repeat=HOSTILE,
            role=VariantRole.WATCHED,
        )
    text = read(made.end())
    seen = Seen(text)
    assert {"script", "img"}.isdisjoint(seen.tags)
    assert not any(name.startswith("on") for name, _ in seen.attributes)
    assert seen.text.count(SEEN) > 20
    assert "\x1b" not in text and "\u202e" not in text and "\u2066" not in text


def test_several_campaigns_are_listed_and_linked(tmp_path: Path) -> None:
    made = Making(tmp_path / "a.db")
    made.campaign("one")
    made.trial(Verdict.CORRUPT, expected=(Verdict.PASSED,))
    made.campaign("two", trials=9)
    made.trial(Verdict.SKIPPED)
    made.campaign("three")
    made.store.close()
    text = read(made.path)
    assert '<a href="#campaign-2">2</a>' in text and 'id="campaign-2"' in text
    seen = Seen(text).text
    assert "NOT as expected: 1 of 1 conclusive trial" in seen
    assert "unfinished: 1 of 9 trials are on record" in seen
    assert "nothing conclusive" in seen
    assert "not counted, neither for nor against: 1 skipped" in seen
    alone = Seen(read(made.path, campaigns=[2])).text
    assert "two: livetrap report" in alone and "Campaign" not in alone


def test_a_watch_is_told_by_its_hangs(tmp_path: Path) -> None:
    made = Making(tmp_path / "a.db")
    made.campaign("python")
    for verdict in (Verdict.PASSED, Verdict.DEADLOCK, Verdict.SLOW):
        made.trial(verdict, expected=(Verdict.PASSED,), variant="command", role=VariantRole.WATCHED, repeat="a\nb")
    text = read(made.end())
    assert "hung 1 of 3 conclusive trials, passed 1, slow 1" in text
    assert "<code>a\nb</code>" in text  # a script keeps its lines


def test_which_trials_are_told(tmp_path: Path) -> None:
    path = usual(tmp_path / "a.db")
    with Store.open(path, create=False) as store:
        glances = list(store.glances(1))
    assert choose({1: glances}) == {1: [31]}
    passed = [glance for glance in glances if glance.verdict is Verdict.PASSED]
    assert choose({1: glances, 2: passed, 3: []}, most=2) == {1: [31], 2: [passed[0].id], 3: []}
    assert "Trial 33" in Seen(read(path, trials=[33, 33])).text
    assert "Trial 31" not in Seen(read(path, trials=[33])).text


def test_what_is_not_there(tmp_path: Path) -> None:
    made = Making(tmp_path / "a.db")
    with pytest.raises(HarnessError, match="has no campaign; give a database"):
        render(made.store)
    made.campaign()
    made.trial()
    made.campaign()
    made.store.close()
    with pytest.raises(HarnessError, match="has no trial 9; its trials are 1 to 1"):
        read(made.path, trials=[9])
    with pytest.raises(HarnessError, match="has no campaign 9; it has campaigns 1 to 2"):
        read(made.path, campaigns=[9])
    with pytest.raises(HarnessError, match="trial 1 is of campaign 1, which this report leaves out"):
        read(made.path, campaigns=[2], trials=[1])


@pytest.mark.soak
def test_ten_thousand_trials_stay_small(big: Path) -> None:
    began = time.process_time()
    text = read(big)
    took = time.process_time() - began
    print(f"10,000 trials: {len(text.encode()) / 1e6:.2f} MB in {took:.2f} s")
    assert 200_000 < len(text.encode()) < 6_000_000
    assert took < 20  # a second or two; for a loaded machine
    assert "10000" in text


def test_what_would_be_too_large_is_left_out_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livetrap.report.html.page.MOST_BYTES", 10_000)
    text = read(usual(tmp_path / "a.db"))
    assert len(text) < 40_000
    assert "of this report left out to keep it small" in text


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "--html is empty"),
        (".", "is a folder"),
        ("no/such.html", "its folder is not there"),
        ("mine", "is no page of livetrap's"),
        ("/dev/null", "is not a regular file"),
        ("a\0b", "cannot be written"),
    ],
)
def test_a_bad_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(HarnessError, match=told):
        check_html(name)
    assert (tmp_path / "mine").read_text() == "precious"


def test_it_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path, file = usual(tmp_path / "a.db"), tmp_path / "folder" / "a.html"
    file.parent.mkdir()
    with Store.open(path, create=False) as store:
        write_html(store, file)
        written = file.read_text()
        with pytest.raises(HarnessError):
            write_html(store, file, trials=[999])
        with pytest.raises(HarnessError, match=r"cannot be written: No such file"):
            write_html(store, tmp_path / "none" / "a.html")
    assert file.read_text() == written
    assert [one.name for one in file.parent.iterdir()] == ["a.html"]
    check_html(str(file))


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = usual(tmp_path / "a.db")
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out == f"report: {tmp_path / 'a.html'}\n"
    assert main(["report", str(path), "-o", str(tmp_path / "b.html"), "--trial", "7", "--trial", "9"]) == 0
    seen = Seen((tmp_path / "b.html").read_text()).text
    assert "Trial 7" in seen and "Trial 9" in seen


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["report", ""], "DB is empty"),
        (["report", "none.db"], "none.db does not exist"),
        (["report", "."], "is a folder"),
        (["report", "a.db", "-o", "a.db"], "a.db is the database"),
        (["report", "a.db", "-o", ""], "-o is empty"),
        (["report", "a.db", "-o", "notes.html"], "is no page of livetrap's"),
        (["report", "notes.db"], "without -o: notes.html is no page of livetrap's"),
        (["report", "a.db", "--trial", "1000"], "has no trial 1000"),
        (["report", "a.db", "--campaign", "4"], "has no campaign 4; it has campaign 1"),
        (["report", "notes.html"], "is not an SQLite database"),
    ],
)
def test_bad_input_of_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    usual(tmp_path / "a.db")
    (tmp_path / "notes.db").write_bytes((tmp_path / "a.db").read_bytes())
    (tmp_path / "notes.html").write_text("mine " * 100)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a.html").exists()
