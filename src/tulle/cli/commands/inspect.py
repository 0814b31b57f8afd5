"""``tulle inspect``: kinds, roles, who stands out, and an initial policy."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@options.file(
    "-o",
    "--output",
    "policy",
    "Where to write the policy (TOML). Default: NAME.policy.toml, if it does not exist.",
    metavar="POLICY",
)
@options.force
@options.as_json
def command(source: str, policy: str | None, force: bool, as_json: bool) -> None:
    """Show the kind and role of each column, and which columns single people out.

    Also proposes rules between columns that hold in at least 99.9 % of the records.

    Writes a policy to edit and to pass to other commands with --policy. No value of the table is
    shown. INPUT is a file (CSV, NDJSON, Parquet, Arrow, Excel) or a database table or query
    (sqlite:///file.db#table, postgresql://host/db#SELECT ...).
    """
    from tulle._commands.inspect import inspect

    with output.working(as_json):
        found = inspect(source, policy, force=force)
    tables = {
        "columns": found.columns if as_json else found.telling,
        "left_out": found.left_out,
        "singled_out_by": found.combinations,
        "rules_between_columns": found.rules,
    }
    output.show(found.summary, title="Inspect", as_json=as_json, tables=tables, notes=found.notes)
