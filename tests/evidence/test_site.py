"""Loops as function, file and line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from livetrap import tools
from livetrap.evidence import site
from livetrap.evidence.site import _add, loop_place, offsets_of, sites_of
from livetrap.model import LoopKind, Role, ThreadId, ThreadJudgement
from livetrap.observe.symbols import Chain, Frame


def thread(
    tid: int, *, role: Role = Role.SPINNING, pc: str = "", loop: str = "", kind: LoopKind | None = None
) -> ThreadJudgement:
    return ThreadJudgement(
        id=ThreadId(1, tid), role=role, pc_site=pc, loop_site=loop, loop=kind, loop_traits=("pause",)
    )


def chain(*frames: tuple[str, int]) -> Chain:
    """Innermost first, each function in a file of its own name."""
    return tuple(Frame(function=function, file=f"{function}.c", line=line) for function, line in frames)


def test_threads_in_one_loop_are_one_site_and_spinners_come_first() -> None:
    found = sites_of(
        (
            thread(1, role=Role.COMPUTING, pc="b+0x1"),
            thread(2, role=Role.COMPUTING, pc="b+0x1"),
            thread(3, role=Role.COMPUTING, pc="b+0x1"),
            thread(4, pc="a+0x14", loop="a+0x10", kind=LoopKind.POLL),
            thread(5, pc="a+0x18", loop="a+0x10", kind=LoopKind.POLL),
            thread(6, pc="a+0x18", loop="a+0x10", kind=LoopKind.POLL),
            thread(7, role=Role.PARKED),
        )
    )
    assert [(one.site, one.role, one.threads, one.loop) for one in found] == [
        ("a+0x10", Role.SPINNING, 3, LoopKind.POLL),
        ("b+0x1", Role.COMPUTING, 3, None),
    ]
    assert found[0].counters == ("a+0x18", "a+0x14")
    assert found[0].traits == ("pause",)


@pytest.mark.parametrize(
    ("listing", "counters", "offsets"),
    [
        ((), (), (0x40,)),
        ((), ("a+0x44", "b+0x50", "a+0x40"), (0x40, 0x44)),
        (
            ("0x7f0040: mov eax, [rdi]", "* 0x7f0042: test eax, eax", "no address", "7f0044: je 0x7f0040"),
            ("a+0x44",),
            (0x40, 0x42, 0x44),
        ),
    ],
)
def test_offsets_of_a_loop(listing: tuple[str, ...], counters: tuple[str, ...], offsets: tuple[int, ...]) -> None:
    assert offsets_of("a+0x40", counters, listing) == offsets


@pytest.mark.parametrize(
    ("chains", "place"),
    [
        ((), ()),
        (((), ()), ()),
        # A jump to itself.
        ((chain(("wait", 7)),), chain(("wait", 7))),
        # The body first, then the condition.
        ((chain(("wait", 8)), chain(("wait", 7)), chain(("wait", 0))), chain(("wait", 7))),
        # A load that was inlined is not the loop, but a loop that was inlined is.
        ((chain(("load", 500), ("wait", 7)), chain(("wait", 8))), chain(("wait", 7))),
        ((chain(("wait", 8), ("run", 3)), chain(("wait", 7), ("run", 3)), ()), chain(("wait", 7), ("run", 3))),
        # The same function, inlined twice, side by side.
        ((chain(("get", 1), ("wait", 8)), chain(("get", 1), ("wait", 7))), chain(("wait", 7))),
    ],
)
def test_the_place_of_a_loop(chains: tuple[Chain, ...], place: Chain) -> None:
    assert loop_place(chains) == place


def test_the_library_is_not_the_place() -> None:
    load = Frame(function="std::atomic<int>::load", file="/usr/include/c++/12/atomic", line=5)
    assert loop_place([(load, *chain(("wait", 7)))]) == chain(("wait", 7))
    assert loop_place([(load,)]) == (load,)


def test_what_cannot_be_named_is_told_as_module_and_offset(tmp_path: Path) -> None:
    end = time.monotonic() + 5
    path = tmp_path / "odd\nname"
    threads = (thread(1, pc="m+0x10"), thread(2, pc="m+0xzz"), thread(3, pc="[vdso]+0x5"), thread(4, pc="x"))
    sites, missing = site.described(threads, modules={"m": str(path)}, listings={}, end=end)
    assert [one["site"] for one in sites] == ["m+0x10", "m+0xzz", "[vdso]+0x5", "x"]
    assert {one["where"] for one in sites} == {None}
    assert len(missing) == 1
    assert "\n" not in missing[0]


def test_without_addr2line_or_time_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"python": "/proc/self/exe"}
    _, missing = site.described((thread(1, pc="python+0x10"),), modules=modules, listings={}, end=0.0)
    assert missing == [missing[0]]
    monkeypatch.setattr(tools, "find", lambda _: None)
    _, missing = site.described((thread(1, pc="python+0x10"),), modules=modules, listings={}, end=0.0)
    assert missing == ["functions and lines: addr2line is not installed (binutils)"]


def test_a_listing_is_bounded_and_harmless() -> None:
    listings = {"a+0x10": [f"0x{0x1000 + at:x}:\tmov\x1b[31m " + "x" * 999 for at in range(500)]}
    (told,), _ = site.described((thread(1, loop="a+0x10"),), modules={}, listings=listings, end=0.0)
    lines = told["listing"]
    assert isinstance(lines, list)
    assert len(lines) == site.MOST_LINES
    assert max(map(len, lines)) <= 200
    assert "\x1b" not in "".join(lines)


def test_two_instructions_of_one_line_are_one_site() -> None:
    sites: list[dict[str, object]] = []
    for at, where in (("a+0x1", "f at a.c:3"), ("a+0x2", "f at a.c:3"), ("a+0x9", "g at a.c:7"), ("a+0xb", None)):
        _add(sites, {"site": at, "where": where, "threads": 2, "role": "spinning"})
    assert [(each["site"], each["threads"]) for each in sites] == [("a+0x1", 4), ("a+0x9", 2), ("a+0xb", 2)]
