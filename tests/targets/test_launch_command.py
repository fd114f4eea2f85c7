"""Commands in real processes: what they find, that nothing of them is left, and what is left on purpose."""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from livetrap.errors import HarnessError
from livetrap.model import CommandSpec
from livetrap.page import Page
from livetrap.targets.owner import Exit, Owner
from livetrap.targets.supervisor import Supervisor
from tests.targets.acts import lives, marked, token_of
from tests.targets.test_supervisor import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]
ROOT = Path(__file__).resolve().parents[2]
LINUX = sys.platform.startswith("linux")
MIB = 1 << 20
PYTHON = (sys.executable, "-I", "-S", "-c")
LOOK = """
import json, os, resource, signal, sys
fds = []
for fd in range(1000):
    try:
        os.fstat(fd)
        fds.append(fd)
    except OSError:
        pass
# Python itself ignores these two.
handled = [n for n in sorted(signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT})
           if signal.getsignal(n) not in (signal.SIG_DFL, None)]
print(json.dumps({
    "fds": fds, "leader": os.getsid(0) == os.getpid(), "stdin": sys.stdin.read(), "handled": handled,
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())], "folder": os.getcwd(),
    "limits": [resource.getrlimit(which)[0] for which in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)],
    "page": os.environ["LIVETRAP_PAGE"], "mine": os.environ["MINE"], "arguments": sys.argv[1:],
    "cpus": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
}), flush=True)
print("and stderr", file=sys.stderr)
"""
FAMILY = """
trap '' TERM HUP INT
sleep 50 &
(setsid sleep 50 &)
(setsid sh -c 'trap "" TERM; sleep 50 & sleep 50' &)
echo born
kill -STOP $$
sleep 50
"""


@pytest.fixture
def page() -> Iterator[Page]:
    with Page.create(64) as made:
        yield made


@pytest.fixture(params=["orphans kept", "portable"] if LINUX else ["portable"])
def supervisor(request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    with Supervisor(portable=request.param == "portable") as made:
        token = token_of(made.pids[0])
        yield made
        made.close()
        assert marked(token) == []


def start(supervisor: Supervisor, page: Page, *argv: str, cpus: tuple[int, ...] = (), folder: str | Path = "") -> int:
    command = CommandSpec(argv=argv, folder=str(folder), environment={"MINE": "yes"})
    return supervisor.launch_command(command=command, page=page, cpus=cpus).pid


def run(supervisor: Supervisor, page: Page, *argv: str, cpus: tuple[int, ...] = (), folder: str | Path = "") -> Exit:
    start(supervisor, page, *argv, cpus=cpus, folder=folder)
    owner: Owner = supervisor
    ended = owner.wait(10)
    assert ended
    owner.sweep(5)
    return ended


def test_what_a_command_finds(supervisor: Supervisor, page: Page, tmp_path: Path) -> None:
    """Three descriptors and the page, a session of its own, no signal blocked or ignored, the user's own limits."""
    ours = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)]
    ended = run(supervisor, page, *PYTHON, LOOK, "a b", "", folder=tmp_path)
    assert (ended.exit_code, ended.signal) == (0, None)
    text, _, rest = supervisor.output_tail().partition("\n")
    found = json.loads(text)
    assert found.pop("page").startswith(page.spec(3))
    if LINUX:
        assert found["cpus"] == sorted(os.sched_getaffinity(0))
    found.pop("cpus")
    assert found == {
        **{"fds": [0, 1, 2, 3], "leader": True, "stdin": "", "handled": [], "blocked": [], "folder": str(tmp_path)},
        **{"limits": ours, "mine": "yes", "arguments": ["a b", ""]},
    }
    assert rest == "and stderr"


@pytest.mark.skipif(not LINUX, reason="this system cannot place a process")
def test_the_cpus_are_its_own_and_not_the_next_one_s(supervisor: Supervisor, page: Page) -> None:
    ours = sorted(os.sched_getaffinity(0))
    for cpus in ((ours[-1],), (ours[0],), ()):
        run(supervisor, page, *PYTHON, "import os; print(sorted(os.sched_getaffinity(0)))", cpus=cpus)
        assert supervisor.output_tail() == str(list(cpus) or ours)
    with pytest.raises(HarnessError, match=r"it may have .* only") as caught:
        run(supervisor, page, "true", cpus=(ours[0], 4000))
    assert caught.value.status == 3
    run(supervisor, page, *PYTHON, "import os; print(sorted(os.sched_getaffinity(0)))")
    assert supervisor.output_tail() == str(ours)


