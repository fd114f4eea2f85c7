"""What is checked before anything is built, and when a build is told of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from livetrap import build, preparing
from livetrap.build import Built, Compiler
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec, KernelInfo, Manifest, ParamInfo
from livetrap.narrowing import Options
from livetrap.scenario import parse
from livetrap.scenario_model import Scenario
from tests.test_topology import VM, read

GCC = Compiler(name="gcc", family="gcc", path="/usr/bin/gcc", version="gcc 12.2.0")
TOLD = Manifest(
    kernels={
        "flag_handoff": KernelInfo(
            name="flag_handoff", params={"body": ParamInfo(name="body", choices=("empty", "yield"), most=1)}
        )
    }
)
TEXT = """
schema = 1
name = "spin"
summary = "x"
[target]
kernel = "flag_handoff"
[axes]
flags = ["-O1", "-O2"]
compiler = ["gcc"]
body = ["empty"]
[variants.buggy]
role = "buggy"
"""


class Pretence:
    """Stands in for `livetrap.build`: these modules are in the cache, and those of them were asked before."""

    check_flags = staticmethod(build.check_flags)
    may_use_technique = staticmethod(build.may_use_technique)

    Compiler: object = build.Compiler

    def __init__(self, *, cached: tuple[str, ...] = (), asked: bool = True) -> None:
        self.cached = set(cached)
        self.asked = asked
        self.loaded: list[Built] = []

    def installed_compilers(self) -> dict[str, object]:
        return {"gcc": GCC}

    def find_compiler(self, name: str) -> object:
        return SimpleNamespace(reason=f"no {name}")

    def find(self, spec: BuildSpec, **_: object) -> Built | None:
        return self._built(spec) if " ".join(spec.flags) in self.cached else None

    def build(self, spec: BuildSpec, *, starting: Callable[[], None], **_: object) -> Built:
        if " ".join(spec.flags) not in self.cached:
            starting()
            self.cached.add(" ".join(spec.flags))
        return self._built(spec)

    def lacking_lto(self, compiler: build.Compiler, flags: tuple[str, ...]) -> str:
        return f"{compiler.name} cannot" if "-flto" in flags else ""

    def kept_manifest(self, _: Built) -> Manifest | None:
        return TOLD if self.asked else None

    def manifest(self, built: Built) -> Manifest:
        self.loaded.append(built)
        return TOLD

    def _built(self, spec: BuildSpec) -> Built:
        return Built(module=" ".join(spec.flags), path=Path("/m.so"), command=(), fresh=False)


def scenario(text: str = TEXT) -> Scenario:
    return parse(text, path="s.toml", folder="f", kernels=["flag_handoff", "barrier_rounds"], techniques=["raw_spin"])


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Prepares a campaign; gives what was told, or that and the message of the error."""

    def prepared(pretence: Pretence, text: str = TEXT, **options: object) -> list[str]:
        monkeypatch.setattr(preparing, "build", pretence)
        monkeypatch.setattr("livetrap.host.topology", lambda: read(VM))
        notes: list[str] = []
        try:
            preparing.prepare(
                scenario(text),
                options=Options(**options),  # type: ignore[arg-type]
                cache=Path("/cache"),
                seed=1,
                note=notes.append,
            )
        except HarnessError as error:
            notes.append(str(error))
        return notes

    return prepared


def test_a_build_is_told_of_once_and_only_when_there_is_one(prepare: Callable[..., list[str]]) -> None:
    pretence = Pretence()
    both = ["building flag_handoff with gcc -O1", "building flag_handoff with gcc -O2"]
    assert prepare(pretence) == both
    assert prepare(pretence) == []
    assert len(pretence.loaded) == 1  # the second time it had been asked
    assert prepare(Pretence(cached=("-O2",))) == both[:1]


def test_what_cannot_be_linked_is_skipped_and_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "build", Pretence())
    monkeypatch.setattr("livetrap.host.topology", lambda: read(VM))
    text = TEXT.replace("-O2", "-O2 -flto")
    found = preparing.prepare(scenario(text), options=Options(), cache=Path("/cache"), seed=1)
    lto = {trial.skip for trial in found.plan.trials if "-flto" in str(trial.cell["flags"])}
    assert lto == {"gcc cannot"}
    assert {trial.skip for trial in found.plan.trials if "-flto" not in str(trial.cell["flags"])} == {""}
    assert all("-flto" not in spec.flags for spec in found.builds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variants": ("buggyy",)}, "unknown variant 'buggyy'; did you mean 'buggy'"),
        ({"technique": ("raw_spinn",)}, "--technique unknown technique"),
        ({"technique": ("raw_spin",)}, "kernel flag_handoff waits in its own way; it has no technique"),
        ({"placement": ("nowhere",)}, "--placement"),
        ({"threads": (0,)}, "--threads 0"),
        ({"flags": ("-O2 -Xq",)}, "--flags: '-Xq' is not for compiling"),
        ({"flags": ("-O2 -Wl,-zfoo",)}, "--flags: '-Wl,-zfoo' cannot be used"),
        ({"axes": {"align": ("spni",)}}, "unknown alignment 'spni'"),
        ({"trials": 100_000}, "more than 100000 trials"),
    ],
)
def test_nothing_is_built_for_options_that_are_wrong(
    options: dict[str, object], message: str, prepare: Callable[..., list[str]]
) -> None:
    (told,) = prepare(Pretence(), **options)
    assert message in told


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"boddy": ("empty",)}, "unknown axis 'boddy'; did you mean 'body'"),
        ({"body": ("emty",)}, "body: unknown value 'emty'"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("-O3",)])
def test_nor_for_parameters_where_the_kernel_is_known(
    flags: tuple[str, ...], axes: dict[str, tuple[str, ...]], message: str, prepare: Callable[..., list[str]]
) -> None:
    (told,) = prepare(Pretence(cached=("-O1",)), axes=axes, flags=flags)
    assert message in told
    built, told = prepare(Pretence(), axes=axes, flags=flags)
    assert built.startswith("building flag_handoff with gcc")
    assert message in told


def test_flags_of_the_scenario_are_checked_too(prepare: Callable[..., list[str]]) -> None:
    (told,) = prepare(Pretence(), TEXT.replace("-O2", "-O2 -Xq"))
    assert told.startswith("s.toml: flags: '-Xq'")
