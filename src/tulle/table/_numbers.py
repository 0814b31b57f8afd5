"""Numbers and points in time as dimensions: the value, and a state for each other entry."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from math import gcd
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._columns import NumberColumn
from tulle._people import count_exceptions, draw_threshold, people_among, weigh_people
from tulle._types import Flags, Floats, Integers, Ints
from tulle.errors import DataError
from tulle.table._codecs import (
    Affine,
    Problem,
    family_of,
    never_missing,
    refuse,
    refuse_other_type,
    wrong_type,
)
from tulle.table._drawing import (
    Grouped,
    among_present,
    choose_states,
    clip_keeping_means,
    mean_present,
    one_of_two,
    round_keeping_means,
)
from tulle.table._precision import (
    EXACT,
    HOUR,
    YEAR,
    common_decimals,
    common_step,
    decimals_of,
    emptiest,
    empty_places,
    even_cycle,
    from_even_days,
    in_singles,
    looks_coded,
    months_of,
    tick_sizes,
    to_even_days,
)
from tulle.table._rare import Crowd, Tails, safe_bounds
from tulle.table._series import filled, is_missing, with_nulls
from tulle.table._states import (
    FIRST,
    NAN,
    NULL,
    PRESENT,
    STATE,
    UNREAD,
    States,
    Writing,
    find_heaps,
    whole_set,
    writing_of,
)
from tulle.table.schema import Column, Kind


def spread_of(values: Floats) -> float:
    """Return the population standard deviation; 0 only where all values are equal."""
    if not len(values) or values.min() == values.max():
        return 0.0
    largest = float(np.abs(values).max())
    if 1e-140 < largest < 1e140:
        return float(values.std())
    return float((values / largest).std() * largest)


def only_two(present: Floats) -> tuple[float, float] | None:
    """Return the smallest and the largest value, if these two are all that there are."""
    low, high = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
    if low >= high or not ((present == low) | (present == high)).all():
        return None
    return low, high


def is_present(block: Floats) -> Flags:
    """Return which records have a value, from the dimensions of a column."""
    return np.asarray(block[:, 1:].sum(axis=1) == 0)


_ROUNDING = 1e-9
_DAY = 24 * HOUR
_EPOCH = date(1970, 1, 1).toordinal()
_DATES = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
_MISSING = (NULL, NAN, UNREAD)
_HEAPS = 4  # of a column, at most: each is a dimension


@dataclass
class NumberCodec:
    """One column of numbers, dates, times or durations.

    Dimensions: the value, then an indicator for each other state that enough people are in: null,
    NaN, not understood, and special values. The value of such a record is the mean of the others.
    Points in time are whole ticks (the coarsest of day, hour, ..., nanosecond that fits them all)
    since the earliest one; times of day since the emptiest hour, where the circle is cut open.
    """

    name: str
    kind: Kind
    dtype: Any
    weight: float = 1.0
    public: tuple[float, float] | None = None
    decimals: int | None = None
    low: float = 0.0
    high: float = 0.0
    fill: float = 0.0
    origin: int = 0
    tick: int = 1
    pair: tuple[float, float] | None = None  # the only two values there are, if it is two
    extra: list[int] = field(default_factory=list)  # the states besides a value
    scales: Floats = field(default_factory=lambda: np.ones(1))
    observed: int = 0
    writing: Writing | None = None  # of text, or with special values
    unread: int = 0  # values that were not understood
    too_few: tuple[int, int] = (0, 0)  # states of too few people, and the records in them
    keep_rare: bool = False
    least: int = 1  # people that a bound rests on
    tails: Tails | None = None  # later records beyond the range
    steps: tuple[int, int] = (1, 0)  # of points in time that are shown: ticks apart, from where
    clock: tuple[float, ...] = ()  # of time stamps: shares of a day's records before each hour
    week: tuple[float, ...] = ()  # ... before each day of the week, if some days are empty
    year: tuple[float, ...] = ()  # ... before each month, if some months are empty
    heaps: tuple[float, ...] = ()  # the last of the special values: found, and not declared
    # decimals, whether numbers are codes, and of how many of the last decimal they are multiples
    shown: tuple[int | None, bool, int] = (0, False, 1)
    single: bool = False  # doubles that hold numbers of single precision, and will again

    def __post_init__(self) -> None:
        """Refuse what a saved code may hold if somebody has changed it."""
        parts = isinstance(self.tails, Tails | None) and isinstance(self.writing, Writing | None)
        if not parts or type(self.least) is not int or self.least < 1:
            raise ValueError("the parts of a code are of other types")

    @classmethod
    def fit(
        cls,
        series: pl.Series,
        column: Column,
        *,
        find_decimals: bool,
        crowd: Crowd | None = None,
        heaps: bool = False,
    ) -> NumberCodec:
        """Learn range, precision and scale from a column; what it shows, ``crowd`` shares.

        With ``heaps``, a value that very many share is a state of its own, as special values are.
        """
        writing = writing_of(series, column)
        inner = series.dtype if writing is None else writing.inner
        kind = column.kind
        if kind is not Kind.DATETIME:  # the type knows better whether values are whole
            kind = Kind.INTEGER if inner.is_integer() else Kind.DECIMAL
        codec = cls(series.name, kind, inner, column.weight, column.bounds)
        codec.writing, codec.keep_rare = writing, column.keep_rare
        if kind is Kind.DATETIME:
            codec._fit_ticks(series if writing is None else writing.split(series)[0])
        values, states, problems = codec._read(series)
        refuse(problems)
        if heaps and crowd is not None and codec._set_heaps_apart(values, states, crowd):
            values, states, _ = codec._read(series)
        here = states == PRESENT
        present = values[here]
        codec._fit_states(states, None if column.keep_rare else crowd)
        codec.observed, codec.unread = len(present), int((states == UNREAD).sum())
        if len(present):
            codec.low, codec.high = float(present.min()), float(present.max())
            unit = 2.0**-60 if max(-codec.low, codec.high) > 1e290 else 1.0  # sums may overflow
            mean = float((present * unit).mean()) / unit
            codec.fill = min(max(mean, codec.low), codec.high)
        codec.pair = only_two(present)
        if kind is Kind.DECIMAL and find_decimals:
            codec.decimals = decimals_of(present, inner)
            codec.single = inner == pl.Float64 and in_singles(present)
        if crowd is not None:
            codec._fit_bounds(present, crowd, here)
        if column.bounds is not None and (codec.fixed or not len(present)):
            codec.low, codec.high = map(float, column.bounds)
            codec.pair = None
        codec._fit_scales(present, states)
        return codec

    def _set_heaps_apart(self, values: Floats, states: States, crowd: Crowd) -> bool:
        """Find the heaps of a column that is not written as text; return whether there are some."""
        writing = self.writing or Writing(self.dtype, self.dtype)
        here = states == PRESENT
        if self.kind is Kind.DATETIME or writing.forms or only_two(values[here]) is not None:
            return False
        crowd = crowd.among(here)
        weights = weigh_people(crowd.people, len(crowd.kept)) * crowd.kept
        enough = crowd.enough()
        found = whole_set(values[here], weights, enough)
        found = found or find_heaps(values[here], weights, enough, _HEAPS)
        self.heaps = tuple(found)
        if found:
            self.writing = replace(writing, special=(*writing.special, *found))
        return bool(found)

    def _fit_states(self, states: States, crowd: Crowd | None) -> None:
        """Keep the states that enough people are in."""
        for state in np.unique(states[states != PRESENT]).tolist():
            rows = states == state
            if crowd is None or crowd.hold(rows) >= crowd.enough():
                self.extra.append(state)
            else:
                self.too_few = (self.too_few[0] + 1, self.too_few[1] + int(rows.sum()))

    def _fit_bounds(self, present: Floats, crowd: Crowd, rows: NDArray[np.bool_]) -> None:
        """Take the range from statistics of many people; two values show if many hold each."""
        self.least = crowd.k
        if self.pair is not None:
            inside = crowd.among(rows)
            if min(inside.hold(present == value) for value in self.pair) < crowd.enough():
                self.pair = None
        if self.pair is None and len(present):
            since = self.origin / self.tick
            low, high = self.public or (-np.inf, np.inf)
            ends = safe_bounds(present, crowd, rows, origin=since)
            self.low, self.high = (min(max(end, low), high) for end in ends)

    @property
    def fixed(self) -> bool:
        """Whether the range is that of public bounds.

        Whole numbers stay where many people are: ages are bounded by 0 and 120, and are not there.
        """
        return self.public is not None and (self.least == 1 or self.kind is not Kind.INTEGER)

    @classmethod
    def unfit(cls, series: pl.Series, column: Column) -> list[Problem]:
        codec = cls(series.name, column.kind, series.dtype, public=column.bounds)
        codec.writing = writing_of(series, column)
        return codec._read(series)[2]

    @property
    def width(self) -> int:
        return 1 + len(self.extra)

    @property
    def feature_names(self) -> list[str]:
        words = {NULL: "missing", NAN: "not a number", UNREAD: "not understood"}
        words |= {state: str(value) for state, value in enumerate(self._special, start=FIRST)}
        return [self.name, *(f"{self.name}=({words[state]})" for state in self.extra)]

    @property
    def constant(self) -> bool:
        return self.observed > 0 and not self.extra and self.low == self.high

    def problems(self, series: pl.Series) -> list[Problem]:
        _, states, problems = self._read(series)
        return problems + self._unseen(states)

    def encode(self, series: pl.Series, out: Floats) -> None:
        values, states, problems = self._read(series)
        refuse(problems or self._unseen(states))
        if not self.extra and not self.too_few[0]:
            out[:, 0] = values
            return
        out[:, 0] = np.where(states == PRESENT, values, self.fill)
        states = self._known(states)
        for place, state in enumerate(self.extra, start=1):
            out[:, place] = states == state

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series:
        """Return a column from its dimensions, in its own type, range and precision."""
        values = block[:, 0]
        states = None
        if self.extra:
            absent = block[:, 1:].sum(axis=1)
            extras = [block[:, place] for place in range(1, self.width)]
            shares: list[Floats] = []
            if grouped is not None:
                missing = grouped.means[:, 1:]
                shares = [1 - missing.sum(axis=1), *missing.T]
                values = among_present(
                    values, absent, grouped.means[:, 0], 1 - shares[0], self.fill, grouped.groups
                )
            chosen = choose_states([1 - absent, *extras], shares, grouped)
            states = np.array([PRESENT, *self.extra], dtype=np.int8)[chosen]
        return self._typed(self._snapped(values, states, grouped, snap), states)

    def learn_shown(
        self, series: pl.Series, k: int, rng: np.random.Generator, people: Ints | None
    ) -> None:
        """Learn the steps, hours and decimals that a release may show."""
        values, states, problems = self._read(series)
        refuse(problems)
        here = states == PRESENT
        everybody = len(here) if people is None else len(np.unique(people))
        few = count_exceptions(draw_threshold(k, rng), everybody)
        values, people = values[here], None if people is None else people[here]
        decimals: int | None = 0
        if self.kind is Kind.DATETIME:
            self.steps = self._common_steps(values, people, few)
            if self.dtype == pl.Datetime and self.steps[0] * self.tick < tick_sizes(self.dtype)[0]:
                hours = np.clip(self._days(values)[1].astype(np.int64), 0, 23)
                self.clock = even_cycle(hours, 24, people, draw_threshold(k, rng))
            if len(values) and self.dtype in (pl.Date, pl.Datetime):
                self._learn_calendar(values, people, k, rng)
            decimals = None if self.clock or self.week or self.year else 0
        if self.kind is Kind.DECIMAL:  # of arrays too: a number drawn looks like those there were
            self.single = self.dtype == pl.Float64 and in_singles(values, people, few)
            kept = pl.Float32 if self.single else series.dtype
            found = common_decimals(values, people, few, kept)
            decimals = self.decimals if found is None else found
        step = 1
        if self.kind is not Kind.DATETIME and decimals is not None and not self.single:
            step = common_step(np.rint(values * 10.0**decimals), people, few)
        # of numbers in tens, those between two tens are no gaps
        self.shown = decimals, self.kind is Kind.INTEGER and looks_coded(values / step, k), step

    def _learn_calendar(
        self, ticks: Floats, people: Ints | None, k: int, rng: np.random.Generator
    ) -> None:
        """Learn which days of the week and which months are empty, in times of several years."""
        days = self._since_1970(ticks)
        if not self._has_days or np.ptp(days) < 2 * YEAR:
            return
        weekdays, months = np.floor(days + 3) % 7, np.floor(months_of(days)[1])
        enough = draw_threshold(k, rng)
        self.week = even_cycle(weekdays.astype(np.int64), 7, people, enough, gaps=True)
        self.year = even_cycle(months.astype(np.int64), 12, people, enough, gaps=True)

    @property
    def _has_days(self) -> bool:
        """Whether a calendar can be told: of days, or of times with a clock."""
        return bool(self.clock) or self.steps[0] * self.tick >= tick_sizes(self.dtype)[0]

    def _since_1970(self, ticks: Floats) -> Floats:
        return (ticks * self.tick + self.origin) / tick_sizes(self.dtype)[0]

    def as_known(self, series: pl.Series) -> NumberColumn:
        """Return numbers, NaN where missing, in steps and decimals that were learnt before."""
        values, states, problems = self._read(series)
        refuse(problems)
        present = states == PRESENT
        if self.kind is Kind.DATETIME:
            values = self.to_cells(values)
        # null is NaN; where there is no null, NaN of floats is
        special = [s for s in np.unique(states).tolist() if s > NULL and s != self._absent]
        if self.single and self.shown[0] is not None:
            values = np.round(values, self.shown[0])
        values = np.where(present, values, np.nan)
        for state in special:
            values[states == state] = STATE * state
        specials = tuple(STATE * state for state in special)
        return NumberColumn(
            self.name, values, self.shown[0], specials, self.shown[1], self.keep_rare, self.shown[2]
        )

    def restore(self, cells: Any) -> pl.Series:
        """Return a column of the type of the fitted one from numbers, NaN where missing."""
        values = np.asarray(cells, dtype=np.float64)
        special = values <= STATE
        states = np.where(special, np.rint(values / STATE), PRESENT).astype(np.int8)
        states[np.isnan(values)] = self._absent
        if self.kind is Kind.DATETIME:
            values = self._from_cells(np.where(states == PRESENT, values, 0.0))
        low, high = self.public or (-np.inf, np.inf)
        return self._typed(np.clip(np.where(states == PRESENT, values, 0.0), low, high), states)

    def to_cells(self, ticks: Floats) -> Floats:
        """Return ticks as a synthesis takes them: in steps, or days with an even clock.

        On an even clock an hour is as long as the share of records in it: of cells of many days,
        hours in which nobody is awake take up no room.
        """
        return self._on_calendar(self._on_clock(ticks))

    def cells_of_days(self, days: Floats, away: Floats | float = 0.0) -> Floats:
        """Return days since 1970 as a synthesis takes them, ``away`` further on an even clock."""
        return self._on_calendar(self.even_days(days) + away)

    def even_days(self, days: Floats) -> Floats:
        """Return days since 1970 on an even clock, if there is one; in steps without."""
        day = tick_sizes(self.dtype)[0]
        return self._on_clock(np.round((days - self.origin / day) / (self.tick / day)))

    def _on_clock(self, ticks: Floats) -> Floats:
        if not self.clock:
            return (ticks - self.steps[1]) / self.steps[0]
        days, hours = self._days(ticks)
        return days + np.interp(hours, np.arange(25), self.clock)

    def _on_calendar(self, cells: Floats) -> Floats:
        if not (self.week or self.year):
            return cells
        return to_even_days(cells * self._step_of_days + self._first_day, self.week, self.year)

    @property
    def _step_of_days(self) -> float:
        day = tick_sizes(self.dtype)[0] / self.tick
        return 1.0 if self.clock else self.steps[0] / day

    @property
    def _first_day(self) -> float:
        """The day since 1970 of a cell of 0: where it begins, or its middle without a clock."""
        if self.clock:
            return float(np.floor(self._since_1970(np.zeros(1)))[0])
        return float(self._since_1970(np.array([float(self.steps[1])]))[0]) + 0.5

    def awake(self, since: Floats, until: Floats, rng: np.random.Generator) -> Floats:
        """Return moments, in days; of an hour that hardly anybody has, one on the way there.

        That is where a time that passes leads from an hour in which it could begin.
        """
        if not self.clock:
            return until
        asleep, hour = empty_places(self.clock), np.floor(until * 24 + _ROUNDING)
        step = np.where(until < since, 1.0, -1.0)
        edge = hour
        for _ in range(23):
            edge = np.where(asleep[np.nan_to_num(edge).astype(np.int64) % 24], edge + step, edge)
        edge = (edge + (step < 0)) / 24  # where people are still awake
        late = (edge != (hour + (step < 0)) / 24) & ((edge - since) * step < 0)
        return np.where(late, since + (edge - since) * rng.random(len(until)), until)

    def _from_cells(self, cells: Floats) -> Floats:
        if self.week or self.year:
            days = from_even_days(cells, self.week, self.year) - self._first_day
            cells = days if self.clock else np.floor(days / self._step_of_days + 0.5)
        if self.clock:
            days = np.floor(cells)
            hours = np.interp(cells - days, self.clock, np.arange(25))
            day = tick_sizes(self.dtype)[0] / self.tick
            ticks = (days + hours / 24) * day - self._since_midnight
            cells = np.rint((ticks - self.steps[1]) / self.steps[0])
        return cells * self.steps[0] + self.steps[1]

    def _days(self, ticks: Floats) -> tuple[Floats, Floats]:
        """Return days since the first one, and hours of the day."""
        days, rest = np.divmod(ticks + self._since_midnight, tick_sizes(self.dtype)[0] / self.tick)
        return days, rest * 24 * self.tick / tick_sizes(self.dtype)[0]

    @property
    def _since_midnight(self) -> float:
        return self.origin % tick_sizes(self.dtype)[0] / self.tick

    @property
    def _absent(self) -> int:
        """The one state that a synthesis takes for missing."""
        return NAN if NAN in self.extra and NULL not in self.extra else NULL

    def confine(self, block: Floats, people: Integers | None) -> None:
        """Take the range from these records alone, given by their dimensions."""
        inside = is_present(block)
        present = block[inside, 0]
        self.observed = len(present)
        self.pair = None if self.fixed else only_two(present)
        if not self.fixed and len(present):
            self.low, self.high = float(present.min()), float(present.max())
            self.tails = None
            if self.least > 1:
                crowd = Crowd.of_kept(self.least, inside, people)
                self._fit_bounds(present, crowd, inside)

    def widen(
        self,
        block: Floats,
        people: Integers | None = None,
        farthest: list[dict[int, int]] | None = None,
    ) -> None:
        """Let the range grow by the values of more records.

        It grows to where at least ``least`` of them lie beyond it, or as many ``people``, of whom
        ``farthest`` remembers where they count on each side.
        """
        inside = is_present(block) if self.extra else np.ones(len(block), dtype=bool)
        present = block[inside, 0]
        if not self.fixed and len(present):
            low, high = float(present.min()), float(present.max())
            if self.least == 1 or not self.observed:
                known = (self.low, self.high) if self.observed else (np.inf, -np.inf)
                self.low, self.high = min(known[0], low), max(known[1], high)
            else:
                self.tails = self.tails or Tails.of(self.low, self.high)
                if low < self.tails.low or high > self.tails.high:  # else they count nowhere
                    if people is None or farthest is None:
                        self.tails = self.tails.with_values(present)
                    else:
                        self.tails = self.tails.with_people(present, people[inside], farthest)
                    self.low, self.high = self.tails.bounds(self.least)
        if self.pair is not None and not np.isin(present, self.pair).all():
            self.pair = None
        self.observed += len(present)

    def reach(self, means: Floats) -> None:
        """Let the range reach the means of whole groups, which rest on enough people."""
        whole = means[means[:, 1:].sum(axis=1) < _ROUNDING, 0]
        if self.fixed or self.pair is not None or not len(whole):
            return
        places = self.decimals if self.kind is Kind.DECIMAL else 0
        unit = 1.0 if places is None else 10.0**places
        down, up = (np.positive, np.positive) if places is None else (np.floor, np.ceil)
        self.low = min(self.low, float(down(whole.min() * unit)) / unit)
        self.high = max(self.high, float(up(whole.max() * unit)) / unit)

    # -- from values to numbers ----------------------------------------------------------------

    def _read(self, series: pl.Series) -> tuple[Floats, States, list[Problem]]:
        """Values as floats, the state of each record, and what is wrong with which records."""
        states = np.zeros(len(series), dtype=np.int8)
        if self.writing is not None:
            try:
                series, states = self.writing.split(series)
            except pl.exceptions.PolarsError:  # a type of which nothing converts
                return np.zeros(len(series)), states, [wrong_type(self, series)]
        elif series.null_count():
            states[is_missing(series)] = NULL
        if not self._reads(series.dtype):
            return np.zeros(len(series)), states, [wrong_type(self, series)]
        if self.kind is Kind.DATETIME:
            return self._to_ticks(series), states, []
        if series.dtype.is_integer():
            exact = filled(series, 0)
            values = np.asarray(exact, dtype=np.float64)
            problems = self._inexact((exact > EXACT) | (exact < -EXACT), "a whole number beyond")
        else:
            values = filled(series.cast(pl.Float64), 0)
            problems = self._not_finite(values, states)
            if (scale := getattr(series.dtype, "scale", None)) is not None:
                long = np.abs(values) * 10.0**scale > EXACT
                problems = self._inexact(long, "more digits than")
        return values, states, problems + self._outside(values, states)

    def _reads(self, dtype: pl.DataType) -> bool:
        """Return whether values of this type are of the column's kind."""
        if dtype == pl.Null:
            return True
        if self.kind is not Kind.DATETIME:
            return family_of(dtype) == "number"
        zones = {getattr(one, "time_zone", None) for one in (dtype, self.dtype)}
        return family_of(dtype) == family_of(self.dtype) and len(zones) == 1

    def _not_finite(self, values: Floats, states: States) -> list[Problem]:
        """Mark what is not a number, and find what is infinite."""
        finite = np.isfinite(values)
        if finite.all():
            return []
        infinite = np.isinf(values)
        states[~finite & ~infinite] = NAN
        reason = f"column '{self.name}' is infinite"
        remedy = "make these values missing, or replace them with finite ones"
        return [Problem(infinite, reason, remedy)] if infinite.any() else []

    def _inexact(self, rows: NDArray[np.bool_], what: str) -> list[Problem]:
        if not rows.any():
            return []
        reason = f"column '{self.name}' holds {what} 2**53, which is not exact as floating point"
        remedy = "round it or subtract an offset, or declare it an identifier or a category"
        return [Problem(rows, reason, remedy)]

    def _outside(self, values: Floats, states: States) -> list[Problem]:
        if self.public is None:
            return []
        low, high = self.public
        rows = ((values < low) | (values > high)) & (states == PRESENT)
        reason = f"column '{self.name}' is outside its public bounds"
        return [Problem(rows, reason, "widen the bounds or correct the data")] if rows.any() else []

    def _unseen(self, states: States) -> list[Problem]:
        """Find records in a state that nobody was in; one known way of being missing is enough."""
        if self.too_few[0] or any(state in _MISSING for state in self.extra):
            return []
        rows = states != PRESENT
        for state in self.extra:
            rows &= states != state
        return [never_missing(self, rows)] if rows.any() else []

    def _known(self, states: States) -> States:
        """Return states that are kept: for others missing, or a value where that is not kept."""
        other = next((state for state in self.extra if state in _MISSING), PRESENT)
        known = np.isin(states, [PRESENT, *self.extra])
        return np.where(known, states, other).astype(np.int8)

    def _fit_ticks(self, series: pl.Series) -> None:
        ticks = series.drop_nulls().to_physical().cast(pl.Int64).to_numpy()
        if not len(ticks):
            return
        self.origin = int(ticks.min())
        if self.dtype == pl.Time:
            self.origin = emptiest(ticks // HOUR % 24, 24) * HOUR
        if self.dtype == pl.Time:
            ticks = (ticks - self.origin) % _DAY + self.origin
        span = ticks.astype(np.uint64) - np.uint64(self.origin % 2**64)  # wraps, never overflows
        self.tick = next(
            size for size in tick_sizes(series.dtype) if not (span % np.uint64(size)).any()
        )
        if int(span.max()) // self.tick > EXACT:
            raise DataError(
                f"column '{self.name}' spans too long a time for its precision: round it to a "
                "coarser unit, such as milliseconds"
            )

    def _to_ticks(self, series: pl.Series) -> Floats:
        series = series if series.dtype == self.dtype else series.cast(self.dtype)
        ticks = filled(series.to_physical().cast(pl.Int64), self.origin)
        if self.dtype == pl.Time:
            ticks = (ticks - self.origin) % _DAY + self.origin
        whole = ticks // self.tick - self.origin // self.tick  # divided first: no overflow
        rest = ticks % self.tick - self.origin % self.tick
        return np.asarray(whole, dtype=np.float64) + rest / self.tick

    def _common_steps(self, ticks: Floats, people: Ints | None, few: float) -> tuple[int, int]:
        """Return the coarsest steps, and where they begin, that suffice for all but a few people.

        If it took all, the one person with a time of the day would show in every row of a release.
        """
        for size in tick_sizes(self.dtype):
            apart = size // self.tick
            if apart <= 1:
                break
            places, where = np.unique(ticks % apart, return_inverse=True)
            usual = np.bincount(where, minlength=1).argmax()
            if len(places) and people_among(where != usual, people) < few:
                return apart, int(places[usual])
        return 1, 0

    # -- learning ------------------------------------------------------------------------------

    def _fit_scales(self, present: Floats, states: States) -> None:
        rates = np.array([(states == state).mean() for state in self.extra])
        spread = spread_of(present) * np.sqrt(len(present) / max(len(states), 1))
        self._share_weight(spread, float((rates * (1 - rates)).sum()))

    def rescale(self, variances: Floats) -> None:
        self._share_weight(float(np.sqrt(variances[0])), float(variances[1:].sum()))

    def _share_weight(self, spread: float, indicators: float) -> None:
        """Share the weight between value and indicators: a missing value is one deviation away."""
        total = float(spread > 0) + indicators
        unit = np.sqrt(total) / self.weight if total > 0 else 1.0
        value = spread * unit if spread * unit > 0 else 1.0
        self.scales = np.array([value, *[unit] * len(self.extra)])

    # -- from numbers to values ----------------------------------------------------------------

    def _snapped(
        self, values: Floats, states: NDArray[Any] | None, grouped: Grouped | None, snap: bool
    ) -> Floats:
        """Snap values to range and precision, keeping the groups' means where it can."""
        if self.kind is Kind.DECIMAL and not snap:
            return values
        low, high = self.low, self.high
        if self.kind is not Kind.DECIMAL:
            low, high = np.ceil(low), np.floor(high)
        present = np.ones(len(values), dtype=bool) if states is None else states == PRESENT
        means = np.zeros(0)
        if grouped is not None:
            away = grouped.means[:, 1:].sum(axis=1)
            means = mean_present(grouped.means[:, 0], away, self.fill)
            grouped = grouped.of_rows(present)
        snapped = values.copy()
        snapped[present] = self._rounded(values[present], means, grouped, low, high)
        return snapped

    def _rounded(
        self, values: Floats, means: Floats, grouped: Grouped | None, low: float, high: float
    ) -> Floats:
        """Return values that may occur, for records that have one."""
        if self.pair is not None:
            return one_of_two(values, means, grouped, *self.pair)
        if grouped is not None:
            values = clip_keeping_means(values, grouped.groups, means, low, high)
        if self.kind is Kind.INTEGER:
            values = round_keeping_means(values, grouped)
        elif self.kind is Kind.DATETIME:
            values = np.rint(values)
        elif self.decimals is not None:
            values = np.round(values, self.decimals)
        return np.clip(values, low, high)

    def _typed(self, values: Floats, states: States | None) -> pl.Series:
        if self.kind is Kind.DATETIME:
            ticks = values.astype(np.int64) * self.tick + self.origin
            if self.dtype == pl.Date:  # an end that is drawn stays in the years that have a date
                ticks = np.clip(ticks, *_DATES)
            series = pl.Series(self.name, ticks % _DAY if self.dtype == pl.Time else ticks)
        elif self.kind is Kind.INTEGER:
            series = pl.Series(self.name, values.astype(np.int64))
        else:
            if self.single:
                values = values.astype(np.float32).astype(np.float64)
            if states is not None:
                values = np.where(states == NAN, np.nan, values)
            series = pl.Series(self.name, values + 0.0)  # never -0.0
        if states is not None:
            series = with_nulls(series, (states != PRESENT) & (states != NAN))
        if self.dtype == pl.Date:
            series = series.cast(pl.Int32)
        series = series.cast(self._holding())
        if self.writing is None:
            return series
        return self.writing.join(
            series, np.zeros(len(series), np.int8) if states is None else states
        )

    def _holding(self) -> Any:
        """Return the type of the column, wider if later records do not fit it: a stream's begin."""
        if self.kind is not Kind.INTEGER:
            return self.dtype
        limits = np.iinfo(str(self.dtype).lower())
        return self.dtype if limits.min <= self.low and self.high <= limits.max else pl.Int64

    # -- two parts -----------------------------------------------------------------------------

    def merge(self, other: NumberCodec) -> tuple[Self, Affine, Affine]:
        """Return the code of both parts, and the way of each into it."""
        observed = [codec for codec in (self, other) if codec.observed] or [self]
        refuse_other_type(self.name, [codec.dtype for codec in observed])
        declared = [codec._special[: len(codec._special) - len(codec.heaps)] for codec in observed]
        if any(values != declared[0] for values in declared):
            raise DataError(
                f"column '{self.name}' has different special values in the two tables: fit both "
                "with the same policy"
            )
        places = [np.inf if codec.decimals is None else codec.decimals for codec in observed]
        heaps = tuple(sorted({heap for codec in observed for heap in codec.heaps}))
        writing = next((codec.writing for codec in observed if codec.writing is not None), None)
        if writing is not None and heaps:
            writing = replace(writing, special=(*declared[0], *heaps))
        joined = replace(
            self,
            dtype=observed[0].dtype,
            writing=writing,
            heaps=heaps,
            unread=self.unread + other.unread,
            least=max(self.least, other.least),
            tails=None,
            too_few=(self.too_few[0] + other.too_few[0], self.too_few[1] + other.too_few[1]),
            extra=[],
            observed=self.observed + other.observed,
            decimals=int(max(places)) if max(places) < np.inf else None,
        )
        states = {joined._state_in(codec, s) for codec in (self, other) for s in codec.extra}
        joined.extra = sorted(states)
        if self.kind is Kind.DATETIME:
            joined.origin = min(codec.origin for codec in observed)
            offsets = (codec.origin - joined.origin for codec in observed)
            joined.tick = gcd(*(codec.tick for codec in observed), *offsets)
        joined.fill = _moved(observed[0].fill, observed[0], joined)
        if not joined.fixed:
            joined.low = min(_moved(codec.low, codec, joined) for codec in observed)
            joined.high = max(_moved(codec.high, codec, joined) for codec in observed)
        pairs = {
            codec.pair
            and (_moved(codec.pair[0], codec, joined), _moved(codec.pair[1], codec, joined))
            for codec in observed
        }
        joined.pair = pairs.pop() if len(pairs) == 1 else None
        joined.scales = np.concatenate([self.scales[:1], np.ones(len(joined.extra))])
        return joined, self._way_into(joined), other._way_into(joined)

    @property
    def _special(self) -> tuple[str | float, ...]:
        return () if self.writing is None else self.writing.special

    def _state_in(self, part: NumberCodec, state: int) -> int:
        """Return the number here of a state of a part."""
        heap = state - FIRST - len(part._special) + len(part.heaps)
        if heap < 0:
            return state
        return FIRST + len(self._special) - len(self.heaps) + self.heaps.index(part.heaps[heap])

    def _way_into(self, joined: NumberCodec) -> Affine:
        linear, shift = np.zeros((self.width, joined.width)), np.zeros(joined.width)
        linear[0, 0] = self.tick / joined.tick
        shift[0] = _moved(0.0, self, joined)
        for place, state in enumerate(self.extra, start=1):
            linear[place, 1 + joined.extra.index(joined._state_in(self, state))] = 1.0
            # a missing record now shows the fill of the whole
            linear[place, 0] = joined.fill - _moved(self.fill, self, joined)
        return Affine(linear, shift)


def _moved(value: float, codec: NumberCodec, joined: NumberCodec) -> float:
    """Return a value in the units of the whole: ticks since its start."""
    return value * (codec.tick / joined.tick) + (codec.origin - joined.origin) / joined.tick
