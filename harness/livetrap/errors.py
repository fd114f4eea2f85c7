"""The one class of failure that a user can cause."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """Something the user can mend, told in one line: what was wrong, where, and what would be right.

    `status` is the exit status that goes with it: 2 for bad usage or input, 3 where this machine could not run it.
    `detail` is further text that is shown below the line (a compiler's words, say).
    """

    def __init__(self, message: str, *, status: int = 2, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown name: the nearest valid one if there is one, and the valid names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}? (known: {', '.join(names)})"
    return f"known: {', '.join(names) or 'none'}"
