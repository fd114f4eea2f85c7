"""Flags, keys, the cache folder, and modules as they are built."""

from __future__ import annotations

import importlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from livetrap.build import (
    Built,
    Compiler,
    build,
    check_cache,
    check_flags,
    default_cache,
    find,
    find_compiler,
    kept_manifest,
    lacking_lto,
    manifest,
)
from livetrap.build.cache import Cache, key
from livetrap.build.compilers import environment, family_of
from livetrap.build.module import Runner
from livetrap.build.sources import Unit, declarations, headers, kernel_files, kernel_parts, object_key, registry, units
from livetrap.errors import HarnessError
from livetrap.model import BuildSpec, NotAvailable
from livetrap.resources import csrc_dir, kernel_names, scenarios_dir, technique_names
from livetrap.targets.loading import load_module

GCC = Compiler(name="gcc", family="gcc", path="/usr/bin/gcc", version="gcc 12.2.0")


def spec(*flags: str, kernel: str = "flag_handoff", file: Path | None = None) -> BuildSpec:
    return BuildSpec(compiler="gcc", flags=flags or ("-O1",), kernel=kernel, kernel_file=str(file or ""))


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (("-O2",), "-O2"),
        (("-O0", "-g", "-O3"), "-O3"),
        (("-march=native", "-O"), "-O"),
        (("-Ofast", "-fno-inline", "-DNAME=1", "-UNAME", "-Wno-all", "-std=gnu17", "-flto"), "-Ofast"),
        (("-Os", "-fsanitize=undefined"), "-Os"),
    ],
)
def test_flags_that_change_the_code(flags: tuple[str, ...], level: str) -> None:
    assert check_flags(flags) == level


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "",
            "-",
            "O2",
            "@file",
            "-o",
            "-oout",
            "-c",
            "-S",
            "-E",
            "-shared",
            "-static",
            "-r",
            "-x",
            "-M",
            "-MD",
            "--help",
        ),
        *("-Wl,-o,x", "-Wp,-MD", "-Wa,x", "-Xlinker", "-fsyntax-only", "-fplugin=x.so", "-fsanitize=thread", "-m32"),
        *("-fsanitize=undefined,address", "-fno-PIC", "-O9x", "-I/tmp", "-lm", "-T", "-wrapper", "-O2 -c", "-D\n"),
        *("-include", "-save-temps", "-specs=x", "-B/tmp", "-v", "-###", "-fdump-tree-all"),
    ],
)
def test_flags_that_would_break_the_build(flag: str) -> None:
    with pytest.raises(HarnessError) as caught:
        check_flags(("-O2", flag))
    assert caught.value.status == 2
    assert repr(flag) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("flags", [(), ("-g",), ("-march=native",)])
def test_the_level_is_explicit(flags: tuple[str, ...]) -> None:
    with pytest.raises(HarnessError, match="no optimisation level"):
        check_flags(flags)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("gcc (Debian 12.2.0-14) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.", "gcc"),
        ("cc (Ubuntu 13.2) 13.2\nCopyright (C) 2023 Free Software Foundation, Inc.", "gcc"),
        ("Debian clang version 14.0.6", "clang"),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)\nTarget: arm64-apple-darwin23", "clang"),
        ("tcc version 0.9.27", None),
        ("", None),
    ],
)
def test_family(text: str, family: str | None) -> None:
    assert family_of(text) == family


def test_no_such_compiler() -> None:
    found = find_compiler("no-such-compiler")
    assert isinstance(found, NotAvailable)
    assert "no-such-compiler" in found.reason
    assert "install" in found.reason


def test_compilers_get_nothing_that_changes_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CFLAGS", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LD_PRELOAD"):
        monkeypatch.setenv(name, "/nowhere")
    assert "/nowhere" not in environment().values()


