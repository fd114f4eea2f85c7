"""One trial in full: verdict and why, over time, threads, spin sites, stacks, output, how to repeat it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from livetrap.model import BUGS, HANGS, UNCOUNTED, Verdict
from livetrap.plaintext import plain
from livetrap.report.evidence import (
    GATHERED,
    MOST_FRAMES,
    MOST_LINES,
    MOST_STACKS,
    MOST_WIDTH,
    documents,
    left_of,
    lines_of,
    site_text,
    text_of,
    texts,
)
from livetrap.report.html import drawing
from livetrap.report.html.frame import pairs, row, table
from livetrap.report.html.lanes import lanes_of
from livetrap.report.html.markup import Markup, el
from livetrap.report.text import one_line, plural, seconds
from livetrap.report.trial import THREADS_HEAD, ending_text, recipe_pairs, repeat_text, thread_rows, value_text
from livetrap.store import Stored

MOST_THREADS = 64
MOST_SITES = 8
_TOLD = ("reason", "rule", "threads", "wakeable", "reap_s", "killed", "cpu_s", *GATHERED)


def kind_of(verdict: Verdict) -> str:
    """The class of a verdict in our style."""
    if verdict is Verdict.PASSED:
        return "good"
    return "bad" if verdict in BUGS else "dim" if verdict in UNCOUNTED else "other"


def section(stored: Stored, *, plan: Mapping[str, object]) -> Markup:
    """The trial; `plan`: what its campaign stored of its plan."""
    record, judged = stored.record, stored.judgement
    name = f"trial-{record.id}"
    certainty = f" ({record.certainty.value})" if record.verdict in HANGS else ""
    title = el(
        "h3", f"Trial {record.id}: ", el("span", record.verdict.value, class_=kind_of(record.verdict)), certainty
    )
    shown = lanes_of(stored.events, judged, hung=record.verdict in HANGS)
    over = drawing.draw(shown, name=name, title=f"trial {record.id} over time") if shown else None
    threads = judged.threads[:MOST_THREADS]
    return el(
        "article",
        title,
        el("p", one_line(judged.reason, most=2000)),
        pairs(_facts(stored)),
        el("h4", "Over time") if over else None,
        over,
        _threads(stored) if threads else None,
        *_evidence(record.evidence),
        el("h4", "Repeat it"),
        el("pre", el("code", repeat_text(stored, plan)), class_="command"),
        el("details", el("summary", "the whole recipe"), pairs(_clean(recipe_pairs(stored)))),
        id=name,
        aria_label=f"trial {record.id}",
    )


def _facts(stored: Stored) -> dict[str, str]:
    record = stored.record
    fit = {True: "as expected", False: "NOT as expected", None: "counts neither for nor against"}[record.as_expected]
    expected = " or ".join(verdict.value for verdict in record.expected)
    if frozenset(record.expected) >= BUGS:
        expected = "a bug"
    facts = {
        "variant": record.variant,
        "cell": " ".join(f"{name}={value}" for name, value in record.cell.items()),
        "expected": f"{expected}: {fit}" if expected else "",
        "shape": str(record.shape) if record.verdict in HANGS else "",
        "times": f"{seconds(record.wall_s)} in all, {plural(record.beats, 'beat')}, "
        f"{seconds(record.stall_s)} from the last beat to the verdict",
        "rule": stored.judgement.rule,
        "end": ending_text(record.evidence),
    }
    beside = {name: value_text(value) for name, value in record.evidence.items() if name not in _TOLD}
    return _clean(facts | beside)


def _clean(values: Mapping[str, str]) -> dict[str, str]:
    return {one_line(name): one_line(value, most=2000) for name, value in values.items()}


def _threads(stored: Stored) -> Markup:
    judged = stored.judgement
    rows = [row(values) for values in thread_rows(judged.threads[:MOST_THREADS], judged.wakeable, modules={})]
    more = len(judged.threads) - MOST_THREADS
    left = f"; {plural(more, 'more thread')} not shown" if more > 0 else ""
    return table(
        THREADS_HEAD, rows, caption=f"threads, since the last beat: what the verdict rests on{left}", class_="tight"
    )


# --- what was gathered -----------------------------------------------------------------------------------------------


def _evidence(evidence: Mapping[str, object]) -> Iterator[Markup]:
    sites = list(documents(evidence.get("spin_sites")))
    if sites:
        yield el("h4", "Spin site" if len(sites) == 1 else "Spin sites")
    for site in sites[:MOST_SITES]:
        yield el("p", site_text(site))
        listing = texts(site.get("listing"))
        if listing:
            yield _block(listing, most=MOST_LINES, label="the loop's code")
    if len(sites) > MOST_SITES:
        yield el("p", f"and {len(sites) - MOST_SITES} more", class_="small")
    by = text_of(evidence.get("stacks_by"))
    yield from _stacks(f"Stacks, taken after the verdict{f', by {by}' if by else ''}", evidence.get("stacks"))
    yield from _python_stacks(texts(evidence.get("python_stacks")))
    yield from _tail("The end of its output", evidence.get("output"))
    yield from _left(evidence)
    missing = [one_line(text, most=MOST_WIDTH) for text in texts(evidence.get("missing"))]
    if missing:
        yield el("h4", "What could not be had")
        yield el("ul", (el("li", text) for text in missing[:MOST_LINES]))


def _python_stacks(stacks: Sequence[str]) -> Iterator[Markup]:
    """As py-spy prints them, one text a thread."""
    if stacks:
        yield el("h4", "Python stacks")
    for stack in stacks[:MOST_STACKS]:
        yield _block(stack.splitlines(), most=MOST_FRAMES, label="Python stack")


def _stacks(title: str, value: object) -> Iterator[Markup]:
    """Threads with one and the same stack stand together."""
    stacks = list(documents(value))
    if not stacks:
        return
    same: dict[tuple[str, ...], list[str]] = {}
    for stack in stacks[:MOST_STACKS]:
        name = text_of(stack.get("name"))
        thread = one_line(f"{stack.get('pid', '-')}/{stack.get('tid', '-')}{f' {name}' if name else ''}")
        same.setdefault(tuple(texts(stack.get("frames"))), []).append(thread)
    parts: list[Markup] = []
    for frames, threads in same.items():
        parts.append(el("p", ", ".join(threads)))
        parts.append(_block(frames, most=MOST_FRAMES, label=f"stack of {one_line(threads[0])}"))
    if len(stacks) > MOST_STACKS:
        parts.append(el("p", f"and {plural(len(stacks) - MOST_STACKS, 'more thread')}", class_="small"))
    yield el("h4", title)
    summary = f"{plural(len(stacks), 'thread')}, {plural(len(same), 'stack')} that differ" if len(same) > 1 else ""
    yield el("details", el("summary", summary or plural(len(stacks), "thread")), parts, open=len(same) <= 4)


def _left(evidence: Mapping[str, object]) -> Iterator[Markup]:
    left = [str(pid) for pid in left_of(evidence)]
    if left:
        yield el("p", f"Left alive: {', '.join(left)} (debugger: gdb -p {left[0]})")
    core = text_of(evidence.get("core"))
    if core:
        yield el("p", f"Core dump: {core}")
    yield from _tail("Said by --on-hang", evidence.get("on_hang"))


def _tail(title: str, value: object) -> Iterator[Markup]:
    lines = lines_of(value)
    if lines:
        yield el("h4", title)
        if len(lines) > MOST_LINES:
            yield el("p", f"{plural(len(lines) - MOST_LINES, 'line')} before these", class_="small")
        yield _block(lines[-MOST_LINES:], most=MOST_LINES, label=title.lower())


def _block(lines: Sequence[str], *, most: int, label: str) -> Markup:
    shown = [plain(line).expandtabs().rstrip().replace("\n", " ")[:MOST_WIDTH] for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"... {plural(len(lines) - most, 'more line')}")
    return el("pre", el("code", "\n".join(shown)), tabindex=0, role="region", aria_label=label)
