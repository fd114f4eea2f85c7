"""What the forked child does: the call phase of one test, told as a document. Then it ends, whatever came of it."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import IO

import pytest
from _pytest.runner import call_and_report

from livetrap.pytest_plugin.carried import Carried, pack, report_to, warning_to

DUMP_SIGNAL = int(signal.SIGRTMAX) - 1 if sys.platform == "linux" else 0
"""Makes a child write the Python stacks of all its threads; 0: there is none to spare. Sent after the verdict alone."""


def run(item: pytest.Item, *, spec: str, result: IO[bytes], dump: IO[bytes]) -> None:
    """Runs the call phase and writes the document to `result`; `spec`: LIVETRAP_PAGE; `dump` takes Python stacks.

    Never returns.
    """
    status, here = 1, os.getpid()
    try:
        prepare(dump, spec=spec)
        told = _call(item)
        if os.getpid() == here:  # a test may fork, and its child end up here
            _save_coverage()
            result.write(pack(told))
            result.flush()
            status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def prepare(dump: IO[bytes], *, spec: str = "") -> None:
    """Readies this process to be watched. `spec`: LIVETRAP_PAGE, where it is not there yet."""
    if spec:
        os.environ["LIVETRAP_PAGE"] = spec
        if "livetrap.beats" in sys.modules:  # it has looked for a page when it was imported
            importlib.reload(sys.modules["livetrap.beats"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        handler = signal.getsignal(signal.SIGALRM)
        if getattr(handler, "__module__", "") == "pytest_timeout":
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # its alarm is the parent's, and is not inherited
    if faulthandler.is_enabled():
        faulthandler.enable(file=dump)
    if DUMP_SIGNAL:
        faulthandler.register(DUMP_SIGNAL, file=dump)


def _call(item: pytest.Item) -> Carried:
    config, session = item.config, item.session
    told = Carried(reports={}, extra=[], warnings=[], sections=[], properties=[])
    sections = _sections(item)
    before = len(sections)
    # What is reported here, is told by the parent.
    vars(config.hook)["pytest_runtest_logreport"] = _logger(config, told)
    with warnings.catch_warnings(record=True) as log:
        try:
            told.reports["call"] = report_to(config, call_and_report(item, "call", log=False))
        except pytest.exit.Exception as end:
            told.stop = ("exit", str(end.msg), end.returncode)
        except KeyboardInterrupt:
            told.stop = ("interrupt", "", None)
        with contextlib.suppress(Exception):
            ctypes.CDLL(None).fflush(None)
    if config.pluginmanager.hasplugin("warnings"):
        told.warnings = [warning_to(one) for one in log or ()]
    told.sections = sections[before:]
    told.properties = list(item.user_properties)
    told.should_stop, told.should_fail = str(session.shouldstop or ""), str(session.shouldfail or "")
    return told


def _sections(item: pytest.Item) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = getattr(item, "_report_sections", [])
    return found


def _logger(config: pytest.Config, told: Carried) -> Callable[..., None]:
    def pytest_runtest_logreport(*, report: pytest.TestReport) -> None:
        told.extra.append(report_to(config, report))

    return pytest_runtest_logreport


def _save_coverage() -> None:
    """What coverage.py has measured here would be lost with this process."""
    module = sys.modules.get("coverage")
    if module is None:
        return
    with contextlib.suppress(Exception):
        if (measuring := module.Coverage.current()) is not None:
            measuring.stop()
            measuring.save()
