"""Text for a terminal: made harmless where it came from a target, and measured for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from livetrap.model import BUGS, UNCOUNTED, Verdict
from livetrap.plaintext import plain

WIDTH = 120
"""Columns where there is no terminal to ask."""
GAP = 2
"""Between two columns of a table."""


def one_line(text: str, *, most: int = 300) -> str:
    """`plain` text on one line of at most `most` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


class _Console(Console):
    """A console that leaves a broken pipe to the command line."""

    def on_broken_pipe(self) -> None:
        """Called by rich while it handles the BrokenPipeError; without this it would exit with status 1."""
        raise BrokenPipeError


def console(stream: IO[str]) -> Console:
    """A console that treats text as text: no markup, no emoji, no guessed highlights; 120 columns off a terminal."""
    terminal = bool(getattr(stream, "isatty", lambda: False)())
    return _Console(
        file=stream, width=None if terminal else WIDTH, markup=False, emoji=False, highlight=False, soft_wrap=False
    )


def print_columns(
    console: Console, head: Sequence[str], rows: Sequence[Sequence[Text]], *, whole: Sequence[str] = ()
) -> None:
    """A table without lines, wrapped between words as long as the width allows; columns in `whole` are not wrapped."""
    columns = [[title, *(row[i].plain for row in rows)] for i, title in enumerate(head)]
    unbroken = [[text.replace(" ", "_") for text in texts] if texts[0] in whole else texts for texts in columns]
    widths = fit(unbroken, console.width - GAP * (len(head) - 1))
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for title, width in zip(head, widths, strict=True):
        table.add_column(title, overflow="fold", width=width)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def fit(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """A width for each column: room for its longest word first, then for whole texts, the shortest wish first."""
    words = [max((cell_len(word) for text in column for word in text.split()), default=1) or 1 for column in columns]
    wishes = [max((cell_len(text) for text in column), default=1) or 1 for column in columns]
    widths = list(words)
    while sum(widths) > available and max(widths) > 1:  # too narrow even for words: the widest are broken
        widths[widths.index(max(widths))] -= 1
    for i in sorted(range(len(columns)), key=lambda i: wishes[i] - widths[i]):
        widths[i] += max(0, min(wishes[i] - widths[i], available - sum(widths)))
    return widths


def seconds(value: float | None) -> str:
    """A duration in seconds, with as many digits as mean something: `3 ms`, `0.21 s`, `84 s`, `12 min`."""
    if value is None:
        return "-"
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.2g} s"
    return f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


def plural(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def styled(verdict: Verdict, text: str | None = None) -> Text:
    """A verdict (or a text about it) in its colour."""
    if verdict is Verdict.PASSED:
        style = "green"
    elif verdict in BUGS:
        style = "red"
    else:
        style = "dim" if verdict in UNCOUNTED else "yellow"
    return Text(verdict.value if text is None else text, style=style)
