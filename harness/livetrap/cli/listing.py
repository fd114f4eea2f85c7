"""`livetrap list`: the scenarios that came with this copy."""

from __future__ import annotations

import sys

from rich.table import Table

from livetrap import resources, scenario
from livetrap.report.text import console, one_line
from livetrap.scenario_model import axes_of, cell_count


def list_command() -> int:
    """The scenarios that came with this copy: what each is, its variants, how many cells and trials."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name, justify in (("scenario", "left"), ("summary", "left"), ("variants", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    table.add_column("cells", justify="right")
    table.add_column("trials", justify="right")
    folder = resources.scenarios_dir()
    kernels, techniques = resources.kernel_names(), resources.technique_names()
    for name in scenario.shipped_names(folder):
        loaded = scenario.load(name, scenarios_dir=folder, kernels=kernels, techniques=techniques)
        sizes = [
            (cell_count(axes_of(loaded, variant)), variant.trials or loaded.budget.trials)
            for variant in loaded.variants.values()
        ]
        table.add_row(
            name,
            one_line(loaded.summary),
            ", ".join(loaded.variants),
            str(sum(cells for cells, _ in sizes)),
            str(sum(cells * trials for cells, trials in sizes)),
        )
    console(sys.stdout).print(table)
    return 0
