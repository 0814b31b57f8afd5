from __future__ import annotations

import inspect
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from mlxtend.frequent_patterns import association_rules as mlxtend_rules
from mlxtend.frequent_patterns import fpgrowth
from scipy import sparse

from tests.reference import rules as slow
from tests.rules.test_best import shop
from tulle import Rule, RuleHider
from tulle._choices import HIDING_METHODS as METHODS
from tulle.errors import DataError, ParameterError, PrivacyError, PrivacyWarning
from tulle.rules import choose_rules, hider, read_rules
from tulle.rules import hider as verification

BASKETS = shop(0)
LIMITS: dict[str, Any] = {"min_support": 12, "min_confidence": 0.5}
REMOVING = [method for method in METHODS if method not in ("algo1a", "blocking")]


def mined(baskets: list[list[Any]]) -> set[tuple[frozenset[Any], frozenset[Any]]]:
    """Rules at the thresholds, by an independent miner."""
    every = sorted({item for basket in baskets for item in basket})
    wide = pd.DataFrame([[item in basket for item in every] for basket in baskets], columns=every)
    frequent = fpgrowth(wide, min_support=12 / len(baskets), use_colnames=True)
    found = mlxtend_rules(frequent, metric="confidence", min_threshold=0.5)
    return set(zip(found["antecedents"], found["consequents"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("method", METHODS)
def test_an_independent_miner_does_not_find_the_rules(method: str) -> None:
    rules = choose_rules(BASKETS, 4, **LIMITS, random_state=8)
    secret = {(frozenset(rule.antecedent), frozenset(rule.consequent)) for rule in rules}
    assert secret <= mined(BASKETS)
    one = RuleHider(rules, method=method, random_state=0, **LIMITS)
    released = one.fit_transform(BASKETS)
    sure = [[item for item in basket if isinstance(item, int)] for basket in released]
    assert not secret & mined(sure)
    assert one.hiding_failure_ == 0
    touched = sum(set(old) != set(new) for old, new in zip(BASKETS, released))
    assert one.n_transactions_touched_ == touched
    assert one.n_transactions_ == len(BASKETS)
    for line in one.report_:
        assert line["support_after"] < 12 / 400 or line["confidence_after"] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", REMOVING)
def test_measures_are_those_of_the_definition(method: str) -> None:
    rules = choose_rules(BASKETS, 3, **LIMITS, random_state=2)
    one = RuleHider(rules, method=method, random_state=0, **LIMITS)
    released = [set(basket) for basket in one.fit_transform(BASKETS)]
    old = [set(basket) for basket in BASKETS]
    before = slow.rules(old, 12, 0.5, 1)
    after = slow.rules(released, 12, 0.5, 1)
    secret = {(frozenset(rule.antecedent), frozenset(rule.consequent)) for rule in rules}
    misses, ghosts = slow.measures(before, after, secret)
    assert one.misses_cost_ == pytest.approx(misses)
    assert one.artifactual_ == pytest.approx(ghosts)
    wholes = [a | b for a, b in secret]
    free = {r for r in before if not any(w <= r[0] | r[1] for w in wholes)}
    avoidable = slow.measures(dict.fromkeys(free, 1), after, secret)[0]
    assert one.misses_cost_avoidable_ == pytest.approx(avoidable)
    gone = sum(len(a - b) for a, b in zip(old, released))
    assert one.dif_ == pytest.approx(gone / sum(map(len, old)))


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("algo1a", "best")])
def test_disclosure_without_thresholds(method: str) -> None:
    one = RuleHider(["0 -> 1"], method=method, disclosure=0.25, interval="lower", random_state=0)
    one.fit_transform(BASKETS)
    line = one.report_[0]
    assert line["count_after"] <= line["count_before"] // 4
    assert one.hiding_failure_ is one.misses_cost_ is one.artifactual_ is None


@pytest.mark.slow
def test_thresholds_of_single_rules() -> None:
    rules = [Rule("0 -> 1", disclosure=1.0), Rule("3 -> 4", min_support="1%", min_confidence=0.2)]
    one = RuleHider(rules, random_state=0, **LIMITS)
    one.fit_transform(BASKETS)
    free, strict = one.report_
    assert free["count_after"] > 12
    assert strict["count_after"] < 4 or strict["confidence_after"] < 0.2


@pytest.mark.slow
def test_margin() -> None:
    one = RuleHider(["0 -> 1"], margin=0.5, random_state=0, **LIMITS)
    one.fit_transform(BASKETS)
    assert one.report_[0]["count_after"] < 6 or one.report_[0]["confidence_after"] < 0.25


# --- the kind given is the kind given back -----------------------------------------------------


def as_sets(baskets: Any) -> list[set[Any]]:
    return [set(basket) for basket in baskets]


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("method", ["minfia", "algo1a"])
def test_same_kind_out(method: str) -> None:
    width = 9
    matrix = np.zeros((len(BASKETS), width), dtype=np.int8)
    for row, basket in enumerate(BASKETS):
        matrix[row, basket] = 1
    one = RuleHider(["0, 2 -> 1"], method=method, margin=0, random_state=0, **LIMITS)
    dense = one.fit_transform(matrix)
    assert dense.dtype == np.int8
    assert not np.array_equal(dense, matrix)
    for made in (sparse.csr_array(matrix), sparse.csc_matrix(matrix), sparse.coo_array(matrix)):
        out = one.fit_transform(made)
        assert type(out) is type(made)
        assert out.dtype == np.int8
        assert np.array_equal(out.toarray(), dense)
    names = [str(code) for code in range(width)]
    wide = pl.DataFrame(matrix, schema=names)
    out = one.fit_transform(wide)
    assert out.schema == wide.schema
    assert np.array_equal(out.to_numpy(), dense)
    flags = pd.DataFrame(matrix.astype(bool), columns=names, index=np.arange(len(BASKETS)) + 7)
    out = one.fit_transform(flags)
    assert set(out.dtypes.astype(str)) == {"bool"}
    assert out.index.equals(flags.index)
    assert np.array_equal(out.to_numpy(), dense)
    pairs = [(f"t{row}", item) for row, basket in enumerate(BASKETS) for item in basket]
    for long in (
        pl.DataFrame(pairs, schema=["till", "what"], orient="row"),
        pd.DataFrame(pairs, columns=["till", "what"]),
    ):
        out = one.fit_transform(long)
        assert type(out) is type(long)
        rebuilt: dict[str, set[int]] = {f"t{row}": set() for row in range(len(BASKETS))}
        for till, what in zip(out["till"], out["what"]):
            rebuilt[till].add(what)
        assert list(rebuilt.values()) == [set(np.flatnonzero(row).tolist()) for row in dense]


@pytest.mark.slow
def test_lists_keep_their_types_and_order() -> None:
    data: list[Any] = [("b", "a", "c"), ["a", "b"], {"a", "b"}, frozenset("ab"), ("z", "a"), ["z"]]
    out = RuleHider(["a -> b"], min_support=1, random_state=0).fit_transform(data)
    assert [type(basket) for basket in out] == [type(basket) for basket in data]
    assert out[0] in (("b", "c"), ("a", "c"))
    assert out[4] == ("z", "a")


@pytest.mark.slow
def test_series_of_lists_come_back_as_they_came() -> None:
    rows = [["b", "a"], ["a", "b", "c"], ["z"]]
    array = np.empty(3, dtype=object)
    array[:] = rows
    for data in (
        tuple(rows),
        array,
        pd.Series(rows, index=[7, 8, 9], name="baskets"),
        pl.Series("baskets", rows),
    ):
        for shuffle in (False, True):
            one = RuleHider(["a -> b"], min_support=1, shuffle=shuffle, random_state=0)
            out = one.fit_transform(data)
            assert type(out) is type(data)
            assert sum(len(basket) for basket in out) == 4
    assert list(one.set_params(shuffle=False).fit_transform(pd.Series(rows, [7, 8, 9])).index) == [
        7, 8, 9,
    ]  # fmt: skip


def test_blocking_in_every_container() -> None:
    data = [["a", "b"], ["a", "b", "c"], ["a", "c"], ["c"], ["b"], ["a", "b"]]
    lower = {"method": "blocking", "interval": "lower", "min_support": 2, "random_state": 0}
    one = RuleHider(["a -> b"], **lower)
    lists = one.fit_transform(data)
    marked = {item for basket in lists for item in basket if item.endswith("?")}
    assert marked in ({"a?"}, {"b?"})
    frame = pl.DataFrame({n: [int(n in basket) for basket in data] for n in "abc"})
    assert one.fit_transform(frame).null_count().sum_horizontal().item() == 4
    numbered = RuleHider(["0 -> 1"], **lower)
    assert np.isnan(numbered.fit_transform(frame.to_numpy())).sum() == 4
    assert np.isnan(numbered.fit_transform(sparse.csr_array(frame.to_numpy())).data).sum() == 4
    assert one.fit_transform(frame.to_pandas()).isna().to_numpy().sum() == 4
    pairs = [(row, item) for row, basket in enumerate(data) for item in basket]
    long = one.fit_transform(pl.DataFrame(pairs, schema=["id", "item"], orient="row"))
    assert long["unknown"].sum() == 4


def test_shuffle_is_the_same_baskets_in_another_order() -> None:
    def release(data: Any, shuffle: bool = True) -> Any:
        one = RuleHider(["0 -> 1"], method="minfia", shuffle=shuffle, random_state=0, **LIMITS)
        return one.fit_transform(data)

    plain, mixed = release(BASKETS, shuffle=False), release(BASKETS)
    assert plain != mixed
    assert sorted(plain) == sorted(mixed)
    wide = pl.DataFrame({str(n): [n in basket for basket in BASKETS] for n in range(9)})
    assert release(wide).height == len(BASKETS)
    array = sparse.csr_array(wide.to_numpy())
    assert release(array).shape == release(array.toarray()).shape == array.shape
    pairs = [(row, item) for row, basket in enumerate(BASKETS) for item in basket]
    long = pl.DataFrame(pairs, schema=["id", "item"], orient="row")
    assert release(long).sort("id", "item").equals(release(long, shuffle=False).sort("id", "item"))


def test_same_seed_same_release_other_seed_other_release() -> None:
    def release(seed: int) -> Any:
        return RuleHider(["0 -> 1"], method="ra", random_state=seed, **LIMITS).fit_transform(
            BASKETS
        )

    assert release(1) == release(1)
    assert release(1) != release(2)


@pytest.mark.slow
def test_nothing_is_kept_of_the_edits() -> None:
    one = RuleHider(["0 -> 1"], random_state=0, **LIMITS)
    one.fit_transform(BASKETS)
    fitted = {name for name in vars(one) if name.endswith("_")}
    assert fitted == {
        "report_", "hiding_failure_", "misses_cost_", "misses_cost_avoidable_", "artifactual_",
        "dif_", "n_transactions_touched_", "n_transactions_",
    }  # fmt: skip


def test_constructor_only_assigns_and_clones() -> None:
    from sklearn.base import clone

    one = RuleHider(["0 -> 1"], method="no such method")
    assert clone(one).get_params()["method"] == "no such method"
    assert "rules" in inspect.signature(RuleHider).parameters


# --- fail closed ------------------------------------------------------------------------------


def test_a_method_that_fails_gives_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from tulle.rules._sensitive import Edits

    monkeypatch.setitem(hider.SIMPLE, "minfia", lambda s, rng: Edits.none(s.baskets))
    with pytest.raises(PrivacyError, match="1 of 1 rule"):
        RuleHider(["0 -> 1"], method="minfia", **LIMITS).fit_transform(BASKETS)


def test_algo1a_warns_and_refuses_disclosure() -> None:
    with pytest.warns(PrivacyWarning):
        RuleHider(["0, 2 -> 1"], method="algo1a", margin=0, **LIMITS).fit_transform(BASKETS)
    with pytest.raises(PrivacyError, match="min_confidence"):
        RuleHider(["0 -> 1"], method="algo1a", disclosure=0).fit_transform(BASKETS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "bset"}, "'best'"),
        ({"window": 0}, "window"),
        ({"window": 2.5}, "window"),
        ({"victim": "basket"}, "victim"),
        ({"disclosure": 1.5}, "disclosure"),
        ({"disclosure": -0.1}, "disclosure"),
        ({"disclosure": "x"}, "disclosure"),
        ({"min_support": 0}, "min_support"),
        ({"min_support": 0.0}, "min_support"),
        ({"min_support": None}, "min_support"),
        ({"min_support": None, "disclosure": 0.1}, "rules"),
        ({"min_confidence": 1.2}, "min_confidence"),
        ({"margin": -1}, "margin"),
        ({"shuffle": 1}, "shuffle"),
        ({"rules": []}, "rule"),
        ({"rules": 3}, "rules"),
        ({"rules": ["a b"]}, "one arrow"),
        ({"rules": ["a -> a"]}, "both sides"),
        ({"rules": ["-> a"]}, "empty"),
        ({"rules": [Rule("0 -> 1", disclosure=2)]}, "disclosure"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], message: str) -> None:
    given = {"rules": ["0 -> 1"], **LIMITS, **options}
    with pytest.raises(ParameterError, match=message):
        RuleHider(**given).fit_transform(BASKETS)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["0 -> wine", "rum -> 1"], "2 items.*'wine'.*'rum'"),
        (["9 -> 8"], "1 rule.*9.*8"),
        (["5 -> 6"], "1 rule.*5.*6"),
    ],
)
def test_rules_that_cannot_be_hidden_are_named(rules: list[str], message: str) -> None:
    data = [[0, 1, 5, 6, 9], [5, 6, 8]]
    with pytest.raises(DataError, match=message):
        RuleHider(rules, min_support=1, min_confidence=0.5).fit_transform(data)


