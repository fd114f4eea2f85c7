"""Framing of messages, what is told of a trial, and text that is safe to print."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap.build import Built
from livetrap.model import NotAvailable, Placement
from livetrap.targets.kernel import launch_message, mask_words
from livetrap.targets.messages import Inbox, pack
from livetrap.targets.output import harmless
from tests.targets.acts import trial

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text(),
    lambda inner: st.tuples(inner, inner),
    max_leaves=5,
)


@given(st.lists(st.tuples(st.text(), VALUES), max_size=5), st.lists(st.integers(1, 9), min_size=1))
def test_messages_arrive_whole_however_they_are_cut(messages: list[tuple[object, ...]], cuts: list[int]) -> None:
    data = b"".join(map(pack, messages))
    inbox = Inbox()
    got = []
    at = 0
    for step in (cuts * (len(data) + 1))[: len(data)]:
        inbox.feed(data[at : at + step])
        at += step
        while (message := inbox.next()) is not None:
            got.append(message)
    assert got == messages


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x01\x00\x00\x00!", b"\x02\x00\x00\x00N\x00", pack(())])
def test_nonsense_is_refused(data: bytes) -> None:
    inbox = Inbox()
    inbox.feed(data)
    with pytest.raises(ValueError, match="message"):
        inbox.next()


@pytest.mark.parametrize(
    ("cpus", "masks", "words"),
    [
        ((), (), 0),
        (((0,), (1, 2)), (1, 6), 1),
        (((63,), (64,)), (1 << 63, 0, 0, 1), 2),
        (((), ()), (0, 0), 1),
    ],
)
def test_masks(cpus: tuple[tuple[int, ...], ...], masks: tuple[int, ...], words: int) -> None:
    assert mask_words(Placement(requested="x", cpus=cpus), 2) == (masks, words)


def test_a_placement_of_another_team() -> None:
    with pytest.raises(ValueError, match="1 threads for a team of 2"):
        mask_words(Placement(requested="x", cpus=((0,),)), 2)


def test_launch_message_can_be_sent() -> None:
    built = Built(module="m", path=Path("/m.so"), command=(), fresh=False)
    planned = trial(2, placement=Placement(requested="x", cpus=((0,), (65,)), qos=(21, 21)))
    message = launch_message(built=built, trial=planned, spec="1:3:ab:", arguments={"act": -2})
    inbox = Inbox()
    inbox.feed(pack(message))
    assert inbox.next() == message
    assert (b"act", -2) in message[9]
    assert message[10:] == ((1, 0, 0, 2), 2, (21, 21), "", 0)
    disturbed = msgspec.structs.replace(planned, disturbance="migrate+jitter:70")
    assert launch_message(built=built, trial=disturbed, spec="", arguments={})[-1] == 70


def test_a_trial_without_a_placement() -> None:
    built = Built(module="m", path=Path("/m.so"), command=(), fresh=False)
    planned = msgspec.structs.replace(trial(), placement=NotAvailable(reason="no such core"))
    with pytest.raises(ValueError, match="no such core"):
        launch_message(built=built, trial=planned, spec="", arguments={})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;unended", ""),
        (b"\x1bPdevice\x1b\\x", "x"),
        (b"a\x1bcb\x1b(Bc", "abc"),
        (b"\xc2\x9b31mred", "red"),
        ("\u202edesrever\u2066".encode(), "desrever"),
        (b"over\rwritten\r\n\x08\x00\x7f", "overwritten\n"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_plain(data: bytes, text: str) -> None:
    assert harmless(data) == text


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_plain_leaves_no_control(text: str) -> None:
    assert not [
        char for char in harmless(text.encode()) if (ord(char) < 32 and char not in "\t\n") or 127 <= ord(char) < 160
    ]
