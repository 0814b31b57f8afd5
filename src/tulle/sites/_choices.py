"""What the sites choose for their columns, and the coded columns that follow from it.

Choices come from Python, from a policy that a person wrote, or from the command line, and are
checked before anything is made of them: a choice of the wrong shape, for a column that is not
there, or against another choice is an error. None is passed over, since what it was to protect
would go out otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import Any

import numpy as np

from tulle._checks import check_choice, check_int, check_real
from tulle._choices import CUTS
from tulle.errors import ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites import _columns as grading
from tulle.sites import _values as dates
from tulle.sites._columns import (
    PARTS,
    ROUNDS_BACK,
    Aliased,
    Coded,
    Dropped,
    Graded,
    Matched,
    Plain,
    refuse_codes,
)
from tulle.sites._values import text_of
from tulle.table._precision import EXACT
from tulle.table.schema import Column, Kind

OWNER = "SiteAgreement"
MEASURED = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME)
_MAPPINGS = ("ranges", "limits", "values", "categories", "split")
_LISTS = ("alias", "other", "plain")
_TOGETHER = {("alias", "split"), ("alias", "categories")}


@dataclass(frozen=True, repr=False)
class Choices:
    """What the sites choose for their columns, as :meth:`SiteAgreement.create` describes it."""

    ranges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    cuts: str = "equal"
    groups: int = 5
    limits: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    values: Mapping[str, Sequence[int]] = field(default_factory=dict)
    alias: Collection[str] = ()
    categories: Mapping[str, Collection[Any]] = field(default_factory=dict)
    other: Collection[str] = ()
    plain: Collection[str] = ()
    split: Mapping[str, float] = field(default_factory=dict)
    match: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Choices:
        """Return choices by name; None stands for the default."""
        for name in given:
            if name not in OPTIONS:
                raise ParameterError(f"unknown option '{name}': {nearest_name(name, OPTIONS)}")
        return cls(**{name: value for name, value in given.items() if value is not None})

    def check(self, columns: Sequence[Column]) -> None:
        """Raise for a wrong shape, an unknown column, or choices that contradict each other."""
        check_choice(OWNER, "cuts", self.cuts, CUTS)
        check_int(OWNER, "groups", self.groups, 1, 256)
        self._check_shapes()
        self._check_names([column.name for column in columns])
        ways = ("alias", "categories", "limits", "match", "plain", "split")
        for first, second in combinations(ways, 2):
            both = set(self._named(first)) & set(self._named(second))
            if both and (first, second) not in _TOGETHER:
                raise ParameterError(
                    f"column '{min(both)}' cannot be in both '{first}' and '{second}'"
                )
        self._check_kinds({column.name: column for column in columns})

    def _check_shapes(self) -> None:
        for option in _MAPPINGS:
            if not isinstance(getattr(self, option), Mapping):
                raise wrong_choice(option, "must be a mapping of column names")
        for option in _LISTS:
            if not _is_list(getattr(self, option)):
                raise wrong_choice(option, "must be a list of column names")
        for option in ("limits", "values", "categories"):
            for name, given in getattr(self, option).items():
                if not _is_list(given) or not len(given):
                    raise wrong_choice(option, f"needs a list for column '{name}'")
        for name, ends in self.ranges.items():
            if not _is_list(ends) or len(ends) != 2:
                raise wrong_choice("ranges", f"needs (low, high) for column '{name}'")
        if not isinstance(self.match, str | None):
            raise wrong_choice("match", "must be the name of one column")
        for name, share in self.split.items():
            check_real(OWNER, f"split['{name}']", share, 1 / PARTS, 1)

    def _check_names(self, names: Sequence[str]) -> None:
        for option in (*_MAPPINGS, "alias", "plain", "match"):
            for name in self._named(option):
                if name not in names:
                    hint = nearest_name(str(name), names)
                    raise wrong_choice(option, f"names '{name}', which is not a column: {hint}")
        for name in self.other:
            if name not in self.categories:
                raise wrong_choice("other", f"names '{name}', which is not in 'categories'")
        for name in self.values:
            if name not in self.limits:
                raise wrong_choice("values", f"of column '{name}' need its 'limits' too")

    def _check_kinds(self, columns: Mapping[str, Column]) -> None:
        for option in ("ranges", "limits"):
            for name in getattr(self, option):
                if columns[name].kind not in MEASURED:
                    raise wrong_choice(option, f"are for numbers and dates, not for '{name}'")
        for name in set(self.split) - set(self.alias):
            if columns[name].kind in MEASURED:
                raise wrong_choice("split", f"is for aliases, but '{name}' is a number or date")
        for option in ("alias", "plain", "split"):
            for name in self._named(option):
                if not columns[name].role.released:
                    raise wrong_choice(
                        option,
                        f"names '{name}', which is not released: its role is {columns[name].role}",
                    )

    def _named(self, option: str) -> list[str]:
        given = getattr(self, option)
        if option == "match":
            return [] if given is None else [given]
        return list(given)


OPTIONS = tuple(part.name for part in fields(Choices))


def merged(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the choices of a policy with those given, which win; mappings are merged by column."""
    both = {**kept, **given}
    for option in set(kept) & set(given) & set(_MAPPINGS):
        if not isinstance(kept[option], Mapping):
            raise wrong_choice(option, "must be a mapping of column names")
        both[option] = {**kept[option], **given[option]}
    return both


