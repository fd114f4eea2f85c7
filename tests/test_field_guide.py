"""docs/field-guide.md: it leads to every scenario that is shipped, and to nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from livetrap.resources import kernel_names, technique_names
from livetrap.scenario import load, shipped_names

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "field-guide.md").read_text()
SCENARIOS = ROOT / "scenarios"


@pytest.mark.parametrize("name", shipped_names(SCENARIOS))
def test_it_leads_to_each_scenario(name: str) -> None:
    assert f"](../scenarios/{name}/README.md)" in GUIDE


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", GUIDE):
        assert (ROOT / "docs" / target).exists(), target
    titles = re.findall(r"^## (.+)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", GUIDE)) <= anchors


@pytest.mark.parametrize(
    ("name", "variants"), re.findall(r"\[([\w-]+)\]\(\.\./scenarios/[\w-]+/README\.md\)((?:, `[\w-]+`)*)", GUIDE)
)
def test_the_variants_that_it_names_are_there(name: str, variants: str) -> None:
    scenario = load(
        name, scenarios_dir=SCENARIOS, kernels=kernel_names(ROOT / "csrc"), techniques=technique_names(ROOT / "csrc")
    )
    assert set(re.findall(r"`([\w-]+)`", variants)) <= set(scenario.variants)