def test_contradictory_wishes_are_explained() -> None:
    data = [["a", "b"]] * 6 + [["a"]] * 2 + [["c"]] * 2
    with pytest.raises(DataError, match="4 baskets.*least 5"):
        RuleHider(
            ["a -> b"], min_support=5, min_confidence=0.6, keep=[["a", "b"]], margin=0
        ).fit_transform(data)
    with pytest.raises(DataError, match="min_support"):
        RuleHider(["a -> b"], min_support=5, keep=[["c"]]).fit_transform(data)
    with pytest.raises(DataError, match="'d'"):
        RuleHider(["a -> b"], min_support=5, keep=[["d"]]).fit_transform(data)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_where_items_are_added_a_rule_can_go_and_its_items_stay_frequent() -> None:
    data = [["w", "x", "y"]] * 3 + [["w", "z"], ["x", "z"], ["w"], ["z"]]
    options: dict[str, Any] = {"min_support": 3, "min_confidence": 0.7, "keep": ["w, x, y"]}
    options["margin"] = 0
    out = RuleHider("w, x -> y", method="algo1a", random_state=0, **options).fit_transform(data)
    assert slow.support(as_sets(out), ["w", "x", "y"]) == 3
    with pytest.raises(DataError, match="at least 3"):
        RuleHider("w, x -> y", **options).fit_transform(data)


