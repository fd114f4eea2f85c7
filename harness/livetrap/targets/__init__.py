"""What a trial runs, and the two processes that own it: the supervisor and the forker.

    harness ── supervisor ── forker ── trial ── (whatever the trial starts)

The forker (`forker.py`) has the modules loaded and forks one process a trial, or starts a command (`spawning.py`); the
supervisor (`supervisor_process.py`) owns all of them. Orphans come to the forker or, when that is gone, to the
supervisor, and each kills all that it owns, again and again until nothing is left, as soon as the other or the harness
has gone. `supervisor.py` is the harness's side of both, `kernel.py` and `command.py` what it says of a trial. A process
that somebody else has started (`process.py`) has no such owners; `owner.py` has what the watching loop asks of either.

The two processes import this package without the interpreter's site packages, so nothing is imported here. What they
import is little on purpose: a fork copies the page tables of all that lies in the forker, and with `signal`, `socket`,
`pathlib`, `typing` and `contextlib` (which bring `enum`, `re`, `collections`) it took twice as long. `TYPE_CHECKING` is
false at run time, as `typing`'s is.
"""
