"""The checklist that an engineer walks when native code never returns, answered from one campaign. Pure.

Seven questions, each with its finding and the evidence for it; a question that does not apply says why. Nothing is
claimed of a fix where the bug did not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from livetrap.claims import Claim, bugs_in, fix_claims, seen_text
from livetrap.expectations import DEMONSTRATORS, Outcome, Row
from livetrap.model import BUGS, Frozen, PlannedTrial, Record, Value, VariantRole, Verdict
from livetrap.plan import Plan
from livetrap.policy import POLICY, OrtQmoeCpuFp16LivelockPolicy, plan_barrier, standing
from livetrap.stats import rate_text

WHERE_IT_RUNS = ("threads", "placement", "align")
"""Axes that are no path through the code."""


class Finding(Frozen, kw_only=True):
    """The answer to one question."""

    question: str = ""
    answer: str
    evidence: tuple[str, ...] = ()
    applies: bool = True


class Diagnosis(Frozen, kw_only=True):
    """All seven findings and what follows from them."""

    findings: tuple[Finding, ...]
    paragraph: str
    reproduced: bool


def diagnose(
    plan: Plan,
    records: Sequence[Record],
    outcome: Outcome,
    *,
    policy: OrtQmoeCpuFp16LivelockPolicy = POLICY,
) -> Diagnosis:
    """Walks the checklist over what a campaign saw."""
    case = _Case(plan=plan, records=tuple(records), rows=outcome.rows, policy=policy)
    findings = tuple(msgspec.structs.replace(answer(case), question=question) for question, answer in CHECKLIST.items())
    return Diagnosis(findings=findings, paragraph=_paragraph(case, outcome), reproduced=bugs_in(case.seen) > 0)


class _Case(Frozen, kw_only=True):
    """What all questions are asked of."""

    plan: Plan
    records: tuple[Record, ...]
    rows: tuple[Row, ...]
    policy: OrtQmoeCpuFp16LivelockPolicy

    @property
    def buggy(self) -> list[Row]:
        """Cells of the variants that are there to show the bug."""
        return [row for row in self.rows if row.role in DEMONSTRATORS]

    @property
    def others(self) -> list[Row]:
        """Cells of all other variants."""
        return [row for row in self.rows if row.role not in DEMONSTRATORS]

    @property
    def seen(self) -> Counter[Verdict]:
        """What the buggy variants came to, where they could show the bug."""
        return tally(row for row in self.buggy if row.shows_bug)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the fixed variants may claim."""
        return fix_claims(self.rows)


def tally(rows: Iterable[Row]) -> Counter[Verdict]:
    """The conclusive verdicts of some cells."""
    counts: Counter[Verdict] = Counter()
    for row in rows:
        counts.update(row.verdicts)
    return counts


def _not_applicable(why: str) -> Finding:
    return Finding(answer=f"does not apply: {why}", applies=False)


def _finding(answer: str, *evidence: str) -> Finding:
    return Finding(answer=answer, evidence=tuple(line for line in evidence if line))


def _verdicts(counts: Mapping[Verdict, int]) -> str:
    told = ", ".join(f"{count} {verdict.value}" for verdict, count in Counter(counts).most_common())
    return f"{seen_text(counts)}: {told}" if told else "no conclusive trial"


# --- the seven questions ---------------------------------------------------------------------------------------------


def _one_thread(case: _Case) -> Finding:
    alone = tally(row for row in case.buggy if row.cell.get("threads") == 1)
    several = tally(row for row in case.buggy if row.cell.get("threads") != 1)
    if not case.buggy:
        return _not_applicable("no variant of this run is there to show a bug")
    if not alone:
        return _not_applicable("no conclusive trial of a buggy variant with one thread in this run")
    if bugs_in(alone):
        return _finding("no: the bug shows with one thread too", f"one thread: {_verdicts(alone)}")
    answer = "yes: it takes more than one thread" if bugs_in(several) else "yes, and here so do several threads"
    if not several:
        answer = "yes; more threads were not tried, or not conclusively"
    return _finding(answer, f"one thread: {_verdicts(alone)}", f"more: {_verdicts(several)}")


def _paths(case: _Case) -> Finding:
    """Axes along which the bug shows at some values and never at others."""
    names = dict.fromkeys(name for row in case.rows for name in row.cell if name not in (*WHERE_IT_RUNS, "technique"))
    if not bugs_in(case.seen):
        return _not_applicable("the bug did not show, so no path can be told from another")
    threaded = [row for row in case.rows if row.cell.get("threads") != 1]
    told, evidence = [], []
    if not any(len(_values(threaded, name)) > 1 for name in names):
        return _not_applicable("no axis but threads, placement and align was varied")
    for name in names:
        counts = {value: tally(_with(threaded, name, value)) for value in _values(threaded, name)}
        hit = [value for value, seen in counts.items() if bugs_in(seen)]
        clean = [value for value, seen in counts.items() if seen and not bugs_in(seen)]
        if not hit or not clean:
            continue
        told.append(f"{name}: only {_list(hit)}, not {_list(clean)}")
        evidence += [f"{name} {value}: {_verdicts(seen)}" for value, seen in counts.items() if seen]
        evidence += _acquittals(case, name, hit)
        untried = [value for value in clean if not tally(_with(case.buggy, name, value))]
        if untried:
            evidence.append(f"no buggy variant ran at {name} {_list(untried)}: there the variant differs as well")
    if not told:
        return _finding("no: it shows at every value of the axes that were varied, but for threads and placement")
    return _finding("yes: " + "; ".join(told), *evidence)


