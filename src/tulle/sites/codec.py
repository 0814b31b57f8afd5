"""Tables to codes and back, under an agreement."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import polars as pl

from tulle._checks import check_choice
from tulle._plurals import counted
from tulle._random import RandomState, as_generator
from tulle._types import Container
from tulle.errors import DataError, KeyMaterialError, ParameterError, PrivacyError
from tulle.sites import _columns as grading
from tulle.sites._columns import (
    OTHER,
    PARTS,
    Aliased,
    AliasTables,
    Coded,
    Dropped,
    Graded,
    Matched,
    Plain,
    held_columns,
)
from tulle.sites._results import (
    ResultReader,
    alias_pattern,
    decode_intervals,
    named_columns,
    rebuild,
    shortened,
    tree_text,
    with_names,
)
from tulle.sites._values import from_numbers, from_text, numbers_of, present, texts_of
from tulle.sites.agreement import SiteAgreement
from tulle.sites.matching import pseudonyms_of
from tulle.table._frames import Exit, enter

# One column to codes and back. What is coded is decoded again before anything leaves.


def encode_graded(series: pl.Series, column: Graded, outside: str) -> pl.Series:
    """Encode a column of numbers or dates; missing stays missing."""
    numbers = numbers_of(series, column)
    beyond = int(np.count_nonzero((numbers < column.low) | (numbers > column.high)))
    if beyond and outside == "error":
        raise DataError(
            f"column '{column.name}': {counted(beyond, 'value', 'lie')} outside the agreed "
            "range. Correct them, agree on a wider range, or clamp them (outside='clamp', "
            "--clamp)"
        )
    numbers = np.clip(numbers, column.low, column.high)
    codes = grading.grade(numbers, column.scale)
    back = grading.ungrade(codes, column.scale)
    room = 0.499 if column.whole else 2 * column.tolerance
    lost = int(np.count_nonzero(np.abs(back - numbers) > room))
    if lost:
        raise PrivacyError(
            f"column '{column.name}': {counted(lost, 'value', 'have')} no exact code"
        )
    coded = pl.Series(column.name, codes)
    return coded.zip_with(series.is_not_null(), pl.Series([None], dtype=pl.Float64))


def decode_graded(series: pl.Series, column: Graded, dtype: Any) -> pl.Series:
    """Return the numbers or dates of a column of codes."""
    if not (series.dtype.is_numeric() or series.dtype == pl.Null):
        raise DataError(
            f"column '{column.name}' holds {series.dtype.base_type()}, not codes of the agreement"
        )
    if series.dtype == pl.Float32 and column.whole and not column.in_single_precision:
        raise DataError(
            f"column '{column.name}': the miner rounded its codes to single precision, which "
            "cannot tell its values apart: ask for double precision"
        )
    codes = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    strange = int(np.count_nonzero(~grading.is_code(codes, column.scale)))
    numbers = grading.ungrade(codes, column.scale)
    if column.whole:
        rounded = np.round(numbers)
        off = np.abs(rounded - numbers)
        # miners print and store fewer digits; a mean of codes is further off than that
        room = max(1e-2, column.tolerance)
        strange += int(np.count_nonzero(off[~np.isnan(off)] > room))
        numbers = rounded
    if strange:
        raise DataError(
            f"column '{column.name}': {counted(strange, 'number')} cannot be decoded as codes of "
            "this agreement. To decode means of codes, use decode_centers (--kind centers)"
        )
    return from_numbers(numbers, series.is_null(), column, dtype)


def encode_aliased(
    series: pl.Series, column: Aliased, words: AliasTables, rng: np.random.Generator
) -> pl.Series:
    """Encode a column by aliases, made once for each distinct value."""
    distinct, index = _indexed(present(series))
    texts = texts_of(distinct, column.kind)
    if not column.keyed:
        aliases = _listed(column, texts, words)
    elif column.split:
        return _split(column, texts, index, words, rng)
    else:
        aliases = words.aliases(column.name, texts)
    return pl.Series(aliases, dtype=pl.String).gather(index)


def _listed(column: Aliased, texts: list[str], words: AliasTables) -> list[str]:
    known = dict(zip(*words.table(column.name).select("text", "alias").get_columns()))
    listed = set(column.categories or ())
    unlisted = [text for text in texts if text not in listed]
    if unlisted and not column.other:
        # The one message that shows values: the site must take them up with the others.
        shown = ", ".join(repr(text) for text in sorted(unlisted)[:3])
        more = f" and {len(unlisted) - 3} more" if len(unlisted) > 3 else ""
        raise DataError(
            f"column '{column.name}': the agreed list has no alias for {shown}{more}. Agree on a "
            "longer list, on an 'other' alias, or on keyed aliases"
        )
    return [known[text if text in listed else OTHER] for text in texts]


def _split(
    column: Aliased,
    texts: list[str],
    index: pl.Series,
    words: AliasTables,
    rng: np.random.Generator,
) -> pl.Series:
    """Return one of several aliases for each frequent value, drawn for each row.

    Rows do not take turns: aliases that are equally common would be known to be of one value.
    """
    place = index.fill_null(0).to_numpy()
    counts = np.bincount(place[index.is_not_null().to_numpy()], minlength=max(len(texts), 1))
    shares = counts / max(1, counts.sum())
    parts = np.clip(np.ceil(shares / (column.split or 1.0)), 1, PARTS).astype(np.int64)
    table = [words.aliases(column.name, texts, number) for number in range(int(parts.max()))]
    drawn = np.floor(rng.random(len(place)) * parts[place]).astype(np.int64)
    flat = pl.Series([alias for aliases in table for alias in aliases], dtype=pl.String)
    row = pl.Series(drawn * len(texts) + place).cast(pl.UInt32)
    return flat.gather(row.zip_with(index.is_not_null(), pl.Series([None], dtype=pl.UInt32)))


def decode_aliased(
    series: pl.Series, column: Aliased, words: AliasTables, dtype: Any
) -> tuple[pl.Series, int]:
    """Decode a column of aliases, and count the cells with an unknown one."""
    texts, unknown, index = _texts_of_aliases(series, words.table(column.name))
    unread = int(unknown.gather(index.drop_nulls()).sum())
    values = texts if unread else from_text(texts, column.kind, dtype)
    return values.gather(index).alias(column.name), unread


def decode_foreign(
    series: pl.Series, words: AliasTables, pattern: re.Pattern[str] | None
) -> tuple[pl.Series, int]:
    """Decode the aliases in a column of text that the miner added; keep other text."""
    texts, unknown, index = _texts_of_aliases(series, words.everything())
    if pattern is None:
        return series, 0
    looks = [pattern.fullmatch(text) is not None for text in texts]
    unread = int((unknown & pl.Series(looks, dtype=pl.Boolean)).gather(index.drop_nulls()).sum())
    return texts.gather(index).alias(series.name), unread


def _indexed(series: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the distinct values, and for each row the place of its value (null if missing)."""
    distinct = series.drop_nulls().unique()
    if isinstance(distinct.dtype, pl.Categorical | pl.Enum):
        series, distinct = series.cast(pl.String), distinct.cast(pl.String)
    places = pl.Series(np.arange(len(distinct), dtype=np.uint32))
    if distinct.is_empty():
        return distinct, pl.Series([None] * len(series), dtype=pl.UInt32)
    return distinct, series.replace_strict(distinct, places, default=None, return_dtype=pl.UInt32)


