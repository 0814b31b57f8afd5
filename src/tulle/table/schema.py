"""What a column holds (its kind) and what it means for people (its role)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tulle._checks import check_real
from tulle._choices import ON_NEW
from tulle.errors import DataError, ParameterError, nearest_name

if TYPE_CHECKING:
    import polars as pl


class Kind(StrEnum):
    """Name what the values of a column are.

    ``INTEGER``, ``DECIMAL``, ``CATEGORY``, ``ORDERED`` (few values in an order, such as answers
    from 1 to 5), ``BOOLEAN``, ``DATETIME`` (dates, times and time stamps) and ``TEXT``. Each equals
    its lower-case name, so ``"integer"`` works wherever a kind is expected.

    Examples
    --------
    >>> from tulle import Kind
    >>> Kind("integer") is Kind.INTEGER
    True
    """

    INTEGER = "integer"
    DECIMAL = "decimal"
    CATEGORY = "category"
    ORDERED = "ordered"  # few values in an order: answers, stages, deciles; never averaged
    BOOLEAN = "boolean"
    DATETIME = "datetime"  # dates, times and time stamps
    TEXT = "text"


class Role(StrEnum):
    """Name what a column means for the people in the table.

    ========================  ===============================================================
    ``"identifier"``          names a person; never released
    ``"person"``              names the person whose row it is: people are counted; new keys
    ``"quasi-identifier"``    others may know it; together such columns single people out
    ``"sensitive"``           what an attacker wants to learn
    ``"target"``              what a miner wants to predict
    ``"level"``               the privacy level of each record; used, not released
    ``"weight"``              how many people a record stands for; released weights add up alike
    ``"ignored"``             left out of the release
    ========================  ===============================================================

    Examples
    --------
    >>> from tulle import Role
    >>> Role("quasi-identifier") is Role.QUASI
    True
    """

    IDENTIFIER = "identifier"  # names a person: never released
    PERSON = "person"  # names the person of each row: they are counted; a release has new keys
    QUASI = "quasi-identifier"  # others may know it: together they single people out
    SENSITIVE = "sensitive"  # what an attacker wants to learn
    TARGET = "target"  # what a miner wants to predict; class-wise condensation keeps it apart
    LEVEL = "level"  # the privacy level of each record
    WEIGHT = "weight"  # of a survey: how many people a record stands for
    IGNORED = "ignored"  # left out of the release

    @property
    def released(self) -> bool:
        """Whether columns of this role are in a release. Levels are obeyed, not released."""
        return self not in (Role.IDENTIFIER, Role.PERSON, Role.LEVEL, Role.IGNORED)


WEIGHTS = (1e-6, 1e6)  # of columns; beyond them one column is all that counts, or nothing
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
_WITH_CODES = (*_NUMBERS, Kind.ORDERED, Kind.DATETIME)  # next to which special values may stand


@dataclass(frozen=True)
class Column:
    """Describe one column of a table: what it holds and what it means for people.

    Parameters
    ----------
    name : str
        The column's name.
    kind : Kind or str
        What its values are.
    role : Role or str
        What it means for people; quasi-identifier by default, the cautious choice.
    weight : float
        How much the column counts when records are compared.
    bounds : pair of float, optional
        Public bounds of numbers. Without them, bounds come from statistics of at least ``k``
        people.
    reason : str
        Why ``tulle inspect`` chose this kind and role.
    missing : sequence of str and float
        What stands for "no value" among numbers, dates or ordered values, such as ``9999`` or
        ``"k.A."``. Each is a state of its own next to the values, never averaged, and written
        back as it was.
    codes : mapping of str to str
        Other special values with their meaning, ``{"N": "not applicable", "-99": "refused"}``,
        treated alike.
    format : str
        How numbers or dates are written as text: an example such as ``"1.234.567,89 €"``, or a
        date as ``strftime`` has it (``"%d.%m.%Y"``). By default what most texts look like.
    keep_rare : bool
        Whether categories and special values held by fewer than ``k`` people are released as they
        are, which is a choice somebody has to make. By default they are merged or suppressed.
    hierarchy : mapping of str to str, or sequence of int, optional
        Where rare categories go first: each value with a more general one, or the lengths of the
        beginnings of codes that are more general (``(3, 1)``: Q90.9, Q90, Q).
    diversity : int, optional
        How many different values of a sensitive column every group of people must hold, so that
        knowing somebody's group does not reveal theirs (l-diversity).
    closeness : float, optional
        How far the distribution of a sensitive column in a group may lie from the table's, from 0
        (equal) to 1: the earth mover's distance of t-closeness.
    categories : sequence of str and float
        The categories that are expected, whether or not a table or the beginning of a stream holds
        them. By default, any other value is then refused.
    on_new : {"", "wait", "reject", "other"}
        What a stream does with a category that its initial records do not hold, or fewer than k of
        them: ``"wait"``, its records wait until as many people hold it as the largest level among
        them; ``"other"``, it counts as the category "other"; ``"reject"``, its records are
        refused. By default ``"reject"`` if there are ``categories``, otherwise ``"wait"``.
    text : {"", "codes"}
        What becomes of free text: ``"codes"`` releases one word of each text that at least ``k``
        people use, and missing where a text has none. By default free text cannot be released.

    Examples
    --------
    >>> from tulle import Column, Kind, Role
    >>> Column("age", Kind.INTEGER, Role.QUASI, bounds=(0, 120)).role
    <Role.QUASI: 'quasi-identifier'>
    >>> Column("income", Kind.INTEGER, missing=(9999,), codes={"N": "not applicable"}).special
    (9999, 'N')
    """

    name: str
    kind: Kind
    role: Role = Role.QUASI
    weight: float = 1.0
    bounds: tuple[float, float] | None = None
    reason: str = ""
    missing: tuple[str | float, ...] = ()
    codes: Mapping[str, str] = field(default_factory=dict, hash=False)
    format: str = ""
    keep_rare: bool = False
    hierarchy: Mapping[str, str] | tuple[int, ...] | None = field(default=None, hash=False)
    diversity: int | None = None
    closeness: float | None = None
    categories: tuple[str | float, ...] = ()
    on_new: str = ""
    text: str = ""

    @property
    def special(self) -> tuple[str | float, ...]:
        """The values that stand for a state of their own: ``missing``, then ``codes``."""
        return (*self.missing, *self.codes)

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values, by name.

        Returns
        -------
        dict
        """
        return asdict(self) | {"kind": self.kind.value, "role": self.role.value}

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> Column:
        """Read the column that :meth:`to_json` wrote.

        Parameters
        ----------
        entries : mapping
            What :meth:`to_json` returned.

        Returns
        -------
        Column
        """
        bounds, hierarchy = entries.get("bounds"), entries.get("hierarchy")
        words = {"kind": Kind(entries["kind"]), "role": Role(entries["role"])}
        limits = None if bounds is None else (bounds[0], bounds[1])
        lists = {name: tuple(entries.get(name, ())) for name in ("missing", "categories")}
        if isinstance(hierarchy, list):
            hierarchy = tuple(hierarchy)
        return cls(**{**entries, **words, **lists, "bounds": limits, "hierarchy": hierarchy})


