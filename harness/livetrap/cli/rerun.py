"""`livetrap rerun FILE ID`: repeats one trial from its recipe, and compares."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from livetrap import build, campaign, rerunning
from livetrap.cli.campaigning import ScenarioWatcher, check_record, ended_like_ctrl_c, finish, listening
from livetrap.database import check_name
from livetrap.errors import HarnessError
from livetrap.preparing import Prepared
from livetrap.report.lines import STDOUT, open_lines
from livetrap.report.text import console, one_line, plural, seconds
from livetrap.scenario_check import check_trials
from livetrap.store import Store, Stored


def rerun_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A database that livetrap wrote.")],
    trial: Annotated[int, typer.Argument(metavar="ID", help="The trial's id in it.")],
    trials: Annotated[int, typer.Option(metavar="N", help="How often.")] = 1,
    db: Annotated[str | None, typer.Option(metavar="FILE", help="Where to record; else the same file grows.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial, as it ends.")] = None,
) -> int:
    """Repeats one trial from its recipe: its build, placement, seed and disturbance; exits 0 if it ends as recorded."""
    check_name("FILE", file)
    wrong = check_trials(trials)
    if wrong:
        raise HarnessError(f"--trials {wrong}")
    with Store.open(file, create=False) as store:
        stored = store.load(trial)
        plan, _ = store.campaign(stored.campaign)
    check_record(db=db if db is not None else file, json=json)
    if db is None:
        Store.open(file).close()  # whether it can be written, before anything is built
    command = shlex.join(["livetrap", *(context.obj or [])])
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c(), listening() as watcher:
        prepared = rerunning.prepare(stored, plan, trials=trials, cache=build.default_cache(), note=watcher.note)
        about = {
            "kind": "rerun",
            "path": plan.get("path", ""),
            "of": {"campaign": stored.recipe.get("campaign") or plan.get("uid", ""), "trial": trial},
        }
        return _rerun(
            prepared, stored, about, path=Path(db or file), json=json, command=command, watcher=watcher, out=out
        )


def _rerun(
    prepared: Prepared,
    stored: Stored,
    about: dict[str, object],
    *,
    path: Path,
    json: str | None,
    command: str,
    watcher: ScenarioWatcher,
    out: Console,
) -> int:
    """Runs the repetitions and tells; returns the exit status."""
    interrupted, failure = False, None
    with Store.open(path) as store, open_lines(json) if json else contextlib.nullcontext() as lines:
        watcher.lines = lines
        try:
            campaign.run(
                prepared,
                store=store,
                listener=watcher,
                command=command,
                about=about,
                gaps={prepared.plan.trials[0].cell_key: stored.gaps.cell_s},
            )
        except KeyboardInterrupt:
            interrupted = True
        except HarnessError as error:
            failure = error
    compared = rerunning.compare(stored.record.verdict, [record.verdict for record in watcher.records])

    def end(_interrupted: bool) -> None:
        if watcher.records:
            took = seconds(time.monotonic() - watcher.began)
            ids = f"livetrap show {path} {watcher.records[0].id}"
            out.print(f"{plural(len(watcher.records), 'trial')} in {took}: {ids}", soft_wrap=True)

    return finish(
        lambda: out.print(one_line(compared.text, most=2000), soft_wrap=True),
        end,
        interrupted=interrupted,
        failure=failure,
        status=compared.status,
    )
