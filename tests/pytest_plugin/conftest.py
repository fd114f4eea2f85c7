"""A pytest in a folder of its own, with the plugin and nothing else that is installed here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

LIMIT_S = 110.0
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a process of its own: `run("test_it.py's text", "-v")`."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def go(text: str, *words: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=text)
        return pytester.runpytest_subprocess(
            "-p", "livetrap.pytest_plugin", "-p", "no:cacheprovider", *words, timeout=LIMIT_S
        )

    return go
