"""Tests that end: what pytest says of them is the same with the plugin and without."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from tests.pytest_plugin.conftest import Run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

EVERY_OUTCOME = """
import logging, os, sys, unittest, warnings
import pytest

HERE = os.getpid()

@pytest.fixture(params=[1, 2])
def number(request):
    print("set up", request.param)
    yield request.param
    print("torn down", request.param)
    assert request.param == 1

@pytest.fixture
def bad():
    raise RuntimeError("a bad fixture")

def test_passes(number): print("out"); print("err", file=sys.stderr)
def test_fails(number): print("out"); assert {"a": number} == {"a": 3}
def test_skips(): pytest.skip("no reason")
@pytest.mark.skip(reason="marked")
def test_skipped(): pass
@pytest.mark.xfail(raises=ValueError)
def test_xfails(): raise ValueError("x")
@pytest.mark.xfail(raises=ValueError)
def test_xfails_otherwise(): raise TypeError("x")
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.mark.xfail(strict=True)
def test_xpasses_strictly(): pass
@pytest.mark.xfail(run=False)
def test_not_run(): os.abort()
def test_xfails_inside(): pytest.xfail("inside")
def test_bad_fixture(bad): pass
def test_leaves(): sys.exit(4)
def test_warns(): warnings.warn("careful", DeprecationWarning)
def test_logs(caplog): logging.getLogger("x").warning("a log line"); assert not caplog.records
def test_capsys(capsys): print("x"); assert capsys.readouterr().out == "x\\n"
def test_capfd(capfd): os.write(1, b"y"); assert capfd.readouterr().out == "y"
def test_properties(record_property): record_property("key", 12)
class TestOld(unittest.TestCase):
    def setUp(self): self.ready = True
    def test_ready(self): self.assertTrue(self.ready)
    def test_fails(self): self.fail("no")
    @unittest.expectedFailure
    def test_expected(self): self.fail("no")
    def test_skips(self): self.skipTest("why")
"""
WORDS = ("-rA", "-v", "-p", "no:randomly", "--junitxml=j.xml", "-o", "junit_family=xunit1")


def _told(result: pytest.RunResult) -> list[str]:
    """The report, but for times, addresses and process ids."""
    text = re.sub(r"0x[0-9a-f]+|\b\d+\.\d+s\b", "*", result.stdout.str())
    return [line.strip("= ") for line in text.splitlines() if not line.startswith(("platform", "rootdir"))]


@pytest.mark.parametrize("mode", ["fork", "spawn"])
def test_the_report_is_the_same(run: Run, pytester: pytest.Pytester, mode: str) -> None:
    some = ("-k", "test_fails or test_skips or test_bad_fixture")  # an interpreter a test: these are enough
    words = (*WORDS, *some) if mode == "spawn" else WORDS
    usual = run(EVERY_OUTCOME, *words)
    xml = _xml(pytester)
    watched = run(EVERY_OUTCOME, *words, "--livetrap", f"--livetrap-mode={mode}")
    assert _told(watched) == _told(usual)
    assert _xml(pytester) == xml


def _xml(pytester: pytest.Pytester) -> str:
    return re.sub(r'(time|timestamp|hostname)="[^"]*"|0x[0-9a-f]+', "", (pytester.path / "j.xml").read_text())


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_under_xdist_tests_are_forked_all_the_same(run: Run) -> None:
    result = run(
        """
import os, threading
import pytest

@pytest.fixture
def here(): return os.getpid()

@pytest.mark.parametrize("n", range(4))
def test_forked(here, n): assert os.getpid() != here

def test_hangs():
    lock = threading.Lock(); lock.acquire(); lock.acquire()
""",
        *("-p", "xdist", "-n", "2", "--livetrap", "--livetrap-stall=0.3", "--junitxml=j.xml"),
    )
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*deadlock (observed)*"])


def test_a_thread_in_the_parent_means_a_fresh_interpreter(run: Run) -> None:
    """A pool that was started before set-up, and one that a fixture starts: neither is forked."""
    result = run(
        """
import os, threading
import pytest

@pytest.fixture
def pool():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    with open("setups", "a") as file: file.write(f"{os.getpid()}\\n")
    yield os.getpid()
    over.set()
    thread.join()

