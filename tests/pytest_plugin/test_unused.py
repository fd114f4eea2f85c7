"""A suite that does not use the plugin is not changed by it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

LIGHT = """
import sys, time
import pytest
before, began = set(sys.modules), time.perf_counter()
import livetrap.pytest_plugin
took = time.perf_counter() - began
print(sorted(name for name in set(sys.modules) - before), took)
assert not any(name.partition(".")[0] in {"msgspec", "psutil", "rich", "typer"} for name in set(sys.modules) - before)
assert {name for name in sys.modules if name.startswith("livetrap")} == {"livetrap", "livetrap.pytest_plugin"}
"""


def test_loading_it_imports_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_finds_it() -> None:
    points = importlib.metadata.entry_points(group="pytest11")
    assert points["livetrap"].value == "livetrap.pytest_plugin"
