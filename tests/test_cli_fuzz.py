"""Bad input of `livetrap fuzz`: one line each, before anything is built."""

from __future__ import annotations

import importlib.util

import pytest

from livetrap.cli import main
from tests.test_cli import Capture, one_error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such"], "unknown scenario"),
        (["raw-spin-flag", "--trials", "0"], "--trials"),
        (["raw-spin-flag", "--for", "soon"], "--for"),
        (["raw-spin-flag", "--axis", "disturbance=none", "--disturb", "none"], "two ways to say the same"),
        (["raw-spin-flag", "--db", "/"], "/"),
        (["raw-spin-flag", "--variant", "bugy"], "did you mean 'buggy'"),
        (["raw-spin-flag", "--disturb", "hog:2"], "disturbance"),
    ],
)
def test_bad_input(arguments: list[str], said: str, capsys: Capture) -> None:
    assert said in one_error(capsys, status=main(["fuzz", *arguments]))


def test_without_hypothesis(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    status = main(["fuzz", "raw-spin-flag"])
    assert "pip install 'livetrap[fuzz]'" in one_error(capsys, status=status, expected=3)
