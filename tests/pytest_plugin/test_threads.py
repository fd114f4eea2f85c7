"""Whether a process may be forked."""

from __future__ import annotations

import sys
import threading

import pytest

from livetrap.pytest_plugin.threads import obstacle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS is never forked")


@pytest.mark.parametrize(("name", "why"), [("worker", "worker"), ("livetrap-psutil", ""), ("pytest_timeout x", "")])
def test_a_thread_stands_in_the_way_unless_it_is_known(name: str, why: str) -> None:
    before = obstacle()
    over, there = threading.Event(), threading.Event()

    def idle() -> None:
        there.set()
        over.wait()

    thread = threading.Thread(target=idle, name=name)
    thread.start()
    there.wait()
    try:
        found = obstacle()
    finally:
        over.set()
        thread.join()
    assert (why in found and found != before) if why else found == before


def test_native_threads_that_are_known_are_spared() -> None:
    assert not obstacle(spare=1_000) or "native" not in obstacle(spare=1_000)
