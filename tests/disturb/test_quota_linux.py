"""Where a control group may be made, of either version, on made-up file systems."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from livetrap.errors import HarnessError

if sys.platform != "linux":
    pytest.skip("Linux only", allow_module_level=True)

from livetrap.disturb.quota_linux import Quota, limits_us, missing


def system(root: Path, groups: str, *folders: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for folder in folders:
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
    return root / "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("percent", "limits"),
    [(50, (5_000, 10_000)), (10, (1_000, 10_000)), (1, (1_000, 100_000)), (150, (15_000, 10_000))],
)
def test_limits(percent: int, limits: tuple[int, int]) -> None:
    assert limits_us(percent) == limits


@pytest.mark.parametrize("percent", range(1, 40))
def test_the_least_quota_is_kept(percent: int) -> None:
    quota, period = limits_us(percent)
    assert quota >= 1_000
    assert period <= 1_000_000
    assert quota / period == pytest.approx(percent / 100, rel=0.02)


def test_version_2(tmp_path: Path) -> None:
    """The harness's group has processes in it: the new one goes beside it, where groups may have quotas."""
    mount = system(tmp_path, "0::/user/session\n", "user/session")
    (mount / "user/session/cgroup.subtree_control").write_text("memory\n")
    (mount / "user/cgroup.subtree_control").write_text("cpu memory\n")
    quota = Quota(50, root=tmp_path)
    assert quota.group.parent == mount / "user"
    assert (quota.group / "cpu.max").read_text() == "5000 10000"
    assert quota.take([os.getpid()]) == 1
    assert (quota.group / "cgroup.procs").read_text() == str(os.getpid())
    quota.relax()
    assert (quota.group / "cpu.max").read_text() == "max"


def test_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = system(tmp_path, "4:memory:/x\n3:cpu,cpuacct:/job\n0::/\n", "cpu,cpuacct/job")
    (mount / "cpu,cpuacct/job/cpu.cfs_quota_us").write_text("-1")
    real = Path.mkdir

    def mkdir(path: Path) -> None:
        """As the system does it: a new group has its files."""
        real(path)
        (path / "cpu.cfs_quota_us").write_text("-1")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    quota = Quota(20, root=tmp_path)
    assert quota.group.parent == mount / "cpu,cpuacct/job"
    assert (quota.group / "cpu.cfs_quota_us").read_text() == "2000"
    assert (quota.group / "cpu.cfs_period_us").read_text() == "10000"
    quota.relax()
    assert (quota.group / "cpu.cfs_quota_us").read_text() == "-1"


def test_none_mounted(tmp_path: Path) -> None:
    assert missing(tmp_path) == "no control group with a CPU quota is mounted"
    with pytest.raises(HarnessError, match="quota: no control group"):
        Quota(50, root=tmp_path)


def test_none_that_this_user_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = system(tmp_path, "0::/\n", ".")
    (mount / "cgroup.subtree_control").write_text("cpu\n")

    def mkdir(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert missing(tmp_path) == f"no control group that this user may write ({mount}: Permission denied)"


def test_what_was_left_behind_goes(tmp_path: Path) -> None:
    mount = system(tmp_path, "0::/\n", "livetrap-4194999-0", f"livetrap-{os.getpid()}-77", "other-4194999-0")
    (mount / "cgroup.subtree_control").write_text("cpu\n")
    quota = Quota(50, root=tmp_path)
    names = {folder.name for folder in mount.iterdir() if folder.is_dir()} - {quota.group.name}
    assert names == {f"livetrap-{os.getpid()}-77", "other-4194999-0"}
