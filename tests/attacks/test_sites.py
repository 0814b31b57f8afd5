from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import SecretKey, SiteAgreement, SiteCodec
from tulle._attacks.result import NO_EVIDENCE
from tulle._attacks.sites import (
    attack_tables,
    frequency_matching,
    known_pairs,
    order_matching,
    warnings_of,
)
from tulle.errors import DataError


@pytest.fixture
def words(rng: np.random.Generator) -> np.ndarray:
    return rng.choice(list("abcdef"), size=3000, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03])


def test_frequency_matching_names_every_alias_of_a_known_distribution(words: np.ndarray) -> None:
    aliases = [f"x_{word}" for word in words]
    result = frequency_matching(aliases, words.tolist(), words.tolist(), name="x")
    assert result.rate == 1
    assert result.name == "frequency_matching:x"


def test_frequency_matching_with_a_sample_still_works(
    words: np.ndarray, rng: np.random.Generator
) -> None:
    aliases = [f"x_{word}" for word in words]
    sample = rng.choice(words, size=500).tolist()
    assert frequency_matching(aliases, words.tolist(), sample).rate > 0.8


def test_frequency_matching_of_unrelated_data_does_not_beat_guessing(
    rng: np.random.Generator,
) -> None:
    values = rng.choice(list("abcdef"), size=3000)
    aliases = rng.permutation(6)[np.searchsorted(list("abcdef"), values)]
    public = rng.choice(list("uvwxyz"), size=3000).tolist()
    result = frequency_matching(aliases.tolist(), values.tolist(), public)
    assert result.failed
    assert result.note == NO_EVIDENCE


def test_frequency_matching_survives_missing_values_and_many_categories(
    rng: np.random.Generator,
) -> None:
    values = [None, *map(str, (rng.pareto(1, 5000) * 300).astype(int))]
    aliases = [None if value is None else f"x_{value}" for value in values]
    result = frequency_matching(aliases, values, values)
    assert result.attempts == 5000
    assert result.rate > result.baseline
    with pytest.raises(DataError):
        frequency_matching([None], [None], ["a"])


def test_splitting_weakens_frequency_matching(rng: np.random.Generator) -> None:
    table = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], size=3000, p=[0.67, 0.33]),
            "race": rng.choice(list("abc"), size=3000, p=[0.8, 0.15, 0.05]),
        }
    )
    kinds = {"sex": "category", "race": "category"}
    plain = SiteCodec(SiteAgreement.create(kinds)).transform(table)
    split = SiteCodec(
        SiteAgreement.create(kinds, split={"sex": 0.05, "race": 0.05}), random_state=0
    ).transform(table)
    before = {r.name: r.rate for r in attack_tables(table, plain)}
    after = {r.name: r.rate for r in attack_tables(table, split)}
    assert set(before.values()) == {1.0}
    assert max(after.values()) < 0.35
    shares = {"sex": 0.05, "race": 0.05}
    informed = {r.name: r.rate for r in attack_tables(table, split, splits=shares)}
    assert informed["frequency_matching:race"] > after["frequency_matching:race"]
    assert informed["frequency_matching:sex"] < 1


def test_known_pairs_read_a_straight_line_and_not_noise(rng: np.random.Generator) -> None:
    ages = rng.integers(17, 90, size=2000).astype(float)
    straight = known_pairs(ages / 15 + 3, ages, 2, random_state=0)
    assert straight.rate > 0.95
    noise = known_pairs(rng.random(2000), ages, 5, random_state=0)
    assert noise.rate < 0.1
    assert known_pairs(ages / 15 + 3, ages, 2, random_state=0) == straight


def test_one_known_pair_needs_the_range(rng: np.random.Generator) -> None:
    ages = np.concatenate([[17.0, 90.0], rng.uniform(17, 90, size=2000)])
    codes = ages / 15
    assert known_pairs(codes, ages, 1, public_range=(17, 90), random_state=0).rate > 0.99
    assert known_pairs(codes, ages, 1, random_state=0).rate < 0.1


@pytest.mark.slow
def test_the_known_are_not_found_out_and_the_interval_covers(rng: np.random.Generator) -> None:
    values = rng.permutation(np.arange(12.0))
    # codes without order: whoever is known helps to find nobody else
    assert known_pairs(rng.random(12), values, 10, random_state=0).rate < 0.4
    ages = rng.lognormal(3, 1, 800)
    rates = [known_pairs(np.sqrt(ages), ages, 1, random_state=seed) for seed in range(60)]
    truth = float(np.mean([result.rate for result in rates]))
    covered = np.mean([result.low <= truth <= result.high for result in rates])
    assert covered > 0.85
    assert known_pairs([1.0], [2.0], 5, random_state=0).attempts == 500


def test_uneven_cuts_slow_known_pairs_down(rng: np.random.Generator) -> None:
    table = pl.DataFrame({"age": rng.uniform(0, 100, size=2000)})
    rates = {}
    for cuts in ("equal", "uneven"):
        agreement = SiteAgreement.create(
            {"age": "decimal"},
            ranges={"age": (0, 100)},
            cuts=cuts,
            groups=8,
            key=SecretKey(bytes(32)),
        )
        codes = SiteCodec(agreement).transform(table)["age"].to_numpy()
        rates[cuts] = known_pairs(codes, table["age"].to_numpy(), 2, random_state=0).rate
    assert rates["equal"] > 0.99
    assert rates["uneven"] < 0.7


def test_order_matching_with_the_right_and_the_wrong_sample(rng: np.random.Generator) -> None:
    incomes = rng.lognormal(10, 1, size=2000)
    codes = np.log(incomes)
    assert order_matching(codes, incomes, incomes).rate == 1
    assert order_matching(codes, incomes, rng.lognormal(10, 1, size=2000)).rate > 0.5
    unrelated = order_matching(rng.random(2000), rng.uniform(0, 1, 2000), rng.normal(9, 1, 2000))
    assert unrelated.failed
    with pytest.raises(DataError):
        order_matching([1.0], [1.0], [np.nan])
    for codes in ([np.nan], [1.0, 2.0]):
        with pytest.raises(DataError):
            order_matching(codes, [1.0], [1.0])


@pytest.mark.slow
def test_every_coded_column_is_attacked_and_the_warning_is_plain(words: np.ndarray) -> None:
    table = pl.DataFrame({"age": np.arange(3000) % 70 + 17, "word": words, "stay": words})
    agreement = SiteAgreement.create(
        {"age": "integer", "word": "category", "stay": "category"},
        ranges={"age": (0, 100)},
        plain=["stay"],
    )
    results = attack_tables(table, SiteCodec(agreement).transform(table), random_state=0)
    assert [r.name for r in results] == [
        "1_known_pair:age",
        "2_known_pairs:age",
        "5_known_pairs:age",
        "10_known_pairs:age",
        "order_matching:age",
        "frequency_matching:word",
    ]
    encoded = SiteCodec(agreement).transform(table)
    attack_tables(table, encoded, table.drop("stay"))  # it goes out plain: nothing to find out
    with pytest.raises(DataError, match="'word'"):
        attack_tables(table, encoded, table.drop("word"))
    warnings = warnings_of(results)
    assert "word: most values are recovered by frequency matching (100% of records" in " ".join(
        warnings
    )
    assert "not frequencies and order" in warnings[-1]
    assert warnings_of([]) == []
