"""What all pages of ours have in common: one look, one file that needs nothing beside it, and no script at all."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from livetrap.report.html.markup import Markup, el, escaped, join
from livetrap.report.place import check_target

GENERATOR = '<meta name="generator" content="livetrap '
"""What a page of ours has near its beginning, and nothing else."""

MANY = 5
"""Tables with more columns keep some width, and scroll where there is none."""
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --faint: #595959; --line: #d5d5d5; --tint: #f4f4f2;
  --link: #0b57a4; --good: #17672f; --bad: #a8122a; --other: #7a5200; --cpu: #b3261e; --wait: #8a6d00; --beat: #14681f;
  --asleep: #dbe4f0; --stall: #f6d9d5 }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --ink: #e8e6e3; --faint: #a9a7a3; --line: #3d4147;
  --tint: #202328; --link: #8ec1ff; --good: #7fd498; --bad: #ff8f8f; --other: #e6bb62; --cpu: #ff7b6e; --wait: #d9b53f;
  --beat: #7fd498; --asleep: #2b3648; --stall: #47282a } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1rem; color: var(--ink);
  background: var(--paper); overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25 } h2 { font-size: 1.3rem; margin-top: 2.5rem } h3 { font-size: 1.08rem }
h4 { font-size: 1rem; margin: 1rem 0 .3rem }
a { color: var(--link) }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--faint); font-size: .9rem; padding-bottom: .3rem }
th, td { text-align: left; vertical-align: top; padding: .2rem 1.2rem .2rem 0; unicode-bidi: isolate }
thead th { border-bottom: 1px solid var(--faint); font-weight: 600 }
tbody th { font-weight: 400 }
tr.first > * { border-top: 1px solid var(--line) }
tr.faint { color: var(--faint) }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 4px; padding: .5rem .7rem;
  overflow-x: auto; font: .85rem/1.4 ui-monospace, monospace; unicode-bidi: isolate; margin: .3rem 0 }
pre.command { white-space: pre-wrap; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; margin: .5rem 0 }
dt { color: var(--faint) } dd { margin: 0; overflow-wrap: anywhere; unicode-bidi: isolate }
.wide { overflow-x: auto; max-width: 100%; margin: .6rem 0 }
.small { color: var(--faint); font-size: .9rem }
.good { color: var(--good) } .bad { color: var(--bad) } .other { color: var(--other) } .dim { color: var(--faint) }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
summary { cursor: pointer; padding: .2rem 0 }
svg { max-width: 100%; height: auto }
table.tight td:not(:last-child) { white-space: nowrap }
table.many { min-width: 46rem }
@media (max-width: 40rem) { body { font-size: 15px; padding: .7rem } th, td { padding-right: .8rem }
  dl { grid-template-columns: minmax(5rem, 28%) minmax(0, 1fr); gap: .1rem .6rem } }
"""


def check_html(target: str, *, option: str = "--html") -> None:
    """Raises HarnessError where a page could not be written to `target`, or would replace what is no page of ours."""
    check_target(target, option=option, example="report.html", what="page", generator=GENERATOR)


def frame(title: str, *, by: str, body: Sequence[str], style: str = "", styled_inside: bool = False) -> str:
    """A whole page. `by`: the command that made it, such as `report`; `style`: what it has beside the common style.

    `styled_inside`: elements in it have styles of their own, as those of a plotting library do. Nothing but styles is
    ever allowed to the page, so that no text of a target's could do anything in it, even if one were not escaped.
    """
    style = STYLE + style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    allowed = "'unsafe-inline'" if styled_inside else f"'sha256-{digest}'"
    policy = f"default-src 'none'; style-src {allowed}; base-uri 'none'; form-action 'none'"
    head = [
        Markup('<meta charset="utf-8">'),
        Markup(f'{GENERATOR}{escaped(by)}">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        el("title", title),
        Markup(f"<style>{style}</style>"),
    ]
    page = el("html", el("head", head), "\n", el("body", el("main", (join([one, "\n"]) for one in body))), lang="en")
    return f"<!doctype html>\n{page}\n"


def table(
    head: Sequence[str], rows: Sequence[Markup], *, caption: str, scroll: bool = True, class_: str | None = None
) -> Markup:
    """A table with a caption, in a box that scrolls sideways, also by keyboard, where the screen is narrower."""
    made = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", (el("th", name, scope="col") for name in head))),
        el("tbody", (join([row, "\n"]) for row in rows)),
        class_=class_ or ("many" if len(head) > MANY else None),
    )
    return scrolled(made, label=caption) if scroll else made


def row(values: Sequence[str], *, class_: str | None = None) -> Markup:
    """A row whose first value is its head."""
    first, *others = values
    return el("tr", el("th", first, scope="row"), (el("td", value) for value in others), class_=class_)


def scrolled(inside: Markup, *, label: str) -> Markup:
    """A box that scrolls sideways, for what may be wider than the screen."""
    return el("div", inside, class_="wide", tabindex=0, role="region", aria_label=label)


def pairs(values: dict[str, str]) -> Markup:
    """Names and values, those without a value left out."""
    return el("dl", (join([el("dt", name), el("dd", value)]) for name, value in values.items() if value))
