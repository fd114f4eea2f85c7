"""The command line. `main` turns whatever goes wrong into one line on standard error and an exit status.

0 as expected   1 not as expected   2 bad usage or input   3 could not run here   130 interrupted
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ParamSpec, get_args, get_origin, get_type_hints

import typer

from livetrap import __version__, settings
from livetrap.cli import streams
from livetrap.cli.attach import attach_command
from livetrap.cli.compare import compare_command
from livetrap.cli.diagnose import diagnose_command
from livetrap.cli.doctor import doctor_command
from livetrap.cli.fuzz import fuzz_command
from livetrap.cli.hunt import hunt_command
from livetrap.cli.listing import list_command
from livetrap.cli.merge import merge_command
from livetrap.cli.options import no_number
from livetrap.cli.rejudge import rejudge_command
from livetrap.cli.report import report_command
from livetrap.cli.rerun import rerun_command
from livetrap.cli.resume import resume_command
from livetrap.cli.run import run_command
from livetrap.cli.selftest import selftest_command
from livetrap.cli.show import show_command
from livetrap.cli.watch import watch_command
from livetrap.errors import HarnessError, nearest
from livetrap.watching import bisect_status

__all__ = ["app", "main"]

INTERRUPTED = 130
TRACEBACK = "LIVETRAP_TRACEBACK"
"""Set: an internal error shows where it came from."""
COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_command,
    "run": run_command,
    "watch": watch_command,
    "hunt": hunt_command,
    "fuzz": fuzz_command,
    "attach": attach_command,
    "diagnose": diagnose_command,
    "compare": compare_command,
    "show": show_command,
    "report": report_command,
    "rejudge": rejudge_command,
    "resume": resume_command,
    "rerun": rerun_command,
    "merge": merge_command,
    "doctor": doctor_command,
    "selftest": selftest_command,
}
SETTINGS: dict[str, dict[str, Any]] = {"watch": {"allow_interspersed_args": False}}
"""What click is told of a command: from the first word of its own, all words belong to the command that is watched."""

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
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        streams.prepare()
    except HarnessError as error:
        streams.tell(str(error))
        return bisect_status(error.status) if _bisecting(words) else error.status
    status = streams.finish(_run(words))
    return bisect_status(2) if status == streams.BROKEN_PIPE and _bisecting(words) else status


@functools.cache
def _parser() -> Any:
    """The command line as typer makes it, once a process."""
    return typer.main.get_command(app)


def _run(words: list[str]) -> int:
    try:
        _check_words(words)
        command = _parser()
        # `obj` travels to the commands: the record holds the command line.
        result = command.main(
            args=words, prog_name="livetrap", standalone_mode=False, obj=words, default_map=_settings(words)
        )
    except HarnessError as error:
        streams.tell(str(error), error.detail)
        return bisect_status(error.status) if _bisecting(words) else error.status
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as error:  # how click ends a help text that nobody reads
        if isinstance(error.__context__, BrokenPipeError):
            return streams.broken_pipe()
        raise
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is not None:  # an error of usage; where its class lives depends on typer's version
            streams.tell(_usage(str(usage()), getattr(error, "ctx", None), words))
            return bisect_status(2) if _bisecting(words) else 2
        streams.tell(f"internal error: {type(error).__name__}: {error}; please report it ({TRACEBACK}=1 shows where)")
        if os.environ.get(TRACEBACK):
            with contextlib.suppress(OSError, ValueError, HarnessError):
                traceback.print_exc()
        return bisect_status(3) if _bisecting(words) else 3
    return result if isinstance(result, int) else 0


def _settings(words: Sequence[str]) -> dict[str, settings.Table]:
    """What pyproject.toml has for options that the command line leaves open. HarnessError: it is bad."""
    try:
        found = settings.find(Path.cwd()) if words and words[0] in COMMANDS else None
    except OSError:  # the folder is no more
        return {}
    if found is None:
        return {}
    return settings.defaults(found, {name: tuple(_options(one)) for name, one in COMMANDS.items()})


def _options(command: Callable[..., int]) -> Iterator[settings.Option]:
    """The options of a command, as its function declares them."""
    for name, hint in get_type_hints(command, include_extras=True).items():
        kind, *rest = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        for declared in rest:
            if isinstance(declared, typer.models.OptionInfo):
                # In an annotation, the first name stands where else the default does.
                names = map(str, (declared.default, *(declared.param_decls or ())))
                flags = [flag for flag in names if flag.startswith("--")]
                flag = (flags or [f"--{name.replace('_', '-')}"])[0].removeprefix("--")
                yield settings.Option(name=name, flag=flag, kind=_kind(kind))


def _kind(hint: Any) -> str:
    """The kind of values that an option takes, of its type or of `type | None`."""
    one = hint
    if get_origin(hint) is not list:
        one = next((part for part in get_args(hint) if part is not type(None)), hint)
    return "list" if get_origin(one) is list else str(getattr(one, "__name__", "str"))


def _check_words(words: Sequence[str]) -> None:
    """Records and reports are UTF-8. HarnessError: a word of the command line is not."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise HarnessError(
                f"{word.encode(errors='backslashreplace').decode()}: is not UTF-8, as all must be"
            ) from None


def _bisecting(words: Sequence[str]) -> bool:
    """Whether `git bisect run` may be reading our status: what went wrong here is then no fault of the commit."""
    own = words[: words.index("--")] if "--" in words else words
    return words[:1] == ["watch"] and "--bisect" in own


def _usage(message: str, context: object, words: Sequence[str]) -> str:
    number = no_number(message, words)
    if number:
        return number
    unknown = message.removeprefix("No such command '").partition("'")[0] if "No such command" in message else ""
    if unknown:
        return f"unknown command {unknown!r}; {nearest(unknown, COMMANDS)}"
    path = getattr(context, "command_path", "livetrap")
    return f"{message.strip().rstrip('.')} (see `{path} --help`)"


def _guarded(command: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """The command, with those exceptions taken out that typer would give a status or a line of its own."""

    @functools.wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            return streams.broken_pipe()

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
    app.command(_name, context_settings=SETTINGS.get(_name))(_guarded(_command))
