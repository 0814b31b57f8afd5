"""What a stream was asked to do: options, and columns once the initial records are there."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tulle._checks import check_choice, check_int, check_real
from tulle._choices import DISTRIBUTIONS, GROUPINGS, SNAPSHOTS, SPLITS
from tulle._commands._columns import column_of, plan_columns, refuse_two_roles, with_roles
from tulle.errors import ParameterError, PolicyError, nearest_name
from tulle.table._numbers import EXACT
from tulle.table.policy import load_policy
from tulle.table.schema import Column, Kind, Role

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
_CHOICES = {
    "split": SPLITS,
    "grouping": GROUPINGS,
    "synthesis": DISTRIBUTIONS,
    "snapshots": SNAPSHOTS,
}
_LEAST_COUNT = {"k": 2, "init": 2, "every": 1, "rows": 1}
_LEAST_SECONDS = {"seconds": 0.1, "checkpoint": 0.0}
_FIXED = ("k", "split", "synthesis", "snapshots")  # may not change while a stream goes on
_OF_COLUMNS = ("kind", "role", "weight", "bounds")  # neither may these
_CLASSES = (Kind.CATEGORY, Kind.BOOLEAN, Kind.TEXT, Kind.INTEGER)


@dataclass
class Settings:
    """Options asked for, else the policy's, else the defaults."""

    policy: str | os.PathLike[str] | None
    target: str | None
    levels: str | None
    given: dict[str, Any]
    told: dict[str, Any] = field(init=False)  # by an option or by the policy, no default
    wanted: dict[str, Any] = field(init=False)
    columns: list[Column] = field(default_factory=list)
    begun: dict[str, Any] = field(default_factory=dict)  # what must stay as it is

    def __post_init__(self) -> None:
        refuse_two_roles(self.target, self.levels)
        self.told = _of_policy(self.policy) | _of_options(self.given)
        self.wanted = DEFAULTS | self.told
        self.wanted["init"] = max(self.wanted["init"], 2 * self.wanted["k"])

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
        in_policy = {column.name: column.role.value for column in self.declared()}
        self.begun = {
            "fixed": {name: self.wanted[name] for name in _FIXED},
            "columns": [[*_entry(c), in_policy.get(c.name)] for c in self.columns],
        }

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

    @property
    def parameters(self) -> dict[str, Any]:
        """What a release may say of the options: not the seed, nor a k where levels rule."""
        unused = {"seed"} if self.level_column is None else {"seed", "k"}
        return {name: value for name, value in self.wanted.items() if name not in unused}

    def to_json(self) -> dict[str, Any]:
        """What must stay as it is while the stream goes on."""
        return self.begun

    def restore(self, entries: dict[str, Any]) -> None:
        """Goes on as before; refuses to change what the groups already rest on."""
        for name, value in entries["fixed"].items():
            if self.told.get(name, value) != value:
                raise _changed(f"{name}={value}", self._instead(name))
        self.begun = entries
        self.wanted |= entries["fixed"]
        self.columns = [_column(entry) for entry in entries["columns"]]
        for role, asked in ((Role.TARGET, self.target), (Role.LEVEL, self.levels)):
            known = column_of(self.columns, role)
            if asked is not None and (known is None or known.name != asked):
                raise ParameterError(
                    f"this stream did not begin with '{asked}' as its {role}: start a new state"
                )
        self._refuse_other_columns({entry[0]: entry for entry in entries["columns"]})

    def _instead(self, name: str) -> str:
        """Where another value than that of the state comes from."""
        source = "the command" if self.given.get(name) is not None else self.policy
        return f"{self.told[name]} in {source}"

    def _refuse_other_columns(self, begun: dict[str, list[Any]]) -> None:
        """Refuses a policy that says other things of columns than the stream began with.

        A role that --target or --levels replaced in the beginning may stay in the policy: the
        same policy goes on, whether or not the option is given again.
        """
        if self.policy is None:
            return
        declared = load_policy(self.policy, begun).resolve(begun)
        for column in with_roles(declared, self.target, self.levels) if declared else []:
            _, *before = begun[column.name]
            in_policy = before[-1]
            # states of earlier versions hold kind and role only: what is not there is not compared
            for word, old, new in zip(_OF_COLUMNS, before, _entry(column)[1:], strict=False):
                if new != old and not (word == "role" and new == in_policy):
                    raise _changed(
                        f"{_shown(old)} as the {word} of column '{column.name}'",
                        f"{_shown(new)} in {self.policy}",
                    )


def _of_policy(path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """The options in the section [stream] of a policy."""
    if path is None:
        return {}
    policy = load_policy(path)
    try:
        told = policy.options("stream", DEFAULTS)
        return {name: _checked("[stream]", name, value) for name, value in told.items()}
    except (ParameterError, PolicyError) as error:
        raise PolicyError(f"{path}: {error}") from None


def _of_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of the command; None stands for one that is not given."""
    for name in given:
        if name not in DEFAULTS:
            hint = nearest_name(name, DEFAULTS)
            raise ParameterError(f"tulle stream has no option '{name}': {hint}")
    asked = {name: value for name, value in given.items() if value is not None}
    return {name: _checked("tulle stream", name, value) for name, value in asked.items()}


def _checked(owner: str, name: str, value: Any) -> Any:
    """A value that its option can have: a wrong word must not pass for 'the other choice'."""
    if name in _CHOICES:
        return check_choice(owner, name, value, _CHOICES[name])
    if name in _LEAST_COUNT:
        return check_int(owner, name, value, _LEAST_COUNT[name], EXACT)
    if name == "seed":
        return check_int(owner, name, value, 0)
    if isinstance(value, int) and abs(value) > EXACT:  # may be too large for a float
        value = math.inf if value > 0 else -math.inf
    return check_real(owner, name, value, _LEAST_SECONDS[name])


def _entry(column: Column) -> list[Any]:
    """A column for JSON; first its name, then what ``_OF_COLUMNS`` lists."""
    bounds = None if column.bounds is None else list(column.bounds)
    return [column.name, column.kind.value, column.role.value, column.weight, bounds]


def _column(entry: list[Any]) -> Column:
    name, kind, role, *rest = entry
    weight, bounds, _ = rest or (1.0, None, None)
    limits = None if bounds is None else (bounds[0], bounds[1])
    return Column(name, Kind(kind), Role(role), weight, limits)


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _changed(before: str, now: str) -> ParameterError:
    return ParameterError(
        f"this stream began with {before}, not {now}: it cannot change while the stream goes on. "
        "Put it back, or start a new state"
    )
