"""`livetrap run SCENARIO_OR_FOLDER`: runs a scenario, narrowed or changed by options, and records every trial."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from livetrap.cli import outputs
from livetrap.cli.campaigning import carry_out, conclude, ended_like_ctrl_c, load
from livetrap.cli.how import asked_how
from livetrap.cli.options import axes, numbers, words
from livetrap.cli.options import flags as flag_lists
from livetrap.cli.outputs import Outputs, Ran
from livetrap.plan import Options
from livetrap.report.lines import STDOUT
from livetrap.report.summary import print_summary
from livetrap.report.text import console

List = list[str] | None


def run_command(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FOLDER", help="A name that `livetrap list` shows, or a folder.")
    ],
    threads: Annotated[List, typer.Option(metavar="1,2,4", help="Thread counts.")] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where the threads may run.")] = None,
    technique: Annotated[List, typer.Option(metavar="NAME,...", help="How the threads wait.")] = None,
    flags: Annotated[List, typer.Option(metavar="-O1,-O2", help="Compiler flags; repeat it or use commas.")] = None,
    compiler: Annotated[List, typer.Option(metavar="gcc,clang", help="Compilers, by name or path.")] = None,
    variant: Annotated[List, typer.Option(metavar="NAME,...", help="Only these variants.")] = None,
    axis: Annotated[List, typer.Option(metavar="NAME=A,B", help="Values of any other axis; repeatable.")] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Trials a cell.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Time limit of a trial, in seconds.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeats the order and the seeds of a run.")] = None,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; an existing file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, as it ends.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Only the I-th of N parts of the plan.")] = None,
    until_confident: Annotated[
        float | None, typer.Option(metavar="RATE", help="Go on until what is fixed surely hangs more rarely, or hangs.")
    ] = None,
    executor: Annotated[
        str | None, typer.Option(metavar="dask:ADDRESS", help="Run the trials on a cluster that is there.")
    ] = None,
    html: outputs.Html = None,
    junit: outputs.Junit = None,
    github: outputs.Github = False,
) -> int:
    """Runs a scenario: every cell that the options leave, each trial in a process of its own, judged and recorded."""
    options = Options(
        threads=numbers("threads", threads),
        placement=words("placement", placement),
        technique=words("technique", technique),
        flags=flag_lists(flags),
        compiler=words("compiler", compiler),
        axes=axes(axis),
        variants=words("variant", variant),
        trials=trials,
        timeout_s=timeout,
        seed=seed,
    )
    how = asked_how(shard=shard, until_confident=until_confident, executor=executor)
    asked = Outputs(html=html, junit=junit, github=github)
    loaded = load(scenario, options, db=db, json=json)
    outputs.check(asked, db=db, json=json)
    command = shlex.join(["livetrap", *(context.obj or [])])
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        done = carry_out(loaded, options, db=db, json=json, command=command, how=how)
        ran = Ran(db=done.db, campaign=done.campaign, rows=done.outcome.rows)

        def told() -> int:
            return conclude(done, out, lambda: print_summary(out, done.outcome, done.records))

        return outputs.concluded(asked, ran, told, stream=out.file)
