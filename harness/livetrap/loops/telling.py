"""What is told of a loop that was followed: what it does, where it reads, what it writes."""

from __future__ import annotations

from collections.abc import Collection

from livetrap.loops.follow import Round
from livetrap.loops.machine import Access
from livetrap.loops.values import Word

_TRAITS = ("plain load", "atomic", "compare-and-swap", "pause", "yield")
_BY_ACCESS = {"plain": "plain load", "atomic": "atomic", "swap": "atomic", "cas": "compare-and-swap"}


def seen_traits(rounds: Round) -> set[str]:
    """What its instructions do besides reading memory."""
    return set().union(*(passed.traits for passed in rounds.passed.values()))


def traits(rounds: Round, polled: Collection[Word]) -> tuple[str, ...]:
    """The words for what it does, and for how it reads what it polls."""
    found = seen_traits(rounds)
    for passed in rounds.passed.values():
        found |= {_BY_ACCESS[load.how] for load in passed.loads if _is_of(load, polled)}
    if "exclusive" in found and "atomic" in found:
        found.add("compare-and-swap")
    return tuple(trait for trait in _TRAITS if trait in found)


def reading(rounds: Round, words: Collection[Word]) -> frozenset[int]:
    """The loop's own instructions that read these, or call what does."""
    return frozenset(
        node.calls[0] if node.calls else node.address
        for node, passed in rounds.passed.items()
        if any(_is_of(load, words) for load in passed.loads)
    )


def stored(rounds: Round) -> tuple[tuple[int, int], ...]:
    """(address, size) of all that it writes, where the address is known."""
    stores = [store for passed in rounds.passed.values() for store in passed.stores]
    return tuple(sorted({(store.address, store.size) for store in stores if store.address is not None}))


def _is_of(load: Access, words: Collection[Word]) -> bool:
    return load.address is not None and Word(load.address, load.size) in words