def _texts_of_aliases(
    series: pl.Series, known: pl.DataFrame
) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Return distinct texts, which of them are still aliases, and the place of each row's text."""
    distinct, index = _indexed(series.cast(pl.String))
    texts = distinct.replace_strict(
        known["alias"], known["text"], default=None, return_dtype=pl.String
    )
    unknown = texts.is_null()
    return texts.fill_null(distinct), unknown, index


class SiteCodec:
    """Encode a site's table and decode what the miner found in the union.

    Row in, row out: row i of the encoded table is row i of the plain one, under codes that only
    holders of the agreement can read. Any frame in, the same kind out. There is nothing to fit:
    the agreement says everything.

    Parameters
    ----------
    agreement
        The agreement of the sites.
    outside
        What happens to numbers and dates outside the agreed range: ``error``, or ``clamp`` to the
        nearer end (they do not come back).
    unknown
        What :meth:`inverse_transform` does with aliases of values that this codec has not seen
        (those of other sites): ``error``, or ``keep`` them as aliases.
    random_state
        Chooses among the aliases of a split value; None is the operating system's entropy.

    Attributes
    ----------
    unknown_count_ : int
        How many aliases the last decoding could not read.
    rough_ : dict
        The columns whose thresholds, in what was decoded last, were printed too short to lead back
        to one value, with how far off they may be and the unit.

    What may leave
    --------------
    The encoded table. A pandas table keeps its index, as it is: reset one that names people. The
    codec itself holds the agreement and the values it has seen: it is neither shown nor pickled.

    Notes
    -----
    Aliases hide names, not frequencies; graded grouping hides scale, not order. See
    `tulle sites encode --report` for what that reveals about your own table.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import SiteAgreement, SiteCodec
    >>> table = pl.DataFrame({"age": [34, 51, None], "illness": ["Flu", "Gastritis", "Flu"]})
    >>> agreement = SiteAgreement.create(
    ...     {"age": "integer", "illness": "category"}, ranges={"age": (0, 120)}
    ... )
    >>> codec = SiteCodec(agreement)
    >>> encoded = codec.transform(table)
    >>> encoded["illness"][0] == encoded["illness"][2]
    True
    >>> codec.inverse_transform(encoded).equals(table)
    True
    """

    def __init__(
        self,
        agreement: SiteAgreement,
        *,
        outside: str = "error",
        unknown: str = "error",
        random_state: RandomState = None,
    ) -> None:
        if not isinstance(agreement, SiteAgreement):
            raise ParameterError(
                "SiteCodec needs a SiteAgreement, such as SiteAgreement.load(path, ...)"
            )
        self.agreement = agreement
        self.outside = check_choice("SiteCodec", "outside", outside, ("error", "clamp"))
        self.unknown = check_choice("SiteCodec", "unknown", unknown, ("error", "keep"))
        self.random_state = random_state
        self.unknown_count_ = 0
        self.rough_: dict[str, tuple[float, str]] = {}
        self._vocabulary = AliasTables(agreement.columns, agreement._key)
        self._exit: Exit | None = None
        self._dtypes: dict[str, pl.DataType] = {}

    def transform(self, X: Container) -> Container:
        """Encode a table: the agreed columns, in the agreed order.

        Where the sites match people, these are the columns that this site holds, and the column
        that says who somebody is becomes a pseudonym; each person may have one record only.

        Parameters
        ----------
        X : table
            The site's table, any frame or array.

        Returns
        -------
        table
            The same kind of container, row for row.
        """
        frame, held = self._open(X)
        rng = as_generator(self.random_state)
        encoded = []
        for column in held:
            if not isinstance(column, Dropped):
                encoded.append(self._encode(frame, column, rng).alias(column.name))
        return rebuild(X, pl.DataFrame(encoded))

    def learn(self, X: Any) -> SiteCodec:
        """Remember the values of a table, so that results about them can be decoded.

        Parameters
        ----------
        X : table
            The site's table.

        Returns
        -------
        SiteCodec
            This codec.
        """
        frame, held = self._open(X)
        for column in held:
            if isinstance(column, Aliased) and column.keyed:
                distinct = _indexed(present(frame[column.name]))[0]
                self._vocabulary.learn(column.name, texts_of(distinct, column.kind))
        return self

    def inverse_transform(self, X: Container) -> Container:
        """Decode an encoded table, or some of its columns.

        Columns that the agreement does not know (a cluster number, a prediction) are kept; aliases
        in them are decoded.

        Parameters
        ----------
        X : table
            The encoded table. An array has no names: it must hold all columns that transform gives.

        Returns
        -------
        table
        """
        decoded: list[pl.Series] = []
        unknown = 0
        for series in named_columns(X, self.agreement.names):
            found, unread = self._decode(series)
            decoded.append(found)
            if unread and self.unknown == "error":
                raise DataError(
                    f"column '{series.name}': {counted(unread, 'cell', 'hold')} aliases of "
                    "values that this codec does not know. Let it learn your table (learn, "
                    "--values), load the vocabularies of other sites, or keep them "
                    "(unknown='keep', --keep-unknown)"
                )
            unknown += unread
        self.unknown_count_ = unknown
        order = {name: place for place, name in enumerate(self._dtypes)}
        decoded.sort(key=lambda series: order.get(series.name, len(order)))
        return rebuild(X, pl.DataFrame(decoded), self._exit)

    # -- results ------------------------------------------------------------------------------

    def decode_text(self, text: str, *, decimals: int | None = None) -> str:
        """Decode aliases, thresholds and intervals wherever they stand in a text.

        Aliases of values that this codec has not seen stay, and ``unknown_count_`` counts them.

        Parameters
        ----------
        text : str
            Any text about encoded data.
        decimals : int, optional
            Decimals of decoded numbers; by default as many as the codes support.

        Returns
        -------
        str
        """
        if not isinstance(text, str):
            raise DataError(f"decode_text needs a text. Got {type(text).__name__}")
        return str(self._read(lambda reader: reader.text(text, decimals)))

    def decode_rules(self, rules: Any) -> Any:
        """Decode itemsets and rules.

        An item may be an alias, ``column=alias``, ``column=code``, ``column=(code, code]``, or a
        pair (column, alias or code). The frames of mlxtend are decoded cell by cell. A bare alias
        becomes its value, and ``column=value`` where several columns have that value.

        Parameters
        ----------
        rules : str, frame, or any nest of sets, lists, tuples and mappings
            What the miner found.

        Returns
        -------
        object
            The same structure, decoded.
        """
        return self._read(lambda reader: reader.anything(rules))

    def decode_tree(
        self,
        tree: Any,
        *,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        decimals: int | None = None,
    ) -> str:
        """Decode a decision tree: text of any tool, or a fitted tree of scikit-learn.

        Decoding text needs thresholds with enough digits (``export_text(decimals=10)``); a fitted
        tree has them all. The leaves of a regression tree are means of codes: see
        :meth:`decode_centers`.

        Parameters
        ----------
        tree : str or fitted scikit-learn tree
            The tree.
        feature_names : sequence of str, optional
            Columns that feature_0, feature_1, ... stand for.
        class_names : sequence of str, optional
            Names of the classes.
        decimals : int, optional
            Decimals of decoded thresholds; by default 2 for a fitted tree, and for text as many as
            its digits support.

        Returns
        -------
        str
        """
        if isinstance(tree, str):
            return self.decode_text(with_names(tree, feature_names), decimals=decimals)
        text = tree_text(tree, self.agreement.names, feature_names, class_names)
        shown = 2 if decimals is None else decimals
        return shortened(self.decode_text(text, decimals=shown), shown)

    def decode_intervals(self, intervals: Any, column: str) -> Any:
        """Decode intervals of codes of one column.

        Parameters
        ----------
        intervals : sequence of str, pairs of numbers or pandas Intervals
            The intervals.
        column : str
            The column.

        Returns
        -------
        object
            The same kind of intervals, in the column's own units.
        """
        graded = self.agreement[column]
        if not isinstance(graded, Graded):
            raise DataError(f"column '{column}' is not graded: it has no intervals")
        return decode_intervals(intervals, graded)

    def decode_centers(self, centers: Any, columns: Sequence[str] | None = None) -> Any:
        """Decode means of codes, such as cluster centers.

        Where codes are a straight line of the numbers (equal cuts) a decoded mean is the mean of
        the numbers; otherwise it is a point of the same group, and not their mean. Numbers are
        not rounded. Columns with an alias in their name are renamed.

        Parameters
        ----------
        centers : frame or array
            The means.
        columns : sequence of str, optional
            Column names of an array.

        Returns
        -------
        frame or array
        """
        return self._read(lambda reader: reader.centers(centers, columns))

    def decode_json(self, found: Any) -> Any:
        """Decode anything read from JSON: strings, and numbers under the name of a graded column.

        Numbers under ``threshold``, ``value``, ``low``, ``high``, ``mean`` belong to the column
        that the same object names under ``feature``, ``column`` or ``attribute``.

        Parameters
        ----------
        found : object
            What ``json.load`` returned.

        Returns
        -------
        object
            The same structure, decoded.
        """
        return self._read(lambda reader: reader.anything(found, numbers=True))

    def _read(self, work: Callable[[ResultReader], Any]) -> Any:
        reader = ResultReader(self.agreement, self._vocabulary)
        decoded = work(reader)
        self.unknown_count_ = len(reader.unknown)
        self.rough_ = dict(reader.rough)
        return decoded

    # -- values -------------------------------------------------------------------------------

    def values_of(self, name: str) -> list[str]:
        """Return the values of an aliased column that are known so far, as text.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        list of str
        """
        if not isinstance(self.agreement[name], Aliased):
            raise ParameterError(f"column '{name}' is not coded by one alias for each value")
        return self._vocabulary.table(name)["text"].unique().sort().to_list()

    def save_vocabulary(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the values seen so far for the other sites, sealed under the agreement.

        With it they can decode results about values that only this site holds. The miner cannot
        read it.

        Parameters
        ----------
        path : path-like
            The file to create.
        force : bool
            Replace a file that exists.
        """
        self._vocabulary.save(path, force=force)

    def load_vocabulary(self, path: str | os.PathLike[str]) -> SiteCodec:
        """Add the values that another site has shared.

        Parameters
        ----------
        path : path-like
            The file that :meth:`save_vocabulary` wrote.

        Returns
        -------
        SiteCodec
            This codec.
        """
        self._vocabulary.load(path)
        return self

    # -- one column ---------------------------------------------------------------------------

    def _open(self, X: Any) -> tuple[pl.DataFrame, list[Coded]]:
        frame, exit = enter(X)
        held = held_columns(self.agreement.columns, frame.columns)
        self._exit, self._dtypes = exit, dict(frame.schema)
        return frame, held

    def _encode(self, frame: pl.DataFrame, column: Coded, rng: np.random.Generator) -> pl.Series:
        if isinstance(column, Graded):
            return encode_graded(frame[column.name], column, self.outside)
        if isinstance(column, Plain):
            return frame[column.name]
        if isinstance(column, Matched):
            return pseudonyms_of(frame[column.name], self.agreement._key)
        assert isinstance(column, Aliased)
        return encode_aliased(frame[column.name], column, self._vocabulary, rng)

    def _decode(self, series: pl.Series) -> tuple[pl.Series, int]:
        """Return the plain column of an encoded one, and how many cells could not be read."""
        if series.name not in self.agreement:
            if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
                return series, 0
            pattern = alias_pattern(self.agreement.columns)
            return decode_foreign(series, self._vocabulary, pattern)
        column = self.agreement[series.name]
        dtype = self._dtypes.get(series.name)
        if isinstance(column, Graded):
            return decode_graded(series, column, dtype), 0
        if isinstance(column, Aliased):
            return decode_aliased(series, column, self._vocabulary, dtype)
        return series, 0

    def __repr__(self) -> str:
        return f"SiteCodec({self.agreement!r})"

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError(
            "a SiteCodec cannot be pickled: save its agreement and create a new codec from it"
        )
