"""When a stall is called a hang: only when nothing that is left could end it. The numbered rules of JUDGING.md."""

from __future__ import annotations

from livetrap.judge import loops
from livetrap.judge.roles import bursts, over_allowance
from livetrap.judge.state import State, judgement
from livetrap.model import (
    Certainty,
    Judgement,
    Mark,
    Phase,
    Role,
    Shape,
    ThreadId,
    ThreadJudgement,
    Verdict,
    WakeSource,
)

MAY_STILL_ACT = frozenset({Role.COMPUTING, Role.STARVED, Role.STOPPED, Role.UNDECIDED})
"""Roles of threads that could end the stall by themselves."""


def settle(
    state: State,
    threads: tuple[ThreadJudgement, ...],
    shape: Shape,
    *,
    mutex_cycle: tuple[ThreadId, ...] = (),
    any_phase: bool = False,
) -> Judgement | None:
    """A hang that can be called now; None while anything that is left could end the stall."""
    final = bool(mutex_cycle) and _is_final(state, threads, mutex_cycle)
    if final or (mutex_cycle and any_phase):
        return judgement(
            state,
            verdict=Verdict.DEADLOCK,
            certainty=Certainty.PROVEN if final else Certainty.OBSERVED,
            rule="settle-2",
            reason=_cycle(mutex_cycle),
            threads=threads,
            shape=shape,
        )
    if not threads or state.timers or not nothing_can_act(threads):
        return None
    if (endless := _endless(state, threads)) is not None:
        return judgement(
            state,
            verdict=Verdict.LIVELOCK,
            # Another process may end it, by a limit or an alarm that does not show.
            certainty=Certainty.PROVEN if len({thread.id.pid for thread in threads}) == 1 else Certainty.OBSERVED,
            rule="settle-1",
            reason=f"thread {endless.id.tid} is in a loop that it cannot leave, and nothing that is left could end it",
            threads=threads,
            shape=shape,
        )
    spinning = [thread for thread in threads if thread.role is Role.SPINNING]
    parked = [thread for thread in threads if thread.role in {Role.PARKED, Role.POLLING}]
    if spinning:
        # A load may consist of many short steps, with a wait after each and no beat before it is over.
        unsure = any(thread.mark in {None, Mark.NONE} or bursts(state.tracks[thread.id]) for thread in spinning)
        if unsure and state.phase is Phase.STARTING and not any_phase:
            return None
        if _all_arrived(state, threads):
            return judgement(
                state,
                verdict=Verdict.LIVELOCK,
                certainty=Certainty.PROVEN,
                rule="settle-3",
                reason="all threads have arrived at one site, and each has spent its allowance after the last arrival",
                threads=threads,
                shape=shape,
            )
        return judgement(
            state,
            verdict=Verdict.LIVELOCK,
            rule="settle-4",
            reason=f"{len(spinning)} spinning, and nothing that is left could release them ({shape})",
            threads=threads,
            shape=shape,
        )
    if parked and all(thread.role is not Role.POLLING for thread in parked):
        return judgement(
            state,
            verdict=Verdict.DEADLOCK,
            rule="settle-5",
            reason="every thread is asleep with nothing left that could wake one",
            threads=threads,
            shape=shape,
        )
    return None


def _cycle(owners: tuple[ThreadId, ...]) -> str:
    names = [f"thread {id_.tid}" for id_ in owners]
    if len(names) == 1:
        return f"{names[0]} waits for a mutex that it owns itself"
    return f"{len(names)} threads want mutexes of each other, in a cycle: {' -> '.join([*names, names[0]])}"


def _is_final(state: State, threads: tuple[ThreadJudgement, ...], owners: tuple[ThreadId, ...]) -> bool:
    """Nobody can end the cycle: no handler of a timer's signal may jump out of it, no other process may kill it.

    Threads of its own process cannot: only the owner may unlock a mutex. But a single thread that waits for its own may
    use it as a semaphore, which others post.
    """
    if state.timers:
        return False
    if len(owners) == 1:
        return nothing_can_act(threads)
    pids = {id_.pid for id_ in owners}
    return nothing_can_act(tuple(thread for thread in threads if thread.id.pid not in pids))


def _endless(state: State, threads: tuple[ThreadJudgement, ...]) -> ThreadJudgement | None:
    """A thread in an endless loop."""
    found = (thread for thread in threads if thread.role is Role.SPINNING and loops.is_endless(state.tracks[thread.id]))
    return next(found, None)


def nothing_can_act(threads: tuple[ThreadJudgement, ...]) -> bool:
    """No thread could end the stall: none may act, and nothing is left that could wake or release one."""
    return not wakeable(threads) and all(thread.role not in MAY_STILL_ACT for thread in threads)


def wakeable(threads: tuple[ThreadJudgement, ...]) -> tuple[ThreadId, ...]:
    """Threads that a timer or something outside could still wake, or release from a spin."""
    waiting = {Role.PARKED, Role.POLLING, Role.SPINNING}
    return tuple(
        thread.id for thread in threads if thread.role in waiting and thread.wake not in {None, WakeSource.NONE}
    )


def _all_arrived(state: State, threads: tuple[ThreadJudgement, ...]) -> bool:
    """Nobody has gone, and all are in the same wait, each over its allowance since the last arrival."""
    sites = {(thread.site, thread.arrivals) for thread in threads}
    return (
        state.departed == 0
        and not state.overflow
        and len(threads) > 1
        and len(sites) == 1
        and all(thread.mark is Mark.WAIT and thread.role is Role.SPINNING for thread in threads)
        and all(over_allowance(state.tracks[thread.id], state.rules) for thread in threads)
    )
