"""Free text: left out, or replaced by a word of each text that enough people use."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Column, Condenser, DataError, Kind, PolicyError, load_policy
from tulle.auditing._tables import align
from tulle.table._categories import as_codes, code_words

N = 400
CODED = Column("remarks", Kind.TEXT, text="codes")


def remarks() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    topics = np.array(["delivery was late", "the price went up", "friendly service"])
    about = rng.integers(0, 3, N)
    names = [
        f"{topics[t]}, says customer{chr(97 + i % 26)}{chr(97 + i // 26)} here"
        for i, t in enumerate(about)
    ]
    names[:30] = ["ok"] * 30
    return pl.DataFrame({"remarks": names, "stars": 1 + about + rng.integers(0, 2, N)})


def test_a_text_takes_the_first_word_that_it_has():
    texts = pl.Series("t", ["Late delivery", "the delivery came", None, "ok"])
    assert as_codes(texts, ["late", "delivery"]).to_list() == ["late", "delivery", None, None]
    assert as_codes(as_codes(texts, ["late"]), ["late"]).to_list() == ["late", None, None, None]


def test_words_of_all_texts_and_of_few_are_left_out():
    table = remarks()
    assert "says" not in code_words(table["remarks"].gather(range(30, N)), None)
    release = Condenser(20, columns=[CODED], random_state=0).fit_resample(table)
    held = release["remarks"].value_counts().drop_nulls()
    assert release["remarks"].null_count() > 0
    assert held["count"].min() >= 10
    assert not held["remarks"].str.contains("customer").any()


def test_the_audit_reads_the_same_codes():
    table = remarks()
    release = Condenser(20, columns=[CODED], random_state=0).fit_resample(table)
    tables = align(table, release, table.head(0).vstack(table.tail(20)), [CODED])
    assert set(tables.frames[0]["remarks"].drop_nulls()) <= set(release["remarks"].drop_nulls())


def test_without_the_option_free_text_is_refused_and_the_option_named():
    with pytest.raises(DataError, match='text = "codes"'):
        Condenser(20, columns=[Column("remarks", Kind.TEXT)]).fit(remarks())


@pytest.mark.parametrize(
    "entry", ['kind = "category"\ntext = "codes"', 'kind = "text"\ntext = "x"']
)
def test_the_option_is_for_free_text_alone(tmp_path, entry):
    file = tmp_path / "policy.toml"
    file.write_text(f'[columns.remarks]\nrole = "sensitive"\n{entry}\n')
    with pytest.raises(PolicyError, match="remarks"):
        load_policy(file)
