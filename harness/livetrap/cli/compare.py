"""`livetrap compare`: what each correct barrier costs, and which one to take."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from livetrap import build, comparison, host, measuring, resources
from livetrap.cli.campaigning import check_record, ended_like_ctrl_c, finish
from livetrap.cli.options import check, numbers, words
from livetrap.cli.options import flags as flag_lists
from livetrap.comparison import Cell, Row
from livetrap.database import same_file
from livetrap.errors import HarnessError
from livetrap.model import Frozen, Topology
from livetrap.plan import Options
from livetrap.report import compare as report
from livetrap.report.compare_page import check_page, write_page
from livetrap.report.lines import STDOUT, open_lines
from livetrap.report.text import console, one_line, plural, seconds
from livetrap.scenario_model import MOST_THREADS

List = list[str] | None

LEAST_FOR_S, MOST_FOR_S = 0.05, 600.0
FLAGS = ("-O2",)
PLACEMENTS = ("free",)
BUSY = 0.5
"""A load above this share of the CPUs spoils the figures."""


class Asked(Frozen, kw_only=True):
    """What is to be measured, and what the reader should know of it."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    topology: Topology


def compare_command(
    threads: Annotated[List, typer.Option(metavar="2,4,16", help="Thread counts.")] = None,
    placement: Annotated[List, typer.Option(metavar="free,one-core", help="Where the threads may run.")] = None,
    technique: Annotated[List, typer.Option(metavar="NAME,...", help="Only these techniques.")] = None,
    flags: Annotated[List, typer.Option(metavar="-O1,-O2", help="Compiler flags; repeat it or use commas.")] = None,
    compiler: Annotated[List, typer.Option(metavar="gcc,clang", help="Compilers, by name or path.")] = None,
    for_s: Annotated[float, typer.Option("--for", metavar="S", help="How long each cell is measured.")] = 0.5,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="The figures as a page with a plot.")] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="One JSON object a cell, and a closing one.")
    ] = None,
) -> int:
    """What each correct barrier costs: time and CPU time of a round, and what becomes of it on too few CPUs."""
    options = Options(
        threads=numbers("threads", threads),
        placement=words("placement", placement),
        technique=words("technique", technique),
        flags=flag_lists(flags),
        compiler=words("compiler", compiler),
    )
    _check(options, for_s=for_s, html=html, json=json)
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        return _carry_out(asked(options), for_s=for_s, html=html, json=json, out=out)


def _check(options: Options, *, for_s: float, html: str | None, json: str | None) -> None:
    check(options, techniques=resources.technique_names())
    if not LEAST_FOR_S <= for_s <= MOST_FOR_S:
        raise HarnessError(f"--for {for_s:g}: must be from {LEAST_FOR_S:g} to {MOST_FOR_S:g} seconds, e.g. --for 0.5")
    check_record(db=None, json=json)
    if html is not None:
        check_page(html)
        if json not in {None, STDOUT} and same_file(Path(str(json)), Path(html)):
            raise HarnessError(f"--json {json} is the file of --html {html}; give each its own")


def asked(options: Options) -> Asked:
    """The cells of a command line on this machine. HarnessError: there is nothing to measure, or no compiler."""
    topology = host.topology()
    chosen = comparison.choose(options.technique, known=resources.technique_names())
    found = comparison.situations(
        topology,
        threads=options.threads or usual_threads(len(topology.cpus)),
        placements=options.placement or PLACEMENTS,
        flags=options.flags or FLAGS,
        compilers=measuring.compilers(options.compiler),
    )
    load, cpus = os.getloadavg()[0], len(topology.cpus)
    notes = list(chosen.notes)
    if load > BUSY * cpus:
        notes.append(
            f"the machine was busy when it began (load {load:.1f} on {plural(cpus, 'CPU')}): times are longer than "
            "on a quiet one, and ratios are to be trusted more than figures"
        )
    return Asked(cells=comparison.cells(chosen.techniques, found), notes=tuple(notes), topology=topology)


def usual_threads(cpus: int) -> tuple[int, ...]:
    """Thread counts where none are asked for: two, one a CPU, four a CPU."""
    return tuple(sorted({min(MOST_THREADS, count) for count in (2, max(2, cpus), max(2, 4 * cpus))}))


def _carry_out(what: Asked, *, for_s: float, html: str | None, json: str | None, out: Console) -> int:
    told = console(sys.stderr)
    prepared = measuring.prepare(
        what.cells,
        topology=what.topology,
        cache=build.default_cache(),
        note=lambda text: told.print(one_line(text, most=2000)),
    )
    measurement = measuring.Measurement(prepared, for_s=for_s)
    told.print(f"{plural(len(what.cells), 'cell')}, {measuring.PASSES} passes, about {seconds(measurement.about_s)}")
    interrupted, failure = False, None
    with open_lines(json) if json else contextlib.nullcontext() as lines:
        try:
            measurement.run(lambda done, total: told.print(f"pass {done} of {total}"))
        except KeyboardInterrupt:
            interrupted = True
        except HarnessError as error:
            failure = error
        rows = comparison.summarise(measurement.runs)
        advice = comparison.advise(rows)
        said = report.advice_words(advice, rows)
        if lines:
            for row in rows:
                lines.write(report.line_of(row))
            lines.write(report.Closing(advice=advice, words=said, notes=what.notes, interrupted=interrupted))
    return finish(
        lambda: report.print_comparison(out, rows, said, what.notes),
        lambda cut: _end(out, rows, html=html, said=said, notes=what.notes, interrupted=cut),
        interrupted=interrupted,
        failure=failure,
        status=comparison.status_of(rows),
    )


def _end(
    out: Console,
    rows: Sequence[Row],
    *,
    html: str | None,
    said: Sequence[str],
    notes: Sequence[str],
    interrupted: bool,
) -> None:
    if html is not None:
        write_page(html, rows, words=said, notes=notes, machine=measuring.machine())
        out.print(f"page: {html}", soft_wrap=True)
    if interrupted:
        out.print("interrupted: this is what had been measured by then")
