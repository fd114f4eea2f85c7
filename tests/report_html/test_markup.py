"""Elements and the frame: every text is escaped, whatever it is and wherever it stands."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from livetrap.plaintext import plain
from livetrap.report.html.frame import frame, pairs, row, table
from livetrap.report.html.markup import Markup, el, escaped, join


class Seen(HTMLParser):
    """What a browser would see: tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_any_text_comes_back_as_text_alone(text: str) -> None:
    seen = Seen(el("td", text, title=text))
    assert seen.tags == ["td"]
    assert seen.text == plain(text)
    assert seen.attributes == [("title", plain(text))]


def test_markup_stays_and_text_in_it_does_not() -> None:
    assert el("p", el("b", "<"), ["&", None, el("i")], None, "") == "<p><b>&lt;</b>&amp;<i></i></p>"


def test_markup_that_became_text_is_escaped_again_rather_than_trusted() -> None:
    assert el("p", f"{el('b', 'x')}") == "<p>&lt;b&gt;x&lt;/b&gt;</p>"
    assert not isinstance(el("b") + "<script>", Markup)


def test_attributes() -> None:
    made = el("input", class_="a", aria_label='"<', checked=True, disabled=False, name=None, tabindex=0, viewBox="0")
    assert made == '<input class="a" aria-label="&quot;&lt;" checked tabindex="0" viewBox="0"/>'


def test_escapes_of_a_terminal_and_marks_that_reorder_are_left_out() -> None:
    assert escaped("\x1b[31mred\x1b[0m \x1b]0;title\x07\u202egnp.exe\u2066") == "red gnp.exe"


def test_tables_have_captions_and_heads() -> None:
    made = table(("a", "<b>"), [row(("1", "<2>"))], caption="what & why")
    assert "<caption>what &amp; why</caption>" in made
    assert '<th scope="col">&lt;b&gt;</th>' in made
    assert '<tr><th scope="row">1</th><td>&lt;2&gt;</td></tr>' in made
    assert 'tabindex="0" role="region" aria-label="what &amp; why"' in made


def test_pairs_without_a_value_are_left_out() -> None:
    assert pairs({"a": "1", "b": ""}) == "<dl><dt>a</dt><dd>1</dd></dl>"


def test_nothing_but_its_own_style_is_allowed_to_a_page() -> None:
    text = frame("<t>", by="report", body=[el("p", "x")], style="p { color: red }")
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])  # type: ignore[index]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]  # type: ignore[index]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "<title>&lt;t&gt;</title>" in text
    assert join(["a", el("br")]) == "a<br/>"
