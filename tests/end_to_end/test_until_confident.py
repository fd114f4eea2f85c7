"""`livetrap run --until-confident`: real trials until the bound is sure, until a hang, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from livetrap.store import Store
from tests.end_to_end.running import livetrap

pytestmark = pytest.mark.slow

NARROW = ("--threads", "2", "--placement", "free", "--compiler", "gcc", "--db", "r.db")


def test_it_ends_with_the_bound_below_the_rate(tmp_path: Path) -> None:
    asked = (*NARROW, "--flags=-O2", "--variant", "buggy,fixed", "--until-confident", "0.1")
    ran = livetrap("run", "raw-spin-flag", *asked, folder=tmp_path, limit_s=60)
    assert ran.status == 0, ran.out + ran.err
    assert "--until-confident 0.1: takes 29 trials without a hang, or ends with the first hang" in ran.err
    assert "--until-confident 0.1: shown; fixed 0 of 29, below 9.9 % (95 %); that took 30 trials" in ran.out
    assert "fixed: 0 of 29; at 95 % confidence the rate is below 9.9 %; the buggy twin hung 1 of 1" in ran.out
    with Store.open(tmp_path / "r.db", create=False) as store:
        assert len({record.seed for record in store.records()}) == 30
        assert store.campaign(1)[0]["until_confident"] == 0.1


def test_the_first_hang_of_what_should_be_fixed_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "not-fixed"
    folder.mkdir()
    (folder / "scenario.toml").write_text(
        'schema = 1\nname = "not-fixed"\nsummary = "x"\n[target]\nkernel = "flag_handoff"\n'
        'parameters = { moment = "late", flag = "plain", body = "volatile_counter" }\n[budget]\ntrials = 1\n'
        '[variants.buggy]\nrole = "buggy"\n[variants.fixed]\nrole = "fixed"\n'
    )
    ran = livetrap("run", "not-fixed", "--until-confident", "0.01", "--db", "r.db", folder=tmp_path, limit_s=60)
    assert ran.status == 1, ran.out + ran.err
    assert "ended as livelock (fixed threads=2" in ran.out
    assert "1 of 1, 2.5 to 100 % (95 %): the fix does not hold" in ran.out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--until-confident", "0"), "--until-confident 0: must be a rate between 0 and 1, e.g. 0.01"),
        (("--until-confident", "nan"), "--until-confident nan: must be a rate between 0 and 1, e.g. 0.01"),
        (("--until-confident", "0.1", "--variant", "buggy"), "this run has no fixed variant"),
        (("--until-confident", "0.1", "--flags=-O0"), "no fixed cell of this run has a buggy twin"),
    ],
)
def test_what_it_refuses(tmp_path: Path, options: tuple[str, ...], problem: str) -> None:
    ran = livetrap("run", "raw-spin-flag", *NARROW, *options, folder=tmp_path, limit_s=60)
    assert ran.status == 2, ran.out + ran.err
    assert problem in ran.err.splitlines()[-1]
    assert not (tmp_path / "r.db").exists()
