"""A fresh interpreter for one test: what it is told, and how it is started and watched."""

from __future__ import annotations

import os
import pickle
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import livetrap
from livetrap.model import CommandSpec
from livetrap.page import Page
from livetrap.pytest_plugin.carried import Carried, unpack
from livetrap.pytest_plugin.observing import Seen, captured, observe
from livetrap.pytest_plugin.settings import Settings
from livetrap.targets.supervisor import Supervisor
from livetrap.trial import COMMAND_SLOTS

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); import livetrap.pytest_plugin.spawned as it; it.main(sys.argv[2])"
_OTHERWISE: dict[str, Any] = {
    **{"livetrap": False, "usepdb": False, "trace": False, "collectonly": False, "lf": False, "failedfirst": False},
    **{"newfirst": False, "stepwise": False, "keyword": "", "markexpr": "", "deselect": None, "xmlpath": None},
    **{"durations": None, "cacheclear": False, "pastebin": None, "htmlpath": None, "log_file": None},
    # pytest-xdist's, pytest-cov's
    **{"dist": "no", "numprocesses": None, "maxprocesses": None, "tx": [], "looponfail": False, "distload": False},
    **{"cov_source": [], "no_cov": True},
}
"""Options of the run that are not the child's: it runs one test that is chosen already, and tells only us."""


class Told(msgspec.Struct, kw_only=True):
    """What the interpreter is told, pickled: all of it is ours."""

    path: list[str]
    root: str
    ini: str
    file: str
    nodeid: str
    options: dict[str, Any]
    worker: dict[str, Any]
    result: str
    dump: str


def run(item: pytest.Item, settings: Settings, *, supervisor: Supervisor) -> tuple[Carried, Seen]:
    """Runs the whole of one test, its fixtures too, in an interpreter of its own.

    HarnessError: it cannot be started.
    """
    with (
        tempfile.TemporaryDirectory(prefix="livetrap-", ignore_cleanup_errors=True) as name,
        Page.create(COMMAND_SLOTS) as page,
    ):
        folder = Path(name)
        told = _told(item, folder)
        result = Path(told.result)
        (folder / "told").write_bytes(pickle.dumps(msgspec.structs.asdict(told)))
        with Path(told.dump).open("w+b", buffering=0) as dump:
            launched = supervisor.launch_command(command=_command(item, folder / "told"), page=page)
            seen = observe(
                supervisor,
                launched,
                page=page,
                rules=settings.rules,
                dump=dump,
                output=captured,
                begun=result.exists,
            )
        return unpack(result.read_bytes() if result.exists() else b""), seen


def _command(item: pytest.Item, told: Path) -> CommandSpec:
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    package = str(Path(livetrap.__file__).parent.parent)
    return CommandSpec(
        argv=(sys.executable, *flags, "-c", _BOOT, package, str(told)),
        folder=str(item.config.invocation_params.dir),
    )


def _told(item: pytest.Item, folder: Path) -> Told:
    config = item.config
    options = {name: value for name, value in vars(config.option).items() if _travels(value)}
    file = str(item.path)
    options |= {
        **{name: value for name, value in _OTHERWISE.items() if name in options},
        "plugins": [*(options.get("plugins") or ()), "no:terminal"],
        "file_or_dir": [file],
        "basetemp": _base(config),
    }
    worker = {"workerid": "master", "testrunuid": secrets.token_hex(16), "workercount": 1, "mainargv": sys.argv}
    worker |= {name: value for name, value in getattr(config, "workerinput", {}).items() if _travels(value)}
    return Told(
        path=[str(Path(one).absolute()) for one in sys.path],
        root=str(config.rootpath),
        ini=str(config.inipath or ""),
        file=file,
        nodeid=item.nodeid,
        options=options,
        worker=worker,
        result=str(folder / "result"),
        dump=str(folder / "dump"),
    )


def _base(config: pytest.Config) -> str | None:
    """A folder of its own for `tmp_path`, beside the run's."""
    factory = getattr(config, "_tmp_path_factory", None)
    return None if factory is None else os.fspath(factory.getbasetemp() / f"livetrap-{secrets.token_hex(4)}")


def _travels(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True
