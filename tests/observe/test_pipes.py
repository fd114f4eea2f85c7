"""Who counts as holding a pipe, on a /proc of our own making."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

from livetrap.observe.pipes import Outside

SOON_NS = 10 * 10**9


def process(proc: Path, pid: int, *links: str, state: str = "S", flags: int = 0x40_0000, readable: bool = True) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a) b) {state} 1 {pid} {pid} 0 -1 {flags} 0 0\n")
    if not readable:
        # Even for root: too long a chain of links. What counts is that it is an error other than its absence.
        (folder / "fd").symlink_to("fd")
        return
    (folder / "fd").mkdir()
    for number, link in enumerate(links):
        (folder / "fd" / str(number)).symlink_to(link)


def outside(proc: Path, *tree_pids: int, within_ns: int = SOON_NS) -> Outside:
    return Outside(tree_pids, deadline_ns=time.monotonic_ns() + within_ns, proc=str(proc))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "self").symlink_to("7")
    (tmp_path / "cpuinfo").write_text("")
    process(tmp_path, 7, "/dev/null", "pipe:[1]", "pipe:[2]", "socket:[9]")
    process(tmp_path, 8, "pipe:[2]", "pipe:[3]", "socket:[9]")
    return tmp_path


def test_a_pipe_is_inside_when_nobody_outside_has_it(proc: Path) -> None:
    assert outside(proc, 7).has_none(["pipe:[1]"])
    assert not outside(proc, 7).has_none(["pipe:[2]"])
    assert not outside(proc, 7).has_none(["pipe:[1]", "pipe:[2]"])
    assert outside(proc, 7, 8).has_none(["pipe:[1]", "pipe:[2]", "pipe:[3]"])
    assert not outside(proc).has_none(["pipe:[1]"])


@pytest.mark.parametrize(
    "links",
    [[], [""], ["socket:[9]"], ["/tmp/fifo"], ["pipe:[1]", ""], ["pipe:[1]", "anon_inode:[eventfd]"], ["pipe:"]],
)
def test_only_pipes_are_ever_inside(proc: Path, links: list[str]) -> None:
    assert not outside(proc, 7, 8).has_none(links)


def test_who_may_not_be_read_might_have_been_sent_any_through_a_socket(proc: Path) -> None:
    process(proc, 9, readable=False)
    process(proc, 10, "pipe:[5]", "pipe:[6]")
    process(proc, 11, "pipe:[6]")
    assert not outside(proc, 7, 8).has_none(["pipe:[1]"])
    assert not outside(proc, 7, 8, 9).has_none(["pipe:[1]", "pipe:[6]"])
    assert outside(proc, 7, 8, 9).has_none(["pipe:[1]"])
    assert outside(proc, 10).has_none(["pipe:[5]"])
    assert not outside(proc, 10).has_none(["pipe:[6]"])
    process(proc, 12, readable=False)
    assert not outside(proc, 10, 12).has_none(["pipe:[5]"]), "a process of the tree that may not be read"


@pytest.mark.parametrize("odd", [{"state": "Z"}, {"flags": 0x20_8040}], ids=["zombie", "kernel"])
def test_threads_of_the_kernel_and_zombies_have_none(proc: Path, odd: dict[str, object]) -> None:
    process(proc, 9, readable=False, **odd)  # type: ignore[arg-type]
    assert outside(proc, 7, 8).has_none(["pipe:[1]"])


def test_who_has_gone_has_none(proc: Path) -> None:
    (proc / "9").mkdir()
    assert outside(proc, 7, 8).has_none(["pipe:[1]"])


def test_not_known_in_time_is_not_inside(proc: Path) -> None:
    assert not outside(proc, 7, within_ns=-1).has_none(["pipe:[1]"])


def test_processes_are_looked_through_once(proc: Path) -> None:
    known = outside(proc, 7)
    assert known.has_none(["pipe:[1]"])
    process(proc, 9, "pipe:[1]")
    assert known.has_none(["pipe:[1]"])
    assert not outside(proc, 7).has_none(["pipe:[1]"])


def foreign(proc: Path, *tree_pids: int) -> Outside:
    return Outside(tree_pids, deadline_ns=time.monotonic_ns() + SOON_NS, proc=str(proc), foreign=True)


@pytest.mark.parametrize(("namespace", "known"), [("pid:[4026531836]", True), ("pid:[4026532279]", False)])
def test_of_a_tree_that_others_started_all_must_be_seen(proc: Path, namespace: str, known: bool) -> None:
    process(proc, 1, "/dev/null")
    process(proc, 10, "pipe:[5]")
    (proc / "7" / "ns").mkdir()
    (proc / "7" / "ns" / "pid").symlink_to(namespace)
    assert foreign(proc, 10).has_none(["pipe:[5]"]) is known
    process(proc, 12, readable=False)
    assert not foreign(proc, 10).has_none(["pipe:[5]"]), "it may have had the pipe before"
    assert outside(proc, 10).has_none(["pipe:[5]"])


def test_of_a_tree_that_others_started_nothing_is_known_where_others_are_hidden(proc: Path) -> None:
    process(proc, 10, "pipe:[5]")
    (proc / "7" / "ns").mkdir()
    (proc / "7" / "ns" / "pid").symlink_to("pid:[4026531836]")
    assert not foreign(proc, 10).has_none(["pipe:[5]"])
