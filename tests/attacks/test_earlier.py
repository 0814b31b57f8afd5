"""Two releases: exact totals give newcomers away, random ones do not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from benchmarks.broken_releases import of_one_secret, survey, with_exact_totals
from tulle import Condenser, audit
from tulle._attacks.earlier import earlier_membership, earlier_totals
from tulle._attacks.inference import homogeneity
from tulle._attacks.result import Scene
from tulle.auditing._tables import align
from tulle.errors import DataError


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_exact_totals_give_those_away_who_came(gone: int) -> None:
    rng = np.random.default_rng(1)
    people = survey(rng, 400)
    now, before = (with_exact_totals(part, rng) for part in (people, people[gone:]))
    tables = align(people, now, None, None, before)
    result = earlier_totals(Scene(tables.original, tables.release), tables.earlier, rng)
    assert result is not None
    assert (result.attempts, result.rate) == (8, 1)
    assert result.baseline < 0.02


def test_totals_drawn_at_random_do_not() -> None:
    rng = np.random.default_rng(2)
    people = survey(rng, 400)
    now, before = (
        part.sample(part.height, with_replacement=True, seed=s)
        for s, part in enumerate((people, people[1:]))
    )
    tables = align(people, now, None, None, before)
    result = earlier_totals(Scene(tables.original, tables.release), tables.earlier, rng)
    assert result is not None
    assert result.rate == 0
    assert result.failed


def test_both_releases_leave_one_answer() -> None:
    rng = np.random.default_rng(8)
    original, release, strangers = of_one_secret(rng, 40, 10)
    half = rng.random(release.height) < 0.5  # each release alone mixes in other answers
    noisy = [
        release.with_columns(
            secret=pl.Series(
                [
                    f"other{turn}" if h == turn else s
                    for h, s in zip(half.tolist(), release["secret"])
                ]
            )
        )
        for turn in (0, 1)
    ]
    tables = align(original, noisy[0], strangers, None, noisy[1])
    result = homogeneity(
        Scene(tables.original, tables.release, tables.control),
        "secret",
        rng,
        earlier=tables.earlier,
    )
    assert result.name == "earlier_intersection:secret"
    assert result.rate > 0.8
    assert result.control is not None
    assert result.control < 0.65


@pytest.mark.slow
def test_what_each_of_several_releases_tells_adds_up() -> None:
    rng = np.random.default_rng(3)
    tables = [pl.DataFrame(rng.normal(size=(150, 3)), schema=["x", "y", "z"]) for _ in range(3)]
    people, strangers, fresh = tables
    halves = people[:75], people[75:]
    rates = []
    for earlier in (halves[:1], halves):
        found = align(people, fresh, strangers, None, earlier)
        assert len(found.earlier) == len(earlier)
        told = earlier_membership(
            Scene(found.original, found.release, found.control),
            found.earlier,
            np.random.default_rng(1),
        )
        rates.append(told.rate)
    assert rates[1] > 0.95 > 0.85 > rates[0]
    totals = earlier_totals(Scene(found.original, found.release), found.earlier, rng)
    assert totals is None  # no column is counted by value


@pytest.mark.slow
def test_the_audit_says_what_two_releases_tell() -> None:
    rng = np.random.default_rng(1)
    people = survey(rng, 400)
    broken = [with_exact_totals(part, rng) for part in (people, people[1:])]
    found = audit(people, broken[0], earlier=broken[1], random_state=1)
    assert found.verdict["privacy"]["level"] == "bad"
    assert any(
        "Several releases, totals" in reason for reason in found.verdict["privacy"]["details"]
    )
    drawn = [
        Condenser(k=10, random_state=s).fit_resample(p) for s, p in enumerate((people, people[1:]))
    ]
    sound = audit(people, drawn[0], earlier=drawn[1], random_state=1).to_dict()
    assert sound["attacks"]["earlier_totals"]["rate"] == 0
    assert sound["verdict"]["privacy"]["level"] != "bad"


def test_an_earlier_release_has_the_columns_of_the_release() -> None:
    people = survey(np.random.default_rng(1), 50)
    with pytest.raises(DataError, match="earlier release"):
        audit(people, people, earlier=people.drop("q0"))
    with pytest.raises(DataError, match="earlier release 2"):
        audit(people, people, earlier=(people, people.drop("q0")))
