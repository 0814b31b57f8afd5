"""The error ledger: how far estimates from releases lie from those of the original.

The owner measures many estimates, on the release itself and on releases made of random nine tenths
of the people, in standard errors of the release. The ledger keeps, for each kind of estimate and
each column, what 95 of 100 stay below: no estimate of the original can be computed from it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from tulle import _progress as progress
from tulle._checks import check_int
from tulle._random import RandomState, as_generator
from tulle._relations.language import quote
from tulle._relations.values import is_text
from tulle._types import Ints
from tulle.errors import DataError, ParameterError
from tulle.estimating._questions import REGRESSIONS, Figure, Key, Question, answer, parse_question
from tulle.table._frames import to_polars

FORMAT = 1
COVERED = 0.95
LEAST = 20  # estimates behind a factor
NORMAL = 1.96
_PART = 0.9  # of the people in a split
_ASKED = {"mean": 60, "share": 60, "total": 30, "quantile": 40, "ols": 60, "logit": 30}
_ORDERS = (0.1, 0.25, 0.5, 0.75, 0.9)
_FEW_VALUES = 12  # of a column to group by
MOST = 8.0  # standard errors: beyond, a sixtieth of the people would tell as much
_TAILS = 0.5  # more for a named question: what lies beyond the ends of a release was cut off
_BEYOND = MOST + 0.5  # what a ledger says of any that is larger
_MOST_TERMS = 10  # of a regression on all other columns

Make = Callable[[pl.DataFrame], Sequence[Any]]


def pooled(answers: Sequence[Mapping[Key, Figure]]) -> dict[Key, Figure]:
    """Return the numbers that all copies give, as one: means of their values and variances."""
    together = {}
    for key in answers[0]:
        if all(key in other for other in answers):
            values, variances, records = zip(*(one[key] for one in answers))
            together[key] = Figure(float(np.mean(values)), float(np.mean(variances)), min(records))
    return together


def error_ledger(
    original: Any,
    releases: Any,
    make: Make | None = None,
    *,
    k: int = 10,
    person: str | None = None,
    weight: str | None = None,
    splits: int = 3,
    questions: Iterable[str] = (),
    random_state: RandomState = None,
) -> dict[str, Any]:
    """Measure how far estimates from releases lie from those of the original.

    Parameters
    ----------
    original : DataFrame or pyarrow Table
        The table that was released.
    releases : DataFrame, pyarrow Table, or list of them
        Its release, or the copies of it.
    make : callable, optional
        Makes releases (a list, as many copies as there are) of a part of the original: each split
        calls it once. Without it, only the release itself is measured.
    k : int
        Nothing is measured that rests on fewer people of the original.
    person : str, optional
        The column that names the person of each row, if people have several.
    weight : str, optional
        The column of survey weights that all estimates use.
    splits : int
        How many times nine tenths of the people, drawn at random, are released.
    questions : iterable of str
        Estimates that matter, as for :func:`estimate`: each is measured on its own.
    random_state : int, Generator, RandomState or None
        For the splits and the choice of estimates.

    Returns
    -------
    dict
        The ledger, ready for JSON: what 95 of 100 errors of a kind of estimate stay below, in
        standard errors, and for each column; ``"lost"`` are effects that the release does not show,
        of so many ``"clear"`` ones in the original. Pass it to :func:`estimate`.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from tulle import Condenser, error_ledger, estimate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=600)
    >>> table = pl.DataFrame({"x": x, "y": x + rng.normal(size=600)})
    >>> release = Condenser(k=10, random_state=0).fit_resample(table)
    >>> ledger = error_ledger(table, release, random_state=0)
    >>> estimate(release, "mean(y)", ledger=ledger).columns[:4]
    ['term', 'estimate', 'standard_error', 'low']
    """
    check_int("error_ledger", "k", k, 2)
    check_int("error_ledger", "splits", splits, 0)
    table, rng = to_polars(original), as_generator(random_state)
    copies = as_copies(releases)
    whole = copies[0]
    asked = [parse_question(text, whole) for text in questions]
    chosen = usual_questions(whole if weight is None else whole.drop(weight), k, rng)
    owners = None if person is None else np.unique(table[person].to_numpy(), return_inverse=True)[1]
    errors = Errors(k, weight)
    splits = 0 if make is None else splits
    with progress.bar("measuring estimates", 1 + splits) as advance:
        errors.measure(table, copies, owners, chosen, asked, whole=True)
        advance(1)
        for _ in range(splits):
            assert make is not None
            rows = _split(table.height, owners, rng)
            made, own = as_copies(make(table[rows])), None if owners is None else owners[rows]
            errors.measure(table[rows], made, own, chosen, asked, whole=False)
            advance(1)
    return errors.ledger(len(copies), splits)


def as_copies(releases: Any) -> list[pl.DataFrame]:
    several = releases if isinstance(releases, list | tuple) else [releases]
    frames = [to_polars(one) for one in several]
    if not frames or any(frame.columns != frames[0].columns for frame in frames):
        raise ParameterError("the copies of a release have the same columns", parameter="releases")
    if any(frame.height == 0 for frame in frames):
        raise DataError("a release has no records: nothing can be estimated from it")
    return frames


def without_codes(frame: pl.DataFrame, codes: Mapping[str, Collection[Any]]) -> pl.DataFrame:
    """Return a table in which codes for no answer are missing: they are no quantity."""
    for name, own in codes.items():
        numbers = [float(code) for code in own if isinstance(code, int | float)]
        if numbers and name in frame.columns and frame.schema[name].is_numeric():
            is_code = pl.col(name).cast(pl.Float64).is_in(numbers)  # whole or not: 9999 is 9999.0
            frame = frame.with_columns(pl.when(~is_code).then(pl.col(name)))
    return frame


def _split(n: int, owners: Ints | None, rng: np.random.Generator) -> Ints:
    """Return the rows of nine tenths of the people."""
    owners = np.arange(n) if owners is None else owners
    people = int(owners.max()) + 1
    return np.flatnonzero(np.isin(owners, rng.permutation(people)[: max(int(_PART * people), 1)]))


@dataclass
class Errors:
    """Standardised errors of estimates, by kind and column, while they are measured."""

    k: int
    weight: str | None = None  # the column of survey weights
    of_kind: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    of_column: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    of_asked: dict[str, dict[str, float]] = field(default_factory=dict)
    clear: int = 0  # effects of the original
    lost: list[str] = field(default_factory=list)

    def measure(
        self,
        original: pl.DataFrame,
        copies: Sequence[pl.DataFrame],
        owners: Ints | None,
        chosen: Sequence[Question],
        asked: Sequence[Question],
        *,
        whole: bool,
    ) -> None:
        """Compare the answers of releases with those of the table they were made of.

        Numbers of the table are cut where those of the releases end: of how far beyond somebody
        lies, nothing may be in a ledger.
        """
        original = _within(original, copies)
        for place, question in enumerate([*chosen, *asked]):
            true, counted = answer(question, original, owners, self.weight), self.weight is None
            grown = question.kind == "total" and counted  # weights add up whatever the rows
            scale = original.height / copies[0].height if grown else 1.0
            each = [answer(question, copy, weight=self.weight) for copy in copies]
            for key, found in pooled(each).items():
                if key not in true or true[key].records < self.k or not found.variance > 0:
                    continue
                error = abs(found.value - true[key].value / scale) / math.sqrt(found.variance)
                if place < len(chosen):
                    self.of_kind[question.kind].append(error)
                    for column in question.columns(key.term):
                        self.of_column[question.kind, column].append(error)
                else:
                    own, name = self.of_asked.setdefault(question.text, {}), name_of(key)
                    own[name] = max(own.get(name, 0.0), error)
                effect = question.target is not None and key.term in question.terms
                if whole and effect and abs(true[key].value) > 3 * math.sqrt(true[key].variance):
                    self.clear += 1
                    if _is_lost(true[key], found):
                        self.lost.append(f"{key.term} in {question.text}")

    def ledger(self, copies: int, splits: int) -> dict[str, Any]:
        """Return what is kept of the errors: nothing of a single estimate that nobody asked for."""
        kinds: dict[str, Any] = {
            kind: {"factor": _upwards(_covering(errors), 10), "columns": {}}
            for kind, errors in self.of_kind.items()
            if len(errors) >= LEAST
        }
        for (kind, column), errors in sorted(self.of_column.items()):
            if len(errors) >= LEAST:
                kinds[kind]["columns"][column] = _upwards(_covering(errors), 10)
        asked = {
            text: {name: _upwards(error + _TAILS, 2) for name, error in own.items()}
            for text, own in self.of_asked.items()
        }
        return {
            "format": FORMAT, "k": self.k, "copies": copies, "splits": splits, "kinds": kinds,
            "weight": self.weight, "asked": asked, "clear": self.clear,
            "lost": list(dict.fromkeys(self.lost)),
        }  # fmt: skip


def _covering(errors: Sequence[float]) -> float:
    """Find what 95 of 100 errors, and of the next one, stay below."""
    rank = min(math.ceil(COVERED * (len(errors) + 1)), len(errors))
    return sorted(errors)[rank - 1]


def _upwards(error: float, parts: int) -> float:
    """Round an error up to so many parts of a standard error, from half of one."""
    return min(math.ceil(parts * max(error, 0.5)) / parts, _BEYOND)


def _within(original: pl.DataFrame, copies: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return a table whose numbers lie in the ranges of its releases."""
    numbers = pl.concat(copies, how="vertical_relaxed").select(cs.numeric())
    numbers = numbers.select(original.select(cs.numeric() & cs.by_name(numbers.columns)).columns)
    ends: Any = {one.name: (one.min(), one.max()) for one in numbers if one.count()}
    return original.with_columns(pl.col(name).clip(*both) for name, both in ends.items())


