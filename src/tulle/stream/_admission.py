"""The way of records into the groups of a stream.

Everything that can refuse a record happens in :func:`checked`, before a group changes. Numbers are
released within the range of the records that are in groups: those who wait do not show in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tulle._types import Flags, Floats, Ints
from tulle.stream._batches import Batch
from tulle.stream._fitted import Fitted
from tulle.stream._newcomers import Growth, Newcomer
from tulle.stream._state import check_reach

_PART = 10_000  # records looked at together where some of them have a new category


class Checked(NamedTuple):
    """Records that the groups will take."""

    batch: Batch
    matrix: Floats  # encoded, in natural units
    fresh: Mapping[str, Flags]  # by column: which of them have a new category
    people: Ints | None  # a word for each one's person, where people have several records


def checked(fitted: Fitted, batch: Batch) -> Checked:
    """Encode records, or refuse them."""
    matrix, fresh = fitted.encoder.encode_arriving(batch.frame)
    check_reach(fitted.standardised(matrix))
    return Checked(batch, matrix, fresh, fitted.words(batch))


def admit(fitted: Fitted, records: Checked) -> None:
    """Let records join the groups; those with a new category wait for others.

    Where people have several records, new categories are refused, and nobody waits so.
    """
    batch = records.batch
    numbers = fitted.seen + np.arange(len(batch))
    if not records.fresh:
        _insert(fitted, batch, records.matrix, numbers, records.people)
    else:
        for start in range(0, len(batch), _PART):
            stop = min(len(batch), start + _PART)
            _take_part(fitted, batch.part(start, stop), numbers[start:stop])
    fitted.seen += len(batch)


def admit_known(fitted: Fitted) -> None:
    """Let those who waited for a category join that the domains have by now, or may have."""
    fitted.newcomers.recognise(fitted.encoder)
    _join(fitted, fitted.newcomers.pop_known())
    while growth := fitted.newcomers.due(fitted.encoder):
        _grow(fitted, growth)


def _take_part(fitted: Fitted, batch: Batch, numbers: Ints) -> None:
    """Take records in their order: a domain grows with the record that makes it due."""
    while len(batch):
        matrix, fresh = fitted.encoder.encode_arriving(batch.frame)
        waits = np.any([*fresh.values(), np.zeros(len(batch), dtype=bool)], axis=0)
        stop, growth = len(batch), None
        for row in np.flatnonzero(waits).tolist():
            newcomer = Newcomer(
                matrix[row].copy(),
                int(batch.levels[row]),
                int(numbers[row]),
                fitted.by_class(batch.part(row, row + 1))[0][0],
                {name: batch.frame[name][row] for name, rows in fresh.items() if rows[row]},
            )
            growth = fitted.newcomers.add(newcomer, fitted.encoder)
            if growth is not None:
                stop = row + 1
                break
        known = np.flatnonzero(~waits[:stop])
        _insert(fitted, batch.only(known), matrix[known], numbers[known], None)
        batch, numbers = batch.part(stop, len(batch)), numbers[stop:]
        if growth is not None:
            _grow(fitted, growth)


def _grow(fitted: Fitted, growth: Growth) -> None:
    """Add a category to a domain; who waited for it alone joins the groups."""
    for waiting in fitted.newcomers.people:
        fitted.state_of(waiting.label)
    fitted.grow(growth)
    _join(fitted, fitted.newcomers.pop_known())


def _join(fitted: Fitted, people: Sequence[Newcomer]) -> None:
    """Let records that waited for a category join the groups."""
    for person in people:
        matrix, number = person.record[None, :], np.array([person.number])
        level = np.array([person.level])
        fitted.state_of(person.label).absorb(fitted.standardised(matrix), level, number)
        _note_joined(fitted, matrix, number, None)


def _insert(
    fitted: Fitted, batch: Batch, matrix: Floats, numbers: Ints, people: Ints | None
) -> None:
    """Let records join the groups of their classes."""
    standard = fitted.standardised(matrix)
    for label, rows in fitted.by_class(batch):
        own = None if people is None else people[rows]
        fitted.state_of(label).absorb(standard[rows], batch.levels[rows], numbers[rows], own)
    _note_joined(fitted, matrix, numbers, people)


def _note_joined(fitted: Fitted, matrix: Floats, numbers: Ints, people: Ints | None) -> None:
    """Extend the ranges of numbers by the records that have joined groups."""
    waiting = fitted.waiting_numbers()
    joined = fitted.aside.exchange(waiting, matrix, numbers)
    if fitted.persons is not None and people is not None:
        # by one record of each person, and not by those that came late: nobody counts twice
        there = ~np.isin(numbers, waiting)
        joined = matrix[there][fitted.persons.first_seen(people[there])]
    fitted.encoder.widen(joined)
