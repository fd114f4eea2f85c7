"""JUnit XML of a campaign: what CIs read out of it, and that whatever a target wrote leaves it well-formed."""

from __future__ import annotations

import time
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from livetrap.errors import HarnessError
from livetrap.model import VariantRole, Verdict
from livetrap.report import junit as junit_module
from livetrap.report.junit import check_junit, junit, write_junit
from livetrap.store import Store
from tests.test_cases import PLAN, fill, record
from tests.test_store import add

HOSTILE = "]]></failure>\x00\x0b\ufffe\uffff<script>&amp; \x1b]0;title\x07\u202egnp\r\n\x85 \U0001f600 ok"


def parsed(store: Store) -> ElementTree.Element:
    return ElementTree.fromstring(junit(store))


def test_one_case_a_cell_and_counts_that_add_up(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(
            store,
            record(1, Verdict.PASSED),
            record(2, Verdict.PASSED),
            record(3, Verdict.LIVELOCK, cell={"threads": 4}),
            record(4, Verdict.SKIPPED, cell={"threads": 8}),
            record(5, Verdict.ERROR, cell={"threads": 16}),
        )
        root = parsed(store)
    (suite,) = root
    counts = {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.050"}
    for element in (root, suite):
        assert {name: element.get(name) for name in counts} == counts
    assert suite.get("name") == "raw-spin-flag"
    assert suite.get("timestamp") == "2026-01-02T03:04:05"
    assert suite.get("hostname") == "m"
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["threads=2", "threads=4", "threads=8", "threads=16"]
    assert {case.get("classname") for case in cases} == {"livetrap.raw-spin-flag.fixed"}
    passed, failed, skipped, error = cases
    assert [child.tag for child in passed] == ["system-out"]
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("type") == "livelock"
    assert failure.get("message") == "1 livelock of 1 trial; expected passed"
    assert "trial 3 (threads=4): livelock (observed), 1 spinning, 1 parked" in str(failure.text)
    assert "repeat this cell\n  livetrap run raw-spin-flag --variant fixed --threads 4 --seed 5" in str(failure.text)
    assert skipped.find("skipped") is not None
    broken = error.find("error")
    assert broken is not None
    assert broken.get("message") == "1 error of 1 trial: why 5"
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties["seed"] == "5"
    assert properties["os"] == "linux"


def test_a_campaign_that_was_interrupted_is_not_green(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.PASSED), plan={**PLAN, "ended": ""})
        (suite,) = parsed(store)
    assert (suite.get("tests"), suite.get("errors")) == ("2", "1")
    last = suite.findall("testcase")[-1]
    error = last.find("error")
    assert last.get("name") == "the campaign"
    assert error is not None
    assert str(error.get("message")).startswith("unfinished: 1 of 3 trials are on record")


def test_no_trial_at_all(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, plan={"scenario": "s"})
        root = parsed(store)
    assert (root.get("tests"), root.get("errors")) == ("1", "1")


def test_whatever_a_target_wrote_the_file_is_well_formed(tmp_path: Path) -> None:
    bad = record(
        1,
        Verdict.LIVELOCK,
        role=VariantRole.WATCHED,
        cell={"x<&\"'": HOSTILE},
        evidence={"reason": HOSTILE, "output": HOSTILE, "stacks": [{"name": HOSTILE, "frames": [HOSTILE]}]},
    )
    with Store.open(tmp_path / "a.db") as store:
        fill(store, msgspec.structs.replace(bad, scenario=HOSTILE), plan={"scenario": HOSTILE, "command": HOSTILE})
        text = junit(store)
        (suite,) = ElementTree.fromstring(text)
    assert not any(ord(letter) < 32 and letter not in "\t\n" for letter in text)
    for letter in "\ufffe\uffff\u202e\x85":
        assert letter not in text
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "]]></failure><script>&amp;" in str(failure.text)
    assert "\U0001f600 ok" in str(failure.text)


def test_the_levels_of_a_class_are_parted_by_dots_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.PASSED, role=VariantRole.WATCHED, cell={}), plan={"scenario": "python3.11"})
        (suite,) = parsed(store)
    case = suite.find("testcase")
    assert case is not None
    assert (case.get("classname"), case.get("name")) == ("livetrap.python3_11.command", "command")


def test_evidence_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_module, "MOST_EVIDENCE", 400)
    with Store.open(tmp_path / "a.db") as store:
        fill(store, *(record(i, Verdict.LIVELOCK, cell={"threads": i}) for i in range(1, 9)))
        texts = [str(failure.text) for failure in parsed(store).iter("failure")]
    assert len(texts) == 8
    assert "spinning" in texts[0]
    assert texts[-1] == f"livetrap show {tmp_path / 'a.db'} 8"


def test_written_as_a_whole_and_only_over_its_own(tmp_path: Path) -> None:
    target = tmp_path / "j.xml"
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.PASSED))
        write_junit(store, target)
        check_junit(str(target))
        write_junit(store, target, campaigns=[1])
        with pytest.raises(HarnessError, match="cannot be written") as caught:
            write_junit(store, tmp_path / "none" / "j.xml")
    assert caught.value.status == 3
    assert sorted(path.name for path in tmp_path.iterdir() if "a.db" not in path.name) == ["j.xml"]
    target.write_text('<testsuites name="pytest"/>', encoding="utf-8")
    for given, part in (
        (target, "is no report of livetrap's"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "j.xml", "its folder is not there"),
        (Path("/dev/null"), "is not a regular file"),
        ("", "--junit is empty"),
    ):
        with pytest.raises(HarnessError, match=part) as caught:
            check_junit(str(given))
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_ten_thousand_trials_take_no_time(tmp_path: Path) -> None:
    """A tenth of what is asked of the report that people read, with room for a busy machine."""
    with Store.open(tmp_path / "a.db") as store:
        with store.at_once():
            fill(store)
            for number in range(1, 10_001):
                verdict = Verdict.LIVELOCK if number % 7 == 0 else Verdict.PASSED
                add(store, record(number, verdict, cell={"threads": number % 100}), events=())
        began = time.process_time()
        text = junit(store)
        took_s = time.process_time() - began
    assert took_s < 2.0
    assert len(text) < 9_000_000
