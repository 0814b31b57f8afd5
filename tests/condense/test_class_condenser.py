"""ClassCondenser: no group mixes classes, and small classes never slip through."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import ClassCondenser, Condenser
from tulle.condense import approximate_gcd
from tulle.condense.groupings import group_records
from tulle.errors import DataError, PrivacyError
from tulle.table.schema import Column, Kind, Role


def _labelled(sizes=(60, 40), seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(y), 3)) + 10 * y[:, None], y


def test_approximate_gcd_of_the_paper():
    assert approximate_gcd([15, 10], 5) == 5
    assert approximate_gcd([1001, 501], 20) == 500


@pytest.mark.guarantee
@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(1, 20))
def test_approximate_gcd_fits_every_class(sizes, t):
    if min(sizes) < t:
        with pytest.raises(PrivacyError, match=f"fewer than t={t}"):
            approximate_gcd(sizes, t)
        return
    k = approximate_gcd(sizes, t)
    assert k % t == 0
    assert t <= k <= min(sizes)
    assert all(size % k < t for size in sizes)


@pytest.mark.slow
def test_no_group_mixes_classes():
    X, y = _labelled()
    condenser = ClassCondenser(Condenser(synthesis="uniform"), k=8, random_state=0)
    X_new, y_new = condenser.fit_resample(X, y)
    assert condenser.counts_.min() >= 8
    assert condenser.class_counts_.tolist() == [60, 40]
    assert np.bincount(y_new).tolist() == [60, 40]
    # classes lie far apart: a label that does not belong to its record would show
    np.testing.assert_array_equal(X_new.mean(axis=1) > 5, y_new == 1)


@pytest.mark.slow
def test_classes_keep_their_shape_and_about_their_number():
    X, y = _labelled((600, 400))
    condenser = ClassCondenser(k=8, random_state=0)
    X_new, y_new = condenser.fit_resample(X, y)
    assert condenser.counts_.min() >= 8
    assert ((X_new.mean(axis=1) > 5) == (y_new == 1)).mean() > 0.99
    assert abs(int((y_new == 0).sum()) - 600) < 80
    assert (y_new == 0).sum() != 600  # not exactly: two releases must not tell who came


def test_scales_are_those_of_the_whole_table():
    X, y = _labelled()
    papers = Condenser(synthesis="uniform")
    condenser = ClassCondenser(papers, k=20, random_state=0).fit(X, y)
    weights = condenser.counts_[:, None]
    within = (np.einsum("gii->gi", condenser.covariances_) * weights).sum(axis=0) / X.var(axis=0)
    assert condenser.information_loss_ == pytest.approx(100 * within.sum() / X.size)
    assert condenser.means_.shape == (len(condenser.counts_), 3)


@pytest.mark.slow
def test_information_loss_of_numbers_whose_squares_overflow():
    X, y = _labelled()
    usual = ClassCondenser(k=10, random_state=0).fit(X, y).information_loss_
    vast = ClassCondenser(k=10, random_state=0).fit(X * [1e-200, 1e200, 1], y).information_loss_
    assert vast == pytest.approx(usual, rel=1e-6)


def test_what_holds_for_the_whole_table_is_noted_once():
    X, y = _labelled()
    table = pl.DataFrame({"a": X[:, 0], "same": [1] * len(X), "name": [f"p{i}" for i in y]})
    columns = [Column("name", Kind.TEXT, Role.IDENTIFIER)]
    notes = ClassCondenser(Condenser(k=10, columns=columns), random_state=0).fit(table, y).notes_
    assert notes.count("column 'same' has a single value, which the release shows") == 1


def test_classes_share_the_time_budget(monkeypatch: pytest.MonkeyPatch):
    X, y = _labelled((60, 40))
    budgets = []

    def group(points, levels, rng, *, method, time_budget):
        budgets.append(time_budget)
        return group_records(points, levels, rng)

    monkeypatch.setattr("tulle.condense._grouping.group_records", group)
    condenser = Condenser(k=10, synthesis="uniform", grouping="best", time_budget=0.1)
    ClassCondenser(condenser, random_state=0).fit(X, y)
    assert budgets == pytest.approx([0.06, 0.04])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_matrix_is_an_array():
    X, y = _labelled()
    X_new, _ = ClassCondenser(k=10, random_state=0).fit_resample(np.asmatrix(X), y)
    assert X_new.shape == X.shape


@pytest.mark.slow
def test_group_size_by_default_is_the_approximate_gcd():
    X, y = _labelled((63, 42))
    assert ClassCondenser(random_state=0).fit(X, y).k_ == 20
    assert ClassCondenser(min_group=21, random_state=0).fit(X, y).k_ == 21
    assert ClassCondenser(Condenser(k=7), random_state=0).fit(X, y).k_ == 7
    assert ClassCondenser(Condenser(k=7), min_group=21, random_state=0).fit(X, y).k_ == 21
    assert ClassCondenser(Condenser(k=7), k=9, random_state=0).fit(X, y).k_ == 9


def test_the_wrapped_condenser_gives_the_rest():
    X, y = _labelled()
    inner = Condenser(synthesis="mean", grouping="mdav")
    X_new, _ = ClassCondenser(inner, k=10, random_state=0).fit_resample(X, y)
    assert len(np.unique(X_new.round(9), axis=0)) <= 10
    assert not hasattr(inner, "counts_")


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array([False, True]),
        np.array([1.0, 2.0]),
        pd.Series(["no", "yes"], name="y"),
        pd.Series(pd.Categorical(["no", "yes"], categories=["yes", "no", "never"]), name="y"),
        pl.Series("y", ["no", "yes"], dtype=pl.Enum(["yes", "no"])),
    ],
)
def test_labels_of_any_type_come_back(labels):
    X, y = _labelled((30, 20))
    given_labels = labels.take(y) if isinstance(labels, np.ndarray) else labels[y.tolist()]
    if isinstance(labels, pd.Series):
        given_labels = given_labels.reset_index(drop=True)
    papers = Condenser(synthesis="uniform")
    _, y_new = ClassCondenser(papers, k=10, random_state=0).fit_resample(X, given_labels)
    _, drawn = ClassCondenser(k=10, random_state=0).fit_resample(X, given_labels)
    assert type(drawn) is type(y_new) is type(labels)
    assert drawn.dtype == y_new.dtype == labels.dtype
    assert set(np.asarray(drawn).tolist()) == set(np.asarray(given_labels).tolist())
    assert sorted(np.asarray(y_new).tolist()) == sorted(np.asarray(given_labels).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow", "batch", "array", "list"])
def test_the_same_kind_of_table_comes_out(kind):
    X, y = _labelled()
    frame = pl.DataFrame({"a": X[:, 0], "w": np.where(X[:, 1] > 5, "high", "low")})
    table = {
        "polars": frame,
        "pandas": frame.to_pandas(),
        "arrow": frame.to_arrow(),
        "batch": frame.to_arrow().combine_chunks().to_batches()[0],
        "array": X,
        "list": X.tolist(),
    }[kind]
    X_new, _ = ClassCondenser(k=10, random_state=0).fit_resample(table, y)
    assert type(X_new) is type(table)
    assert len(X_new) == len(table)


@pytest.mark.slow
def test_levels_are_met_in_every_class():
    X, y = _labelled()
    levels = np.random.default_rng(0).integers(2, 12, 100)
    condenser = ClassCondenser(random_state=0).fit(X, y, levels=levels)
    assert condenser.k_ is None
    assert (condenser.counts_ >= condenser.levels_).all()
    assert sum(entry.records for entry in condenser.level_summary_) == 100


def test_small_classes_stop_the_release_by_default():
    X, y = _labelled((50, 4, 3))
    with pytest.raises(PrivacyError, match="2 of 3 classes.*k=10.*has 3.*'pool'"):
        ClassCondenser(k=10).fit(X, y)
    with pytest.raises(PrivacyError, match="min_group=10"):
        ClassCondenser().fit(X, y)
    with pytest.raises(PrivacyError):
        ClassCondenser().fit(X, y, levels=np.full(57, 5))


def test_small_classes_are_withheld_on_request():
    X, y = _labelled((50, 4, 3))
    condenser = ClassCondenser(k=10, small_classes="suppress", random_state=0)
    _, y_new = condenser.fit_resample(X, y)
    assert set(y_new) == {0}
    assert condenser.n_suppressed_ == 7
    assert condenser.class_counts_.tolist() == [50, 0, 0]
    assert condenser.notes_[0].startswith("7 records ")
    with pytest.raises(PrivacyError):
        ClassCondenser(k=60, small_classes="suppress").fit(X, y)


@pytest.mark.slow
def test_records_that_ask_too_much_are_withheld_and_their_class_stays():
    X, y = _labelled((50, 30))
    levels = np.full(80, 5)
    levels[-2:] = 40
    with pytest.raises(PrivacyError, match="1 of 2 classes"):
        ClassCondenser().fit(X, y, levels=levels)
    inner = Condenser(on_infeasible="suppress")
    condenser = ClassCondenser(inner, random_state=0).fit(X, y, levels=levels)
    assert condenser.n_suppressed_ == 2
    assert condenser.class_counts_.tolist() == [50, 28]


@pytest.mark.slow
def test_small_classes_are_pooled_on_request():
    X, y = _labelled((50, 6, 5, 30))
    condenser = ClassCondenser(k=10, small_classes="pool", random_state=0)
    _, y_new = condenser.fit_resample(X, y)
    assert np.bincount(y_new, minlength=4).sum() == 91
    np.testing.assert_allclose(np.bincount(y_new, minlength=4), [50, 6, 5, 30], atol=20)
    assert condenser.counts_.min() >= 10
    assert condenser.n_suppressed_ == 0
    assert len(condenser.counts_) == 3
    papers = ClassCondenser(
        Condenser(synthesis="uniform"), k=10, small_classes="pool", random_state=0
    )
    assert sorted(set(papers.fit(X, y).group_classes_.tolist())) == [-1, 0, 3]


@pytest.mark.slow
def test_a_pool_that_is_too_small_takes_the_next_class():
    X, y = _labelled((50, 4, 30))
    condenser = ClassCondenser(k=10, small_classes="pool", random_state=0)
    _, y_new = condenser.fit_resample(X, y)
    np.testing.assert_allclose(np.bincount(y_new, minlength=3), [50, 4, 30], atol=20)
    assert len(condenser.counts_) == 2
    with pytest.raises(PrivacyError):
        ClassCondenser(k=100, small_classes="pool").fit(X, y)


@pytest.mark.slow
def test_sample_takes_a_number_of_records_in_proportion():
    X, y = _labelled((75, 25))
    condenser = ClassCondenser(Condenser(synthesis="uniform"), k=5, random_state=0).fit(X, y)
    _, y_new = condenser.sample(40)
    assert np.bincount(y_new).tolist() == [30, 10]
    assert len(condenser.sample(1)[1]) == 1


@pytest.mark.slow
def test_the_seed_of_the_condenser_counts_too():
    X, y = _labelled()
    first, again = (
        ClassCondenser(Condenser(k=10, random_state=4)).fit_resample(X, y)[0] for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_release_in_no_order():
    X, y = _labelled((200, 200))
    first, second = (ClassCondenser(k=5, random_state=3).fit_resample(X, y) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert abs(np.corrcoef(first[1], np.arange(400))[0, 1]) < 0.2


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, "requires y"),
        (np.zeros(99), "99 entries.*has 100"),
        ([None] + ["a"] * 99, "1 record"),
        (np.r_[np.nan, np.zeros(99)], "1 record"),
        (np.linspace(0, 1, 100), "100 different.*100 records"),
    ],
)
def test_labels_that_are_none_get_a_clear_word(y, words):
    X, _ = _labelled()
    with pytest.raises(DataError, match=words):
        ClassCondenser(k=5).fit(X, y)
