"""Elements of a page. All text is escaped where it enters an element, so that none can be forgotten.

What is a `Markup` is an element that was made here; any other text is a target's, or may be: it is stripped of what is
not to be seen (terminal escapes, marks that reorder) and escaped. Markup that is joined or formatted as a text becomes
a text again, and is escaped once too often rather than never.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from livetrap.plaintext import plain

VOID = frozenset({"br", "input", "meta", "rect", "line", "path"})
"""Elements without content; those of SVG among them are closed in its way."""


class Markup(str):
    """Text that is markup."""

    __slots__ = ()


Child = str | None
"""Markup as it is; other text escaped; None and the empty text are left out."""
Attribute = str | int | float | bool | None


def el(tag: str, *children: Child | Iterable[Child], **attributes: Attribute) -> Markup:
    """An element. Attributes: a trailing `_` is dropped, `_` is `-`; True stands alone, False and None are left out."""
    opened = "".join([tag, *(_attribute(name, value) for name, value in attributes.items())])
    if tag in VOID:
        return Markup(f"<{opened}/>")
    return Markup(f"<{opened}>{join(children)}</{tag}>")


def join(children: Iterable[Child | Iterable[Child]]) -> Markup:
    """Children one after the other."""
    return Markup("".join(map(_child, children)))


def escaped(text: str) -> Markup:
    """A text as markup."""
    return text if isinstance(text, Markup) else Markup(html.escape(plain(text)))


def _child(child: Child | Iterable[Child]) -> str:
    if child is None:
        return ""
    if isinstance(child, str):
        return escaped(child)
    return "".join("" if one is None else escaped(one) for one in child)


def _attribute(name: str, value: Attribute) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(plain(str(value)))}"'
