"""Formulas that fit a sample of numbers, and sets of columns of which one is 1: candidates only.

A formula is looked for from the finest column to the coarsest, since what was computed has more
decimals than what it was computed from, and of several that fit the simplest comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import numpy as np

from tulle._relations.language import quote
from tulle._relations.values import closeness, roundings
from tulle._types import Flags, Floats, Ints

_ROWS = 40  # records of a first look, with different values of the column
_MISSES = 1  # of these may be exceptions
_FEW_LEVELS = 5  # values of a column that rounding alone does not make fit
_LEAST_LEVELS = 8  # values of a column that a straight line is looked for in
_MOST_TENS = 6  # powers of ten besides a product
_FRACTION = 0.6  # slopes below that may be 1 over a whole number
_MOST_DIGITS = 8  # of the slope of a straight line
_ALL_DIGITS = 18  # of its start: columns are centred at a mean, which has as many as it has
_EXACT = 1e-12
_FEW_DIGITS = 4  # of the factors of a sum that are not 1
_FEW_TERMS = 3
_NOTHING = 1e-6  # of the spread of a sum: what a part adds that is none
_WORST = 0.01  # share of the records that fit a sum worst, exceptions perhaps
_ROUGH = 0.02  # of a column's spread, by which a sum may be off before factors are whole
_LEAST_SET = 3  # columns of which one is 1
_TURNS = 2_000  # of a search for such columns


@dataclass(frozen=True)
class Form:
    """A formula of one or two columns."""

    text: str
    of: Callable[..., Floats]
    scaled: bool = False  # up to a power of ten
    symmetric: bool = False


_OF_ONE = (
    Form("{x}", np.positive),
    Form("log({x})", np.log),
    Form("log(1 + {x})", np.log1p),
    Form("log10({x})", np.log10),
    Form("{x} ** 2", np.square, scaled=True),
    Form("{x} ** 3", lambda x: x**3, scaled=True),
    Form("sqrt({x})", np.sqrt),
    Form("1 / {x}", np.reciprocal, scaled=True),
    Form("exp({x})", np.exp),
)
_OF_TWO = (
    Form("{x} + {z}", np.add, symmetric=True),
    Form("{x} - {z}", np.subtract),
    Form("{x} * {z}", np.multiply, scaled=True, symmetric=True),
    Form("{x} / {z}", np.divide, scaled=True),
    Form("{x} / {z} ** 2", lambda x, z: x / z**2, scaled=True),
    Form("{x} ** 2 * {z}", lambda x, z: x**2 * z, scaled=True),
    Form("{x} ** 2 / {z}", lambda x, z: x**2 / z, scaled=True),
    Form("1 / {x} / {z}", lambda x, z: 1 / x / z, scaled=True, symmetric=True),
    Form("min({x}, {z})", np.minimum, symmetric=True),  # the time of the first event
    Form("max({x}, {z})", np.maximum, symmetric=True),
)

Candidate = tuple[str, tuple[str, ...]]  # the text, and the columns, the computed one first


@dataclass(frozen=True)
class Numbers:
    """Columns of numbers in some records."""

    names: Sequence[str]
    units: Sequence[float | None]
    sample: Floats  # (n, m)
    _known_rows: dict[int, Ints] = field(init=False, default_factory=dict)

    @property
    def levels(self) -> Ints:
        """How many different numbers each column has."""
        return np.array([len(np.unique(one[~np.isnan(one)])) for one in self.sample.T])

    def formulas(self, taken: Collection[str]) -> Iterator[Candidate]:
        """Yield formulas that fit, but those of columns that have been ``taken`` meanwhile."""
        levels = self.levels
        order = sorted(range(len(self.names)), key=lambda place: self.units[place] or 0.0)
        for _, group in groupby(order, key=lambda place: self.units[place]):
            targets = [place for place in group if levels[place] > 1]
            for find in _FINDS:
                for target in targets:
                    for found in () if self.names[target] in taken else find(self, target, levels):
                        yield found
                        if self.names[target] in taken:
                            break
                    if find is _FINDS[0] and self.names[target] in taken:
                        levels[target] = 0  # the same column twice: nothing is made of this one

    def _rows(self, target: int) -> Ints:
        """Return records with different values of a column, as far as it has so many."""
        if target not in self._known_rows:
            self._known_rows[target] = self._choose_rows(self.sample[:, target])
        return self._known_rows[target]

    def _choose_rows(self, values: Floats) -> Ints:
        there = np.flatnonzero(~np.isnan(values))
        _, first = np.unique(values[there], return_index=True)
        some = first[np.linspace(0, len(first) - 1, min(_ROWS, len(first))).astype(np.int64)]
        more = np.setdiff1d(np.arange(len(there)), some)
        spread = np.linspace(0, len(more) - 1, min(len(more), _ROWS - len(some))).astype(np.int64)
        return there[np.r_[some, more[spread]]]

    def _fits(self, formed: Floats, target: int, rows: Ints, scaled: bool) -> tuple[Flags, Ints]:
        """Return which of some formed columns, (r, ...), give the target, times which 10 ** t."""
        value = self.sample[rows, target].reshape(-1, *[1] * (formed.ndim - 1))
        tens = np.zeros(formed.shape[1:], dtype=np.int64)
        there = np.isfinite(formed)
        if scaled:
            ratios = np.abs(value / np.where(formed == 0, np.nan, formed))
            ratios = np.where(there & (value != 0), np.log10(ratios), 0.0)
            used = there & (formed != 0) & (value != 0)
            mean = np.where(used, ratios, 0.0).sum(axis=0) / np.maximum(used.sum(axis=0), 1)
            tens = np.clip(np.round(mean), -_MOST_TENS, _MOST_TENS).astype(np.int64)
            formed = formed * 10.0**tens
        misses = np.min(
            [
                (there & ~close).sum(axis=0)
                for close in roundings(formed, value, self.units[target])
            ],
            axis=0,
        )
        enough = there.sum(axis=0) >= max(len(rows) / 2, 10)
        return enough & (misses <= _MISSES), tens

    def _of_one(self, target: int, levels: Ints, form: Form) -> Iterator[Candidate]:
        if levels[target] < _FEW_LEVELS and form.text != "{x}":
            return
        rows = self._rows(target)
        with np.errstate(all="ignore"):
            fits, tens = self._fits(form.of(self.sample[rows]), target, rows, form.scaled)
        fits[target] = False
        if form.text == "{x}":  # of the same column twice, the first stays
            later = np.arange(len(levels)) > target
            fits &= ~(later & np.array([unit == self.units[target] for unit in self.units]))
        fits &= levels > (0 if form.text == "{x}" else 2)
        for place in np.flatnonzero(fits).tolist():
            yield self._written(form, int(tens[place]), target, place)

    def _of_two(self, target: int, levels: Ints, form: Form) -> Iterator[Candidate]:
        interaction = form.text == "{x} * {z}"
        if levels[target] < (2 if interaction else _FEW_LEVELS):
            return
        may = levels > (1 if interaction else 2)
        if levels[target] == 2:  # of two truths
            may = levels == 2
        rows = self._rows(target)
        base = self.sample[rows]
        with np.errstate(all="ignore"):
            formed = form.of(base[:, :, None], base[:, None, :])
            fits, tens = self._fits(formed, target, rows, form.scaled)
        fits[target] = fits[:, target] = False
        np.fill_diagonal(fits, False)
        fits &= may[:, None] & may
        for first, last in np.argwhere(np.triu(fits) if form.symmetric else fits).tolist():
            yield self._written(form, int(tens[first, last]), target, first, last)

    def _written(self, form: Form, tens: int, target: int, *places: int) -> Candidate:
        names = [self.names[place] for place in places]
        text = form.text.format(**dict(zip("xz", map(quote, names))))
        text = f"{10**tens} * {text}" if tens > 0 else text
        text += f" / {10**-tens}" if tens < 0 else ""
        return f"{quote(self.names[target])} = {text}", (self.names[target], *names)

    def _line(self, target: int, levels: Ints, steep: bool) -> Iterator[Candidate]:
        """Yield ``a * x + b``, with the shortest numbers that fit.

        Of two columns with the same unit, the ``steep`` line loses nothing.
        """
        if levels[target] < _LEAST_LEVELS:
            return
        rows = self._rows(target)
        value = self.sample[rows, target]
        for place in np.flatnonzero(levels >= _LEAST_LEVELS).tolist():
            other = self.sample[rows, place]
            both = ~np.isnan(other)
            if place == target or both.sum() < len(rows) / 2 or not np.ptp(other[both]):
                continue
            slope, start = _straight(other[both], value[both])
            if (abs(slope) >= 1 or self.units[place] != self.units[target]) != steep:
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                formed = slope * other + start
            slack = closeness(self.units[target], np.abs(value))
            if (np.abs(formed - value) > 2 * slack)[both].sum() <= _MISSES:
                line = _shortest(self.sample[:, place], self.sample[:, target], self.units[target])
                if line is not None:
                    text = line.format(quote(self.names[place]))
                    about = (self.names[target], self.names[place])
                    yield f"{quote(about[0])} = {text}", about

    def _centred(self, target: int, levels: Ints) -> Iterator[Candidate]:
        """Yield ``(x - c) * z``: an interaction with a column less a constant."""
        if levels[target] < _FEW_LEVELS:
            return
        rows = self._rows(target)
        base, value = self.sample[rows], self.sample[rows, target]
        for last in np.flatnonzero((levels > 1) & (np.arange(len(levels)) != target)).tolist():
            z = base[:, last]
            used = (z != 0) & ~np.isnan(z) & ~np.isnan(value)
            if used.sum() < _FEW_LEVELS or (value[z == 0] != 0).any():
                continue
            with np.errstate(all="ignore"):
                away = np.nan_to_num(base[used], nan=np.inf) - (value[used] / z[used])[:, None]
                start = np.median(away, axis=0)
                slack = closeness(self.units[target], np.abs(value[used]))[:, None]
                misses = (np.abs((away - start) * z[used][:, None]) > slack).sum(axis=0)
            spread = np.ptp(np.nan_to_num(base[used]), axis=0)
            for first in np.flatnonzero((misses <= _MISSES) & (spread > 0) & (start != 0)).tolist():
                if first in (target, last) or np.isnan(base[used, first]).any():
                    continue
                names = self.names[target], self.names[first], self.names[last]
                less = _added("{}", -float(f"{start[first]:.12g}")).format(quote(names[1]))
                yield f"{quote(names[0])} = ({less}) * {quote(names[2])}", names

    # -- sums -------------------------------------------------------------------------------------

    def sums(self, least: float) -> Iterator[Candidate]:
        """Yield columns that are sums, differences or means of others, and constant totals.

        Columns join a basis one after the other, those of few different values first. One that
        the basis gives exactly, with factors of 1 and -1, is a sum; with equal factors, a mean.
        """
        full = np.flatnonzero(np.isnan(self.sample).mean(axis=0) < 0.5)
        matrix = self.sample[:, full]
        matrix = matrix[~np.isnan(matrix).any(axis=1)]
        if len(matrix) < max(least, 3 * len(full)) or len(full) < 2:
            return
        matrix = np.column_stack([matrix, np.ones(len(matrix))])
        kinds, names = self.levels[full], [self.names[place] for place in full.tolist()]
        basis = [len(full)]
        for place in sorted(range(len(full)), key=lambda i: kinds[i]):
            factors = _factors(matrix, basis, place)
            if factors is None:
                basis.append(place)
            if not factors:
                continue
            terms = [(factor, names[i]) for i, factor in zip(basis[1:], factors[1:]) if factor]
            if len(terms) > 1 or (terms and factors[0]):
                about = (names[place], *(name for _, name in terms))
                yield _as_sum(names[place], terms, factors[0], names), about


# the ways to look for the formula of a column, the simplest first
_FINDS: tuple[Callable[[Numbers, int, Ints], Iterator[Candidate]], ...] = (
    *(partial(Numbers._of_one, form=form) for form in _OF_ONE),
    *(partial(Numbers._line, steep=steep) for steep in (True, False)),
    *(partial(Numbers._of_two, form=form) for form in _OF_TWO),
    Numbers._centred,
)


def _straight(x: Floats, y: Floats) -> tuple[float, float]:
    """Return slope and start of the line through the medians of the lower and upper halves."""
    order = np.argsort(x, kind="stable")
    low, high = order[: len(x) // 3 + 1], order[-(len(x) // 3 + 1) :]
    away = float(np.mean(x[high]) - np.mean(x[low])) or 1.0
    slope = float(np.mean(y[high]) - np.mean(y[low])) / away
    return slope, float(np.median(y - slope * x))


def _shortest(x: Floats, y: Floats, unit: float | None) -> str | None:
    """Return the line with the fewest digits that nearly all records lie on, when rounded."""
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    slope, _ = np.polyfit(x, y, 1)
    slack = closeness(unit, np.abs(y)) / (1.0 if unit is None else 2 - 1e-5)
    whole = round(1 / slope) if 0 < abs(slope) < _FRACTION else 0
    shorts = [(1 / whole, f"{{}} / {whole}")] if whole else []
    rounded = (float(f"{slope:.{digits}g}") for digits in range(1, _MOST_DIGITS + 1))
    full = float(np.ptp(y) / np.ptp(x)) * (1 if slope > 0 else -1)  # of a column that was scaled
    shorts += [
        (short, "{}" if short == 1 else f"{_plain(short)} * {{}}") for short in (*rounded, full)
    ]
    found = None
    for short, text in shorts:
        rest = float(np.median(y - short * x))
        starts = [float(f"{rest:.{places}g}") if places else 0.0 for places in range(_ALL_DIGITS)]
        away = [np.abs(short * x + start - y) for start in starts]
        near = [place for place, one in enumerate(away) if (one > slack).mean() <= _WORST / 2]
        exact = [place for place in near if away[place].max() <= _EXACT * np.abs(y).max()]
        if near and not short:
            return None
        if exact:  # of a column that was centred, the start that gives its numbers bit for bit
            best = max(exact, key=lambda place: int((away[place] == 0).sum()))
            return _added(text, starts[best])
        if near and found is None:
            found = _added(text, starts[near[0]])
    return found


def _added(text: str, start: float) -> str:
    if text == "-1 * {}" and start:
        return f"{_plain(start)} - {{}}"
    return f"{text} {'+' if start > 0 else '-'} {_plain(abs(start))}" if start else text


def _plain(number: float) -> str:
    """Write a number with all the digits that it takes to read it back, without an exponent."""
    return str(np.format_float_positional(number, trim="-"))


def _factors(matrix: Floats, basis: list[int], place: int) -> list[float] | None:
    """Return the factors with which columns add up to another; None if they do not.

    The first is what is added; the others are 1 and -1, or 1 over how many there are, or have few
    digits. Without any, they add up in another way.
    """
    if len(basis) < 2:
        return None
    base, target = matrix[:, basis], matrix[:, place]
    scale = np.maximum(np.abs(base).max(axis=0), 1e-12)
    spread = max(float(np.abs(target - target.mean()).mean()), 1e-12)
    for _ in range(3):  # the few records that fit worst, exceptions perhaps, are left out
        scaled = base / scale
        gram = scaled.T @ scaled  # normal equations will do: the factors are rounded in any case
        ridge = 1e-10 * np.trace(gram) * np.eye(len(gram))
        factors = np.linalg.solve(gram + ridge, scaled.T @ target) / scale
        rest = np.abs(base @ factors - target)
        if rest.mean() > 0.5 * spread:
            return None
        kept = np.argsort(rest, kind="stable")[: len(rest) - int(_WORST * len(rest))]
        base, target, rest = base[kept], target[kept], rest[kept]
    if rest.mean() > _ROUGH * spread:
        return None
    used = np.flatnonzero(np.abs(factors[1:]) > _ROUGH) + 1
    mean = len(used) > 1 and np.allclose(factors[used], 1 / len(used), rtol=_ROUGH)
    whole = np.zeros(len(factors))
    whole[used] = 1 / len(used) if mean else np.round(factors[used])
    whole[0] = float(f"{np.median(target - base @ whole):.6g}")
    plain = mean or (len(used) and np.abs(whole[used]).max() == 1 == np.abs(whole[used]).min())
    if not plain or np.median(np.abs(base @ whole - target)) > _ROUGH * spread:
        short = np.array([float(f"{factor:.{_FEW_DIGITS}g}") for factor in factors])
        short[np.abs(factors) * scale <= _NOTHING * spread] = 0.0
        exact = np.abs(base @ short - target).max() <= _EXACT * max(1.0, np.abs(target).max())
        return short.tolist() if exact and 1 < np.count_nonzero(short[1:]) <= _FEW_TERMS else []
    return [0.0 if abs(factor) < 1e-9 else float(factor) for factor in whole]


def _as_sum(
    target: str, terms: Sequence[tuple[float, str]], added: float, names: Sequence[str]
) -> str:
    """Write a sum, the total alone on the left if there is one."""
    if any(abs(factor) != 1 for factor, _ in terms) and len({factor for factor, _ in terms}) > 1:
        return f"{quote(target)} = {_weighted(terms, added)}"
    negative = [name for factor, name in terms if factor < 0]
    positive = [name for factor, name in terms if factor > 0]
    if 0 < terms[0][0] < 1:
        listed = " + ".join(quote(name) for name in sorted(positive, key=names.index))
        return f"{quote(target)} = ({listed}) / {len(positive)}"
    if added and not positive:  # parts of a constant total
        listed = " + ".join(quote(name) for name in sorted([*negative, target], key=names.index))
        return f"{listed} = {added:.12g}"
    if len(positive) == 1 and negative:  # a part is the total less the other parts
        target, positive, negative, added = positive[0], [*negative, target], [], -added
    signed = [("+", name) for name in sorted(positive, key=names.index)]
    signed += [("-", name) for name in sorted(negative, key=names.index)]
    text = " ".join(f"{sign} {quote(name)}" for sign, name in signed).removeprefix("+ ")
    text += f" {'+' if added > 0 else '-'} {abs(added):.12g}" if added else ""
    return f"{quote(target)} = {text}"


def _weighted(terms: Sequence[tuple[float, str]], added: float) -> str:
    parts = [
        (
            "-" if factor < 0 else "+",
            ("" if abs(factor) == 1 else f"{_plain(abs(factor))} * ") + name,
        )
        for factor, name in ((factor, quote(name)) for factor, name in terms)
    ]
    parts += [("-" if added < 0 else "+", _plain(abs(added)))] if added else []
    return " ".join(f"{sign} {part}" for sign, part in parts).removeprefix("+ ")


# -- sets ----------------------------------------------------------------------------------------


def exclusive_sets(ones: Flags, least: float, few: float) -> Iterator[tuple[list[int], bool]]:
    """Yield sets of columns, (n, m), of which never two are 1, and whether one always is.

    Where none may be 1, as many records as ``least`` should have each with another by chance;
    up to ``few`` records are exceptions.
    """
    n, counts = len(ones), ones.sum(axis=0)
    both = ones.T.astype(np.float32) @ ones.astype(np.float32)
    free = list(range(ones.shape[1]))
    for most in sorted({0.0, few}):
        for place in range(ones.shape[1]):
            row = _cover(place, free, both <= most, ones, most) if place in free else []
            if len(row) >= _LEAST_SET:
                free = [other for other in free if other not in row]
                yield row, True
    for place in range(ones.shape[1]):
        row = [place] if place in free else []
        for other in free if row else []:
            if other > place and (both[other, row] <= few).all():
                row.append(other)
        total = counts[row].sum()
        row = [one for one in row if counts[one] * (total - counts[one]) >= least * n]
        if len(row) >= _LEAST_SET and row[0] == place:
            free = [other for other in free if other not in row]
            yield row, False


def _cover(first: int, free: Sequence[int], apart: Flags, ones: Flags, most: float) -> list[int]:
    """Return a column and later ones, no two of which are 1, that leave ``most`` rows without."""
    counts = ones.sum(axis=0)
    later = [other for other in free if other > first and apart[other, first]]
    later.sort(key=lambda other: -counts[other])
    turns = [([first], later)]
    for _ in range(_TURNS):
        if not turns:
            break
        row, rest = turns.pop()
        missing = len(ones) - most - counts[row].sum()
        if missing <= 0 and (~ones[:, row].any(axis=1)).sum() <= most:
            return sorted(row)
        if rest and counts[rest].sum() >= missing:
            turns.append((row, rest[1:]))
            turns.append(([*row, rest[0]], [one for one in rest[1:] if apart[one, rest[0]]]))
    return []
