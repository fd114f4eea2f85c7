"""The program of docs/disturbances.md: what it gets wrong hangs, and what it gets right does not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from livetrap import disturb

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")]
SOURCE = Path(__file__).resolve().parents[1] / "programs" / "lost_wakeup.c"


def built(folder: Path, *flags: str) -> str:
    program = folder / "program"
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
    subprocess.run(
        ["cc", "-std=c11", "-O2", *warnings, "-pthread", *flags, str(SOURCE), "-o", str(program)],
        check=True,
        timeout=60,
    )
    return str(program)


def test_a_signal_that_comes_at_once_is_lost(tmp_path: Path) -> None:
    """With nothing to prepare, the signal comes before the helper in some job of so many."""
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([built(tmp_path), "2000", "0"], timeout=1.5, check=True, stdout=subprocess.DEVNULL)


def test_the_fixed_one_passes_beside_hogs(tmp_path: Path) -> None:
    program = built(tmp_path, "-DFIXED")
    with subprocess.Popen([program, "20", "0"], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            with disturb.start("hogs:2+migrate+demote", pid=process.pid, seed=1):
                assert process.communicate(timeout=20) == (b"done\n", None)
        finally:
            process.kill()
