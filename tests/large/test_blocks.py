"""Tables condensed in blocks: the same guarantees, and the same bytes however they are read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from datetime import time, timedelta
from threading import get_ident
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle._large import machine, plan
from tulle._large.facts import (
    Apart,
    CommonKeys,
    HashSample,
    RowSample,
    Sampled,
    TableFacts,
    mixed,
    person_keys,
    row_keys,
    sample_rows,
)
from tulle._large.machine import Budget, Machine, Spill
from tulle._large.plan import BlockPlan, Deal, PartedRelease, Units, condense_blocks
from tulle._threads import in_order
from tulle.condense._classes import labels_of
from tulle.condense._grouping import Grouper
from tulle.condense._levels import common_level
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, PrivacyError
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter_column
from tulle.table.schema import Column, Kind, Role, Schema

SEED = (11, 12, 13, 14)
COLUMNS = [
    Column("person", Kind.INTEGER, Role.PERSON),
    Column("age", Kind.INTEGER),
    Column("income", Kind.DECIMAL),
    Column("city", Kind.CATEGORY),
    Column("day", Kind.DATETIME),
    Column("smoker", Kind.BOOLEAN),
    Column("level", Kind.INTEGER, Role.LEVEL),
]


def people(n: int = 1_200, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    income = pl.Series(np.round(np.exp(rng.normal(8, 0.4, n) + age / 90), 1))
    return pl.DataFrame(
        {
            "person": rng.integers(0, n // 2, n),
            "age": age,
            "income": income.scatter(np.flatnonzero(rng.random(n) < 0.1), None),
            "city": rng.choice(["Bern", "Chur", "Genf", "Biel"], n, p=[0.6, 0.2, 0.15, 0.05]),
            "day": np.datetime64("2020-01-01") + rng.integers(0, 300, n),
            "smoker": rng.random(n) < 0.3,
            "level": rng.choice([3, 5, 8], n),
        }
    )


def run(
    frame: pl.DataFrame,
    *,
    rows: int = 200,
    threads: int = 1,
    target: str | None = None,
    block: int = 250,
    sample: int = 500,
    columns: list[Column] = COLUMNS,
    **parameters: Any,
) -> tuple[PartedRelease, pl.DataFrame, dict[int, pl.DataFrame]]:
    """Condense a frame in blocks; return what is known, the whole release and its parts."""

    def batches() -> Iterator[pl.DataFrame]:
        return iter(frame.iter_slices(rows))

    parts: dict[int, pl.DataFrame] = {}
    budget = Budget(0, threads, block=block, sample=sample)
    engine = Machine(batches, budget)
    drawn = sample_rows(engine.read, budget.sample, SEED)
    known = [column for column in columns if column.name in frame.columns]
    schema = Schema.of([c for c in known if c.name != target], drawn.rows.drop(target or []))
    # the grouping that is fastest on a few hundred records
    condenser = Condenser(columns=known, **{"grouping": "levels"} | parameters)

    def decide(units: pl.DataFrame) -> tuple[Units, Condenser]:
        if target is None:
            return Units.whole(units["rows"].sum()), condenser
        counts = units.group_by(target).agg(pl.col("rows").sum()).sort(target)
        labels = labels_of(*enter_column(counts[target])).schema
        return Units(target, labels, [[0], [1]], counts["rows"].to_numpy().astype(int)), condenser

    outcome = condense_blocks(
        engine, schema, decide, parts.__setitem__, target=target, sample=drawn, seed=SEED
    )
    return outcome, pl.concat(parts[number] for number in sorted(parts)), parts


def reader(batches: Any) -> Any:
    return Machine(batches, Budget(0, 1)).read


@pytest.mark.parametrize("left_out", ["person", "level"])
def test_the_release_is_like_the_table_and_holds_as_many_people(left_out: str) -> None:
    table = people().drop(left_out)
    outcome, release, parts = run(table, k=5)
    assert len(parts) == len(outcome.blocks) > 2
    assert dict(release.schema) == {n: table.schema[n] for n in table.columns if n != "level"}
    if "person" in table.columns:
        assert release["person"].n_unique() == table["person"].n_unique()
        assert abs(release.height - table.height) < 0.1 * table.height
    else:
        assert release.height == outcome.released == table.height
    assert set(release["city"]) <= set(table["city"])
    assert abs(release["age"].mean() - table["age"].mean()) < 3
    assert abs(release["income"].null_count() - table["income"].null_count()) < 60
    assert all(row.smallest_group >= row.level for row in outcome.groups_.level_summary)


@pytest.mark.slow
def test_blocks_release_people_with_their_rows_in_order() -> None:
    """A person keeps a level from row to row, a sex for life, and rows in the order of time."""
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 6, 600)
    who = np.repeat(np.arange(600), counts)
    place = np.arange(len(who)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = pl.DataFrame(
        {
            "who": [f"P{number}" for number in who],
            "day": np.datetime64("2020-01-01") + rng.integers(0, 300, 600)[who] + 9 * place,
            "sex": rng.choice(["f", "m"], 600)[who],
            "pay": (rng.normal(50, 9, 600)[who] + rng.normal(size=len(who))).round(1),
        }
    ).sample(fraction=1, shuffle=True, seed=1)
    columns = [
        Column("who", Kind.TEXT, Role.PERSON),
        Column("day", Kind.DATETIME),
        Column("sex", Kind.CATEGORY),
        Column("pay", Kind.DECIMAL),
    ]
    outcome, release, parts = run(table, columns=columns, k=10, block=600)
    assert len(parts) > 2
    assert (
        release["who"].n_unique() == sum(part["who"].n_unique() for part in parts.values()) == 600
    )
    assert release.select(pl.col("day").diff().over("who"))["day"].drop_nulls().min() >= timedelta()
    assert release.group_by("who").agg(pl.col("sex").n_unique())["sex"].max() == 1
    within = release.group_by("who").agg(pl.col("pay").std())["pay"].drop_nulls().mean()
    assert within < 0.5 * release["pay"].std()
    assert min(outcome.rests_on_.values()) >= 10
    assert any("in the order of 'day'" in note for note in outcome.notes_)
    assert "histor" in outcome._synthesis.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("rows, threads", [(71, 1), (1_200, 3), (333, 2)])
def test_batches_and_threads_do_not_change_a_release(rows: int, threads: int) -> None:
    table = people()
    _, wanted, _ = run(table)
    _, found, _ = run(table, rows=rows, threads=threads)
    assert found.equals(wanted)


@pytest.mark.slow
def test_a_batch_of_whole_days_is_encoded_as_the_table_in_which_some_have_a_time() -> None:
    table = people()
    rng = np.random.default_rng(3)
    minutes = np.where(rng.random(table.height) < 0.05, rng.integers(1, 1440, table.height), 0)
    table = table.with_columns(pl.col("day").cast(pl.Datetime("us")) + pl.duration(minutes=minutes))
    _, wanted, _ = run(table, rows=1_200)
    _, found, _ = run(table, rows=19, threads=2)
    assert (wanted["day"].dt.time() != time(0)).any()
    assert found.equals(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [[], ["person"], ["person", "level"]])
def test_the_order_of_rows_does_not_change_a_release(left_out: list[str]) -> None:
    table = people().drop(left_out)
    _, wanted, _ = run(table)
    _, found, _ = run(table.sample(fraction=1, shuffle=True, seed=5), rows=77)
    assert found.equals(wanted)


@pytest.mark.slow
def test_the_order_of_a_blocks_records_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted, _ = run(people())

    condense = BlockPlan.condense

    def shuffled(plan: BlockPlan, frame: pl.DataFrame, number: int) -> Any:
        return condense(plan, frame.sample(fraction=1, shuffle=True, seed=number), number)

    monkeypatch.setattr(BlockPlan, "condense", shuffled)
    _, found, _ = run(people())
    assert found.equals(wanted)


@pytest.mark.slow
@given(seed=st.integers(0, 2**16), persons=st.booleans(), levels=st.booleans())
@few(5)
def test_every_group_is_as_large_as_each_of_its_members_asks(
    seed: int, persons: bool, levels: bool
) -> None:
    left_out = [n for n, kept in (("person", persons), ("level", levels)) if not kept]
    seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    group = Grouper.__call__

    def watched(self: Grouper, points: Any, demands: Any) -> Any:
        groups = group(self, points, demands)
        people = np.arange(len(groups)) if self.people is None else self.people
        if (demands >= 5 * common_level(self.levels)).all():  # the groups that are condensed
            seen.append((groups, np.minimum(demands, len(set(people))), people))
        return groups

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grouper, "__call__", watched)
        table = people(seed=seed).drop(left_out)
        outcome, _, _ = run(table, k=6)
    whole = table["person"].n_unique() if persons else table.height
    assert sum(len(groups) for groups, _, _ in seen) == whole
    for groups, demands, person in seen:
        for one in range(groups.max() + 1):
            assert len(set(person[groups == one])) >= demands[groups == one].max()
    assert len(outcome.groups_.counts) == sum(groups.max() + 1 for groups, _, _ in seen)
    assert (outcome.groups_.people >= 5 * (3 if levels else 6)).all()


@pytest.mark.parametrize("target", [None, "smoker"])
def test_a_person_is_never_split_over_blocks(
    monkeypatch: pytest.MonkeyPatch, target: str | None
) -> None:
    held: list[Any] = []
    condense = BlockPlan.condense

    def watched(plan: BlockPlan, frame: pl.DataFrame, number: int) -> Any:
        held.extend(frame.select("person", *([target] if target else [])).unique().rows())
        return condense(plan, frame, number)

    monkeypatch.setattr(BlockPlan, "condense", watched)
    run(people(), target=target)
    assert len(held) == len(set(held))


def test_classes_are_condensed_apart_and_labelled() -> None:
    table = people().drop("person", "level")
    outcome, release, parts = run(table, target="smoker", k=5)
    assert release.schema["smoker"] == pl.Boolean
    assert all(part["smoker"].n_unique() == 1 for part in parts.values())
    assert abs(release["smoker"].sum() - table["smoker"].sum()) < 120
    assert outcome.released == table.height


@pytest.mark.parametrize("synthesis", ["uniform", "mean"])
def test_the_papers_syntheses_work_in_blocks(synthesis: str) -> None:
    table = people().drop("person", "level")
    outcome, release, _ = run(table, k=5, synthesis=synthesis)
    assert release.height == table.height
    assert outcome.groups_.singular > 0


def test_exact_totals_are_those_of_the_table() -> None:
    table = people().select("city", "smoker")
    outcome, release, _ = run(table, k=5, exact_totals=True)
    assert len(outcome.blocks) > 1
    for name in table.columns:
        assert release[name].value_counts().sort(name).equals(table[name].value_counts().sort(name))
    lots = run(table, k=5)[1]["smoker"].sum()
    assert lots != table["smoker"].sum()
    assert any("totals are exact" in note for note in outcome.notes_)


def test_a_level_larger_than_a_block_makes_larger_ones() -> None:
    table = people().drop("person").with_columns(level=pl.lit(400))
    outcome, _, _ = run(table)
    assert len(outcome.blocks) == 1
    assert outcome.groups_.people.min() >= 400


def test_levels_that_nobody_can_meet_are_refused_or_withheld() -> None:
    table = people(300).drop("person")
    table = table.with_columns(level=pl.when(pl.col("age") > 88).then(9_999).otherwise(3))
    with pytest.raises(PrivacyError):
        run(table)
    outcome, release, _ = run(table, on_infeasible="suppress")
    assert outcome.groups_.suppressed == (table["age"] > 88).sum() == 300 - release.height


@pytest.mark.slow
def test_a_table_that_changes_while_it_is_read_is_refused() -> None:
    table = people().drop("person", "level")
    readings = iter([table, table, table.head(900)])

    with pytest.raises(DataError):
        condense_blocks(
            Machine(
                lambda: iter(next(readings).iter_slices(100)), Budget(0, 1, block=250, sample=500)
            ),
            Schema.of(None, table),
            lambda units: (Units.whole(units["rows"].sum()), Condenser(k=5)),
            lambda number, frame: None,
            target=None,
            sample=Sampled(next(readings), table.height, np.empty(0, np.uint64)),
            seed=SEED,
        )


def test_a_value_that_enough_people_hold_shows_although_the_sample_has_it_not() -> None:
    table = people(1_000).drop("person", "level")
    rare = pl.Series(["Chur"] * 40 + ["Bern"] * 957 + ["Thun"] * 3)
    table = table.with_columns(rare.sample(1_000, shuffle=True, seed=1).alias("city"))
    schema = Schema.of(None, table)
    facts = TableFacts(schema)
    for batch in table.iter_slices(300):
        facts.add(batch, None)
    sample = table.filter(pl.col("city") == "Bern").head(200)
    more = facts.more(sample, None, 10)["city"]
    assert (more == "Chur").sum() == 16  # as many as can be asked for
    assert (more == "Thun").sum() == 3  # as many as there are
    assert "Bern" not in more


@pytest.mark.slow
@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.integers(1, 60), st.data())
def test_a_sample_is_the_same_in_any_order_and_holds_whole_people(
    persons: list[int], size: int, data: st.DataObject
) -> None:
    frame = pl.DataFrame({"person": persons, "row": range(len(persons))})
    order = data.draw(st.permutations(range(len(persons))))
    cut = data.draw(st.integers(1, len(persons)))

    def drawn(table: pl.DataFrame, rows: int) -> set[int]:
        sample = HashSample(size)
        for batch in table.iter_slices(rows):
            sample.add(batch, person_keys(batch["person"], 5))
        return set(sample.rows()[0]["row"])

    found = drawn(frame, len(frame))
    assert drawn(frame[order], cut) == found
    assert len(found) <= size or len(found) == len(persons) <= size
    chosen = {persons[row] for row in found}
    assert found == {row for row, person in enumerate(persons) if person in chosen}


def alike(n: int = 3_000) -> pl.DataFrame:
    """Two thirds of the records are equal, and among the largest."""
    rng = np.random.default_rng(2)
    heap = rng.random(n) < 0.66
    return pl.DataFrame(
        {
            "person": rng.integers(0, n // 2, n),
            "age": np.where(heap, 90, rng.integers(18, 92, n)),
            "income": np.where(heap, 5000.0, rng.integers(100, 5100, n)),
            "level": np.where(heap, 5, rng.choice([3, 5], n)),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [[], ["person"], ["person", "level"]])
def test_a_heap_of_equal_records_is_dealt_out_over_blocks(
    monkeypatch: pytest.MonkeyPatch, left_out: list[str]
) -> None:
    monkeypatch.setattr(Budget, "fitting", lambda *_: 250)
    table = alike().drop(left_out)
    wanted, release, _ = run(table, k=5)
    assert max(block.tally.records for block in wanted.blocks) <= 1.5 * 250
    assert all(row.smallest_group >= row.level for row in wanted.groups_.level_summary)
    _, found, _ = run(table.sample(fraction=1, shuffle=True, seed=4), rows=999, threads=2, k=5)
    assert found.equals(release)
    assert abs(release["age"].mean() - table["age"].mean()) < 3


@pytest.mark.slow
def test_people_in_a_heap_are_not_split_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    condense = BlockPlan.condense

    def watched(plan: BlockPlan, frame: pl.DataFrame, number: int) -> Any:
        held.extend(frame["person"].unique())
        return condense(plan, frame, number)

    monkeypatch.setattr(BlockPlan, "condense", watched)
    monkeypatch.setattr(Budget, "fitting", lambda *_: 250)
    outcome, _, _ = run(alike().with_columns(age=90, income=5000.0))
    assert len(outcome.blocks) > 5
    assert any("no order" in note for note in outcome.notes_)
    assert len(held) == len(set(held)) > 1_000


def test_a_heap_stays_together_where_levels_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "fitting", lambda *_: 250)
    outcome, _, _ = run(alike(900).drop("person").with_columns(age=90, income=50.0, level=300))
    assert len(outcome.blocks) == 1


@given(st.lists(st.integers(0, 6), min_size=2, max_size=200), st.integers(2, 9), st.integers(1, 50))
def test_a_deal_gives_each_part_as_many_and_equal_records_in_any_order(
    words: list[int], parts: int, size: int
) -> None:
    keys = np.array(words, dtype=np.uint64)

    def dealt(keys: np.ndarray, size: int) -> list[tuple[int, int]]:
        deal = Deal(np.unique(keys))
        turns = [deal.turns(keys[at : at + size]) % parts for at in range(0, len(keys), size)]
        return sorted(zip(keys.tolist(), np.concatenate(turns).tolist()))

    found = dealt(keys, size)
    assert dealt(keys[::-1], 7) == found
    for word in set(words):
        sizes = np.bincount([part for key, part in found if key == word], minlength=parts)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.slow
def test_blocks_of_people_are_alike() -> None:
    table = people(6_000).with_columns(person=pl.Series(np.arange(6_000) % 1_000))
    outcome, _, _ = run(table, block=600, sample=3_000)
    assert max(block.tally.records for block in outcome.blocks) < 2 * 600


def test_a_budget_makes_blocks_small_enough_for_wide_records() -> None:
    for memory in (700_000_000, 10**9, 4 * 10**9):
        budget = Budget.of(memory, 8, 40)
        sizes = [budget.block_of(dimensions) for dimensions in (5, 40, 200, 1_000)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == plan.BLOCK
        for size, dimensions in zip(sizes, (5, 40, 200, 1_000)):
            workers = budget.workers(size, dimensions)
            taken = workers * size * 8 * dimensions * 6  # at least six copies
            assert taken <= memory or (workers, size) == (1, sizes[-1])
    assert Budget.of(900_000_000, 2, 10).workers(plan.BLOCK, 10) == 2


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays of all stages together; the parts of the release are Polars', and not counted."""
    monkeypatch.setattr(machine, "_LEAST_ROOM", 600_000)  # less than the table
    each = []  # bytes, for a record of the largest block
    for n in (300, 2_000, 6_000):  # the first loads what is loaded once
        table = people(n)
        tracemalloc.start()
        try:
            outcome, _, _ = run(table, rows=500, block=400, sample=2_000)
            largest = max(block.tally.records for block in outcome.blocks)
            each.append(tracemalloc.get_traced_memory()[1] / largest)
        finally:
            tracemalloc.stop()
    assert len(outcome.blocks) >= 12
    assert each[2] < 1.25 * each[1]
    assert largest < 1.5 * 400


