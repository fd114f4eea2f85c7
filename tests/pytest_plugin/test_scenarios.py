"""The fixture `livetrap_run`."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.conftest import Run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow


def test_a_scenario_in_a_test(run: Run) -> None:
    result = run(
        """
import pytest

NARROW = dict(threads=2, placement="free", flags="-O2", compiler="gcc", trials=1, seed=1)

def test_fixed(livetrap_run):
    records = livetrap_run("raw-spin-flag", variant="fixed", **NARROW)
    records.expect("passed")
    assert len(records) == 1 and records[0].verdict == "passed"

@pytest.mark.livetrap
def test_buggy(livetrap_run):
    records = livetrap_run("raw-spin-flag", variant="buggy", **NARROW)
    records.expect("livelock")
    records.expect()
    records.expect("passed", "slow")

def test_bad_name(livetrap_run):
    livetrap_run("raw-spin-flg")

def test_bad_axis(livetrap_run):
    livetrap_run("raw-spin-flag", thread=2)

def test_bad_verdict(livetrap_run):
    livetrap_run("raw-spin-flag", variant="fixed", **NARROW).expect("pased")
""",
        "-rA",
    )
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "raw-spin-flag: 1 of 1 trial not passed or slow",
            "buggy *: livelock, *",
            "*livetrap show *.db 1",
            "*'raw-spin-flg'*did you mean 'raw-spin-flag'*",
            "*unknown axis 'thread'*",
            "*verdict 'pased': did you mean 'passed'*",
        ]
    )
