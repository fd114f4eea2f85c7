"""The failure text of a test that livetrap had to end: verdict and shape first, then what it rests on."""

from __future__ import annotations

import io
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from livetrap.model import HANGS, UNCOUNTED, Verdict
from livetrap.pytest_plugin import Hang, Unfinished
from livetrap.pytest_plugin.observing import Seen
from livetrap.pytest_plugin.settings import Settings
from livetrap.report.evidence import print_sites, print_stacks, print_tail
from livetrap.report.text import console, one_line, seconds
from livetrap.report.trial import print_threads

MOST_LINES = 48
_MACHINERY = (
    "/_pytest/",
    "/pluggy/",
    "/livetrap/pytest_plugin/",
    "/xdist/",
    "/execnet/",
    "/pytest/__main__",
    "<frozen runpy>",
)
_INTERPRETER = "_PyEval_EvalFrameDefault"
_MORE = "@pytest.mark.livetrap(timeout=...) or --livetrap-timeout gives it more"


def failure(seen: Seen, settings: Settings, *, where: str) -> Unfinished:
    """What to raise. `where`: in which process and phase, in words."""
    verdict = seen.judgement.verdict
    raised = (Hang if verdict in HANGS else Unfinished)(_text(seen, settings, where), pytrace=False)
    raised.verdict = verdict.value
    return raised


def headline(seen: Seen) -> str:
    """`livelock (proven), 1 spinning`, in one line."""
    judged = seen.judgement
    if seen.exit is None:
        certainty = f" ({judged.certainty.value})" if judged.verdict in HANGS else ""
        return f"{judged.verdict.value}{certainty}, {judged.shape}"
    if judged.verdict is Verdict.PASSED:
        return f"{Verdict.FAILED.value}: the test ended its process before it was over, with status 0"
    if judged.verdict is Verdict.FAILED:
        return f"{judged.verdict.value}: the test ended its process before it was over, with {judged.reason}"
    return f"{judged.verdict.value}: {one_line(judged.reason)}"


def _text(seen: Seen, settings: Settings, where: str) -> str:
    judged = seen.judgement
    stream = io.StringIO()
    out = console(stream)
    out.print(Text(headline(seen)), soft_wrap=True)
    if seen.exit is None:
        out.print(Text(one_line(judged.reason, most=2000)), soft_wrap=True)
        out.print(Text(f"{where}; nothing went on for {seconds(judged.stall_s)}"), soft_wrap=True)
        if judged.verdict not in HANGS:
            out.print(Text(f"time limit {seconds(settings.timeout_s)}: {_MORE}"), soft_wrap=True)
        if judged.verdict in UNCOUNTED:
            out.print("this says nothing about the test, but that it did not end here")
        if judged.threads:
            print_threads(out, judged.threads, judged.wakeable, modules=seen.modules)
    else:
        out.print(Text(where), soft_wrap=True)
    print_sites(out, seen.evidence)
    _print_python(out, seen)
    print_stacks(out, _without_interpreter(seen.evidence))
    print_tail(out, "the end of its output", seen.output)
    return stream.getvalue().rstrip()


def _print_python(out: Console, seen: Seen) -> None:
    """Python's frames, which say most: by py-spy, or else by Python itself."""
    texts = seen.evidence.get("python_stacks")
    stacks = [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else [seen.dump]
    lines = [line for text in stacks for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not any(part in line for part in (*_MACHINERY, "Extension modules: "))]
    if lines:
        out.print("\nPython stacks, without pytest's own frames")
    for line in lines[:MOST_LINES]:
        indent = " " * (len(line) - len(line.lstrip()))
        out.print(Text(f"  {indent}{one_line(line)}"), soft_wrap=True)


def _without_interpreter(evidence: Mapping[str, object]) -> dict[str, object]:
    """Stacks up to where Python called: what is below is the interpreter, and pytest."""
    stacks = evidence.get("stacks")
    rest = {name: value for name, value in evidence.items() if name != "python_stacks"}
    if isinstance(stacks, list):
        rest["stacks"] = [{**stack, "frames": _native(stack.get("frames"))} for stack in stacks]
    return rest


def _native(frames: object) -> list[str]:
    kept: list[str] = []
    for frame in frames if isinstance(frames, list) else ():
        kept.append(str(frame))
        if _INTERPRETER in kept[-1]:
            break
    return kept