def _is_lost(true: Figure, found: Figure) -> bool:
    """Tell whether a release has an effect within two errors of zero, or turned round."""
    return math.copysign(found.value, found.value * true.value) < 2 * math.sqrt(found.variance)


def name_of(key: Key) -> str:
    return " | ".join([*key.group, key.term])


# -- what is measured where nobody asked -----------------------------------------------------------


def usual_questions(frame: pl.DataFrame, k: int, rng: np.random.Generator) -> list[Question]:
    """Return estimates of all kinds about the columns of a release, chosen at random.

    Each number is also regressed on all others, or on ten of them.
    """
    columns = _Columns.of(frame, max(2 * k, LEAST), rng)
    texts = [
        f"ols({quote(name)} ~ {columns.terms(_MOST_TERMS, but=name)})" for name in columns.numbers
    ]
    for kind, wanted in _ASKED.items():
        texts += [columns.question(kind) for _ in range(wanted)]
    known = (text for text in dict.fromkeys(texts) if text and " ~ )" not in text)
    return [parse_question(text, frame) for text in known]


@dataclass(frozen=True)
class _Columns:
    """The columns of a release by what can be asked of them."""

    numbers: list[str]
    truths: list[str]  # conditions that enough records meet, and enough do not
    groups: list[str]  # of few values
    regressors: list[str]
    rng: np.random.Generator

    @classmethod
    def of(cls, frame: pl.DataFrame, least: int, rng: np.random.Generator) -> _Columns:
        found = cls([], [], [], [], rng)
        for name in (name for name in frame.columns if "`" not in name):
            series = frame[name].drop_nulls()
            counts = series.value_counts(sort=True)
            few = 1 < len(counts) <= _FEW_VALUES
            if is_text(series.dtype):
                enough = counts.filter(pl.col("count").is_between(least, len(series) - least))
                words = [str(value) for value in enough[name][:_FEW_VALUES]]
                found.truths.extend(f'{quote(name)} = "{w}"' for w in words if '"' not in w)
            elif series.dtype.is_numeric() and len(counts) > 2:
                found.numbers.append(name)
                cuts = series.cast(pl.Float64).quantile(float(rng.uniform(0.2, 0.8)))
                found.truths.append(f"{quote(name)} <= {cuts:.12g}")
            elif set(series.cast(pl.Float64, strict=False).to_list()) == {0.0, 1.0}:
                found.truths.append(quote(name))
            if few and not series.dtype.is_float():
                found.groups.append(name)
            if found.numbers[-1:] == [name] or few:
                found.regressors.append(name)
        return found

    def question(self, kind: str) -> str:
        """Return a question of a kind, or nothing if there is no column for it."""
        things = self.truths if kind in ("share", "logit") else [quote(n) for n in self.numbers]
        if not things:
            return ""
        about = str(self.rng.choice(things))
        if kind in REGRESSIONS:
            terms = self.terms(int(self.rng.integers(1, 7)), but=about)
            return f"{kind}({about} ~ {terms})"
        order = f", {self.rng.choice(_ORDERS):g}" if kind == "quantile" else ""
        wanted = min(int(self.rng.integers(3)), len(self.groups))
        by = self.rng.choice(self.groups, wanted, replace=False).tolist() if wanted else []
        return f"{kind}({about}{order})" + (f" by {', '.join(map(quote, by))}" if by else "")

    def terms(self, most: int, *, but: str) -> str:
        """Return columns that explain another, now and then with a square."""
        free = [n for n in self.regressors if n != but and quote(n) not in but.split(" ")]
        some = [quote(name) for name in self.rng.permutation(free)[:most].tolist()]
        squares = [name for name in some if name.strip("`") in self.numbers][:1]
        return " + ".join([*some, *(f"{n} ** 2" for n in squares if self.rng.random() < 0.2)])
