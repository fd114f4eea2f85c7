"""Text from a target, or from a file that anyone may have written, made harmless for a terminal. Pure."""

from __future__ import annotations

import re

# CSI and the string sequences (OSC, DCS, APC, PM, SOS) in their 7- and 8-bit forms, then any other escape.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Control characters, and the marks that reorder or hide text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def plain(text: str) -> str:
    """`text` without terminal escapes, control characters (but tab and newline) and marks that reorder it."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
