"""Who is signalled and who never is, on threads of this very process; and where a program counter lies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

from livetrap.model import EvidenceKind, ThreadEvidence, ThreadId
from livetrap.observe import gather_linux, proctree
from livetrap.page import Page
from tests.test_page import put_header, put_slot

HANDLED, UNHANDLED = signal.SIGRTMIN + 5, signal.SIGRTMIN + 6
COUNTERS = frozenset({EvidenceKind.PROGRAM_COUNTERS})
ME = ThreadId(os.getpid(), os.getpid())


@pytest.fixture
def page() -> Iterator[Page]:
    before = signal.signal(HANDLED, lambda *_: None)
    with Page.create(4) as made:
        yield made
    signal.signal(HANDLED, before)


def gather(
    page: Page,
    id_: ThreadId,
    *,
    awake: bool = True,
    answer: bool = True,
    kinds: frozenset[EvidenceKind] = COUNTERS,
    **slot: int,
) -> tuple[list[tuple[ThreadId, int]], ThreadEvidence]:
    """Signals that were sent, and what was gathered of one thread with this slot."""
    values = {"claimed": 1, "pid": id_.pid, "tid": id_.tid, "mark": 2, "kind": 1, "pc_signal": HANDLED, **slot}
    put_slot(page, 0, **values)
    put_header(page, slots_used=1)
    sent: list[tuple[ThreadId, int]] = []

    def send(thread: ThreadId, number: int) -> bool:
        sent.append((thread, number))
        if answer:
            put_slot(page, 0, pc=0x1234, pc_count=1)
        return True

    tree = proctree.Tree(os.getpid())
    gatherer = gather_linux.Gatherer(tree, page, arch="x86_64", send=send)
    deadline_ns = time.monotonic_ns() + (10**9 if answer else 3_000_000)
    (found,) = gatherer.gather((id_,), kinds, awake={id_} if awake else (), deadline_ns=deadline_ns) or (
        ThreadEvidence(id=id_, unreadable="nothing"),
    )
    tree.close()
    return sent, found


def test_a_spinner_is_asked(page: Page) -> None:
    sent, found = gather(page, ME)
    assert sent == [(ME, HANDLED)]
    assert (found.pc, found.unreadable) == (0x1234, "")


def test_no_answer_in_time_is_said(page: Page) -> None:
    sent, found = gather(page, ME, answer=False)
    assert len(sent) == 1
    assert found.pc is None
    assert "in time" in found.unreadable


@pytest.mark.parametrize(
    ("why", "slot"),
    [
        ("no handler", {"pc_signal": 0}),
        ("not handled", {"pc_signal": UNHANDLED}),
        ("not handled", {"pc_signal": signal.SIGKILL}),
        ("not handled", {"pc_signal": 2**32 - 1}),
        ("about to sleep", {"kind": 2}),
        ("about to sleep", {"kind": 99}),
        ("no handler", {"claimed": 0}),
        ("no handler", {"tid": 1}),
    ],
)
def test_who_is_not_asked(page: Page, why: str, slot: dict[str, int]) -> None:
    sent, found = gather(page, ME, **slot)
    assert sent == []
    assert why in found.unreadable


def test_who_slept_in_the_last_look_is_not_asked(page: Page) -> None:
    sent, found = gather(page, ME, awake=False)
    assert sent == []
    assert "slept a moment ago" in found.unreadable


def test_who_sleeps_now_is_never_asked(page: Page) -> None:
    ready, go_on = threading.Event(), threading.Event()

    def sleep() -> None:
        ready.set()
        go_on.wait(10)

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    try:
        assert ready.wait(10)
        assert sleeper.native_id is not None
        id_ = ThreadId(os.getpid(), sleeper.native_id)
        tree = proctree.Tree(os.getpid())
        found = tree.find(id_)
        assert found is not None
        while found[1].state() is not proctree.ThreadState.ASLEEP:
            pass
        tree.close()
        assert gather(page, id_)[0] == []
    finally:
        go_on.set()
        sleeper.join(10)


def test_who_has_gone_is_left_out(page: Page) -> None:
    sent, found = gather(page, ThreadId(os.getpid(), 2**22))
    assert (sent, found.unreadable) == ([], "nothing")


def test_a_real_signal_arrives() -> None:
    seen: list[int] = []
    before = signal.signal(HANDLED, lambda number, _: seen.append(number))
    try:
        assert gather_linux.send_signal(ThreadId(os.getpid(), threading.get_native_id()), HANDLED)
        assert seen == [HANDLED]
        assert not gather_linux.send_signal(ThreadId(os.getpid(), 2**22), HANDLED)
    finally:
        signal.signal(HANDLED, before)


MAPS = """\
555500000000-555500001000 r--p 00000000 08:01 12 /opt/a b/prog
555500001000-555500003000 r-xp 00001000 08:01 12 /opt/a b/prog
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 0002a000 08:01 13 /lib/libx.so.1 (deleted)
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0  [vdso]
"""


@pytest.mark.parametrize(
    ("pc", "site"),
    [
        (0x555500001234, ("/opt/a b/prog", 0x1234)),
        (0x555500002FFF, ("/opt/a b/prog", 0x2FFF)),
        (0x555500003000, None),
        (0x7F0000000010, ("[anonymous]", 0x10)),
        (0x7F0000002010, ("/lib/libx.so.1 (deleted)", 0x2A010)),
        (0x7FFD00000010, ("[vdso]", 0x10)),
        (0, None),
        (2**64 - 1, None),
    ],
)
def test_where_a_program_counter_lies(pc: int, site: tuple[str, int] | None) -> None:
    assert gather_linux.locate(MAPS, pc) == site
    assert gather_linux.locate("junk\n" + MAPS + "more", pc) == site


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (b"1 (sh) S 1", "asleep"),
        (b"1 (a) R 1 (b) D 1 1", "uninterruptible"),
        (b"1 (x) R 1", "runnable"),
        (b"1 (x) t 1", "stopped"),
        (b"1 (x) Z 1", "gone"),
        (b"1 (x) I 1", "unknown"),
        (b"", None),
        (b"1 (x)", None),
        (b"junk", None),
    ],
)
def test_states(text: bytes, state: str | None) -> None:
    assert proctree.state_of(text) == state


def test_fields_are_counted_from_the_end_of_the_name() -> None:
    assert proctree.stat_field(b"7 (a) b (c)) S 3 7 9 0", 4) == 3
    assert proctree.stat_field(b"7 (a) b (c)) S 3 7 9 0", 6) == 9
    assert proctree.stat_field(b"", 4) == -1


def test_who_cannot_be_stopped_is_asked(page: Page) -> None:
    both = COUNTERS | {EvidenceKind.LOOPS}
    sent, found = gather(page, ME, kinds=both)
    assert sent == [(ME, HANDLED)]
    assert (found.pc, found.loop) == (0x1234, None)
    assert found.unreadable == "registers: a process cannot stop itself"
    sent, found = gather(page, ME, kinds=both, pc_signal=UNHANDLED)
    assert sent == []
    assert found.unreadable.startswith("registers: a process cannot stop itself; program counter: signal")


def test_for_loops_alone_nobody_is_signalled(page: Page) -> None:
    sent, found = gather(page, ME, kinds=frozenset({EvidenceKind.LOOPS}))
    assert sent == []
    assert found.unreadable == "registers: a process cannot stop itself"


@pytest.mark.parametrize(
    ("slot", "awake", "why"), [({"kind": 2}, True, "about to sleep"), ({}, False, "slept a moment")]
)
def test_who_is_not_stopped(page: Page, slot: dict[str, int], awake: bool, why: str) -> None:
    sent, found = gather(page, ME, awake=awake, kinds=frozenset({EvidenceKind.LOOPS}), **slot)
    assert sent == []
    assert found.unreadable.startswith("registers: not asked for")
    assert why in found.unreadable
