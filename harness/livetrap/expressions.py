"""Regular expressions of the user's that lines of a target are looked through with: each look has an end. Pure.

Python's own `re` has no time limit, and an expression such as `(a+)+$` may take for ever with one unlucky line.
"""

from __future__ import annotations

from typing import Protocol, cast

from livetrap.errors import HarnessError

LINE_S = 0.2
"""The longest that one line may take, in seconds of CPU time; the usual is some microseconds."""


class Expression(Protocol):
    """What is used of a compiled one."""

    def search(self, line: bytes, /, *, timeout: float) -> object | None:
        """Where it is found; TimeoutError: that was not known in time."""


def compiled(text: str) -> Expression:
    """The expression. HarnessError: it is none."""
    import regex  # noqa: PLC0415  most watches need none

    try:
        return cast("Expression", regex.compile(text.encode()))
    except (regex.error, OverflowError, RecursionError, MemoryError, UnicodeEncodeError) as error:
        raise HarnessError(f"no regular expression: {error or type(error).__name__}") from error


def found_in(expression: Expression, line: bytes, *, text: str) -> bool:
    """Whether the expression is found in a line. HarnessError, with its `text`: that took too long to say."""
    try:
        return expression.search(line, timeout=LINE_S) is not None
    except TimeoutError:
        why = f"took longer than {LINE_S:g} s with one line of the output"
        raise HarnessError(
            f"progress regex:{text}: {why}; write one that has fewer ways to match, such as a+ for (a+)+", status=3
        ) from None
