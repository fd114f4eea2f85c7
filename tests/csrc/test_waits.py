"""Waits within waits, as the header marks them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from livetrap.model import Mark, WaitKind
from tests.csrc.driver import CSRC, compilers
from tests.csrc.test_run import PageFile

PROGRAM = r"""
#include <livetrap.h>
#include <stdio.h>
static void show(void) {
    struct lt_slot *s = lt_self();
    printf("%u %u %u %u\n", s->mark, s->kind, (unsigned)s->site, (unsigned)s->arrivals);
}
int main(void) {
    lt_run(); show();
    lt_wait_begin(1, LT_WAIT_SPIN); show();
    lt_wait_begin(2, LT_WAIT_OUTSIDE); show();
    lt_wait_begin(3, LT_WAIT_TIMED); show();
    lt_wait_end(); show();
    lt_wait_end(); show();
    lt_wait_end(); show();
    lt_wait_end(); show();
    lt_wait_begin(4, LT_WAIT_SPIN); lt_run(); show();
    lt_wait_begin(5, LT_WAIT_UNTIMED); show();
    lt_wait_end(); show();
    return 0;
}
"""
RUN, WAIT = Mark.RUN, Mark.WAIT
EXPECTED = [
    (RUN, WaitKind.NONE, 0, 0),
    (WAIT, WaitKind.SPIN, 1, 1),
    (WAIT, WaitKind.OUTSIDE, 2, 2),
    (WAIT, WaitKind.OUTSIDE, 2, 2),
    (WAIT, WaitKind.OUTSIDE, 2, 2),
    (WAIT, WaitKind.SPIN, 1, 2),
    (RUN, WaitKind.SPIN, 1, 2),
    (RUN, WaitKind.SPIN, 1, 2),
    (RUN, WaitKind.SPIN, 4, 3),
    (WAIT, WaitKind.UNTIMED, 5, 4),
    (RUN, WaitKind.UNTIMED, 5, 4),
]


def test_the_inner_wait_shows_and_the_outer_one_comes_back(tmp_path: Path) -> None:
    found = compilers()
    if not found:
        pytest.skip("no C compiler")
    program = tmp_path / "waits"
    command = [found[0], "-std=gnu11", "-I", str(CSRC / "include"), "-x", "c", "-", "-o", str(program), "-pthread"]
    subprocess.run(command, input=PROGRAM, text=True, check=True, timeout=60)
    environment = {**os.environ, "LIVETRAP_PAGE": PageFile(tmp_path / "page").spec()}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True, timeout=10)
    assert [tuple(map(int, line.split())) for line in done.stdout.splitlines()] == EXPECTED
