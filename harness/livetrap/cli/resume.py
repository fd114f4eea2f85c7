"""`livetrap resume FILE`: goes on with a campaign where it stopped."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from livetrap import build, campaign, fingerprints, host, resuming, sharding, watching
from livetrap.cli import outputs
from livetrap.cli import watch as watch_face
from livetrap.cli.campaigning import (
    Done,
    ScenarioWatcher,
    check_record,
    conclude,
    ended_like_ctrl_c,
    execute,
    listening,
    load,
)
from livetrap.cli.how import How, asked_how
from livetrap.cli.outputs import Outputs, Ran
from livetrap.database import check_name
from livetrap.plan import Options
from livetrap.preparing import Prepared
from livetrap.report.lines import STDOUT
from livetrap.report.summary import print_summary
from livetrap.report.text import console
from livetrap.store import Campaign, Store

HERE = "none"
"""The executor that is no other."""


def resume_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A database that `livetrap run` or `watch` wrote.")],
    wanted: Annotated[
        int | None, typer.Option("--campaign", metavar="N", help="This campaign; else the last that did not end.")
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Go on though what is run has changed since.")] = False,
    executor: Annotated[
        str | None, typer.Option(metavar="dask:ADDRESS|none", help="Run the rest there, or on this machine alone.")
    ] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="One JSON object a trial that is run now.")] = None,
    html: outputs.Html = None,
    junit: outputs.Junit = None,
    github: outputs.Github = False,
) -> int:
    """Goes on with a campaign where it stopped: no trial on record is run again, and the summary is of all of them."""
    check_name("FILE", file)
    with Store.open(file, create=False) as store:
        chosen = resuming.choose(store.campaigns(), file=file, wanted=wanted)
    asked = Outputs(html=html, junit=junit, github=github)
    check_record(db=file, json=json)
    outputs.check(asked, db=file, json=json)
    Store.open(file).close()  # whether it can be written, before anything is built
    command = shlex.join(["livetrap", *(context.obj or [])])
    out = console(sys.stderr if json == STDOUT else sys.stdout)
    with ended_like_ctrl_c():
        if chosen.text("kind") == "watch":
            watch = _watch(chosen, anyway=anyway)
            watched = watch_face.carry_out(watch, db=file, json=json, line=command, goes_on=chosen.id)
            ran = Ran(db=watched.db, campaign=chosen.id)
            return outputs.concluded(asked, ran, lambda: watch_face.conclude(watched, out), stream=out.file)
        done = _run(chosen, _how(chosen, executor), file=file, anyway=anyway, json=json, command=command)

        def told() -> int:
            return conclude(done, out, lambda: print_summary(out, done.outcome, done.records))

        ran = Ran(db=done.db, campaign=chosen.id, rows=done.outcome.rows)
        return outputs.concluded(asked, ran, told, stream=out.file)


def _run(chosen: Campaign, how: How, *, file: str, anyway: bool, json: str | None, command: str) -> Done:
    """Runs what is left of a scenario's campaign."""
    with listening() as watcher:
        prepared = _prepared(chosen, how=how, file=file, anyway=anyway, watcher=watcher)
        return execute(
            prepared, how=how, path=Path(file), json=json, command=command, watcher=watcher, goes_on=chosen.id
        )


def _how(chosen: Campaign, executor: str | None) -> How:
    """As the campaign was run, but for another executor."""
    rate = chosen.plan.get("until_confident")
    stored = chosen.text("executor") or None
    return asked_how(
        shard=chosen.text("shard") or None,
        until_confident=float(rate) if isinstance(rate, int | float) else None,
        executor=None if executor == HERE else (executor or stored),
    )


def _prepared(chosen: Campaign, *, how: How, file: str, anyway: bool, watcher: ScenarioWatcher) -> Prepared:
    """The plan of the campaign as it was, once it is known that it still is. HarnessError: it is not."""
    options = resuming.options_of(chosen, Options)
    loaded = load(chosen.text("path") or chosen.text("scenario"), options, db=file)
    _check(chosen, fingerprints.of_scenario(loaded), {}, anyway=anyway, watcher=watcher)
    prepared = campaign.prepare(
        loaded,
        options=options,
        cache=build.default_cache(),
        seed=options.seed or 0,
        note=watcher.note,
        select=lambda plan: sharding.take(plan, how.shard),
    )
    _check(chosen, fingerprints.of_compilers(prepared), host.environment(), anyway=anyway, watcher=watcher)
    return prepared


def _check(
    chosen: Campaign,
    fingerprint: dict[str, object],
    environment: dict[str, str],
    *,
    anyway: bool,
    watcher: ScenarioWatcher,
) -> None:
    changed = resuming.changes(chosen, fingerprint=fingerprint, environment=environment)
    if not anyway:
        resuming.refuse(chosen, changed)
    for name in changed:
        watcher.note(f"changed since campaign {chosen.id} began: {name}; going on anyway")


def _watch(chosen: Campaign, *, anyway: bool) -> watching.Watch:
    watch = watch_face.planned(resuming.options_of(chosen, watching.Options))
    if not anyway:
        changed = resuming.changes(chosen, fingerprint=watch_face.fingerprint(watch), environment=host.environment())
        resuming.refuse(chosen, changed)
    return watch
