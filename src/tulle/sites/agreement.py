"""What the sites agree on: the secret that turns tables into codes and results back."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from itertools import combinations
from typing import Any, NoReturn

import numpy as np

from tulle._checks import check_choice, check_int, check_real
from tulle._choices import CUTS
from tulle._json import read_json
from tulle.errors import DataError, KeyMaterialError, ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites import _columns as grading
from tulle.sites import _numbers as dates
from tulle.sites._columns import (
    CLOCKS,
    PARTS,
    ROUNDS_BACK,
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
    check_names,
    read_column,
)
from tulle.sites._sealed import Lock, read_sealed, write_sealed
from tulle.sites._texts import text_of
from tulle.table._numbers import EXACT
from tulle.table.schema import Column, Kind

FORMAT = 1
_CONTENT = "site agreement"


class SiteAgreement:
    """Agree among several sites on how their tables are coded.

    Make one with :meth:`create` (a schema and public ranges), :meth:`from_policy` or
    :meth:`from_summaries`; keep it with :meth:`save`, read it with :meth:`load`. It cannot be
    changed; :meth:`rotate` gives a new one.

    Parameters
    ----------
    columns
        The coded columns, in the order of the encoded table.
    key
        The secret that all aliases and secret cut points are derived from.
    generation
        Counts the rotations.
    previous
        The fingerprint of the agreement that this one replaces.

    Attributes
    ----------
    fingerprint : str
        Eight groups of hex digits that the sites compare by phone. Equal fingerprints mean equal
        agreements, secrets included; the fingerprint tells nothing about them.

    What may leave
    --------------
    The fingerprint and the file written by :meth:`save` (sealed: the passphrase or key file must
    travel another way). Nothing else: anyone who has the agreement can read every encoded table.

    Examples
    --------
    >>> from tulle import SiteAgreement
    >>> agreement = SiteAgreement.create(
    ...     {"age": "integer", "illness": "category", "smoker": "boolean"},
    ...     ranges={"age": (0, 120)},
    ... )
    >>> agreement
    SiteAgreement('...-...', 3 columns, generation 1)
    >>> len(agreement.fingerprint)
    39
    """

    def __init__(
        self,
        columns: Iterable[Coded],
        key: SecretKey,
        *,
        generation: int = 1,
        previous: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.generation = generation
        self.previous = previous
        self._key = key
        check_names(self.columns)
        self.fingerprint = self._fingerprint()

    @classmethod
    def create(
        cls,
        schema: Any,
        *,
        key: SecretKey | None = None,
        **choices: Any,
    ) -> SiteAgreement:
        """Create an agreement from a schema and what is public about it.

        Parameters
        ----------
        schema : Policy, sequence of Column, or mapping of str to kind
            The columns; kinds are ``integer``, ``decimal``, ``category``, ``boolean``, ``datetime``
            and ``text``. Columns with the role identifier, ignored or level do not go out.
        key : SecretKey, optional
            A key of your own; by default a new one.
        **choices
            What the sites choose for their columns:

            - ``ranges``: the public range of each number or date, ``{"age": (0, 120)}``. Values
              outside it are refused or clamped when a table is encoded.
            - ``cuts``: ``"equal"`` (groups of equal width with secret ends and secret first number;
              the codes are a straight line, every miner finds the same) or ``"uneven"`` (secret cut
              points and secret steps; only miners that look at order, such as trees and rules over
              intervals, find the same, but a few known pairs reveal less).
            - ``groups``: the number of groups of each number or date, 5 by default.
            - ``limits``, ``values``: cut points and group numbers of single columns, given instead
              of drawn, as in the paper.
            - ``alias``: numbers and dates that are names rather than amounts (a ward, a postal
              code).
            - ``categories``: columns coded by a negotiated table, the union of their categories.
            - ``other``: columns of ``categories`` whose unforeseen values share one alias, which
              decodes to ``other``.
            - ``plain``: columns that are left unchanged.
            - ``split``: the largest share of the records that one alias may have, but for the luck
              of the draw: frequent values get several aliases, up to 64. Hides frequencies;
              **changes mining results**.
            - ``joint``: pairs of columns that get one alias together. Hides the single marginals;
              the miner sees one attribute instead of two.

        Returns
        -------
        SiteAgreement

        Raises
        ------
        ParameterError
            If a choice has the wrong shape, names a column that is not there, or contradicts
            another.
        """
        secret = SecretKey.generate() if key is None else key
        if not isinstance(secret, SecretKey):
            raise _wrong("key", "must be a SecretKey")
        return cls(code_columns(schema, Choices.of(choices), secret), secret)

    @classmethod
    def from_summaries(cls, summaries: Iterable[Any], **choices: Any) -> SiteAgreement:
        """Create an agreement from the summaries of the sites' tables.

        Parameters
        ----------
        summaries : iterable of SiteSummary
            One from each site: names, kinds and rounded ranges, no list of categories.
        **choices
            Further parameters of :meth:`create`.

        Returns
        -------
        SiteAgreement
        """
        from tulle.sites.summary import merge_summaries

        schema, ranges = merge_summaries(summaries)
        given = choices.pop("ranges", None) or {}
        return cls.create(schema, ranges={**ranges, **given}, **choices)

    @classmethod
    def from_policy(cls, path: str | os.PathLike[str], **choices: Any) -> SiteAgreement:
        """Create an agreement from a policy file: its columns, bounds and section ``[sites]``.

        Parameters
        ----------
        path : path-like
            The policy file. Its section ``[sites]`` may hold every parameter of :meth:`create`.
        **choices
            Parameters of :meth:`create` that take precedence over the file; ranges and other
            mappings are merged column by column.

        Returns
        -------
        SiteAgreement
        """
        from tulle.table.policy import load_policy

        policy = load_policy(path)
        return cls.create(policy, **merged(policy.options("sites", OPTIONS), choices))

    # -- the file -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], lock: Lock, *, force: bool = False) -> None:
        """Write the agreement, sealed by a passphrase or by the key of a key file (mode 0600).

        Parameters
        ----------
        path : path-like
            The file to create.
        lock : str or SecretKey
            The passphrase or key that will open it.
        force : bool
            Replace a file that exists.
        """
        write_sealed(path, self._to_json(), _CONTENT, lock, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], lock: Lock) -> SiteAgreement:
        """Read a sealed agreement with the passphrase or key that sealed it.

        Parameters
        ----------
        path : path-like
            The file that :meth:`save` wrote.
        lock : str or SecretKey
            The passphrase or key that sealed it.

        Returns
        -------
        SiteAgreement

        Raises
        ------
        KeyMaterialError
            If the lock does not open the file.
        """
        return cls._from_json(read_sealed(path, _CONTENT, lock), str(path))

    @classmethod
    def _from_json(cls, plain: bytes, origin: str) -> SiteAgreement:
        try:
            entries = read_json(plain)
            if entries["format"] != FORMAT:
                raise KeyMaterialError(
                    f"{origin} holds an agreement of format {entries['format']}: this version of "
                    f"Tulle reads format {FORMAT}"
                )
            return cls(
                [read_column(column) for column in entries["columns"]],
                SecretKey(bytes.fromhex(entries["key"])),
                generation=int(entries["generation"]),
                previous=entries["previous"],
            )
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, KeyMaterialError):
                raise
            raise KeyMaterialError(
                f"{origin} does not contain an agreement that Tulle can read"
            ) from None

    # -- new secrets --------------------------------------------------------------------------

    def rotate(self) -> SiteAgreement:
        """Create the same schema under a new key: other aliases, other secret cut points.

        Cut points and tables that were given, not drawn, stay. What was encoded under this
        agreement can still be decoded with it: keep its file.

        Returns
        -------
        SiteAgreement
        """
        return self._under(SecretKey.generate(), self.generation + 1)

    def for_release(self, label: str) -> SiteAgreement:
        """Derive the agreement for one release; sites that use the same label get the same codes.

        Aliases of two labels have nothing in common, so that a miner who holds two releases
        cannot link them by these; numbers keep their order in both. Nothing needs to be exchanged.

        Parameters
        ----------
        label : str
            The name of the release.

        Returns
        -------
        SiteAgreement
        """
        return self._under(SecretKey(self._key.derive(f"sites/release/{label}")), self.generation)

    def _under(self, key: SecretKey, generation: int) -> SiteAgreement:

        columns = [redraw(column, key) for column in self.columns]
        return SiteAgreement(columns, key, generation=generation, previous=self.fingerprint)

    # -- what is in it ------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns of an encoded table."""
        return tuple(c.name for c in self.columns if not isinstance(c, Dropped))

    def __getitem__(self, name: str) -> Coded:
        for column in self.columns:
            if column.name == name:
                return column
        raise DataError(f"the agreement has no column '{name}': {nearest_name(name, self.names)}")

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def describe(self) -> list[dict[str, Any]]:
        """List the columns with their coding and role; nothing secret.

        Returns
        -------
        list of dict
            One row per column.
        """
        return [
            {"column": c.name, "type": str(c.type), "role": str(c.role), "coded": c.in_words}
            for c in self.columns
        ]

    def keyed_id(self, digest: str) -> str:
        """Return a name for a table that reveals nothing without the key.

        Parameters
        ----------
        digest : str
            The digest of the table; the same digest gives the same name.

        Returns
        -------
        str
        """
        return blake2b(
            digest.encode(), key=self._key.derive("sites/table-id"), digest_size=16
        ).hexdigest()

    def _fingerprint(self) -> str:
        # the key is part of what is hashed and keys the hash: no guess at the content can be tried
        digits = blake2b(
            self._to_json(), key=self._key.derive("sites/fingerprint"), digest_size=16
        ).hexdigest()
        return "-".join(digits[start : start + 4] for start in range(0, 32, 4))

    def _to_json(self) -> bytes:
        entries = {
            "format": FORMAT,
            "generation": self.generation,
            "previous": self.previous,
            "key": self._key._secret.hex(),
            "columns": [column.to_dict() for column in self.columns],
        }
        return json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SiteAgreement) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return (
            f"SiteAgreement('{self.fingerprint}', {len(self.columns)} columns, "
            f"generation {self.generation})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> SiteAgreement:
        return self

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError(
            "a SiteAgreement cannot be pickled: save it with agreement.save(path, passphrase)"
        )


# What the sites choose for their columns, checked before anything is made of it. Choices come
# from Python, from a policy that a person wrote, or from the command line: a choice of the wrong
# shape, for a column that is not there, or against another choice is an error. None is passed
# over, since what it was to protect would go out otherwise.

OWNER = "SiteAgreement"
MEASURED = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME)
_MAPPINGS = ("ranges", "limits", "values", "categories", "split")
_LISTS = ("alias", "other", "plain")
_TOGETHER = {("alias", "split"), ("alias", "categories"), ("alias", "joint")}


