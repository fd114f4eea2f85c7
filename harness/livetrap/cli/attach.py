"""`livetrap attach PID`: judges a process that is already running."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from typing import Annotated

import typer

from livetrap import campaign
from livetrap.cli.campaigning import ended_like_ctrl_c
from livetrap.cli.watch_options import duration
from livetrap.errors import HarnessError
from livetrap.report.attach import exit_status, print_attached, report_of
from livetrap.report.lines import STDOUT, check_lines, open_lines
from livetrap.report.text import console, one_line, seconds
from livetrap.scenario_model import MOST_TIMEOUT_S

STACKS_WARNING = (
    "--stacks: once the verdict is settled, a debugger stops every thread of the process, sleepers too, for up to some "
    "seconds; that can end a hang (a sleeper that is stopped looks again at what it waits for)"
)
MOST_PID = (1 << 31) - 1


def attach_command(
    process: Annotated[str, typer.Argument(metavar="PID", help="The process; its children are looked at, too.")],
    for_: Annotated[str, typer.Option("--for", metavar="S", help="Look at it for at most so long.")] = "10",
    stacks: Annotated[bool, typer.Option("--stacks", help="Stacks of all threads, after the verdict.")] = False,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="The report as one JSON object.")] = None,
) -> int:
    """Says whether a running process hangs, and how: each thread, what it waits for, and where it spins."""
    pid = int(process) if re.fullmatch(r"[0-9]{1,10}", process, re.ASCII) else 0
    if not 1 <= pid <= MOST_PID:
        raise HarnessError(f"PID {process!r}: must be the number of a process, from 1 to {MOST_PID}; ps -e lists them")
    for_s = duration("for", for_, most_s=MOST_TIMEOUT_S)
    if json is not None:
        check_lines(json)
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    notes = console(sys.stderr)

    def note(text: str) -> None:
        notes.print(one_line(text, most=2000), soft_wrap=True)

    if stacks:
        note(STACKS_WARNING)
    with ended_like_ctrl_c(), open_lines(json) if json else contextlib.nullcontext() as lines:
        began = time.monotonic()
        try:
            attached = campaign.attach(pid, for_s=for_s, stacks=stacks, note=note)
        except KeyboardInterrupt:
            note(f"interrupted after {seconds(time.monotonic() - began)}: nothing is said")
            raise
        report = report_of(pid, attached)
        if lines:
            lines.write(report)
    print_attached(out, report)
    return exit_status(attached.judgement)
