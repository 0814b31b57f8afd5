"""Options that many commands share, so that they read the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rich_click as click

from tulle._checks import check_share
from tulle._choices import REPORTS
from tulle.errors import ParameterError

Option = Callable[[Any], Any]


FILE = click.Path(readable=False)  # a file or URI, not looked at here; shells complete it


class ReportFile(click.Path):
    """The name of a report; another suffix is refused before any work is done."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if not str(value).lower().endswith(REPORTS):
            self.fail("must end in .html, .json or .md", param, ctx)
        return str(value)


class Share(click.ParamType):
    """A share: ``0.1%``, ``0.001``."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            return check_share("tulle", "share", value)
        except ParameterError as error:
            self.fail(str(error.named("it")), param, ctx)


# Kinds of options: what all of a kind share is said here, once. The last word is the help.


def switch(*words: str, **more: Any) -> Option:
    """Make an option that is there or not; None stands for not, so that a policy may say it."""
    return click.option(*words[:-1], help=words[-1], is_flag=True, **{"default": None, **more})


def file(*words: str, **more: Any) -> Option:
    """Make an option that names a file, which shells complete."""
    return click.option(*words[:-1], help=words[-1], **{"type": FILE, "metavar": "FILE", **more})


def column(*words: str, **more: Any) -> Option:
    """Make an option that names a column."""
    return click.option(*words[:-1], help=words[-1], metavar="COLUMN", **more)


def choice(values: Sequence[str], *words: str, **more: Any) -> Option:
    """Make an option that is one of some words."""
    return click.option(*words[:-1], help=words[-1], type=click.Choice(values), **more)


def whole(*words: str, least: int | None = None, **more: Any) -> Option:
    """Make an option that is a whole number, perhaps of at least so much."""
    kind = int if least is None else click.IntRange(least)
    return click.option(*words[:-1], help=words[-1], type=kind, **more)


def share(*words: str, **more: Any) -> Option:
    """Make an option that is a share: ``0.1%``, ``0.001``."""
    return click.option(*words[:-1], help=words[-1], type=Share(), **more)


_GATES = {
    "linkage": "that a record is joined to its person",
    "copies": "that people's records are copied exactly",
    "inference": "that a secret column is inferred",
    "membership": "that it shows who was in the data",
    "singling-out": "that one person is picked out",
    "reconstruction": "that people's numbers are recovered",
    "homogeneity": "that groups share a secret",
    "earlier": "of all releases together",
    "worst-case": "of the worst case",
}


def gates(*more: str) -> Option:
    """Make the limits of an audit: those of every release, and ``more``."""
    named = [name for name in _GATES if name not in ("earlier", "worst-case") or name in more]

    def adding(command: Any) -> Any:
        told = "Lowest score ratio allowed (trained on release / on original)."
        command = click.option("--min-accuracy-ratio", type=float, help=told)(command)
        for name in reversed(named):
            command = share(f"--max-{name}", f"Limit on the risk {_GATES[name]}.")(command)
        return command

    return adding


source = click.argument("source", type=FILE, metavar="INPUT")
_RELEASE = "Where to write the release: a file, or URI#table."
output = file("-o", "--output", _RELEASE, required=True, metavar="OUTPUT")
policy = file("--policy", "Column roles and parameters (TOML).")
report = file("--report", "Also audit, and write a report: .html, .json or .md.", type=ReportFile())
control = file("--control", "People held out of INPUT (tulle split).")
holdout = share("--holdout", "Keep a share of the people (10%) out of the release, as the control "
                "of the audit.")  # fmt: skip
target = column("--target", "The column that a miner wants to predict.")
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
plain = switch(
    "--plain",
    "Write CSV in the normalised form (commas, UTF-8, 12.5, 2024-07-20), not as INPUT is.",
)
sign_key = file(
    "--sign-key",
    "Sign the manifest with this private key (tulle keygen). Default: TULLE_SIGN_KEY, if set.",
    envvar="TULLE_SIGN_KEY",
)


def _seed(told: str) -> Option:
    return whole(
        "--seed",
        f"{told} Default: the operating system's randomness.",
        least=0,
        envvar="TULLE_SEED",
    )


seed = _seed(
    "Repeat a release exactly. Other users of a machine can read it in a command line: better "
    "in the variable TULLE_SEED."
)
seed_of_attacks = _seed("Repeat the attacks exactly.")
seed_of_split = _seed("Repeat a split exactly.")


def releasing(command: Any) -> Any:
    """Add the options of every command that writes a release."""
    return _with_options(command, output)


def previewing(command: Any) -> Any:
    """Add the same options, for a command that can also run without writing anything."""
    return _with_options(command, file("-o", "--output", _RELEASE, metavar="OUTPUT"))


def _with_options(command: Any, where: Option) -> Any:
    for option in (as_json, force, sign_key, seed, accept_risk, report, policy, where, source):
        command = option(command)
    return command


def require(context: Any, *names: str) -> None:
    """Raise as click does for parameters that are missing."""
    for parameter in context.command.params:
        if parameter.name in names and context.params[parameter.name] is None:
            raise click.MissingParameter(ctx=context, param=parameter)