def _acquittals(case: _Case, name: str, hit: Sequence[Value]) -> list[str]:
    """What passes at those very values: then the value alone is not the cause."""
    lines = []
    for value in hit:
        innocent = tally(row for row in _with(case.others, name, value) if row.cell.get("threads") != 1)
        if innocent and not bugs_in(innocent):
            lines.append(
                f"but {name} {value} in the other variants: {_verdicts(innocent)}; {name} alone is not the cause"
            )
    return lines


def _wait(case: _Case) -> Finding:
    shown = [row for row in case.buggy if bugs_in(row.verdicts)] or [row for row in case.buggy if row.shows_bug]
    if not shown:
        return _not_applicable("no cell of this run could show the bug")
    techniques = _techniques(shown)
    if techniques:
        answer = "; ".join(f"{name} {standing(name).reason}" for name in techniques)
    else:
        settings = dict.fromkeys(_settings(trial) for trial in case.plan.trials if _in(trial, shown))
        name = case.plan.trials[0].kernel
        answer = f"its own wait, {f'kernel {name}' if name else 'a command'}: {'; or '.join(settings)}"
    return _finding(answer, *_sites(case.records), *_shapes(case.records))


def _workarounds(case: _Case) -> Finding:
    """One thread; and values of other axes at which the buggy variants, or the look-alikes, pass."""
    if not bugs_in(case.seen):
        return _not_applicable("the bug did not show, so nothing can be seen to avoid it")
    tried: dict[str, Counter[Verdict]] = {}
    tried["one thread"] = tally(row for row in case.buggy if row.cell.get("threads") == 1)
    for row in case.buggy:
        if not row.shows_bug and row.cell.get("threads") != 1:
            tried.setdefault(f"{row.variant} without {row.needs or 'what it needs'}", Counter()).update(row.verdicts)
    for row in case.rows:
        if row.role is VariantRole.LOOK_ALIKE:
            tried.setdefault(f"variant {row.variant}", Counter()).update(row.verdicts)
    tried = {name: counts for name, counts in tried.items() if counts}
    if not tried:
        return _not_applicable("this run tried none (one thread, or a variant beside the buggy one)")
    good = [name for name, counts in tried.items() if not bugs_in(counts)]
    bad = [name for name, counts in tried.items() if bugs_in(counts)]
    words = [f"yes: {_list(good)}"] if good else []
    words += [f"no: {_list(bad)}"] if bad else []
    return _finding("; ".join(words), *(f"{name}: {_verdicts(counts)}" for name, counts in tried.items()))


def _root_fix(case: _Case) -> Finding:
    if not case.claims:
        return _not_applicable("no fixed variant ran where the bug could show")
    if not bugs_in(case.seen):
        return _finding("not reproduced, so nothing is claimed", *(claim.text for claim in case.claims))
    if any(claim.fix.holds is False for claim in case.claims):
        return _finding("no", *(claim.text for claim in case.claims))
    trials = sum(claim.fix.fixed_trials for claim in case.claims)
    certain = all(claim.fix.holds for claim in case.claims)
    answer = "yes" if certain else "not yet: too few trials to tell it from luck"
    return _finding(f"{answer}, {rate_text(0, trials)}", *(claim.text for claim in case.claims))


def _policy(case: _Case) -> Finding:
    fixed = _techniques(row for row in case.rows if row.role is VariantRole.FIXED)
    if not any(row.role is VariantRole.FIXED for row in case.rows):
        return _not_applicable("no fixed variant in this run")
    if not fixed:
        kernel = (case.plan.trials[0].kernel if case.plan.trials else "the kernel") or "a command"
        return _not_applicable(f"{kernel} waits in its own way; the policy speaks of barriers that have a technique")
    held = [name for name in fixed if standing(name).kinds]
    lines = [f"{name}: {' and '.join(standing(name).kinds) or 'none: it ' + standing(name).reason}" for name in fixed]
    planned = plan_barrier(case.policy)
    lines.append(f"the policy asks for {planned.kind}, and stands for {planned.technique}: {case.policy.describe()}")
    forbidden = [name for name in fixed if name not in held]
    answer = f"satisfied by {_list(held)}" if held else "none of the fixed techniques satisfies it"
    return _finding(f"{answer}; not by {_list(forbidden)}" if held and forbidden else answer, *lines)


def _guard(case: _Case) -> Finding:
    name = case.plan.scenario.name
    watch = f"`livetrap run {name}` in CI: exit 1 as soon as a cell does not do what the scenario expects"
    fixed = _techniques(row for row in case.rows if row.role is VariantRole.FIXED)
    if not any(standing(technique).kinds for technique in fixed):
        return _finding(watch, "the policy guard does not apply: no technique of this scenario is one that it plans")
    return _finding(
        f"tests/test_policy_guard.py, and {watch}",
        "the guard runs the planned technique and a forbidden one, and reads the compiled wait: it must call its yield",
    )


