"""From a schema and the choices of the sites to coded columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tulle.checks import check_choice, check_int, check_real
from tulle.errors import ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites import dates, grading
from tulle.sites.cells import text_of
from tulle.sites.columns import (
    CLOCKS,
    EXACT,
    TYPE_OF_KIND,
    WHOLE,
    Aliased,
    Coded,
    Dropped,
    Graded,
    Joint,
    Plain,
    ValueType,
    check_exact,
)
from tulle.tables.schema import Column, Kind, Role

_OWNER = "SiteAgreement"
_STAY_HOME = (Role.IDENTIFIER, Role.IGNORED, Role.LEVEL)
_MOMENTS = ("date", "time", "timestamp")  # the range says which
_MEASURED = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME)


OPTIONS = (
    "ranges", "cuts", "groups", "limits", "values", "alias", "categories", "other", "plain",
    "split", "joint",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Choices:
    """What the sites choose for their columns; see :meth:`SiteAgreement.create`."""

    ranges: dict[str, tuple[Any, Any]]
    cuts: str
    groups: int
    limits: dict[str, Sequence[Any]]
    values: dict[str, Sequence[int]]
    alias: frozenset[str]
    categories: dict[str, Sequence[Any]]
    other: frozenset[str]
    plain: frozenset[str]
    split: dict[str, float]
    joint: tuple[tuple[str, str], ...]

    def check(self, names: Sequence[str]) -> None:
        """Refuses a choice for a column that is not there, or that contradicts another."""
        check_choice(_OWNER, "cuts", self.cuts, ("equal", "uneven"))
        check_int(_OWNER, "groups", self.groups, 1, 256)
        for option in ("ranges", "limits", "values", "alias", "categories", "plain", "split"):
            for name in getattr(self, option):
                _known(option, name, names)
        for pair in self.joint:
            if len(pair) != 2 or pair[0] == pair[1]:
                raise ParameterError("'joint' takes pairs of two different columns")
            for name in pair:
                _known("joint", name, names)
        for name in self.other:
            if name not in self.categories:
                raise ParameterError(f"'other' names '{name}', which has no 'categories'")
        for name, share in self.split.items():
            check_real(_OWNER, f"split['{name}']", share, 0, 1, closed="right")
            if name in self.categories:
                raise ParameterError(f"'{name}' cannot be both split and coded by a table")


def code_columns(schema: Any, choices: Choices, key: SecretKey) -> list[Coded]:
    """The coded columns of an agreement, drawn with the key."""
    columns = as_columns(schema)
    choices.check([column.name for column in columns])
    paired = {name: pair for pair in choices.joint for name in pair}
    if len(paired) < 2 * len(choices.joint):
        raise ParameterError("a column can be in one pair of 'joint' only")
    _check_ranges(columns, choices, paired)
    coded: list[Coded] = []
    by_name = {column.name: column for column in columns}
    for column in columns:
        pair = paired.get(column.name)
        if pair is None:
            coded.append(_code(column, choices, key))
        elif column.name == min(pair, key=list(by_name).index):
            coded.append(_joint(by_name[pair[0]], by_name[pair[1]]))
    return coded


def redraw(column: Coded, key: SecretKey) -> Coded:
    """The column under another key: secret cut points are drawn anew, the rest is kept."""
    if not isinstance(column, Graded) or column.cuts == "given":
        return column
    return _exact(_drawn(column, key))


def as_columns(schema: Any) -> list[Column]:
    """The columns of a policy, of a sequence of columns, or of a mapping of names to kinds."""
    if hasattr(schema, "columns"):
        schema = schema.columns
    if isinstance(schema, Mapping):
        entries: Iterable[Any] = [
            kind if isinstance(kind, Column) else Column(name, _kind(name, kind))
            for name, kind in schema.items()
        ]
    else:
        entries = schema
    columns = list(entries)
    if not columns or not all(isinstance(column, Column) for column in columns):
        raise ParameterError(
            "the schema must be a policy, columns of a policy, or a mapping such as "
            "{'age': 'integer', 'illness': 'category'}"
        )
    return columns


def _kind(name: str, kind: Any) -> Kind:
    words = [*(str(word) for word in Kind), *_MOMENTS]
    chosen = check_choice(_OWNER, f"schema['{name}']", str(kind), words)
    return Kind.DATETIME if chosen in _MOMENTS else Kind(chosen)


def _code(column: Column, choices: Choices, key: SecretKey) -> Coded:
    name, role, type = column.name, column.role, TYPE_OF_KIND[column.kind]
    if role in _STAY_HOME:
        return Dropped(name, type, role)
    if name in choices.plain:
        return Plain(name, type, role)
    if name in choices.categories:
        listed = tuple(dict.fromkeys(text_of(value) for value in choices.categories[name]))
        if not listed:
            raise ParameterError(f"'categories' lists no value for column '{name}'")
        return Aliased(name, type, role, categories=listed, other=name in choices.other)
    if column.kind not in _MEASURED or name in choices.alias:
        return Aliased(name, type, role, split=choices.split.get(name))
    if name in choices.split:
        raise ParameterError(f"'split' is for aliases, and '{name}' is a number or date")
    return _graded(column, choices, key)


def _joint(first: Column, second: Column) -> Joint:
    return Joint(
        f"{first.name}+{second.name}",
        ValueType.TEXT,
        first.role,
        pair=(first.name, second.name),
        types=(TYPE_OF_KIND[first.kind], TYPE_OF_KIND[second.kind]),
    )


def _graded(column: Column, choices: Choices, key: SecretKey) -> Graded:
    name = column.name
    given = choices.limits.get(name)
    ends = (given[0], given[-1]) if given else choices.ranges.get(name) or column.bounds
    assert ends is not None  # _check_ranges saw to it
    type = _type(column, ends)
    low, high = (_number(name, end, type) for end in ends)
    if not low < high:
        raise ParameterError(f"column '{name}': its range must go from a lower to a higher value")
    draft = Graded(name, type, column.role, low, high, choices.cuts, choices.groups)
    if given is None:
        if name in choices.values:
            raise ParameterError(f"'values' of column '{name}' need its 'limits' too")
        return _exact(_drawn(draft, key))
    limits = tuple(_number(name, limit, type) for limit in given)
    values = tuple(int(v) for v in choices.values.get(name, range(1, len(limits))))
    grading.scale(limits, values, name)
    return _exact(replace(draft, cuts="given", groups=len(values), limits=limits, values=values))


def _exact(column: Graded) -> Graded:
    """Time stamps counted in the finest ticks that come back exactly over their range."""
    while column.type in CLOCKS and column.tolerance >= EXACT and column.tick < 1_000_000:
        column = replace(
            column,
            tick=column.tick * 1000,
            low=math.ceil(column.low / 1000),
            high=math.floor(column.high / 1000),
            limits=tuple(float(round(limit / 1000)) for limit in column.limits),
        )
    return check_exact(column)


def _drawn(column: Graded, key: SecretKey) -> Graded:
    """Secret cut points and group numbers from the key."""
    secret = key.derive(f"sites/cuts/{column.name}", 8 * (2 * column.groups + 2))
    uniforms = np.frombuffer(secret, dtype="<u8").astype(np.float64) / 2.0**64
    ends = (column.low, column.high, column.groups)
    if column.cuts == "equal":
        drawn = grading.equal_scale(*ends, uniforms, whole=column.type in WHOLE)
    else:
        drawn = grading.uneven_scale(*ends, uniforms)
    # ticks are so many that rounding their limits hides nothing
    limits = np.round(drawn.limits) if column.type in CLOCKS else drawn.limits
    return replace(
        column,
        limits=tuple(float(limit) for limit in limits),
        values=tuple(int(value) for value in drawn.values),
    )


def _type(column: Column, ends: tuple[Any, Any]) -> ValueType:
    if column.kind is not Kind.DATETIME:
        return TYPE_OF_KIND[column.kind]
    if any(isinstance(end, int | float) for end in ends):
        raise ParameterError(f"column '{column.name}': the ends of its range must be dates")
    return dates.type_of_end(ends[0])


def _number(name: str, end: Any, type: ValueType) -> float:
    if isinstance(end, int | float | np.number) and not isinstance(end, bool):
        number = check_real(_OWNER, f"ranges['{name}']", float(end))
    elif type in (ValueType.INTEGER, ValueType.DECIMAL):
        raise ParameterError(f"column '{name}': the ends of its range must be numbers")
    else:
        return float(dates.as_number(end, type))
    if type in WHOLE and abs(number) > 2**53:
        raise ParameterError(f"column '{name}': whole numbers beyond 2**53 have no exact codes")
    return number


def _check_ranges(columns: Sequence[Column], choices: Choices, paired: Mapping[str, Any]) -> None:
    skip = {*choices.alias, *choices.plain, *choices.categories, *paired}
    bare = [
        column.name
        for column in columns
        if column.kind in _MEASURED
        and column.role not in _STAY_HOME
        and column.name not in skip
        and column.name not in choices.ranges
        and column.name not in choices.limits
        and column.bounds is None
    ]
    if bare:
        names = ", ".join(f"'{name}'" for name in bare)
        raise ParameterError(
            f"{names}: numbers and dates need a public range (ranges={{'{bare[0]}': (low, high)}}, "
            f"--range {bare[0]}=LOW..HIGH), or name them in 'alias' or 'plain'"
        )


def _known(option: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ParameterError(f"'{option}' names no column '{name}': {nearest_name(name, names)}")
