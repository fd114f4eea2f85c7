"""The plugin that runs marked tests in children. pytest registers it only where there is one (see the package).

A test's set-up and tear-down stay where they are; only what `item.runtest` does is replaced, for the time of the call.
So every other plugin sees the phases that it knows, and the child's report in place of one made here.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from typing import Any

import pytest

from livetrap.errors import HarnessError
from livetrap.page import Page
from livetrap.pytest_plugin import Unfinished, child, spawning, telling
from livetrap.pytest_plugin.carried import Carried, report_from, unpack, warning_from
from livetrap.pytest_plugin.keeper import Keeper
from livetrap.pytest_plugin.observing import Seen, observe
from livetrap.pytest_plugin.settings import Settings, of_test, usual
from livetrap.pytest_plugin.threads import obstacle
from livetrap.targets.command import page_spec
from livetrap.targets.supervisor import Supervisor
from livetrap.trial import COMMAND_SLOTS

Call = pytest.CallInfo[Any]


class Ran:
    """What came of a test's child."""

    def __init__(self, config: pytest.Config, nodeid: str, told: Carried, *, whole: bool) -> None:
        self.told = told
        self.whole = whole
        """It ran the test's fixtures, too, and the parent did not."""
        self.reports = {when: report_from(config, data, nodeid=nodeid) for when, data in told.reports.items()}
        self.final = {when: (one.outcome, one.longrepr, _xfail_of(one)) for when, one in self.reports.items()}
        self.failure: tuple[str, BaseException] | None = None
        """The phase that it ended in before its time, and what to raise."""

    def lacking(self, first: str) -> str:
        """The phase in which it was, where it has not told of all."""
        setup = self.reports.get("setup")
        passed = setup.passed if setup else first == "call"
        for when in ("setup", "call", "teardown") if first == "setup" else ("call",):
            if when not in self.reports and (when != "call" or passed):
                return when
        return ""

    def rise(self, when: str) -> None:
        """Raises what is to be raised in that phase."""
        if self.failure and self.failure[0] == when:
            raise self.failure[1]


RAN = pytest.StashKey[Ran]()


