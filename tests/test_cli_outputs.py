"""`--html`, `--junit`, `--github`: refused in one line before anything runs, and written however a campaign ends."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest

from livetrap.cli import main
from livetrap.cli.outputs import NONE, Outputs, Ran, check, concluded, write
from livetrap.errors import HarnessError
from livetrap.model import Verdict
from livetrap.report.github import SUMMARY
from livetrap.store import Store
from tests.test_cases import PLAN, fill, record
from tests.test_cli import Capture, one_error
from tests.test_cli_watch import Pretence, pretend, program

__all__ = ["pretend", "program"]


@pytest.fixture
def ran(tmp_path: Path) -> Ran:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.PASSED))
        return Ran(db=store.path, campaign=fill(store, record(2, Verdict.LIVELOCK), plan={**PLAN, "ended": ""}))


def asked(folder: Path) -> Outputs:
    return Outputs(html=str(folder / "r.html"), junit=str(folder / "j.xml"), github=True)


CLASHES = [
    (Outputs(html="x", junit="x"), None, None, "--html x is the file of --junit x"),
    (Outputs(html="x", junit="./x"), None, None, "is the file of"),
    (Outputs(html="x"), "x", None, "--html x is the file of --db x"),
    (Outputs(junit="x.db-wal"), "x.db", None, "--junit x.db-wal is the file of --db x.db"),
    (Outputs(junit="x"), None, "x", "--junit x is the file of --json x"),
    (Outputs(junit="s.md", github=True), None, None, f"--junit s.md is the file of {SUMMARY} s.md"),
    (Outputs(html=""), None, None, "--html is empty"),
    (Outputs(junit=""), None, None, "--junit is empty"),
    (Outputs(junit="/no/such/j.xml"), None, None, "its folder is not there"),
    (Outputs(html="/"), None, None, "is a folder"),
]


@pytest.mark.parametrize(("outputs", "db", "json", "part"), CLASHES)
def test_refused(
    outputs: Outputs, db: str | None, json: str | None, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HarnessError, match=r".+") as caught:
        check(outputs, db=db, json=json, environment={SUMMARY: "s.md"})
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_the_same_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(HarnessError, match="give each its own"):
        check(Outputs(html=str(tmp_path / "link"), junit=str(tmp_path / "x")), db=None)


def test_what_is_not_asked_for_is_not_looked_at() -> None:
    check(NONE, db="x", json="-", environment={SUMMARY: "/no/such/s.md"})
    check(Outputs(html="x.html", junit="x.xml"), db="x.db", json="-", environment={SUMMARY: "/no/such/s.md"})


def test_everything_of_this_campaign_alone(ran: Ran, tmp_path: Path) -> None:
    out = io.StringIO()
    assert concluded(asked(tmp_path), ran, lambda: 1, stream=out) == 1
    text = out.getvalue().splitlines()
    assert text[0].startswith("::stop-commands::")
    assert text[2:4] == [f"report: {tmp_path / 'r.html'}", f"junit: {tmp_path / 'j.xml'}"]
    assert text[4].startswith("::error title=livetrap%3A livelock")
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "1")
    assert "<html" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_several_campaigns_that_belong_together(ran: Ran, tmp_path: Path) -> None:
    both = Ran(db=ran.db, campaign=1, last=2)
    write(Outputs(junit=str(tmp_path / "j.xml")), both, stream=io.StringIO(), environment={})
    assert len(ElementTree.parse(tmp_path / "j.xml").getroot()) == 2


@pytest.mark.parametrize("error", [HarnessError("the disk is full", status=3), KeyboardInterrupt(), BrokenPipeError()])
def test_written_also_when_the_campaign_could_not_go_on(error: BaseException, ran: Ran, tmp_path: Path) -> None:
    def fails() -> int:
        raise error

    with pytest.raises(type(error)):
        concluded(asked(tmp_path), ran, fails, stream=io.StringIO())
    assert (tmp_path / "j.xml").exists()
    assert (tmp_path / "r.html").exists()


def test_one_that_cannot_be_written_leaves_the_others(ran: Ran, tmp_path: Path) -> None:
    outputs = Outputs(html="/no/such/r.html", junit=str(tmp_path / "j.xml"))
    with pytest.raises(HarnessError, match=r"/no/such/r\.html cannot be written") as caught:
        write(outputs, ran, stream=io.StringIO(), environment={})
    assert caught.value.status == 3
    assert (tmp_path / "j.xml").exists()


def test_nothing_began(tmp_path: Path) -> None:
    write(asked(tmp_path), Ran(db=tmp_path / "none.db", campaign=0), stream=io.StringIO(), environment={})
    assert not (tmp_path / "j.xml").exists()


# --- as commands -----------------------------------------------------------------------------------------------------


def test_a_watch_writes_them(pretend: Pretence, program: str, tmp_path: Path, capsys: Capture) -> None:
    pretend.verdicts = [Verdict.PASSED, Verdict.LIVELOCK]
    db, xml, page = tmp_path / "w.db", tmp_path / "w.xml", tmp_path / "w.html"
    status = main(["watch", "--db", str(db), "--junit", str(xml), "--html", str(page), "--github", "--", program])
    assert status == 1
    out = capsys.readouterr().out
    assert "\n::error title=livetrap%3A livelock in prog::" in out
    failure = ElementTree.parse(xml).getroot().find(".//failure")
    assert failure is not None
    assert "round 7" in str(failure.text)
    assert page.exists()


def test_with_json_on_standard_output_they_go_where_people_read(
    pretend: Pretence, program: str, tmp_path: Path, capsys: Capture
) -> None:
    pretend.verdicts = [Verdict.LIVELOCK]
    assert main(["watch", "--db", str(tmp_path / "w.db"), "--json", "-", "--github", "--", program]) == 1
    out, err = capsys.readouterr()
    assert all(line.startswith("{") for line in out.splitlines())
    assert "::error title=" in err


@pytest.mark.parametrize("command", ["run", "watch"])
def test_bad_ones_are_one_line(command: str, program: str, tmp_path: Path, capsys: Capture) -> None:
    what = ["raw-spin-flag"] if command == "run" else ["--", program]
    same = str(tmp_path / "x")
    status = main([command, "--junit", same, "--html", same, *what])
    assert "give each its own" in one_error(capsys, status=status)
    status = main([command, "--db", same, "--junit", same, *what])
    assert "is the file of --db" in one_error(capsys, status=status)
