"""Reading scenarios: what is accepted, and one line of words for everything that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from livetrap.errors import HarnessError
from livetrap.matching import expectation_of, value_matches
from livetrap.model import BUGS, Rules, VariantRole, Verdict
from livetrap.resources import kernel_names, technique_names
from livetrap.scenario import load, parse, rules_of
from livetrap.scenario_model import Scenario, axes_of, cell_count, cells, compiler_family, parameters_of

KERNELS = ("flag_handoff", "barrier_rounds")
TECHNIQUES = ("raw_spin", "acquire_yield", "os_barrier")
ROOT = Path(__file__).parents[1]

MINIMAL = """
schema = 1
name = "mine"
summary = "One line."
[target]
kernel = "flag_handoff"
[variants.buggy]
role = "buggy"
"""
FULL = """
schema = 1
name = "mine"
summary = "One line."
source = ["https://example.org/1"]
[target]
kernel = "flag_handoff"
align = "clock"
[target.parameters]
moment = "late"
body = "empty"
[budget]
trials = 5
timeout_s = 3
[judging]
floor_s = 0.4
[axes]
threads = [1, 2, 4]
flags = ["-O0", "-O2"]
[variants.buggy]
role = "buggy"
trials = 7
always = true
parameters = { flag = "plain" }
axes = { body = ["empty", "pause"], threads = [2, 4] }
[variants.fixed]
role = "fixed"
parameters = { flag = "acquire" }
[[expect]]
match = { variant = "buggy", flags = "-O0" }
verdicts = ["passed"]
needs = "-O1 or higher"
[[expect]]
match = { variant = "buggy", threads = ">=4" }
verdicts = ["livelock"]
least_rate = 0.5
[[expect]]
match = { variant = ["buggy"], compiler = "gcc", os = "macos" }
verdicts = ["livelock", "corrupt"]
"""


def read(text: str) -> Scenario:
    return parse(text, path="s.toml", kernels=KERNELS, techniques=TECHNIQUES)


def problem(text: str) -> str:
    with pytest.raises(HarnessError) as caught:
        read(text)
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults() -> None:
    scenario = read(MINIMAL)
    assert (scenario.budget.trials, scenario.budget.timeout_s, scenario.target.align) == (3, 10.0, "spin")
    assert axes_of(scenario, scenario.variants["buggy"]) == {
        "threads": (2,),
        "placement": ("free",),
        "flags": ("-O2",),
        "align": ("spin",),
    }
    assert rules_of(scenario, limit_s=4.0) == Rules(limit_s=4.0)


def test_a_full_one() -> None:
    scenario = read(FULL)
    buggy, fixed = scenario.variants["buggy"], scenario.variants["fixed"]
    assert (buggy.always, fixed.always) == (True, False)
    assert axes_of(scenario, buggy)["threads"] == (2, 4), "a variant's axis replaces the scenario's"
    assert axes_of(scenario, fixed)["threads"] == (1, 2, 4)
    assert parameters_of(scenario, buggy) == {"moment": "late", "flag": "plain"}, "body is an axis here"
    assert parameters_of(scenario, fixed) == {"moment": "late", "flag": "acquire", "body": "empty"}
    assert cell_count(axes_of(scenario, buggy)) == len(cells(axes_of(scenario, buggy))) == 8
    assert rules_of(scenario, limit_s=3.0) == Rules(limit_s=3.0, floor_s=0.4)
    assert scenario.expect[1].accepted == (Verdict.LIVELOCK, Verdict.PASSED)
    assert scenario.expect[2].accepted == (Verdict.LIVELOCK, Verdict.CORRUPT)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # Syntax: file, line, column.
        ("schema = 1", "schema = = 1", "s.toml:2:10: Invalid value"),
        ('name = "mine"', 'name = "mine"\nname = "x"', "s.toml:4:11: Cannot overwrite a value"),
        ("threads = [2, 4] }", "threads = [2, 4", "s.toml:26:1: Unclosed array"),
        # Unknown names: the nearest.
        ("[budget]", "[budjet]", "s.toml: budjet: unknown key; did you mean 'budget'?"),
        ('kernel = "flag', 'kernal = "flag', "s.toml: target.kernal: unknown key; did you mean 'kernel'?"),
        ("timeout_s", "timeout", "s.toml: budget.timeout: unknown key; did you mean 'timeout_s'?"),
        ("floor_s = 0.4", "flor_s = 0.4", "s.toml: judging.flor_s: unknown key; did you mean 'floor_s'?"),
        ("floor_s = 0.4", "limit_s = 4", "s.toml: judging.limit_s: unknown key"),
        ("trials = 7", "trails = 7", "s.toml: variants.buggy.trails: unknown key; did you mean 'trials'?"),
        ("least_rate", "lowest_rate", "s.toml: expect[1].lowest_rate: unknown key; did you mean 'least_rate'?"),
        ("flag_handoff", "flag_handof", "s.toml: target.kernel: unknown kernel 'flag_handof'; did you mean"),
        ('"clock"', '"clok"', "s.toml: target.align: unknown alignment 'clok'; did you mean 'clock'?"),
        ('role = "buggy"', 'role = "bugy"', "s.toml: variants.buggy.role: unknown role 'bugy'; did you mean 'buggy'?"),
        ('["passed"]', '["pased"]', "s.toml: expect[0].verdicts: unknown verdict 'pased'; did you mean 'passed'?"),
        ("flags =", 'technique = ["raw"]\nflags =', "s.toml: axes.technique: unknown technique 'raw'; did you mean"),
        ("flags =", 'placement = ["one_core"]\nflags =', "s.toml: axes.placement: unknown placement 'one_core'; did"),
        ("flags =", 'compiler = ["icc"]\nflags =', "s.toml: axes.compiler: unknown compiler 'icc'"),
        ('variant = "buggy", flags', 'variant = "bugy", flags', "expect[0].match.variant: unknown variant 'bugy'; did"),
        ('flags = "-O0" }', 'flag = "-O0" }', "s.toml: expect[0].match.flag: unknown key; did you mean 'flags'?"),
        ('os = "macos"', 'os = "darwin"', "s.toml: expect[2].match.os: unknown os 'darwin'; known: linux, macos"),
        ('os = "macos"', 'arch = "arm"', "s.toml: expect[2].match.arch: unknown arch 'arm'; did you mean 'arm64'?"),
        ('"gcc"', '"tcc"', "s.toml: expect[2].match.compiler: unknown compiler 'tcc'; did you mean 'gcc'?"),
        # Numbers.
        ("[1, 2, 4]", "[0, 2, 4]", "s.toml: axes.threads: 0: must be from 1 to 512"),
        ("[1, 2, 4]", "[-1]", "s.toml: axes.threads: -1: must be from 1 to 512"),
        ("[1, 2, 4]", "[1000000]", "s.toml: axes.threads: 1000000: must be from 1 to 512"),
        ("[1, 2, 4]", '["2"]', "s.toml: axes.threads: '2': must be a whole number"),
        ("[1, 2, 4]", "[true]", "s.toml: axes.threads[0]: expected a whole number or text, got true or false"),
        ("[1, 2, 4]", "[]", "s.toml: axes.threads: is empty; give at least one value"),
        ("[1, 2, 4]", "[2, 1, 2]", "s.toml: axes.threads: 2 stands twice"),
        ("[1, 2, 4]", "2", "s.toml: axes.threads: expected a list, got a whole number"),
        ("trials = 5", "trials = 0", "s.toml: budget.trials: 0: must be from 1"),
        ("trials = 5", "trials = 2.5", "s.toml: budget.trials: expected a whole number, got a number"),
        ("trials = 7", "trials = -7", "s.toml: variants.buggy.trials: -7: must be from 1"),
        ("timeout_s = 3", "timeout_s = -1.0", "s.toml: budget.timeout_s: -1: must be from 0.05 to 86400"),
        ("timeout_s = 3", "timeout_s = 0", "s.toml: budget.timeout_s: 0: must be from 0.05 to 86400"),
        ("timeout_s = 3", "timeout_s = nan", "s.toml: budget.timeout_s: nan: must be from 0.05 to 86400"),
        ("timeout_s = 3", "timeout_s = inf", "s.toml: budget.timeout_s: inf: must be from 0.05 to 86400"),
        ("floor_s = 0.4", "floor_s = -1", "s.toml: judging.floor_s: -1: must be more than 0"),
        ("least_rate = 0.5", "least_rate = 1.5", "s.toml: expect[1].least_rate: 1.5: must be from 0 to 1"),
        ("least_rate = 0.5", "least_rate = 0.5\ngreatest_rate = 0.1", "expect[1].least_rate: is greater than"),
        # Flags.
        ('"-O2"', '"-g"', "s.toml: axes.flags: '-g': must name one optimisation level"),
        ('"-O2"', '"-O2 -O3"', "s.toml: axes.flags: '-O2 -O3': must name one optimisation level"),
        ('"-O2"', '"-O9"', "s.toml: axes.flags: '-O9': '-O9' is no optimisation level"),
        ('"-O2"', '"O2"', "s.toml: axes.flags: 'O2': 'O2' is no flag"),
        # Structure.
        ("schema = 1", "", "s.toml: schema: missing; this version of livetrap reads schema = 1"),
        ("schema = 1", "schema = 2", "s.toml: schema: 2 is not known; this version"),
        ('name = "mine"', "", "s.toml: missing required field `name`"),
        ('"mine"', '"../mine"', "s.toml: name: '../mine' is no name"),
        ('kernel = "flag_handoff"', "", "s.toml: target: must have either kernel"),
        ('kernel = "flag_handoff"', 'file = "../x.c"', "s.toml: target.file: '../x.c' must be the name of a C file"),
        ('kernel = "flag_handoff"', 'file = "flag_handoff.c"', "s.toml: target.file: 'flag_handoff.c' has the name"),
        ('flag = "plain" }', "align = 2 }", "s.toml: variants.buggy.parameters.align: an axis, not a parameter"),
        ('flag = "plain" }', "flag = 1.5 }", "s.toml: variants.buggy.parameters.flag: expected a whole number or text"),
        ('role = "fixed"', 'role = "fixed"\nalways = true', "s.toml: variants.fixed.always: is for roles buggy and"),
        ("always = true", "always = 1", "s.toml: variants.buggy.always: expected true or false, got a whole number"),
        ('role = "fixed"', "role = 3", "s.toml: variants.fixed.role: expected text, got a whole number"),
        ('role = "fixed"', "", "s.toml: variants.fixed: missing required field `role`"),
        ('threads = ">=4"', "threads = 4.5", "expect[1].match.threads: expected a whole number, text, or a list"),
        ("floor_s = 0.4", "floor_s = true", "s.toml: judging.floor_s: expected a number, got true or false"),
        ("floor_s = 0.4", "timer_fires = 1.5", "s.toml: judging.timer_fires: expected a whole number, got a number"),
        ('["-O0", "-O2"]', "{ a = 1 }", "s.toml: axes.flags: expected a list, got a table"),
        ('flag = "plain" }', 'body = "pause" }', "s.toml: variants.buggy.axes.body: stands under parameters as well"),
        ("[axes]", "[axes]\nos = [1]", "s.toml: axes.os: cannot be an axis"),
        # Expectations.
        ('["passed"]', "[]", "s.toml: expect[0].verdicts: is empty"),
        ('["passed"]', '["skipped"]', "s.toml: expect[0].verdicts: 'skipped' counts neither for nor against"),
        ('threads = ">=4"', "threads = 16", "no cell of the full matrix can match it; threads is never 16: it has"),
        ('threads = ">=4"', "threads = 1", "no cell of the full matrix can match it; each condition matches some cell"),
        ('threads = ">=4"', 'threads = ">many"', "expect[1].match.threads: '>many' compares with no number"),
        ('threads = ">=4"', "threads = []", "s.toml: expect[1].match.threads: is empty"),
        ('["buggy"], compiler = "gcc", os = "macos"', '"buggy", threads = 4', "expect[2]: is never reached"),
    ],
)
def test_what_is_wrong(old: str, new: str, message: str) -> None:
    assert old in FULL
    assert message in problem(FULL.replace(old, new, 1))


def test_a_file_that_ends_too_early() -> None:
    assert problem('schema = 1\nname = "x') == "s.toml:2:10: Unterminated string"


def test_no_target() -> None:
    assert "s.toml: target: missing; it has either kernel" in problem(
        MINIMAL.replace('[target]\nkernel = "flag_handoff"\n', "")
    )


def test_no_variants() -> None:
    assert "variants: missing" in problem(MINIMAL.split("[variants", maxsplit=1)[0] + "[variants]")


def test_too_many_cells() -> None:
    values = ", ".join(str(i) for i in range(1, 151))
    axes = f"\n[axes]\nthreads = [{values}]\ndelay_us = [{values}]\n"
    assert "more than 20000 cells" in problem(MINIMAL + axes)


def test_nested_without_end() -> None:
    assert "s.toml:" in problem("a = " + "[" * 5000)


# --- where from ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    for name in ("raw-spin-flag", "techniques"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scenario.toml").write_text(MINIMAL)
    return tmp_path


def from_where(where: str, scenarios: Path) -> Scenario:
    return load(where, scenarios_dir=scenarios, kernels=KERNELS, techniques=TECHNIQUES)


def test_by_name_by_folder_and_by_file(shipped: Path) -> None:
    folder = shipped / "techniques"
    for where in ("techniques", str(folder), str(folder / "scenario.toml")):
        scenario = from_where(where, shipped)
        assert (scenario.path, scenario.folder) == (str(folder / "scenario.toml"), str(folder))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("raw-spin-flg", "unknown scenario 'raw-spin-flg'; did you mean 'raw-spin-flag'?"),
        ("", "unknown scenario ''; known: raw-spin-flag, techniques"),
        ("no/such", "no/such: no such file or folder"),
        ("x.toml", "x.toml: no such file or folder"),
    ],
)
def test_nothing_there(where: str, message: str, shipped: Path) -> None:
    with pytest.raises(HarnessError) as caught:
        from_where(where, shipped)
    assert message in str(caught.value)


def test_files_that_are_no_scenario(shipped: Path) -> None:
    (shipped / "empty").mkdir()
    (shipped / "note.txt").write_text("x")
    bad = shipped / "techniques" / "scenario.toml"
    bad.write_bytes(b'schema = 1\nname = "\xff"')
    for where, message in (
        ("empty", "a folder without scenario.toml"),
        ("note.txt", "not a scenario"),
        ("techniques", "scenario.toml:2:9: not UTF-8"),
    ):
        with pytest.raises(HarnessError, match=message):
            from_where(str(shipped / where), shipped)


def test_a_kernel_of_its_own(shipped: Path) -> None:
    folder = shipped / "techniques"
    (folder / "scenario.toml").write_text(MINIMAL.replace('kernel = "flag_handoff"', 'file = "mine.c"'))
    with pytest.raises(HarnessError, match=r"target.file: no file 'mine.c' beside scenario.toml"):
        from_where("techniques", shipped)
    (folder / "mine.c").write_text("")
    assert from_where("techniques", shipped).target.kernel_name == "mine"


# --- match tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "condition", "value", "expected"),
    [
        ("threads", 4, 4, True),
        ("threads", 4, 8, False),
        ("threads", "<2", 1, True),
        ("threads", "<2", 2, False),
        ("threads", "<=2", 2, True),
        ("threads", "> 2", 3, True),
        ("threads", ">=4", 4, True),
        ("threads", ("<2", 8), 8, True),
        ("threads", ("<2", 8), 4, False),
        ("threads", 4, None, False),
        ("flags", "-O2", "-O2 -g", True),
        ("flags", "-O2 -g", "-O2", False),
        ("flags", "-O", "-O2", False),
        ("compiler", "clang", "/usr/bin/clang-19", True),
        ("compiler", "gcc", "clang", False),
        ("body", "empty", "empty", True),
        ("body", "<1", "empty", False),
    ],
)
def test_conditions(key: str, condition: str | int, value: str | int | None, expected: bool) -> None:
    assert value_matches(key, condition, value) is expected


@pytest.mark.parametrize(
    ("role", "verdicts"),
    [(VariantRole.BUGGY, BUGS), (VariantRole.WIDENED, BUGS), (VariantRole.FIXED, {"passed"})],
)
def test_what_no_expectation_speaks_of_is_expected_by_its_role(role: VariantRole, verdicts: set[str]) -> None:
    expectation = expectation_of((), variant="v", role=role, cell={}, os="linux", arch="arm64")
    assert set(expectation.verdicts) == verdicts


@pytest.mark.parametrize(
    ("name", "family"),
    [("gcc", "gcc"), ("clang-19", "clang"), ("/opt/gcc-12/bin/clang", "clang"), ("aarch64-gcc", "gcc"), ("cc", "cc")],
)
def test_compiler_family(name: str, family: str) -> None:
    assert compiler_family(name) == family


# --- those that are shipped ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("scenarios/*/scenario.toml")))
def test_shipped_scenarios(name: str) -> None:
    names = {"kernels": kernel_names(ROOT / "csrc"), "techniques": technique_names(ROOT / "csrc")}
    scenario = load(name, scenarios_dir=ROOT / "scenarios", **names)
    assert scenario.name == name
    assert (ROOT / "scenarios" / name / "README.md").read_text().startswith(f"# {name}\n")
    assert scenario.source
    assert {VariantRole.BUGGY, VariantRole.FIXED} <= {variant.role for variant in scenario.variants.values()}
