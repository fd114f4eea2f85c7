"""The checklist as people read it."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from livetrap.diagnosis import Diagnosis
from livetrap.report.text import one_line

MOST = 2000


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """Seven findings, each with its evidence below it, and the closing paragraph."""
    for number, finding in enumerate(diagnosis.findings, start=1):
        style = "" if finding.applies else "dim"
        console.print(
            Text.assemble((f"({number}) {finding.question} ", "bold"), (one_line(finding.answer, most=MOST), style))
        )
        for line in finding.evidence:
            console.print(Padding(Text(one_line(line, most=MOST), style="dim"), (0, 0, 0, 6), expand=False))
    console.print()
    console.print(Text(one_line(diagnosis.paragraph, most=MOST)))
    console.print()