def test_ends_of_all_kinds(supervisor: Supervisor, page: Page) -> None:
    assert run(supervisor, page, "sh", "-c", "exit 7").exit_code == 7
    ended = run(supervisor, page, "sh", "-c", "kill -SEGV $$")
    assert (ended.exit_code, ended.signal) == (None, signal.SIGSEGV)
    assert run(supervisor, page, "true").exit_code == 0
    assert supervisor.sweep(1).killed == 0


@pytest.mark.skipif(not LINUX, reason="programs as Linux starts them")
def test_what_the_system_would_not_start(supervisor: Supervisor, page: Page, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("echo hello\n")
    text.chmod(0o755)
    with pytest.raises(HarnessError, match=r"neither a program .* nor a script") as caught:
        run(supervisor, page, str(text))
    assert caught.value.status == 2
    assert run(supervisor, page, "true").exit_code == 0


def test_a_family_that_does_not_want_to_end(supervisor: Supervisor, page: Page) -> None:
    """Ignores SIGTERM, stops itself, double forks, changes session."""
    pid = start(supervisor, page, "sh", "-c", FAMILY)
    until(lambda: supervisor.output_tail() == "born" and psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    until(lambda: len([one for one in marked(token_of(pid)) if one not in supervisor.pids]) >= 4)
    family = [psutil.Process(one) for one in marked(token_of(pid)) if one not in supervisor.pids]
    assert supervisor.wait(0.05) is None
    assert supervisor.sweep(5).killed >= 4
    assert not [one for one in family if lives(one)]
    assert supervisor.wait(1)


@pytest.mark.skipif(not LINUX, reason="needs a subreaper")
def test_orphans_come_to_the_forker_though_no_kernel_was_loaded(page: Page) -> None:
    """So what it says of a clean exit is right."""
    with Supervisor() as supervisor:
        start(supervisor, page, "sh", "-c", "(setsid sleep 50 &) ; (env -i setsid sleep 50 &)")
        assert supervisor.wait(5)
        assert supervisor.sweep(5).killed == 2
        assert psutil.Process(supervisor.pids[0]).children(recursive=True) == [psutil.Process(supervisor.pids[1])]


@pytest.mark.skipif(not LINUX, reason="no holes are made on this system")
def test_output_without_end_takes_little_room(page: Page) -> None:
    with Supervisor() as supervisor:
        start(supervisor, page, "yes", "x" * 1000)
        size, end = 0, time.monotonic() + 8
        while size < 100 * MIB and time.monotonic() < end:
            assert supervisor.wait(0.02) is None
            size, before = os.fstat(supervisor.output_fd).st_size, size
            assert size >= before
        assert size > 20 * MIB
        supervisor.sweep(5)
        supervisor.wait(0)
        assert os.fstat(supervisor.output_fd).st_blocks * 512 <= 2 * MIB
        assert os.fstat(supervisor.output_fd).st_size >= size
        assert supervisor.output_tail().endswith("xxx")


def test_output_that_is_truncated_and_opened_anew(supervisor: Supervisor, page: Page) -> None:
    """The last who writes is shown, whatever was done before; the next trial starts afresh."""
    said = "echo before; echo anew > /dev/stdout; echo on; : > /dev/stderr; echo last"
    assert run(supervisor, page, "sh", "-c", said).exit_code == 0
    assert supervisor.output_tail() == "last"
    run(supervisor, page, "echo", "next")
    assert supervisor.output_tail() == "next"


@pytest.mark.skipif(not LINUX, reason="without /proc a lost descriptor is lost, unless the page is a file")
def test_the_page_is_found_by_a_grandchild_that_lost_the_descriptor(page: Page) -> None:
    beat = f"import sys; sys.path.insert(0, {str(ROOT / 'harness')!r}); import livetrap; livetrap.beat()"
    outer = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', sys.argv[1]], check=True)"
    with Supervisor() as supervisor:
        assert run(supervisor, page, *PYTHON, outer, beat).exit_code == 0
    assert page.header().departed_beats + sum(slot.beats for slot in page.slots()) == 1


def test_left_alive(supervisor: Supervisor, page: Page) -> None:
    """It outlives supervisor and forker, keeps nothing of ours open, and the next trial has processes of its own."""
    mine = set(supervisor.pids)
    pid = start(supervisor, page, "sh", "-c", "echo here; sleep 30 & sleep 30")
    until(lambda: supervisor.output_tail() == "here" and len(psutil.Process(pid).children()) == 2)
    two = [psutil.Process(one) for one in supervisor.pids]
    left = supervisor.leave()
    try:
        assert left[0] == pid
        assert len(left) == 3
        assert not [one for one in two if lives(one)]
        assert (supervisor.wait(0), supervisor.sweep(1).killed, supervisor.leave()) == (None, 0, ())
        assert supervisor.output_tail() == "here"
        assert run(supervisor, page, "echo", "next").exit_code == 0
        assert supervisor.output_tail() == "next"
        assert not mine & set(supervisor.pids)
        supervisor.close()
        for one in left:
            process = psutil.Process(one)
            assert lives(process)
            if LINUX:
                open_files = [str(file.readlink()) for file in Path(f"/proc/{one}/fd").iterdir()]
                assert [name for name in open_files if name != "/dev/null" and "memfd:livetrap-" not in name] == []
    finally:
        for one in left:
            os.kill(one, signal.SIGKILL)
    until(lambda: not [one for one in left if psutil.pid_exists(one) and lives(psutil.Process(one))])


def test_left_alive_by_a_supervisor_that_does_not_answer(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it cannot be left: all is ended, and that is said."""
    monkeypatch.setattr("livetrap.targets.supervisor._CLOSE_S", 0.5)
    with Supervisor() as supervisor:
        supervisor._control.settimeout(0.3)
        victim = psutil.Process(start(supervisor, page, "sleep", "30"))
        os.kill(supervisor.pids[0], signal.SIGSTOP)
        with pytest.raises(HarnessError, match="supervisor does not answer"):
            supervisor.leave()
        assert not lives(victim)


HARNESS = """
import os, sys, time
from livetrap.model import CommandSpec
from livetrap.page import Page
from livetrap.targets.supervisor import Supervisor
with Page.create(8) as page:
    supervisor = Supervisor.start()
    command = CommandSpec(argv=("sh", "-c", "(setsid sleep 30 &) ; sleep 30 & sleep 30"))
    pid = supervisor.launch_command(command=command, page=page).pid
    time.sleep(0.2)
    left = supervisor.leave() if sys.argv[1] == "leave" else ()
    print(pid, *left, flush=True)
    time.sleep(30)
"""


@pytest.mark.parametrize("act", ["leave", "stay"])
def test_the_harness_is_killed(act: str) -> None:
    """With it goes every command, but what it has left alive."""
    with subprocess.Popen([sys.executable, "-c", HARNESS, act], cwd=ROOT, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        pid, *left = map(int, harness.stdout.readline().split())
        token = token_of(pid)
        family = marked(token)
        try:
            harness.kill()
            if act == "leave":
                time.sleep(0.2)
                assert sorted(left) == sorted(marked(token)) == sorted(family)
                assert len(left) >= 3
            else:
                until(lambda: not marked(token), within_s=2)
        finally:
            for one in left:
                os.kill(one, signal.SIGKILL)
    until(lambda: not marked(token))


def test_costs_little_more_than_to_run_it(page: Page) -> None:
    """At most 5 ms, by 200 runs on a quiet machine: 1.2 ms. Here by pairs, and with slack for one that is not."""
    more = []
    with Supervisor() as supervisor:
        run(supervisor, page, "/bin/true")
        for _ in range(40):
            begun = time.perf_counter()
            subprocess.run(["/bin/true"], check=True)
            between = time.perf_counter()
            run(supervisor, page, "/bin/true")
            more.append(time.perf_counter() - between - (between - begun))
    assert statistics.median(more) < 0.01
