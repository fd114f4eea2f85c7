"""The pytest plugin: a test that never returns ends as a failure with its verdict, and the suite goes on.

    @pytest.mark.livetrap(timeout=60, stall=None, mode="auto")

`pytest --livetrap` does that for every test. This module is what pytest loads in every run, so it imports nothing: the
rest comes when the first test asks for it.
"""

from __future__ import annotations

import os

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _pytest.outcomes import Failed

    from livetrap.pytest_plugin.scenarios import RunScenario
else:
    Failed = pytest.fail.Exception

__all__ = ["Hang", "Unfinished"]

MODES = ("auto", "fork", "spawn", "off")
CHILD = "livetrap-recorder"
"""The name of a plugin that only an interpreter has which we have started: there, tests run as usual."""
_LEAST_PYTEST = 8
_MARKER = (
    "livetrap(timeout=60, stall=None, mode='auto'): run the test in a child that is watched: one that never returns "
    "fails with its verdict and stacks. timeout: its time limit in seconds; stall: a shorter standstill is never "
    "suspect; mode: auto, fork, spawn, or off."
)


class Unfinished(Failed):
    """A test that livetrap had to end, or that ended its process: `slow`, `waiting`, `crashed` and the like."""

    __module__ = "builtins"  # so that pytest names it as it names its own Failed

    verdict: str = ""


class Hang(Unfinished):
    """A test that hung: `livelock`, `deadlock` or `starvation`. `xfail(raises=Hang)` expects one."""

    __module__ = "builtins"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The command line's options, and the same in the configuration file."""
    group = parser.getgroup("livetrap", "tests that never return")
    group.addoption("--livetrap", action="store_true", default=None, help="Watch every test, not only marked ones.")
    group.addoption(
        "--livetrap-timeout", type=float, metavar="S", help="Time limit of a test in seconds (60); a mark goes before."
    )
    group.addoption("--livetrap-stall", type=float, metavar="S", help="A shorter standstill is never suspect.")
    group.addoption("--livetrap-mode", choices=MODES, help="How the child is made: auto, fork, spawn; off: not at all.")
    parser.addini("livetrap", "Watch every test, as --livetrap does.", type="bool", default=False)
    for name, text in (("timeout", "Time limit in seconds"), ("stall", "Least standstill"), ("mode", "auto, fork ...")):
        parser.addini(f"livetrap_{name}", f"{text}, as --livetrap-{name}.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Tells pytest of the mark; UsageError for a setting that makes no sense."""
    config.addinivalue_line("markers", _MARKER)
    names = ("timeout", "stall", "mode")
    if any(config.getini(f"livetrap_{name}") or config.getoption(f"livetrap_{name}") is not None for name in names):
        from livetrap.errors import HarnessError  # noqa: PLC0415
        from livetrap.pytest_plugin import settings  # noqa: PLC0415

        try:
            settings.usual(config)
        except HarnessError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Says why --livetrap does nothing, where that is so."""
    why = _why_not(config)
    return f"livetrap: tests run as usual: {why}" if why and _for_all(config) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Loads the rest, if some test of this run wants it."""
    name = "livetrap-runner"
    if _why_not(config) or config.pluginmanager.has_plugin(name):
        return
    if _for_all(config) or any(item.get_closest_marker("livetrap") for item in items):
        from livetrap.pytest_plugin.runner import Runner  # noqa: PLC0415

        config.pluginmanager.register(Runner(config), name)


def _for_all(config: pytest.Config) -> bool:
    return bool(config.getoption("livetrap") or config.getini("livetrap"))


def _why_not(config: pytest.Config) -> str:
    """Why tests run as usual although they are marked; empty: they do not."""
    if config.pluginmanager.has_plugin(CHILD):
        return "this is a child already"
    if int(pytest.version_tuple[0]) < _LEAST_PYTEST:
        return f"pytest {pytest.__version__} is too old, {_LEAST_PYTEST} or newer is needed"
    if not hasattr(os, "fork"):
        return "this system has no fork"
    for option in ("usepdb", "trace", "collectonly", "setuponly", "setupplan"):
        if config.getoption(option, False):
            return f"--{ {'usepdb': 'pdb', 'collectonly': 'collect-only'}.get(option, option) }"
    return ""


@pytest.fixture
def livetrap_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunScenario:
    """Runs a scenario of livetrap's and gives its records: `livetrap_run("raw-spin-flag", threads=2)`."""
    from livetrap.pytest_plugin.scenarios import RunScenario  # noqa: PLC0415

    return RunScenario(request.path.parent, lambda: tmp_path_factory.mktemp("livetrap"))
