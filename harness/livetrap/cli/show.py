"""`livetrap show DB ID`: one trial in full."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from livetrap.database import check_name
from livetrap.report.text import console
from livetrap.report.trial import print_trial
from livetrap.store import Store


def show_command(
    db: Annotated[str, typer.Argument(metavar="DB", help="A database that `livetrap run` wrote.")],
    trial: Annotated[int, typer.Argument(metavar="ID", help="The trial's id in it.")],
) -> int:
    """Everything that is stored of one trial: recipe, verdict and why, threads, the last looks."""
    check_name("DB", db)
    with Store.open(db, create=False) as store:
        stored = store.load(trial)
        plan, _ = store.campaign(stored.campaign)
    print_trial(console(sys.stdout), stored, plan=plan)
    return 0