# --- evidence --------------------------------------------------------------------------------------------------------


def _with(rows: Iterable[Row], name: str, value: Value) -> list[Row]:
    return [row for row in rows if row.cell.get(name) == value]


def _values(rows: Iterable[Row], name: str) -> list[Value]:
    return list(dict.fromkeys(row.cell[name] for row in rows if name in row.cell))


def _techniques(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(str(row.cell["technique"]) for row in rows if row.cell.get("technique")))


def _list(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)


def _in(trial: PlannedTrial, rows: Sequence[Row]) -> bool:
    return any(row.variant == trial.variant and row.cell == trial.cell for row in rows)


def _settings(trial: PlannedTrial) -> str:
    return " ".join(f"{name} {value}" for name, value in trial.parameters.items())


def _sites(records: Iterable[Record], most: int = 3) -> list[str]:
    """Where the threads spun, the commonest places first."""
    sites: Counter[str] = Counter()
    for record in records:
        found = record.evidence.get("spin_sites")
        for site in found if isinstance(found, list) else []:
            if isinstance(site, dict):
                sites[str(site.get("where") or site.get("site"))] += int(site.get("threads", 1))
    return [
        f"{count} {'thread' if count == 1 else 'threads'} found spinning in {site}"
        for site, count in sites.most_common(most)
    ]


def _shapes(records: Iterable[Record], most: int = 3) -> list[str]:
    shapes = Counter(f"{record.verdict.value}, {record.shape}" for record in records if record.verdict in BUGS)
    return [f"{count} times {shape}" for shape, count in shapes.most_common(most)]


# --- what follows ----------------------------------------------------------------------------------------------------


def _paragraph(case: _Case, outcome: Outcome) -> str:
    name, seen = case.plan.scenario.name, case.seen
    if not any(row.n for row in case.rows):
        return (
            f"{name}: nothing conclusive ran ({'; '.join(outcome.messages) or 'no trial has ended'}). Nothing is said."
        )
    if not bugs_in(seen) and bugs_in(tally(case.others)):
        odd = list(dict.fromkeys(row.variant for row in case.others if bugs_in(row.verdicts)))
        told = _verdicts(tally(case.others))
        return f"{name}: variant {_list(odd)}, which is not there to show a bug, showed one: {told}."
    if not bugs_in(seen):
        why = next((text for text in outcome.messages if text.startswith("not reproduced")), "not reproduced here")
        return f"{name}: {why}. Nothing is said about the cause, and nothing is claimed about a fix."
    kinds = ", ".join(f"{count} {verdict.value}" for verdict, count in seen.most_common() if verdict in BUGS)
    what = f"What it is: {name} shows the bug in {seen_text(seen)}: {kinds}."
    return " ".join([what, *_cause(case), _now(case), _for_good(case)])


def _cause(case: _Case) -> list[str]:
    techniques = _techniques(row for row in case.buggy if bugs_in(row.verdicts))
    return [f"The wait is {name}, which {standing(name).reason}." for name in techniques]


def _now(case: _Case) -> str:
    finding = _workarounds(case)
    if not finding.applies or not finding.answer.startswith("yes"):
        return "What to do now: no workaround was seen to hold in this run."
    return f"What to do now: {finding.answer.removeprefix('yes: ').partition('; no: ')[0]} did not show it."


def _for_good(case: _Case) -> str:
    if not case.claims:
        return "For good: no fixed variant was tried."
    if any(claim.fix.holds is False for claim in case.claims):
        return "For good: none; a variant that is called fixed showed the bug too."
    fixed = _techniques(row for row in case.rows if row.role is VariantRole.FIXED)
    planned = plan_barrier(case.policy).technique
    what = f"wait with {planned}, as the policy plans" if planned in fixed else f"take {case.claims[0].variant}"
    others = [technique for technique in fixed if technique != planned and standing(technique).kinds]
    choice = f" (or {_list(others)})" if planned in fixed and others else ""
    counted = [row for claim in case.claims for row in claim.cells]
    if planned in fixed:  # what the policy forbids is not part of the advice
        counted = [row for row in counted if standing(str(row.cell["technique"])).kinds]
    trials = sum(row.n for row in counted)
    sure = "" if all(claim.fix.holds for claim in case.claims) else ", too few trials yet to tell it from luck"
    keep = f"keep `livetrap run {case.plan.scenario.name}` in CI"
    return f"For good: {what}{choice}: {rate_text(0, trials)}{sure}; and {keep}."


CHECKLIST: dict[str, Callable[[_Case], Finding]] = {
    "does one thread pass?": _one_thread,
    "only on one path?": _paths,
    "what does the wait do?": _wait,
    "does a workaround hold?": _workarounds,
    "does the root fix hold?": _root_fix,
    "which policy does it satisfy?": _policy,
    "which guard keeps it?": _guard,
}
