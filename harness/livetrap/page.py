"""The page of shared memory that a target writes its beats and marks into, as the harness sees it.

The layout is that of `csrc/include/livetrap.h` (ABI version 1), which describes it. The target may write anything at
all there: whatever is out of range is read as "says nothing", text is stripped of control characters, and nothing that
stands in the page can raise.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import secrets
import shutil
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from livetrap.errors import HarnessError
from livetrap.model import Mark, PageHeader, Slot, ThreadId, WaitKind
from livetrap.plaintext import plain

VERSION = 1
MAGIC = 0x454741505054524C
HEADER_BYTES = 1024
SLOT_BYTES = 128
MESSAGE_BYTES = 640
MOST_SLOTS = 65_536

HEADER_FIELDS: dict[str, tuple[int, str]] = {
    "magic": (0, "Q"),
    "version": (8, "I"),
    "slot_count": (12, "I"),
    "nonce": (16, "Q"),
    "size": (24, "Q"),
    "request": (32, "I"),
    "departed_beats": (128, "Q"),
    "departed": (136, "Q"),
    "overflow": (144, "I"),
    "slots_used": (148, "I"),
    "probe_pid": (256, "I"),
    "team": (260, "I"),
    "probe_tid": (264, "Q"),
    "probe_passes": (272, "Q"),
    "started_ns": (280, "Q"),
    "finished_ns": (288, "Q"),
    "result": (296, "I"),
    "message": (384, f"{MESSAGE_BYTES}s"),
}
"""Fields of `struct lt_page_header`: offset in bytes and format of the `struct` module."""

SLOT_FIELDS: dict[str, tuple[int, str]] = {
    "beats": (0, "Q"),
    "mark": (8, "I"),
    "kind": (12, "I"),
    "site": (16, "Q"),
    "arrivals": (24, "Q"),
    "pid": (32, "I"),
    "generation": (36, "I"),
    "tid": (40, "Q"),
    "cpu_ns": (48, "Q"),
    "run_state": (56, "I"),
    "pc_signal": (60, "I"),
    "switches": (64, "Q"),
    "pc": (72, "Q"),
    "pc_count": (80, "Q"),
    "claimed": (88, "I"),
    "resume": (92, "I"),
    "placed": (96, "i"),
    "team_index": (100, "I"),
    "depth": (104, "I"),
    "outer_kind": (108, "I"),
    "outer_site": (112, "Q"),
}
"""Fields of `struct lt_slot`, likewise."""


def _layout(fields: dict[str, tuple[int, str]], size: int) -> struct.Struct:
    """The fields as one format, gaps skipped."""
    parts, at = ["<"], 0
    for offset, code in fields.values():
        parts.append(f"{offset - at}x{code}")
        at = offset + struct.calcsize(f"<{code}")
    return struct.Struct("".join([*parts, f"{size - at}x"]))


_HEADER = _layout(HEADER_FIELDS, HEADER_BYTES)
_NUMBERS = _layout({name: at for name, at in HEADER_FIELDS.items() if name != "message"}, 384)
_SLOT = _layout(SLOT_FIELDS, SLOT_BYTES)
_CLAIMED = SLOT_FIELDS["claimed"][0]
_FIRST_LINE = struct.Struct("<QIIQQI")
_MARKS = tuple(Mark(value) for value in range(len(Mark)))
_KINDS = tuple(WaitKind(value) for value in range(len(WaitKind)))


class Page:
    """One page, made and owned by the harness; a context manager that removes it.

    On Linux it is anonymous memory, sealed so that no target can shrink it under the harness's feet; elsewhere a file
    in a private 0700 folder. `fd` is what the target inherits, `path` what it opens when the descriptor got lost (""
    for anonymous memory).
    """

    def __init__(self, *, fd: int, path: str, slots: int, nonce: int) -> None:
        self.fd = fd
        self.path = path
        self.slot_count = slots
        self.nonce = nonce
        self._map = mmap.mmap(fd, HEADER_BYTES + slots * SLOT_BYTES)
        _FIRST_LINE.pack_into(self._map, 0, MAGIC, VERSION, slots, nonce, len(self._map), 0)
        # What each slot held when it was last read: while a thread stalls its slot stays the same, and costs little.
        self._seen: list[bytes] = [b""] * slots
        self._slots: list[Slot | None] = [None] * slots
        self._last: tuple[bytes, list[Slot]] = (b"", [])
        blank = self._map[:HEADER_BYTES]
        self._header = (blank, self._read_header(blank))

    @classmethod
    def create(cls, slots: int, *, anonymous: bool | None = None) -> Self:
        """A new page with room for `slots` threads; `anonymous` None: wherever the system can.

        Raises HarnessError when there is no room for it.
        """
        if not 0 < slots <= MOST_SLOTS:
            raise HarnessError(f"a page of {slots} slots: from 1 to {MOST_SLOTS} are possible")
        size = HEADER_BYTES + slots * SLOT_BYTES
        nonce = secrets.randbits(63) or 1
        fd, path = -1, ""
        try:
            if sys.platform == "linux" if anonymous is None else anonymous:
                fd = _anonymous(size)
            else:
                fd, path = _private_file(size)
            return cls(fd=fd, path=path, slots=slots, nonce=nonce)
        except OSError as error:
            _discard(fd, path)
            where = tempfile.gettempdir() if anonymous is False or sys.platform != "linux" else "memory"
            raise HarnessError(f"no room for a page of {size} bytes in {where}: {error.strerror}", status=3) from error

    def spec(self, fd_number: int) -> str:
        """What LIVETRAP_PAGE must say in a target that has the page at descriptor `fd_number`."""
        return f"{VERSION}:{fd_number}:{self.nonce:x}:{self.path}"

    def header(self) -> PageHeader:
        """The header as it stands; the counts of a page nobody has used are 0."""
        raw = self._map[:HEADER_BYTES]
        if raw != self._header[0]:
            self._header = (raw, self._read_header(raw))
        return self._header[1]

    def slots(self) -> list[Slot]:
        """The slots that threads hold now."""
        # One copy of all of them, so that no number is read while it is half written.
        raw = self.raw()
        if raw == self._last[0]:
            return list(self._last[1])
        found: list[Slot] = []
        seen, slots = self._seen, self._slots
        for index in range(len(raw) // SLOT_BYTES):
            at = index * SLOT_BYTES
            bytes_now = raw[at : at + SLOT_BYTES]
            if bytes_now != seen[index]:
                seen[index] = bytes_now
                slots[index] = _slot(index, bytes_now)
            slot = slots[index]
            if slot is not None:
                found.append(slot)
        self._last = (raw, found)
        return list(found)

    def raw(self) -> bytes:
        """The bytes of all slots in use, to see whether anything moved."""
        return self._map[HEADER_BYTES : HEADER_BYTES + min(self._used(), self.slot_count) * SLOT_BYTES]

    def close(self) -> None:
        """Unmaps the page and removes it; may be called again."""
        self._map.close()
        _discard(self.fd, self.path)
        self.fd, self.path = -1, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_header(self, raw: bytes) -> PageHeader:
        values = _NUMBERS.unpack_from(raw)
        (departed_beats, departed, overflow, used, probe_pid, team, probe_tid, passes, started, finished, result) = (
            values[6:]
        )
        return PageHeader(
            departed_beats=departed_beats,
            departed=departed,
            overflow=overflow != 0,
            slots_used=min(used, self.slot_count),
            probe=ThreadId(probe_pid, probe_tid) if probe_tid else None,
            probe_passes=passes or None,
            team=team,
            started_ns=started,
            finished_ns=finished,
            result=result,
            message=one_line(raw[HEADER_FIELDS["message"][0] :].partition(b"\0")[0].decode("utf-8", errors="replace")),
        )

    def _used(self) -> int:
        at = HEADER_FIELDS["slots_used"][0]
        return int.from_bytes(self._map[at : at + 4], "little")


def one_line(text: str) -> str:
    """Text from a target as one line, without terminal escapes, control characters and lone surrogates."""
    return " ".join(plain(text.encode("utf-8", errors="replace").decode()).split())


def _slot(index: int, raw: bytes) -> Slot | None:
    values: tuple[Any, ...] = _SLOT.unpack(raw)
    (beats, mark, kind, site, arrivals, pid, generation, tid, cpu_ns, run_state, pc_signal, switches) = values[:12]
    (pc, pc_count, claimed, _, placed, team_index) = values[12:18]
    if claimed != 1:
        return None
    return Slot(
        index=index,
        generation=generation,
        pid=pid,
        tid=tid,
        beats=beats,
        mark=_MARKS[mark] if mark < len(_MARKS) else Mark.NONE,
        kind=_KINDS[kind] if kind < len(_KINDS) else WaitKind.NONE,
        site=site,
        arrivals=arrivals,
        cpu_ns=cpu_ns or None,
        run_state=run_state,
        switches=switches or None,
        pc=pc,
        pc_count=pc_count,
        pc_signal=pc_signal,
        placed=placed,
        team_index=team_index,
    )


def _anonymous(size: int) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "this system has no anonymous files")
    fd = os.memfd_create("livetrap-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # Room is taken now: a page that cannot be written to would kill the target later.
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(fd)
        raise
    return fd


def _private_file(size: int) -> tuple[int, str]:
    folder = Path(tempfile.mkdtemp(prefix="livetrap-"))  # mode 0700
    try:
        path = folder / "page"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Written, not only made longer: a file with holes on a full disk would kill the target later.
            at = 0
            while at < size:
                at += os.pwrite(fd, bytes(size - at), at)
        except OSError:
            os.close(fd)
            raise
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return fd, str(path)


def _discard(fd: int, path: str) -> None:
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)
    if path:
        shutil.rmtree(Path(path).parent, ignore_errors=True)
