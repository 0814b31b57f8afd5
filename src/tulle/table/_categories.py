"""Categories as dimensions: an indicator for each state, in a bounded width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._columns import CategoryColumn
from tulle._types import Floats, Ints
from tulle.errors import DataError
from tulle.table._codecs import (
    Affine,
    Problem,
    never_missing,
    one_scale,
    places_in,
    refuse,
    refuse_other_type,
    values_at,
    wrong_type,
)
from tulle.table._drawing import Grouped, among_present, choose_states
from tulle.table._rare import Crowd, Hierarchy, merge_categories, nearest_codes
from tulle.table._series import filled, free_name, is_missing
from tulle.table.schema import Column, Kind

_UNKNOWN = -2  # the place of a value that nothing takes in
_WORD = r"\p{L}{4,}"  # shorter words hardly ever say what a text is about
_MOST = 100  # words that may become codes


@dataclass
class CategoryCodec:
    """One column of categories.

    Dimensions: an indicator for each of the commonest categories; if there are more than
    ``max_width``, one code for all others (0.5 to 1.5, commoner ones first; 0 for records of the
    first kind); an indicator for missing where that occurred. The domain is kept, in order of
    frequency: it is part of the schema and of the release. Values that too few people hold are not
    in it: they go to more general ones, to the nearest code, to a rest, or are missing.
    """

    name: str
    dtype: Any
    domain: pl.Series
    counts: Ints
    top: int  # categories with an indicator of their own
    missing: bool
    scales: Floats = field(default_factory=lambda: np.ones(1))
    weight: float = 1.0
    kind: Kind = Kind.CATEGORY
    hierarchy: Any = None  # more general values, as a policy gives them
    rest: int | None = None  # where other values go: a place in the domain, or -1 for missing
    named_rest: bool = False  # whether that place holds nothing but merged values
    too_few: tuple[int, int] = (0, 0)  # values that too few people hold, and their records
    few_missing: bool = False  # whether too few people miss the value
    keep_rare: bool = False
    on_new: str = ""  # what a stream does with values that are not in the domain
    listed: tuple[Any, ...] = ()  # values that are expected, whether they occurred or not
    late: tuple[int, ...] = ()  # places of the values that a stream added to the domain
    words: tuple[str, ...] | None = None  # of free text: each text is the first of them it has

    @classmethod
    def fit(
        cls, series: pl.Series, column: Column, *, max_width: int, crowd: Crowd | None = None
    ) -> CategoryCodec:
        """Learn the domain, in order of frequency, and the scale; ``crowd`` shares every value."""
        words = tuple(code_words(series, crowd)) if column.text else None
        series = series if words is None else as_codes(series, words)
        domain, counts = _counted(series)
        codec = cls(series.name, series.dtype, domain, counts, 0, False, weight=column.weight)
        codec.hierarchy, codec.keep_rare = column.hierarchy, column.keep_rare
        codec.on_new, codec.listed, codec.words = column.on_new, column.categories, words
        codec.missing = bool(series.null_count())
        refuse(unlisted(series, column))
        if crowd is not None and not column.keep_rare:
            codec._merge_rare(series, crowd)
        codec.top = len(codec.domain) if len(codec.domain) <= max_width else max_width - 1
        codec._fit_scales(len(series))
        return codec

    def _merge_rare(self, series: pl.Series, crowd: Crowd) -> None:
        """Take the values that too few people hold out of the domain."""
        codes = np.where(is_missing(series), -1, filled(self._places(series), 0))
        nameless = self.dtype not in (pl.String, pl.Categorical)
        parents = Hierarchy.of(None if nameless else self.hierarchy)
        merging, codes = merge_categories(
            codes, self.domain.to_list(), crowd, parents, nameless=nameless
        )
        few = self.missing and crowd.hold(codes < 0) < crowd.enough()
        self.few_missing = few and (len(merging.kept) > 0 or merging.rest != -1)
        self.too_few = (merging.merged, merging.rows)
        names = merging.general
        if merging.rest is not None and merging.rest >= merging.size:
            names = [*names, free_name("other", [*self.domain.cast(pl.String), *names])]
        domain = self.domain.gather(merging.kept)
        if names:
            domain = pl.concat([domain, pl.Series(self.name, names).cast(self.dtype)])
        counts = np.bincount(codes[codes >= 0], minlength=len(domain)).astype(np.int64)
        order = np.argsort(-counts, kind="stable")
        self.domain, self.counts = domain.gather(order), counts[order]
        self.rest, self.missing = merging.rest, bool((codes < 0).any())
        if merging.rest is not None and merging.rest >= 0:
            self.rest = int(np.flatnonzero(order == merging.rest)[0])
            self.named_rest = merging.rest >= merging.size
        if self.few_missing:
            self.missing = False
            self.counts[0] += int((codes < 0).sum())

    @property
    def tail(self) -> int:
        """The number of categories that share one code."""
        return len(self.domain) - self.top

    @property
    def width(self) -> int:
        return max(1, self.top + (self.tail > 0) + self.missing)

    @property
    def feature_names(self) -> list[str]:
        words = [f"{self.name}={value}" for value in self.domain.head(self.top).to_list()]
        if self.tail:
            words.append(f"{self.name}=(others)")
        if self.missing:
            words.append(f"{self.name}=(missing)")
        return words or [self.name]

    @property
    def observed(self) -> int:
        return int(self.counts.sum())

    @property
    def constant(self) -> bool:
        return len(self.domain) == 1 and not self.missing

    def problems(self, series: pl.Series) -> list[Problem]:
        """Return the rows that are missing or hold a category where that did not occur before.

        New categories that a stream waits for are not a problem.
        """
        problems = self._read(series)[2]
        fresh = self.newcomers(series) if problems else None
        if fresh is None or not fresh.any():
            return problems
        return [problem._replace(rows=problem.rows & ~fresh) for problem in problems]

    def newcomers(self, series: pl.Series) -> NDArray[np.bool_]:
        """Return the rows with a category that has to wait for others like it in a stream."""
        nobody = np.zeros(len(series), dtype=bool)
        if self.on_new not in ("wait", "other", "reject") or isinstance(self.dtype, pl.Enum):
            return nobody
        if self.on_new == "reject" and not self.listed:
            return nobody
        if self.words is not None or (self.on_new == "other" and self.rest is not None):
            return nobody
        try:
            typed = series if series.dtype == self.dtype else series.cast(self.dtype, strict=False)
            fresh = is_missing(self._places(typed)) & ~is_missing(typed)
        except pl.exceptions.PolarsError:
            return nobody
        if not fresh.any():
            return nobody
        values = typed.filter(pl.Series(fresh))
        different = values.unique()
        fresh[fresh] = _looked_up(values, different, map(self._waits, different.to_list()))
        return fresh

    def _waits(self, value: Any) -> bool:
        """Return whether a value that is not in the domain waits until enough people hold it."""
        if self._rejects(value):
            return False
        known = set(self.domain.to_list())
        return not any(up in known for up in Hierarchy.of(self.hierarchy).above(value))

    def _rejects(self, value: Any) -> bool:
        """Return whether somebody chose that such a value is not taken in."""
        return self.on_new == "reject" and str(value) not in map(str, self.listed)

    def grown(self, value: Any, holders: int, max_width: int) -> tuple[Self, Affine]:
        """Return the code with one more category, and the way of old dimensions into the new."""
        domain = pl.concat([self.domain, pl.Series(self.name, [value]).cast(self.dtype)])
        wider = replace(
            self,
            domain=domain,
            counts=np.append(self.counts, holders),
            top=self.top if self.tail or self.top >= max_width else self.top + 1,
            late=(*self.late, len(self.domain)),
        )
        wider.scales = np.full(wider.width, self.scales[0])
        return wider, self._way_wider(wider)

    def with_rest(self, holders: int, max_width: int) -> tuple[Self, Affine]:
        """Return the code with a place for all other values: a word, or missing without one."""
        if self.dtype in (pl.String, pl.Categorical):
            word = free_name("other", self.domain.cast(pl.String).to_list())
            wider, way = self.grown(word, holders, max_width)
            return replace(wider, rest=len(self.domain), named_rest=True), way
        wider = replace(self, rest=-1, missing=True)
        wider.scales = np.full(wider.width, self.scales[0])
        return wider, self._way_wider(wider)

    def _way_wider(self, wider: CategoryCodec) -> Affine:
        """Return the way into a code with the same categories and more after them."""
        linear = np.zeros((self.width, wider.width))
        shift = np.zeros(wider.width)
        places = np.arange(self.top)
        linear[places, places] = 1.0
        if self.missing:
            linear[-1, -1] = 1.0
        if self.tail:  # the codes of the rarer ones move together: 0.5 + (rank + 0.5) / tail
            kept = self.tail / wider.tail
            elsewhere = [*places, *([self.width - 1] if self.missing else [])]
            linear[elsewhere, wider.top] = -0.5 * (1 - kept)
            linear[self.top, wider.top] = kept
            shift[wider.top] = 0.5 * (1 - kept)
        return Affine(linear, shift)

    def encode(self, series: pl.Series, out: Floats) -> None:
        codes, absent, problems = self._read(series)
        refuse(problems)
        out[:] = 0.0
        first = codes < self.top
        ours = np.flatnonzero(first & ~absent)
        out[ours, codes[ours]] = 1.0
        if self.tail:
            others = np.flatnonzero(~first & ~absent)
            out[others, self.top] = 0.5 + (codes[others] - self.top + 0.5) / self.tail
        if self.missing:
            out[absent, -1] = 1.0

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series:
        if not len(self.domain):
            return values_at(self.domain, np.full(len(block), -1), self.name)
        indicators = [block[:, place] for place in range(self.top)]
        gone = [block[:, -1]] if self.missing else []
        means = grouped.means if grouped is not None else None
        shares = [means[:, place] for place in range(self.top)] if means is not None else []
        away = [means[:, -1]] if means is not None and self.missing else []
        ranks = np.zeros(len(block), dtype=np.int64)
        if self.tail:
            elsewhere = _total([*indicators, *gone], len(block))
            indicators.append(1 - elsewhere)
            ranks = self._ranks(block[:, self.top], elsewhere, grouped)
            if means is not None:
                shares.append(1 - _total([*shares, *away], len(means)))
        states = choose_states([*indicators, *gone], [*shares, *away], grouped)
        picked = np.where(states == self.top, self.top + ranks, states) if self.tail else states
        if self.missing:
            picked = np.where(states == len(indicators), -1, picked)
        return values_at(self.domain, np.minimum(picked, len(self.domain) - 1), self.name)

    def as_known(self, series: pl.Series) -> CategoryColumn:
        """Return the column as the synthesis of shapes takes it.

        Codes, -1 where missing.
        """
        codes, absent, problems = self._read(series)
        refuse(problems)
        codes = np.where(absent, -1, codes)
        other = self.rest if self.named_rest else None
        moved = None
        if self.too_few[0]:
            moved = is_missing(self._places(self._coded(series))) & (codes >= 0)
        return CategoryColumn(self.name, codes, len(self.domain), other, self.keep_rare, moved)

    def restore(self, cells: Any) -> pl.Series:
        """Return a column of values that may be shown from codes, -1 where missing."""
        return values_at(self.domain, np.asarray(cells), self.name)

    def _read(self, series: pl.Series) -> tuple[Ints, NDArray[np.bool_], list[Problem]]:
        """Return each value's place in the domain, which are missing, and what is wrong."""
        series = self._coded(series)
        absent = is_missing(series)
        try:
            codes = self._places(series)
        except pl.exceptions.PolarsError:  # types of which nothing converts to the known one
            return np.zeros(len(series), np.int64), absent, [wrong_type(self, series)]
        problems = []
        unknown = is_missing(codes) & ~absent
        places = filled(codes, 0)
        if unknown.any() and (self.too_few[0] or self.rest is not None):
            places = np.array(places, dtype=np.int64)
            places[unknown] = self._merged(series.filter(pl.Series(unknown)))
            absent, unknown = absent | (places == -1), places == _UNKNOWN
            places = np.maximum(places, 0)
        if unknown.any():
            problems.append(
                Problem(
                    unknown,
                    f"column '{self.name}' holds a category that did not occur in the initial data",
                    "fit on data with all categories, or map it to a known one",
                )
            )
        if absent.any() and not self.missing:
            if self.rest != -1 and not self.few_missing:
                problems.append(never_missing(self, absent))
            absent = absent & False  # too few people miss it: the commonest value, at place 0
        return places, absent, problems

    def _coded(self, series: pl.Series) -> pl.Series:
        """Return the codes of free text; other categories are codes already."""
        return series if self.words is None else as_codes(series, self.words)

    def _merged(self, values: pl.Series) -> Ints:
        """Return where values go that are not in the domain: -1 for missing, or ``_UNKNOWN``."""
        parents = Hierarchy.of(self.hierarchy)
        places = {value: place for place, value in enumerate(self.domain.to_list())}
        different = values.unique()
        asked, rest = different.to_list(), _UNKNOWN if self.rest is None else self.rest
        near = [-1] * len(asked) if parents else nearest_codes([*places], asked).tolist()
        found = []
        for value, nearest in zip(asked, near):
            ups = [places[up] for up in parents.above(value) if up in places]
            taken = next((place for place in [*ups, nearest] if place >= 0), rest)
            found.append(_UNKNOWN if self._rejects(value) else taken)
        return _looked_up(values, different, found)

    def _places(self, series: pl.Series) -> pl.Series:
        return places_in(self.domain, series)

    def _ranks(self, code: Floats, elsewhere: Floats, grouped: Grouped | None) -> Ints:
        """Return the place among the rarer categories that a code stands for."""
        if grouped is not None:
            own = np.delete(grouped.means, self.top, axis=1)
            code = among_present(
                code, elsewhere, grouped.means[:, self.top], own.sum(axis=1), 0.0, grouped.groups
            )
        ranks = np.rint((code - 0.5) * self.tail - 0.5)
        return np.clip(ranks, 0, self.tail - 1).astype(np.int64)

    def rescale(self, variances: Floats) -> None:
        self.scales = one_scale(float(variances.sum()), self.weight, self.width)

    def _fit_scales(self, rows: int) -> None:
        rows = max(rows, 1)
        rates = self.counts[: self.top] / rows
        variance = float((rates * (1 - rates)).sum())
        if self.tail:
            codes = 0.5 + (np.arange(self.tail) + 0.5) / self.tail
            held = self.counts[self.top :] / rows
            variance += float(held @ codes**2 - (held @ codes) ** 2)
        if self.missing:
            rate = 1 - self.counts.sum() / rows
            variance += rate * (1 - rate)
        self.scales = one_scale(variance, self.weight, self.width)

    def merge(self, other: CategoryCodec) -> tuple[Self, Affine, Affine]:
        known = [codec for codec in (self, other) if len(codec.domain)] or [self]
        refuse_other_type(self.name, [codec.dtype for codec in known])
        alike = self.domain.equals(other.domain)
        if not alike and (self.tail or other.tail):
            raise DataError(
                f"column '{self.name}' has so many categories that some share a code, and not the "
                "same ones in the two tables: fit both parts with fewer categories"
            )
        domain = known[0].domain
        if not alike and len(known) == 2:
            new = other.domain.filter(~other.domain.is_in(domain.implode()))
            domain = pl.concat([domain, new])
        joined = replace(
            self,
            dtype=known[0].dtype,
            domain=domain,
            top=self.top if alike else len(domain),
            missing=self.missing or other.missing,
            counts=self._counts_in(domain) + other._counts_in(domain),
            too_few=(self.too_few[0] + other.too_few[0], self.too_few[1] + other.too_few[1]),
            few_missing=self.few_missing or other.few_missing,
        )
        added = [other.domain[place] for place in other.late]
        joined.late = (
            *self.late,
            *(
                place
                for place, value in enumerate(domain.to_list())
                if place >= len(self.domain) and value in added
            ),
        )
        joined.scales = np.full(joined.width, self.scales[0])
        first = next((codec for codec in (self, other) if codec.rest is not None), self)
        joined.rest, joined.named_rest = first.rest, first.named_rest
        if first.rest is not None and first.rest >= 0:
            joined.rest = first._places_in(domain)[first.rest]
        return joined, self._way_into(joined), other._way_into(joined)

    def _places_in(self, domain: pl.Series) -> list[int]:
        where = {value: place for place, value in enumerate(domain.to_list())}
        return [where[value] for value in self.domain.to_list()]

    def _counts_in(self, domain: pl.Series) -> Ints:
        counts = np.zeros(len(domain), dtype=np.int64)
        counts[self._places_in(domain)] = self.counts
        return counts

    def _way_into(self, joined: CategoryCodec) -> Affine:
        linear = np.zeros((self.width, joined.width))
        for place, target in enumerate(self._places_in(joined.domain)[: self.top]):
            linear[place, target] = 1.0
        if self.tail:
            linear[self.top, joined.top] = 1.0
        if self.missing:
            linear[-1, -1] = 1.0
        return Affine(linear, np.zeros(joined.width))


