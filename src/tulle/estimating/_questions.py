"""Questions to a table, read from one line of text, and what a table answers.

::

    mean(income) by region, sex where age >= 18
    share(income > 50000)      share(region): of each value
    total(income)              quantile(income, 0.9), median(income)
    ols(log(wage) ~ educ + exper + exper ** 2)
    logit(ill == "yes" ~ age + sex)

Quantities and conditions are those of rules between columns. A category among the terms of a
regression stands for each of its values but the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import linalg

from tulle._relations.language import (
    Call,
    Name,
    Node,
    Word,
    columns_of,
    parse_condition,
    parse_quantity,
    parse_terms,
)
from tulle._relations.values import Values, is_text, quantity, truth
from tulle._types import Flags, Floats, Ints
from tulle.errors import DataError, ParameterError, nearest_name

REGRESSIONS = ("ols", "logit")
KINDS = ("mean", "share", "total", "quantile", "median", *REGRESSIONS)
INTERCEPT = "(intercept)"
_MOST_VALUES = 50  # of a category among terms, or of a column after `by`
_HEAD = re.compile(r"\s*(\w+)\s*\(")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
_REST = re.compile(  # what may follow the bracket
    r"\s*(?:by\s+(?P<by>(?!where\b)\S(?:(?!\bwhere\b).)*))?(?:\bwhere\b(?P<where>.*\S.*))?",
    re.DOTALL,
)
_SHARE = re.compile(r"\s*0?\.[0-9]+\s*")
_NORMAL = NormalDist()
_STEPS = 40  # of Newton's method
_STEEP = 15.0  # a linear predictor beyond that means that classes can be told apart


class Key(NamedTuple):
    """Which number of an answer: the group, as text, and the term of a regression."""

    group: tuple[str, ...]
    term: str


class Figure(NamedTuple):
    """A number from one table: its value, its sampling variance, and the records behind it."""

    value: float
    variance: float
    records: int


@dataclass(frozen=True)
class Question:
    """What is asked of a table."""

    text: str
    kind: str
    terms: dict[str, Node]  # of a regression, its regressors
    target: Node | None = None  # ... and what they explain
    by: tuple[str, ...] = ()
    where: Call | None = None
    order: float = 0.5  # of a quantile

    def columns(self, term: str) -> set[str]:
        """Name the columns that one number of the answer is about."""
        nodes = [self.target, self.where, self.terms.get(term)]
        return {*self.by, *(name for node in nodes if node for name in columns_of(node))}


def parse_question(text: str, frame: pl.DataFrame) -> Question:
    """Read a question about a table with the columns of ``frame``; its categories become values.

    Raises
    ------
    ParameterError
        If it cannot be read, or names what is not there.
    """
    if not isinstance(text, str) or not (head := _HEAD.match(text)):
        raise _refused(text, f"it begins with one of {', '.join(KINDS)} and a bracket")
    kind = head.group(1).lower()
    if kind not in KINDS:
        raise _refused(text, f"'{kind}' is not known: {nearest_name(kind, KINDS)}")
    inside, by, where = _parts(text, head.end())
    names = frame.columns
    asked = Question(text.strip(), kind, {}, by=_groups(text, by, frame))
    if where:
        asked = replace(asked, where=parse_condition(where, names, "question"))
    if kind in REGRESSIONS:
        return _regression(asked, inside, frame)
    if kind == "share":
        return replace(asked, terms=_shares(text, inside.strip(), frame))
    if kind == "median":
        asked = replace(asked, kind="quantile")
    elif kind == "quantile":
        inside, _, order = inside.rpartition(",")
        if not inside or not _SHARE.fullmatch(order) or not 0 < float(order) < 1:
            wanted = "a quantile has an order between 0 and 1, as in quantile(income, 0.9)"
            raise _refused(text, wanted)
        asked = replace(asked, order=float(order))
    node = parse_quantity(inside, names, "question")
    if isinstance(node, Name) and is_text(frame.schema[node.column]):
        more = f"share({inside.strip()}) is that of each"
        raise _refused(
            text, f"column '{node.column}' holds words, of which there is no {kind}; {more}"
        )
    return replace(asked, terms={inside.strip(): node})


def _refused(text: object, problem: str) -> ParameterError:
    return ParameterError(
        f"the question '{text}' cannot be read: {problem}. For example: mean(income) by region",
        parameter="question",
    )


def _parts(text: str, begin: int) -> tuple[str, str, str]:
    """Cut a question into what the brackets hold, what follows ``by``, and what ``where``."""
    plain = _QUOTED.sub(lambda found: "_" * len(found.group()), text)
    depth, end = 1, begin
    while depth and end < len(plain):
        depth += {"(": 1, ")": -1}.get(plain[end], 0)
        end += 1
    if depth:
        raise _refused(text, "a bracket does not close")
    rest = _REST.fullmatch(plain, end)
    if rest is None:
        raise _refused(text, "after the bracket stands `by COLUMN, ...` or `where CONDITION`")
    by, where = (text[slice(*rest.span(group))].strip() for group in ("by", "where"))
    return text[begin : end - 1], by, where


def _groups(text: str, written: str, frame: pl.DataFrame) -> tuple[str, ...]:
    by = tuple(name.strip().strip("`") for name in re.findall(r"`[^`]*`|[^,]+", written))
    for name in by:
        if name not in frame.columns:
            hint = nearest_name(name, frame.columns)
            raise _refused(text, f"there is no column '{name}' to group by ({hint})")
        if frame[name].n_unique() > _MOST_VALUES:
            raise _refused(text, f"column '{name}' has more than {_MOST_VALUES} values to group by")
    return by


def _regression(asked: Question, inside: str, frame: pl.DataFrame) -> Question:
    names = frame.columns
    left, tilde, right = inside.partition("~")
    if not tilde:
        raise _refused(asked.text, f"'{asked.kind}' takes a formula, as in ols(wage ~ educ + age)")
    parse = parse_quantity if asked.kind == "ols" else parse_condition
    target: Node = parse(left, names, "question")
    for side in target.args if isinstance(target, Call) and asked.kind == "logit" else (target,):
        if isinstance(side, Name) and is_text(frame.schema[side.column]) and len(left.split()) == 1:
            raise _refused(
                asked.text, f"column '{side.column}' holds words: name one, as in {left}== '...'"
            )
    terms: dict[str, Node] = {}
    for written, node in parse_terms(right, names, "question").items():
        if isinstance(node, Name) and is_text(frame.schema[node.column]):
            terms |= _values_of(node.column, frame, first=1)
        else:
            terms[written] = node
    return replace(asked, terms=terms, target=target)


def _shares(text: str, inside: str, frame: pl.DataFrame) -> dict[str, Node]:
    bare = inside.strip("`")
    if bare in frame.columns:
        if is_text(frame.schema[bare]):
            return _values_of(bare, frame, first=0)
        if not {*frame[bare].cast(pl.Float64, strict=False).drop_nulls()} <= {0.0, 1.0}:
            raise _refused(text, f"a share is that of a condition, as in share({inside} <= 30)")
    return {inside: parse_condition(inside, frame.columns, "question")}


def _values_of(column: str, frame: pl.DataFrame, *, first: int) -> dict[str, Node]:
    """Make a term of each value of a category, from the ``first`` in order."""
    values = frame[column].drop_nulls().cast(pl.String).unique().sort().to_list()
    if len(values) > _MOST_VALUES:
        raise ParameterError(
            f"column '{column}' has more than {_MOST_VALUES} values: ask for one of them, as in "
            f"{column} == '...'",
            parameter="question",
        )
    return {f"{column} = {one}": Call("=", (Name(column), Word(one))) for one in values[first:]}


def unknown_words(asked: Question, frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield each column of words with a word that the question names and no record has."""
    nodes = [node for node in (asked.target, asked.where, *asked.terms.values()) if node]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, Call):
            continue
        nodes += node.args
        columns = [part.column for part in node.args if isinstance(part, Name)]
        if len(columns) == 1 and is_text(frame.schema[columns[0]]):
            known = frame[columns[0]].cast(pl.String)
            for part in node.args:
                if (
                    isinstance(part, Word)
                    and node.op in ("=", "!=", "in")
                    and part.text not in known
                ):
                    yield columns[0], part.text


