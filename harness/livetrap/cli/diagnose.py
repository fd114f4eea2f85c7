"""`livetrap diagnose SCENARIO_OR_FOLDER`: runs a scenario and walks the checklist over what was seen."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from livetrap.cli.campaigning import carry_out, conclude, ended_like_ctrl_c, load
from livetrap.cli.options import numbers, words
from livetrap.diagnosis import diagnose
from livetrap.plan import Options
from livetrap.report.diagnosis import print_diagnosis
from livetrap.report.text import console

List = list[str] | None


def diagnose_command(
    context: typer.Context,
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FOLDER", help="A name that `livetrap list` shows, or a folder.")
    ],
    threads: Annotated[List, typer.Option(metavar="1,2,4", help="Thread counts; keep 1 among them.")] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where the threads may run.")] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Trials a cell.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Time limit of a trial, in seconds.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats the order and the seeds of a run.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
) -> int:
    """Runs a scenario and answers seven questions from it: what it is, what to do now, what to do for good."""
    options = Options(
        threads=numbers("threads", threads),
        placement=words("placement", placement),
        trials=trials,
        timeout_s=timeout,
        seed=seed,
    )
    loaded = load(scenario, options, db=db)
    out = console(sys.stdout)
    with ended_like_ctrl_c():
        command = shlex.join(["livetrap", *(context.obj or [])])
        done = carry_out(loaded, options, db=db, command=command, kind="diagnose")
        return conclude(done, out, lambda: print_diagnosis(out, diagnose(done.plan, done.records, done.outcome)))