def unlisted(series: pl.Series, column: Column) -> list[Problem]:
    """Return the rows that hold none of the categories listed, if these are all there are."""
    if not column.categories or column.on_new not in ("", "reject"):
        return []
    known = [str(value) for value in column.categories]
    return [
        Problem(
            filled(~series.cast(pl.String).is_in(known), False).astype(bool),
            f"column '{series.name}' holds a category that is not among those listed for it",
            "correct it, add it to 'categories', or set 'on_new' to 'wait' or 'other'",
        )
    ]


def _looked_up(values: pl.Series, different: pl.Series, found: Iterable[int]) -> Ints:
    """Return what was found for each value; by polars, to which one NaN equals another."""
    answers = pl.Series([*found], dtype=pl.Int64)
    return values.replace_strict(different, answers, return_dtype=pl.Int64).to_numpy()


def _counted(series: pl.Series) -> tuple[pl.Series, Ints]:
    """Return the values in order of frequency, and how many records hold each."""
    table = series.drop_nulls().alias("value").value_counts()
    table = table.sort("count", "value", descending=[True, False])
    return table["value"].alias(series.name), table["count"].cast(pl.Int64).to_numpy()


def _total(parts: list[Floats], length: int) -> Floats:
    total = np.zeros(length)
    for part in parts:
        total += part
    return total


