"""What the miner found, in the words of the sites: text, rules, centres, JSON."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

import numpy as np

from tulle.errors import DataError
from tulle.sites.agreement import SiteAgreement
from tulle.sites.columns import Graded, ValueType
from tulle.sites.grading import ungrade
from tulle.sites.patterns import alias_pattern, code_pattern, is_named_before
from tulle.sites.thresholds import (
    decode_comparison,
    decode_interval,
    decode_value,
    is_number,
    moment_of,
)
from tulle.sites.vocabulary import Vocabulary

_FEATURE_KEYS = ("feature", "column", "attribute", "name", "split_feature")
_NUMBER_KEYS = ("threshold", "value", "split", "cut", "low", "high", "mean", "center", "centre")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class ResultReader:
    """Decodes results; collects the aliases that it cannot read in ``unknown``.

    ``inside`` names the column that a result is about, where that is known from around it.
    """

    def __init__(self, agreement: SiteAgreement, words: Vocabulary) -> None:
        self.unknown: set[str] = set()
        self._agreed = agreement.names
        self._names = {name for column in agreement.columns for name in column.sources}
        self._known = words.texts()
        self._shared = words.shared_texts()
        self._graded = {c.name: c for c in agreement.columns if isinstance(c, Graded)}
        self._aliases = alias_pattern(agreement.columns)
        self._codes = code_pattern(list(self._graded))

    # -- text ---------------------------------------------------------------------------------

    def text(self, text: str, decimals: int | None = None, inside: str | None = None) -> str:
        """Aliases, thresholds and intervals of any text."""
        if self._codes is not None:
            text = self._codes.sub(lambda match: self._decode_match(match, decimals), text)
        if self._aliases is not None:
            text = self._aliases.sub(lambda match: self._decode_alias(match, inside), text)
        return text

    def _decode_alias(self, match: re.Match[str], inside: str | None) -> str:
        """The value; with its column, if other columns have the same and nothing says which."""
        alias = match.group()
        if alias in self._names:
            return alias
        if alias not in self._known:
            self.unknown.add(alias)
            return alias
        value, column = self._known[alias], alias.rpartition("_")[0]
        if value not in self._shared or column == inside or is_named_before(match, column):
            return value
        return f"{column}={value}"

    def _decode_match(self, match: re.Match[str], decimals: int | None) -> str:
        part = match.groupdict()
        column = self._graded[part["name"]]
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

    def anything(self, found: Any, inside: str | None = None) -> Any:
        """Strings inside sets, lists, tuples, mappings, records and frames; the shape is kept."""
        if isinstance(found, str):
            return self.text(found, inside=inside)
        if isinstance(found, Mapping):
            values = [self.anything(value, self._subject(key)) for key, value in found.items()]
            return dict(zip(self._distinct(found), values))
        if isinstance(found, tuple):
            return self._tuple(found, inside)
        if isinstance(found, set | frozenset):
            return type(found)(self._distinct(found))
        if isinstance(found, list | Iterator | KeysView | ValuesView):
            return [self.anything(part, inside) for part in found]
        if isinstance(found, np.ndarray) and found.dtype.kind in "OU":
            parts = [self.anything(part, inside) for part in found.tolist()]
            return np.array(parts, dtype=found.dtype.kind)
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            return self._record(found)
        if type(found).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
            from tulle.sites.result_frames import decode_frame

            return decode_frame(found, self.anything, self._distinct)
        return found

    def _tuple(self, found: tuple[Any, ...], inside: str | None) -> Any:
        if len(found) == 2 and (subject := self._subject(found[0])) is not None:
            column = self._graded.get(subject)
            if column is not None and _is_code(found[1]):
                return found[0], self._value(column, found[1])
            return found[0], self.anything(found[1], subject)
        parts = [self.anything(part, inside) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)

    def _record(self, found: Any) -> Any:
        changes = {
            field.name: self.anything(getattr(found, field.name))
            for field in dataclasses.fields(found)
            if field.init
        }
        return dataclasses.replace(found, **changes)

    def _subject(self, name: Any) -> str | None:
        """The column that something is called by, if it is one."""
        return name if isinstance(name, str) and name in self._names else None

    def _distinct(self, found: Iterable[Any]) -> list[Any]:
        """Decoded parts that must stay as many: aliases of one value keep their alias."""
        parts = list(found)
        decoded = [self.anything(part) for part in parts]
        count = Counter(part for part in decoded if isinstance(part, str))
        return [
            f"{new} ({old})" if isinstance(new, str) and count[new] > 1 and new != old else new
            for old, new in zip(parts, decoded)
        ]

    # -- numbers with a name ------------------------------------------------------------------

    def centers(self, found: Any, columns: Sequence[str] | None) -> Any:
        """Means of codes in a frame, or in an array whose columns are named."""
        import polars as pl

        from tulle.sites.like import named_columns, rebuild

        cells = named_columns(found, self._agreed, columns)
        decoded = [
            self._means(series) if series.name in self._graded else series for series in cells
        ]
        names = self._distinct(series.name for series in decoded)
        named = [series.alias(name) for series, name in zip(decoded, names)]
        return rebuild(found, pl.DataFrame(named))

    def _means(self, series: Any) -> Any:
        import polars as pl

        column = self._graded[series.name]
        if not (series.dtype.is_numeric() or series.dtype == pl.Null):
            raise DataError(f"column '{series.name}' holds {series.dtype.base_type()}, not means")
        codes = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        numbers = ungrade(codes, column.scale)
        if column.type in (ValueType.INTEGER, ValueType.DECIMAL):
            return pl.Series(series.name, numbers)
        moments = [None if math.isnan(number) else moment_of(column, number) for number in numbers]
        held = pl.Time if column.type is ValueType.TIME else pl.Datetime("us")
        return pl.Series(series.name, moments, dtype=held)

    def json(self, found: Any, inside: str | None = None) -> Any:
        """JSON: strings everywhere, and numbers under the name of a graded column."""
        if isinstance(found, Mapping):
            return self._json_object(found, inside)
        if isinstance(found, list):
            return [self.json(part, inside) for part in found]
        if isinstance(found, str):
            return self.text(found, inside=inside)
        if inside in self._graded and _is_code(found):
            return self._value(self._graded[inside], found, whole=False)
        return found

    def _json_object(self, found: Mapping[str, Any], inside: str | None) -> dict[str, Any]:
        named = next((found[key] for key in _FEATURE_KEYS if key in found), None)
        decoded = []
        for key, value in found.items():
            own = self._subject(key)
            if own is None and key in _NUMBER_KEYS:
                own = self._subject(named) or inside
            decoded.append(self.json(value, own))
        return dict(zip(self._distinct(found), decoded))

    def _value(self, column: Graded, code: Any, *, whole: bool = True) -> Any:
        if whole or column.type not in (ValueType.INTEGER, ValueType.DECIMAL):
            text = decode_value(column, repr(float(code)))
            return float(text) if column.type is ValueType.DECIMAL else _int_or_text(text)
        return float(ungrade(np.array([float(code)]), column.scale)[0])


def _is_code(value: Any) -> bool:
    return is_number(value) and not math.isnan(value)


def _int_or_text(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else text