@pytest.fixture(scope="module")
def stays():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()

def test_forked(): assert os.getpid() == os.getsid(0)
def test_late(pool): assert os.getpid() == pool and threading.active_count() == 2
def test_with_threads(stays): assert threading.active_count() == 2
def test_early(stays, pool): assert os.getpid() == pool and threading.active_count() == 3
""",
        "--livetrap",
    )
    result.assert_outcomes(passed=4)


def test_pytest_exit_and_subtests_reach_the_parent(run: Run) -> None:
    result = run(
        """
import pytest

def test_a(): pass
def test_b(): pytest.exit("enough", returncode=7)
def test_c(): pass
""",
        "--livetrap",
    )
    assert result.ret == 7
    result.assert_outcomes(passed=1)
    if importlib.util.find_spec("_pytest.subtests") is not None:
        result = run(
            """
def test_parts(subtests):
    for n in range(3):
        with subtests.test(n=n): assert n != 1
""",
            "--livetrap",
        )
        result.stdout.fnmatch_lines(["SUBFAILED(n=*1*) *", "FAILED*test_parts - contains 1 failed subtest"])


def test_a_mark_that_makes_no_sense_is_an_error_of_that_test(run: Run) -> None:
    result = run(
        """
import pytest

@pytest.mark.livetrap(timeut=3)
def test_bad(): pass
@pytest.mark.livetrap(30)
def test_worse(): pass
@pytest.mark.livetrap(mode="off")
def test_off(): pass
def test_good(): pass
"""
    )
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.livetrap of test_it.py::test_bad: 'timeut' is not known; did you mean 'timeout'?*",
            "@pytest.mark.livetrap of test_it.py::test_worse: takes names only, such as timeout=30, not 30",
        ]
    )


def test_a_setting_that_makes_no_sense_ends_the_run(run: Run, pytester: pytest.Pytester) -> None:
    result = run("def test_a(): pass", "--livetrap-timeout=-1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --livetrap-timeout -1.0: must be a number of seconds above 0*"])
    pytester.makeini("[pytest]\nlivetrap = true\nlivetrap_timeout = soon")
    result = run("def test_a(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: in the configuration file, livetrap_timeout 'soon': must be*"])


def test_the_debugger_turns_it_off_and_says_so(run: Run) -> None:
    result = run("import os\nP = os.getpid()\ndef test_a(): assert os.getpid() == P", "--livetrap", "--pdb")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["livetrap: tests run as usual: --pdb"])


def test_a_test_that_no_other_interpreter_finds(run: Run) -> None:
    result = run(
        """
import os
import pytest

@pytest.mark.livetrap(mode="spawn")
@pytest.mark.parametrize("n", [os.getpid()])
def test_it(n): pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["a fresh interpreter does not find this test*"])


def test_a_conftest_sees_how_the_child_ended(run: Run, pytester: pytest.Pytester) -> None:
    """The usual way to let a fixture know whether its test failed."""
    pytester.makeconftest(
        """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    setattr(item, "report_" + report.when, report)
    return report

@pytest.fixture
def knows(request):
    yield
    print("it", request.node.report_call.outcome)
"""
    )
    result = run("def test_a(knows): assert 0", "--livetrap")
    result.stdout.fnmatch_lines(["it failed"])


@pytest.mark.skipif(importlib.util.find_spec("pytest_cov") is None, reason="pytest-cov is not installed")
def test_coverage_of_a_child_counts(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine="def covered():\n    return 1\n")
    words = ("-p", "pytest_cov", "--cov=mine", "--cov-report=term", "--livetrap")
    result = run("import mine\ndef test_a(): assert mine.covered()", *words)
    result.stdout.fnmatch_lines(["mine.py*100%"])


@pytest.mark.skipif(sys.platform != "linux", reason="beats need the page, which a fork has everywhere; once is enough")
def test_beats_are_seen(run: Run) -> None:
    """A test that beats and computes for ever is slow at its limit, with its beats counted."""
    result = run(
        """
import livetrap

def test_beats():
    while True:
        livetrap.beat()
""",
        "--livetrap",
        "--livetrap-timeout=1",
    )
    result.assert_outcomes(failed=1)
    assert re.search(r"still going on \([1-9]\d* beats\)", result.stdout.str())
