"""What the miner found, in the words of the sites: text, rules, trees, intervals, centres, JSON."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tulle.sites.agreement import SiteAgreement
from tulle.sites.aliases import TOKEN
from tulle.sites.columns import Aliased, Graded, Joint
from tulle.sites.grading import ungrade
from tulle.sites.thresholds import NUMBER, decode_comparison, decode_interval, decode_value
from tulle.sites.vocabulary import Vocabulary

_OPERATOR = r"<=|>=|==|&le;|≤|≥|<|>|=|:"
_FEATURE_KEYS = ("feature", "column", "attribute", "name", "split_feature")
_NUMBER_KEYS = ("threshold", "value", "split", "cut", "low", "high", "mean", "center", "centre")
_TURNED = {"<": ">", "<=": ">="}


class ResultReader:
    """Decodes results; counts the aliases that it cannot read in ``unknown``."""

    def __init__(self, agreement: SiteAgreement, words: Vocabulary) -> None:
        self.unknown: set[str] = set()
        self._known = words.texts()
        self._graded = {c.name: c for c in agreement.columns if isinstance(c, Graded)}
        self._aliases = _alias_pattern(agreement)
        self._codes = _code_pattern(list(self._graded))

    # -- text ---------------------------------------------------------------------------------

    def text(self, text: str, decimals: int | None = None) -> str:
        """Aliases, thresholds and intervals of any text."""
        if self._codes is not None:
            text = self._codes.sub(lambda match: self._decode_match(match, decimals), text)
        if self._aliases is not None:
            text = self._aliases.sub(self._decode_alias, text)
        return text

    def _decode_alias(self, match: re.Match[str]) -> str:
        alias = match.group()
        if alias not in self._known:
            self.unknown.add(alias)
        return self._known.get(alias, alias)

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
            text = f"{number} {'<' if turned == '>' else '<='} {text}"
        if part["operator"]:
            operator, number = decode_comparison(column, part["operator"], part["number"], decimals)
            text = f"{text}{part['before']}{operator}{part['after']}{number}"
        return text

    # -- rules and anything built of strings --------------------------------------------------

    def anything(self, found: Any) -> Any:
        """Strings inside sets, lists, tuples, mappings, records and frames; the shape is kept."""
        if isinstance(found, str):
            return self.text(found)
        if isinstance(found, Mapping):
            return {self.anything(key): self.anything(value) for key, value in found.items()}
        if isinstance(found, tuple):
            return self._tuple(found)
        if isinstance(found, list | set | frozenset):
            return type(found)(self.anything(part) for part in found)
        if isinstance(found, np.ndarray) and found.dtype.kind in "OU":
            return np.array(
                [self.anything(part) for part in found.tolist()], dtype=found.dtype.kind
            )
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            return self._record(found)
        if hasattr(found, "columns") and hasattr(found, "shape"):
            return self._frame(found)
        return found

    def _tuple(self, found: tuple[Any, ...]) -> Any:
        if len(found) == 2 and found[0] in self._graded and _is_number(found[1]):
            return found[0], self._value(self._graded[found[0]], found[1])
        parts = [self.anything(part) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)

    def _record(self, found: Any) -> Any:
        changes = {
            field.name: self.anything(getattr(found, field.name))
            for field in dataclasses.fields(found)
            if field.init
        }
        return dataclasses.replace(found, **changes)

    def _frame(self, found: Any) -> Any:
        if type(found).__module__.startswith("pandas"):
            decoded = found.copy()
            for place, dtype in enumerate(found.dtypes):
                if dtype.kind == "O":
                    cells = [self.anything(cell) for cell in found.iloc[:, place]]
                    decoded.isetitem(place, _objects(cells))
            return decoded.rename(columns=lambda name: self.anything(name))
        import polars as pl

        from tulle.sites.like import rebuild
        from tulle.tables.frames import to_polars

        frame = found if isinstance(found, pl.DataFrame) else to_polars(found)
        decoded = [
            pl.Series(self.text(series.name), [self.anything(cell) for cell in series.to_list()])
            if series.dtype == pl.String or series.dtype.is_nested()
            else series.alias(self.text(series.name))
            for series in frame
        ]
        return rebuild(found, pl.DataFrame(decoded))

    def centers(self, found: Any, columns: Sequence[str] | None) -> Any:
        """Means of codes in a frame, or in an array whose columns are named."""
        import polars as pl

        from tulle.sites.like import rebuild
        from tulle.tables.frames import to_polars

        frame = to_polars(found)
        if columns is not None:
            frame.columns = list(columns)
        decoded = []
        for series in frame:
            column = self._graded.get(series.name)
            if column is not None:
                codes = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
                series = pl.Series(series.name, ungrade(codes, column.scale))
            decoded.append(series.alias(self.text(series.name)))
        return rebuild(found, pl.DataFrame(decoded))

    # -- numbers with a name ------------------------------------------------------------------

    def json(self, found: Any, column: Graded | None = None) -> Any:
        """JSON: strings everywhere, and numbers under the name of a graded column."""
        if isinstance(found, Mapping):
            return self._json_object(found, column)
        if isinstance(found, list):
            return [self.json(part, column) for part in found]
        if isinstance(found, str):
            return self.text(found)
        if column is not None and _is_number(found):
            return self._value(column, found, whole=False)
        return found

    def _json_object(self, found: Mapping[str, Any], column: Graded | None) -> dict[str, Any]:
        named = next((found[key] for key in _FEATURE_KEYS if key in found), None)
        subject = self._graded.get(named) if isinstance(named, str) else None
        decoded = {}
        for key, value in found.items():
            own = self._graded.get(key)
            if own is None and key in _NUMBER_KEYS:
                own = subject or column
            decoded[self.text(key)] = self.json(value, own)
        return decoded

    def _value(self, column: Graded, code: Any, *, whole: bool = True) -> Any:
        if whole or column.type not in ("integer", "decimal"):
            text = decode_value(column, repr(float(code)))
            return float(text) if column.type == "decimal" else _int_or_text(text)
        return float(ungrade(np.array([float(code)]), column.scale)[0])


def _alias_pattern(agreement: SiteAgreement) -> re.Pattern[str] | None:
    keyed = [c.name for c in agreement.columns if isinstance(c, Joint) or _is_keyed(c)]
    listed = [c.name for c in agreement.columns if isinstance(c, Aliased) and not c.keyed]
    ways = []
    for names, token in ((keyed, TOKEN), (listed, r"\d+")):
        if names:
            ways.append(f"(?:{_any_of(names)})_{token}")
    # a longer word is something else: relationship_relationship_... begins a column's name
    return re.compile(rf"(?:{'|'.join(ways)})(?!\w)") if ways else None


def _code_pattern(names: list[str]) -> re.Pattern[str] | None:
    if not names:
        return None
    return re.compile(
        rf"(?:(?P<below>{NUMBER})\s*(?P<under><=|<)\s*)?"
        rf"(?<![\w.-])(?P<name>{_any_of(names)})"
        rf"(?:(?P<before>\s*)(?P<operator>{_OPERATOR})(?P<after>\s*)(?P<number>{NUMBER})(?![\w])"
        rf"|(?P<gap>\s*(?:=|_|:|in\b|∈)?\s*)(?P<left>[\[(])\s*(?P<start>{NUMBER})\s*[,;]\s*"
        rf"(?P<end>{NUMBER})\s*(?P<right>[\])])|(?=\W|$))"
    )


def _any_of(names: list[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def _is_keyed(column: Any) -> bool:
    return isinstance(column, Aliased) and column.keyed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _int_or_text(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _objects(cells: list[Any]) -> Any:
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found