def test_common_rows_are_in_a_sample_by_their_share_in_any_order() -> None:
    """A content that many rows have is one of many contents: by chance it would be missing."""
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random(6_000) < 0.2, 99.0, rng.normal(size=6_000))
    numbers[rng.random(6_000) < 0.05] = 77.0
    table = pl.DataFrame({"x": numbers})

    def drawn(table: pl.DataFrame, rows: int, seed: int) -> pl.DataFrame:
        return sample_rows(reader(lambda: table.iter_slices(rows)), 500, (seed,)).rows

    for seed in range(5):
        found = drawn(table, 6_000, seed)
        assert abs((found["x"] == 99).mean() - (table["x"] == 99).mean()) < 0.005
        assert abs((found["x"] == 77).mean() - (table["x"] == 77).mean()) < 0.005
        assert abs(found.height - 500) < 60
        assert drawn(table.sample(fraction=1, shuffle=True, seed=seed), 271, seed).equals(found)


@pytest.mark.parametrize("size", [100, 400, 3_000])
def test_samples_of_parts_are_that_of_the_whole(size: int) -> None:
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"x": np.where(rng.random(2_000) < 0.3, 5, rng.integers(0, 900, 2_000))})
    found = sample_rows(reader(lambda: table.iter_slices(300)), size, (3,)).rows
    counts = [CommonKeys() for _ in range(2)]
    for part, count in zip((table[:700], table[700:]), counts):
        count.add(row_keys(part, 3))
    counts[0].merge(counts[1])
    samples = [RowSample(size, 3, candidates=counts[0].candidates()) for _ in range(2)]
    for part, sample in zip((table[:700], table[700:]), samples):
        sample.add(part)
    samples[1].merge(samples[0].shrunk())
    assert samples[1].rows().equals(found)


