"""The spin site: function, file and line of a loop, with its listing."""

from __future__ import annotations

import collections
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from livetrap import tools
from livetrap.evidence.files import readable
from livetrap.model import Frozen, LoopKind, Role, ThreadJudgement
from livetrap.observe import symbols
from livetrap.observe.symbols import Chain, Frame
from livetrap.page import one_line

MOST_SITES = 16
MOST_LINES = 64
"""Of a listing."""
_LINE_CHARACTERS = 200
_LEADING = re.compile(r"\W*(?:0x)?([0-9a-f]{3,16}):")
_SPINNING_FIRST = (Role.SPINNING, Role.UNDECIDED)


class Site(Frozen, kw_only=True):
    """One loop, or one program counter where no loop is known, and who was there."""

    site: str
    """Module + offset of the loop's first instruction, or of the program counter."""
    pid: int
    """A process that has it mapped."""
    role: Role
    threads: int
    loop: LoopKind | None = None
    traits: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    """Program counters there, the most common first."""


def sites_of(threads: Iterable[ThreadJudgement]) -> tuple[Site, ...]:
    """Where the awake threads are, those that spin first, then by how many they are. Pure."""
    groups: dict[tuple[str, Role, LoopKind | None], list[ThreadJudgement]] = {}
    for thread in threads:
        site = thread.loop_site or thread.pc_site
        if site:
            groups.setdefault((site, thread.role, thread.loop), []).append(thread)
    sites = [
        Site(
            site=site,
            pid=group[0].id.pid,
            role=role,
            threads=len(group),
            loop=loop,
            traits=tuple(dict.fromkeys(trait for thread in group for trait in thread.loop_traits)),
            counters=tuple(
                pc for pc, _ in collections.Counter(thread.pc_site for thread in group if thread.pc_site).most_common()
            ),
        )
        for (site, role, loop), group in groups.items()
    ]

    def rank(site: Site) -> tuple[int, int]:
        first = _SPINNING_FIRST.index(site.role) if site.role in _SPINNING_FIRST else len(_SPINNING_FIRST)
        return first, -site.threads

    return tuple(sorted(sites, key=rank)[:MOST_SITES])


def offsets_of(site: str, counters: Sequence[str], listing: Sequence[str]) -> tuple[int, ...]:
    """Offsets in the module of all that is known of a loop: its instructions, or its start and program counters. Pure.

    Lines of a listing begin with the address in memory, the lowest of which is the loop's start.
    """
    module, _, start = site.rpartition("+")
    first = int(start, 16)
    addresses = [int(match[1], 16) for line in listing[:MOST_LINES] if (match := _LEADING.match(line))]
    inside = [first + address - min(addresses) for address in addresses]
    if not inside:
        parts = (pc.rpartition("+") for pc in counters)
        inside = [int(offset, 16) for name, _, offset in parts if name == module]
    return tuple(dict.fromkeys([first, *inside]))


def loop_place(chains: Sequence[Chain]) -> Chain:
    """The place of a loop from those of its instructions. Pure.

    That is the innermost function, inlined or not, which holds them all, at the least of its lines: the `while` comes
    before its body, although a compiler may place it behind. A load that was inlined from the library is not the loop.
    """
    told = [chain[::-1] for chain in chains if chain]
    if not told:
        return ()
    depth = 0
    while all(len(chain) > depth + 1 for chain in told):
        # Held in one function, called at one place: deeper. The next level must be one function, too.
        if len({(chain[depth], chain[depth + 1].function, chain[depth + 1].file) for chain in told}) > 1:
            break
        depth += 1
    here = [chain[depth] for chain in told if (chain[depth].function, chain[depth].file) == _most_common(told, depth)]
    least = min((frame.line for frame in here if frame.line), default=0)
    inner = Frame(function=here[0].function, file=here[0].file, line=least)
    chain = (inner, *told[0][:depth][::-1])
    own = next((at for at, frame in enumerate(chain) if not _is_library(frame)), 0)
    return chain[own:]


