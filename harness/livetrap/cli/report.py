"""`livetrap report DB`: the report of a database as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from livetrap.database import SIDE_FILES, check_name, same_file
from livetrap.errors import HarnessError
from livetrap.report.html import check_html, write_html
from livetrap.report.text import console
from livetrap.store import Store


def report_command(
    db: Annotated[str, typer.Argument(metavar="DB", help="A database that `livetrap run` wrote.")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The page; else beside DB, as .html.")
    ] = None,
    trial: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Tell this trial in full; repeatable. Else the most telling.")
    ] = None,
    campaign: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only this campaign; repeatable. Else all.")
    ] = None,
) -> int:
    """Writes what a database holds as one HTML file: verdicts, heat maps, trials over time, evidence, recipes."""
    check_name("DB", db)
    with Store.open(db, create=False) as store:
        given = output is not None
        output = output if output is not None else str(Path(db).with_suffix(".html"))
        if any(same_file(Path(db + suffix), Path(output)) for suffix in ("", *SIDE_FILES)):
            raise HarnessError(f"-o: {output} is the database; give another file with -o")
        check_html(output, option="-o" if given else "without -o")
        write_html(store, Path(output), campaigns=campaign or None, trials=trial or ())
    console(sys.stdout).print(f"report: {output}", soft_wrap=True)
    return 0
