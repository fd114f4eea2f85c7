"""What a module tells of itself, and modules that crash, hang or lie when they are asked."""

from __future__ import annotations

import importlib
import os
import time
import uuid
from pathlib import Path

import pytest

from livetrap.build import Compiler, build, find_compiler, manifest
from livetrap.build.manifest import Document, KernelTold, ParamTold, TechniqueTold, checked
from livetrap.build.module import Built
from livetrap.build.reading import Told
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec
from tests.end_to_end.running import MARK, survivors


def param(name: str | None = "delay", **other: object) -> ParamTold:
    values: dict[str, object] = {"summary": None, "choices": None, "least": 0, "most": 9, "fallback": 3, **other}
    return ParamTold(name=name, **values)  # type: ignore[arg-type]


def kernel(*params: ParamTold, name: str | None = "k") -> Document:
    return Document(kernels=[KernelTold(name=name, summary=None, uses_technique=False, params=list(params))])


def test_what_makes_sense() -> None:
    document = kernel(param(), param("how", choices="one|two", most=1, fallback=1, summary="which"))
    document.techniques.append(TechniqueTold(name="t", summary=None, unavailable="not here"))
    found = checked(document, only="k")
    assert found.kernels["k"].params["how"].choices == ("one", "two")
    assert found.kernels["k"].params["how"].summary == "which"
    assert found.kernels["k"].params["delay"].fallback == 3
    assert found.techniques["t"].unavailable == "not here"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (kernel(name=None), 'the kernel has no name: that of k.c has .name = "k"'),
        (kernel(name=""), "the kernel has no name"),
        (kernel(name="zz"), "the kernel is called 'zz': that of k.c has .name = \"k\""),
        (kernel(param(None)), "parameter 0 has no name"),
        (kernel(param(), param("two words")), "parameter 1 is called 'two words'"),
        (kernel(param("x" * 4000)), "parameter 0 is called 'xxx"),
        (kernel(param(), param()), "parameter 'delay' stands twice"),
        (kernel(param("threads")), "parameter 'threads' has the name of an axis"),
        (kernel(param(fallback=10)), "parameter 'delay': .fallback 10 must be from 0 to 9"),
        (kernel(param(least=10)), "parameter 'delay': .least 10 must not be above .most 9"),
        (kernel(param(choices="a||b", most=2, fallback=0)), ".choices 'a||b' must be different words"),
        (kernel(param(choices="a|a", most=1, fallback=0)), ".choices 'a|a' must be different words"),
    ],
)
def test_what_makes_none(document: Document, message: str) -> None:
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        checked(document, only="k")
    assert message in str(caught.value)


def told(**values: object) -> Told:
    nothing: dict[str, object] = {
        "loaded": True,
        "text": b"",
        "status": 0,
        "signal": 0,
        "late": False,
        "output": "hello",
    }
    return Told(**{**nothing, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (told(signal=11), "dies by SIGSEGV when it is asked for its parameters: .params must have .param_count"),
        (told(signal=11, loaded=False), "dies by SIGSEGV when it is loaded: a kernel does its work in setup"),
        (told(status=7, loaded=False), "ends its process (status 7) when it is loaded"),
        (told(loaded=False), "ends its process (status 0) when it is loaded"),
        (told(late=True), "does not return within 10 s when it is asked"),
        (told(text=b'{"kernels": [}'), "writes into what is not its own"),
        (told(text=b'{"kernels": [{"name": 3}]}'), "writes into what is not its own"),
        (told(text=b'{"error": "no symbol"}', loaded=False), "cannot be loaded (no symbol)"),
        (told(text=b'{"error": "it has 999 parameters"}'), "it has 999 parameters: .params must"),
    ],
)
def test_what_happened_instead(answer: Told, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("livetrap.build.manifest"), "read", lambda *_, **__: answer)
    built = Built(module="m", path=tmp_path / "m.so", command=(), fresh=True, source="/x/k.c")
    with pytest.raises(HarnessError) as caught:
        manifest(built)
    assert str(caught.value).startswith("/x/k.c: the kernel " if "it has" not in message else "/x/k.c: it has")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.status, caught.value.detail) == (2, "hello")
    assert not list(tmp_path.iterdir())


# --- with a compiler -------------------------------------------------------------------------------------------------

KERNEL = """
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void *setup(struct lt_team *team) { (void)team; return NULL; }
static void thread(struct lt_team *team, void *state, uint32_t index) { (void)team, (void)state, (void)index; }
static void finish(struct lt_team *team, void *state) { (void)team, (void)state; }
__attribute__((constructor)) static void constructor(void) { CODE; }
const struct lt_kernel lt_kernel_k = {
    .name = "k", .setup = setup, .thread = thread, .finish = finish, MORE};
"""


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    for name in ("gcc", "clang"):
        found = find_compiler(name)
        if isinstance(found, Compiler):
            return found
    pytest.skip("no compiler")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifest") / "cache"


def made(folder: Path, compiler: Compiler, cache: Path, *, code: str = "", more: str = ".params = NULL") -> Built:
    (folder / "k.c").write_text(KERNEL.replace("CODE", code).replace("MORE", more))
    spec = BuildSpec(compiler=compiler.name, flags=("-O1",), kernel="k", kernel_file=str(folder / "k.c"))
    return build(spec, compiler=compiler, cache=cache)


HOSTILE = [
    ({"more": ".params = NULL, .param_count = 3"}, "dies by SIGSEGV when it is asked"),
    ({"more": ".params = NULL, .param_count = (size_t)-1"}, "parameters, by its .param_count"),
    ({"code": "_exit(7)"}, "ends its process (status 7) when it is loaded"),
    ({"code": "_exit(0)"}, "ends its process (status 0) when it is loaded"),
    ({"code": "exit(3)"}, "ends its process (status 3) when it is loaded"),
    ({"code": "abort()"}, "dies by SIGABRT when it is loaded"),
    ({"code": "raise(SIGKILL)"}, "dies by SIGKILL when it is loaded"),
    ({"code": "signal(SIGALRM, SIG_IGN); for (;;) pause()"}, "does not return within 1 s when it is loaded"),
    ({"code": "if (fork() > 0) _exit(1); setsid(); sleep(60)"}, "ends its process (status 1) when it is loaded"),
    (
        {"code": 'for (int i = 3; i < 99; i++) if (write(i, "nonsense", 8) < 0) continue'},
        "writes into what is not its own",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "message"), HOSTILE, ids=[" ".join(how.values()) for how, _ in HOSTILE])
def test_a_kernel_that_harms_whoever_asks_it(
    how: dict[str, str], message: str, tmp_path: Path, compiler: Compiler, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    built = made(tmp_path, compiler, cache, **how)
    began = time.monotonic()
    with pytest.raises(HarnessError) as caught:
        manifest(built, limit_s=1.0)
    assert time.monotonic() - began < 3
    assert message in str(caught.value)
    assert str(tmp_path / "k.c") in str(caught.value)
    assert not survivors(mark, within_s=0)


@pytest.mark.slow
def test_what_it_prints_is_no_harm(tmp_path: Path, compiler: Compiler, cache: Path) -> None:
    built = made(tmp_path, compiler, cache, code='if (write(1, "{}", 2) + write(2, "{}", 2) < 0) abort()')
    assert set(manifest(built).kernels) == {"k"}
    assert os.listdir(built.path.parent).count("manifest-1.json") == 1  # noqa: PTH208
