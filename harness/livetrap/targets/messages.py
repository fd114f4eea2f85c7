"""Messages between the harness and its two processes: a tuple of plain values, marshalled, behind its length.

All ends run the same interpreter, and nobody else holds an end: a trial's process has them closed before its kernel
runs. Imports next to nothing, see the package.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = tuple[Any, ...]
    """The first item says what it is."""
else:
    Message = tuple

_LENGTH_BYTES = 4
_LONGEST = 1 << 26


def pack(message: Message) -> bytes:
    """A message as bytes."""
    body = marshal.dumps(message)
    return len(body).to_bytes(_LENGTH_BYTES, "little") + body


class Inbox:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._bytes += data

    def next(self) -> Message | None:
        """The next whole message, or None; ValueError: these bytes are no message."""
        if len(self._bytes) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(self._bytes[:_LENGTH_BYTES], "little")
        if length > _LONGEST:
            raise ValueError(f"a message of {length} bytes")
        end = _LENGTH_BYTES + length
        if len(self._bytes) < end:
            return None
        try:
            message = marshal.loads(self._bytes[_LENGTH_BYTES:end])
        except (EOFError, TypeError, ValueError) as error:
            raise ValueError("not a message") from error
        if not isinstance(message, tuple) or not message:
            raise ValueError("not a message")
        self._bytes = self._bytes[end:]
        return message
