"""From a schema and the choices of the sites to coded columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tulle.checks import check_choice, check_real
from tulle.errors import ParameterError
from tulle.keys import SecretKey
from tulle.sites import dates, grading
from tulle.sites.choices import MEASURED, OWNER, Choices
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
from tulle.sites.texts import text_of
from tulle.tables.schema import STAY_HOME, Column, Kind

_MOMENTS = ("date", "time", "timestamp")  # the range says which


def code_columns(schema: Any, choices: Choices, key: SecretKey) -> list[Coded]:
    """The coded columns of an agreement, drawn with the key."""
    columns = as_columns(schema)
    choices.check(columns)
    paired = {name: pair for pair in choices.joint for name in pair}
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
        entries = schema if isinstance(schema, Iterable) else ()
    columns = list(entries)
    if not columns or not all(isinstance(column, Column) for column in columns):
        raise ParameterError(
            "the schema must be a policy, columns of a policy, or a mapping such as "
            "{'age': 'integer', 'illness': 'category'}"
        )
    return columns


def _kind(name: str, kind: Any) -> Kind:
    words = [*(str(word) for word in Kind), *_MOMENTS]
    chosen = check_choice(OWNER, f"schema['{name}']", str(kind), words)
    return Kind.DATETIME if chosen in _MOMENTS else Kind(chosen)


def _code(column: Column, choices: Choices, key: SecretKey) -> Coded:
    name, role, type = column.name, column.role, TYPE_OF_KIND[column.kind]
    if role in STAY_HOME:
        return Dropped(name, type, role)
    if name in choices.plain:
        return Plain(name, type, role)
    if name in choices.categories:
        listed = _listed(column, choices.categories[name])
        return Aliased(name, type, role, categories=listed, other=name in choices.other)
    if column.kind not in MEASURED or name in choices.alias:
        return Aliased(name, type, role, split=choices.split.get(name))
    return _graded(column, choices, key)


def _listed(column: Column, categories: Collection[Any]) -> tuple[str, ...]:
    if any(value is None or value != value for value in categories):
        raise ParameterError(f"'categories' lists a missing value for column '{column.name}'")
    listed = tuple(dict.fromkeys(text_of(value) for value in categories))
    if column.kind is Kind.BOOLEAN and not {"true", "false"}.issuperset(listed):
        raise ParameterError(
            f"'categories' of the boolean column '{column.name}' are true and false: agree on it "
            "as category, if it has words of its own"
        )
    return listed


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
    given = tuple(choices.limits.get(name, ()))
    ends = (given[0], given[-1]) if given else tuple(choices.ranges.get(name, column.bounds or ()))
    type = _type(column, given or ends)
    low, high = (_number(name, end, type) for end in ends)
    if not low < high:
        raise ParameterError(f"column '{name}': its range must go from a lower to a higher value")
    draft = Graded(name, type, column.role, low, high, choices.cuts, choices.groups)
    if not given:
        return _exact(_drawn(draft, key))
    limits = tuple(_number(name, limit, type) for limit in given)
    values = tuple(choices.values.get(name, range(1, len(limits))))
    if not all(isinstance(value, int | np.integer) for value in values):
        raise ParameterError(f"column '{name}': group numbers must be increasing integers")
    grading.scale(limits, values, name)
    whole = tuple(int(value) for value in values)
    return _exact(replace(draft, cuts="given", groups=len(whole), limits=limits, values=whole))


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
    if not math.isfinite(2 * (column.high - column.low)):
        raise ParameterError(f"column '{column.name}': its range is too wide for codes: alias it")
    if column.cuts == "equal":
        drawn = grading.equal_scale(*ends, uniforms, whole=column.type in WHOLE)
    else:
        drawn = grading.uneven_scale(*ends, uniforms)
    # ticks are so many that rounding their limits hides nothing
    limits = np.round(drawn.limits) if column.type in CLOCKS else drawn.limits
    if (np.diff(limits) <= 0).any():
        raise ParameterError(
            f"column '{column.name}': its range is too narrow for {column.groups} groups"
        )
    return replace(
        column,
        limits=tuple(float(limit) for limit in limits),
        values=tuple(int(value) for value in drawn.values),
    )


def _type(column: Column, ends: Sequence[Any]) -> ValueType:
    if column.kind is not Kind.DATETIME:
        return TYPE_OF_KIND[column.kind]
    if any(isinstance(end, int | float) for end in ends):
        raise ParameterError(f"column '{column.name}': the ends of its range must be dates")
    return dates.type_of_ends(column.name, ends)


def _number(name: str, end: Any, type: ValueType) -> float:
    if isinstance(end, int | float | np.number) and not isinstance(end, bool):
        number = check_real(OWNER, f"ranges['{name}']", end)
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
        if column.kind in MEASURED
        and column.role not in STAY_HOME
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