def wrong_choice(option: str, predicate: str) -> ParameterError:
    """Return the error for an option that is given in a wrong way."""
    return ParameterError(predicate, parameter=option, subject=f"'{option}'")


def _is_list(given: Any) -> bool:
    return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)


# From a schema and the choices of the sites to coded columns.

_MOMENTS = ("date", "timestamp")  # the range says which


def code_columns(schema: Any, choices: Choices, key: SecretKey) -> list[Coded]:
    """Return the coded columns of an agreement, drawn with the key."""
    columns = as_columns(schema)
    choices.check(columns)
    _check_ranges(columns, choices)
    return [_code(column, choices, key) for column in columns]


def redraw(column: Coded, key: SecretKey) -> Coded:
    """Return the column under another key: secret cut points are drawn again, the rest is kept."""
    if not isinstance(column, Graded) or column.cuts == "given":
        return column
    return _exact(_drawn(column, key))


def as_columns(schema: Any) -> list[Column]:
    """Return the columns of a policy, a sequence of columns, or a mapping of names to kinds."""
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
            "the schema must be a policy, a list of columns, or a mapping such as {'age': "
            "'integer', 'illness': 'category'}"
        )
    return columns


def _kind(name: str, kind: Any) -> Kind:
    words = [*(str(word) for word in Kind), *_MOMENTS]
    chosen = check_choice(OWNER, f"schema['{name}']", str(kind), words)
    return Kind.DATETIME if chosen in _MOMENTS else Kind(chosen)


def _code(column: Column, choices: Choices, key: SecretKey) -> Coded:
    name, kind, role = column.name, column.kind, column.role
    if name == choices.match:
        return Matched(name, kind, role)
    if not role.released:
        return Dropped(name, kind, role)
    if name in choices.plain:
        return Plain(name, kind, role)
    if name in choices.categories:
        listed = _listed(column, choices.categories[name])
        return Aliased(name, kind, role, categories=listed, other=name in choices.other)
    if kind not in MEASURED or name in choices.alias:
        return Aliased(name, kind, role, split=choices.split.get(name))
    return _graded(column, choices, key)


def _listed(column: Column, categories: Collection[Any]) -> tuple[str, ...]:
    if any(value is None or value != value for value in categories):
        raise ParameterError(f"'categories' lists a missing value for column '{column.name}'")
    listed = tuple(dict.fromkeys(text_of(value) for value in categories))
    if column.kind is Kind.BOOLEAN and not {"true", "false"}.issuperset(listed):
        raise ParameterError(
            f"'categories' of the boolean column '{column.name}' must be true and false: if it "
            "has words of its own, agree on it as category"
        )
    return listed


