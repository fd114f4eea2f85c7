"""What this system cannot do of the disturbances, found out by trying."""

from __future__ import annotations

import os
import sys
import threading


def lacking() -> dict[str, str]:
    """Kinds of disturbance that cannot be had here, each with the reason; for `disturbances.available`."""
    if sys.platform != "linux":
        return {}  # what other systems lack altogether, `available` knows
    from livetrap.disturb.quota_linux import missing  # noqa: PLC0415  it is for Linux only

    reasons = {"quota": missing(), "demote": _demoted_for_ever()}
    return {kind: reason for kind, reason in reasons.items() if reason}


def _demoted_for_ever() -> str:
    """Tries in a thread of its own, which may then have to end with the lowest priority."""
    found: list[str] = []

    def there_and_back() -> None:
        assert sys.platform == "linux"
        before = os.sched_getscheduler(0)
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setscheduler(0, before, os.sched_getparam(0))
        except OSError as error:
            found.append(
                f"a thread could not be given its priority back ({error.strerror or error}); "
                "that takes CAP_SYS_NICE, or a nice limit of 20 (ulimit -e 20)"
            )

    thread = threading.Thread(target=there_and_back)
    thread.start()
    thread.join()
    return found[0] if found else ""
