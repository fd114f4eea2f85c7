"""Placeholders in a command's words: `{threads}` becomes that value. Pure.

Only an identifier between single braces is a placeholder: `{print $1}` and `{}` stay as they are. `{{` and `}}` are
literal braces, so that `{{threads}}` is the text `{threads}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from livetrap.errors import HarnessError, nearest
from livetrap.model import Value

_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names(text: str) -> tuple[str, ...]:
    """The placeholders of a text, each once, in order."""
    return tuple(dict.fromkeys(match[1] for match in _PIECE.finditer(text) if match[1]))


def fill(text: str, values: Mapping[str, Value]) -> str:
    """The text with each placeholder replaced by its value; a value is never looked at again.

    Raises HarnessError for a placeholder that has no value, naming the nearest one that has.
    """

    def piece(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name not in values:
            known = nearest(name, values)
            raise HarnessError(f"unknown placeholder {{{name}}}; {known}; for braces write {{{{{name}}}}}")
        return str(values[name])

    return _PIECE.sub(piece, text)
