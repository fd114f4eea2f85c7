"""Loops as compilers make them: each function of waits.c runs on a little machine and is classified at many places."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from livetrap.loops import Found, find_loop
from livetrap.model import LoopKind
from tests.loops.images import Image, built, run

pytest.importorskip("capstone")

SOURCE = Path(__file__).with_name("waits.c")
COMPILERS = {
    "gcc": ("gcc",),
    "clang": ("clang",),
    "arm64": ("aarch64-linux-gnu-gcc",),
    "arm64, atomics": ("aarch64-linux-gnu-gcc", "-march=armv8.2-a+rcpc"),
}
LEVELS = {"gcc": ("-O0", "-O1", "-O2"), "clang": ("-O0", "-O2"), "arm64": ("-O0", "-O2"), "arm64, atomics": ("-O2",)}
_PAUSE, _YIELD, _CAS, _ATOMIC = "pause", "yield", "compare-and-swap", "atomic"
POLLS: dict[str, tuple[set[str], set[str]]] = {
    # name: (symbols of the polled words, traits that must be told)
    "volatile_flag": ({"flag"}, {"plain load"}),
    "hidden_flag": (set(), {"plain load"}),
    "acquire": ({"ready"}, set()),
    "acquire_argument": ({"ready"}, set()),
    "with_pause": ({"ready"}, {_PAUSE}),
    "with_yield": ({"ready"}, {_YIELD}),
    "with_relax": ({"ready"}, {_PAUSE}),
    "with_getter": ({"ready"}, {_PAUSE}),
    "two_words": ({"first_word", "second_word"}, {_PAUSE}),
    "either_word": ({"first_word", "second_word"}, set()),
    "difference": ({"first_word", "second_word", "sequence"}, {_PAUSE}),
    "compare_and_swap": ({"lock_word"}, {_CAS}),
    "compare_and_swap_yield": ({"lock_word"}, {_CAS, _YIELD}),
    "test_test_and_set": ({"lock_word"}, {_ATOMIC, _PAUSE}),
    "backoff": ({"ready"}, {_PAUSE}),
    "spin_then_yield": ({"ready"}, {_PAUSE, _YIELD}),
    "take_or_yield": ({"lock_word"}, {_CAS, _PAUSE, _YIELD}),
    "seen_before": ({"first_word"}, {_PAUSE}),
    "entered_twice": ({"ready"}, {_PAUSE}),
    "yield_now_and_then": ({"ready"}, {_PAUSE, _YIELD}),
    "counted_in_memory": ({"ready"}, set()),
    "sequence_reader": ({"sequence"}, {_PAUSE}),
}
ENDLESS = ("forever", "forever_counting")
COMPUTE = (
    "counting",
    "counting_register",
    "bounded_spin",
    "chase",
    "hash",
    "sets_its_flag",
    "work_until_told",
    "adds_to_what_it_polls",
    "length",
    "tells_by_count",
)
UNKNOWN = (
    "calls_what_writes",
    "steps",
    "steps_for_ever",
    "timed",
    "sums_until_told",
    "writes_until_told",
    "relays",
    "through_pointer",
)
_WARM, _STEPS, _EVERY = 140, 184, 11


@dataclasses.dataclass(frozen=True)
class Made:
    """waits.c by one compiler at one level."""

    name: str
    level: str
    path: Path

    def image(self, function: str) -> Image:
        image = built(self.path)
        words = {"lock_word": 1, "second_word": 0 if function == "two_words" else 5, "sequence": 1}
        if function == "difference":
            words |= {"sequence": 2}
        for symbol, value in words.items():
            image.write(image.symbols[symbol][0], 4, value)
        nodes, table = image.symbols["nodes"][0], image.symbols["table"][0]
        for at in range(4):
            image.write(nodes + 8 * at, 8, nodes + 8 * ((at + 1) % 4))
        if function == "length":
            for at in range(64):
                image.write(table + 8 * at, 8, 0x4141414141414141)
        return image

    def found(self, function: str) -> Iterator[Found]:
        """What is found at some places of its loop."""
        image = self.image(function)
        pointed = {"plain_argument": "flag", "acquire_argument": "ready", "chase": "nodes"}
        argument = image.symbols[pointed.get(function, "table")][0]
        start = image.symbols[function][0]
        for at, registers in enumerate(run(image, start, arguments=(argument,), steps=_STEPS)):
            if at >= _WARM and at % _EVERY == 0:
                yield find_loop(registers, image.read, entry_of=image.entry_of)


@pytest.fixture(scope="module", params=[f"{name} {level}" for name in COMPILERS for level in LEVELS[name]])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    name, level = request.param.rsplit(" ", 1)
    command = COMPILERS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    output = tmp_path_factory.mktemp("waits") / "waits.so"
    flags = (level, "-g0", "-shared", "-fPIC", "-w", "-o", str(output))
    done = subprocess.run([*command, *flags, str(SOURCE)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} cannot build it: {done.stderr[-200:]}")
    image = built(output)
    if image.arch not in {"x86_64", "arm64"}:
        pytest.skip("another architecture")
    return Made(name, level, output)


def _kinds(found: Iterator[Found]) -> Counter[tuple[LoopKind, str]]:
    return Counter((each.kind, each.why) for each in found)


@pytest.mark.slow
def test_polls_are_polls(made: Made) -> None:
    for function, (words, traits) in POLLS.items():
        image = made.image(function)
        addresses = {image.symbols[word][0] for word in words}
        everywhere = list(made.found(function))
        assert len({found.frame for found in everywhere}) == 1, function
        for found in everywhere:
            assert found.kind is LoopKind.POLL, (function, found)
            assert traits <= set(found.traits), (function, found.traits)
            assert addresses <= {address for address, _ in found.polled}, (function, found.polled)


@pytest.mark.slow
def test_endless_compute_and_unknown(made: Made) -> None:
    for functions, kind in ((ENDLESS, LoopKind.ENDLESS), (COMPUTE, LoopKind.COMPUTE), (UNKNOWN, LoopKind.UNKNOWN)):
        for function in functions:
            assert {kind} == {found.kind for found in made.found(function)}, (function, _kinds(made.found(function)))


@pytest.mark.slow
@pytest.mark.parametrize("function", ["plain", "plain_argument"])
def test_a_plain_flag(made: Made, function: str) -> None:
    if made.name == "clang" and made.level in {"-O2", "-O3"}:
        pytest.skip("the loop is deleted")
    wanted = LoopKind.POLL if made.level == "-O0" else LoopKind.ENDLESS
    assert {wanted} == {found.kind for found in made.found(function)}


@pytest.mark.slow
def test_what_works_between_its_polls_is_no_poll(made: Made) -> None:
    for function in ("gives_up", "sums_again", "searches_again"):
        assert {found.kind for found in made.found(function)} <= {LoopKind.COMPUTE, LoopKind.UNKNOWN}, function


@pytest.mark.slow
def test_a_division_may_fault(made: Made) -> None:
    """On arm64 it never does."""
    wanted = LoopKind.UNKNOWN if made.image("divides").arch == "x86_64" else LoopKind.ENDLESS
    assert {wanted} == {found.kind for found in made.found("divides")}, _kinds(made.found("divides"))


@pytest.mark.slow
def test_what_was_read_before_leads_out_later(made: Made) -> None:
    """Memory as it is now would keep the thread, but it holds what memory was."""
    image = made.image("seen_before")
    image.write(image.symbols["first_word"][0], 4, 1)
    places = list(run(image, image.symbols["seen_before"][0], steps=_STEPS))[_WARM:]
    image.write(image.symbols["first_word"][0], 4, 0)
    for registers in places[::_EVERY]:
        assert find_loop(registers, image.read, entry_of=image.entry_of).kind is not LoopKind.POLL


@pytest.mark.slow
def test_a_thread_that_serves_others_is_in_no_endless_loop(made: Made) -> None:
    assert LoopKind.ENDLESS not in {found.kind for found in made.found("serves")}


@pytest.mark.slow
@pytest.mark.parametrize("function", ["acquire", "two_words", "either_word", "backoff", "compare_and_swap"])
def test_a_word_that_has_come_is_no_poll(made: Made, function: str) -> None:
    """The thread has not yet seen it, and will."""
    image = made.image(function)
    places = list(run(image, image.symbols[function][0], steps=_STEPS))[_WARM:]
    for symbol, value in (("ready", 1), ("first_word", 7), ("lock_word", 0)):
        image.write(image.symbols[symbol][0], 4, value)
    for registers in places[::15]:
        found = find_loop(registers, image.read, entry_of=image.entry_of)
        assert found.kind in {LoopKind.UNKNOWN, LoopKind.COMPUTE}, (function, found)
