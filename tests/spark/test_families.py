"""Mining, sketches, sites and streams on Spark: what one machine gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import (
    ParameterError,
    SecretKey,
    SiteAgreement,
    SiteCodec,
    Sketcher,
    StreamCondenser,
    association_rules,
    frequent_itemsets,
    spark,
)

pytestmark = pytest.mark.slow


def test_itemsets_and_rules_are_those_of_the_whole(session: Any) -> None:
    rng = np.random.default_rng(0)
    baskets = [sorted(set((rng.zipf(1.7, 5) % 30).tolist())) for _ in range(300)]
    df = session.createDataFrame([(basket,) for basket in baskets], "items array<long>")
    found = spark.frequent_itemsets(df.repartition(3), "items", min_support="5%")
    wanted = frequent_itemsets(baskets, min_support="5%")
    assert _sets(found) == _sets(wanted)
    rules = spark.association_rules(df, "items", min_support="5%", min_confidence="50%")
    assert rules.height == len(association_rules(baskets, min_support="5%", min_confidence="50%"))


def _sets(found: pl.DataFrame) -> dict[frozenset[int], int]:
    return {frozenset(row["itemset"]): row["count"] for row in found.to_dicts()}


def test_sketches_and_encodings_are_those_of_one_machine(session: Any) -> None:
    texts = [f"a cat number {i} and a dog sat on {i % 7}" for i in range(40)]
    sketcher = Sketcher().fit(texts)
    df = session.createDataFrame([(text, i % 5) for i, text in enumerate(texts)], "t string, n int")
    rows = spark.sketch(df, "t", sketcher).collect()
    wanted = sketcher.transform(texts)
    assert [row.length for row in rows] == wanted.lengths.tolist()
    assert np.allclose(rows[3].sketch, wanted.values[3, : rows[3].length])
    with pytest.raises(ParameterError):
        spark.sketch(df, "t", Sketcher("k-variance").fit(texts))

    table = pl.DataFrame({"t": texts, "n": pl.Series([i % 5 for i in range(40)], dtype=pl.Int32)})
    agreement = SiteAgreement.create({"t": "category", "n": "integer"}, ranges={"n": (0, 9)})
    encoded = spark.encode(df.coalesce(1), agreement).toArrow()
    assert pl.from_arrow(encoded).equals(SiteCodec(agreement).transform(table))


def test_a_batch_that_comes_again_is_skipped(session: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"x": rng.normal(size=600), "y": rng.normal(size=600)})
    batches = [session.createDataFrame(part.to_pandas()) for part in table.iter_slices(200)]
    state, key = tmp_path / "state", SecretKey.generate()

    def sink() -> Any:
        return spark.into_stream(StreamCondenser(k=5, random_state=1), state, key)

    for number in (0, 0, 1, 1, 0, 2):  # each time by a driver that starts again
        sink()(batches[number], number)
    whole = StreamCondenser(k=5, random_state=1)
    for part in table.iter_slices(200):
        whole.partial_fit(part)
    found = StreamCondenser.load(state, key=key)
    assert found.n_seen_ == 600
    assert np.array_equal(found.counts_, whole.counts_)
