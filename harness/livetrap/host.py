"""What this machine is: its CPUs as text, the record's environment, and what the harness can do here.

`read_dump` only reads; `topology.parse` makes sense of it, and describes the form. On Linux a key is a file's path and
its value the file's text without surrounding white space (and `affinity`, this process's CPUs); on macOS a key is the
name of a sysctl. What the system does not have is left out.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from livetrap import __version__, model
from livetrap.host_checks import Check, checks
from livetrap.topology import cpu_list_text, parse

__all__ = ["Check", "arch_name", "checks", "environment", "os_name", "read_dump", "topology"]

_TOPOLOGY = ("physical_package_id", "core_id", "thread_siblings_list", "core_cpus_list")
_TOOL_S = 2.0
"""Longest time that a small tool (sysctl, git) may take."""


def os_name() -> str:
    """`linux`, `macos`, or the system's own word for itself."""
    return {"darwin": "macos"}.get(sys.platform, sys.platform)


def arch_name() -> str:
    """`x86_64`, `arm64`, or the system's own word for it."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine)


def topology() -> model.Topology:
    """The machine's CPUs as this process may use them."""
    return parse(read_dump(), os=os_name(), arch=arch_name())


def read_dump(root: Path = Path("/")) -> dict[str, str]:
    """The machine's CPUs as text, in the form that `topology.parse` reads; `root` is another root folder for tests."""
    if sys.platform == "darwin":
        return _parse_sysctl(_tool("sysctl", "hw"))
    cpus = [
        folder / name
        for folder in sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*"))
        for name in (*(f"topology/{name}" for name in _TOPOLOGY), "cpu_capacity", "cpufreq/cpuinfo_max_freq")
    ]
    files = [
        root / "sys/devices/system/cpu/online",
        *cpus,
        *sorted((root / "sys/devices/system/node").glob("node[0-9]*/cpulist")),
        *(root / "sys/devices" / kind / "cpus" for kind in ("cpu_core", "cpu_atom", "cpu_lowpower")),
        *_quota_files(root),
    ]
    dump = {f"/{path.relative_to(root)}": _text(path) for path in files}
    dump["affinity"] = cpu_list_text(_affinity())
    return {key: value for key, value in dump.items() if value}


def environment() -> dict[str, str]:
    """What the record says of the machine and of the tools that a trial ran with; values that are not known are ""."""
    return {
        "machine": platform.node(),
        "cpu": _cpu_model(),
        "cpus_allowed": cpu_list_text(_affinity()),
        "os": os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "arch": arch_name(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "python": platform.python_version(),
        "livetrap": __version__,
        "commit": _commit(),
        **{name: _version_of(name) for name in ("cffi", "psutil", "msgspec", "capstone")},
    }


def _affinity() -> set[int]:
    """CPUs that this process may run on; empty where the system has no such notion."""
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _tool(*command: str) -> str:
    """What a small tool prints; "" where it is missing, fails, or takes too long."""
    path = shutil.which(command[0])
    if path is None:
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [path, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TOOL_S,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.decode(errors="replace").strip()
    return ""


def _parse_sysctl(text: str) -> dict[str, str]:
    found = re.findall(r"^(hw\.[\w.]+)[ \t]*[:=][ \t]*(.*?)[ \t]*$", text, re.MULTILINE)
    return {key: value for key, value in found if value}


# --- the control group's quota ---------------------------------------------------------------------------------------


def _quota_files(root: Path) -> list[Path]:
    """Files that may state a CPU quota for this process: of its control group and of all above it, either version.

    Inside a container the group's path often is not visible; then the top folder is the group itself.
    """
    groups = _groups(_text(root / "proc/self/cgroup"))
    mount = root / "sys/fs/cgroup"
    files = [folder / "cpu.max" for top in (mount, mount / "unified") for folder in _upwards(top, groups.get("", "/"))]
    for top in (mount / "cpu", mount / "cpu,cpuacct"):
        for folder in _upwards(top, groups.get("cpu", "/")):
            files += [folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"]
    return files


def _groups(text: str) -> dict[str, str]:
    """/proc/self/cgroup as controller -> path; version 2 under ""."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(","):
            found[name] = path
    return found


def _upwards(top: Path, group: str) -> list[Path]:
    """The folder of a control group and all above it, down to `top`."""
    parts = [part for part in group.split("/") if part not in ("", ".", "..")]
    return [top.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]


# --- the environment -------------------------------------------------------------------------------------------------


def _cpu_model() -> str:
    if sys.platform == "darwin":
        return _tool("sysctl", "-n", "machdep.cpu.brand_string")
    text = _text(Path("/proc/cpuinfo"))
    found = re.search(r"^(?:model name|Model|Hardware|CPU part)[ \t]*:[ \t]*(.+?)[ \t]*$", text, re.MULTILINE)
    return found[1] if found else platform.processor()


def _commit() -> str:
    """The commit of the checkout that this package runs from, `-dirty` if it is changed; "" for an installed copy."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists():
        return ""
    return _tool("git", "-C", str(top), "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*")


def _version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
