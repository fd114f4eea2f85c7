"""What GitHub Actions is shown: annotations that no text can break out of, and a summary that stays text."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from livetrap.errors import HarnessError
from livetrap.model import VariantRole, Verdict
from livetrap.report import github
from livetrap.report.cases import suites_of
from livetrap.report.github import (
    MOST_ANNOTATIONS,
    MOST_MESSAGE,
    SUMMARY,
    check_summary,
    command,
    fenced,
    markdown,
    muted,
    summary,
    write_github,
)
from livetrap.store import Store
from tests.test_cases import PLAN, fill, record

HOSTILE = "100% |`x`|\n::error::mine\r\n<img src=x> [a](http://b) @all ![c](d) www.e.f ```\n~~~ :+1: $x$ a_b_c"


def written(store: Store, **environment: str) -> list[str]:
    out = io.StringIO()
    write_github(store, out=out, environment=environment)
    return out.getvalue().splitlines()


# --- annotations -----------------------------------------------------------------------------------------------------


def test_a_hang_is_an_error_and_what_could_not_be_run_a_warning(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(
            store,
            record(1, Verdict.PASSED),
            record(2, Verdict.LIVELOCK, cell={"threads": 4}),
            record(3, Verdict.ERROR, cell={"threads": 8}),
            record(4, Verdict.SKIPPED, cell={"threads": 16}),
        )
        lines = written(store)
    repeat = "repeat: livetrap run raw-spin-flag --variant fixed --threads"
    assert lines == [
        "::error title=livetrap%3A livelock in raw-spin-flag::fixed threads=4: 1 livelock of 1 trial; expected passed"
        f"%0Awhy 2%0A{repeat} 4 --seed 5",
        "::warning title=livetrap%3A error in raw-spin-flag::fixed threads=8: 1 error of 1 trial: why 3"
        f"%0A{repeat} 8 --seed 5",
    ]


def test_a_bug_that_did_not_show(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.PASSED, role=VariantRole.BUGGY, expected=(Verdict.LIVELOCK,)))
        (line,) = written(store)
    assert line.startswith("::error title=livetrap%3A not as expected in raw-spin-flag::buggy threads=2: 1 passed of 1")


def test_a_campaign_that_did_not_end(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.PASSED), plan={**PLAN, "ended": ""})
        (line,) = written(store)
    assert line.startswith("::warning title=livetrap%3A raw-spin-flag::unfinished: 1 of 3 trials")


def test_no_more_annotations_than_are_shown(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        fill(store, *(record(i, Verdict.LIVELOCK, cell={"threads": i}) for i in range(1, 31)))
        lines = written(store)
    assert len(lines) == MOST_ANNOTATIONS
    assert "::and 21 more cells; livetrap report" in lines[-1]


def test_texts_are_escaped_as_the_runner_reads_them() -> None:
    text = command("error", "a: b, 100%\n::x", "50%\n::set-output name=a::b\r\nend")
    assert text == "::error title=a%3A b%2C 100%25 %3A%3Ax::50%25%0A::set-output name=a::b%0Aend"
    assert len(command("error", "t", "x" * 10_000)) < MOST_MESSAGE + 100


def test_hostile_texts_stay_within_their_line(tmp_path: Path) -> None:
    bad = record(1, Verdict.LIVELOCK, cell={"x": HOSTILE}, evidence={"reason": HOSTILE, "output": HOSTILE})
    with Store.open(tmp_path / "a.db") as store:
        fill(store, bad, plan={**PLAN, "scenario": HOSTILE})
        lines = written(store)
    assert len(lines) == 1
    assert re.fullmatch(r"::error title=[^:,]*::.*", lines[0])


def test_nothing_that_is_printed_meanwhile_is_a_command() -> None:
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), muted(out):
        print("::error::by the target", file=out)
        raise KeyboardInterrupt
    first, _, last = out.getvalue().splitlines()
    token = first.removeprefix("::stop-commands::")
    assert len(token) >= 32
    assert last == f"::{token}::"


# --- the summary -----------------------------------------------------------------------------------------------------


def test_the_summary_is_appended(tmp_path: Path) -> None:
    target = tmp_path / "summary.md"
    target.write_text("before\n", encoding="utf-8")
    buggy = {"role": VariantRole.BUGGY, "expected": (Verdict.LIVELOCK,)}
    with Store.open(tmp_path / "a.db") as store:
        fill(
            store,
            record(1, Verdict.LIVELOCK, **buggy),  # type: ignore[arg-type]
            record(2, Verdict.PASSED),
            record(3, Verdict.LIVELOCK, cell={"threads": 4}),
        )
        written(store, **{SUMMARY: str(target)})
    text = target.read_text(encoding="utf-8")
    assert text.startswith("before\n### livetrap: raw-spin-flag\n")
    assert "**NOT as expected&#58; 1 of 3 cells**" in text
    assert "|  | variant | threads | verdicts | bug seen | expected |\n| --- |" in text
    assert "| **NO** | fixed | 4 | livelock 1 | 1 of 1, 2.5 to 100 % (95 %) | passed |" in text
    assert "| ok | buggy | 2 | livelock 1 |" in text
    assert (
        "<details><summary>fixed threads=4&#58; 1 livelock of 1 trial; expected passed</summary>\n\n```text\n" in text
    )
    assert "```text\nlivetrap run raw-spin-flag --variant fixed --threads 4 --seed 5\n```" in text


def test_hostile_texts_are_no_markup(tmp_path: Path) -> None:
    bad = record(1, Verdict.LIVELOCK, cell={"x": HOSTILE}, evidence={"reason": HOSTILE, "output": HOSTILE})
    with Store.open(tmp_path / "a.db") as store:
        fill(store, bad, plan={**PLAN, "scenario": HOSTILE})
        text = summary(store, suites_of(store))
    blocks = re.split(r"^(`{3,})text\n.*?^\1\n", text, flags=re.MULTILINE | re.DOTALL)
    outside = "".join(blocks[::2])
    for part in ("<img", "[a](", "@all", "www.", "```", "~~~", ":+1:", "a_b", "|`"):
        assert part not in outside, part
    assert all(line.count("|") == 7 - 1 or not line.startswith("|") for line in outside.splitlines())


def test_markdown_and_fences() -> None:
    assert markdown("a|b\n<c> *d* é 5 % (x=1)") == "a&#124;b &#60;c&#62; &#42;d&#42; é 5 % (x=1)"
    assert fenced("a ```` b").startswith("`````text\n")
    assert fenced("a\x1b[31mb") == "```text\nab\n```\n\n"


def test_a_summary_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "summary.md"
    with Store.open(tmp_path / "a.db") as store:
        fill(store, *(record(i, Verdict.LIVELOCK, cell={"threads": i}) for i in range(1, 200)))
        suites = suites_of(store)
        for room in (0, 50, 100, 1000, 5000):
            assert len(summary(store, suites, room=room).encode()) <= room
        assert "The rest is left out" in summary(store, suites, room=5000)
        assert "more row" in summary(store, suites)
        monkeypatch.setattr(github, "MOST_SUMMARY", 6000)
        for _ in range(3):
            written(store, **{SUMMARY: str(target)})
    assert target.stat().st_size <= 6000


def test_a_summary_that_cannot_be_written(tmp_path: Path) -> None:
    environment = {SUMMARY: str(tmp_path / "none" / "summary.md")}
    with pytest.raises(HarnessError, match="no file that can be written"):
        check_summary(environment)
    check_summary({})
    check_summary({SUMMARY: str(tmp_path / "summary.md")})
    with Store.open(tmp_path / "a.db") as store:
        fill(store, record(1, Verdict.LIVELOCK))
        with pytest.raises(HarnessError, match="cannot be written") as caught:
            written(store, **environment)
    assert caught.value.status == 3
