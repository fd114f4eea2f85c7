"""Scenarios that cannot be run, through the command line: one line each, exit status 2, nothing of it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.csrc.driver import compilers
from tests.end_to_end.running import livetrap

HEAD = 'schema = 1\nname = "mine"\nsummary = "One line."\n'
SHIPPED = '[target]\nkernel = "flag_handoff"\n'
BUGGY = '[variants.buggy]\nrole = "buggy"\n'
EXPECT = '[[expect]]\nmatch = { variant = "fixed" }\nverdicts = ["passed"]\n'
KERNEL = """#define LIVETRAP_KERNEL
#include <livetrap.h>
static const struct lt_param params[] = {{"fixed", "as it says", "no|yes", 0, 0, 0}};
static int state;
static void *setup(struct lt_team *team) { (void)team; return &state; }
static void thread(struct lt_team *team, void *state, uint32_t index) { (void)team, (void)state, (void)index; }
static void finish(struct lt_team *team, void *state) { (void)team, (void)state; }
const struct lt_kernel lt_kernel_mine = {
    .name = "mine", .summary = "nothing", .params = params, .param_count = 1,
    .setup = setup, .thread = thread, .finish = finish,
};
"""


def refused(tmp_path: Path, text: str | None, kernel: str = "") -> str:
    """The one line with which `livetrap run FOLDER` refuses it, in another folder than the scenario's."""
    folder, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    if text is not None:
        (folder / "scenario.toml").write_text(text)
    if kernel:
        (folder / "mine.c").write_text(kernel)
    done = livetrap("run", folder, "--db", tmp_path / "r.db", folder=elsewhere, limit_s=60)
    assert done.status == 2, done.err
    assert done.out == ""
    assert not (tmp_path / "r.db").exists()
    (line,) = [line for line in done.err.splitlines() if not line.startswith("building ")]
    assert line.startswith("livetrap: ")
    return line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "a folder without scenario.toml"),
        (HEAD + BUGGY, "scenario.toml: target: missing; it has either kernel"),
        (HEAD + "[target]\n" + BUGGY, "scenario.toml: target: must have either kernel"),
        (HEAD + SHIPPED.replace("handoff", "handof") + BUGGY, "target.kernel: unknown kernel 'flag_handof'; did you"),
        (HEAD + '[target]\nfile = "mine.c"\n' + BUGGY, "target.file: no file 'mine.c' beside scenario.toml"),
        (HEAD + SHIPPED + BUGGY + EXPECT, "expect[0].match.variant: unknown variant 'fixed'; known: buggy"),
    ],
)
def test_refused_before_anything_is_built(tmp_path: Path, text: str | None, message: str) -> None:
    assert message in refused(tmp_path, text)


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no C compiler is installed")
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ('{ fixt = "no" }', "variants.buggy.parameters: kernel mine: unknown parameter or axis 'fixt'; did you mean"),
        (
            '{ fixed = "maybe" }',
            "variants.buggy.parameters: kernel mine: fixed: unknown value 'maybe'; did you mean 'yes'?",
        ),
    ],
)
def test_a_kernel_without_the_variant_that_is_named(tmp_path: Path, parameters: str, message: str) -> None:
    text = f'{HEAD}[target]\nfile = "mine.c"\n{BUGGY}parameters = {parameters}\n'
    assert message in refused(tmp_path, text, KERNEL)


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no C compiler is installed")
def test_a_file_that_is_no_kernel(tmp_path: Path) -> None:
    text = f'{HEAD}[target]\nfile = "mine.c"\n{BUGGY}'
    assert "lt_kernel_mine" in refused(tmp_path, text, "int other;\n")