def test_default_cache() -> None:
    assert default_cache({"LIVETRAP_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert default_cache({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/livetrap")
    assert default_cache({"LIVETRAP_CACHE": "", "HOME": "/c"}) == Path("/c/.cache/livetrap")


def test_key_tells_all_parts_apart() -> None:
    seen = {
        key(parts)
        for parts in ({"a": "bc"}, {"ab": "c"}, {"a": "b", "c": ""}, {"a": "bc", "": ""}, {}, {"a": "\udcff"})
    }
    assert len(seen) == 6
    assert key({"a": "1", "b": "2"}) == key({"b": "2", "a": "1"})


def test_object_key_moves_with_everything_that_matters() -> None:
    unit = Unit(name="kernel_x", source=Path("x.c"), text="", flags=("-O2",))
    wrapper = Unit(name="wrapper", source=None, text="", flags=("-O2",))
    newer = Compiler(name="gcc", family="gcc", path="/usr/bin/gcc", version="gcc 13.0.0")
    other = Compiler(name="gcc", family="gcc", path="/opt/gcc", version="gcc 12.2.0")
    changed = Unit(name="kernel_x", source=Path("x.c"), text="", flags=("-O3",))
    keys = [
        object_key(unit, content="int x;", compiler=GCC, headers_key="h"),
        object_key(changed, content="int x;", compiler=GCC, headers_key="h"),
        object_key(wrapper, content="int x;", compiler=GCC, headers_key="h"),
        object_key(unit, content="int y;", compiler=GCC, headers_key="h"),
        object_key(unit, content="int x;", compiler=newer, headers_key="h"),
        object_key(unit, content="int x;", compiler=other, headers_key="h"),
        object_key(unit, content="int x;", compiler=GCC, headers_key="i"),
    ]
    assert len(set(keys)) == len(keys)
    assert keys[0] == object_key(unit, content="int x;", compiler=GCC, headers_key="h")


def test_headers_key_moves_with_any_header(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("1")
    before = headers(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.h").write_text("")
    assert headers(tmp_path) != before


def test_registry() -> None:
    text = registry(["one"], [])
    assert "extern const struct lt_kernel lt_kernel_one;" in text
    assert "lt_kernels[] = {&lt_kernel_one};" in text
    assert "lt_kernels_total = 1;" in text
    assert "lt_techniques[] = {NULL};" in text
    assert "lt_techniques_total = 0;" in text


def test_declarations_are_plain() -> None:
    text = declarations(csrc_dir())
    assert "lt_trial_run" in text
    assert "lt_child_start" in text
    assert not any(line.startswith("#") for line in text.splitlines())


def test_flags_reach_kernels_and_techniques_only() -> None:
    found = {unit.name: unit for unit in units(spec("-O3", "-DMINE", kernel="barrier_rounds"), csrc_dir())}
    assert {name for name, unit in found.items() if "-DMINE" in unit.flags} == {
        "kernel_barrier_rounds",
        *(f"technique_{name}" for name in technique_names()),
    }
    assert all("-O2" in unit.flags for name, unit in found.items() if not name.startswith(("kernel_", "technique_")))


def test_resources() -> None:
    assert "flag_handoff" in kernel_names()
    assert "raw_spin" in technique_names()
    assert scenarios_dir().is_dir()


def test_unknown_kernel_and_file(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="did you mean 'flag_handoff'"):
        kernel_files(spec(kernel="flag_handof"), csrc_dir())
    with pytest.raises(HarnessError, match="there is no file"):
        kernel_files(spec(kernel="mine", file=tmp_path / "mine.c"), csrc_dir())
    for name in ("other.c", "mi-ne.c", "mine.cc"):
        (tmp_path / name).touch()
        with pytest.raises(HarnessError, match=r"must be called NAME\.c"):
            kernel_files(spec(kernel="mine", file=tmp_path / name), csrc_dir())


def test_a_kernel_may_have_parts(tmp_path: Path) -> None:
    """NAME.PART.c beside NAME.c is compiled as that one is, after it; those of others are not."""
    for name in ("mine.c", "mine.two.c", "mine.one.c", "mine.one.h", "mined.c", "mined.one.c", "other.mine.c"):
        (tmp_path / name).touch()
    assert [path.name for path in kernel_parts(tmp_path / "mine.c")] == ["mine.one.c", "mine.two.c"]
    compiled = units(spec("-O1", "-flto", kernel="mine", file=tmp_path / "mine.c"), csrc_dir())
    ours = [unit for unit in compiled if unit.name.startswith("kernel_")]
    assert [unit.name for unit in ours] == ["kernel_mine", "kernel_mine.one", "kernel_mine.two"]
    assert all(unit.own and "-flto" in unit.flags for unit in ours)
    registered = next(unit.text for unit in compiled if unit.name == "registry")
    assert "lt_kernels_total = 1;" in registered


def test_shipped_parts_are_no_kernels() -> None:
    assert (csrc_dir() / "kernels" / "flag_handoff.getter.c").is_file()
    assert all("." not in name for name in kernel_names())


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-fno-lto"), ("-O2", "-flto-partition=none")])
def test_without_lto_no_linker_is_asked(flags: tuple[str, ...]) -> None:
    assert lacking_lto(Compiler(name="gcc", family="gcc", path="/nowhere/gcc", version="none"), flags) == ""


@pytest.mark.parametrize("status", [0, 1])
def test_a_compiler_that_cannot_link_with_lto(tmp_path: Path, status: int) -> None:
    script = tmp_path / "gcc"
    script.write_text(f"#!/bin/sh\nexit {status}\n")
    script.chmod(0o755)
    found = lacking_lto(Compiler(name="gcc", family="gcc", path=str(script), version=str(status)), ("-O2", "-flto"))
    assert found.startswith("gcc cannot link with -flto here: ") == (status == 1)


def test_cache_is_ours_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "cache")
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o700
    Cache(cache.path)  # and again
    (tmp_path / "link").symlink_to(cache.path)
    cases = [(tmp_path / "link", "symbolic link")]
    (tmp_path / "file").touch()
    cases.append((tmp_path / "file", "not a folder"))
    cases.append((tmp_path / "file" / "below", "a folder above it is a file"))
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o750)
    cases.append((tmp_path / "open", "chmod 700"))
    for path, words in cases:
        with pytest.raises(HarnessError, match=words) as caught:
            Cache(path)
        assert caught.value.status == 2
        assert "LIVETRAP_CACHE" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_cache_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    os.chown(tmp_path / "cache", 12345, -1)
    with pytest.raises(HarnessError, match="belongs to another user"):
        Cache(tmp_path / "cache")


def test_workshops_go_and_stale_ones_too(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    with cache.workshop() as killed, cache.workshop() as young:
        os.utime(killed, (time.time() - 7200,) * 2)
        with cache.workshop() as workshop:
            assert workshop.is_dir()
            assert not killed.exists()
            assert young.exists()
    assert not workshop.exists()


def test_module_made_twice_at_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for text in ("first", "second"):
        with cache.workshop() as workshop:
            made = workshop / "module"
            made.mkdir()
            (made / "file").write_text(text)
            assert (cache.keep_module(made, "k", "file") / "file").read_text() == "first"


def test_a_damaged_module_is_not_whole(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert not cache.whole("k", "file")
    with cache.workshop() as workshop:
        (workshop / "module").mkdir()
        (workshop / "module" / "file").write_bytes(b"code")
        place = cache.keep_module(workshop / "module", "k", "file")
    assert cache.whole("k", "file")
    for damaged in (b"cod", b"codf", b""):
        (place / "file").write_bytes(damaged)
        assert not cache.whole("k", "file")
    (place / "file").unlink()
    assert not cache.whole("k", "file")


def test_check_cache_is_what_a_build_would_say(tmp_path: Path) -> None:
    check_cache(tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("tmp-*"))
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="not a folder"):
        check_cache(tmp_path / "file")


def test_temporary_files_of_a_compiler_are_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unit = Unit(name="kernel_x", source=Path("x.c"), text="", flags=("-O2",))
    keys = set()
    for folder in ("/one", "/other"):
        monkeypatch.setenv("TMPDIR", folder)
        assert "TMPDIR" not in environment()
        keys.add(object_key(unit, content="int x;", compiler=GCC, headers_key="h"))
    assert len(keys) == 1
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\necho "$TMPDIR"\n')
    script.chmod(0o755)
    assert Runner(tmp_path / "private").run((str(script),)) == (f"{tmp_path / 'private'}\n", "")


def test_no_compiler_starts_after_the_end(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.end_all()
    with pytest.raises(HarnessError, match="ended"):
        runner.run((sys.executable, "--version"))


# --- with a compiler --------------------------------------------------------------------------------------------------

OWN = """
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include "own.h"
static int nothing;
static void *setup(struct lt_team *team) { (void)team; return &nothing; }
static void thread(struct lt_team *team, void *state, uint32_t index) {
    int unused;
    (void)team, (void)state, (void)index;
}
static const struct lt_param params[] = {{"how", "choice", "one|two", 0, 0, 1}, {"much", "number", NULL, -5, 9, 3}};
const struct lt_kernel lt_kernel_own = {
    .name = "own", .summary = SUMMARY, .params = params, .param_count = 2, .setup = setup, .thread = thread};
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
    return tmp_path_factory.mktemp("build") / "cache"


def own(folder: Path, summary: str, text: str = OWN) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "own.h").write_text(f'#define SUMMARY "{summary}"\n')
    (folder / "own.c").write_text(text)
    return folder / "own.c"


@pytest.mark.slow
def test_an_own_kernel(tmp_path: Path, compiler: Compiler, cache: Path) -> None:
    """Its warnings are no errors, a header beside it counts, and two modules live in one process."""
    file = own(tmp_path, "first")
    first = build(spec(kernel="own", file=file), compiler=compiler, cache=cache)
    again = build(spec(kernel="own", file=file), compiler=compiler, cache=cache)
    assert (first.fresh, again.fresh) == (True, False)
    assert (first.path, first.module) == (again.path, again.module)
    assert "-O1" in first.command
    own(tmp_path, "second")
    second = build(spec(kernel="own", file=file), compiler=compiler, cache=cache)
    assert second.fresh
    assert second.module != first.module
    assert [manifest(built).kernels["own"].summary for built in (first, second, first)] == ["first", "second", "first"]
    told = manifest(first)
    assert set(told.techniques) == set(technique_names())
    assert told.kernels["own"].params["how"].choices == ("one", "two")
    assert told.kernels["own"].params["how"].fallback == 1
    much = told.kernels["own"].params["much"]
    assert (much.choices, much.least, much.most, much.fallback) == ((), -5, 9, 3)
    assert not list(cache.glob("tmp-*"))


@pytest.mark.slow
def test_all_kernels_at_once(compiler: Compiler, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = manifest(build(spec(kernel=""), compiler=compiler, cache=cache))
    assert set(told.kernels) == set(kernel_names())
    assert set(told.techniques) == set(technique_names())
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_objects_are_shared_between_levels(compiler: Compiler, cache: Path) -> None:
    build(spec("-O1"), compiler=compiler, cache=cache)
    objects = set((cache / "objects").iterdir())
    build(spec("-O3"), compiler=compiler, cache=cache)
    assert len(set((cache / "objects").iterdir()) - objects) == 2  # the kernel's, and its part's


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["int x = ;", '#include "nothing.h"'])
def test_a_file_that_does_not_compile(tmp_path: Path, compiler: Compiler, cache: Path, broken: str) -> None:
    file = own(tmp_path, "x", broken)
    with pytest.raises(HarnessError) as caught:
        build(spec(kernel="own", file=file), compiler=compiler, cache=cache)
    error = caught.value
    assert error.status == 2
    assert "\n" not in str(error)
    assert "own" in str(error)
    assert compiler.path in error.detail  # the command ...
    assert "error" in error.detail  # ... and its words
    assert not list(cache.glob("tmp-*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (OWN.replace("int unused;", "extern void nowhere(void); nowhere();"), "nowhere"),
        ("int no_kernel;", "lt_kernel_own"),
    ],
)
def test_what_a_file_lacks_is_told_when_loading(
    tmp_path: Path, compiler: Compiler, cache: Path, text: str, missing: str
) -> None:
    built = build(spec(kernel="own", file=own(tmp_path, "x", text)), compiler=compiler, cache=cache)
    with pytest.raises(HarnessError, match=missing) as caught:
        manifest(built)
    assert caught.value.status == 2


@pytest.mark.slow
def test_a_part_is_linked_and_counts(tmp_path: Path, compiler: Compiler, cache: Path) -> None:
    text = OWN.replace("static int nothing;", "static int nothing;\nint own_much(void);")
    file = own(tmp_path, "parts", text.replace("(void)team; return", "(void)team; nothing = own_much(); return"))
    with pytest.raises(HarnessError, match="own_much"):
        manifest(build(spec(kernel="own", file=file), compiler=compiler, cache=cache))
    part = tmp_path / "own.much.c"
    part.write_text("int own_much(void) { return 1; }\n")
    first = build(spec(kernel="own", file=file), compiler=compiler, cache=cache)
    assert set(manifest(first).kernels) == {"own"}
    part.write_text("int own_much(void) { return 2; }\n")
    assert build(spec(kernel="own", file=file), compiler=compiler, cache=cache).module != first.module
    part.write_text("int own_much(void) { return }\n")
    with pytest.raises(HarnessError, match=r"own\.much\.c does not compile"):
        build(spec(kernel="own", file=file), compiler=compiler, cache=cache)


RACE = """
import sys
from pathlib import Path
from livetrap.build import build, find_compiler
from livetrap.model import BuildSpec
spec = BuildSpec(compiler=sys.argv[2], flags=("-O1", "-DRACE"), kernel="barrier_rounds")
sys.stdin.read()
print(build(spec, compiler=find_compiler(sys.argv[2]), cache=Path(sys.argv[1])).path)
"""


@pytest.mark.slow
def test_two_processes_build_the_same(compiler: Compiler, cache: Path) -> None:
    command = [sys.executable, "-c", RACE, str(cache), compiler.name]
    racers = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "X": str(n)}
        )
        for n in range(2)
    ]
    for racer in racers:
        assert racer.stdin
        racer.stdin.close()
        racer.stdin = None
    paths = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert len(set(paths)) == 1
    loaded = load_module("race._livetrap", paths[0])
    assert loaded.lib.lt_kernel_count() == 1
    assert not list(cache.glob("tmp-*"))


def cut(file: Path) -> None:
    file.write_bytes(b"")


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:1000])


def overwrite(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, shorten, overwrite])
def test_what_is_damaged_in_the_cache_is_made_anew(
    compiler: Compiler, cache: Path, damage: Callable[[Path], None]
) -> None:
    before = set((cache / "objects").iterdir())
    wanted = spec("-O1", f"-DDAMAGE_{damage.__name__}")
    first: Built = build(wanted, compiler=compiler, cache=cache)
    assert manifest(first).kernels
    for file in (first.path, *(set((cache / "objects").iterdir()) - before)):
        damage(file)
    assert find(wanted, compiler=compiler, cache=cache) is None
    again = build(wanted, compiler=compiler, cache=cache)
    assert again.fresh
    assert set(manifest(again).kernels) == {"flag_handoff"}
    assert not build(wanted, compiler=compiler, cache=cache).fresh


@pytest.mark.slow
def test_a_build_is_told_of_once_and_asked_once(
    tmp_path: Path, compiler: Compiler, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    wanted = spec(kernel="own", file=own(tmp_path, "told"))
    assert find(wanted, compiler=compiler, cache=cache) is None
    for _ in range(2):
        built = build(wanted, compiler=compiler, cache=cache, starting=lambda: told.append("x"))
    assert told == ["x"]
    assert find(wanted, compiler=compiler, cache=cache) == built
    assert kept_manifest(built) is None
    first = manifest(built)
    assert kept_manifest(built) == first
    with monkeypatch.context() as patched:
        patched.setattr(importlib.import_module("livetrap.build.manifest"), "read", None)
        assert manifest(built) == first
    (kept,) = built.path.parent.glob("*.json")
    kept.write_text('{"kernels": ')
    assert manifest(built) == first


INTERRUPTED = """
import sys, threading, os, signal, time
from pathlib import Path
from livetrap.build import build, find_compiler
from livetrap.model import BuildSpec
spec = BuildSpec(compiler=sys.argv[2], flags=("-O1", "-DINTERRUPTED"), kernel="own", kernel_file=sys.argv[3])
def compiling():
    try:
        return any(Path(sys.argv[1]).glob("tmp-*/*.[is]"))
    except OSError:  # a folder went while it was read
        return False
def interrupt():
    while not compiling():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    build(spec, compiler=find_compiler(sys.argv[2]), cache=Path(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, compiler: Compiler) -> None:
    """Not even what a compiler that is killed leaves in the folder for temporary files."""
    many = "\n".join(f"int f{n}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {n}; return x; }}" for n in range(20000))
    file = own(tmp_path, "slow", OWN + many)
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(cache), compiler.name, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(elsewhere)},
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert not list(elsewhere.iterdir())
    assert not list(cache.glob("tmp-*"))
