"""Records with a category that comes up after the start: they wait until enough people hold it.

A release shows no value that fewer people hold than their level asks for. A table merges such
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

from tulle._types import Flags, Floats
from tulle.errors import ParameterError
from tulle.stream._batches import Sealed
from tulle.stream._groups import StreamGroups
from tulle.table._categories import CategoryCodec
from tulle.table._codecs import Affine
from tulle.table._encoder import TableEncoder
from tulle.table.schema import Kind, Schema

MOST = 1_000  # records that wait for a category, before rare ones are merged


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


@dataclass(frozen=True)
class Newcomer:
    """A record in natural units; columns of ``unknown`` values hold the commonest ones instead."""

    record: Floats
    level: int
    number: int
    label: Any
    unknown: Mapping[str, Any]  # by column

    def __repr__(self) -> str:
        return "Newcomer(hidden)"


class Growth(NamedTuple):
    """A value that is due to become part of a domain; without one, everything rare is."""

    column: str
    value: Any
    rest: bool


class _Held(NamedTuple):
    """How many people wait for a value, and the largest level among them."""

    people: int
    level: int

    @property
    def enough(self) -> bool:
        return self.people >= self.level


class Newcomers(Sealed):
    """The records that wait for a category, in the order of their arrival."""

    def __init__(self, people: Iterable[Newcomer] = ()) -> None:
        self.people = list(people)
        self._held: dict[Growth, _Held] = {}

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        return f"Newcomers({len(self)} hidden)"

    @property
    def numbers(self) -> list[int]:
        """Return their numbers in the stream."""
        return [person.number for person in self.people]

    def add(self, person: Newcomer, encoder: TableEncoder) -> Growth | None:
        """Let a record wait; return how a domain may grow now that it is there."""
        self.people.append(person)
        self._count([person], encoder)
        for column, value in person.unknown.items():
            growth = _growth(encoder, column, value)
            if self._held[growth].enough:
                return growth
        return self._overflow(encoder) if len(self) >= MOST else None

    def due(self, encoder: TableEncoder) -> Growth | None:
        """Return how a domain may grow, whoever came last."""
        self._held = {}
        self._count(self.people, encoder)
        return next((growth for growth, held in self._held.items() if held.enough), None)

    def _count(self, people: Iterable[Newcomer], encoder: TableEncoder) -> None:
        for person in people:
            for column, value in person.unknown.items():
                growth = _growth(encoder, column, value)
                known = self._held.get(growth, _Held(0, 0))
                self._held[growth] = _Held(known.people + 1, max(known.level, person.level))

    def _overflow(self, encoder: TableEncoder) -> Growth | None:
        """Return the column of most waiting records, if these are enough for one category."""
        columns = [column for person in self.people for column in person.unknown]
        for column in sorted(set(columns), key=columns.count, reverse=True):
            if self._together(column).any() or _code(encoder, column).rest is not None:
                return Growth(column, None, rest=True)
        return None

    def grow(self, encoder: TableEncoder, growth: Growth) -> tuple[TableEncoder, Affine]:
        """Add a value to a domain, and give it to those who wait for it."""
        codec = _code(encoder, growth.column)
        holders = [person for person in self.people if growth.column in person.unknown]
        if not growth.rest:
            holders = [p for p in holders if p.unknown[growth.column] == growth.value]
            codec, way = codec.grown(growth.value, len(holders), encoder.max_width)
        elif codec.rest is not None:
            way = Affine(np.eye(codec.width), np.zeros(codec.width))
        else:
            together = set(np.flatnonzero(self._together(growth.column)).tolist())
            holders = [person for place, person in enumerate(holders) if place in together]
            codec, way = codec.with_rest(len(holders), encoder.max_width)
        wider, whole = encoder.grown(growth.column, codec, way)
        self.move(whole)
        self._know(wider, growth.column, {person.number for person in holders})
        self._held = {}
        self._count(self.people, wider)
        return wider, whole

    def move(self, way: Affine, after: int = 0) -> None:
        """Change to other dimensions, as of a stream that came ``after`` so many records."""
        self.people = [
            replace(p, record=p.record @ way.linear + way.shift, number=after + p.number)
            for p in self.people
        ]

    def recognise(self, encoder: TableEncoder) -> None:
        """Give their values to those whose categories are known by now."""
        for codec in encoder.codecs.values():
            if isinstance(codec, CategoryCodec):
                known = set(codec.domain.to_list())
                name = codec.name
                numbers = {p.number for p in self.people if p.unknown.get(name) in known}
                self._know(encoder, name, numbers)

    def pop_known(self) -> list[Newcomer]:
        """Remove and return the records that wait for nothing any more."""
        ready = [person for person in self.people if not person.unknown]
        self.people = [person for person in self.people if person.unknown]
        return ready

    def _together(self, column: str) -> Flags:
        """Return which holders of new values are enough for one category; demanding ones wait."""
        levels = np.array([p.level for p in self.people if column in p.unknown], dtype=np.int64)
        order = np.argsort(-levels, kind="stable")
        enough = levels[order] <= len(levels) - np.arange(len(levels))
        kept = np.zeros(len(levels), dtype=bool)
        if enough.any():
            kept[order[np.argmax(enough) :]] = True
        return kept

    def _know(self, encoder: TableEncoder, column: str, numbers: set[int]) -> None:
        codec, place = encoder.codecs[column], encoder.slices_[column]
        for at, person in enumerate(self.people):
            if person.number not in numbers or column not in person.unknown:
                continue
            record = person.record.copy()
            value = pl.Series(column, [person.unknown[column]]).cast(_code(encoder, column).dtype)
            codec.encode(value, record[None, place])
            unknown = {name: v for name, v in person.unknown.items() if name != column}
            self.people[at] = replace(person, record=record, unknown=unknown)


def hide_few(
    frame: pl.DataFrame, encoder: TableEncoder, shown: Sequence[StreamGroups], location: Floats
) -> pl.DataFrame:
    """Replace categories that came late where too few of those who hold them are shown yet."""
    for codec in encoder.codecs.values():
        if not isinstance(codec, CategoryCodec) or not codec.late:
            continue
        start = encoder.slices_[codec.name].start
        few = [
            place
            for place in codec.late
            if place < codec.top and _is_few(shown, start + place, encoder, location)
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


def _is_few(
    shown: Sequence[StreamGroups], place: int, encoder: TableEncoder, location: Floats
) -> bool:
    people, level = 0.0, 0
    for groups in shown:
        view = groups.view()
        shares = view.means[:, place] * encoder.scales_[place] + location[place]
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
