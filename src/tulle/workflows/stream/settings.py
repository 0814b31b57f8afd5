"""What a stream was asked to do: options, and columns once the initial records are there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tulle.errors import ParameterError
from tulle.tables.policy import load_policy
from tulle.tables.schema import Column, Kind, Role
from tulle.workflows.table_policy import column_of, plan_columns

DEFAULTS: dict[str, Any] = {
    "k": 10,
    "init": 1_000,
    "split": "paper",
    "grouping": "fast",
    "synthesis": "uniform",
    "snapshots": "bounded",
    "every": None,
    "seconds": None,
    "rows": 1_000_000,
    "checkpoint": 5.0,
    "seed": None,
}
_FIXED = ("k", "split", "synthesis", "snapshots")  # may not change while a stream goes on
_CLASSES = (Kind.CATEGORY, Kind.BOOLEAN, Kind.TEXT, Kind.INTEGER)


@dataclass
class Settings:
    """Options asked for, else the policy's, else the defaults."""

    policy: str | os.PathLike[str] | None
    target: str | None
    levels: str | None
    given: dict[str, Any]
    wanted: dict[str, Any] = field(init=False)
    columns: list[Column] = field(default_factory=list)

    def __post_init__(self) -> None:
        told = {}
        if self.policy is not None:
            told = load_policy(self.policy).options("stream", DEFAULTS)
        asked = {name: value for name, value in self.given.items() if value is not None}
        self.wanted = {**DEFAULTS, **told, **asked}
        self.wanted["init"] = max(int(self.wanted["init"]), 2 * int(self.wanted["k"]))

    def declared(self) -> list[Column]:
        """What the policy says of the columns."""
        return [] if self.policy is None else list(load_policy(self.policy).columns)

    def plan(self, records: pl.DataFrame) -> None:
        """Settles the roles of the columns, from the policy or from the initial records."""
        self.columns, _ = plan_columns(
            records,
            self.policy,
            "stream",
            DEFAULTS,
            self.given,
            target=self.target,
            levels=self.levels,
        )

    @property
    def class_column(self) -> str | None:
        """The column of classes; a target that is a quantity is condensed with the others."""
        target = column_of(self.columns, Role.TARGET)
        return target.name if target is not None and target.kind in _CLASSES else None

    @property
    def level_column(self) -> str | None:
        """The column of levels."""
        level = column_of(self.columns, Role.LEVEL)
        return None if level is None else level.name

    def to_json(self) -> dict[str, Any]:
        """What must stay as it is while the stream goes on."""
        return {
            "fixed": {name: self.wanted[name] for name in _FIXED},
            "columns": [[c.name, c.kind.value, c.role.value] for c in self.columns],
        }

    def restore(self, entries: dict[str, Any]) -> None:
        """Goes on as before; refuses to change what the groups already rest on."""
        for name, value in entries["fixed"].items():
            if self.given.get(name) not in (None, value):
                raise ParameterError(
                    f"this stream began with {name}={value}: it cannot change while the stream "
                    "goes on. Start a new state"
                )
        self.wanted |= entries["fixed"]
        self.columns = [Column(n, Kind(kind), Role(role)) for n, kind, role in entries["columns"]]
        for role, asked in ((Role.TARGET, self.target), (Role.LEVEL, self.levels)):
            known = column_of(self.columns, role)
            if asked is not None and (known is None or known.name != asked):
                raise ParameterError(
                    f"this stream did not begin with '{asked}' as its {role}: start a new state"
                )
