"""What GitHub Actions shows: annotations, as workflow commands in the log, and the summary of a job, in Markdown.

Everything that came from a target, a scenario or a file is escaped: a workflow command ends with its line, and in the
summary no text makes markup. Sources: docs.github.com, "Workflow commands for GitHub Actions" (limits: ten annotations
of a kind a step, one mebibyte of summary a step) and the runner's own escaping (actions/toolkit, core/src/command.ts).
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from livetrap.claims import seen_text
from livetrap.errors import HarnessError
from livetrap.expectations import Row
from livetrap.model import UNCOUNTED, Verdict
from livetrap.plaintext import plain
from livetrap.report.cases import Case, Kind, Suite, suites_of, told
from livetrap.report.grouping import Row as Group
from livetrap.report.grouping import group, values_by_axis
from livetrap.report.summary import axis_text, cells_of, expected_text
from livetrap.report.text import one_line, plural
from livetrap.store import Store

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file of the job's summary."""
MOST_ANNOTATIONS = 10
"""Of each kind: GitHub shows no more of a step."""
MOST_MESSAGE = 4000
"""Characters of an annotation."""
MOST_SUMMARY = 1_000_000
"""Bytes of a step's summary: one that is larger is not shown at all."""
MOST_ROWS, MOST_TOLD, MOST_TEXT = 60, 8, 20_000
"""Rows of a table, trials told in full, characters of one."""

_OK = {Kind.PASSED: True, Kind.FAILED: False}
_MARKUP = re.compile(r"[^\w .,=%/()+;'\-]|www\.|_", re.IGNORECASE)


def write_github(
    store: Store,
    *,
    campaigns: Sequence[int] | None = None,
    out: IO[str],
    environment: Mapping[str, str],
    rows: Mapping[int, Sequence[Row]] | None = None,
) -> None:
    """Writes annotations of these campaigns (None: all) to `out`, and appends to the job's summary where there is one.

    `rows` as for `suites_of`. Raises HarnessError for a campaign that is not in the database, and (status 3) where the
    summary cannot be written.
    """
    suites = suites_of(store, campaigns, rows=rows)
    for line in annotation_lines(store, suites):
        out.write(f"{line}\n")
    out.flush()
    target = environment.get(SUMMARY, "")
    if target:
        _append(Path(target), store, suites)


@contextlib.contextmanager
def muted(out: IO[str]) -> Iterator[None]:
    """No line of the log is taken for a workflow command meanwhile, whatever a target wrote that is printed."""
    token = secrets.token_hex(16)
    out.write(f"::stop-commands::{token}\n")
    out.flush()
    try:
        yield
    finally:
        out.write(f"::{token}::\n")
        out.flush()


# --- annotations -----------------------------------------------------------------------------------------------------


def annotation_lines(store: Store, suites: Sequence[Suite]) -> Iterator[str]:
    """One line a cell that failed, as an error, or that could not be run, as a warning; and what did not end."""
    cases = [(suite, case) for suite in suites for case in suite.cases]
    for kind, level in ((Kind.FAILED, "error"), (Kind.ERROR, "warning")):
        own = [(suite, case) for suite, case in cases if case.kind is kind]
        shown = own if len(own) <= MOST_ANNOTATIONS else own[: MOST_ANNOTATIONS - 1]
        for suite, case in shown:
            yield command(level, _title(suite, case), _annotation(store, suite, case))
        if len(shown) < len(own):
            text = f"and {plural(len(own) - len(shown), 'more cell')}; livetrap report {store.path} tells of all"
            yield command(level, "livetrap", text)
    for suite in suites:
        if suite.unfinished:
            yield command("warning", f"livetrap: {suite.name}", suite.unfinished)


def command(level: str, title: str, message: str) -> str:
    """A workflow command: `::error title=...::...`, with its texts escaped as the runner takes them."""
    text = message if len(message) <= MOST_MESSAGE else f"{message[: MOST_MESSAGE - 1]}…"
    return f"::{level} title={_property(one_line(title))}::{_data(plain(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _title(suite: Suite, case: Case) -> str:
    verdict = case.verdict.value if case.verdict and case.verdict is not Verdict.PASSED else "not as expected"
    return f"livetrap: {verdict} in {suite.name}"


def _annotation(store: Store, suite: Suite, case: Case) -> str:
    found = told(store, case, campaign=suite.campaign)
    lines = [f"{_cell(case)}: {case.message}"]
    if found:
        lines += [found.reason if found.text and case.kind is Kind.FAILED else "", f"repeat: {found.repeat}"]
    return "\n".join(line for line in lines if line)


def _cell(case: Case) -> str:
    return one_line(f"{case.row.variant} {case.name}" if case.row.cell else case.name)


# --- the summary of the job ------------------------------------------------------------------------------------------


