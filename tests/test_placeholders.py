"""Placeholders in a command's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livetrap import placeholders
from livetrap.errors import HarnessError
from livetrap.model import Value

VALUES: dict[str, Value] = {"threads": 16, "mode": "fast {threads}", "_x1": ""}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--threads={threads}", "--threads=16"),
        ("{threads}{threads}", "1616"),
        ("a value is not filled again: {mode}", "a value is not filled again: fast {threads}"),
        ("empty: '{_x1}'", "empty: ''"),
        ("{{threads}}", "{threads}"),
        ("{{{threads}}}", "{16}"),
        ("awk '{print $1}'", "awk '{print $1}'"),
        ("find -exec rm {} ;", "find -exec rm {} ;"),
        ("{1}, {a-b}, { threads }, {", "{1}, {a-b}, { threads }, {"),
        ("{thréads}", "{thréads}"),
        ("{threads!r} {threads:3}", "{threads!r} {threads:3}"),
        ("", ""),
    ],
)
def test_fill(text: str, filled: str) -> None:
    assert placeholders.fill(text, VALUES) == filled


def test_unknown_placeholder_names_the_nearest() -> None:
    with pytest.raises(HarnessError, match=r"unknown placeholder \{thread\}; did you mean 'threads'\?.*\{\{thread\}\}"):
        placeholders.fill("-t {thread}", VALUES)


def test_unknown_placeholder_where_there_is_none() -> None:
    with pytest.raises(HarnessError, match=r"unknown placeholder \{HOME\}; known: none; .*write \{\{HOME\}\}"):
        placeholders.fill("${HOME}", {})


def test_names_each_once_in_order() -> None:
    assert placeholders.names("{b} {a} {{c}} {b} {} {1}") == ("b", "a")


@given(st.text(alphabet="{}ab1 "))
def test_every_text_is_filled_where_all_its_names_are_known(text: str) -> None:
    found = placeholders.names(text)
    assert all(name.isidentifier() for name in found)
    values = dict.fromkeys(found, "v")
    assert placeholders.names(placeholders.fill(text, values).replace("{", "").replace("}", "")) == ()


@given(st.text(alphabet="{}ab1 "))
def test_doubled_braces_are_the_text_itself(text: str) -> None:
    assert placeholders.fill(text.replace("{", "{{").replace("}", "}}"), {}) == text
