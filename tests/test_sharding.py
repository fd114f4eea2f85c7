"""Shards: together they are the plan, each trial in one, and each has its share of every width and variant."""

from __future__ import annotations

from collections import Counter

import pytest

from livetrap import sharding, watching
from livetrap.errors import HarnessError
from livetrap.sharding import Shard, parse, take
from tests.test_expectations import SPIN
from tests.test_plan import made
from tests.test_watching import planned


def shards(count: int) -> list[Shard]:
    return [Shard(index=index, count=count) for index in range(1, count + 1)]


def test_parsed() -> None:
    assert parse("1/2") == Shard(index=1, count=2)
    assert parse(" 3 / 3 ") == Shard(index=3, count=3)
    assert str(parse("02/10")) == "2/10"


@pytest.mark.parametrize(
    "text", ["5/4", "0/2", "x", "", "1", "1/0", "-1/2", "1/2/3", "1.5/2", "1/99999999999999", "²/2", "1/1001"]
)
def test_not_parsed(text: str) -> None:
    with pytest.raises(HarnessError, match="--shard") as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert caught.value.status == 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_together_they_are_the_plan(count: int) -> None:
    whole = made(SPIN)
    parts = [take(whole, shard).trials for shard in shards(count)]
    assert sorted((t for part in parts for t in part), key=lambda t: t.ordinal) == list(whole.trials)
    assert all(list(part) == sorted(part, key=lambda t: t.ordinal) for part in parts)
    assert [take(whole, shard).trials for shard in shards(count)] == parts


@pytest.mark.parametrize("count", [2, 3, 4])
def test_each_has_its_share_of_every_width_and_variant(count: int) -> None:
    whole = made(SPIN.replace("threads = [1, 2]", "threads = [1, 2, 4, 8]").replace("trials = 2", "trials = 3"))
    for aspect in ("threads", "variant"):
        all_of = Counter(getattr(trial, aspect) for trial in whole.trials)
        for shard in shards(count):
            own = Counter(getattr(trial, aspect) for trial in take(whole, shard).trials)
            for value, number in all_of.items():
                assert abs(own[value] - number / count) <= len(all_of) + 1
                assert own[value] > 0


def test_a_cell_with_several_trials_is_in_several_shards() -> None:
    whole = made(SPIN)
    cells = {trial.cell_key for trial in whole.trials}
    assert all({trial.cell_key for trial in take(whole, shard).trials} == cells for shard in shards(2))


def test_more_shards_than_trials() -> None:
    whole = made(SPIN)
    with pytest.raises(HarnessError, match=f"has {len(whole.trials)} trials"):
        take(whole, Shard(index=1, count=len(whole.trials) + 1))
    assert take(whole, None) is whole


def test_the_seed_that_shards_have_in_common() -> None:
    assert sharding.common_seed("a", 1) == sharding.common_seed("a", 1) != sharding.common_seed("a", 2)
    assert sharding.common_seed("a") < 1 << 32


@pytest.mark.parametrize("trials", [1, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_watch_in_shards(trials: int, count: int) -> None:
    whole = list(watching.trials(planned(environment={"N": (1, 2, 3)}, trials=trials)))
    parts = []
    for shard in shards(count):
        watch = planned(environment={"N": (1, 2, 3)}, trials=trials, shard=shard)
        part = list(watching.trials(watch))
        assert watch.total == len(part)
        parts += part
    assert sorted(parts, key=lambda t: t.ordinal) == whole


def test_a_watch_without_enough_trials() -> None:
    with pytest.raises(HarnessError, match="has 2 trials"):
        planned(trials=2, shard=Shard(index=1, count=3))