# What users may give for the columns of a table: columns, or for each name a column, a role or
# a kind.
ColumnsLike = Sequence[Column] | Mapping[str, "Column | str"]


class Schema:
    """Hold the columns of a table: an ordered, immutable collection of :class:`Column`.

    Parameters
    ----------
    columns : iterable of Column
        The columns, in order.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import Schema
    >>> table = pl.DataFrame({"name": ["Ann", "Bob"], "zip": [8001, 3000], "age": [40, 31]})
    >>> schema = Schema.of({"name": "identifier", "zip": "category"}, table)
    >>> [(column.name, str(column.kind), str(column.role)) for column in schema][1:]
    [('zip', 'category', 'quasi-identifier'), ('age', 'integer', 'quasi-identifier')]
    >>> schema.released
    ['zip', 'age']
    """

    def __init__(self, columns: Iterable[Column] = ()) -> None:
        self._columns = {column.name: column for column in columns}

    @classmethod
    def of(
        cls, given: ColumnsLike | Schema | None, frame: pl.DataFrame, *, complete: bool = True
    ) -> Schema:
        """Complete the schema of a frame from what a user says of some of its columns.

        Parameters
        ----------
        given : sequence of Column, mapping, Schema or None
            A mapping gives each name a :class:`Column`, a role or a kind: ``{"name": "identifier",
            "zip": "category"}``. Columns that are not given follow from their types.
        frame : polars.DataFrame
            The table.
        complete : bool
            Whether the frame holds all records. Text of which nearly every value is different is
            free text; as long as records are missing, that cannot be decided.

        Returns
        -------
        Schema

        Raises
        ------
        DataError
            If ``given`` names a column that the frame does not have.
        """
        declared = {} if given is None else declared_columns(given)
        there = set(frame.columns)
        for name in declared:
            if name not in there:
                raise DataError(
                    f"'columns' names column '{name}', which is not in the table: "
                    f"{nearest_name(name, frame.columns)}"
                )
        return cls(
            _completed(series, declared.get(series.name), complete=complete) for series in frame
        )

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns.values())

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __repr__(self) -> str:
        return f"Schema({list(self)!r})"

    @property
    def names(self) -> list[str]:
        """The names of all columns, in order."""
        return list(self._columns)

    @property
    def released(self) -> list[str]:
        """The names of the columns that are in a release."""
        return [column.name for column in self if column.role.released]

    def named(self, *roles: Role) -> list[str]:
        """Return the names of the columns that have one of these roles.

        Parameters
        ----------
        *roles : Role
            The roles.

        Returns
        -------
        list of str
        """
        return [column.name for column in self if column.role in roles]

    def with_column(self, column: Column) -> Schema:
        """Return a schema with a column replaced, or added at the end.

        Parameters
        ----------
        column : Column
            The column.

        Returns
        -------
        Schema
        """
        return Schema((self._columns | {column.name: column}).values())

    def weighted(self, weights: Mapping[str, float] | Sequence[float] | None) -> Schema:
        """Return a schema with other weights.

        Parameters
        ----------
        weights : mapping of str to float, sequence of float, or None
            By name, or one for each column in order; None changes nothing.

        Returns
        -------
        Schema
        """
        if weights is None:
            return self
        if not isinstance(weights, Mapping):
            if len(weights) != len(self):
                raise ParameterError(
                    f"'weights' has {len(weights)} entries, but the table has {len(self)} columns"
                )
            weights = dict(zip(self.names, weights))
        for name in weights:
            if name not in self:
                raise DataError(
                    f"'weights' names column '{name}', which is not in the table: "
                    f"{nearest_name(str(name), self.names)}"
                )
        return Schema(
            replace(column, weight=_weight(weights.get(column.name, column.weight)))
            for column in self
        )


