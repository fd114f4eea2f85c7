"""Order of the tests: quick ones, then `slow`, then `soak`; one after the other, so that none disturbs another."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The unmarked tests share twenty seconds; a property that wants more examples says so itself.
settings.register_profile("livetrap", max_examples=40, deadline=None)
settings.load_profile("livetrap")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return 2 if item.get_closest_marker("soak") else 1 if item.get_closest_marker("slow") else 0

    items.sort(key=rank)  # stable: within a rank, as collected