# -- answers -------------------------------------------------------------------------------------


def answer(
    question: Question, frame: pl.DataFrame, owners: Ints | None = None, weight: str | None = None
) -> dict[Key, Figure]:
    """Return the numbers that a table gives; those that it cannot give are left out.

    With ``owners``, the person of each row, the people behind a number are counted, not rows.
    ``weight`` is a column of survey weights.
    """
    values = Values(frame, {})
    inside = np.ones(frame.height, dtype=bool)
    weights = inside.astype(float) if weight is None else np.nan_to_num(values.numbers(weight))
    if question.where is not None:
        inside = truth(question.where, values)[0]
    columns = {name: quantity(node, values) for name, node in question.terms.items()}
    target = None if question.target is None else quantity(question.target, values)
    answers: dict[Key, Figure] = {}

    def keep(group: tuple[str, ...], name: str, found: tuple[float, float], rows: Ints) -> None:
        behind = len(rows) if owners is None else len(np.unique(owners[rows]))
        answers[Key(group, name)] = Figure(*found, behind)

    for group, rows in _grouped(question.by, values, inside):
        if target is not None:
            table = np.column_stack([one[rows] for one in (target, *columns.values())])
            there = ~np.isnan(table).any(axis=1)
            solve = least_squares if question.kind == "ols" else logistic
            solved = _fitted(solve, table[there], weights[rows][there])
            for name, found in zip([INTERCEPT, *columns], solved):
                keep(group, name, found, rows[there])
            continue
        for name, column in columns.items():
            some = rows[~np.isnan(column[rows])]
            if len(some) > 1 and weights[some].any():
                sample = column[some], weights[some]
                found = _STATISTICS[question.kind](*sample, question.order, frame.height)
                keep(group, name, found, some)
    return answers


