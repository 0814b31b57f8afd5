"""Values that very many people share come out of a stream as often as they came in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tulle import Column, DataError, Kind, SecretKey, StreamCondenser
from tulle.table._states import find_heaps


def people(count: int, seed: int = 0) -> pl.DataFrame:
    """Hours with a heap at 40, gains that most do not have, ages without a heap."""
    rng = np.random.default_rng(seed)
    hours = np.where(rng.random(count) < 0.45, 40, rng.integers(5, 80, size=count))
    gains = np.where(rng.random(count) < 0.9, 0.0, rng.lognormal(7, 1, size=count).round(2))
    return pl.DataFrame({"age": rng.integers(18, 90, size=count), "hours": hours, "gains": gains})


def fed(frame: pl.DataFrame, batch: int, **options: object) -> StreamCondenser:
    stream = StreamCondenser(10, init_size=300, random_state=0, **options)
    for start in range(0, len(frame), batch):
        stream.partial_fit(frame[start : start + batch])
    return stream


def heaps(stream: StreamCondenser) -> dict[str, tuple[float, ...]]:
    return {codec.name: codec.heaps for codec in stream._fitted.encoder._codecs}


@pytest.mark.slow
@pytest.mark.parametrize("container", [pl.DataFrame, pl.DataFrame.to_pandas, pl.DataFrame.to_numpy])
def test_heaps_keep_their_shares_and_their_type(container) -> None:
    frame = people(3_000)
    stream = fed(frame, 3_000) if container is pl.DataFrame else None
    table = container(frame)
    stream = stream or StreamCondenser(10, init_size=300, random_state=0).partial_fit(table)
    assert list(heaps(stream).values()) == [(), (40.0,), (0.0,)]
    shown = stream.snapshot()
    assert type(shown) is type(table)
    released = pl.DataFrame(np.asarray(shown), schema=frame.columns)
    for name, value in (("hours", 40), ("gains", 0)):
        share, original = ((part[name] == value).mean() for part in (released, frame))
        assert share == pytest.approx(original, abs=0.02)
    if container is pl.DataFrame:
        assert shown.schema == frame.schema
    assert released["gains"].min() == 0


@pytest.mark.slow
@pytest.mark.parametrize("synthesis", ["uniform", "normal", "mean"])
def test_the_papers_synthesis_has_no_heaps(synthesis: str) -> None:
    frame = people(1_000)
    stream = fed(frame, 1_000, synthesis=synthesis)
    assert set(heaps(stream).values()) == {()}
    assert (stream.sample()["hours"] == 40).mean() < 0.3


@pytest.mark.slow
def test_batches_of_any_size_give_the_same_heaps_and_groups() -> None:
    frame = people(1_500)
    one, other = fed(frame, 1_500), fed(frame, 37)
    np.testing.assert_array_equal(one.means_, other.means_)
    assert one.snapshot().equals(other.snapshot())


@pytest.mark.slow
def test_a_saved_stream_goes_on_with_its_heaps(tmp_path: Path) -> None:
    key = SecretKey.generate()
    frame = people(2_000)
    stream = fed(frame[:1_000], 500)
    stream.save(tmp_path / "state", key=key)
    loaded = StreamCondenser.load(tmp_path / "state", key=key)
    for part in (stream, loaded):
        part.partial_fit(frame[1_000:])
    assert heaps(loaded) == heaps(stream)
    assert loaded.snapshot().equals(stream.snapshot())


@pytest.mark.slow
def test_streams_with_other_heaps_merge() -> None:
    frame = people(1_200)
    other = people(1_200, seed=1).with_columns(
        hours=pl.when(pl.col("hours") == 40).then(35).otherwise("hours"), gains=pl.col("gains") + 1
    )
    streams = fed(frame, 600), fed(other, 600)
    assert heaps(streams[0])["hours"] == (40.0,)
    assert heaps(streams[1])["hours"] == (35.0,)
    merged = streams[0].merge(streams[1])
    assert heaps(merged) == {"age": (), "hours": (35.0, 40.0), "gains": (0.0, 1.0)}
    assert merged.n_seen_ == 2_400
    drawn = merged.sample()
    whole = pl.concat([frame, other])
    for name, value in (("hours", 40), ("hours", 35), ("gains", 0), ("gains", 1)):
        share, original = ((part[name] == value).mean() for part in (drawn, whole))
        assert share == pytest.approx(original, abs=0.03)
    merged.partial_fit(other[:100])
    assert merged.n_seen_ == 2_500


@pytest.mark.slow
def test_a_heap_rests_on_as_many_people_as_anybody_asks_for() -> None:
    frame = people(400)
    asked = np.full(400, 10)
    asked[0] = 200  # more than have 40 hours among the initial 300
    stream = StreamCondenser(10, init_size=300, random_state=0)
    stream.partial_fit(frame, levels=asked)
    assert heaps(stream) == {"age": (), "hours": (), "gains": (0.0,)}


def test_a_heap_stands_out_and_leaves_others() -> None:
    ones = np.ones(100)
    ages = np.arange(100.0)
    assert find_heaps(np.where(ages < 40, 7.0, ages), ones, 10, most=4) == [7.0]
    assert find_heaps(np.where(ages < 40, 7.0, ages), ones, 50, most=4) == []  # of too few people
    assert find_heaps(np.repeat(np.arange(5.0), 20), ones, 10, most=4) == []  # all as common
    assert find_heaps(np.zeros(100), ones, 10, most=4) == []
    assert find_heaps(np.where(ages < 97, 0.0, ages), ones, 10, most=4) == []  # three people left
    several = np.repeat([1.0, 2.0, 3.0], 20)
    assert find_heaps(np.append(several, ages[60:] * 2), ones, 10, most=2) == [1.0, 2.0]
    assert find_heaps(np.where(ages < 40, 7.0, ages), ones / 5, 10, most=4) == []  # of one person
    assert find_heaps(np.zeros(0), np.zeros(0), 10, most=4) == []


WIDTHS = (320, 768, 1024, 1920)


def screens(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "width": rng.choice(WIDTHS, rows, p=(0.4, 0.1, 0.2, 0.3)),
            "age": np.clip(rng.normal(35, 15, rows).round(), 14, 90).astype(int),
        }
    )


def test_a_column_of_few_whole_numbers_comes_out_as_these() -> None:
    table = screens(1_500, 0)
    stream = StreamCondenser(k=10, random_state=0).partial_fit(table)
    assert len(heaps(stream)["width"]) == 3  # the commonest stays a number
    shown = stream.partial_fit(screens(500, 1)).snapshot()["width"]
    assert set(shown) == set(WIDTHS)
    rates = [(shown == width).mean() for width in WIDTHS]
    assert rates == pytest.approx([0.4, 0.1, 0.2, 0.3], abs=0.03)


def test_a_whole_number_that_few_people_hold_is_not_in_the_set() -> None:
    odd = pl.DataFrame({"width": [2560, 40], "age": [30, 31]})
    stream = StreamCondenser(k=10, random_state=0).partial_fit(pl.concat([screens(800, 0), odd]))
    assert set(stream.snapshot()["width"]) == set(WIDTHS)
    stream.partial_fit(odd[:1])  # it is taken in all the same
    assert stream.n_seen_ == 803
    assert set(stream.snapshot()["width"]) == set(WIDTHS)


def test_whole_numbers_stay_where_people_are_whatever_the_public_bounds() -> None:
    columns = [Column("age", Kind.INTEGER, bounds=(0, 120))]
    stream = StreamCondenser(k=10, columns=columns, random_state=0).partial_fit(screens(1_500, 0))
    shown = stream.snapshot()["age"]
    assert 14 <= shown.min() < shown.max() <= 90
    with pytest.raises(DataError, match="bounds"):
        stream.partial_fit(pl.DataFrame({"width": [320], "age": [130]}))
