"""What the fresh interpreter does: pytest with one test, each report written as soon as it is there."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from livetrap.pytest_plugin import CHILD
from livetrap.pytest_plugin.carried import PHASES, Carried, report_to, warning_to, write
from livetrap.pytest_plugin.child import prepare


class Recorder:
    """A plugin that chooses the test and writes down what is said of it."""

    def __init__(self, config: pytest.Config, *, nodeid: str, result: Path) -> None:
        self._config = config
        self._nodeid = nodeid
        self._result = result
        self._told = Carried(reports={}, extra=[], warnings=[], sections=[], properties=[])
        self._item: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
        """Leaves that one test."""
        yield
        # pytest-xdist may have put a group's name behind it.
        names = {self._nodeid, self._nodeid.rpartition("@")[0]}
        found = [item for item in items if item.nodeid in names]
        items[:] = found[:1]
        if found:
            self._item = found[0]
        else:
            self._told.trouble = "a fresh interpreter does not find this test: its name changes from run to run"
        self._write()
        # It counts in the parent; an alarm that is set here would keep the judge waiting for it.
        config.pluginmanager.unregister(name="timeout")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Says why there is no test."""
        if report.failed and not self._told.trouble:
            self._told.trouble = f"a fresh interpreter cannot collect this test:\n{report.longreprtext}"
            self._write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a phase, or a part of the test."""
        data = report_to(self._config, report)
        if type(report) is pytest.TestReport and report.when in PHASES:
            self._told.reports[report.when] = data
        else:
            self._told.extra.append(data)
        if self._item is not None:
            self._told.sections = list(getattr(self._item, "_report_sections", ()))
            self._told.properties = list(self._item.user_properties)
            session = self._item.session
            self._told.should_stop = str(session.shouldstop or "")
        self._write()

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str) -> None:
        """Notes a warning of the test's."""
        if when == "runtest":
            self._told.warnings.append(warning_to(warning_message))
            self._write()

    def pytest_internalerror(self, excrepr: object) -> None:
        """Says that pytest itself failed."""
        self._told.trouble = f"pytest failed in a fresh interpreter:\n{excrepr}"
        self._write()

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[Any]) -> None:
        """Ctrl-C, or `pytest.exit`."""
        end = excinfo.value
        if isinstance(end, pytest.exit.Exception):
            self._told.stop = ("exit", str(end.msg), end.returncode)
        else:
            self._told.stop = ("interrupt", "", None)
        self._write()

    def _write(self) -> None:
        write(self._result, self._told)


def main(file: str) -> None:
    """`file` has what we are told (`spawning.Told`)."""
    told: dict[str, Any] = pickle.loads(Path(file).read_bytes())
    sys.path[:] = told["path"]
    prepare(Path(told["dump"]).open("ab", buffering=0))  # noqa: SIM115  open until the end
    words = [f"--rootdir={told['root']}", *(["-c", told["ini"]] if told["ini"] else []), told["file"]]
    config = pytest.Config.fromdictargs(told["options"], words)
    config.workerinput = told["worker"]  # type: ignore[attr-defined]
    config.workeroutput = {}  # type: ignore[attr-defined]
    config.pluginmanager.register(Recorder(config, nodeid=told["nodeid"], result=Path(told["result"])), CHILD)
    config.hook.pytest_cmdline_main(config=config)
