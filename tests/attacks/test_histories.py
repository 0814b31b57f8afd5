"""Attacks on histories: calibrated on copies of people, and on other people."""

from __future__ import annotations

import numpy as np
import pytest

from tulle._attacks.histories import HistoryRows, alone_joined, linkage_of_rows, walked
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult


def people(rng: np.random.Generator, count: int = 300) -> tuple[HistoryRows, Records]:
    """Return rows of people with habits, some of whom have none, and what is known of each."""
    counts = rng.integers(0, 9, count)
    who = np.repeat(np.arange(count), counts)
    habit = rng.normal(size=(count, 2))
    numbers = habit[who] + 0.3 * rng.normal(size=(len(who), 2))
    codes = np.column_stack([rng.integers(0, 4, len(who)), numbers[:, 0] > 0])
    rows = HistoryRows(Records(numbers, codes, ("when", "cost"), ("ward", "ill")), who, count)
    sums = np.column_stack([np.bincount(who, part, count) for part in numbers.T])
    known = np.column_stack([habit, sums])
    names = ("x", "y", "sum of when", "sum of cost")
    return rows, Records(known, np.column_stack([counts]), names, ("rows",))


def shuffled(rows: HistoryRows, known: Records, rng: np.random.Generator
             ) -> tuple[HistoryRows, Records]:  # fmt: skip
    """Return the same people under other numbers."""
    order = rng.permutation(rows.n_people)
    place = np.argsort(order)[rows.people]
    by = np.argsort(place, kind="stable")
    return HistoryRows(rows.records.take(by), place[by], rows.n_people), known.take(order)


def attack(name: str, original, release, control, rng) -> AttackResult:  # type: ignore[no-untyped-def]
    if name == "walked":
        found = walked(original[0], release[0], rng, control=control[0])
    elif name == "alone_joined":
        tables = [("x", "y"), ("sum of when", "rows")]
        found = alone_joined(original[1], release[1], tables, rng, control=control[1])
    else:
        found = linkage_of_rows(
            original[0], release[0], original[1], release[1], rng, control=control, attempts=150
        )
    assert found is not None
    return found


NAMES = ["walked", "alone_joined", "linkage_of_rows"]


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_broken(name: str) -> None:
    rng = np.random.default_rng(1)
    original, control = people(rng), people(rng)
    found = attack(name, original, shuffled(*original, rng), control, rng)
    assert found.rate > 0.9
    assert found.risk > 0.4
    assert found.baseline < 0.5


@pytest.mark.parametrize("name", NAMES)
def test_strangers_tell_nothing(name: str) -> None:
    excess = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        original, control, others = people(rng), people(rng), people(rng)
        found = attack(name, original, others, control, rng)
        assert found.control is not None
        excess.append(found.rate - found.control)
    assert abs(np.mean(excess)) < 0.06


def test_nothing_is_tried_where_there_is_nothing_to_try() -> None:
    rng = np.random.default_rng(0)
    rows, known = people(rng)
    none = HistoryRows(rows.records.take(np.arange(0)), rows.people[:0], rows.n_people)
    assert walked(none, rows, rng) is None
    assert linkage_of_rows(none, rows, known, known, rng) is None
    assert linkage_of_rows(rows, none, known, known, rng) is None
    assert alone_joined(known, known, [("x", "y")], rng) is None


def test_without_a_control_there_is_still_a_rate() -> None:
    rng = np.random.default_rng(0)
    rows, known = people(rng)
    found = walked(rows, rows, rng, name="visits")
    assert found is not None
    assert (found.name, found.rate, found.control) == ("walked:visits", 1.0, None)
    linked = linkage_of_rows(rows, rows, known, known, rng, attempts=50, name="visits")
    assert linked is not None
    assert linked.name == "linkage:rows of visits"
    assert linked.control is None
