"""Each driver is built once for all tests that want it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.csrc.driver import build, compilers


@pytest.fixture(scope="session")
def driver_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The driver of a compiler and a level of optimisation."""

    @functools.cache
    def built(compiler: str, level: str) -> Path:
        return build(tmp_path_factory.mktemp(f"{compiler}{level}"), compiler=compiler, level=level)

    return built


@pytest.fixture
def plain(driver_of: Callable[[str, str], Path]) -> Path:
    """The driver at -O0."""
    return driver_of(compilers()[0], "-O0")


@pytest.fixture
def optimised(driver_of: Callable[[str, str], Path]) -> Path:
    """The driver at -O2."""
    return driver_of(compilers()[0], "-O2")
