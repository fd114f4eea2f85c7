"""What the loops say in which threads without a mark were seen: JUDGING's *endless* loops and *fixed* polls.

One stop of a thread in a poll proves nothing: in healthy programs threads are found in their waits most of the time.
So stops are counted for as long as nothing about them changes, and anything that changes begins the count anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from livetrap.judge.state import State, Track
from livetrap.model import Loop, LoopKind, Mark, Rules, ThreadId

PROOF_STOPS = 2
"""An endless loop cannot be left, so one stop is enough; the second guards against a misread one."""
_GOLDEN = 0.6180339887498949
_SERIES_LEAST_S, _SERIES_SPREAD_S = 0.025, 0.06


def saw(track: Track, loop: Loop, *, now_ns: int) -> Track:
    """The track after a stop that found the thread in this loop."""
    last = track.loop
    same = (
        last is not None
        and not loop.moved
        and (last.kind, last.frame, last.polled) == (loop.kind, loop.frame, loop.polled)
    )
    since = track.loop_since_ns if same and track.loop_stops else now_ns
    # What has changed is alive: it is looked at again, but not at once.
    stops = track.loop_stops + 1 if same else int(last is None and not loop.moved)
    return msgspec.structs.replace(track, loop=loop, loop_since_ns=since, loop_seen_ns=now_ns, loop_stops=stops)


def forgotten(track: Track) -> Track:
    """The track of a thread that has slept, or whose target has beaten: what it was seen in says nothing any more."""
    if track.loop is None:
        return track
    return msgspec.structs.replace(track, loop=None, loop_stops=0, loop_since_ns=0, loop_seen_ns=0)


def without_contradictions(tracks: Mapping[ThreadId, Track]) -> dict[ThreadId, Track]:
    """Threads that saw different values in one word saw it change, however often each of them saw the same."""
    values: dict[int, set[int]] = defaultdict(set)
    for track in tracks.values():
        for word in track.loop.polled if track.loop and track.loop_stops else ():
            values[word.address].add(word.value)
    torn = {address for address, seen in values.items() if len(seen) > 1}
    return {
        id_: msgspec.structs.replace(track, loop_stops=0)
        if track.loop and any(word.address in torn for word in track.loop.polled)
        else track
        for id_, track in tracks.items()
    }


def is_endless(track: Track) -> bool:
    """It is in a loop that it cannot leave."""
    return track.loop is not None and track.loop.kind is LoopKind.ENDLESS and track.loop_stops >= PROOF_STOPS


def is_fixed(track: Track, rules: Rules) -> bool:
    """It is in a poll of which, over many stops and a long time, nothing has changed."""
    return (
        track.loop is not None
        and track.loop.kind is LoopKind.POLL
        and track.loop_stops >= rules.fixed_looks
        and track.loop_seen_ns - track.loop_since_ns >= rules.fixed_s * 1e9
    )


def is_stuck(track: Track, state: State) -> bool:
    """Either of the two, by what was seen since anybody did something that could have released it."""
    seen = track.awake and track.loop_seen_ns >= state.anchor_ns
    if track.mark is Mark.NONE:
        return seen and (is_endless(track) or is_fixed(track, state.rules))
    return seen and is_endless(track)


def may_be_stuck(track: Track) -> bool:
    """More stops may yet show that it is."""
    if track.loop is None or not track.loop_stops or not track.awake:
        return False
    return track.loop.kind is LoopKind.ENDLESS or (track.loop.kind is LoopKind.POLL and track.mark is Mark.NONE)


def polls_outside(track: Track) -> bool:
    """What it polls may be written by another process."""
    return track.loop is not None and any(word.shared for word in track.loop.polled)


def pause_s(state: State) -> float:
    """Time to the next stop of a series, in s: irregular, so that no rhythm of the target's can keep step with it."""
    return _SERIES_LEAST_S + _SERIES_SPREAD_S * (state.looks * _GOLDEN % 1.0)