@pytest.mark.parametrize("window", [10**18, 2**70])
def test_a_window_larger_than_any_file_is_one_window(window: int) -> None:
    def release(size: int | None) -> Any:
        return RuleHider(
            "0 -> 1", method="swa", window=size, random_state=0, **LIMITS
        ).fit_transform(BASKETS)

    assert release(window) == release(None)


@pytest.mark.slow
def test_kept_itemsets_stay_frequent_with_best_and_are_checked_with_others() -> None:
    data = [["a", "b", "c"]] * 5 + [["a", "b"]] * 3 + [["a"], ["c"], ["b"]] * 3
    options: dict[str, Any] = {"min_support": 5, "min_confidence": 0.5, "random_state": 0}
    released = RuleHider(["a, b -> c"], keep=[["a", "b"]], **options).fit_transform(data)
    assert slow.support(as_sets(released), ["a", "b"]) >= 5
    tight = [["a", "b", "c"]] * 5 + [["c"]] * 6
    with pytest.raises(DataError, match="'best'"):
        RuleHider(["a -> c"], keep=[["a", "b"]], method="minfia", **options).fit_transform(tight)
    out = RuleHider(["a -> c"], keep=[["a", "b"]], **options).fit_transform(tight)
    assert slow.support(as_sets(out), ["a", "b"]) == 5