def code_words(texts: pl.Series, crowd: Crowd | None) -> list[str]:
    """Return the words that stand for texts, those that tell most of them apart first.

    After every text has taken its code, enough people of the crowd share each.
    """
    table = _words(texts)
    share = pl.col("n") / max(len(texts), 1)  # a word of all texts says nothing
    ranked = table["word"].value_counts(name="n").filter(share < 1)
    words = ranked.sort(share * share.log(), "word").head(_MOST)["word"].to_list()
    while crowd is not None and words:
        codes = filled(_first(table, words, len(texts)), -1)
        held = crowd.held(np.asarray(codes, dtype=np.int64), len(words))
        if held.min() >= crowd.enough():
            break
        del words[int(held.argmin())]  # its texts may have another code
    return words


def as_codes(texts: pl.Series, words: Sequence[str]) -> pl.Series:
    """Return for each text the first of some words that it has; null if it has none."""
    places = _first(_words(texts), words, len(texts))
    return pl.Series(texts.name, words, dtype=pl.String).gather(places)


def _words(texts: pl.Series) -> pl.DataFrame:
    table = pl.DataFrame({"row": np.arange(len(texts)), "word": texts.cast(pl.String)})
    found = pl.col("word").str.to_lowercase().str.extract_all(_WORD)
    return table.with_columns(found).explode("word").drop_nulls().unique()


def _first(table: pl.DataFrame, words: Sequence[str], rows: int) -> pl.Series:
    """Return the place of the first of some words in each row, null where it has none."""
    known = pl.DataFrame({"word": words, "place": np.arange(len(words))})
    known = known.cast({"word": pl.String, "place": pl.Int64})
    first = table.join(known, "word").group_by("row").agg(pl.col("place").min())
    whole = pl.DataFrame({"row": np.arange(rows)})
    return whole.join(first, "row", "left", maintain_order="left")["place"]