def kind_of(dtype: pl.DataType) -> Kind:
    """Return the kind of a column, from its type alone."""
    if dtype.is_integer():
        return Kind.INTEGER
    if dtype.is_float() or dtype.is_decimal():
        return Kind.DECIMAL
    if dtype.is_temporal():
        return Kind.DATETIME
    return Kind.BOOLEAN if str(dtype) == "Boolean" else Kind.CATEGORY


# Text of which more than this share of the values are different is not a category ...
_UNIQUE_SHARE = 0.9
_UNIQUE_FROM = 5  # ... unless it is too short to tell


def natural_column(series: pl.Series, role: Role = Role.QUASI, *, complete: bool = True) -> Column:
    """Return what the type and the values of a column say of it."""
    kind = kind_of(series.dtype)
    if complete and str(series.dtype) == "String":
        written = _written_column(series)
        if written is not None:
            return replace(written, role=role)
        present = len(series) - series.null_count()
        distinct = series.drop_nulls().n_unique() if present >= _UNIQUE_FROM else 0
        if distinct > _UNIQUE_SHARE * present:
            kind = Kind.TEXT
    return Column(series.name, kind, role)


_LEAST_NUMBERS = 50  # different ones: fewer are categories, whatever they look like


def _written_column(series: pl.Series) -> Column | None:
    """Return what text holds that is numbers or dates in a form of its own, or with codes.

    None if it is anything else. Plain numbers that come as text stay text: somebody made them so.
    """
    from tulle.table._look import FEW, look_at

    look = look_at(series, 10)
    if look.times is not None and look.distinct > FEW:
        kind, form = Kind.DATETIME, look.date_form
    elif look.numbers is not None and look.distinct >= _LEAST_NUMBERS:
        kind, form = Kind.INTEGER if look.whole else Kind.DECIMAL, look.number_form
    else:
        return None
    if kind is not Kind.DATETIME and not (form or look.codes or look.words):
        return None
    codes = dict.fromkeys(look.codes, "text among numbers")
    return Column(series.name, kind, missing=look.special, codes=codes, format=form)