@given(st.lists(st.integers(-1, 5), max_size=80), st.sampled_from([0, 200, 10**6]))
@few(40)
def test_a_spill_gives_back_what_it_took(leaves: list[int], memory: int) -> None:
    dtype = np.dtype([("point", np.float64, (2,)), ("level", np.int64)])
    records = np.zeros(len(leaves), dtype=dtype)
    records["level"] = np.arange(len(leaves))
    with Spill(dtype, 6, memory) as spill:
        for start in range(0, len(leaves), 7):
            spill.add(records[start : start + 7], np.array(leaves[start : start + 7], dtype=int))
        for some in ([0], [1, 4], [5, 2, 3]):
            wanted = [row for leaf in some for row, own in enumerate(leaves) if own == leaf]
            assert sorted(spill.read(np.array(some))["level"].tolist()) == sorted(wanted)


def test_work_in_threads_comes_back_in_order_and_stops_at_an_error() -> None:
    assert list(in_order(lambda item: item**2, range(20), 3)) == [i**2 for i in range(20)]
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda item: 1 // (5 - item), range(20), 3))


def test_work_within_work_stays_on_its_thread() -> None:
    def inner(item: int) -> set[int]:
        return set(in_order(lambda _: get_ident(), range(5), 3))

    assert all(len(threads) == 1 for threads in in_order(inner, range(6), 2))


