"""The checklist as people read it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from livetrap.diagnosis import Diagnosis
from livetrap.report.text import one_line

MOST = 2000
INDENT = " " * 6
"""Of evidence, below its finding."""


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """Seven findings, each with its evidence below it, and the closing paragraph."""
    width = max(20, console.width - len(INDENT))
    for number, finding in enumerate(diagnosis.findings, start=1):
        style = "" if finding.applies else "dim"
        console.print(
            Text.assemble((f"({number}) {finding.question} ", "bold"), (one_line(finding.answer, most=MOST), style))
        )
        for line in finding.evidence:
            for part in Text(one_line(line, most=MOST), style="dim").wrap(console, width):
                part.rstrip()
                console.print(Text(INDENT).append_text(part))
    console.print()
    console.print(Text(one_line(diagnosis.paragraph, most=MOST)))
    console.print()
