"""The user's own command on a hang."""

from __future__ import annotations

from livetrap.evidence import hook


def test_the_pid_is_filled_in_but_not_into_variables_of_the_shell() -> None:
    assert hook.fill("x {pid} {pid} ${pid} {PID}", 12) == "x 12 12 ${pid} {PID}"


def test_it_is_run_by_a_shell_and_told_the_pid() -> None:
    done = hook.run('echo "{pid} $LIVETRAP_PID" | tr 1 2; echo err >&2; exit 3', 11, deadline_s=10)
    assert (done.output, done.status, done.late) == ("22 22\nerr", 3, False)


def test_how_it_ended_is_the_last_line() -> None:
    assert hook.run_hook("echo {pid}", 5, deadline_s=10) == "5"
    assert hook.run_hook("exit 4", 5, deadline_s=10) == "(exit status 4)"
    assert hook.run_hook("echo a; kill -9 $$", 5, deadline_s=10) == "a\n(ended by signal 9)"
    assert hook.run_hook("echo a; exec sleep 60", 5, deadline_s=0.1) == "a\n(ended, it ran for over 0.1 s)"


def test_the_tail_of_its_output_is_kept() -> None:
    done = hook.run("head -c 100000 /dev/zero | tr '\\0' x; echo end", 5, deadline_s=10)
    assert done.output.endswith("xend")
    assert len(done.output) < 17 << 10
