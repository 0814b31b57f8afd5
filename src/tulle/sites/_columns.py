"""How each column of a table is coded: aliased, graded, plain or dropped.

The four classes are the entries of an agreement. They hold its secrets, so their ``repr`` shows
only the name and the kind.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._json import read_json
from tulle._plurals import counted
from tulle._types import Floats
from tulle.errors import DataError, KeyMaterialError, ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites._sealed import read_sealed, write_sealed
from tulle.table._series import refuse_patterns
from tulle.table.schema import Column, Kind, Role

# Graded grouping: numbers to codes that keep their order and hide their scale. The range is cut
# into k groups with limits ``L[0] < L[1] < ... < L[k]``; group i has a whole number ``V[i]``,
# increasing. A number x of group i becomes ``V[i] + (x - L[i]) / (L[i+1] - L[i])``. A limit
# between two groups belongs to the upper one. The overall maximum becomes ``V[k-1] + 0.999``, and
# so that nothing near it is lost or overtakes it, the last 0.2 % of the last group are squeezed
# into what remains below 0.999: the codes stay strictly increasing and invertible.

TOP = 0.999  # the share of the overall maximum
_BEND = 0.998  # from here on the last group is squeezed
_SLOPE = (TOP - _BEND) / (1.0 - _BEND)


class GradeScale(NamedTuple):
    """The secret of one graded column: the limits and the numbers of the groups."""

    limits: Floats
    values: Floats


def scale(limits: Sequence[float], values: Sequence[int], column: str = "column") -> GradeScale:
    """Return checked limits and group numbers."""
    edges = np.asarray(limits, dtype=np.float64)
    numbers = np.asarray(values, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
        raise ParameterError(f"column '{column}': cut points must be two or more finite numbers")
    if (np.diff(edges) <= 0).any():
        raise ParameterError(f"column '{column}': cut points must increase")
    if len(numbers) != len(edges) - 1:
        raise ParameterError(
            f"column '{column}': {len(edges) - 1} groups need as many group numbers. Got "
            f"{len(numbers)}"
        )
    whole = np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()
    if not whole or (np.diff(numbers) < 1).any() or np.abs(numbers).max() > 1e6:
        raise ParameterError(
            f"column '{column}': group numbers must be increasing integers within 1,000,000"
        )
    return GradeScale(edges, numbers)


def grade(numbers: Floats, by: GradeScale) -> Floats:
    """Compute the codes of numbers inside the limits; NaN stays NaN.

    >>> table3 = scale([15, 30, 45, 60, 75, 90], [1, 2, 3, 4, 5])
    >>> grade(np.array([30.0, 40, 70, 25, 15, 58, 73, 37, 90]), table3).round(3).tolist()
    [2.0, 2.667, 4.667, 1.667, 1.0, 3.867, 4.867, 2.467, 5.999]
    """
    last = len(by.values) - 1
    group = np.clip(np.searchsorted(by.limits, numbers, side="right") - 1, 0, last)
    low = by.limits[group]
    share = (numbers - low) / (by.limits[group + 1] - low)
    squeezed = _BEND + (share - _BEND) * _SLOPE
    share = np.where((group == last) & (share > _BEND), squeezed, share)
    # rounding must lift no code into the next group, nor above the maximum's
    ceiling = np.nextafter(by.values + 1.0, -np.inf)
    ceiling[-1] = by.values[-1] + TOP
    codes = np.minimum(by.values[group] + share, ceiling[group])
    return np.where(numbers == by.limits[-1], ceiling[-1], codes)


def ungrade(codes: Floats, by: GradeScale) -> Floats:
    """Compute the numbers of codes; a code between two groups gives the limit between them.

    >>> uneven = scale([0, 10, 100], [3, 7])
    >>> ungrade(np.array([3.5, 5.0, 7.5, 99.0]), uneven).tolist()
    [5.0, 10.0, 55.0, 100.0]
    """
    last = len(by.values) - 1
    group = np.clip(np.searchsorted(by.values, codes, side="right") - 1, 0, last)
    share = codes - by.values[group]
    spread = _BEND + (share - _BEND) / _SLOPE
    share = np.where((group == last) & (share > _BEND), spread, share)
    low, high = by.limits[group], by.limits[group + 1]
    numbers = np.clip(low + np.clip(share, 0.0, 1.0) * (high - low), low, high)
    return np.where(codes >= by.values[-1] + TOP, by.limits[-1], numbers)


def is_code(codes: Floats, by: GradeScale) -> NDArray[np.bool_]:
    """Return which numbers lie where :func:`grade` puts its codes (NaN does)."""
    last = len(by.values) - 1
    group = np.clip(np.searchsorted(by.values, codes, side="right") - 1, 0, last)
    share = codes - by.values[group]
    # a hair of room above 0.999 for miners that print fewer digits
    room = np.where(group == last, TOP + 1e-9, 1.0)
    return np.isnan(codes) | ((share >= 0.0) & (share <= room))


def cut(code: float, by: GradeScale) -> tuple[float, bool]:
    """Return where a threshold lies in the original scale, and whether it became strict.

    ``code <= t`` means ``x <= number`` (not strict) or ``x < number`` (strict). The second happens
    between two groups, because a limit belongs to the group above it, and below the first group.

    >>> uneven = scale([0, 10, 100], [3, 7])
    >>> cut(3.5, uneven), cut(5.0, uneven), cut(7.0, uneven)
    ((5.0, False), (10.0, True), (10.0, False))
    """
    number = float(ungrade(np.array([code]), by)[0])
    if code < by.values[0]:
        return number, True
    group = int(np.searchsorted(by.values, code, side="right")) - 1
    between = group < len(by.values) - 1 and code - by.values[group] >= 1.0
    return number, bool(between)


def equal_scale(
    low: float, high: float, groups: int, uniforms: Floats, *, whole: bool
) -> GradeScale:
    """Draw groups of equal width over a range with secret margins; numbers in steps of one.

    The codes are a straight line of the numbers, so that every miner finds the same. The margins
    keep the ends of the public range from showing as the first and the last code. Whole numbers
    get groups whose width is a power of two (about as many groups as asked): their codes are then
    exact in binary, single precision included, and so is every midpoint a miner takes of them.
    """
    start, end = _with_margins(low, high, uniforms)
    first = 1.0 + int(uniforms[2] * groups)
    if not whole:
        numbers = first + np.arange(groups, dtype=np.float64)
        return GradeScale(np.linspace(start, end, groups + 1), numbers)
    width = 2.0 ** max(0, round(math.log2((high - low) / groups)))
    start = math.floor(start)
    needed = math.ceil((end + 1 - start) / width)
    places = np.arange(needed + 1, dtype=np.float64)
    return GradeScale(start + width * places, first + places[:-1])


def uneven_scale(low: float, high: float, groups: int, uniforms: Floats) -> GradeScale:
    """Draw groups of secret, unequal width; numbers in secret steps of one to three.

    The codes keep the order and nothing else: miners that look at order find the same.
    """
    start, end = _with_margins(low, high, uniforms)
    widths = 0.25 - np.log1p(-uniforms[2 : groups + 2] * (1 - 1e-9))
    edges = start + (end - start) * np.concatenate([[0.0], np.cumsum(widths) / widths.sum()])
    edges[-1] = end
    steps = 1.0 + np.floor(3.0 * uniforms[groups + 2 : 2 * groups + 2])
    return GradeScale(edges, np.cumsum(steps))


def _with_margins(low: float, high: float, uniforms: Floats) -> tuple[float, float]:
    before, after = 0.02 + 0.18 * uniforms[:2]
    return low - float(before) * (high - low), high + float(after) * (high - low)


PARTS = 64  # a split value has at most so many aliases
ROUNDS_BACK = 0.45  # whole numbers come back exactly if floating point moves them by less


@dataclass(frozen=True, repr=False)
class _CodedColumn:
    """What the four have in common."""

    way: ClassVar[str]
    name: str
    kind: Kind
    role: Role

    @property
    def type(self) -> str:
        """Return what its values are, in a word."""
        return str(self.kind)

    @property
    def in_words(self) -> str:
        """Describe how the column is coded; nothing secret."""
        return self.way

    def to_dict(self) -> dict[str, Any]:
        entries = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"way": self.way, **entries}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, hidden)"


@dataclass(frozen=True, repr=False)
class Plain(_CodedColumn):
    """A column that is released unchanged."""

    way = "plain"


@dataclass(frozen=True, repr=False)
class Dropped(_CodedColumn):
    """A column that is not released."""

    way = "dropped"


@dataclass(frozen=True, repr=False)
class Matched(_CodedColumn):
    """The column that says who somebody is, where sites hold other columns of the same people."""

    way = "matched"

    @property
    def in_words(self) -> str:
        return "keyed pseudonyms, to match people"


@dataclass(frozen=True, repr=False)
class Aliased(_CodedColumn):
    """A column whose values get aliases: keyed, or from a table of agreed categories."""

    way = "aliased"
    categories: tuple[str, ...] | None = None  # the agreed list of a mapping table
    other: bool = False  # values outside the list share one alias
    split: float | None = None  # the largest share that one alias is to have

    @property
    def keyed(self) -> bool:
        """Whether aliases come from the key alone."""
        return self.categories is None

    @property
    def in_words(self) -> str:
        kind = "keyed aliases" if self.keyed else "aliases by table"
        return kind + (", frequent values split" if self.split else "")


@dataclass(frozen=True, repr=False)
class Graded(_CodedColumn):
    """A column of numbers or dates, coded by graded grouping."""

    way = "graded"
    low: float = 0.0  # what sites may hold; the limits may reach further
    high: float = 1.0
    cuts: str = "equal"  # equal, uneven or given
    groups: int = 5  # how many were asked for
    limits: tuple[float, ...] = ()
    values: tuple[int, ...] = ()
    moment: str = ""  # "date" or "timestamp", where it is not a number
    tick: int = 1  # microseconds that a time stamp is counted in

    @property
    def type(self) -> str:
        return self.moment or str(self.kind)

    @property
    def whole(self) -> bool:
        """Return whether what is graded has no fraction: whole numbers, days or ticks."""
        return self.kind is not Kind.DECIMAL

    @property
    def ticks(self) -> bool:
        """Return whether micro-, milli- or seconds are graded."""
        return self.moment == "timestamp"

    @property
    def in_words(self) -> str:
        return f"graded, {self.cuts} groups"

    @cached_property
    def scale(self) -> GradeScale:
        """Limits and group numbers as arrays."""
        return scale(self.limits, self.values, self.name)

    @property
    def tolerance(self) -> float:
        """How far floating point can move a number that is coded and decoded again."""
        limits, values = self.scale
        steps = np.spacing(np.abs(values) + 1.0) * np.diff(limits)
        return 0.75 * float(steps.max() + np.spacing(np.abs(limits).max()))

    @property
    def in_single_precision(self) -> bool:
        """Whether codes rounded to 24 bits still tell whole numbers apart."""
        limits, values = self.scale
        steps = np.spacing((np.abs(values) + 1.0).astype(np.float32)) * np.diff(limits)
        return bool(steps.max() < ROUNDS_BACK)


Coded = Plain | Dropped | Matched | Aliased | Graded
_WAYS: dict[str, type[Coded]] = {c.way: c for c in (Plain, Dropped, Matched, Aliased, Graded)}


def read_column(entries: Mapping[str, Any]) -> Coded:
    """Restore a column from what :meth:`to_dict` returned, after a trip through JSON."""
    try:
        plain = dict(entries)
        way = _WAYS[plain.pop("way")]
        plain["kind"], plain["role"] = Kind(plain["kind"]), Role(plain["role"])
        for name in ("categories", "limits", "values"):
            if isinstance(plain.get(name), list):
                plain[name] = tuple(plain[name])
        return way(**plain)
    except (KeyError, ValueError, TypeError):
        raise KeyMaterialError(
            "the agreement has a column that this version of Tulle cannot read"
        ) from None


def refuse_codes(column: Column) -> None:
    """Raise for numbers and dates among which some values are codes, or that are written as text.

    Graded, a code such as 9999 would be an amount, and no site reads the forms of another.
    """
    if column.special or column.format:
        what = "special values (missing, codes)" if column.special else "a written form (format)"
        raise ParameterError(
            f"column '{column.name}' has {what} in the policy, which sites cannot encode as "
            "amounts: give it the kind 'category', or empty these cells and write plain values"
        )


def check_names(columns: Sequence[Coded]) -> None:
    """Raise if a column has no name, a name used twice, or a name like an alias of another."""
    seen: set[str] = set()
    refuse_patterns(column.name for column in columns)
    for name in (column.name for column in columns):
        if not name.strip():
            raise ParameterError("a column of the agreement has no name: give it one")
        if name in seen:
            raise ParameterError(f"the agreement lists column '{name}' twice")
        seen.add(name)
    for column in columns:
        listed = len(column.categories or ()) + 1 if isinstance(column, Aliased) else 0
        for number in range(1, listed + 1):
            if f"{column.name}_{number}" in seen:
                raise ParameterError(
                    f"column '{column.name}_{number}' is named like an alias of "
                    f"'{column.name}': rename it, or use keyed aliases"
                )


def held_columns(columns: Sequence[Coded], names: Sequence[str]) -> list[Coded]:
    """Return the agreed columns that a table with these names is to have; raise if it differs.

    Where people are matched, the columns that a table lacks are those of other sites.
    """
    matching = any(isinstance(column, Matched) for column in columns)
    held = [c for c in columns if not matching or isinstance(c, Matched) or c.name in names]
    wanted = [column for column in held if not isinstance(column, Dropped)]
    absent = [column.name for column in wanted if column.name not in names]
    if absent:
        raise DataError(
            f"the table has no column '{absent[0]}', which the agreement lists: "
            f"{nearest_name(absent[0], names)}"
        )
    agreed = {column.name for column in columns}
    extra = [name for name in names if name not in agreed]
    if extra:
        shown = ", ".join(f"'{name}'" for name in extra[:5])
        raise DataError(
            f"{counted(len(extra), 'column', 'is')} not in the agreement: {shown}. Drop "
            "them, or create a new agreement"
        )
    if matching and len(wanted) == 1:
        raise DataError(
            f"the table has nothing to share but '{wanted[0].name}', by which people are matched: "
            "pass a table with some of the agreed columns"
        )
    return held


# Aliases: names of values that carry no order, no alphabet and no meaning. A keyed alias is
# ``<attribute>_<token>``, the token 60 bits of BLAKE2b under a key of the attribute. Sites that
# share the key give equal aliases to equal values without telling each other which values they
# hold; going back means hashing the values one knows. A table alias, as in the paper, is
# ``<attribute>_<number>``, the numbers drawn once for a list that all sites have agreed on.

TOKEN = "[a-z2-7]{12}"  # what a keyed token looks like, for a regular expression
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_SHIFTS = np.arange(55, -1, -5, dtype=np.uint64)  # twelve letters of five bits


def keyed_aliases(attribute: str, texts: Sequence[str], key: SecretKey, part: int = 0) -> list[str]:
    """Return the alias of each text; ``part`` numbers the several aliases of a split value.

    >>> key = SecretKey(bytes(32))
    >>> keyed_aliases("illness", ["Flu", "Gastritis", "Flu"], key)
    ['illness_gftbdheo3fsi', 'illness_evscx6ogop6o', 'illness_gftbdheo3fsi']
    """
    use = f"sites/alias/{part}/{attribute}"
    digests = np.frombuffer(b"".join(_digests(use, texts, key)), dtype=">u8")
    letters = (digests.astype(np.uint64)[:, None] >> _SHIFTS) & np.uint64(31)
    tokens = _ALPHABET[letters].tobytes().decode("ascii")
    return [f"{attribute}_{tokens[at : at + 12]}" for at in range(0, len(tokens), 12)]


def table_aliases(attribute: str, texts: Sequence[str], key: SecretKey) -> list[str]:
    """Return the alias of each text of an agreed list: 1, 2, ... in an order drawn by the key."""
    digests = list(_digests(f"sites/table/{attribute}", texts, key))
    order = sorted(range(len(texts)), key=lambda index: (digests[index], texts[index]))
    number = {index: place for place, index in enumerate(order, start=1)}
    return [f"{attribute}_{number[index]}" for index in range(len(texts))]


def _digests(use: str, texts: Sequence[str], key: SecretKey) -> Iterator[bytes]:
    # copying the keyed state is faster than keying again
    keyed = blake2b(key=key.derive(use), digest_size=8, person=b"tulle-alias")
    for text in texts:
        state = keyed.copy()
        state.update(text.encode("utf-8", "surrogatepass"))
        yield state.digest()


# Which alias stands for which value: what a site needs to read results. A keyed alias cannot be
# turned around, only tried: a site knows the values of its own table, hashes them and looks
# results up. Values that only other sites hold stay aliases, unless those sites share their
# vocabulary: it is written sealed under a key of the agreement, so that sites can read it and the
# miner cannot.

OTHER = "other"
_CONTENT = "site vocabulary"
_EMPTY = {"alias": pl.String, "text": pl.String}


class AliasTables:
    """Aliases and the texts they stand for, one table for each aliased column."""

    def __init__(self, columns: Iterable[Coded], key: SecretKey) -> None:
        self._key = key
        self._columns = {c.name: c for c in columns if isinstance(c, Aliased)}
        self._known = {name: pl.DataFrame(schema=_EMPTY) for name in self._columns}
        self._texts: tuple[dict[str, str], set[str]] | None = None
        for name, column in self._columns.items():  # what is known without a table
            if column.categories is not None:
                listed = dict.fromkeys([*column.categories, *([OTHER] if column.other else [])])
                self._add(name, table_aliases(name, [*listed], self._key), [*listed])
            elif column.kind is Kind.BOOLEAN:
                self.learn(name, ["true", "false"])

    def aliases(self, name: str, texts: list[str], part: int = 0) -> list[str]:
        """Return the keyed aliases of some distinct texts, and remember them for decoding."""
        found = keyed_aliases(name, texts, self._key, part)
        self._add(name, found, texts)
        return found

    def learn(self, name: str, texts: list[str]) -> None:
        """Remember values without encoding them; all parts of a split value."""
        for part in range(PARTS if self._columns[name].split else 1):
            self.aliases(name, texts, part)

    def table(self, name: str) -> pl.DataFrame:
        """Return alias and text of all known values of a column."""
        return self._known[name]

    def everything(self) -> pl.DataFrame:
        """Return alias and text of all known values."""
        return pl.concat([pl.DataFrame(schema=_EMPTY), *self._known.values()])

    def texts(self) -> tuple[dict[str, str], set[str]]:
        """Return every known alias, and the texts that are values of several columns."""
        if self._texts is None:  # results come one by one: it is made once for all of them
            known = self.everything()
            once = [known.select(pl.col("text").unique()) for known in self._known.values()]
            texts = pl.concat([pl.DataFrame(schema={"text": pl.String}), *once])
            shared = set(texts.filter(pl.col("text").is_duplicated())["text"])
            self._texts = dict(zip(known["alias"].to_list(), known["text"].to_list())), shared
        return self._texts

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the values, sealed for the sites of this agreement."""
        words = {
            name: self._known[name]["text"].unique().sort().to_list()
            for name, column in self._columns.items()
            if column.keyed
        }
        plain = json.dumps(words).encode()
        write_sealed(path, plain, _CONTENT, self._lock(), force=force)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add the values of a vocabulary that was saved under the same agreement."""
        plain = read_sealed(path, _CONTENT, self._lock(), "agreement")
        try:
            words: dict[str, list[str]] = dict(read_json(plain))
        except (ValueError, TypeError):
            raise KeyMaterialError(f"{path} does not contain a vocabulary") from None
        for name, texts in words.items():
            if name in self._columns and texts:
                self.learn(name, texts)

    def _lock(self) -> SecretKey:
        return SecretKey(self._key.derive("sites/vocabulary"))

    def _add(self, name: str, aliases: list[str], texts: list[str]) -> None:
        new = pl.DataFrame({"alias": aliases, "text": texts}, schema=_EMPTY)
        known = pl.concat([self._known[name], new]).unique()
        shared = known.height - known["alias"].n_unique()  # a one-in-a-million chance at 1.5M texts
        if shared:
            raise DataError(
                f"column '{name}': {counted(shared, 'value', 'share')} an alias with "
                "another: rotate the agreement (tulle sites rotate) and encode again"
            )
        self._known[name] = known
        self._texts = None

    def __repr__(self) -> str:
        return f"Vocabulary({sum(map(len, self._known.values()))} aliases, hidden)"

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError("a vocabulary cannot be pickled: save it with save_vocabulary(path)")