def test_kept_itemsets_of_a_rules_file_need_thresholds(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("0 -> 1\nkeep: 0\n")
    with pytest.raises(ParameterError):
        RuleHider(path, method="swa", disclosure=0.5).fit_transform(BASKETS)


def test_failure_of_nothing_is_nothing() -> None:
    assert verification.failure([], 2, Fraction(1)) == 0.0


# --- rules as users write them -----------------------------------------------------------------


def test_rules_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(
        "# ours\n0, 2 -> 1\n3 -> 4; confidence=20%; support = 1%\n1 -> 5 ; disclosure=25%\n"
        "keep: 0, 2\n\n"
    )
    found = read_rules(path)
    assert [str(rule) for rule in found.rules] == ["0, 2 -> 1", "3 -> 4", "1 -> 5"]
    assert found.rules[1].min_confidence == "20%"
    assert found.rules[2].disclosure == "25%"
    assert found.keep == [("0", "2")]
    one = RuleHider(str(path), method="swa", random_state=0, **LIMITS)
    assert len(one.fit_transform(BASKETS)) == len(BASKETS)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "rule"), ("a b\n", "line 1"), ("a -> b\nc -> d; suport=1\n", "line 2.*'suport=1'")],
)
def test_bad_rules_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(text)
    with pytest.raises((ParameterError, DataError), match=message):
        read_rules(path)


