"""A way of making releases, judged on several of them: everybody is a member and a stranger."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle._attacks.linkage import BEYOND_CHANCE
from tulle._attacks.result import AttackResult, Tries, error_by_people, pooled
from tulle._report.verdict import grade
from tulle.auditing._database import compared_rows
from tulle.auditing._splits import attack_file, attack_splits, audit_of_splits, bounds
from tulle.auditing._tables import align_made
from tulle.table.schema import Column, Kind, Role
from tulle.table.split import rotated

COLUMNS = [Column(name, Kind.DECIMAL) for name in "xyz"]


def people(count: int = 150, seed: int = 0) -> pl.DataFrame:
    return pl.DataFrame(np.random.default_rng(seed).normal(size=(count, 3)), schema=list("xyz"))


def leaky(part: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Release every record, moved by next to nothing."""
    noise = np.random.default_rng(seed).normal(0, 1e-3, part.shape)
    return pl.DataFrame(part.to_numpy() + noise, schema=part.columns)


def strangers(part: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Release other people instead."""
    return people(part.height, seed + 1000)


def found_in(make, count: int = 3, table: pl.DataFrame | None = None) -> dict[str, AttackResult]:
    rng = np.random.default_rng(0)
    table = people() if table is None else table
    splits = attack_splits(table, COLUMNS, make, rng, count, most=1000)
    assert splits.releases == count
    return {result.name: result for result in splits.attacks}


@pytest.mark.slow
def test_a_way_that_leaks_is_seen_and_one_that_does_not_is_not_blamed() -> None:
    leaks, others = found_in(leaky), found_in(strangers)
    assert grade("linkage", leaks["linkage"].to_dict(), 5) == "grave"
    assert grade("inference:x", leaks["inference:x"].to_dict(), 5) == "grave"
    assert {grade(name, one.to_dict(), len(others)) for name, one in others.items()} <= {
        "",
        "undecided",
    }


def test_everybody_is_tried_inside_and_outside_and_counted_once() -> None:
    """Three releases of 100 of 150 people: 300 attempts inside and 150 outside, on 150 people."""
    inference = found_in(strangers)["inference:x"]
    assert (inference.attempts, inference.control_attempts, inference.independent) == (
        300,
        150,
        150,
    )
    assert "Tried in 3 releases" in inference.story


def test_the_makers_table_has_no_column_of_ours_and_the_same_people_stay_together() -> None:
    seen: list[pl.DataFrame] = []

    def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
        seen.append(part)
        return strangers(part.select("x", "y", "z"), seed)

    table = people().with_columns(who=pl.Series(np.arange(150) // 3))
    columns = [*COLUMNS, Column("who", Kind.INTEGER, Role.PERSON)]
    attack_splits(table, columns, make, np.random.default_rng(0), 3, most=1000)
    assert [part.columns for part in seen] == [table.columns] * 3
    for part in seen:
        assert part.group_by("who").len()["len"].to_list() == [3] * (part.height // 3)
    assert sum(part.height for part in seen) == 2 * table.height
    attack_splits(people(), COLUMNS, make, np.random.default_rng(0), 1, most=1000)
    assert seen[-1].columns == ["x", "y", "z"]


def test_of_very_many_people_a_sample_is_split() -> None:
    sizes: list[int] = []

    def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
        sizes.append(part.height)
        return strangers(part, seed)

    attack_splits(people(600), COLUMNS, make, np.random.default_rng(0), 1, most=90)
    assert sizes == [60]


def test_small_tables_need_more_releases_than_large_ones(every_split: None) -> None:
    sizes = (400, 2_000, 10_000, 50_000)
    counts = [bounds(n, choosing=False, quick=False)[0] for n in sizes]
    assert counts == [9, 6, 3, 1]
    assert [bounds(n, choosing=True, quick=False)[0] for n in sizes] == [3, 3, 1, 1]
    assert [bounds(n, choosing=False, quick=True)[0] for n in sizes] == [3, 3, 3, 1]


@pytest.mark.slow
def test_the_file_is_looked_through_for_copies_and_own_numbers() -> None:
    """Releases of parts are of other people here; the file is the table itself."""
    table = people()
    rng = np.random.default_rng(0)
    splits = attack_splits(table, COLUMNS, strangers, rng, 3, most=1000)
    copy, fair = (align_made(table, one, None, COLUMNS) for one in (table, people(150, 7)))
    found = {result.name: result for result in attack_file(copy, splits, rng)}
    assert set(found) == {"exact_copies:the file itself", "exact_values:the file itself"}
    assert found["exact_copies:the file itself"].rate == 1
    assert attack_file(fair, splits, rng) == []
    levels = [
        audit_of_splits(tables, splits, 0, quick=True, k=5, title="").verdict["privacy"]["level"]
        for tables in (copy, fair)
    ]
    assert levels[0] == "bad"
    assert levels[1] in ("good", "undecided")


def test_a_dense_table_holds_everybody_by_chance() -> None:
    """Three answers to three questions: 27 records, of which every release has all."""
    rng = np.random.default_rng(1)
    table, other = (pl.DataFrame(rng.choice(list("abc"), (150, 3)), list("xyz")) for _ in "12")
    columns = [Column(name, Kind.CATEGORY) for name in "xyz"]
    splits = attack_splits(table, columns, lambda *_: other, rng, 1, most=1000)
    assert attack_file(align_made(table, other, None, columns), splits, rng) == []


def test_an_attack_on_a_single_person_does_not_leave_everybody_undecided() -> None:
    """One person has a number of their own here: that is too few to judge by."""
    rng = np.random.default_rng(1)
    table = pl.DataFrame(rng.integers(0, 3, (150, 3)) * 1000, schema=list("xyz"))
    table[7, "x"] = 555
    columns = [Column(name, Kind.INTEGER) for name in "xyz"]
    splits = attack_splits(table, columns, lambda part, _: part.sample(part.height, seed=1,
                           with_replacement=True).with_columns(x=0), rng, 3, most=1000)  # fmt: skip
    assert "exact_values" not in {result.name for result in splits.attacks}


def test_undecided_names_a_step_that_this_table_can_take() -> None:
    """More people than there are, or a share kept apart, would be of no help."""
    table = people(60)
    splits = attack_splits(table, COLUMNS, strangers, np.random.default_rng(3), 1, most=1000)
    tables = align_made(table, people(60, 9), None, COLUMNS)
    found = audit_of_splits(tables, splits, 0, quick=True, k=5, title="Few")
    judged = found.verdict["privacy"]
    assert judged["level"] == "undecided"
    assert "holdout" not in judged["next"]
    assert "keep about" not in judged["next"]
    assert "1 release" in judged["next"]
    many = found.extended(people=10_000, more_splits=9).verdict["privacy"]
    assert "without --quick: 9 releases are judged then, in place of 1" in many["next"]


def test_parts_are_equal_and_each_person_is_kept_out_once() -> None:
    table = people(100).with_columns(c=pl.Series(["a"] * 90 + ["b"] * 10))
    rng = np.random.default_rng(0)
    rows = rotated(table, 3, person=None, target="c", rng=rng)
    assert sorted(np.concatenate([one.control for one in rows]).tolist()) == list(range(100))
    assert [len(one.control) for one in rows] == [34, 33, 33]
    rare = [int((table["c"][one.control] == "b").sum()) for one in rows]
    assert sorted(rare) == [3, 3, 4]


def test_the_error_of_people_is_that_of_a_bootstrap_by_people(rng: np.random.Generator) -> None:
    """The slow oracle: people drawn with replacement, each with all their attempts."""
    count = 120
    easy = rng.random(count)
    inside = np.repeat(np.arange(count), 4)
    outside = np.repeat(np.arange(count), 2)
    mine = Tries(inside, rng.random(len(inside)) < easy[inside])
    theirs = Tries(outside, rng.random(len(outside)) < easy[outside])
    right = mine.right.reshape(count, 4).sum(axis=1), theirs.right.reshape(count, 2).sum(axis=1)
    drawn = rng.integers(count, size=(4000, count))
    excess = right[0][drawn].mean(axis=1) / 4 - right[1][drawn].mean(axis=1) / 2
    assert error_by_people(mine, theirs) == pytest.approx(excess.std(), rel=0.06)


def test_attempts_on_one_person_do_not_make_an_interval_narrow(rng: np.random.Generator) -> None:
    """Twenty people who are tried twenty times each are twenty people."""
    held = rng.random(20) < 0.5
    inside = Tries(np.repeat(np.arange(20), 20), np.repeat(held, 20))
    outside = Tries(np.repeat(np.arange(20, 40), 20), np.repeat(rng.random(20) < 0.5, 20))
    honest = error_by_people(inside, outside)
    assert honest > 0.1 > 2 * np.sqrt(0.5 / 400)


def test_nothing_found_is_not_certainty() -> None:
    never = Tries(np.arange(50), np.zeros(50, dtype=bool))
    assert 0.01 < error_by_people(never, never) < 0.05


def test_results_are_pooled() -> None:
    def result(right: int, strange: int, **details: float) -> AttackResult:
        return AttackResult("copies", 10, right, 1, strange, 5, details=details)

    one = result(5, 1, area=0.5)
    assert pooled([one]) is one
    both = pooled([result(4, 1, area=0.4), result(6, 1, area=0.6)])
    # nobody says whom it was tried on: no more attempts than in one release
    assert (both.attempts, both.rate, both.control) == (10, 0.5, 0.2)
    assert both.details == {"area": 0.5}


def test_what_chance_shows_in_one_release_of_several_is_dropped() -> None:
    alarmed = AttackResult("exact_copies", 10, 1, 0, 0, 5, details={BEYOND_CHANCE: 0.2})
    calm = AttackResult("exact_copies", 10, 1, 0, 0, 5)
    assert BEYOND_CHANCE not in pooled([alarmed, calm, calm]).details
    assert pooled([alarmed, alarmed, calm]).details[BEYOND_CHANCE] == pytest.approx(0.2)


def test_splits_go_on_while_that_may_decide() -> None:
    """Of 30 people coins are guessed in too few attempts; a leak needs no second look."""

    def coins(part: pl.DataFrame, seed: int) -> pl.DataFrame:
        return strangers(part, seed).with_columns(pl.col("x", "y").sign())

    def releases(table: pl.DataFrame, make) -> int:
        rng = np.random.default_rng(0)
        return attack_splits(table, COLUMNS, make, rng, 3, most=1000, patient=True).releases

    assert releases(people(30).with_columns(pl.col("x", "y").sign()), coins) > 3
    assert releases(people(30), leaky) == 3


@pytest.mark.slow
def test_people_with_several_rows_are_pooled_by_person() -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"who": np.repeat(np.arange(90), 3), "x": rng.normal(size=270).round(2)})
    table = table.with_columns(y=pl.Series(rng.integers(0, 9, 270)))
    columns = [
        Column("who", Kind.INTEGER, Role.PERSON),
        Column("x", Kind.DECIMAL),
        Column("y", Kind.INTEGER),
    ]

    def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
        own = np.random.default_rng(seed)
        drawn = part.with_columns(x=pl.Series(own.normal(size=part.height)))
        return drawn.with_columns(pl.col("who").rank("dense").cast(pl.Int64))

    splits = attack_splits(table, columns, make, np.random.default_rng(0), 6, most=1000)
    found = {one.name: one for one in splits.attacks}
    for name in ("linkage", "inference:rows", "linkage:rows"):
        assert (found[name].attempts, found[name].independent) == (6 * 60, 90)
        assert found[name].error is not None


def test_people_with_equal_records_count_once() -> None:
    pairs = pl.concat([people(60), people(60)])
    found = found_in(strangers, table=pairs)
    assert found["inference:x"].independent == 60
    assert found["inference:x"].attempts == 3 * 80


def test_of_people_with_several_rows_the_file_is_looked_through_as_the_parts_are() -> None:
    """Single rows of theirs may hold their numbers by chance; means of them hardly ever do."""
    rng = np.random.default_rng(0)

    def visits(seed: int, n: int = 90) -> pl.DataFrame:
        own, who = np.random.default_rng(seed), np.repeat(np.arange(n), 4)
        days = own.integers(0, 400, (2, len(who)))
        return pl.DataFrame({"who": who, "days": days[0], "cost": days[1]})

    columns = [Column("who", Kind.INTEGER, Role.PERSON)]
    columns += [Column(name, Kind.INTEGER) for name in ("days", "cost")]
    table, release = visits(0), visits(1)
    splits = attack_splits(table, columns, lambda part, seed: visits(seed), rng, 3, most=1000)
    tables = align_made(table, release, None, columns)
    compared = compared_rows((table, release, None), columns)
    found = audit_of_splits(tables, splits, 0, compared, quick=True, k=5, title="")
    assert not [name for name in found.result["attacks"] if "the file itself" in name]
    assert splits.released == 90
