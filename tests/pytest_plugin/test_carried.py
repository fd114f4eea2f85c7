"""What a child tells survives the way."""

from __future__ import annotations

import enum
import warnings
from pathlib import Path

import hypothesis
import hypothesis.strategies as st

from livetrap.pytest_plugin.carried import Carried, pack, unpack, warning_from, warning_to, write


class Colour(enum.StrEnum):
    RED = "red"


def test_plain_values_stay_as_they_are() -> None:
    told = Carried(
        reports={"call": {"longrepr": ("file", 3, "Skipped: why"), "keywords": {"a": 1}, "text": "\ud800 \0"}},
        sections=[("call", "stdout", "x")],
        properties=[("k", 12), ("f", 1.5), ("n", None), ("b", b"\0")],
        stop=("exit", "enough", 7),
    )
    assert unpack(pack(told)) == told


def test_what_is_not_plain_becomes_its_text() -> None:
    told = unpack(pack(Carried(properties=[("path", Path("/a")), ("colour", Colour.RED), ("set", {1}), ("o", ...)])))
    assert told.properties == [("path", "/a"), ("colour", "red"), ("set", "{1}"), ("o", "Ellipsis")]
    assert [type(value) for _, value in told.properties] == [str] * 4


@hypothesis.given(st.binary(max_size=200))
def test_bytes_that_are_not_whole_are_an_empty_document(data: bytes) -> None:
    assert isinstance(unpack(data), Carried)
    assert unpack(pack(Carried(trouble="x"))[:-1]) == Carried()


def test_a_document_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "result", Carried(trouble="why"))
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert unpack((tmp_path / "result").read_bytes()).trouble == "why"


def test_warnings_come_back_with_their_category() -> None:
    for kind, text in ((DeprecationWarning, "old"), (UnicodeWarning, "what")):
        there = warnings.WarningMessage(message=kind(text), category=kind, filename="f.py", lineno=7)
        back = warning_from(warning_to(there))
        assert (back.category, str(back.message), back.filename, back.lineno) == (kind, text, "f.py", 7)


def test_a_category_that_is_not_known_here_is_named() -> None:
    back = warning_from(("nowhere", "OddWarning", "text", "f.py", 7))
    assert (back.category, str(back.message)) == (UserWarning, "OddWarning: text")
    back = warning_from(("builtins", "UnicodeDecodeError", "text", "f.py", 7))
    assert back.category is UserWarning
