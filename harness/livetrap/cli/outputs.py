"""What a command writes beside its record, for people and for a CI: `--html`, `--junit`, `--github`."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Annotated

import typer

from livetrap.database import SIDE_FILES, same_file
from livetrap.errors import HarnessError
from livetrap.expectations import Row
from livetrap.model import Frozen
from livetrap.report.github import SUMMARY, check_summary, muted, write_github
from livetrap.report.html import check_html, write_html
from livetrap.report.junit import check_junit, write_junit
from livetrap.report.lines import STDOUT
from livetrap.store import Store

# The options, as commands declare them.
Html = Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write a report to open in a browser.")]
Junit = Annotated[str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML: one test case a cell.")]
Github = Annotated[bool, typer.Option("--github", help="Annotations and a job summary for GitHub Actions.")]


class Outputs(Frozen, kw_only=True):
    """What is asked for."""

    html: str | None = None
    junit: str | None = None
    github: bool = False


class Ran(Frozen, kw_only=True):
    """What they are of."""

    db: Path
    campaign: int
    """0: nothing began, and nothing is written."""
    last: int = 0
    """The last of several campaigns that belong together, one after the other in the file; 0: it is the only one."""
    rows: tuple[Row, ...] = ()
    """The cells of the first, as the run judged them; empty: the file tells."""


NONE = Outputs()


def check(
    outputs: Outputs, *, db: str | None, json: str | None = None, environment: Mapping[str, str] = os.environ
) -> None:
    """Raises HarnessError, before anything is run, where one cannot be written, or two would be the same file."""
    if outputs.html is not None:
        check_html(outputs.html)
    if outputs.junit is not None:
        check_junit(outputs.junit)
    named = [("--html", outputs.html), ("--junit", outputs.junit), ("--json", None if json == STDOUT else json)]
    if outputs.github:
        check_summary(environment)
        named.append((SUMMARY, environment.get(SUMMARY) or None))
    given = [(name, file) for name, file in named if file is not None]
    for (name, file), (other, another) in itertools.combinations(given, 2):
        if same_file(Path(file), Path(another)):
            raise HarnessError(f"{name} {file} is the file of {other} {another}; give each its own")
    for name, file in given:
        if db is not None and any(same_file(Path(file), Path(db + suffix)) for suffix in ("", *SIDE_FILES)):
            raise HarnessError(f"{name} {file} is the file of --db {db}; give each its own")


def concluded(outputs: Outputs, ran: Ran, conclude: Callable[[], int], *, stream: IO[str] | None = None) -> int:
    """Prints by `conclude` what came of a campaign, and writes what is asked for, whatever goes wrong in the first.

    `stream` is where people read; by default standard output. Returns what `conclude` does. Raises what that does; else
    HarnessError (status 3) where something cannot be written, after what could.
    """
    out = stream if stream is not None else sys.stdout
    try:
        with muted(out) if outputs.github else contextlib.nullcontext():
            status = conclude()
    except BaseException:
        # What went wrong before is told; that this went wrong too would be no news.
        with contextlib.suppress(HarnessError, BrokenPipeError):
            write(outputs, ran, stream=out)
        raise
    write(outputs, ran, stream=out)
    return status


def write(outputs: Outputs, ran: Ran, *, stream: IO[str], environment: Mapping[str, str] = os.environ) -> None:
    """Writes all that is asked for, and says where. Raises the first HarnessError, after the others are written."""
    if outputs == NONE or not ran.campaign:
        return
    failures = []
    with Store.open(ran.db, create=False) as store:
        for one in _writers(outputs, ran, store, stream, environment):
            try:
                one()
            except HarnessError as error:
                failures.append(error)
    if failures:
        raise failures[0]


def _writers(
    outputs: Outputs, ran: Ran, store: Store, stream: IO[str], environment: Mapping[str, str]
) -> Iterator[Callable[[], None]]:
    told: Sequence[int] = range(ran.campaign, max(ran.campaign, ran.last) + 1)
    rows = {ran.campaign: ran.rows}

    def html() -> None:
        write_html(store, Path(str(outputs.html)), campaigns=told)
        print(f"report: {outputs.html}", file=stream)

    def junit() -> None:
        write_junit(store, Path(str(outputs.junit)), campaigns=told, rows=rows)
        print(f"junit: {outputs.junit}", file=stream)

    def github() -> None:
        write_github(store, campaigns=told, out=stream, environment=environment, rows=rows)

    if outputs.html is not None:
        yield html
    if outputs.junit is not None:
        yield junit
    if outputs.github:
        yield github