def test_equal_rows_share_a_lot_unless_very_many_have_it() -> None:
    rows = pl.DataFrame({"x": np.repeat(np.arange(1_000), 4)})
    out = rows.with_columns(out=Apart(0.25, 5, None).among(rows))
    assert set(out.group_by("x").agg(pl.col("out").mean())["out"]) == {0.0, 1.0}
    mixed = rows.sample(fraction=1.0, shuffle=True, seed=1)
    batches = [
        part.with_columns(out=Apart(0.25, 5, None).among(part)) for part in mixed.iter_slices(70)
    ]
    assert pl.concat(batches).sort("x").equals(out)  # in any order and in any batches


def test_rows_that_very_many_have_are_kept_apart_one_by_one_and_people_as_a_whole() -> None:
    rows = pl.DataFrame({"x": np.repeat([1, 2, 3, 4], 1_000), "who": np.arange(4_000) // 8})
    apart = Apart(0.25, 5, None, 7, np.unique(row_keys(rows.select("x"), 7)))
    kept = rows.select("x").with_columns(out=apart.among(rows.select("x")))
    shares = kept.group_by("x").agg(pl.col("out").mean())["out"]
    assert shares.min() > 0.18
    assert shares.max() < 0.32
    assert (kept["out"] == apart.among(rows.select("x"))).all()  # in every reading
    people = rows.with_columns(out=Apart(0.25, 5, "who").among(rows)).group_by("who")
    whole = people.agg(pl.col("out").mean())["out"]
    assert set(whole) == {0.0, 1.0}
    nobody = rows.with_columns(who=pl.lit(None, pl.Int64))
    assert not Apart(0.9, 5, "who").among(nobody).any()


def test_keys_depend_on_the_seed() -> None:
    numbers = np.arange(1_000, dtype=np.uint64)
    assert len(np.unique(mixed(numbers, 1))) == 1_000
    assert not (mixed(numbers, 1) == mixed(numbers, 2)).any()


def test_numbers_are_as_comparable_as_in_memory_although_the_sample_lacks_the_extremes() -> None:
    """One transfer of 700 MB can be most of the variance of a column."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"bytes": rng.exponential(300, 1_000), "age": rng.normal(40, 9, 1_000)})
    table[500, "bytes"] = 700e6
    sample = table.head(200)
    found = []
    for size in (70, 1_000):
        facts = [TableFacts(Schema.of(None, table)) for _ in range(2)]
        for place, batch in enumerate(table.iter_slices(size)):
            facts[place % 2].add(batch, None)
        facts[0].merge(facts[1])
        found.append({name: facts[0].stretch(sample[name]) for name in table.columns})
    assert found[0] == found[1]
    encoder = TableEncoder().fit(sample)
    encoder.stretch(found[0])
    np.testing.assert_allclose(encoder.scales_, TableEncoder().fit(table).scales_, rtol=0.01)