def declared_columns(given: ColumnsLike | Schema) -> dict[str, Column | Kind | Role]:
    """Return what a user says of columns, by name: a Column, or only a role or a kind."""
    if isinstance(given, Mapping):
        return {str(name): _entry(str(name), entry) for name, entry in given.items()}
    declared: dict[str, Column | Kind | Role] = {}
    for column in given:
        if not isinstance(column, Column):
            raise ParameterError(
                "'columns' must be a list of Column, or a mapping from names to a Column, a role "
                f"or a kind. Got a {type(column).__name__} in it."
            )
        if column.name in declared:
            raise DataError(f"'columns' names column '{column.name}' twice")
        declared[column.name] = column
    return declared


def _entry(name: str, entry: Any) -> Column | Kind | Role:
    if isinstance(entry, Column):
        return replace(entry, name=name)
    words: list[Role | Kind] = [*Role, *Kind]
    for word in words:
        if entry == word:
            return word
    hint = nearest_name(str(entry), words)
    raise ParameterError(f"'columns' gives column '{name}' an unknown role or kind: {hint}")


def _completed(series: pl.Series, entry: Column | Kind | Role | None, *, complete: bool) -> Column:
    if isinstance(entry, Column):
        return _checked(entry)
    if isinstance(entry, Kind):
        return Column(series.name, entry)
    return natural_column(series, entry or Role.QUASI, complete=complete)


def _checked(column: Column) -> Column:
    if column.bounds is not None and not column.bounds[0] <= column.bounds[1]:
        raise ParameterError(f"the bounds of column '{column.name}' are in the wrong order")
    wrong = contradiction(column)
    if wrong:
        raise DataError(f"column '{column.name}' {wrong}")
    return replace(column, weight=_weight(column.weight))


def contradiction(column: Column) -> str:
    """Return what a column has that its kind cannot have; empty if nothing."""
    kind = column.kind
    if column.bounds is not None and kind not in _NUMBERS:
        return f"has bounds, but its kind is {kind}, not a number"
    if column.special and kind not in _WITH_CODES:
        return f"has special values ('missing' or 'codes'), which a {kind} does not need"
    if column.format and kind not in (*_NUMBERS, Kind.DATETIME):
        return f"has a format, but its kind is {kind}, neither a number nor a date"
    if column.hierarchy is not None and kind is not Kind.CATEGORY:
        return f"has a hierarchy, but its kind is {kind}, not a category"
    if (column.categories or column.on_new) and kind is not Kind.CATEGORY:
        option = "'categories'" if column.categories else "'on_new'"
        return f"has {option}, but its kind is {kind}, not a category"
    if column.text and (kind is not Kind.TEXT or column.text != "codes"):
        return "has an option 'text' that is not \"codes\", or is not of the kind text"
    if column.on_new and column.on_new not in ON_NEW:
        return f"has an unknown 'on_new': {nearest_name(str(column.on_new), ON_NEW)}"
    return _wrong_demand(column)


def _wrong_demand(column: Column) -> str:
    values, distance = column.diversity, column.closeness
    if values is None and distance is None:
        return ""
    if column.role is not Role.SENSITIVE:
        return f"has a demand that only a sensitive column can have, but its role is {column.role}"
    if values is not None and (type(values) is not int or values < 2):
        return "has a diversity that is not a whole number of at least 2"
    if distance is not None and not (type(distance) in (int, float) and 0 < distance < 1):
        return "has a closeness that is not a number between 0 and 1"
    return ""


def _weight(weight: Any) -> float:
    return check_real("Schema", "weights", weight, *WEIGHTS)
