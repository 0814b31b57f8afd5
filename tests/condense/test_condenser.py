"""Condenser: the guarantee, the moments, the types, the containers."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sklearn.base import clone

from tests.examples import few
from tulle import ClassCondenser, Condenser
from tulle._shape.trees import Forest
from tulle.errors import DataError, ParameterError, PrivacyError, PrivacyWarning
from tulle.table.schema import Column, Kind, Role


def _numbers(n: int = 120, d: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(n, d)) @ np.diag(np.arange(1, d + 1)) + 50


def _table(n: int = 150, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < 0.2
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.lognormal(10, 1, n).round(2),
            "city": pl.Series(rng.choice(["Bern", "Chur", "Genf"], n), dtype=pl.Categorical),
            "member": rng.random(n) < 0.3,
            "score": pl.Series(np.where(missing, None, rng.normal(size=n)).tolist()),
            "since": [dt.date(2020, 1, 1) + dt.timedelta(int(x)) for x in rng.integers(0, 99, n)],
        }
    )


def test_every_group_has_at_least_k_records():
    condenser = Condenser(k=10, random_state=0).fit(_numbers())
    assert condenser.counts_.sum() == 120
    assert condenser.counts_.min() >= 10
    assert (condenser.levels_ == 10).all()
    assert condenser.level_summary_ == [(10, 120, condenser.counts_.min())]
    assert (condenser.n_suppressed_, condenser.n_verbatim_, condenser.n_degenerate_) == (0, 0, 0)


@pytest.mark.guarantee
@pytest.mark.slow
@few(25)
@given(st.integers(5, 60), st.integers(1, 4), st.integers(0, 999))
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_every_level_is_met(n, d, seed):
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, n + 1, n)
    condenser = Condenser(random_state=seed).fit(rng.normal(size=(n, d)), levels=levels)
    assert (condenser.counts_ >= condenser.levels_).all()
    assert condenser.counts_.sum() == n
    assert condenser.levels_.max() == levels.max()
    for level, records, smallest in condenser.level_summary_:
        assert records == (levels == level).sum()
        assert smallest >= level


def test_fitted_statistics_are_in_the_units_of_the_data():
    X = _numbers()
    condenser = Condenser(k=120, synthesis="uniform", random_state=0).fit(X)
    np.testing.assert_allclose(condenser.means_, X.mean(axis=0)[None])
    np.testing.assert_allclose(condenser.covariances_, np.cov(X.T, bias=True)[None])
    assert condenser.information_loss_ == pytest.approx(100)


@pytest.mark.slow
def test_information_loss_is_ssq_over_sst_of_z_scores():
    X = _numbers()
    condenser = Condenser(k=6, synthesis="uniform", random_state=0).fit(X)
    weights = condenser.counts_[:, None]
    within = (np.einsum("gii->gi", condenser.covariances_) * weights).sum(axis=0) / X.var(axis=0)
    assert condenser.information_loss_ == pytest.approx(100 * within.sum() / X.size)


@pytest.mark.slow
def test_pseudo_data_keeps_mean_and_covariance():
    X = _numbers(2000)
    released = Condenser(k=10, random_state=0).fit_resample(X)
    assert released.shape == X.shape
    np.testing.assert_allclose(released.mean(axis=0), X.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(np.cov(released.T), np.cov(X.T), atol=0.35)


def test_exact_moments_reproduce_the_covariance_of_the_whole():
    X = _numbers(200)
    released = Condenser(k=10, exact_moments=True, random_state=0).fit_resample(X)
    np.testing.assert_allclose(released.mean(axis=0), X.mean(axis=0))
    np.testing.assert_allclose(np.cov(released.T), np.cov(X.T), atol=1e-10)


@pytest.mark.slow
def test_mean_synthesis_is_microaggregation():
    condenser = Condenser(k=7, synthesis="mean", random_state=0).fit(_numbers())
    values, counts = np.unique(condenser.sample().round(9), axis=0, return_counts=True)
    order = np.lexsort(condenser.means_.round(9).T[::-1])
    np.testing.assert_allclose(values, condenser.means_[order])
    np.testing.assert_array_equal(counts, condenser.counts_[order])


@pytest.mark.slow
def test_no_record_of_the_data_is_released():
    X = _numbers()
    released = Condenser(k=5, random_state=0).fit_resample(X)
    assert not {tuple(row) for row in X.tolist()} & {tuple(row) for row in released.tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow", "array", "list"])
def test_the_same_kind_of_table_comes_out(kind):
    table = _table()
    X = {
        "polars": table,
        "pandas": table.to_pandas(),
        "arrow": table.to_arrow(),
        "array": _numbers(),
        "list": _numbers().tolist(),
    }[kind]
    released = Condenser(k=5, random_state=0).fit_resample(X)
    assert type(released) is type(X)
    assert len(released) == len(X)
    if kind == "polars":
        assert released.schema == X.schema
    if kind == "pandas":
        assert released.dtypes.equals(X.dtypes)
    if kind == "arrow":
        assert released.schema == X.schema


@pytest.mark.slow
def test_mixed_tables_keep_types_ranges_domains_and_rates():
    table = _table(300)
    released = Condenser(k=10, synthesis="uniform", random_state=0).fit_resample(table)
    for name in ["age", "income", "since"]:  # bounds are round: a little beyond the extremes
        reach = (table[name].max() - table[name].min()) / 20
        assert table[name].min() - reach <= released[name].min()
        assert released[name].max() <= table[name].max() + reach
    assert released["income"].round(2).equals(released["income"])
    assert released["score"].null_count() == table["score"].null_count()
    assert released["member"].sum() == table["member"].sum()
    counts = [
        frame["city"].cast(pl.String).value_counts().sort("city") for frame in (table, released)
    ]
    assert_frame_equal(*counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        np.linspace(0, 1, 120),
        np.arange(120),
        pd.Series(np.linspace(0, 1, 120), name="y"),
        pl.Series("y", np.linspace(0, 1, 120)),
        np.linspace(0, 1, 120).tolist(),
        pa.array(np.linspace(0, 1, 120)),
    ],
)
def test_a_target_is_condensed_with_the_features(target):
    X = _numbers()
    X[:, 0] = np.asarray(target, dtype=float) * 3
    X_new, y_new = Condenser(k=5, exact_moments=True, random_state=0).fit_resample(X, target)
    assert type(y_new) is type(target)
    assert np.corrcoef(X_new[:, 0], np.asarray(y_new, dtype=float))[0, 1] > 0.999


@pytest.mark.slow
def test_column_names_of_any_type_are_kept():
    table = pd.DataFrame(_numbers(), columns=["a", 7, ("b", 1)])
    condenser = Condenser(k=5, random_state=0).fit(table)
    assert condenser.feature_names_in_.tolist() == ["a", "7", "('b', 1)"]
    assert list(condenser.sample().columns) == ["a", 7, ("b", 1)]
    condenser.fit(_numbers())
    assert condenser.n_features_in_ == 3
    assert not hasattr(condenser, "feature_names_in_")


def test_sample_takes_a_number_of_records():
    condenser = Condenser(k=10, random_state=0).fit(_numbers())
    assert len(condenser.sample(7)) == 7
    assert len(condenser.sample(1000)) == 1000
    with pytest.raises(ValueError, match="'n_samples'"):
        condenser.sample(0)


@pytest.mark.slow
def test_samples_differ_but_repeat_with_the_seed():
    first, second = (Condenser(k=10, random_state=4).fit(_numbers()) for _ in range(2))
    drawn = first.sample(), first.sample()
    assert not np.array_equal(*drawn)
    np.testing.assert_array_equal(drawn[0], second.sample())
    np.testing.assert_array_equal(drawn[1], second.sample())
    other = Condenser(k=10).fit(_numbers()).sample()
    assert not np.array_equal(other, Condenser(k=10).fit(_numbers()).sample())


def test_records_come_out_in_no_order():
    X = np.arange(400.0)[:, None]
    released = Condenser(k=10, random_state=0).fit_resample(X)[:, 0]
    assert abs(np.corrcoef(released, np.arange(400))[0, 1]) < 0.2


@pytest.mark.slow
def test_shifting_and_scaling_the_data_does_the_same_to_the_release():
    X = _numbers()
    plain = Condenser(k=10, random_state=0).fit_resample(X)
    moved = Condenser(k=10, random_state=0).fit_resample(X * 8 + 1024)
    np.testing.assert_allclose(moved, plain * 8 + 1024, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 3_500])
def test_groups_are_as_good_far_from_zero(n):
    X = _numbers(n)
    near = Condenser(k=5, random_state=0).fit(X).information_loss_
    far = Condenser(k=5, random_state=0).fit(X + 1e8).information_loss_
    assert far == pytest.approx(near, rel=1e-4)


@pytest.mark.slow
def test_weight_of_the_target_keeps_classes_apart():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), np.repeat(["a", "b", "c"], 100)
    mixed = []
    for weight in (0.1, 10):
        fitted = Condenser(k=10, synthesis="uniform", target_weight=weight, random_state=0).fit(
            X, y
        )
        shares = fitted.means_[:, 2:]
        mixed.append(float((fitted.counts_ * (1 - shares.max(axis=1))).sum()))
    assert mixed[1] < mixed[0] / 10


@pytest.mark.slow
def test_weights_make_a_column_count_more():
    X = _numbers(400)
    within = {}
    for synthesis in ("shape", "uniform"):
        for weight in (0.1, 10):
            condenser = Condenser(k=5, weights=[1, weight, 1], synthesis=synthesis, random_state=0)
            seen: list[tuple[np.ndarray, np.ndarray]] = []
            condenser._fit(X, None, None, lambda points, groups, _: seen.append((points, groups)))
            points, groups = seen[0]
            like = np.corrcoef(points.T, X[:, 1])[-1, :-1]  # columns are in the order of drawing
            column = points[:, like.argmax()] / points[:, like.argmax()].std()
            means = np.bincount(groups, column) / np.bincount(groups)
            within[synthesis, weight] = ((column - means[groups]) ** 2).sum()
        assert within[synthesis, 10] < within[synthesis, 0.1] / 5


# -- levels -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_levels_replace_k_and_may_be_a_column():
    table = _table().with_columns(level=pl.Series(np.arange(150) % 3 + 3))
    condenser = Condenser(k=10, random_state=0).fit(table, levels="level")
    assert condenser.rests_on_["a stretch of numbers"] == condenser.levels_.max() == 5
    released = condenser.sample()
    assert "level" not in released.columns
    for frame in (table.to_pandas(), table.to_arrow()):
        assert Condenser(random_state=0).fit(frame, levels="level").levels_.max() == 5


@pytest.mark.slow
def _with_demanding_exceptions():
    """Four hundred people, of whom thirty ask for a hundred and are unlike the others."""
    rng = np.random.default_rng(0)
    levels = np.where(np.arange(400) < 30, 100, 5)
    low = rng.integers(0, 1000, 400)
    high = np.where(levels == 5, low + rng.integers(0, 300, 400), low - 50)
    job = rng.integers(0, 4, 400)
    sector = np.where(levels == 5, job // 2, 1 - job // 2)
    words = {"job": [f"job {one}" for one in job], "sector": [f"sector {one}" for one in sector]}
    return pd.DataFrame({"low": low, "high": high, **words}), levels


def test_who_asks_for_more_has_no_say_in_rules_between_columns():
    table, levels = _with_demanding_exceptions()
    condenser = Condenser(random_state=0).fit(table, levels=levels)
    kept = {one.rule: one.share_broken for one in condenser.rules_}
    assert kept["low <= high"] == 0.0
    assert kept["job -> sector"] == 0.0
    rules = ["known(job, sector)", "job -> sector"]
    given = Condenser(rules=rules, random_state=0).fit(table, levels=levels)
    for combinations in given._rule_plan.known.values():
        assert combinations.height == 4  # thirty people hold four more
    assert all(one.share_broken == 0.0 for one in given.rules_)


def test_levels_may_be_a_column_whose_name_is_a_number():
    table = pd.DataFrame(np.c_[_numbers(60, 2), np.full(60, 6)])
    condenser = Condenser(random_state=0).fit(table, levels="2")
    assert condenser.counts_.min() >= 6
    assert condenser.sample().columns.tolist() == [0, 1]
    with_array = Condenser(random_state=0).fit(table, levels=pd.array([6] * 60, dtype="Int64"))
    assert with_array.counts_.min() >= 6


@pytest.mark.slow
def test_a_policy_names_the_levels_and_what_to_leave_out():
    table = _table().with_columns(level=pl.lit(4), name=pl.Series([f"n{i}" for i in range(150)]))
    columns = [
        Column("level", Kind.INTEGER, Role.LEVEL),
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("age", Kind.INTEGER, bounds=(0, 120)),
    ]
    condenser = Condenser(columns=columns, random_state=0).fit(table)
    assert (condenser.levels_ == 4).all()
    assert condenser.sample().columns == ["age", "income", "city", "member", "score", "since"]


@pytest.mark.slow
def test_records_of_level_one_may_be_released_as_they_are_and_are_counted():
    X = np.vstack([_numbers(20), [[1e4, 1e4, 1e4]]])
    levels = np.array([4] * 20 + [1])
    columns = [Column(f"x{i}", Kind.DECIMAL, bounds=(-1e5, 1e5)) for i in range(3)]
    condenser = Condenser(synthesis="uniform", columns=columns, random_state=0)
    with pytest.warns(PrivacyWarning) as warned:
        condenser.fit(X, levels=levels)
    assert str(warned[0].message).startswith("1 record ")
    assert condenser.n_verbatim_ == 1
    assert condenser.level_summary_[0] == (1, 1, 1)
    assert (np.abs(condenser.sample() - X[-1]) < 1e-6).all(axis=1).sum() == 1


def test_records_that_ask_too_much_are_withheld_on_request():
    X, levels = _numbers(20), np.full(20, 5)
    levels[:2] = 100
    condenser = Condenser(on_infeasible="suppress", random_state=0).fit(X, levels=levels)
    assert condenser.n_suppressed_ == 2
    assert condenser.counts_.sum() == len(condenser.sample()) == 18
    assert condenser.notes_[0].startswith("2 records ")


def test_withholding_some_may_leave_too_few_for_others():
    X = _numbers(10)
    levels = np.array([11, 10, 9, 2, 2, 2, 2, 2, 2, 2])
    condenser = Condenser(on_infeasible="suppress", random_state=0).fit(X, levels=levels)
    assert condenser.n_suppressed_ == 3
    with pytest.raises(PrivacyError):
        Condenser(on_infeasible="suppress").fit(X, levels=np.full(10, 11))


# -- merging, storing, failing closed ---------------------------------------------------------


@pytest.mark.slow
def test_merge_puts_groups_side_by_side():
    first, second = (
        Condenser(k=k, synthesis="uniform", random_state=0).fit(table)
        for k, table in ((10, _numbers(100, seed=1)), (5, _numbers(60, seed=2) * 3))
    )
    merged = first.merge(second)
    np.testing.assert_allclose(merged.means_, np.vstack([first.means_, second.means_]))
    np.testing.assert_allclose(
        merged.covariances_, np.concatenate([first.covariances_, second.covariances_])
    )
    assert merged.level_summary_ == first.level_summary_[:0] + [
        *second.level_summary_,
        *first.level_summary_,
    ]
    assert len(merged.sample()) == 160
    assert merged.sample().max() > first.sample().max()
    assert len(first.sample()) == 100  # unchanged


@pytest.mark.slow
def test_merge_wants_the_same_columns():
    first = Condenser(k=5, random_state=0).fit(_numbers(50, 3))
    with pytest.raises(DataError):
        first.merge(Condenser(k=5, random_state=0).fit(_numbers(50, 2)))


@pytest.mark.slow
def test_merged_condensers_draw_anew():
    first = Condenser(k=10, random_state=0).fit(_numbers(100, seed=1))
    second = Condenser(k=10, random_state=0).fit(_numbers(100, seed=1))
    merged = first.merge(second)
    half = merged.sample(100)
    assert not np.isin(np.round(first.sample(), 6), np.round(half, 6)).any()


@pytest.mark.slow
def test_merge_refuses_what_cannot_be_joined():
    whole = np.arange(100).reshape(50, 2)
    first = Condenser(k=5, random_state=0).fit(whole.astype(np.int8))
    with pytest.raises(DataError, match="'x0'"):
        first.merge(Condenser(k=5, random_state=0).fit(whole * 1000))
    days = pl.datetime_range(dt.datetime(2020, 1, 1), dt.datetime(2020, 2, 9), eager=True).alias(
        "t"
    )
    parts = [
        Condenser(k=5, random_state=0).fit(pl.DataFrame(days.cast(pl.Datetime(unit))))
        for unit in ("ms", "us")
    ]
    with pytest.raises(DataError, match="'t'"):
        parts[0].merge(parts[1])
    with pytest.raises(ParameterError, match="itself"):
        first.merge(first)
    with pytest.raises(ParameterError, match="ClassCondenser"):
        first.merge(ClassCondenser())
    papers = Condenser(k=5, synthesis="uniform", random_state=0)
    vast = clone(papers).fit(_numbers(50) * 1e200)
    with pytest.raises(DataError):
        vast.merge(clone(papers).fit(_numbers(50)))


@pytest.mark.slow
def test_merged_shapes_draw_from_both_tables():
    first = Condenser(k=10, random_state=0).fit(_numbers(100, seed=1))
    second = Condenser(k=5, random_state=0).fit(_numbers(60, seed=2) * 3)
    merged = first.merge(second)
    assert merged.counts_.sum() == len(merged.sample()) == 160
    assert merged.sample().max() > first.sample().max()
    assert merged.rests_on_["a stretch of numbers"] == 5


@pytest.mark.parametrize("synthesis", ["shape", "uniform"])
def test_a_broken_guarantee_releases_nothing(synthesis):
    condenser = Condenser(k=10, synthesis=synthesis, random_state=0).fit(_numbers())
    condenser.groups_.people[0] = 3
    with pytest.raises(PrivacyError, match="1 of"):
        condenser.sample()


def test_a_leaf_of_too_few_people_releases_nothing():
    condenser = Condenser(k=10, random_state=0).fit(_numbers())
    [table] = condenser._synthesis.tables
    tree = replace(table.model.forests[0].trees[0], fewest=3)
    table.model.forests[0] = Forest((tree,))
    with pytest.raises(PrivacyError, match="leaf"):
        condenser.sample()


def test_the_fitted_state_holds_no_row_label_or_row_number():
    X = _numbers()
    condenser = Condenser(k=10, random_state=0).fit(X)
    stored = pickle.dumps(condenser)
    assert not any(row.tobytes() in stored for row in X)
    assert not hasattr(condenser, "labels_")
    np.testing.assert_array_equal(pickle.loads(stored).sample(), condenser.sample())


@pytest.mark.slow
@pytest.mark.parametrize(
    "k, words", [(10, ""), (20, "at most 3 ways"), (40, "no column of the release depends")]
)
def test_a_table_that_is_small_beside_k_says_what_is_lost(k: int, words: str) -> None:
    """Leaves of 2 k people: 120 people make 6 of them, 3, or a single one."""
    x = np.random.default_rng(0).normal(size=120)
    table = pl.DataFrame({"x": x, "y": 2 * x + np.random.default_rng(1).normal(0, 0.3, 120)})
    said = [n for n in Condenser(k, random_state=0).fit(table).notes_ if "small for k" in n]
    assert bool(said) == bool(words)
    assert all(words in note for note in said)
    classes = np.arange(120) % 2
    by_class = ClassCondenser(k=k, random_state=0).fit(table, classes)
    assert [n for n in by_class.notes_ if "small for k" in n] == said
    papers = Condenser(k, synthesis="uniform", random_state=0).fit(table)
    assert not any("small for k" in note for note in papers.notes_)  # which has no leaves


def test_notes_say_what_the_table_did():
    table = pd.DataFrame(
        {
            "a": np.arange(40) % 7,
            "same": 1,
            "gone": [np.nan] * 40,
            "word": ["x"] * 38 + ["rare", "rare"],
        }
    )
    condenser = Condenser(k=10, random_state=0).fit(table)
    text = " | ".join(condenser.notes_)
    assert "column 'same' has a single value" in text
    assert "column 'gone' has no values" in text
    assert "column 'word': values held by too few people" in text
    released = condenser.sample()
    assert (released["same"] == 1).all()
    assert released["gone"].isna().all()


@pytest.mark.slow
def test_merged_tables_keep_the_shape_of_both():
    first, second = _table(200, seed=1), _table(100, seed=2)
    merged = Condenser(k=5, random_state=0).fit(first)
    merged = merged.merge(Condenser(k=5, random_state=0).fit(second))
    released = merged.sample()
    assert released.schema == first.schema
    assert released.height == 300
    assert released["age"].mean() == pytest.approx(pl.concat([first, second])["age"].mean(), abs=4)


@pytest.mark.slow
def test_the_default_keeps_heaps_zeros_codes_and_missing_values():
    rng = np.random.default_rng(0)
    n = 2_000
    age = rng.integers(0, 90, n)
    hours = np.where(rng.random(n) < 0.5, 40, np.round(rng.normal(38, 9, n))).astype(int)
    income = np.where(age < 15, np.nan, np.where(rng.random(n) < 0.3, 0, rng.lognormal(9, 1, n)))
    income = np.round(income, 2)
    table = pl.DataFrame(
        {
            "age": age,
            "hours": hours,
            "income": pl.Series(income).fill_nan(None),
            "town": rng.choice(["Bern", "Chur", "Sion", "rare"], n, p=[0.6, 0.3, 0.098, 0.002]),
        }
    )
    released = Condenser(k=20, random_state=0).fit_resample(table)
    assert released.schema == table.schema
    assert (released["hours"] == 40).mean() == pytest.approx((hours == 40).mean(), abs=0.04)
    zero = (released["income"] == 0).fill_null(value=False).mean()
    assert zero == pytest.approx((income == 0).mean(), abs=0.04)
    assert (released["income"].is_null() == (released["age"] < 15)).mean() > 0.98
    assert "rare" not in released["town"]
    own = set(table["income"].drop_nulls().to_list()) - {0.0}
    assert len(own & set(released["income"].drop_nulls().to_list())) < 30  # by chance, to the cent
    assert released["age"].max() <= 92  # the end of the last block, not the oldest person


@pytest.mark.slow
def test_words_among_numbers_are_states_and_never_averaged():
    rng = np.random.default_rng(0)
    income = np.round(rng.lognormal(9, 1, 2_000), 1)
    texts = [f"{value:.1f}" if rng.random() > 0.3 else "N" for value in income]
    table = pl.DataFrame({"income": texts, "age": rng.integers(18, 90, 2_000)})
    released = Condenser(k=20, random_state=0).fit_resample(table)
    words = released["income"].filter(~released["income"].str.contains(r"^[0-9]+\.[0-9]$"))
    assert set(words) == {"N"}
    assert len(words) / 2_000 == pytest.approx(texts.count("N") / 2_000, abs=0.04)
    numbers = released["income"].cast(pl.Float64, strict=False).drop_nulls()
    assert numbers.min() >= 0
    assert numbers.median() == pytest.approx(np.median(income), rel=0.15)


@pytest.mark.slow
def test_exact_moments_of_singular_groups_are_refused():
    wide = np.random.default_rng(0).normal(size=(200, 12))
    with pytest.raises(PrivacyError) as refused:
        Condenser(k=5, exact_moments=True, random_state=0).fit(wide)
    assert refused.value.parameter == "exact_moments"


@pytest.mark.slow
def test_merge_joins_tables_with_other_categories_and_missing_states():
    first = _table(100, seed=1).with_columns(pl.col("score").fill_null(0.0))
    second = _table(80, seed=2).with_columns(
        pl.col("city").cast(pl.String).replace("Chur", "Davos").cast(pl.Categorical)
    )
    papers = Condenser(k=5, synthesis="uniform", random_state=0)
    with pytest.warns(PrivacyWarning, match="groups"):  # small ones in many dimensions
        merged = clone(papers).fit(first).merge(clone(papers).fit(second))
    released = merged.sample()
    both = pl.concat([first, second])
    assert released.schema == both.schema
    for name in ("city", "member"):
        counts = [
            frame[name].cast(pl.String).value_counts().sort(name) for frame in (both, released)
        ]
        assert_frame_equal(*counts)
    assert released["score"].null_count() == both["score"].null_count()
    assert released["age"].mean() == pytest.approx(both["age"].mean(), abs=2)
