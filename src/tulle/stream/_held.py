"""The records that a stream holds back, and why: no group, or no category, may take them yet.

They are the one place where a stream keeps records as they are; they are never released. As soon
as s records of level s or less wait for a group, they form one of their own, so fewer of them wait
than the largest level asks for (fewer people, where people have several records).

A release shows no category that fewer people hold than their level asks for. A table merges such
values; a stream cannot know who else will come, so it lets their records wait, and adds the value
to the domain once as many people hold it as the largest level among them. Where too many wait,
what is rare goes to the category "other", as in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._types import Floats
from tulle.condense._levels import able
from tulle.errors import ParameterError
from tulle.stream._batches import Sealed
from tulle.stream._groups import Scaling, StreamGroups
from tulle.table._categories import CategoryCodec
from tulle.table._codecs import Affine
from tulle.table._encoder import TableEncoder
from tulle.table.schema import Kind, Schema

MOST = 1_000  # records that wait for a category, before rare ones are merged


@dataclass(frozen=True, eq=False)
class Held:
    """A record in natural units; columns of ``unknown`` values hold the commonest ones instead."""

    row: Floats
    level: int
    number: int  # in the stream, from 0
    label: Any  # its class
    person: int  # a word for the person; the number, where each record is one
    unknown: Mapping[str, Any]  # the new category that it waits for, by column; none: for a group

    def __repr__(self) -> str:
        return "Held(hidden)"


class Growth(NamedTuple):
    """A value that is due to become part of a domain; without one, everything rare is."""

    column: str
    value: Any
    rest: bool


class _Holders(NamedTuple):
    """How many people wait for a value, and the largest level among them."""

    people: int
    level: int


class HeldBack(Sealed):
    """All records that a stream holds back, in the order of their arrival.

    ``each``: 0 where people have several records, as for an engine.
    """

    def __init__(self, records: Iterable[Held] = (), *, each: int = 1) -> None:
        self.records = list(records)
        self.each = each
        self._holders: dict[Growth, _Holders] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"HeldBack({len(self)} hidden)"

    def moved(self, way: Affine, after: int = 0) -> HeldBack:
        """Return a copy in other dimensions, as of a stream that came ``after`` so many records."""
        return HeldBack(
            [
                replace(
                    held,
                    row=held.row @ way.linear + way.shift,
                    number=after + held.number,
                    person=after + held.person if self.each else held.person,
                )
                for held in self.records
            ],
            each=self.each,
        )

    def remove(self, gone: Iterable[Held]) -> None:
        left = {id(held) for held in gone}
        self.records = [held for held in self.records if id(held) not in left]

    # -- who waits for a group ---------------------------------------------------------------------

    def for_group(self) -> list[Held]:
        return [held for held in self.records if not held.unknown]

    def of(self, label: Any) -> list[Held]:
        return [held for held in self.records if not held.unknown and held.label == label]

    def least_need(self, label: Any) -> int | None:
        """Return the size a group needs before it can take the least demanding waiting record."""
        least = min((held.level for held in self.of(label)), default=None)
        return None if least is None else least - self.each

    def pop_for(self, label: Any, members: int) -> Held | None:
        """Remove and return the first arrival that a group of this size may take."""
        for held in self.of(label):
            if held.level - self.each <= members:
                self.remove([held])
                return held
        return None

    def due_group(self, label: Any) -> list[Held]:
        """Return the smallest set that is a valid group by itself, if any."""
        people: set[int] = set()
        waiting = self.of(label)
        for held in sorted(waiting, key=lambda held: held.level):
            people.add(held.person)
            if len(people) >= held.level:
                return [other for other in waiting if other.level <= held.level]
        return []

    # -- who waits for a category ------------------------------------------------------------------

    def for_category(self) -> list[Held]:
        return [held for held in self.records if held.unknown]

    def add_unknown(self, held: Held, encoder: TableEncoder) -> Growth | None:
        """Let a record wait for its categories; return how a domain may grow now."""
        self.records.append(held)
        self._count([held], encoder)
        for column, value in held.unknown.items():
            growth = _growth(encoder, column, value)
            if self._enough(growth):
                return growth
        return self._overflow(encoder) if len(self) >= MOST else None

    def due(self, encoder: TableEncoder) -> Growth | None:
        """Return how a domain may grow, whoever came last."""
        self._holders = {}
        self._count(self.for_category(), encoder)
        return next((growth for growth in self._holders if self._enough(growth)), None)

    def grow(self, encoder: TableEncoder, growth: Growth) -> tuple[TableEncoder, Affine]:
        """Add a value to a domain, and give it to those who wait for it."""
        codec = _code(encoder, growth.column)
        holders = [held for held in self.records if growth.column in held.unknown]
        if not growth.rest:
            holders = [held for held in holders if held.unknown[growth.column] == growth.value]
            codec, way = codec.grown(growth.value, len(holders), encoder.max_width)
        elif codec.rest is not None:
            way = Affine(np.eye(codec.width), np.zeros(codec.width))
        else:
            together = able(np.array([held.level for held in holders]))
            holders = [held for held, kept in zip(holders, together) if kept]
            codec, way = codec.with_rest(len(holders), encoder.max_width)
        wider, whole = encoder.grown(growth.column, codec, way)
        numbers = {held.number for held in holders}
        self.records = self.moved(whole).records
        self._know(wider, growth.column, numbers)
        self.due(wider)  # counts them
        return wider, whole

    def recognise(self, encoder: TableEncoder) -> None:
        """Give their values to those whose categories are known by now."""
        for name, codec in encoder.codecs.items():
            if isinstance(codec, CategoryCodec):
                known = set(codec.domain.to_list())
                held = {h.number for h in self.records if h.unknown.get(name) in known}
                self._know(encoder, name, held)

    def _enough(self, growth: Growth) -> bool:
        people, level = self._holders[growth]
        return people >= level

    def _count(self, records: Iterable[Held], encoder: TableEncoder) -> None:
        for held in records:
            for column, value in held.unknown.items():
                growth = _growth(encoder, column, value)
                people, level = self._holders.get(growth, _Holders(0, 0))
                self._holders[growth] = _Holders(people + 1, max(level, held.level))

    def _overflow(self, encoder: TableEncoder) -> Growth | None:
        """Return the column of most waiting records, if these are enough for one category."""
        waiting = self.for_category()
        if len(waiting) < MOST:
            return None
        levels: dict[str, list[int]] = {}
        for held in waiting:
            for column in held.unknown:
                levels.setdefault(column, []).append(held.level)
        for column in sorted(levels, key=lambda name: len(levels[name]), reverse=True):
            enough = able(np.array(levels[column])).any()
            if enough or _code(encoder, column).rest is not None:
                return Growth(column, None, rest=True)
        return None

    def _know(self, encoder: TableEncoder, column: str, numbers: set[int]) -> None:
        codec, place = encoder.codecs[column], encoder.slices_[column]
        for at, held in enumerate(self.records):
            if held.number not in numbers or column not in held.unknown:
                continue
            row = held.row.copy()
            value = pl.Series(column, [held.unknown[column]]).cast(_code(encoder, column).dtype)
            codec.encode(value, row[None, place])
            unknown = {name: v for name, v in held.unknown.items() if name != column}
            self.records[at] = replace(held, row=row, unknown=unknown)


def with_growing_domains(schema: Schema, *, people: bool) -> Schema:
    """Settle what happens to new categories where nobody has said it.

    Where people have several records each (``people``) new categories are refused: the records that
    wait for one are counted, not the people behind them.
    """
    for column in schema:
        if people and (column.categories or column.on_new in ("wait", "other")):
            raise ParameterError(
                f"column '{column.name}': new categories cannot wait in a stream that counts "
                "people: drop 'categories' and 'on_new', or the role person",
                parameter="columns",
            )
        if column.kind is Kind.CATEGORY and not column.on_new and not people:
            on_new = "reject" if column.categories else "wait"
            schema = schema.with_column(replace(column, on_new=on_new))
    return schema


def hide_few(
    frame: pl.DataFrame, encoder: TableEncoder, shown: Sequence[StreamGroups], units: Scaling
) -> pl.DataFrame:
    """Replace categories that came late where too few of those who hold them are shown yet."""
    for codec in encoder.codecs.values():
        if not isinstance(codec, CategoryCodec) or not codec.late:
            continue
        start = encoder.slices_[codec.name].start
        few = [
            place
            for place in codec.late
            if place < codec.top and _is_few(shown, start + place, units)
        ]
        if few:
            values = codec.domain.gather(few)
            instead = 0 if codec.rest is None or codec.rest in few else codec.rest
            other = None if instead < 0 else codec.domain[instead]
            series = frame[codec.name]
            known = pl.Series([other], dtype=series.dtype)
            shownas = series.zip_with(
                ~series.is_in(values.cast(series.dtype).implode()).fill_null(False), known
            )
            frame = frame.with_columns(shownas.alias(codec.name))
    return frame


def _is_few(shown: Sequence[StreamGroups], place: int, units: Scaling) -> bool:
    people, level = 0.0, 0
    for groups in shown:
        view = groups.view()
        shares = view.means[:, place] * units.scales[place] + units.location[place]
        holding = shares * view.counts > 1e-6
        people += float((shares * view.counts)[holding].sum())
        level = max(level, int(view.levels[holding].max(initial=0)))
    return people < level - 1e-6


def _code(encoder: TableEncoder, column: str) -> CategoryCodec:
    codec = encoder.codecs[column]
    assert isinstance(codec, CategoryCodec)
    return codec


def _growth(encoder: TableEncoder, column: str, value: Any) -> Growth:
    """Return what a new value waits for: to be a category, or part of the category "other"."""
    rest = _code(encoder, column).on_new == "other"
    return Growth(column, None if rest else value, rest)
