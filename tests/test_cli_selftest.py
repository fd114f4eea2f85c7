"""`livetrap selftest` on the command line: bad input in one line, and the tables as people read them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from livetrap.calibration import Calibration, calibrate
from livetrap.cli import main
from livetrap.report.selftest import MOST_WRONG, print_calibration, print_calibration_end
from livetrap.report.text import console
from tests.test_calibration import ALWAYS, judged, member
from tests.test_cli import Capture, one_error
from tests.test_expectations import LOOK_ALIKE, SPIN, right

BAD_USAGE = [
    (["--scenario", "raw-spin-falg"], "did you mean 'raw-spin-flag'"),
    (["--scenario", ""], "--scenario is empty"),
    (["--scenario", "./nowhere"], "no such file or folder"),
    (["--seed", "-1"], "--seed -1"),
    (["--seed", "x"], "--seed 'x'"),
    (["--db", ""], "--db"),
    (["--json", ""], "--json is empty"),
    (["--json", "."], "is a folder"),
    (["--quik"], "--quik"),
    (["raw-spin-flag"], "raw-spin-flag"),
]


@pytest.mark.parametrize(("words", "told"), BAD_USAGE)
def test_bad_usage(words: list[str], told: str, capsys: Capture) -> None:
    assert told in one_error(capsys, status=main(["selftest", *words]))


def test_two_scenarios_of_one_name(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "scenario.toml").write_text(SPIN.replace('"spin"', '"raw-spin-flag"'))
    status = main(["selftest", "--scenario", "raw-spin-flag", "--scenario", str(tmp_path)])
    assert "two are named 'raw-spin-flag'" in one_error(capsys, status=status)


def printed(calibration: Calibration, skipped: dict[str, str] | None = None, *, interrupted: bool = False) -> str:
    stream = io.StringIO()
    out = console(stream)
    print_calibration(out, calibration, skipped or {})
    print_calibration_end(out, calibration, took_s=12.3, db=Path("x.db"), interrupted=interrupted)
    return stream.getvalue()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_matrix_and_the_variants() -> None:
    text = printed(calibrate([member(ALWAYS), member(LOOK_ALIKE, "slow")]))
    assert ["variants", "expected", "passed", "livelock", "slow"] in rows(text)
    assert ["buggy", "livelock", "-", "2", "-"] in rows(text)
    assert ["fixed", "passed", "8", "-", "-"] in rows(text)
    assert ["look-alike", "slow", "-", "-", "3"] in rows(text)
    buggy, fixed, like = (" ".join(row) for row in rows(text) if row[:1] == ["ok"])
    assert buggy.startswith("ok buggy buggy, always passed 6/8, livelock 2/8 2 of 2, 15 to 100 % (95 %) 0.")
    assert fixed == "ok fixed fixed passed 8/8 8 of 8"
    assert like == "ok like look-alike slow 3/3 3 of 3"
    assert "as expected: no wrong verdict in 2 scenarios, 19 trials in 12 s\nrecord: x.db  (one trial of it" in text


def test_what_is_wrong_is_told_and_where_to_look() -> None:
    calibration = judged(SPIN, lambda t: "deadlock" if t.variant == "fixed" else right(t))
    text = printed(calibration)
    assert "false alarm: spin, fixed threads=1" in text
    first = calibration.wrong[0].trials[0]
    assert "NOT as expected: 4 wrong verdicts in 1 scenario, 16 trials" in text
    assert f"livetrap show x.db {first})" in text


def test_many_wrong_verdicts_are_counted() -> None:
    wide = ALWAYS.replace("threads = [1, 2]", f"threads = {list(range(1, 30))}")
    text = printed(judged(wide, "passed"))
    assert text.count("missed: ") == MOST_WRONG
    assert f"and {28 - MOST_WRONG} more that are wrong" in text


def test_what_is_not_seen_skipped_or_not_said() -> None:
    text = printed(calibrate([member(SPIN, "passed")]), {"other": "no C compiler"})
    assert "the bug did not show, which is inconclusive for this machine: spin, buggy\n" in text
    assert "skipped: other: no C compiler" in text
    assert "no bug was caught: a harness that convicts nobody does not pass" in text
    assert "nothing is said: no wrong verdict" in text


def test_nothing_has_ended() -> None:
    text = printed(judged(SPIN, lambda _: None), interrupted=True)
    assert "stopped after 0 of 16 trials" in text
    assert "interrupted: no wrong verdict in 1 scenario, 0 trials" in text
    assert "record" not in text
