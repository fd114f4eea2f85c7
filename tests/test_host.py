"""The machine's dump, from made-up trees and from this machine; the record's environment; the doctor's checks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from livetrap import host, host_checks, topology


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.sys, "platform", "linux")
    monkeypatch.setattr(host, "_affinity", lambda: {0, 1})


@pytest.mark.usefixtures("linux")
def test_a_dump_is_read_as_it_stands(tmp_path: Path) -> None:
    cpus = "sys/devices/system/cpu"
    files = {
        f"{cpus}/online": "0-1\n",
        f"{cpus}/cpu0/topology/physical_package_id": "0\n",
        f"{cpus}/cpu0/topology/core_id": "0\n",
        f"{cpus}/cpu0/topology/thread_siblings_list": "0\n",
        f"{cpus}/cpu1/topology/thread_siblings_list": "1\n",
        f"{cpus}/cpu0/cpu_capacity": "512\n",
        f"{cpus}/cpu1/cpu_capacity": "1024\n",
        "sys/devices/system/node/node3/cpulist": "0-1\n",
        f"{cpus}/cpufreq/other": "7\n",
    }
    dump = host.read_dump(tree(tmp_path, files))
    assert dump == {
        "affinity": "0-1",
        **{f"/{name}": text.strip() for name, text in files.items() if not name.endswith("other")},
    }
    parsed = topology.parse(dump, os="linux", arch="arm64")
    assert [(cpu.id, cpu.node, cpu.efficiency) for cpu in parsed.cpus] == [(0, 3, 0), (1, 3, 1)]


@pytest.mark.usefixtures("linux")
@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            },
            0.5,
        ),
        ({"proc/self/cgroup": "0::/not/visible\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/box\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "25000\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "50000\n",
            },
            0.5,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "junk\n0::/../../x\n", "sys/fs/cgroup/cpu.max": "junk\n"}, None),
    ],
)
def test_the_quota_of_every_level_is_found(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    dump = host.read_dump(tree(tmp_path, files))
    assert topology.parse(dump, os="linux", arch="x86_64").quota_cpus == quota


def test_macos_is_asked_through_sysctl(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "hw.ncpu: 8\nhw.perflevel0.name: Performance\nhw.nperflevels: 2\nhw.optional: \nkern.x: 4\nhw.tbfrequency = 9\n"
    )
    monkeypatch.setattr(host.sys, "platform", "darwin")
    monkeypatch.setattr(host, "_tool", lambda *_: text)
    assert host.read_dump() == {
        "hw.ncpu": "8",
        "hw.perflevel0.name": "Performance",
        "hw.nperflevels": "2",
        "hw.tbfrequency": "9",
    }


def test_this_machine_has_cpus() -> None:
    found = host.topology()
    assert found.cpus
    assert found.arch == host.arch_name()
    assert found.os == host.os_name()


def test_the_environment_names_what_it_ran_with() -> None:
    found = host.environment()
    assert all(isinstance(value, str) for value in found.values())
    for name in ("os", "kernel", "arch", "python", "livetrap", "cffi", "psutil"):
        assert found[name], name


@pytest.mark.parametrize("command", [("no-such-tool-anywhere",), ("false",), ("sleep", "5")])
def test_a_tool_that_fails_says_nothing(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_TOOL_S", 0.05)
    assert host._tool(*command) == ""


@pytest.mark.slow
def test_the_checks_try_everything_and_leave_no_child() -> None:
    found = host.checks()
    names = [name for name, _, _ in found]
    assert len(set(names)) == len(names) >= 12
    for _, _, why in found:
        assert why
        assert "\n" not in why
    works = {name for name, ok, _ in found if ok}
    assert "page file" in works
    if sys.platform == "linux":
        assert {"pidfd", "memfd", "subreaper", "signals"} <= works


def test_a_check_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied() -> None:
        raise PermissionError(1, "Operation not permitted")

    assert host_checks._try("x", denied, "use") == ("x", False, "Operation not permitted")
    monkeypatch.setattr(host_checks.shutil, "which", lambda _: None)
    assert host_checks._tool("addr2line", "use")[1:] == (False, "not installed (it comes with binutils)")