def _grouped(
    by: Collection[str], values: Values, inside: Flags
) -> Iterator[tuple[tuple[str, ...], Ints]]:
    if not by:
        yield (), np.flatnonzero(inside)
        return
    keys = pl.DataFrame([_labels(values, name).alias(name) for name in by])
    table = keys.with_columns(pl.Series("\0row", np.arange(keys.height))).filter(inside)
    grouped = table.drop_nulls().group_by(list(by), maintain_order=True).agg("\0row")
    for *group, rows in grouped.sort(list(by)).iter_rows():
        yield tuple(group), np.asarray(rows)


def _labels(values: Values, name: str) -> pl.Series:
    """Return a column as text in which 5 and 5.0 are the same."""
    series = values.keys(name)
    if series.dtype == pl.String:
        return series
    return pl.Series([None if one is None else f"{one:.15g}" for one in series], dtype=pl.String)


# Each returns a value and its variance, of weighted numbers in a table of ``n`` rows.


def _mean(y: Floats, w: Floats, order: float, n: int) -> tuple[float, float]:
    share = w / w.sum()
    away = y - y[0]  # exactly 0 where all numbers are the same, whatever their weights
    mean = float(share @ away)
    return float(y[0]) + mean, float(((share * (away - mean)) ** 2).sum()) * len(y) / (len(y) - 1)


def _share(y: Floats, w: Floats, order: float, n: int) -> tuple[float, float]:
    """Return a share; its variance is that of two more yes and no, which is never 0."""
    value, size = float(np.average(y, weights=w)), _effective(w)
    share = (value * size + 2) / (size + 4)
    return value, share * (1 - share) / size


def _total(y: Floats, w: Floats, order: float, n: int) -> tuple[float, float]:
    """Return a sum; how many rows have a part in it is part of the chance."""
    z = y * w
    return float(z.sum()), float((z @ z - z.sum() ** 2 / n) * n / (n - 1))


def _quantile(y: Floats, w: Floats, order: float, n: int) -> tuple[float, float]:
    """Return a quantile; heaps have no slope, so the error is at least that of a normal column."""
    away = 2 * np.sqrt(order * (1 - order) / _effective(w))
    orders = np.clip([order - away, order, order + away], 0, 1)
    if np.ptp(w):
        low, value, high = np.quantile(y, orders, weights=w, method="inverted_cdf")
    else:
        low, value, high = np.quantile(y, orders)
    away_from = y - y[0]
    spread = np.sqrt(np.average((away_from - np.average(away_from, weights=w)) ** 2, weights=w))
    normal = spread * away / 2 / _NORMAL.pdf(_NORMAL.inv_cdf(order))
    return float(value), max(float(high - low) / 4, float(normal)) ** 2


def _effective(w: Floats) -> float:
    """Return how many records of one weight tell as much."""
    return float(w.sum() ** 2 / (w @ w))


_STATISTICS = {"mean": _mean, "share": _share, "total": _total, "quantile": _quantile}


# -- regressions ---------------------------------------------------------------------------------


def _fitted(
    solve: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]], table: Floats, w: Floats
) -> list[tuple[float, float]]:
    """Return the coefficients of the first column on the others; none if they cannot be told."""
    y, X = table[:, 0], np.column_stack([np.ones(len(table)), table[:, 1:]])
    if len(y) <= X.shape[1] or not w.any():
        return []
    scale = np.maximum(np.abs(X).max(axis=0), 1e-300)
    X = X / scale  # powers of a column differ by orders of magnitude
    pivots = np.abs(np.diag(np.linalg.qr(X, mode="r")))
    if pivots.min() < 1e-9 * pivots.max():
        return []  # a column follows from others
    try:
        values, covariance = solve(X, y, w / w.mean())
    except (np.linalg.LinAlgError, DataError):
        return []
    return list(zip((values / scale).tolist(), (np.diag(covariance) / scale**2).tolist()))


def least_squares(X: Floats, y: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return coefficients and their covariance, whatever the variance of the errors (HC1)."""
    X, y = X * np.sqrt(w)[:, None], y * np.sqrt(w)
    q, r = np.linalg.qr(X)
    values = linalg.solve_triangular(r, q.T @ y)
    errors = y - X @ values
    if np.abs(errors).max() <= 1e-9 * np.abs(y).max():
        raise DataError("the target follows from the terms: there is no chance in it")
    inner = linalg.solve_triangular(r, q.T * errors)
    return values, inner @ inner.T * len(y) / (len(y) - X.shape[1])


def logistic(X: Floats, y: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return coefficients and their covariance, by Newton's method; robust where weights differ."""
    values = np.zeros(X.shape[1])
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(X @ values, -30, 30)))
        slope = w * np.maximum(expected * (1 - expected), 1e-10)
        hessian = (X * slope[:, None]).T @ X
        step = np.linalg.solve(hessian, X.T @ (w * (y - expected)))
        values = values + step
        if np.abs(X @ step).max() < 1e-8:
            break
    if not np.abs(X @ values).max() <= _STEEP:
        raise DataError("the classes can be told apart: the coefficients have no end")
    inverse = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    if np.ptp(w):
        inner = inverse @ (X * (w * (y - expected))[:, None]).T
        inverse = inner @ inner.T
    return values, inverse