def _is_library(frame: Frame) -> bool:
    """Whether it is of the C++ library, whose atomics are inlined into what waits."""
    return "/include/c++/" in frame.file or "/c++/v1/" in frame.file


def _most_common(chains: Sequence[Chain], depth: int) -> tuple[str, str]:
    names = collections.Counter((chain[depth].function, chain[depth].file) for chain in chains)
    return names.most_common(1)[0][0]


def described(
    threads: Iterable[ThreadJudgement],
    *,
    modules: Mapping[str, str],
    listings: Mapping[str, Sequence[str]],
    end: float,
) -> tuple[list[dict[str, object]], list[str]]:
    """The spin sites for a record, and what is missing and why. `end`: until when (time.monotonic)."""
    sites: list[dict[str, object]] = []
    missing: list[str] = []
    for site in sites_of(threads):
        listing = [line[:_LINE_CHARACTERS] for line in map(one_line_of, listings.get(site.site, ())[:MOST_LINES])]
        where, pc_where, why = _where(site, listing, modules, end)
        if why and why not in missing:
            missing.append(why)
        told = {
            "site": one_line(site.site),
            "where": where,
            "threads": site.threads,
            "role": site.role.value,
            "loop": site.loop.value if site.loop else None,
            "traits": list(site.traits),
            "pc_where": pc_where if pc_where != where else None,
            "listing": listing,
        }
        _add(sites, {name: value for name, value in told.items() if name == "where" or value})
    return sites, missing


def _add(sites: list[dict[str, object]], told: dict[str, object]) -> None:
    """Adds a site, or its threads to one of the same function and line: other instructions of one and the same loop."""
    alike = ("where", "role", "loop", "listing")
    for site in sites:
        if site["where"] and all(site.get(name) == told.get(name) for name in alike):
            site["threads"] = sum(int(str(each["threads"])) for each in (site, told))
            return
    sites.append(told)


def one_line_of(line: str) -> str:
    """A line of a listing, its columns kept."""
    return one_line(line.replace("\t", "  ")) if line == line.strip() else "  " + one_line(line)


def _where(
    site: Site, listing: Sequence[str], modules: Mapping[str, str], end: float
) -> tuple[str | None, str | None, str]:
    """The place of the loop, that of the most common program counter, and what is missing."""
    path = modules.get(site.site.rpartition("+")[0], "")
    try:
        offsets = offsets_of(site.site, site.counters, listing)
    except ValueError:
        return None, None, ""
    if not path.startswith("/"):
        return None, None, ""
    if tools.find("addr2line") is None:
        return None, None, "functions and lines: addr2line is not installed (binutils)"
    file = readable(path, pid=site.pid)
    if not file.path:
        return None, None, f"functions and lines: {file.why}"
    left_s = end - time.monotonic()
    if left_s <= 0:
        return None, None, "functions and lines: no time was left"
    chains = symbols.chains(file.path, offsets, deadline_s=left_s)
    place = loop_place(chains)
    why = "" if place and place[0].line else _no_line(path, known=bool(place))
    pc = next((pc for pc in site.counters if pc.rpartition("+")[0] == site.site.rpartition("+")[0]), "")
    at = offsets_of(pc, (), ())[0] if pc else None
    pc_chain = chains[offsets.index(at)] if at in offsets else ()
    if at is not None and at not in offsets and place:
        (pc_chain,) = symbols.chains(file.path, (at,), deadline_s=max(0.0, end - time.monotonic()))
    return symbols.described(place), symbols.described(pc_chain), why


def _no_line(path: str, *, known: bool) -> str:
    name = one_line(PurePath(path).name)
    if known:
        return f"lines: {name} has no debug information there (build it with -g)"
    return f"functions and lines: {name} has neither symbols nor debug information there"
