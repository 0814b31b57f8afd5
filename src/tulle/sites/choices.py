"""What the sites choose for their columns, checked before anything is made of it.

Choices come from Python, from a policy that a person wrote, or from the command line: a choice of
the wrong shape, for a column that is not there, or against another choice is an error. None is
passed over, since what it was to protect would go out otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tulle.checks import check_choice, check_int, check_real
from tulle.errors import ParameterError, nearest_name
from tulle.sites.columns import PARTS
from tulle.tables.schema import STAY_HOME, Column, Kind

OWNER = "SiteAgreement"
OPTIONS = (
    "ranges", "cuts", "groups", "limits", "values", "alias", "categories", "other", "plain",
    "split", "joint",
)  # fmt: skip
MEASURED = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME)

_MAPPINGS = ("ranges", "limits", "values", "categories", "split")
_LISTS = ("alias", "other", "plain")
_TOGETHER = {("alias", "split"), ("alias", "categories"), ("alias", "joint")}


@dataclass(frozen=True, repr=False)
class Choices:
    """What the sites choose for their columns; see :meth:`SiteAgreement.create`."""

    ranges: Mapping[str, Sequence[Any]]
    cuts: str
    groups: int
    limits: Mapping[str, Sequence[Any]]
    values: Mapping[str, Sequence[int]]
    alias: Collection[str]
    categories: Mapping[str, Collection[Any]]
    other: Collection[str]
    plain: Collection[str]
    split: Mapping[str, float]
    joint: Collection[Sequence[str]]

    def check(self, columns: Sequence[Column]) -> None:
        """Refuses a wrong shape, a column that is not there, a choice against another."""
        check_choice(OWNER, "cuts", self.cuts, ("equal", "uneven"))
        check_int(OWNER, "groups", self.groups, 1, 256)
        self._check_shapes()
        self._check_names([column.name for column in columns])
        self._check_contradictions()
        self._check_kinds({column.name: column for column in columns})

    def _check_shapes(self) -> None:
        for option in _MAPPINGS:
            if not isinstance(getattr(self, option), Mapping):
                raise ParameterError(f"'{option}' must be a mapping of column names")
        for option in _LISTS:
            if not _is_list(getattr(self, option)):
                raise ParameterError(f"'{option}' must be a list of column names")
        for option in ("limits", "values", "categories"):
            for name, given in getattr(self, option).items():
                if not _is_list(given) or not len(given):
                    raise ParameterError(f"'{option}' needs a list for column '{name}'")
        for name, ends in self.ranges.items():
            if not _is_list(ends) or len(ends) != 2:
                raise ParameterError(f"'ranges' needs (low, high) for column '{name}'")
        pairs = self.joint if _is_list(self.joint) else [self.joint]
        if not all(_is_list(pair) and len(set(pair)) == len(pair) == 2 for pair in pairs):
            raise ParameterError("'joint' takes pairs of two different columns")
        for name, share in self.split.items():
            check_real(OWNER, f"split['{name}']", share, 1 / PARTS, 1)

    def _check_names(self, names: Sequence[str]) -> None:
        for option in (*_MAPPINGS, "alias", "plain", "joint"):
            for name in self._named(option):
                if name not in names:
                    hint = nearest_name(str(name), names)
                    raise ParameterError(f"'{option}' names no column '{name}': {hint}")
        for name in self.other:
            if name not in self.categories:
                raise ParameterError(f"'other' names '{name}', which has no 'categories'")
        for name in self.values:
            if name not in self.limits:
                raise ParameterError(f"'values' of column '{name}' need its 'limits' too")
        if len(set(self._named("joint"))) < 2 * len(self.joint):
            raise ParameterError("a column can be in one pair of 'joint' only")

    def _check_contradictions(self) -> None:
        ways = ("alias", "categories", "joint", "limits", "plain", "split")
        for first, second in combinations(ways, 2):
            both = set(self._named(first)) & set(self._named(second))
            if both and (first, second) not in _TOGETHER:
                raise ParameterError(
                    f"column '{min(both)}' cannot be in both '{first}' and '{second}'"
                )

    def _check_kinds(self, columns: Mapping[str, Column]) -> None:
        for option in ("ranges", "limits"):
            for name in getattr(self, option):
                if columns[name].kind not in MEASURED:
                    raise ParameterError(f"'{option}' are for numbers and dates, not for '{name}'")
        for name in set(self.split) - set(self.alias):
            if columns[name].kind in MEASURED:
                raise ParameterError(f"'split' is for aliases, and '{name}' is a number or date")
        for option in ("alias", "joint", "plain", "split"):
            for name in self._named(option):
                if columns[name].role in STAY_HOME:
                    raise ParameterError(
                        f"'{option}' names '{name}', which does not go out: its role is "
                        f"{columns[name].role}"
                    )

    def _named(self, option: str) -> list[str]:
        given = getattr(self, option)
        return [name for pair in given for name in pair] if option == "joint" else list(given)


def merged(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Choices of a policy, and before them those that are given: of a mapping column by column."""
    both = {**kept, **given}
    for option in set(kept) & set(given) & set(_MAPPINGS):
        if not isinstance(kept[option], Mapping):
            raise ParameterError(f"'{option}' must be a mapping of column names")
        both[option] = {**kept[option], **given[option]}
    return both


def _is_list(given: Any) -> bool:
    return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)
