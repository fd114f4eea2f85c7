"""Scenario nested-parallel-for and its kernel: the queue's places and tags, and what comes of them in trials."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from livetrap import resources
from livetrap.model import VariantRole
from livetrap.scenario import Scenario, load
from tests.csrc.driver import COMMON, CSRC, WARNINGS, compile_c, compilers
from tests.end_to_end.running import livetrap

PLACES = """
#define LIVETRAP_KERNEL
#include <livetrap.h>
#include <stdio.h>
#include "nested_pool_queue.h"

static void run(struct pool_self *self, struct pool_section *section) { (void)self, (void)section; }

static struct pool_queue queue;

/* A task is pushed and taken, another one pushed, and the first one looked for by its place and tag. */
static int finds_another(uint64_t tag, uint64_t others_tag, struct pool_task (*take)(struct pool_queue *)) {
    struct pool_task task = {run, NULL, tag}, other = {run, NULL, others_tag};
    uint32_t slot, others_slot;
    int found;
    if (pool_push(&queue, task, &slot) != 1 || take(&queue).tag != tag || pool_push(&queue, other, &others_slot) != 1) {
        return -1;
    }
    found = pool_revoke(&queue, slot, tag).run != NULL;
    return pool_take(&queue).run == (found ? NULL : run) ? found : -1;
}

/* Of three tasks the middle one is taken back; the others remain, in their order. */
static int leaves_the_others(void) {
    struct pool_task task = {run, NULL, 0};
    uint32_t slots[3], i;
    for (i = 0; i < 3; i++) {
        task.tag = i + 1;
        pool_push(&queue, task, &slots[i]);
    }
    return pool_revoke(&queue, slots[1], 1).run == NULL && pool_revoke(&queue, slots[1], 2).tag == 2 &&
           pool_revoke(&queue, slots[1], 2).run == NULL && pool_take(&queue).tag == 1 && pool_take(&queue).tag == 3 &&
           pool_take(&queue).run == NULL;
}

static int has_an_end(void) {
    struct pool_task task = {run, NULL, 1};
    uint32_t slot, waiting = 0, i;
    for (i = 1; i <= POOL_SLOTS + 1; i++) {
        waiting = pool_push(&queue, task, &slot);
        if (waiting != (i <= POOL_SLOTS ? i : 0)) {
            return 0;
        }
    }
    while (pool_steal(&queue).run != NULL) {
        i--;
    }
    return i == 2;
}

int main(void) {
    pool_queue_init(&queue);
    printf("%d %d %d %d %d\\n", finds_another(5, 5, pool_steal), finds_another(5, 6, pool_steal),
           finds_another(5, 5, pool_take), leaves_the_others(), has_an_end());
    pool_queue_destroy(&queue);
    return 0;
}
"""


@pytest.fixture
def scenario() -> Scenario:
    return load(
        "nested-parallel-for",
        scenarios_dir=resources.scenarios_dir(),
        kernels=resources.kernel_names(),
        techniques=resources.technique_names(),
    )


def test_all_forms_of_the_bug_and_both_ways_out(scenario: Scenario) -> None:
    assert {name: (variant.role, variant.parameters["nesting"]) for name, variant in scenario.variants.items()} == {
        "buggy": (VariantRole.BUGGY, "thread_tag"),
        "widened": (VariantRole.WIDENED, "thread_tag"),
        "mutex": (VariantRole.BUGGY, "mutex"),
        "spinlock": (VariantRole.BUGGY, "spinlock"),
        "recursive": (VariantRole.BUGGY, "recursive"),
        "tagged": (VariantRole.FIXED, "section_tag"),
        "serial": (VariantRole.FIXED, "serial"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("compiler", compilers())
def test_a_place_is_used_again_after_a_theft(tmp_path: Path, compiler: str) -> None:
    """So a tag that another task has too finds that task; a tag of its own, or a place not used again, does not."""
    source, program = tmp_path / "places.c", tmp_path / "places"
    source.write_text(PLACES)
    kernels = f"-I{CSRC / 'kernels'}"
    compile_c([compiler, *COMMON, kernels, *WARNINGS, "-O2", "-pthread", str(source), "-o", str(program)])
    done = subprocess.run([program], capture_output=True, text=True, timeout=10, check=True)
    assert done.stdout == "1 0 0 1 1\n"


@pytest.mark.slow
def test_the_story(tmp_path: Path) -> None:
    """The caller spins and all others sleep; with a mutex all sleep; both fixed variants pass, with right results.

    A recursive mutex has the shape of the first; with a spin lock, idle workers are all that sleep.
    """
    sure = "widened,mutex,spinlock,recursive,tagged,serial"
    words = ("run", "nested-parallel-for", "--variant", sure, "--threads", "4", "--trials", "1", "--json", "-")
    done = livetrap(*words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    verdicts = defaultdict(list)
    for trial in done.trials:
        verdicts[trial["variant"]].append(trial["verdict"])
        parked, spinning = trial["shape"]["parked"], trial["shape"]["spinning"]
        if trial["variant"] == "spinlock":
            assert spinning >= 1
            assert spinning + parked == 4
        elif trial["verdict"] == "livelock":
            assert (spinning, parked) == (1, 3)
        elif trial["verdict"] == "deadlock":
            assert (spinning, parked) == (0, 4)
    assert {*verdicts["tagged"], *verdicts["serial"]} == {"passed"}
    assert verdicts["mutex"] == ["deadlock"]
    assert verdicts["spinlock"] == verdicts["recursive"] == ["livelock"]
    assert verdicts["widened"] == ["livelock"]


@pytest.mark.slow
def test_it_comes_by_itself_with_many_threads(tmp_path: Path) -> None:
    words = ("--variant", "buggy", "--threads", "16", "--trials", "2", "--json", "-")
    done = livetrap("run", "nested-parallel-for", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    found = [(trial["verdict"], trial["shape"]["spinning"], trial["shape"]["parked"]) for trial in done.trials]
    assert ("livelock", 1, 15) in found


@pytest.mark.slow
def test_two_threads_do_not_show_it(tmp_path: Path) -> None:
    words = ("--variant", "buggy", "--threads", "2", "--trials", "2", "--json", "-")
    done = livetrap("run", "nested-parallel-for", *words, folder=tmp_path, limit_s=60)
    assert done.status == 0, done.err
    assert [trial["verdict"] for trial in done.trials] == ["passed"] * 2
    assert "not reproduced: needs 3 threads or more" in done.err


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("variant", "verdict"),
    [("buggy", "livelock"), ("widened", "livelock"), ("mutex", "deadlock"), ("tagged", "passed")],
)
def test_nine_of_ten(tmp_path: Path, variant: str, verdict: str) -> None:
    words = ("run", "nested-parallel-for", "--variant", variant, "--threads", "4,16", "--trials", "50", "--json", "-")
    done = livetrap(*words, folder=tmp_path, limit_s=800)
    verdicts = [trial["verdict"] for trial in done.trials]
    assert len(verdicts) == 100
    assert verdicts.count(verdict) >= (90 if verdict == "livelock" else 100), verdicts
    assert set(verdicts) <= {verdict, "passed"}
