"""Totals are drawn at random unless somebody asks for those of the table, and is warned."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import ClassCondenser, Condenser, ParameterError, PrivacyWarning

RNG = np.random.default_rng(0)
TABLE = pl.DataFrame(
    {
        "sex": RNG.choice(["f", "m"], 900, p=[0.4, 0.6]),
        "age": RNG.integers(20, 80, 900),
        "income": RNG.lognormal(8, 1, 900).round(2),
    }
)
LABELS = np.where(RNG.random(900) < 0.3, "yes", "no")


def counts(series: pl.Series) -> list[int]:
    return series.value_counts().sort(series.name)["count"].to_list()


@pytest.mark.slow
def test_exact_totals_are_those_of_the_table_and_warned_about() -> None:
    condenser = Condenser(10, exact_totals=True, random_state=1)
    with pytest.warns(PrivacyWarning, match="totals"):
        release = condenser.fit_resample(TABLE)
    assert counts(release["sex"]) == counts(TABLE["sex"])
    assert any("totals" in note for note in condenser.notes_)


@pytest.mark.slow
def test_by_default_totals_differ_from_fit_to_fit() -> None:
    found = {
        tuple(counts(Condenser(10, random_state=seed).fit_resample(TABLE)["sex"]))
        for seed in range(5)
    }
    assert len(found) > 1


@pytest.mark.slow
def test_classes_keep_their_exact_sizes() -> None:
    condenser = ClassCondenser(Condenser(10, exact_totals=True, random_state=1))
    with pytest.warns(PrivacyWarning, match="totals"):
        _, labels = condenser.fit_resample(TABLE, LABELS)
    assert np.bincount(labels == "yes").tolist() == np.bincount(LABELS == "yes").tolist()


def test_the_papers_synthesis_has_no_such_choice() -> None:
    with pytest.raises(ParameterError, match="exact_totals"):
        Condenser(10, synthesis="uniform", exact_totals=True).fit(TABLE)


@pytest.mark.slow
def test_what_is_shown_rests_on_so_many_people() -> None:
    found = Condenser(10, random_state=0).fit(TABLE).rests_on_
    assert found["a stretch of numbers"] == 10
    assert found["how a column depends on others (a leaf)"] == 20
    assert min(found.values()) == 10
    by_class = ClassCondenser(Condenser(10, random_state=0)).fit(TABLE, LABELS).rests_on_
    assert by_class.keys() == found.keys()
    papers = Condenser(10, synthesis="uniform", random_state=0).fit(TABLE).rests_on_
    assert papers == {"a category": 10, "which records are alike (a group)": 10}
