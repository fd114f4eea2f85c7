"""The command line. `main` turns whatever goes wrong into one line on standard error and an exit status.

0 as expected   1 not as expected   2 bad usage or input   3 could not run here   130 interrupted
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, ParamSpec

import typer

from livetrap import __version__
from livetrap.cli.diagnose import diagnose_command
from livetrap.cli.doctor import doctor_command
from livetrap.cli.listing import list_command
from livetrap.cli.rejudge import rejudge_command
from livetrap.cli.run import run_command
from livetrap.cli.show import show_command
from livetrap.errors import HarnessError, nearest
from livetrap.plaintext import plain
from livetrap.report.text import one_line

__all__ = ["app", "main"]

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell says of a command that SIGPIPE ended."""
TRACEBACK = "LIVETRAP_TRACEBACK"
"""Set: an internal error shows where it came from."""
COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_command,
    "run": run_command,
    "diagnose": diagnose_command,
    "show": show_command,
    "rejudge": rejudge_command,
    "doctor": doctor_command,
}

Arguments = ParamSpec("Arguments")

app = typer.Typer(
    name="livetrap",
    help="Makes hangs of native code happen, catches them, says what kind they are, and keeps the record.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line; returns its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter is no reason to fail
    status = _run(arguments)
    try:
        sys.stdout.flush()  # a broken pipe shows here at the latest, not while the interpreter ends
    except BrokenPipeError:
        status = _broken_pipe()
    return status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        command = typer.main.get_command(app)
        words = list(sys.argv[1:] if arguments is None else arguments)
        # `obj` travels to the commands: the record holds the command line.
        result = command.main(args=words, prog_name="livetrap", standalone_mode=False, obj=words)
    except HarnessError as error:
        _tell(str(error), error.detail)
        return error.status
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is not None:  # an error of usage; where its class lives depends on typer's version
            _tell(_usage(str(usage()), getattr(error, "ctx", None)))
            return 2
        _tell(f"internal error: {type(error).__name__}: {error}; please report it ({TRACEBACK}=1 shows where)")
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        return 3
    return result if isinstance(result, int) else 0


def _usage(message: str, context: object) -> str:
    unknown = message.removeprefix("No such command '").partition("'")[0] if "No such command" in message else ""
    if unknown:
        return f"unknown command {unknown!r}; {nearest(unknown, COMMANDS)}"
    path = getattr(context, "command_path", "livetrap")
    return f"{message.strip().rstrip('.')} (see `{path} --help`)"


def _tell(message: str, detail: str = "") -> None:
    # Where standard error itself is gone, there is nobody left to tell.
    with contextlib.suppress(OSError, ValueError):
        print(f"livetrap: {one_line(message, most=2000)}", file=sys.stderr)
        if detail:
            print(plain(detail).rstrip("\n"), file=sys.stderr)
        sys.stderr.flush()


def _broken_pipe() -> int:
    """Whoever read our output has left: the interpreter's last flush goes nowhere instead of failing aloud."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return BROKEN_PIPE


def _guarded(command: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """The command, with those exceptions taken out that typer would give a status or a line of its own."""

    @functools.wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            return _broken_pipe()

    return guarded


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"livetrap {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


for _name, _command in COMMANDS.items():
    app.command(_name)(_guarded(_command))
