"""Tables to codes and back, under an agreement."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import polars as pl

from tulle.checks import check_choice
from tulle.errors import DataError, KeyMaterialError, ParameterError, nearest_name
from tulle.random import RandomState, as_generator
from tulle.sites import encoding
from tulle.sites.agreement import SiteAgreement
from tulle.sites.columns import Aliased, Coded, Dropped, Graded, Joint, Plain
from tulle.sites.like import Shape, kind_of_table, named_columns, rebuild
from tulle.sites.patterns import alias_pattern
from tulle.sites.results import ResultReader
from tulle.sites.thresholds import decode_intervals
from tulle.sites.trees import shortened, tree_text, with_names
from tulle.sites.vocabulary import Vocabulary
from tulle.tables.frames import as_series, open_table


class SiteCodec:
    """Encodes a site's table and decodes what the miner found in the union.

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

    What may leave
    --------------
    The encoded table. A pandas table keeps its index, as it is: reset one that names people. The
    codec itself holds the agreement and the values it has seen: it is neither shown nor pickled.

    Notes
    -----
    Aliases hide names, not frequencies; graded grouping hides scale, not order. See
    :mod:`tulle.attacks.sites` for what that gives away on your own table.

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
            raise ParameterError("SiteCodec needs a SiteAgreement: SiteAgreement.load(path, ...)")
        self.agreement = agreement
        self.outside = check_choice("SiteCodec", "outside", outside, ("error", "clamp"))
        self.unknown = check_choice("SiteCodec", "unknown", unknown, ("error", "keep"))
        self.random_state = random_state
        self.unknown_count_ = 0
        self._vocabulary = Vocabulary(agreement.columns, agreement._key)
        self._shape = Shape()

    def transform(self, X: Any) -> Any:
        """The encoded table: the agreed columns, in the agreed order."""
        frame = self._open(X)
        rng = as_generator(self.random_state)
        encoded = []
        for column in self.agreement.columns:
            if not isinstance(column, Dropped):
                encoded.append(self._encode(frame, column, rng).alias(column.name))
        return rebuild(X, pl.DataFrame(encoded))

    def learn(self, X: Any) -> SiteCodec:
        """Remembers the values of a table, so that results about them can be decoded."""
        frame = self._open(X)
        for column in self.agreement.columns:
            if isinstance(column, Joint) or (isinstance(column, Aliased) and column.keyed):
                self._vocabulary.learn(column.name, encoding.distinct_texts(frame, column))
        return self

    def inverse_transform(self, X: Any) -> Any:
        """The plain table of an encoded one, or of some of its columns.

        Columns that the agreement does not know (a cluster number, a prediction) are kept; aliases
        in them are decoded. An array has no names: it must hold all columns that transform gives.
        """
        decoded: list[pl.Series] = []
        unknown = 0
        for series in named_columns(X, self.agreement.names):
            found, unread = self._decode(series)
            decoded += found
            if unread and self.unknown == "error":
                raise DataError(
                    f"column '{series.name}': {unread} cells hold aliases of values that this "
                    "codec has not seen. Let it learn your table (learn, --values), load the "
                    "vocabularies of other sites, or keep them (unknown='keep', --keep-unknown)"
                )
            unknown += unread
        self.unknown_count_ = unknown
        order = {name: place for place, name in enumerate(self._shape.dtypes)}
        decoded.sort(key=lambda series: order.get(series.name, len(order)))
        return rebuild(X, pl.DataFrame(decoded), self._shape)

    # -- results ------------------------------------------------------------------------------

    def decode_text(self, text: str, *, decimals: int | None = None) -> str:
        """Aliases, thresholds and intervals wherever they stand in a text.

        ``decimals`` fixes the decimals of decoded numbers; by default as many as the codes can
        tell. Aliases of values that this codec has not seen stay, and ``unknown_count_`` counts
        them.
        """
        if not isinstance(text, str):
            raise DataError(f"decode_text needs a text. Got {type(text).__name__}")
        return str(self._read(lambda reader: reader.text(text, decimals)))

    def decode_rules(self, rules: Any) -> Any:
        """Itemsets and rules: strings, or any nest of sets, lists, tuples, mappings and frames.

        An item may be an alias, ``column=alias``, ``column=code``, ``column=(code, code]``, or a
        pair (column, alias or code). The frames of mlxtend are decoded cell by cell. A bare alias
        becomes its value, and ``column=value`` where several columns have that value.
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
        """A decision tree: text of any tool, or a fitted tree of scikit-learn.

        Decoding text needs the thresholds with enough digits (``export_text(decimals=10)``); a
        fitted tree has them all. ``decimals`` are those of the decoded ones, by default 2 of a
        fitted tree and of text as many as its digits tell. ``feature_names`` stand for feature_0,
        feature_1, ... The leaves of a regression tree are means of codes: see
        :meth:`decode_centers`.
        """
        if isinstance(tree, str):
            return self.decode_text(with_names(tree, feature_names), decimals=decimals)
        text = tree_text(tree, self.agreement.names, feature_names, class_names)
        shown = 2 if decimals is None else decimals
        return shortened(self.decode_text(text, decimals=shown), shown)

    def decode_intervals(self, intervals: Any, column: str) -> Any:
        """Intervals of codes of one column: texts, pairs of numbers or pandas Intervals."""
        graded = self.agreement[column]
        if not isinstance(graded, Graded):
            raise DataError(f"column '{column}' is not graded: it has no intervals")
        return decode_intervals(intervals, graded)

    def decode_centers(self, centers: Any, columns: Sequence[str] | None = None) -> Any:
        """Means of codes, such as cluster centres: a frame, or an array with column names.

        Where codes are a straight line of the numbers (equal cuts) a decoded mean is the mean of
        the numbers; otherwise it is a point of the same group, and not their mean. Numbers are
        not rounded. Columns with an alias in their name are renamed.
        """
        return self._read(lambda reader: reader.centers(centers, columns))

    def decode_json(self, found: Any) -> Any:
        """Anything read from JSON: strings, and numbers under the name of a graded column.

        Numbers under ``threshold``, ``value``, ``low``, ``high``, ``mean`` belong to the column
        that the same object names under ``feature``, ``column`` or ``attribute``.
        """
        return self._read(lambda reader: reader.json(found))

    def _read(self, work: Callable[[ResultReader], Any]) -> Any:
        reader = ResultReader(self.agreement, self._vocabulary)
        decoded = work(reader)
        self.unknown_count_ = len(reader.unknown)
        return decoded

    # -- values -------------------------------------------------------------------------------

    def save_vocabulary(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the values seen so far for the other sites, sealed under the agreement.

        With it they can decode results about values that only this site holds. The miner cannot
        read it.
        """
        self._vocabulary.save(path, force=force)

    def load_vocabulary(self, path: str | os.PathLike[str]) -> SiteCodec:
        """Adds the values that another site has shared."""
        self._vocabulary.load(path)
        return self

    # -- one column ---------------------------------------------------------------------------

    def _open(self, X: Any) -> pl.DataFrame:
        columns, container = open_table(X)
        frame = pl.DataFrame([as_series(name, cells) for name, cells in columns.items()])
        self._check_columns(frame.columns)
        self._shape = Shape(kind_of_table(X), container, dict(frame.schema))
        return frame

    def _check_columns(self, names: list[str]) -> None:
        agreed = [name for column in self.agreement.columns for name in column.sources]
        at_home = {c.name for c in self.agreement.columns if isinstance(c, Dropped)}
        absent = [name for name in agreed if name not in names and name not in at_home]
        if absent:
            raise DataError(
                f"the table has no column '{absent[0]}', which the agreement names: "
                f"{nearest_name(absent[0], names)}"
            )
        extra = [name for name in names if name not in agreed]
        if extra:
            shown = ", ".join(f"'{name}'" for name in extra[:5])
            raise DataError(
                f"{len(extra)} columns are not in the agreement: {shown}. Drop them, or make a new "
                "agreement"
            )

    def _encode(self, frame: pl.DataFrame, column: Coded, rng: np.random.Generator) -> pl.Series:
        if isinstance(column, Graded):
            return encoding.encode_graded(frame[column.name], column, self.outside)
        if isinstance(column, Plain):
            return frame[column.name]
        if isinstance(column, Joint):
            return encoding.encode_joint(frame, column, self._vocabulary)
        assert isinstance(column, Aliased)
        if not column.keyed:
            return encoding.encode_listed(frame[column.name], column, self._vocabulary)
        if column.split:
            return encoding.encode_split(frame[column.name], column, self._vocabulary, rng)
        return encoding.encode_keyed(frame[column.name], column, self._vocabulary)

    def _decode(self, series: pl.Series) -> tuple[list[pl.Series], int]:
        """The plain columns of an encoded one, and how many cells could not be read."""
        if series.name not in self.agreement:
            if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
                return [series], 0
            pattern = alias_pattern(self.agreement.columns)
            kept, unread = encoding.decode_foreign(series, self._vocabulary, pattern)
            return [kept], unread
        column = self.agreement[series.name]
        dtypes = [self._shape.dtypes.get(name) for name in column.sources]
        if isinstance(column, Graded):
            return [encoding.decode_graded(series, column, dtypes[0])], 0
        if isinstance(column, Aliased):
            found, unread = encoding.decode_aliased(series, column, self._vocabulary, dtypes[0])
            return [found], unread
        if isinstance(column, Joint):
            return encoding.decode_joint(series, column, self._vocabulary, dtypes)
        return [series], 0

    def __repr__(self) -> str:
        return f"SiteCodec({self.agreement!r})"

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError(
            "a SiteCodec is never pickled: save its agreement and make a new codec from it"
        )
