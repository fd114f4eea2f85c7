"""A harness to be killed: runs one act of the test kernel and waits. Says who its processes are once the act is on."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from livetrap.page import Page
from livetrap.targets.supervisor import Supervisor
from tests.targets.acts import below, built, launch, token_of


def main(folder: str, act: str) -> None:
    """`folder`: where the kernel has been built."""
    module = built(Path(folder))
    assert module
    with Supervisor() as supervisor, Page.create(8) as page:
        launch(supervisor, module, page, act)
        end = time.monotonic() + 10
        while "born" not in supervisor.output_tail() and time.monotonic() < end:
            supervisor.wait(0.02)
        supervisor.wait(0.1)  # until the family is all there
        pids = [process.pid for process in below(supervisor.pids[0])]
        print(token_of(supervisor.pids[0]), *supervisor.pids, *pids, flush=True)
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
