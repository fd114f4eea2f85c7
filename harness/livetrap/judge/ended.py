"""The verdict on a target that ended by itself."""

from __future__ import annotations

import signal

import msgspec

from livetrap.judge.state import State, judgement
from livetrap.model import Ended, Judgement, Shape, Verdict

RESULT_NONE, RESULT_RIGHT, RESULT_WRONG, RESULT_SKIPPED, RESULT_ERROR = range(5)
"""enum lt_result."""


def ended(state: State, event: Ended) -> Judgement:
    """The verdict, from the exit status and from what the kernel said of its result."""
    gap = max(0, event.at_ns - (state.last_beat_ns or event.started_ns or event.at_ns))
    state = msgspec.structs.replace(
        state,
        now_ns=event.at_ns,
        beats=event.beats,
        started_ns=event.started_ns or state.started_ns,
        longest_gap_ns=max(state.longest_gap_ns, gap),
        last_beat_ns=state.last_beat_ns or event.started_ns or event.at_ns,
    )
    verdict, reason = _verdict(event)
    shape = Shape(exited=event.departed)
    return judgement(state, verdict=verdict, rule="ended", reason=reason, shape=shape)


def _verdict(event: Ended) -> tuple[Verdict, str]:
    if event.signal is not None:
        if event.signal == signal.SIGABRT and "ssertion" in event.message:
            return Verdict.CORRUPT, f"a failed assertion: {event.message}"
        return Verdict.CRASHED, f"ended by signal {event.signal} ({_signal_name(event.signal)})"
    if event.result == RESULT_WRONG:
        return Verdict.CORRUPT, event.message or "finished with a wrong result"
    if event.result == RESULT_SKIPPED:
        return Verdict.SKIPPED, event.message or "the kernel cannot run here"
    if event.result == RESULT_ERROR:
        return Verdict.ERROR, event.message or "the kernel could not be set up"
    if event.exit_code:
        return Verdict.FAILED, f"exit status {event.exit_code}"
    if event.team and event.result != RESULT_RIGHT:
        return Verdict.FAILED, "the process ended before its team had finished"
    return Verdict.PASSED, "finished, result right" if event.team else "ended with status 0"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
