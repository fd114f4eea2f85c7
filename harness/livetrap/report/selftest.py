"""A calibration as people read it: expected against judged, each variant, and what was judged wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from livetrap.calibration import Calibration, MatrixRow, State, VariantResult, expected_text
from livetrap.model import BUGS, Verdict
from livetrap.report.summary import verdicts_text
from livetrap.report.text import one_line, plural, print_columns, seconds

MOST_WRONG = 20
"""Wrong verdicts that are told in words; the JSON object has them all."""
ENDS = {0: "as expected", 1: "NOT as expected", 3: "nothing is said"}
STYLES = {State.RIGHT: "green", State.WRONG: "bold red", State.NOT_SEEN: "yellow"}
SEEN = "caught, or as expected"
"""Head of the column with rates and their intervals."""


def print_calibration(console: Console, calibration: Calibration, skipped: Mapping[str, str]) -> None:
    """The matrix, the variants, and what was judged wrong or not at all."""
    if calibration.ended:
        console.print()
        _print_matrix(console, calibration.matrix)
        console.print()
        _print_variants(console, [one for one in calibration.variants if one.judged])
    console.print()
    for finding in calibration.wrong[:MOST_WRONG]:
        trials = ", ".join(str(trial) for trial in finding.trials[:8]) + (", ..." if len(finding.trials) > 8 else "")
        told = f"{finding.text} (trial {trials})"
        console.print(Text(one_line(told, most=2000), style="red"), soft_wrap=True)
    if len(calibration.wrong) > MOST_WRONG:
        console.print(f"and {len(calibration.wrong) - MOST_WRONG} more that are wrong")
    for line in _notes(calibration, skipped):
        console.print(one_line(line, most=2000), soft_wrap=True)


def print_calibration_end(
    console: Console,
    calibration: Calibration,
    *,
    took_s: float,
    db: Path,
    interrupted: bool = False,
    failed: bool = False,
) -> None:
    """The last lines: how it ended, and where the record is. `failed`: it ended early, not by an interruption."""
    ending = "interrupted" if interrupted else "ended early" if failed else ENDS[calibration.exit_status]
    amount = f"{plural(calibration.scenarios, 'scenario')}, {plural(calibration.ended, 'trial')} in {seconds(took_s)}"
    wrong = plural(len(calibration.wrong), "wrong verdict") if calibration.wrong else "no wrong verdict"
    console.print(Text.assemble((f"{ending}: ", "bold"), f"{wrong} in {amount}"))
    if calibration.ended:
        telling = next(iter([*(one.trials[0] for one in calibration.wrong), *_telling(calibration.variants)]))
        console.print(f"record: {db}  (one trial of it: livetrap show {db} {telling})", soft_wrap=True)


def _telling(variants: Sequence[VariantResult]) -> list[int]:
    """Trials to look at where nothing is wrong: a bug that was caught, else any."""
    ended = sorted((one for one in variants if one.telling is not None), key=lambda one: not one.caught)
    return [one.telling for one in ended if one.telling is not None]


# --- tables ----------------------------------------------------------------------------------------------------------


def _print_matrix(console: Console, matrix: Sequence[MatrixRow]) -> None:
    """A row a group and expectation, a column a verdict that was judged; green is as expected, red a wrong bug."""
    judged = [verdict for verdict in Verdict if any(verdict in row.judged for row in matrix)]
    rows = [
        [Text(row.group), Text(expected_text(row.expected)), *(_count(row, verdict) for verdict in judged)]
        for row in matrix
    ]
    print_columns(console, ["variants", "expected", *(verdict.value for verdict in judged)], rows)


def _count(row: MatrixRow, verdict: Verdict) -> Text:
    count = row.judged.get(verdict, 0)
    if not count:
        return Text("-", style="dim")
    if verdict in row.expected:
        return Text(str(count), style="green")
    return Text(str(count), style="bold red" if verdict in BUGS else "yellow")


def _print_variants(console: Console, variants: Sequence[VariantResult]) -> None:
    """A row a variant, those of a scenario below its name."""
    rows: list[list[Text]] = []
    for scenario in dict.fromkeys(one.scenario for one in variants):
        rows.append([Text(), Text(one_line(scenario), style="bold"), *(Text() for _ in range(4))])
        rows += [_variant_row(one) for one in variants if one.scenario == scenario]
    print_columns(console, ["", "variant", "role", "judged", SEEN, "first after"], rows, whole=[SEEN])


def _variant_row(one: VariantResult) -> list[Text]:
    return [
        Text(one.state.value, style=STYLES.get(one.state, "dim")),
        Text(f"  {one_line(one.variant)}"),
        Text(one.role.value + (", always" if one.always else "")),
        verdicts_text(one.judged),
        Text(_rate(one)),
        Text(seconds(one.first_hang_s) if one.could_show else "", style="" if one.caught else "dim"),
    ]


def _rate(one: VariantResult) -> str:
    """Of what could show a bug, how often it did; of all else, how often it ended as expected."""
    if one.could_show:
        return one.rate_text
    return f"{one.as_expected} of {one.conclusive}" if one.conclusive else ""


def _notes(calibration: Calibration, skipped: Mapping[str, str]) -> list[str]:
    quiet = [f"{one.scenario}, {one.variant}" for one in calibration.variants if one.state is State.NOT_SEEN]
    notes = [f"the bug did not show, which is inconclusive for this machine: {'; '.join(quiet)}"] if quiet else []
    notes += [
        f"skipped: {one.scenario}, {one.variant}: {one.reason}"
        for one in calibration.variants
        if one.state is State.SKIPPED
    ]
    notes += [f"skipped: {name}: {reason}" for name, reason in skipped.items()]
    return [*notes, *calibration.gaps]
