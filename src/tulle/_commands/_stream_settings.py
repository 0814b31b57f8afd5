"""What a stream was asked to do: options, and columns once the initial records have arrived."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tulle._checks import check_choice, check_flag, check_int, check_real, check_share
from tulle._choices import SNAPSHOT_FORMATS, SNAPSHOTS
from tulle._commands._columns import (
    class_column,
    column_of,
    plan_columns,
    refuse_two_roles,
    with_drawn_levels,
    with_roles,
)
from tulle._commands._options import Options, resolve
from tulle._random import as_generator
from tulle._types import FilePath
from tulle.errors import ParameterError
from tulle.table._precision import EXACT
from tulle.table.policy import COLUMN_OPTIONS
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle.stream.condenser import StreamCondenser


@dataclass(frozen=True)
class Streaming(Options):
    k: int = 10
    init: int = 1_000
    split: str = "paper"
    grouping: str = "fast"
    synthesis: str = "shape"
    snapshots: str = "bounded"
    every: int | None = None
    seconds: float | None = None
    rows: int = 1_000_000
    checkpoint: float = 5.0
    seed: int | None = None
    snapshot_format: str = "parquet"
    max_rejects: float | None = None
    strict_keys: bool = False

    def check(self) -> None:
        """Raise for impossible values, before anything is read."""
        from tulle.stream.condenser import StreamCondenser

        names = ("k", "split", "grouping", "synthesis")
        with self.naming():
            StreamCondenser(**{n: getattr(self, n) for n in names})._check_parameters()
            check_choice("stream", "snapshots", self.snapshots, SNAPSHOTS)
            for name, least, most in (
                ("init", 2, EXACT), ("every", 1, EXACT), ("rows", 1, EXACT), ("seed", 0, None),
            ):  # fmt: skip
                if getattr(self, name) is not None:
                    check_int("stream", name, getattr(self, name), least, most)
            if self.seconds is not None:
                check_real("stream", "seconds", self.seconds, 0.1)
            check_real("stream", "checkpoint", self.checkpoint, 0)
            check_choice("stream", "snapshot_format", self.snapshot_format, SNAPSHOT_FORMATS)
            check_flag("stream", "strict_keys", self.strict_keys)
            if self.max_rejects is not None:
                check_share("stream", "max_rejects", self.max_rejects)


_FIXED = ("k", "split", "synthesis", "snapshots")  # may not change during a stream
_OF_COLUMNS = [name for name in COLUMN_OPTIONS if name != "reason"]  # neither may these


@dataclass
class Settings:
    """What a stream was asked to do, and what it must keep to once it has begun."""

    policy: FilePath | None
    target: str | None
    levels: str | None
    person: str | None
    given: dict[str, Any]
    options: Streaming = field(init=False)
    columns: list[Column] = field(default_factory=list)
    class_column: str | None = None  # a target that is a quantity is condensed with the others
    begun: dict[str, Any] = field(default_factory=dict)  # what must stay as it is

    def __post_init__(self) -> None:
        refuse_two_roles(self.target, self.levels, self.person)
        options = resolve("stream", Streaming(), self.policy, self.given)
        options.check()
        self.options = replace(options, init=max(options.init, 2 * options.k))
        self.rng = as_generator(options.seed)  # of levels that are drawn: afresh where it resumes

    def declared(self) -> list[Column]:
        return list(self.options.policy.columns)

    def leveled(self, records: pl.DataFrame) -> pl.DataFrame:
        """Return the records with their levels, if these are drawn."""
        return with_drawn_levels(records, self.levels, self.rng)[0]

    def plan(self, records: pl.DataFrame) -> pl.DataFrame:
        """Settle the roles of the columns, from the policy or from the initial records.

        Return these with their levels, if they are drawn.
        """
        records, levels = with_drawn_levels(records, self.levels, self.rng)
        planned = plan_columns(records, self.options, target=self.target, levels=levels)
        columns = with_roles(planned, None, None, self.person)
        in_policy = {column.name: column.role.value for column in self.declared()}
        self.columns = [  # what only looks like a survey weight is drawn like any number
            replace(column, role=Role.QUASI)
            if column.role is Role.WEIGHT and column.name not in in_policy
            else column
            for column in columns
        ]
        classes = class_column(self.columns, records)
        self.class_column = None if classes is None else classes.name
        self.begun = {
            "fixed": {name: getattr(self.options, name) for name in _FIXED},
            "columns": [
                {"column": c.to_json(), "in_policy": in_policy.get(c.name)} for c in self.columns
            ],
            "classes": self.class_column,
            "drawn": None if levels == self.levels else self.levels,
        }
        return records

    @property
    def level_column(self) -> str | None:
        level = column_of(self.columns, Role.LEVEL)
        return None if level is None else level.name

    @property
    def person_column(self) -> str | None:
        """The column that names the person of each record, where people have several."""
        person = column_of(self.columns, Role.PERSON)
        return None if person is None else person.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The options that a release may show: not the seed, nor a k where levels rule."""
        unused = {"seed"} if self.level_column is None else {"seed", "k"}
        return {n: value for n, value in self.options.values().items() if n not in unused}

    def condenser(self, initial: int, seed: int | None) -> StreamCondenser:
        """Return a stream with these settings that begins with so many records."""
        from tulle.stream.condenser import StreamCondenser

        options = self.options
        return StreamCondenser(
            options.k,
            init_size=max(2, initial),
            split=options.split,
            grouping=options.grouping,
            synthesis=options.synthesis,
            classwise=self.class_column is not None,
            rules=options.policy.rules,
            columns=[column for column in self.columns if column.name != self.class_column],
            random_state=seed,
        )

    def parted(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series | None]:
        """Return the records as a stream takes them, and their classes, if there are some."""
        name = self.class_column
        return (frame, None) if name is None else (frame.drop(name), frame[name])

    def to_json(self) -> dict[str, Any]:
        return self.begun

    def restore(self, entries: dict[str, Any]) -> None:
        """Continue as before; refuse to change what the groups already rest on."""
        for name, value in entries["fixed"].items():
            if name in self.options.words and getattr(self.options, name) != value:
                raise _changed(f"{name}={value}", self._instead(name))
        self.begun = entries
        self.options = replace(self.options, **entries["fixed"])
        self.columns = [Column.from_json(entry["column"]) for entry in entries["columns"]]
        self.class_column = entries["classes"]
        drawn = entries.get("drawn")
        self.levels = self.levels or drawn
        named = self.level_column if drawn and self.levels == drawn else self.levels
        asked_for = {Role.TARGET: self.target, Role.LEVEL: named, Role.PERSON: self.person}
        for role, asked in asked_for.items():
            known = column_of(self.columns, role)
            if asked is not None and (known is None or known.name != asked):
                raise ParameterError(
                    f"this stream did not start with '{asked}' as its {role}: start a new state"
                )
        in_policy = {entry["column"]["name"]: entry["in_policy"] for entry in entries["columns"]}
        begun = {column.name: column for column in self.columns}
        self._refuse_other_columns(begun, in_policy, named)

    def _instead(self, name: str) -> str:
        """Say where a value that differs from the saved state comes from."""
        source = "the command" if self.options.on_command_line(name) else self.policy
        return f"{getattr(self.options, name)} in {source}"

    def _refuse_other_columns(
        self, begun: dict[str, Column], in_policy: dict[str, Any], levels: str | None
    ) -> None:
        """Raise if a policy describes columns differently from when the stream began.

        A role that --target, --levels or --person replaced in the beginning may stay in the policy:
        the same policy continues, whether or not the option is given again.
        """
        declared = self.options.described(begun)
        asked = self.target, levels, self.person
        for column in with_roles(declared, *asked) if declared else []:
            for word in _OF_COLUMNS:
                old, new = (getattr(one, word) for one in (begun[column.name], column))
                if new != old and not (word == "role" and new == in_policy[column.name]):
                    raise _changed(
                        f"{_shown(old)} as the {word} of column '{column.name}'",
                        f"{_shown(new)} in {self.policy}",
                    )


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _changed(before: str, now: str) -> ParameterError:
    return ParameterError(
        f"this stream started with {before}, not {now}: this cannot change during a stream. "
        "Change it back, or start a new state"
    )
