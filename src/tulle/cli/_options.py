"""Options that many commands share, so that they read the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from tulle._checks import check_share
from tulle._choices import REPORTS
from tulle.errors import ParameterError

Command = TypeVar("Command", bound=Callable[..., Any])


FILE = click.Path(readable=False)  # a file or URI, not looked at here; shells complete it


class ReportFile(click.Path):
    """The name of a report; another suffix is refused before any work is done."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if not str(value).lower().endswith(REPORTS):
            self.fail("must end in .html, .json or .md", param, ctx)
        return str(value)


source = click.argument("source", type=FILE, metavar="INPUT")
output = click.option(
    "-o",
    "--output",
    required=True,
    type=FILE,
    metavar="OUTPUT",
    help="Where to write the release: a file, or URI#table.",
)
policy = click.option(
    "--policy", type=FILE, metavar="FILE", help="Column roles and parameters (TOML)."
)
report = click.option(
    "--report",
    type=ReportFile(),
    metavar="FILE",
    default=None,
    help="Also audit, and write a report: .html, .json or .md.",
)
seed = click.option(
    "--seed",
    type=click.IntRange(min=0),
    envvar="TULLE_SEED",
    default=None,
    help="Repeat a release exactly. Other users of a machine can read it in a command line: better "
    "in the variable TULLE_SEED. Default: the operating system's randomness.",
)
seed_of_attacks = click.option(
    "--seed",
    type=click.IntRange(min=0),
    envvar="TULLE_SEED",
    default=None,
    help="Repeat the attacks exactly. Default: the operating system's randomness.",
)
sign_key = click.option(
    "--sign-key",
    type=FILE,
    envvar="TULLE_SIGN_KEY",
    metavar="FILE",
    help="Sign the manifest with this private key (tulle keygen). Default: TULLE_SIGN_KEY, if set.",
)
force = click.option("--force", is_flag=True, help="Replace existing output.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")


accept_risk = click.option(
    "--accept-risk",
    metavar="REASON",
    help="Write the release although the verdict on privacy is bad; REASON goes into the manifest.",
)


audit = click.option(
    "--audit/--no-audit",
    default=None,
    help="Attack the release before it is written: without, the verdict is undecided.  [audit]",
)


def releasing(command: Command) -> Command:
    """Add the options of every command that writes a release."""
    return _with_options(command, output)


def previewing(command: Command) -> Command:
    """Add the same options, for a command that can also run without writing anything."""
    optional = click.option(
        "-o",
        "--output",
        type=FILE,
        metavar="OUTPUT",
        help="Where to write the release: a file, or URI#table.",
    )
    return _with_options(command, optional)


def _with_options(command: Command, where: Callable[[Command], Command]) -> Command:
    given = (as_json, force, sign_key, seed, accept_risk, report, policy, where, source)
    for option in given:
        command = option(command)
    return command


def require(context: Any, *names: str) -> None:
    """Raise as click does for parameters that are missing."""
    for parameter in context.command.params:
        if parameter.name in names and context.params[parameter.name] is None:
            raise click.MissingParameter(ctx=context, param=parameter)


class Share(click.ParamType):
    """A share: ``0.1%``, ``0.001``."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            return check_share("tulle", "share", value)
        except ParameterError as error:
            self.fail(str(error.named("it")), param, ctx)


plain = click.option(
    "--plain",
    is_flag=True,
    default=None,
    help="Write CSV in the normalised form (commas, UTF-8, 12.5, 2024-07-20), not as INPUT is.",
)
holdout = click.option(
    "--holdout",
    type=Share(),
    metavar="SHARE",
    help="Keep a share of the people (10%) out of the release, as the control of the audit.",
)
