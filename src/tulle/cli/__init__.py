"""The ``tulle`` command.

Commands are found by the names of the files in ``tulle/cli/commands``; each is imported only when
it is listed or run, and imports the library only when it works, so that ``tulle --help`` answers
at once. Exit codes: 0 success, 1 a guarantee, a gate or the verdict failed, 2 an error in usage or
data, 130 interrupted.
"""

from __future__ import annotations

import io
import pkgutil
import sys
import warnings
from functools import partial
from importlib import import_module

import rich_click as click
from click.exceptions import Exit

from tulle import __version__
from tulle.cli import _output as output
from tulle.cli import commands
from tulle.cli._process import Interrupts, libraries_silenced, share_heaps
from tulle.errors import PrivacyWarning, TulleError

ORDER = [
    "demo", "app", "inspect", "split", "explore", "condense", "estimate", "baseline", "tune",
    "stream", "mine", "hide", "sketch", "learn", "sites",
]  # fmt: skip


class _Commands(click.RichGroup):
    """Finds the commands by the files there are."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
        return sorted(names, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        found: click.Command = import_module(f"tulle.cli.commands.{name}").command
        found.name = name  # the list of commands shows it
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from tulle.errors import nearest_name

        wrong = args[0]
        if not wrong.startswith("-") and wrong not in self.list_commands(ctx):
            ctx.fail(f"No such command '{wrong}': {nearest_name(wrong, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tulle")
@click.option("--debug", is_flag=True, help="Show a traceback (without data) when something fails.")
@click.pass_context
def tulle(ctx: click.Context, debug: bool) -> None:
    """Share the shape of your data, not the people in it.

    Start with tulle demo, then tulle inspect FILE. Exit codes: 0 success,
    1 a guarantee, a gate or the verdict failed, 2 an error in usage or data.

    Shell completion: eval "$(_TULLE_COMPLETE=bash_source tulle)"
    """
    ctx.obj = {"debug": debug}


def main() -> None:
    """Run the command line; a user's mistake ends in one line, never in a traceback."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that knows ASCII only, or half a name
        sys.stdout.reconfigure(errors="backslashreplace")
    share_heaps()
    with libraries_silenced(), Interrupts() as interrupts:
        try:
            code = _run(arguments, debug)
        except BaseException as error:  # a panic of polars is not an Exception
            code = _end(error, debug, interrupted=interrupts.seen)
    sys.exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    with warnings.catch_warnings():
        warnings.showwarning = partial(_warn, debug)
        code = tulle.main(arguments, prog_name="tulle", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _end(error: BaseException, debug: bool, *, interrupted: bool) -> int:
    """Say in one line how a command ended; return the exit code."""
    if interrupted or isinstance(error, KeyboardInterrupt | click.Abort):
        output.say("interrupted: no partial file was left")
        return 130
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return 2
    if debug:
        import traceback

        # frames only: neither local variables nor the message of a foreign exception
        trace = traceback.format_tb(error.__traceback__)
        print("".join(trace) + type(error).__name__, file=sys.stderr)
    output.say(_reason(error))
    return error.exit_code if isinstance(error, TulleError) else 2


def _reason(error: BaseException) -> str:
    if isinstance(error, TulleError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory: use a smaller table or a batch option"
    if isinstance(error, BrokenPipeError):
        return "the output was closed by its reader"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or type(error).__name__}"
    # The text of a foreign exception may quote a cell: only its type is shown.
    return f"unexpected {type(error).__name__}: run again with --debug and report it"


def _warn(
    debug: bool, message: Warning | str, category: type[Warning], place: str, line: int, *_: object
) -> None:
    """Show our own warnings; of others, which may quote a cell, only where they arose."""
    if issubclass(category, PrivacyWarning):
        output.warn(str(message))
    elif debug:
        output.say(f"{category.__name__} at {place}:{line}")
