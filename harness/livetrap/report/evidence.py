"""What was gathered of a hang, as people read it: spin sites with their loops, stacks, output, what is missing.

The evidence of a record is a document: whatever is in it of another form than expected is left out, never an error.
All of its texts came from the target or from a tool that read it, and are made harmless here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from livetrap.model import ThreadId, ThreadJudgement
from livetrap.plaintext import plain
from livetrap.report.text import one_line, plural, seconds

MOST_LINES = 24
"""Lines of a loop's listing, and of an output's tail, that are shown; the record has all."""
MOST_FRAMES = 32
MOST_STACKS = 64
MOST_WIDTH = 400

GATHERED = (
    "spin_sites",
    "stacks",
    "stacks_by",
    "stacks_took_s",
    "python_stacks",
    "missing",
    "output",
    "left",
    "core",
    "on_hang",
)
"""What `print_gathered` tells."""

Document = Mapping[str, object]


def threads_of(evidence: Document) -> tuple[ThreadJudgement, ...]:
    """The judged threads of a record's evidence."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(evidence.get("threads", ()), tuple[ThreadJudgement, ...])
    return ()


def wakeable_of(evidence: Document) -> tuple[ThreadId, ...]:
    """The threads that could still be woken, of a record's evidence."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(evidence.get("wakeable", ()), tuple[ThreadId, ...])
    return ()


def left_of(evidence: Document) -> tuple[int, ...]:
    """The processes that were left alive, of a record's evidence."""
    return tuple(pid for pid in values(evidence.get("left")) if isinstance(pid, int))


def print_gathered(console: Console, evidence: Document) -> None:
    """Spin sites, stacks, what the target wrote, and what is left of it: whatever of these there is."""
    print_sites(console, evidence)
    print_stacks(console, evidence)
    print_tail(console, "the end of its output", evidence.get("output"))
    print_left(console, evidence)


def print_sites(console: Console, evidence: Document) -> None:
    """Where it spins: place, function and line, what the loop is, and its listing."""
    sites = list(documents(evidence.get("spin_sites")))
    if not sites:
        return
    console.print("\nspin site" if len(sites) == 1 else "\nspin sites")
    for site in sites:
        console.print(Text(f"  {site_text(site)}"), soft_wrap=True)
        _print_lines(console, texts(site.get("listing")), indent=6)


def site_text(site: Document) -> str:
    """`main.c:12 in waiter (a.out+0x1234): 2 threads in a poll (plain load)`."""
    place, where = text_of(site.get("site")), text_of(site.get("where"))
    text = f"{where} ({place})" if where and place else where or place or "unknown place"
    threads, loop = site.get("threads"), text_of(site.get("loop"))
    does = _loop_text(loop, texts(site.get("traits"))) if loop else ""
    if not isinstance(threads, int):
        return f"{text}: {does}" if does else text
    return f"{text}: {plural(threads, 'thread')}{f' in {does}' if does else ''}"


def _loop_text(kind: str, traits: Sequence[str]) -> str:
    """`a loop that polls memory (plain load, pause)`: what a loop is, in words."""
    words = {
        "endless": "an endless loop",
        "poll": "a loop that polls memory",
        "compute": "a computing loop",
        "unknown": "a loop of unknown kind",
    }
    does = ", ".join(one_line(trait) for trait in traits)
    return f"{words.get(kind, one_line(kind))}{f' ({does})' if does else ''}"


def print_stacks(console: Console, evidence: Document) -> None:
    """Stacks of all threads, where they were taken, and what could not be had."""
    by, took = text_of(evidence.get("stacks_by")), evidence.get("stacks_took_s")
    how = f", by {by}" if by else ""
    if isinstance(took, int | float):
        how += f", in {seconds(took)}"
    _print_stacks(console, f"stacks, taken after the verdict{how}", evidence.get("stacks"))
    python = texts(evidence.get("python_stacks"))
    if python:
        console.print("\nPython stacks")
    for stack in python[:MOST_STACKS]:
        _print_lines(console, stack.splitlines(), indent=2, most=MOST_FRAMES)
    missing = [one_line(text, most=MOST_WIDTH) for text in texts(evidence.get("missing"))]
    if missing:
        console.print("\nwhat could not be had")
    for text in missing:
        console.print(Text(f"  {text}"), soft_wrap=True)


def _print_stacks(console: Console, title: str, value: object) -> None:
    stacks = list(documents(value))
    if not stacks:
        return
    console.print(f"\n{title}")
    for stack in stacks[:MOST_STACKS]:
        name = text_of(stack.get("name"))
        console.print(Text(f"  {stack.get('pid', '-')}/{stack.get('tid', '-')}{f' {name}' if name else ''}"))
        _print_lines(console, texts(stack.get("frames")), indent=6, most=MOST_FRAMES)
    if len(stacks) > MOST_STACKS:
        console.print(f"  and {plural(len(stacks) - MOST_STACKS, 'more thread')}")


def print_left(console: Console, evidence: Document) -> None:
    """What is kept of a hang beside the record: the live process, the core dump, what --on-hang said."""
    left = [str(pid) for pid in left_of(evidence)]
    if left:
        each = ", ".join(left)
        console.print(
            Text(f"\nleft alive: {each}  (debugger: gdb -p {left[0]}; when done: kill -KILL {' '.join(left)})"),
            soft_wrap=True,
        )
    core = text_of(evidence.get("core"))
    if core:
        console.print(Text(f"\ncore dump: {core}"), soft_wrap=True)
    print_tail(console, "said by --on-hang", evidence.get("on_hang"))


def print_tail(console: Console, title: str, text: object) -> None:
    """The last lines of a text of the target's."""
    lines = lines_of(text)
    if not lines:
        return
    console.print(f"\n{title}")
    if len(lines) > MOST_LINES:
        console.print(f"    ... {plural(len(lines) - MOST_LINES, 'line')} before", style="dim")
    _print_lines(console, lines[-MOST_LINES:], indent=4)


# --- documents -------------------------------------------------------------------------------------------------------


def _print_lines(console: Console, lines: Sequence[str], *, indent: int, most: int = MOST_LINES) -> None:
    for line in lines[:most]:
        text = plain(line).expandtabs().rstrip()
        console.print(Text(" " * indent + text[:MOST_WIDTH]), soft_wrap=True)
    if len(lines) > most:
        console.print(" " * indent + f"... {plural(len(lines) - most, 'more line')}", style="dim")


def values(value: object) -> Sequence[object]:
    """The items of a list; none of anything else."""
    return value if isinstance(value, list | tuple) else ()


def documents(value: object) -> Iterator[Document]:
    """The documents in a list."""
    return (item for item in values(value) if isinstance(item, Mapping))


def texts(value: object) -> list[str]:
    """The texts in a list, as they are."""
    return [item for item in values(value) if isinstance(item, str)]


def text_of(value: object) -> str:
    """A text, harmless and on one line; empty for anything else."""
    return one_line(value, most=MOST_WIDTH) if isinstance(value, str) else ""


def lines_of(value: object) -> list[str]:
    """Lines of a text that have something in them."""
    return [line for line in plain(value).splitlines() if line.strip()] if isinstance(value, str) else []
