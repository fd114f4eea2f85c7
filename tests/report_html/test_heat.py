"""Heat maps: which axes, what is pooled, and figures that do not lie when rounded."""

from __future__ import annotations

import pytest

from livetrap.expectations import Row
from livetrap.model import Value, VariantRole, Verdict
from livetrap.report.html import heat
from livetrap.report.html.heat import MOST_VIEWS, STEPS, chosen_axes, draw, share_text, step, views
from livetrap.report.html.tally import Pooled


def cell(verdicts: dict[Verdict, int], *, skipped: int = 0, **axes: Value) -> Row:
    n = sum(verdicts.values())
    return Row(
        variant="buggy",
        role=VariantRole.BUGGY,
        cell=axes,
        planned=n + skipped,
        n=n,
        verdicts=verdicts,
        skipped=skipped,
        expected=(),
        ok=None,
    )


@pytest.mark.parametrize(
    ("axes", "chosen"),
    [
        ({"flags": (1, 2), "placement": (1, 2), "threads": (1, 2)}, ("threads", "placement")),
        ({"placement": (1, 2), "threads": (1,)}, ("threads", "placement")),
        ({"threads": (1, 2), "placement": (1,)}, ("threads", "placement")),
        ({"threads": (1, 2), "placement": (1,), "flags": (1, 2)}, ("threads", "flags")),
        ({"threads": (1,), "placement": (1,), "flags": (1, 2)}, ("threads", "flags")),
        ({"K": (1, 2), "L": (1, 2)}, ("K", "L")),
        ({"K": (1, 2)}, ("K", "")),
        ({"K": (1, 2), "L": (1,)}, ("K", "")),
        ({"threads": (1,)}, ("", "")),
        ({}, ("", "")),
    ],
)
def test_the_axes(axes: dict[str, tuple[Value, ...]], chosen: tuple[str, str]) -> None:
    assert chosen_axes(axes) == chosen


HUNG, PASSED = Verdict.LIVELOCK, Verdict.PASSED
ROWS = [
    cell({HUNG: 3}, threads=2, placement="free", flags="-O2"),
    cell({HUNG: 1, PASSED: 2}, threads=2, placement="free", flags="-O0"),
    cell({}, threads=8, placement="free", flags="-O2", skipped=3),
    cell({PASSED: 3}, threads=2, placement="one-core", flags="-O2"),
]


def test_other_axes_are_pooled_or_picked() -> None:
    every, *picked = views(ROWS)
    assert every.counts == {
        (2, "free"): Pooled(bugs=4, n=6),
        (8, "free"): Pooled(apart=3),
        (2, "one-core"): Pooled(n=3),
    }
    assert [view.name for view in picked] == ["flags -O2", "flags -O0"]
    assert picked[1].counts == {(2, "free"): Pooled(bugs=1, n=3)}
    assert picked[1].lines == (2, 8)  # the same form in all, so that they can be compared


def test_what_is_drawn() -> None:
    text = draw(ROWS, title="<buggy>", group="g")
    assert text
    assert text.count("<table") == text.count("<caption") == text.count('type="radio"') == 3
    assert text.count(" checked") == 1
    assert '<td class="h7">67 %<span class="n">4 of 6</span></td>' in text
    assert '<td class="none">-<span class="n">3 not counted</span></td>' in text
    assert '<td class="none"><span class="unseen">not run</span></td>' in text
    assert "&lt;buggy&gt;" in text


def test_one_cell_has_no_map() -> None:
    assert draw(ROWS[:1], title="x", group="g") is None


def test_there_are_never_more_maps_than_the_style_knows() -> None:
    rows = [cell({PASSED: 1}, threads=1 + i % 2, placement=f"p{i % 3}", body=i) for i in range(100)]
    assert len(views(rows)) == MOST_VIEWS
    assert len(views(rows, fields=12)) == 2
    assert len(views(rows, fields=1)) == 1


def test_a_bug_that_is_no_hang_is_called_so() -> None:
    text = draw([cell({Verdict.CORRUPT: 1}, threads=i) for i in (1, 2)], title="x", group="g")
    assert text is not None and "showed the bug" in text


def test_only_none_and_all_are_told_as_such() -> None:
    assert [step(0, 9), step(1, 1000), step(999, 1000), step(9, 9)] == [0, 1, STEPS - 1, STEPS]
    assert [share_text(*of) for of in ((0, 9), (1, 1000), (1, 3), (999, 1000), (9, 9))] == [
        "0 %",
        "< 1 %",
        "33 %",
        "> 99 %",
        "100 %",
    ]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_each_step_can_be_read() -> None:
    """WCAG 2.1, 1.4.3: a contrast of at least 4.5."""
    for place, colour in enumerate(heat._COLOURS, start=1):
        light = luminance(colour)
        contrast = 1.05 / (light + 0.05) if place >= heat._DARK_FROM else (light + 0.05) / 0.05
        assert contrast >= 4.5, colour