class Runner:
    """The hooks."""

    def __init__(self, config: pytest.Config) -> None:
        self._usual = usual(config)
        self._everyone = bool(config.getoption("livetrap") or config.getini("livetrap"))
        # pytest's own watchdog of stuck tests is a native thread.
        self._spare = 1 if float(config.getini("faulthandler_timeout") or 0) > 0 else 0
        self._supervisor: Supervisor | None = None
        self._inside = False
        """This process is a child that was forked: here, tests run as usual."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        """Where a fresh interpreter is needed, it runs all of the test, and the parent sets up nothing."""
        if RAN in item.stash:  # it is run again
            del item.stash[RAN]
        fields = vars(item)
        try:
            settings = self._settings(item)
        except HarnessError as error:
            wrong = pytest.fail.Exception(str(error), pytrace=False)
            fields["setup"], fields["teardown"] = lambda: _throw(wrong), lambda: None
        else:
            if settings and self._needs_spawn(settings):
                fields["setup"], fields["teardown"] = lambda: self._set_up(item, settings), lambda: None
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Runs the call in a child, unless that was done."""
        settings = self._settings(item)
        if settings is None:
            return (yield)
        try:
            ran = item.stash.get(RAN, None) or self._ran(item, settings)
        except HarnessError as error:
            ran = Ran(item.config, item.nodeid, Carried(), whole=False)
            ran.failure = ("call", _could_not(error))
        item.stash[RAN] = ran
        _take_over(item, ran)
        vars(item)["runtest"] = lambda: ran.rise("call")
        try:
            return (yield)
        finally:
            vars(item).pop("runtest", None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        """Raises what ended the child in its own tear-down."""
        try:
            yield
        finally:
            for name in ("setup", "teardown"):
                vars(item).pop(name, None)
        ran = item.stash.get(RAN, None)
        if ran and not self._inside:
            ran.rise("teardown")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Call) -> pytest.TestReport | None:
        """The child's report, where there is one and nothing went wrong here."""
        ran = item.stash.get(RAN, None)
        if ran is None or self._inside or call.excinfo is not None:
            return None
        return ran.reports.get(call.when)

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_makereport")
    def pytest_runtest_makereport_last(
        self, item: pytest.Item, call: Call
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """An expected failure was told from others in the child, which has the exception; here it looks unexpected."""
        report = yield
        ran = item.stash.get(RAN, None)
        if ran and not self._inside and report is ran.reports.get(str(call.when)):
            outcome, report.longrepr, expected = ran.final[str(call.when)]
            report.outcome = outcome
            vars(report).pop("wasxfail", None)
            if expected is not None:
                vars(report)["wasxfail"] = expected
        return report

    def pytest_unconfigure(self) -> None:
        """Ends what started interpreters."""
        if self._supervisor and not self._inside:
            self._supervisor.close()

    # --- running -----------------------------------------------------------------------------------------------------

    def _settings(self, item: pytest.Item) -> Settings | None:
        """HarnessError: its mark makes no sense."""
        return None if self._inside else of_test(item, self._usual, everyone=self._everyone)

    def _needs_spawn(self, settings: Settings) -> bool:
        return settings.mode == "spawn" or (settings.mode == "auto" and bool(obstacle(spare=self._spare)))

    def _ran(self, item: pytest.Item, settings: Settings) -> Ran:
        """The call of a test that is set up. It may be only now that there are threads: its fixtures have made them."""
        if not self._needs_spawn(settings):
            return self._fork(item, settings)
        ran = self._spawn(item, settings, whole=False)
        if "call" not in ran.reports and ran.failure is None and (setup := ran.reports.get("setup")):
            ran.failure = ("call", _of_setup(setup))
        elif ran.failure and ran.failure[0] == "setup":
            ran.failure = ("call", ran.failure[1])
        ran.reports.pop("setup", None)
        if (teardown := ran.reports.get("teardown")) and teardown.passed:
            del ran.reports["teardown"]  # the parent's own is told
        return ran

    def _set_up(self, item: pytest.Item, settings: Settings) -> None:
        """Instead of the fixtures' set-up."""
        try:
            ran = item.stash[RAN] = self._spawn(item, settings, whole=True)
        except HarnessError as error:
            raise _could_not(error) from None
        _stop(ran.told)
        ran.rise("setup")

    def _spawn(self, item: pytest.Item, settings: Settings, *, whole: bool) -> Ran:
        if self._supervisor is None:
            self._supervisor = Supervisor.start()
        told, seen = spawning.run(item, settings, supervisor=self._supervisor)
        ran = Ran(item.config, item.nodeid, told, whole=whole)
        if told.trouble and not told.reports:
            ran.failure = ("setup", pytest.fail.Exception(told.trouble, pytrace=False))
        elif when := ran.lacking("setup"):
            ran.failure = (when, _unfinished(seen, settings, f"in its {when}, in a fresh interpreter", told))
        elif seen.exit is None:
            where = "the test was over, in a fresh interpreter"
            ran.failure = ("teardown", _unfinished(seen, settings, where, told))
        return ran

    def _fork(self, item: pytest.Item, settings: Settings) -> Ran:
        with (
            Page.create(COMMAND_SLOTS) as page,
            tempfile.TemporaryFile() as result,
            tempfile.TemporaryFile(buffering=0) as dump,
        ):
            spec = page_spec(page).split(":", 2)
            spec[1] = str(page.fd)

            def body() -> None:
                self._inside = True
                child.run(item, spec=":".join(spec), result=result, dump=dump)

            keeper, launched = Keeper.start(body)
            try:
                seen = observe(keeper, launched, page=page, rules=settings.rules, dump=dump)
            finally:
                keeper.close()
            result.seek(0)
            told = unpack(result.read())
        ran = Ran(item.config, item.nodeid, told, whole=False)
        if ran.lacking("call") and not told.stop:
            ran.failure = ("call", _unfinished(seen, settings, "in its call, in a forked child", told))
        return ran


def _take_over(item: pytest.Item, ran: Ran) -> None:
    """What the child told beside its reports becomes the parent's."""
    told = ran.told
    for one in told.warnings:
        item.config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": warning_from(one),
                "nodeid": item.nodeid,
                "when": "runtest",
                "location": None,
            }
        )
    for data in told.extra:
        report = report_from(item.config, data, nodeid=item.nodeid)
        _count_subtest(item, report)
        item.ihook.pytest_runtest_logreport(report=report)
    for when, which, text in told.sections:
        if ran.whole or when == "call":
            item.add_report_section(when, which, text)
    if told.reports:
        item.user_properties[:] = [(name, value) for name, value in told.properties]
    if told.should_stop:
        item.session.shouldstop = told.should_stop
    if told.should_fail:
        item.session.shouldfail = told.should_fail
    _stop(told)


def _stop(told: Carried) -> None:
    """`pytest.exit` and Ctrl-C go on."""
    if told.stop and told.stop[0] == "exit":
        raise pytest.exit.Exception(told.stop[1], told.stop[2])
    if told.stop:
        raise KeyboardInterrupt


def _count_subtest(item: pytest.Item, report: pytest.TestReport) -> None:
    """pytest 9 keeps a count of the subtests that failed, beside their reports."""
    with contextlib.suppress(ImportError, KeyError):
        from _pytest.subtests import failed_subtests_key  # noqa: PLC0415

        if report.failed and type(report) is not pytest.TestReport:
            test: Any = getattr(report, "id", report.nodeid)
            item.config.stash[failed_subtests_key][test] += 1


def _throw(error: BaseException) -> None:
    raise error


def _unfinished(seen: Seen, settings: Settings, where: str, told: Carried) -> Unfinished:
    where = f"{where}, which {'ended by itself' if seen.exit else 'livetrap has ended'}"
    return telling.failure(seen, settings, where=f"{where}\n{told.trouble}" if told.trouble else where)


def _could_not(error: HarnessError) -> BaseException:
    return pytest.fail.Exception(f"livetrap could not run the test: {error}", pytrace=False)


def _of_setup(report: pytest.TestReport) -> BaseException:
    """What the set-up in the fresh interpreter ended with, as an exception of the call."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return pytest.skip.Exception(str(report.longrepr[2]).removeprefix("Skipped: "))
    return pytest.fail.Exception(f"its set-up in a fresh interpreter failed:\n{report.longreprtext}", pytrace=False)


def _xfail_of(report: pytest.TestReport) -> str | None:
    found: str | None = getattr(report, "wasxfail", None)
    return found