@dataclass(frozen=True, repr=False)
class Choices:
    """What the sites choose for their columns.

    Parameters
    ----------
    ranges
        The public range of each number or date: ``{"age": (0, 120)}``. Values outside it are
        refused or clamped when a table is encoded.
    cuts
        ``equal``: groups of equal width with secret ends and secret first number; the codes are a
        straight line, every miner finds the same. ``uneven``: secret cut points and secret steps;
        only miners that look at order (trees, rules over intervals) find the same, but a few known
        pairs tell less.
    groups
        The number of groups of each number or date (with equal cuts of whole numbers about as
        many: their width is a power of two, which makes codes exact in binary).
    limits, values
        Cut points and group numbers of single columns, given instead of drawn, as in the paper.
    alias
        Numbers and dates that are names rather than amounts (a ward, a postal code).
    categories
        Columns coded by a negotiated table: the union of their categories.
    other
        Columns of ``categories`` whose unforeseen values share one alias. It decodes to ``other``.
    plain
        Columns that need no treatment.
    split
        The share of the records that one alias has at most, but for the luck of the draw: frequent
        values get several aliases, up to 64. Hides frequencies; **changes mining results**.
    joint
        Pairs of columns that get one alias together. Hides the single marginals; the miner sees
        one attribute instead of two.
    """

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
    joint: Collection[Sequence[str]] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Choices:
        """Return choices by name; None stands for the default."""
        for name in given:
            if name not in OPTIONS:
                raise ParameterError(f"there is no option '{name}': {nearest_name(name, OPTIONS)}")
        return cls(**{name: value for name, value in given.items() if value is not None})

    def check(self, columns: Sequence[Column]) -> None:
        """Raise for a wrong shape, an unknown column, or choices that contradict each other."""
        check_choice(OWNER, "cuts", self.cuts, CUTS)
        check_int(OWNER, "groups", self.groups, 1, 256)
        self._check_shapes()
        self._check_names([column.name for column in columns])
        self._check_contradictions()
        self._check_kinds({column.name: column for column in columns})

    def _check_shapes(self) -> None:
        for option in _MAPPINGS:
            if not isinstance(getattr(self, option), Mapping):
                raise _wrong(option, "must be a mapping of column names")
        for option in _LISTS:
            if not _is_list(getattr(self, option)):
                raise _wrong(option, "must be a list of column names")
        for option in ("limits", "values", "categories"):
            for name, given in getattr(self, option).items():
                if not _is_list(given) or not len(given):
                    raise _wrong(option, f"needs a list for column '{name}'")
        for name, ends in self.ranges.items():
            if not _is_list(ends) or len(ends) != 2:
                raise _wrong("ranges", f"needs (low, high) for column '{name}'")
        pairs = self.joint if _is_list(self.joint) else [self.joint]
        if not all(_is_list(pair) and len(set(pair)) == len(pair) == 2 for pair in pairs):
            raise _wrong("joint", "takes pairs of two different columns")
        for name, share in self.split.items():
            check_real(OWNER, f"split['{name}']", share, 1 / PARTS, 1)

    def _check_names(self, names: Sequence[str]) -> None:
        for option in (*_MAPPINGS, "alias", "plain", "joint"):
            for name in self._named(option):
                if name not in names:
                    hint = nearest_name(str(name), names)
                    raise _wrong(option, f"names '{name}', which is not a column: {hint}")
        for name in self.other:
            if name not in self.categories:
                raise _wrong("other", f"names '{name}', which is not in 'categories'")
        for name in self.values:
            if name not in self.limits:
                raise _wrong("values", f"of column '{name}' need its 'limits' too")
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
                    raise _wrong(option, f"are for numbers and dates, not for '{name}'")
        for name in set(self.split) - set(self.alias):
            if columns[name].kind in MEASURED:
                raise _wrong("split", f"is for aliases, but '{name}' is a number or date")
        for option in ("alias", "joint", "plain", "split"):
            for name in self._named(option):
                if not columns[name].role.released:
                    raise _wrong(
                        option,
                        f"names '{name}', which is not released: its role is {columns[name].role}",
                    )

    def _named(self, option: str) -> list[str]:
        given = getattr(self, option)
        return [name for pair in given for name in pair] if option == "joint" else list(given)