def test_rules_in_every_form() -> None:
    from tulle import rules as family

    frame = family.association_rules(BASKETS, **LIMITS).head(2)
    forms: list[Any] = ["0 -> 1", Rule([0], [1]), [("0", "1")], [([0], [1])], frame]
    for form in forms:
        RuleHider(form, method="minfia", **LIMITS).fit_transform(BASKETS)
    assert Rule("1 2 -> 3").antecedent == ("1", "2")
    assert Rule("whole milk, bread -> beer").antecedent == ("whole milk", "bread")
    with pytest.raises(ParameterError):
        RuleHider([3], **LIMITS).fit_transform(BASKETS)


def test_scenarios() -> None:
    def items(scenario: str, n: int = 3) -> list[Rule]:
        return choose_rules(BASKETS, n, **LIMITS, scenario=scenario, random_state=0)

    disjoint = [item for rule in items("S1", 2) for item in rule.items]
    assert len(disjoint) == len(set(disjoint))
    sets = as_sets(BASKETS)
    support = {s: [slow.support(sets, rule.items) for rule in items(s)] for s in ("S3", "S4")}
    assert min(support["S3"]) > max(support["S4"])
    assert items("S2") == items("S2")
    with pytest.raises(DataError, match="only"):
        items("S1", 50)
    with pytest.raises(ParameterError, match="scenario"):
        items("S9")


@pytest.mark.parametrize(
    ("rules", "support", "message"), [("", 12, "cannot be read"), (["0 -> 1"], "1/0%", "share")]
)
def test_odd_wishes_have_words(rules: Any, support: Any, message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        RuleHider(rules, min_support=support).fit_transform(BASKETS)