def check_summary(environment: Mapping[str, str]) -> None:
    """Raises HarnessError where the file of the summary cannot be."""
    target = environment.get(SUMMARY, "")
    if not target:
        return
    path = Path(target)
    try:
        if path.is_dir() or not path.resolve().parent.is_dir():
            raise HarnessError(f"--github: {SUMMARY} is {one_line(target)}, which is no file that can be written")
    except (OSError, RuntimeError, ValueError) as error:
        raise HarnessError(f"--github: {SUMMARY} is {one_line(target)}, which cannot be written ({error})") from error


def _append(file: Path, store: Store, suites: Sequence[Suite]) -> None:
    try:
        room = MOST_SUMMARY - (file.stat().st_size if file.exists() else 0)
        text = summary(store, suites, room=room)
        with file.open("ab") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or error
        raise HarnessError(f"--github: the summary {file} cannot be written ({reason})", status=3) from error


def summary(store: Store, suites: Sequence[Suite], *, room: int = MOST_SUMMARY) -> str:
    """The summary in Markdown, in at most `room` bytes: what does not fit is left out, and the last line says so."""
    last = "\nThe rest is left out: the summary of a step has a limit.\n"
    left = room - len(last)
    blocks: list[str] = []
    for block in _blocks(store, suites):
        left -= len(block.encode("utf-8", "replace"))
        if left < 0:
            return "".join([*blocks, last] if room >= len(last) else blocks)
        blocks.append(block)
    return "".join(blocks)


def _blocks(store: Store, suites: Sequence[Suite]) -> Iterator[str]:
    for suite in suites:
        yield f"### livetrap: {markdown(suite.name)}\n\n**{markdown(suite.said)}**\n\n"
        if suite.unfinished:
            yield f"**{markdown(suite.unfinished)}**\n\n"
        if suite.cases:
            yield _table(suite)
        for claim in suite.claims:
            yield f"- {markdown(claim, most=2000)}\n"
        yield "\n"
        wrong = [case for case in suite.cases if case.kind in {Kind.FAILED, Kind.ERROR}]
        wrong.sort(key=lambda case: case.kind is not Kind.FAILED)
        for case in wrong[:MOST_TOLD]:
            yield _details(store, suite, case)
        if len(wrong) > MOST_TOLD:
            yield f"and {plural(len(wrong) - MOST_TOLD, 'more cell')} that went wrong\n\n"


def _table(suite: Suite) -> str:
    rows = [msgspec.structs.replace(case.row, ok=_OK.get(case.kind)) for case in suite.cases]
    cells = cells_of(rows, [])
    axes = values_by_axis(cells)
    groups = sorted(group(cells), key=lambda one: one.ok is not False)
    varied = [name for name, values in axes.items() if len(values) > 1]
    head = ["", "variant", *varied, "verdicts", "bug seen", "expected"]
    lines = [
        _line([markdown(name) for name in head]),
        _line(["---"] * len(head)),
        *(_line(_row(one, axes, varied)) for one in groups[:MOST_ROWS]),
    ]
    if len(groups) > MOST_ROWS:
        lines.append(f"\nand {plural(len(groups) - MOST_ROWS, 'more row')}")
    return "\n".join(lines) + "\n\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(one: Group, axes: Mapping[str, Sequence[object]], varied: Sequence[str]) -> list[str]:
    counted = {verdict: count for verdict, count in one.counts.items() if verdict not in UNCOUNTED}
    texts = [
        {True: "ok", False: "**NO**", None: "-"}[one.ok],
        one.variant,
        *(axis_text(one.axes.get(name, ()), axes[name]) for name in varied),  # type: ignore[arg-type]
        ", ".join(f"{verdict.value} {count}" for verdict, count in one.counts.items()) or "not run",
        seen_text(counted) if counted else "-",
        expected_text(one) if one.expected else "",
    ]
    return [texts[0], *(markdown(text) for text in texts[1:])]


def _details(store: Store, suite: Suite, case: Case) -> str:
    """One that went wrong, folded."""
    found = told(store, case, campaign=suite.campaign, most=MOST_TEXT)
    body = fenced(found.text) if found and found.text else ""
    repeat = f"repeat this cell:\n\n{fenced(found.repeat)}" if found and found.repeat else ""
    title = markdown(f"{_cell(case)}: {case.message}", most=1000)
    return f"<details><summary>{title}</summary>\n\n{body}{repeat}</details>\n\n"


def markdown(text: str, *, most: int = 400) -> str:
    """Text that stands for itself in Markdown, on one line: what could be markup is written as a reference."""
    return _MARKUP.sub(lambda found: "".join(f"&#{ord(letter)};" for letter in found[0]), one_line(text, most=most))


def fenced(text: str) -> str:
    """Text as a block of code, whose fence is longer than any in it."""
    runs = [len(run) for run in re.findall("`+", text)]
    fence = "`" * max(3, max(runs, default=0) + 1)
    return f"{fence}text\n{plain(text)}\n{fence}\n\n"
