"""What a loop carries from round to round."""

from __future__ import annotations

from livetrap.loops.follow import Round
from livetrap.loops.values import Head, Place, Value


def carried_in(done: Round) -> dict[Place, bool]:
    """Places whose value goes from round to round through a cycle, and whether it is worked on in it."""
    if done.back is None:
        return {}
    edges: dict[Place, dict[Place, bool]] = {}
    for place, value in done.back.items():
        if value == done.head.get(place, Value(place, 0)):
            continue
        for source in value.all_sources:
            if isinstance(source, Head):
                held = edges.setdefault(place, {})
                held[source.place] = held.get(source.place, False) or source.worked
    found: dict[Place, bool] = {}
    for place in edges:
        ahead = _ahead(edges, place)
        if place in ahead:
            found[place] = any(
                worked and place in _ahead(edges, other) | {other}
                for one in ahead
                if place in _ahead(edges, one) | {one}
                for other, worked in edges.get(one, {}).items()
            )
    return found


def _ahead(edges: dict[Place, dict[Place, bool]], place: Place) -> set[Place]:
    seen: set[Place] = set()
    todo = list(edges.get(place, ()))
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            todo.extend(edges.get(each, ()))
    return seen
