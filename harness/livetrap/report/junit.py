"""JUnit XML, as CIs read it: a suite a campaign, a test case a cell, the evidence of a hang in the failure's text.

A campaign that did not get to its end has one case more, which says so as an error: what was not run did not pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from livetrap import __version__
from livetrap.expectations import Row
from livetrap.report.cases import Case, Kind, Suite, suites_of, told
from livetrap.report.place import check_target, write_whole
from livetrap.report.text import one_line
from livetrap.report.trial import value_text
from livetrap.store import Campaign, Store

GENERATOR = '<testsuites name="livetrap"'
"""How every file of ours begins, after the declaration."""
MOST_EVIDENCE = 8_000_000
"""Characters of evidence in one file: some CIs refuse large ones."""
_PLAN = ("command", "kind", "seed", "shard", "path")
_ENVIRONMENT = ("machine", "cpu", "os", "kernel", "arch", "compilers", "commit")
# What XML 1.0 takes; no reference stands for anything else either.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(
    store: Store,
    file: Path,
    *,
    campaigns: Sequence[int] | None = None,
    rows: Mapping[int, Sequence[Row]] | None = None,
) -> None:
    """Writes these campaigns (None: all) as one file, which is replaced as a whole; `rows` as for `suites_of`.

    Raises HarnessError for a campaign that is not in the database, and where the file cannot be written.
    """
    write_whole(file, junit(store, campaigns=campaigns, rows=rows))


def junit(
    store: Store, *, campaigns: Sequence[int] | None = None, rows: Mapping[int, Sequence[Row]] | None = None
) -> str:
    """The file as text."""
    suites = suites_of(store, campaigns, rows=rows)
    # The name comes first: by it, `check_junit` knows a file of ours.
    root = ElementTree.Element("testsuites", {"name": "livetrap"})
    room = _Room(store)
    total: dict[str, float] = {}
    for suite in suites:
        element = _suite(suite, room)
        root.append(element)
        for name in ("tests", "failures", "errors", "skipped", "time"):
            total[name] = total.get(name, 0) + float(element.attrib[name])
    for name, value in total.items():
        root.set(name, f"{value:.3f}" if name == "time" else f"{value:.0f}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def check_junit(target: str) -> None:
    """Raises HarnessError where a file could not be written to `target`, or would replace what is none of ours."""
    check_target(target, option="--junit", example="junit.xml", what="report", generator=GENERATOR)


# --- one campaign ----------------------------------------------------------------------------------------------------


def _suite(suite: Suite, room: _Room) -> ElementTree.Element:
    plan, environment = suite.campaign.plan, suite.campaign.environment
    kinds = [case.kind for case in suite.cases]
    unfinished = suite.unfinished
    element = ElementTree.Element(
        "testsuite",
        {
            "name": _attribute(suite.name),
            "tests": str(len(kinds) + bool(unfinished)),
            "failures": str(kinds.count(Kind.FAILED)),
            "errors": str(kinds.count(Kind.ERROR) + bool(unfinished)),
            "skipped": str(kinds.count(Kind.SKIPPED)),
            "time": f"{sum(case.wall_s for case in suite.cases):.3f}",
        },
    )
    began = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.campaign.text("started"))
    if began:
        element.set("timestamp", began[0])
    if environment.get("machine"):
        element.set("hostname", _attribute(str(environment["machine"])))
    properties = ElementTree.SubElement(element, "properties")
    values = {name: plan.get(name) for name in _PLAN} | {name: environment.get(name) for name in _ENVIRONMENT}
    for name, value in {"livetrap": __version__, "campaign": str(suite.campaign.id), **values}.items():
        if value not in (None, ""):
            ElementTree.SubElement(properties, "property", name=name, value=_attribute(value_text(value)))
    for case in suite.cases:
        element.append(_case(case, suite, room))
    if unfinished:
        last = ElementTree.SubElement(element, "testcase", classname=_class(suite), name="the campaign", time="0.000")
        ElementTree.SubElement(last, "error", message=_attribute(unfinished), type="unfinished")
    if suite.claims:
        ElementTree.SubElement(element, "system-out").text = _text("\n".join(suite.claims))
    return element


def _class(suite: Suite, variant: str = "") -> str:
    """Where readers of JUnit put it: dots part the levels, so that none of a name's may be left."""
    names = ["livetrap", suite.name, *([one_line(variant)] if variant else [])]
    return _attribute(".".join(name.replace(".", "_") for name in names))


def _case(case: Case, suite: Suite, room: _Room) -> ElementTree.Element:
    element = ElementTree.Element(
        "testcase",
        {
            "classname": _class(suite, case.row.variant),
            "name": _attribute(case.name),
            "time": f"{case.wall_s:.3f}",
        },
    )
    message = _attribute(case.message)
    match case.kind:
        case Kind.SKIPPED:
            ElementTree.SubElement(element, "skipped", message=message)
        case Kind.FAILED | Kind.ERROR:
            name = "failure" if case.kind is Kind.FAILED else "error"
            type_ = case.verdict.value if case.verdict else case.kind.value
            found = ElementTree.SubElement(element, name, message=message, type=type_)
            found.text = _text(room.told(case, suite.campaign))
        case Kind.PASSED:
            ElementTree.SubElement(element, "system-out").text = _text(case.message)
    return element


class _Room:
    """Gives evidence as long as there is room for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left = MOST_EVIDENCE

    def told(self, case: Case, campaign: Campaign) -> str:
        """What is told of a case that went wrong."""
        if self._left <= 0:
            return f"livetrap show {self._store.path} {case.trial}" if case.trial else ""
        found = told(self._store, case, campaign=campaign)
        if found is None:
            return ""
        parts = [found.text, f"repeat this cell\n  {found.repeat}" if found.repeat else ""]
        text = "\n\n".join(part for part in parts if part)
        self._left -= len(text)
        return text


def _attribute(text: str) -> str:
    return _NOT_XML.sub("", one_line(text, most=2000))


def _text(text: str) -> str:
    return _NOT_XML.sub("", text)
