"""What the miner found, in the words of the sites: text, rules, centres, JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.sites import _values as dates
from tulle.sites._columns import TOKEN, Aliased, AliasTables, Coded, Graded, cut, ungrade
from tulle.sites._values import is_number
from tulle.sites.agreement import SiteAgreement
from tulle.table._frames import Exit, enter, to_polars
from tulle.table._pandas import keep_index
from tulle.table.schema import Kind

# How aliases and codes of an agreement look inside a text: what finds them.

# possessive, and from its first digit only: digits by the thousand would take hours otherwise
NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?(?:[eE][-+]?\d{1,9}+)?|\.\d++(?:[eE][-+]?\d{1,9}+)?|inf)"
# Weka writes age='(2.0-3.5]'
INTERVAL = rf"(?P<left>[\[(])\s*(?P<start>{NUMBER})\s*[,;-]\s*(?P<end>{NUMBER})\s*(?P<right>[\])])"
_OPERATOR = r"<=|>=|==|!=|&le;|≤|≥|<|>|=|:"


def alias_pattern(columns: Iterable[Coded]) -> re.Pattern[str] | None:
    """Build a pattern that finds aliases of any value, known or not."""
    aliased = [column for column in columns if isinstance(column, Aliased)]
    keyed = [column.name for column in aliased if column.keyed]
    listed = [column.name for column in aliased if not column.keyed]
    ways = [
        f"(?:{_any_of(names)})_{token}"
        for names, token in ((keyed, TOKEN), (listed, r"\d+"))
        if names
    ]
    # not inside a longer word: covid_19 is not an alias of a column id; in the name of an indicator
    # (relationship_relationship_...) the alias comes last
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(ways)})(?!\w)") if ways else None


def code_pattern(names: list[str]) -> re.Pattern[str] | None:
    """Build a pattern that finds graded columns together with what they are compared with."""
    if not names:
        return None
    return re.compile(
        rf"(?:(?<![\d.])(?P<below>{NUMBER})\s*+(?P<under><=|>=|<|>)\s*+)?"
        rf"(?<![\w.-])(?P<name>{_any_of(names)})"
        rf"(?:(?P<before>\s*)(?P<operator>{_OPERATOR})(?P<after>\s*)(?P<number>{NUMBER})(?![\w])"
        rf"|(?P<gap>\s*+(?:=|_|:|in\b|∈)?\s*+[\\'\"]*){INTERVAL}|(?=\W|$))"
    )


def _any_of(names: list[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


# Codes inside mined results: thresholds, intervals and values, back in the original scale. A
# threshold t between codes is a place between numbers. Inside a group it decodes to one number.
# Between two groups it decodes to the limit between them, and because a limit belongs to the
# group above it, ``code <= t`` then means ``x < limit``: the comparison becomes strict.

_INTERVAL = re.compile(INTERVAL)
_DAY = 24 * 60 * 60 * 1_000_000  # microseconds
_STRICT = {"<=": "<", ">": ">=", "≤": "<", "&le;": "<"}


def decode_comparison(
    column: Graded, operator: str, code: str, decimals: int | None = None
) -> tuple[str, str]:
    """Return operator and number of ``column operator code`` in the original scale."""
    value = float(code)
    if math.isinf(value):
        return operator, code
    if operator in ("=", "==", "!="):
        return operator, decode_value(column, code, decimals)
    number, strict = cut(value, column.scale)
    if strict and operator in _STRICT:
        operator = _STRICT[operator]
    return operator, _shown(column, number, operator, _digits(column, code), decimals)


def decode_value(column: Graded, code: str, decimals: int | None = None) -> str:
    number, _ = cut(float(code), column.scale)
    if column.moment == "date" or (column.kind is Kind.INTEGER and decimals is None):
        number = float(round(number))
    return _shown(column, number, "=", _digits(column, code), decimals)


def decode_interval(
    column: Graded, left: str, low: str, high: str, right: str, decimals: int | None = None
) -> str:
    """Decode an interval such as ``(2.0, 3.5]``; a side between two groups changes its bracket.

    >>> from tulle.table.schema import Role
    >>> age = Graded("age", Kind.INTEGER, Role.QUASI, 0, 100, "given", 2, (0, 10, 100), (3, 7))
    >>> decode_interval(age, "(", "3.5", "5.0", "]"), decode_interval(age, "(", "5", "inf", ")")
    ('(5, 10)', '[10, inf)')
    """
    above, start = decode_comparison(column, ">=" if left == "[" else ">", low, decimals)
    below, end = decode_comparison(column, "<=" if right == "]" else "<", high, decimals)
    return f"{'[' if above == '>=' else '('}{start}, {end}{']' if below == '<=' else ')'}"


def decode_intervals(intervals: Any, column: Graded) -> Any:
    """Decode texts, pairs of numbers or pandas Intervals of codes, one or a list of them."""
    if isinstance(intervals, str):
        return _INTERVAL.sub(lambda m: decode_interval(column, m[1], m[2], m[3], m[4]), intervals)
    if hasattr(intervals, "closed") and hasattr(intervals, "left"):
        if hasattr(intervals, "dtype"):  # an IntervalIndex
            return [decode_intervals(interval, column) for interval in intervals]
        return _pandas_interval(intervals, column)
    if isinstance(intervals, tuple) and len(intervals) == 2 and all(map(is_number, intervals)):
        return tuple(_end(column, float(code)) for code in intervals)
    if not isinstance(intervals, Iterable):
        raise DataError(
            "intervals must be texts such as '(2.0, 3.5]', pairs of numbers or pandas "
            f"Intervals. Got {type(intervals).__name__}"
        )
    return [decode_intervals(interval, column) for interval in intervals]


def moment_of(column: Graded, number: float) -> dt.date | dt.datetime:
    """Return the moment of a number between those of the column: a time stamp."""
    unit = _DAY if column.moment == "date" else column.tick
    return dates.as_moment(number * unit, "timestamp")


def _end(column: Graded, code: float) -> Any:
    if math.isinf(code) or math.isnan(code):
        return code
    number = float(ungrade(np.array([code]), column.scale)[0])
    if not column.moment:
        return number
    return moment_of(column, number)


def _pandas_interval(interval: Any, column: Graded) -> Any:
    left = "[" if interval.closed in ("left", "both") else "("
    right = "]" if interval.closed in ("right", "both") else ")"
    ends = (repr(float(interval.left)), repr(float(interval.right)))
    text = decode_interval(column, left, *ends, right)
    closed = {"[)": "left", "(]": "right", "[]": "both", "()": "neither"}[text[0] + text[-1]]
    low, high = (_end(column, float(end)) for end in (interval.left, interval.right))
    if column.moment:
        import pandas as pd

        low, high = pd.Timestamp(low), pd.Timestamp(high)
    return type(interval)(low, high, closed=closed)


def uncertainty(column: Graded, code: str) -> tuple[float, str] | None:
    """Return how far off a decoded number may be because its code was printed short, and the unit.

    None if that does not matter: less than half of a whole number or a day, or of a decimal less
    than a thousandth of its range.
    """
    mantissa, _, exponent = code.lower().partition("e")
    if "." not in mantissa or math.isinf(float(code)):
        return None
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    low, high = (float(cut(float(code) + step, column.scale)[0]) for step in (-half, half))
    off, unit, matters = (high - low) / 2, "", 0.5
    if column.moment == "date":
        unit = " days"
    elif column.moment == "timestamp":
        off, unit = off * column.tick / _DAY, " days"
    elif column.kind is Kind.DECIMAL:
        matters = (column.high - column.low) / 1000
    return (off, unit) if off > matters else None


def _digits(column: Graded, code: str) -> int:
    """Return how many decimals of the number the decimals of its code can tell."""
    mantissa, _, exponent = code.lower().partition("e")
    shown = len(mantissa.partition(".")[2]) - int(exponent or 0)
    width = float(np.diff(column.scale.limits).max())
    fine = max(0, math.ceil(-math.log10(width)))  # zeros that every number of a tiny range has
    return min(8 + fine, max(0, math.ceil(shown - math.log10(width)) + 1))


def _shown(column: Graded, number: float, operator: str, digits: int, decimals: int | None) -> str:
    if column.moment == "date":
        # days are whole: x <= 3.5 means x <= 3, x < 3.5 means x < 4
        up = operator in ("<", ">=")
        day = math.ceil(number - 1e-6) if up else math.floor(number + 1e-6)
        return str(dates.as_moment(day, "date"))
    if column.ticks:
        return str(dates.as_moment(number * column.tick, column.moment))
    if decimals is not None:
        return f"{number:.{decimals}f}"
    text = f"{number:.{digits}f}"
    return re.sub(r"\.?0+$", "", text) if "." in text else text


_FEATURE_KEYS = ("feature", "column", "attribute", "name", "split_feature")
_NUMBER_KEYS = ("threshold", "value", "split", "cut", "low", "high", "mean", "center", "centre")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class ResultReader:
    """Decodes results; collects the aliases that it cannot read in ``unknown``.

    ``inside`` names the column that a result is about, where that is known from around it.
    """

    def __init__(self, agreement: SiteAgreement, words: AliasTables) -> None:
        self.unknown: set[str] = set()
        self.rough: dict[str, tuple[float, str]] = {}  # thresholds printed too short, by column
        self._agreed = agreement.names
        self._names = {column.name for column in agreement.columns}
        self._known, self._shared = words.texts()
        self._graded = {c.name: c for c in agreement.columns if isinstance(c, Graded)}
        self._aliases = alias_pattern(agreement.columns)
        self._codes = code_pattern(list(self._graded))

    # -- text ---------------------------------------------------------------------------------

    def text(self, text: str, decimals: int | None = None, inside: str | None = None) -> str:
        if self._codes is not None:
            text = self._codes.sub(lambda match: self._decode_match(match, decimals), text)
        if self._aliases is not None:
            text = self._aliases.sub(lambda match: self._decode_alias(match, inside), text)
        return text

    def _decode_alias(self, match: re.Match[str], inside: str | None) -> str:
        """Return the value; with its column, if other columns share it and nothing says which."""
        alias = match.group()
        if alias in self._names:
            return alias
        if alias not in self._known:
            self.unknown.add(alias)
            return alias
        value, column = self._known[alias], alias.rpartition("_")[0]
        before = match.string[max(0, match.start() - len(column) - 8) : match.start()]
        named = before.rstrip("=_: '\"").endswith(column)  # sex=, "sex": , sex_
        if value not in self._shared or column == inside or named:
            return value
        return f"{column}={value}"

    def _decode_match(self, match: re.Match[str], decimals: int | None) -> str:
        part = match.groupdict()
        column = self._graded[part["name"]]
        for code in (part["start"], part["end"], part["below"], part["number"]):
            if code is not None:
                off = uncertainty(column, code)
                if off is not None:
                    self.rough[column.name] = max(off, self.rough.get(column.name, off))
        if part["left"]:
            decoded = decode_interval(
                column, part["left"], part["start"], part["end"], part["right"], decimals
            )
            return f"{part['name']}{part['gap']}{decoded}"
        text: str = part["name"]
        if part["below"]:
            # 2 < age is age > 2
            turned, number = decode_comparison(
                column, _TURNED[part["under"]], part["below"], decimals
            )
            text = f"{number} {_TURNED[turned]} {text}"
        if part["operator"]:
            operator, number = decode_comparison(column, part["operator"], part["number"], decimals)
            text = f"{text}{part['before']}{operator}{part['after']}{number}"
        return text

    # -- rules and anything built of strings --------------------------------------------------

    def anything(self, found: Any, inside: str | None = None, *, numbers: bool = False) -> Any:
        """Decode strings in sets, lists, tuples, mappings, records and frames; keep the shape.

        ``numbers``, as JSON has them: also numbers under the name of a graded column.
        """
        if isinstance(found, str):
            return self.text(found, inside=inside)
        if isinstance(found, Mapping):
            named = next((found[key] for key in _FEATURE_KEYS if key in found), None)
            decoded = []
            for key, value in found.items():
                own = self._subject(key)
                if numbers and own is None and key in _NUMBER_KEYS:
                    own = self._subject(named) or inside
                decoded.append(self.anything(value, own, numbers=numbers))
            return dict(zip(self._distinct(found), decoded))
        if isinstance(found, tuple):
            return self._tuple(found, inside)
        if isinstance(found, set | frozenset):
            return type(found)(self._distinct(found))
        if isinstance(found, list | Iterator | KeysView | ValuesView):
            return [self.anything(part, inside, numbers=numbers) for part in found]
        if isinstance(found, np.ndarray) and found.dtype.kind in "OU":
            parts = [self.anything(part, inside) for part in found.tolist()]
            return np.array(parts, dtype=found.dtype.kind)
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            names = [field.name for field in dataclasses.fields(found) if field.init]
            changes = {name: self.anything(getattr(found, name)) for name in names}
            return dataclasses.replace(found, **changes)
        if type(found).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
            return decode_frame(found, self.anything, self._distinct)
        if numbers and inside in self._graded and _is_code(found):
            return self._value(self._graded[inside], found, whole=False)
        return found

    def _tuple(self, found: tuple[Any, ...], inside: str | None) -> Any:
        if len(found) == 2 and (subject := self._subject(found[0])) is not None:
            column = self._graded.get(subject)
            if column is not None and _is_code(found[1]):
                return found[0], self._value(column, found[1])
            return found[0], self.anything(found[1], subject)
        parts = [self.anything(part, inside) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)

    def _subject(self, name: Any) -> str | None:
        """Return the column that something is named after, if it is one."""
        return name if isinstance(name, str) and name in self._names else None

    def _distinct(self, found: Iterable[Any]) -> list[Any]:
        """Return decoded parts that must stay distinct: aliases of one value keep their alias."""
        parts = list(found)
        decoded = [self.anything(part) for part in parts]
        count = Counter(part for part in decoded if isinstance(part, str))
        return [
            f"{new} ({old})" if isinstance(new, str) and count[new] > 1 and new != old else new
            for old, new in zip(parts, decoded)
        ]

    # -- numbers with a name ------------------------------------------------------------------

    def centers(self, found: Any, columns: Sequence[str] | None) -> Any:
        """Decode means of codes in a frame, or in an array whose columns are named."""
        cells = named_columns(found, self._agreed, columns)
        decoded = [
            self._means(series) if series.name in self._graded else series for series in cells
        ]
        names = self._distinct(series.name for series in decoded)
        named = [series.alias(name) for series, name in zip(decoded, names)]
        return rebuild(found, pl.DataFrame(named))

    def _means(self, series: Any) -> Any:
        column = self._graded[series.name]
        if not (series.dtype.is_numeric() or series.dtype == pl.Null):
            raise DataError(f"column '{series.name}' holds {series.dtype.base_type()}, not means")
        codes = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        numbers = ungrade(codes, column.scale)
        if not column.moment:
            return pl.Series(series.name, numbers)
        moments = [None if math.isnan(number) else moment_of(column, number) for number in numbers]
        return pl.Series(series.name, moments, dtype=pl.Datetime("us"))

    def _value(self, column: Graded, code: Any, *, whole: bool = True) -> Any:
        if whole or column.moment:
            text = decode_value(column, repr(float(code)))
            if column.kind is Kind.DECIMAL:
                return float(text)
            return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
        return float(ungrade(np.array([float(code)]), column.scale)[0])


def _is_code(value: Any) -> bool:
    return is_number(value) and not math.isnan(value)


# Results in frames and series: cells, names and labels decoded, the kind kept.

Decode = Callable[..., Any]  # of anything, and of the name of the column that it stands in
Distinct = Callable[[Iterable[Any]], list[Any]]


def decode_frame(found: Any, decode: Decode, distinct: Distinct) -> Any:
    """Decode a frame, series or index of pandas, polars or pyarrow; leave anything else as is."""
    library, kind = type(found).__module__.partition(".")[0], type(found).__name__
    if library == "pandas":
        return _decode_pandas(found, decode, distinct)
    if kind == "Series":
        return _decode_series(found, decode)
    if not (hasattr(found, "columns") and hasattr(found, "shape")):
        return found
    frame = to_polars(found) if library == "pyarrow" else found
    decoded = [_decode_series(series, decode) for series in frame]
    names = distinct(frame.columns)
    return rebuild(found, pl.DataFrame([s.alias(n) for s, n in zip(decoded, names)]))


def _decode_series(series: Any, decode: Decode) -> Any:
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype != pl.String and not series.dtype.is_nested():
        return series
    return pl.Series(series.name, [decode(cell, series.name) for cell in series.to_list()])


def _decode_pandas(found: Any, decode: Decode, distinct: Distinct) -> Any:
    import pandas as pd

    if isinstance(found, pd.Index):
        return found.map(decode) if _holds_text(found) else found
    if isinstance(found, pd.Series):
        cells = [decode(cell, found.name) for cell in found] if _holds_text(found) else found.array
        return pd.Series(_objects(cells), index=decode(found.index), name=found.name)
    if not isinstance(found, pd.DataFrame):
        return found
    decoded = found.copy()
    for place, name in enumerate(found.columns):
        if _holds_text(found.iloc[:, place]):
            cells = [decode(cell, name) for cell in found.iloc[:, place]]
            decoded.isetitem(place, _objects(cells))
    decoded.index = decode(found.index)
    if not isinstance(found.columns, pd.MultiIndex):
        decoded.columns = pd.Index(distinct(found.columns), name=found.columns.name)
    else:
        decoded.columns = decode(found.columns)
    return decoded


def _holds_text(values: Any) -> bool:
    return getattr(values, "nlevels", 1) > 1 or values.dtype.kind == "O"


def _objects(cells: Any) -> Any:
    if not isinstance(cells, list):
        return cells
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


# A fitted decision tree of scikit-learn as text, with all digits of its thresholds.

_DIGITS = 15


def tree_text(
    tree: Any,
    agreed: Sequence[str],
    feature_names: Sequence[str] | None,
    class_names: Sequence[str] | None,
) -> str:
    """Return the text of a tree, with the feature names it was fitted with or the agreed ones."""
    from sklearn.tree import export_text

    if not hasattr(tree, "tree_"):
        raise DataError("pass the text of a decision tree, or a fitted tree of scikit-learn")
    features, classes = tree.n_features_in_, len(getattr(tree, "classes_", ()))
    known = getattr(tree, "feature_names_in_", agreed)
    names = list(known if feature_names is None else feature_names)
    if len(names) != features:
        raise DataError(
            f"the tree has {features} features, but only {len(names)} names are known: pass "
            "feature_names"
        )
    if class_names is not None and len(class_names) != classes:
        raise DataError(f"the tree has {classes} classes, but class_names has {len(class_names)}")
    return str(
        export_text(
            tree,
            feature_names=names,
            class_names=None if class_names is None else list(class_names),
            max_depth=max(1, tree.get_depth()),
            decimals=_DIGITS,
        )
    )


def with_names(text: str, feature_names: Sequence[str] | None) -> str:
    """Return the text of a tree that was grown without feature names, with names."""
    if feature_names is None:
        return text
    names = dict(enumerate(feature_names))
    return re.sub(
        r"\bfeature_(\d{1,9})\b", lambda match: names.get(int(match[1]), match.group()), text
    )


def shortened(text: str, decimals: int) -> str:
    """Shorten thresholds of indicators, which are not codes and need not keep all their digits."""
    long = rf"-?\d+\.\d{{{_DIGITS}}}\b"
    return re.sub(long, lambda match: f"{float(match.group()):.{decimals}f}", text)


# The same kind of table out as came in, index and types kept.


def named_columns(
    X: Any, agreed: Sequence[str], given: Sequence[str] | None = None
) -> list[pl.Series]:
    """Return the columns of a table, under the names given for them, if any.

    Arrays and lists have no names: without given ones they must have the agreed columns, all of
    them and in that order, as ``transform`` gives them.
    """
    frame, exit = enter(X)
    if given is None and not exit.plain:
        return list(frame)
    names = agreed if given is None else given
    if len(names) != frame.width:
        raise DataError(
            f"the table has {frame.width} columns, but {len(names)} names are known: name its "
            "columns, or pass a frame"
        )
    return [column.alias(name) for column, name in zip(frame, names)]


def rebuild(X: Any, frame: pl.DataFrame, home: Exit | None = None) -> Any:
    """Convert a polars frame to the container of X, in the types of ``home`` if that is alike."""
    if isinstance(X, pl.DataFrame):
        return frame
    exit = enter(X)[1]
    alike = home is not None and type(home) is type(exit)
    return keep_index((home if alike and home else exit).leave(frame), X)
