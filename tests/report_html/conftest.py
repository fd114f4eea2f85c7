"""What takes long to make is made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import making


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 10,000 trials."""
    return making.big(tmp_path_factory.mktemp("big") / "a.db")
