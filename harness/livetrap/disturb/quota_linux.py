"""A CPU quota for a target on Linux: a control group of its own, of either version, beneath the harness's.

A group is named for the process that made it; one that was left behind, as that was killed, goes with the next.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from livetrap.errors import HarnessError

assert sys.platform == "linux"

_NAME = "livetrap"
_LEAST_US = 1_000
"""The least quota that Linux takes."""
_PERIOD_US = 10_000
_REMOVE_S = 0.5
_COUNTER = itertools.count()


def limits_us(percent: int) -> tuple[int, int]:
    """Quota and period in us for that much of one CPU: a period of 10 ms where the quota is not too small then."""
    period = max(_PERIOD_US, -(-_LEAST_US * 100 // percent))
    return period * percent // 100, period


class Quota:
    """A control group with a quota, and the processes in it. HarnessError: this user may not make one."""

    def __init__(self, percent: int, *, root: Path = Path("/")) -> None:
        self._root = root
        self._percent = percent
        self.group, self._home = _make(root)
        self._version_2 = not (self.group / "cpu.cfs_quota_us").exists()
        try:
            self.tighten()
        except OSError as error:
            self._remove_folder()
            raise HarnessError(f"quota: cannot be set: {error.strerror or error}", status=3) from None

    def take(self, pids: Iterable[int]) -> int:
        """Puts these processes under the quota, and with them all that they start. Returns how many came."""
        taken = 0
        for pid in pids:
            with contextlib.suppress(OSError):
                (self.group / "cgroup.procs").write_text(str(pid))
                taken += 1
        return taken

    def tighten(self) -> None:
        """The quota holds."""
        quota, period = limits_us(self._percent)
        if self._version_2:
            (self.group / "cpu.max").write_text(f"{quota} {period}")
        else:
            (self.group / "cpu.cfs_period_us").write_text(str(period))
            (self.group / "cpu.cfs_quota_us").write_text(str(quota))

    def relax(self) -> None:
        """It does not, until it is tightened again."""
        with contextlib.suppress(OSError):
            if self._version_2:
                (self.group / "cpu.max").write_text("max")
            else:
                (self.group / "cpu.cfs_quota_us").write_text("-1")

    def remove(self) -> None:
        """Lets all processes go back to where the harness is, and removes the group. May be called again."""
        self.relax()
        until = time.monotonic() + _REMOVE_S
        while self.group.exists() and not self._remove_folder() and time.monotonic() < until:
            time.sleep(0.005)

    def _remove_folder(self) -> bool:
        with contextlib.suppress(OSError):
            for pid in (self.group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (self._home / "cgroup.procs").write_text(pid)
        try:
            self.group.rmdir()
        except OSError:
            return False
        return True


def missing(root: Path = Path("/")) -> str:
    """Why there is no quota to be had here; "" when there is."""
    try:
        Quota(100, root=root).remove()
    except HarnessError as error:
        return str(error).removeprefix("quota: ")
    return ""


def _make(root: Path) -> tuple[Path, Path]:
    """A new group, and the one that its processes go back to. HarnessError: there is none to be had."""
    why = "no control group with a CPU quota is mounted"
    for parent, home in _places(root):
        _remove_stale(parent)
        group = parent / f"{_NAME}-{os.getpid()}-{next(_COUNTER)}"
        try:
            group.mkdir()
        except OSError as error:
            why = f"no control group that this user may write ({parent}: {error.strerror or error})"
        else:
            return group, home
    raise HarnessError(f"quota: {why}", status=3)


def _places(root: Path) -> list[tuple[Path, Path]]:
    """Groups below which one with a quota may be made, the best first, each with the harness's own."""
    groups: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups.update(dict.fromkeys(controllers.split(","), path.strip("/")))
    mount = root / "sys/fs/cgroup"
    found: list[tuple[Path, Path]] = []
    for top in (mount, mount / "unified"):
        own = top / groups.get("", "")
        # A group with processes in it cannot have groups with a quota below it, but for the topmost one.
        for parent in (own, own.parent):
            with contextlib.suppress(OSError):
                if "cpu" in (parent / "cgroup.subtree_control").read_text().split():
                    found.append((parent, own))
    for top in (mount / "cpu", mount / "cpu,cpuacct"):
        own = top / groups.get("cpu", "")
        if (own / "cpu.cfs_quota_us").exists():
            found.append((own, own))
    return found


def _remove_stale(parent: Path) -> None:
    """Groups of harnesses that are no more. Nobody is in them: what such a one had started was ended with it."""
    with contextlib.suppress(OSError):
        for folder in parent.iterdir():
            match = re.fullmatch(rf"{_NAME}-(\d+)-\d+", folder.name)
            if match and not Path(f"/proc/{match[1]}").exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