OPTIONS = tuple(part.name for part in fields(Choices))


def merged(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the choices of a policy with those given, which win; mappings are merged by column."""
    both = {**kept, **given}
    for option in set(kept) & set(given) & set(_MAPPINGS):
        if not isinstance(kept[option], Mapping):
            raise _wrong(option, "must be a mapping of column names")
        both[option] = {**kept[option], **given[option]}
    return both


def _wrong(option: str, predicate: str) -> ParameterError:
    return ParameterError(predicate, parameter=option, subject=f"'{option}'")


def _is_list(given: Any) -> bool:
    return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)


# From a schema and the choices of the sites to coded columns.

_MOMENTS = ("date", "time", "timestamp")  # the range says which


def code_columns(schema: Any, choices: Choices, key: SecretKey) -> list[Coded]:
    """Return the coded columns of an agreement, drawn with the key."""
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
    name, role, type = column.name, column.role, TYPE_OF_KIND[column.kind]
    if not role.released:
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
            f"'categories' of the boolean column '{column.name}' must be true and false: if it "
            "has words of its own, agree on it as category"
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
    """Count time stamps in the finest ticks that come back exactly over their range."""
    while column.type in CLOCKS and column.tolerance >= ROUNDS_BACK and column.tick < 1_000_000:
        column = replace(
            column,
            tick=column.tick * 1000,
            low=math.ceil(column.low / 1000),
            high=math.floor(column.high / 1000),
            limits=tuple(float(round(limit / 1000)) for limit in column.limits),
        )
    return check_exact(column)


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
    if type in WHOLE and abs(number) > EXACT:
        raise ParameterError(f"column '{name}': whole numbers beyond 2**53 have no exact codes")
    return number


def _check_ranges(columns: Sequence[Column], choices: Choices, paired: Mapping[str, Any]) -> None:
    skip = {*choices.alias, *choices.plain, *choices.categories, *paired}
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