def _graded(column: Column, choices: Choices, key: SecretKey) -> Graded:
    refuse_codes(column)
    name = column.name
    given = tuple(choices.limits.get(name, ()))
    ends = (given[0], given[-1]) if given else tuple(choices.ranges.get(name, column.bounds or ()))
    moment = ""
    if column.kind is Kind.DATETIME:
        if any(isinstance(end, int | float) for end in given or ends):
            raise ParameterError(f"column '{name}': the ends of its range must be dates")
        moment = dates.moment_of_ends(given or ends)
    draft = Graded(
        name, column.kind, column.role, cuts=choices.cuts, groups=choices.groups, moment=moment
    )
    low, high = (_number(draft, end) for end in ends)
    if not low < high:
        raise ParameterError(f"column '{name}': its range must go from a lower to a higher value")
    draft = replace(draft, low=low, high=high)
    if not given:
        return _exact(_drawn(draft, key))
    limits = tuple(_number(draft, limit) for limit in given)
    values = tuple(choices.values.get(name, range(1, len(limits))))
    if not all(isinstance(value, int | np.integer) for value in values):
        raise ParameterError(f"column '{name}': group numbers must be increasing integers")
    grading.scale(limits, values, name)
    whole = tuple(int(value) for value in values)
    return _exact(replace(draft, cuts="given", groups=len(whole), limits=limits, values=whole))


def _exact(column: Graded) -> Graded:
    """Count time stamps in the finest ticks that come back exactly over their range."""
    while column.ticks and column.tolerance >= ROUNDS_BACK and column.tick < 1_000_000:
        column = replace(
            column,
            tick=column.tick * 1000,
            low=math.ceil(column.low / 1000),
            high=math.floor(column.high / 1000),
            limits=tuple(float(round(limit / 1000)) for limit in column.limits),
        )
    if column.whole and column.tolerance >= ROUNDS_BACK:
        raise ParameterError(
            f"column '{column.name}': its range is too wide for exact codes: use aliases instead "
            f"(alias=['{column.name}'])"
        )
    return column


def _drawn(column: Graded, key: SecretKey) -> Graded:
    """Draw secret cut points and group numbers from the key."""
    secret = key.derive(f"sites/cuts/{column.name}", 8 * (2 * column.groups + 2))
    uniforms = np.frombuffer(secret, dtype="<u8").astype(np.float64) / 2.0**64
    ends = (column.low, column.high, column.groups)
    if not math.isfinite(2 * (column.high - column.low)):
        raise ParameterError(
            f"column '{column.name}': its range is too wide for codes: use aliases"
        )
    if column.cuts == "equal":
        drawn = grading.equal_scale(*ends, uniforms, whole=column.whole)
    else:
        drawn = grading.uneven_scale(*ends, uniforms)
    # ticks are so many that rounding their limits hides nothing
    limits = np.round(drawn.limits) if column.ticks else drawn.limits
    if (np.diff(limits) <= 0).any():
        raise ParameterError(
            f"column '{column.name}': its range is too narrow for {column.groups} groups"
        )
    return replace(
        column,
        limits=tuple(float(limit) for limit in limits),
        values=tuple(int(value) for value in drawn.values),
    )


def _number(column: Graded, end: Any) -> float:
    name = column.name
    if isinstance(end, int | float | np.number) and not isinstance(end, bool):
        number = check_real(OWNER, f"ranges['{name}']", end)
    elif not column.moment:
        raise ParameterError(f"column '{name}': the ends of its range must be numbers")
    else:
        return float(dates.as_number(end, column.moment))
    if column.whole and abs(number) > EXACT:
        raise ParameterError(f"column '{name}': whole numbers beyond 2**53 have no exact codes")
    return number


def _check_ranges(columns: Sequence[Column], choices: Choices) -> None:
    skip = {*choices.alias, *choices.plain, *choices.categories, choices.match}
    bare = [
        column.name
        for column in columns
        if column.kind in MEASURED
        and column.role.released
        and column.name not in skip
        and column.name not in choices.ranges
        and column.name not in choices.limits
        and column.bounds is None
    ]
    if bare:
        names = ", ".join(f"'{name}'" for name in bare)
        raise ParameterError(
            f"{names}: numbers and dates need a public range "
            f"(ranges={{'{bare[0]}': (low, high)}}, --range {bare[0]}=LOW..HIGH), or must be "
            "listed in 'alias' or 'plain'"
        )
