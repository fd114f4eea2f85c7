"""Merging: what belongs together, and each trial once, in whatever order and however often files are given."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from livetrap import merging
from livetrap.cli import main
from livetrap.errors import HarnessError
from livetrap.merging import Part
from livetrap.model import Gaps, Rules, Verdict
from livetrap.store import Campaign, Store
from tests.test_cli import Capture, one_error
from tests.test_store import JUDGEMENT, make_record

Known = tuple[str, int, int]


def make(
    path: Path, *campaigns: tuple[str, str, range], scenario: str = "spin", seed: int = 7, ended: bool = True
) -> Path:
    """A database with campaigns of this uid and shard, and trials with these ordinals; a cell has two of them."""
    with Store.open(path) as store:
        for uid, shard, ordinals in campaigns:
            plan = {"uid": uid, "kind": "run", "scenario": scenario, "started": f"at {uid}", "seed": seed}
            plan |= {"command": f"livetrap run spin --shard {shard}", "trials": len(ordinals)}
            plan |= {"options": {"trials": 2}, "fingerprint": {"kernel": "k", "compilers": {"gcc": "12"}}}
            store.begin_campaign({**plan, **({"shard": shard} if shard else {})}, {"os": "linux", "machine": uid})
            for ordinal in ordinals:
                add(store, ordinal)
            if ended:
                store.amend_campaign({"ended": "later"})
    return path


def add(store: Store, ordinal: int, *, reason: str = "it spins") -> None:
    cell = {"threads": ordinal // 2}
    verdict = Verdict.PASSED if ordinal % 2 else Verdict.LIVELOCK
    record = make_record(store.next_id(), verdict=verdict)
    changed = {"cell": cell, "seed": 100 + ordinal, "scenario": "spin", "evidence": {"reason": reason}}
    store.add(
        msgspec.structs.replace(record, **changed),
        recipe={"trial": {"ordinal": ordinal, "variant": "buggy", "cell": cell, "seed": 100 + ordinal}},
        rules=Rules(),
        gaps=Gaps(),
        judgement=JUDGEMENT,
    )


def merge(target: Path, *files: Path) -> Path:
    assert main(["merge", *map(str, files), "-o", str(target)]) == 0
    return target


def contents(path: Path) -> list[tuple[str, list[Known]]]:
    """Of each campaign its uid and its trials; ids are unique and those of the rows."""
    with Store.open(path, create=False) as store:
        assert [record.id for record in store.records()] == store.ids() == list(range(1, len(store.ids()) + 1))
        return [
            (one.text("uid"), [(found.cell_key, found.seed, found.ordinal) for found in store.identities(one.id)])
            for one in store.campaigns()
        ]


def test_shards_become_one_campaign(tmp_path: Path, capsys: Capture) -> None:
    whole = make(tmp_path / "w.db", ("w", "", range(8)))
    first = make(tmp_path / "1.db", ("a", "1/2", range(0, 8, 2)))
    second = make(tmp_path / "2.db", ("b", "2/2", range(1, 8, 2)))
    merged = merge(tmp_path / "m.db", first, second)
    assert [trials for _, trials in contents(merged)] == [trials for _, trials in contents(whole)]
    out = capsys.readouterr().out
    assert "1 campaign, 8 trials of 2 files" in out
    assert "(shards 1/2, 2/2): 4 cells, livelock 4, passed 4" in out
    with Store.open(merged, create=False) as store:
        (found,) = store.campaigns()
    assert found.plan["trials"] == 8
    assert found.plan["ended"] == "later"
    assert "shard" not in found.plan
    assert found.text("command") == "livetrap run spin"
    assert found.environment == {"os": "linux", "machine": "a | b"}


def test_no_trial_is_counted_twice_in_any_order(tmp_path: Path) -> None:
    files = [
        make(tmp_path / "1.db", ("a", "1/2", range(0, 8, 2))),
        make(tmp_path / "2.db", ("b", "2/2", range(1, 8, 2)), ("c", "", range(8))),
    ]
    files.append(merge(tmp_path / "m.db", *files))
    expected = contents(files[2])
    for number, order in enumerate(itertools.permutations([*files, files[0]])):
        assert contents(merge(tmp_path / f"o{number}.db", *order)) == expected


def test_two_runs_of_a_shard_stay_two(tmp_path: Path) -> None:
    files = [
        make(tmp_path / "1.db", ("a1", "1/2", range(0, 8, 2)), ("a2", "1/2", range(0, 8, 2))),
        make(tmp_path / "2.db", ("b1", "2/2", range(1, 8, 2)), ("b2", "2/2", range(1, 8, 2))),
    ]
    merged = merge(tmp_path / "m.db", *files)
    assert [len(trials) for _, trials in contents(merged)] == [8, 8]
    assert contents(merge(tmp_path / "again.db", merged, files[1])) == contents(merged)


def test_the_same_plan_run_twice_on_purpose_stays_two(tmp_path: Path) -> None:
    files = [make(tmp_path / f"{uid}.db", (uid, "", range(4))) for uid in ("a", "b")]
    assert contents(merge(tmp_path / "m.db", *files)) == [contents(files[0])[0], contents(files[1])[0]]


def test_other_seeds_are_other_plans(tmp_path: Path, capsys: Capture) -> None:
    first = make(tmp_path / "1.db", ("a", "1/2", range(0, 8, 2)))
    second = make(tmp_path / "2.db", ("b", "2/2", range(1, 8, 2)), seed=8)
    assert len(contents(merge(tmp_path / "m.db", first, second))) == 2
    assert "missing: 2/2" in capsys.readouterr().out


def test_a_merged_campaign_that_was_gone_on_with(tmp_path: Path) -> None:
    """What was added to it stays with it, and what a late shard ran too counts once."""
    first = make(tmp_path / "1.db", ("a", "1/3", range(0, 9, 3)))
    second = make(tmp_path / "2.db", ("b", "2/3", range(1, 9, 3)))
    merged = merge(tmp_path / "m.db", first, second)
    with Store.open(merged) as store:
        assert "ended" not in store.campaigns()[0].plan
        store.go_on(1)
        for ordinal in (2, 5, 8):
            add(store, ordinal)
        store.amend_campaign({"ended": "at last"})
    again = contents(merge(tmp_path / "again.db", first, merged))
    assert [len(trials) for _, trials in again] == [9]
    third = make(tmp_path / "3.db", ("c", "3/3", range(2, 9, 3)))
    for name, files in (("x", (third, merged)), ("y", (merged, third, second))):
        assert [len(trials) for _, trials in contents(merge(tmp_path / name, *files))] == [9]


def test_of_two_copies_of_a_row_the_one_that_knows_more_is_kept(tmp_path: Path) -> None:
    files = [tmp_path / "1.db", tmp_path / "2.db"]
    for path, reason in zip(files, ("short", "a much longer reason"), strict=True):
        with Store.open(path) as store:
            store.begin_campaign({"uid": "a", "scenario": "spin"}, {})
            add(store, 0, reason=reason)
    for name, order in (("x", files), ("y", files[::-1])):
        with Store.open(merge(tmp_path / name, *order), create=False) as store:
            assert store.load(1).record.evidence["reason"] == "a much longer reason"


def test_a_campaign_without_a_uid_is_known_by_its_documents() -> None:
    one, other = (Campaign(id=1, plan={"seed": seed}, environment={}) for seed in (1, 2))
    assert merging.uid_of(one) == merging.uid_of(one) != merging.uid_of(other)


def test_shards_of_another_system_are_of_another_campaign() -> None:
    parts = [
        Part(uid=f"{system}{index}", plan={"shard": f"{index}/2", "started": str(index)}, environment={"os": system})
        for system in ("linux", "macos")
        for index in (1, 2)
    ]
    joined = merging.join(parts)
    assert [[part.uid for part in one.parts] for one in joined] in (
        [["linux1", "linux2"], ["macos1", "macos2"]],
        [["macos1", "macos2"], ["linux1", "linux2"]],
    )
    assert not any(one.missing for one in joined)


# --- bad input -------------------------------------------------------------------------------------------------------


def test_different_scenarios(tmp_path: Path, capsys: Capture) -> None:
    one = make(tmp_path / "1.db", ("a", "", range(2)))
    other = make(tmp_path / "2.db", ("b", "", range(2)), scenario="other")
    error = one_error(capsys, status=main(["merge", str(one), str(other), "-o", str(tmp_path / "m.db")]))
    assert "2.db has campaigns of other" in error
    assert "1.db of spin" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.db", "2.db"]


def test_files_that_cannot_be_merged(tmp_path: Path, capsys: Capture) -> None:
    good = make(tmp_path / "1.db", ("a", "", range(2)))
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 40, encoding="utf-8")
    cut = tmp_path / "cut.db"
    cut.write_bytes(good.read_bytes()[:5000])
    for words, part in (
        ([good, tmp_path / "none.db", "-o", tmp_path / "m.db"], "none.db does not exist"),
        ([good, tmp_path / "text.db", "-o", tmp_path / "m.db"], "not an SQLite database"),
        ([good, cut, "-o", tmp_path / "m.db"], "cut.db"),
        ([good, "-o", good], "is there already"),
        ([good, "-o", tmp_path], "is a folder"),
        ([good, "-o", tmp_path / "no" / "m.db"], "does not exist"),
        ([good], "-o is missing"),
        (["-o", tmp_path / "m.db"], "nothing to merge"),
        ([good, "", "-o", tmp_path / "m.db"], "is empty"),
    ):
        assert part in one_error(capsys, status=main(["merge", *map(str, words)]))
    assert not (tmp_path / "m.db").exists()


def test_nothing_is_left_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    good = make(tmp_path / "1.db", ("a", "", range(2)))

    def full(*_: object, **__: object) -> None:
        raise HarnessError("the disk is full", status=3)

    monkeypatch.setattr(Store, "copy", full)
    assert "full" in one_error(capsys, status=main(["merge", str(good), "-o", str(tmp_path / "m.db")]), expected=3)
    assert [path.name for path in tmp_path.iterdir()] == ["1.db"]
