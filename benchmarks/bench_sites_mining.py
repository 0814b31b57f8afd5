"""The paper's experiment: Adult at three sites, mined plain and encoded, five miners."""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from sklearn.metrics import adjusted_rand_score
from sklearn.tree import export_text

from benchmarks.results import data_folder, write_table
from tests.reference import sites_miners as miners
from tulle import SiteAgreement, SiteCodec, SiteSummary, read_table

TARGET = "marital-status"
COLUMNS = [
    "age", "workclass", "education", TARGET, "occupation", "relationship", "race", "sex",
    "hours-per-week", "native-country",
]  # fmt: skip
SEED = 0


def adult(quick: bool) -> pl.DataFrame:
    """The paper's attributes of Adult, and the weekly hours."""
    table = read_table(data_folder() / "tables" / "adult_train.csv.gz")
    return table.select(COLUMNS).head(3000 if quick else len(table))


def unions(table: pl.DataFrame, cuts: str) -> tuple[pl.DataFrame, SiteCodec]:
    """The encoded union of three sites of unequal size, and a site that can read all of it."""
    order = np.random.default_rng(SEED).permutation(len(table))
    ends = [0, len(table) // 5, len(table) // 2, len(table)]
    parts = [table[order[start:end]] for start, end in pairwise(ends)]
    agreement = SiteAgreement.from_summaries([SiteSummary.of(part) for part in parts], cuts=cuts)
    encoded = pl.concat([SiteCodec(agreement).transform(part) for part in parts])
    return encoded[np.argsort(order)], SiteCodec(agreement).learn(table)


def mine(union: pl.DataFrame) -> dict[str, Any]:
    """Everything that is compared."""
    tested = 2000
    return {
        "rules": miners.rules(union, 0.1, 0.91),
        "tree": miners.tree(union, TARGET, folds=5),
        "naive Bayes": miners.naive_bayes(union, TARGET),
        "k-NN": miners.neighbours(union, TARGET, tested=tested),
        "k-means": miners.clusters(union, TARGET),
    }


def compare(plain: dict[str, Any], coded: dict[str, Any], codec: SiteCodec) -> list[list[Any]]:
    """One row a measure: plain, encoded, equal or not."""
    rows = [
        ["Apriori: rules (support 10 %, confidence 0.91)", len(plain["rules"]), len(coded["rules"]),
         _yes(len(plain["rules"]) == len(coded["rules"]))],
        ["Apriori: decoded rules, with counts", "", "",
         _yes(codec.decode_rules(coded["rules"]) == plain["rules"])],
    ]  # fmt: skip
    before, after = plain["tree"], coded["tree"]
    rows += [
        ["decision tree: accuracy", before.accuracy, after.accuracy,
         _yes(before.accuracy == after.accuracy)],
        ["decision tree: confusion matrix", "", "", _yes(before.confusion == after.confusion)],
        ["decision tree: leaf of each record", "", "",
         _yes(bool((before.leaves == after.leaves).all()))],
        ["decision tree: decoded text", "", "", _yes(_text(before) == _decoded(after, codec))],
    ]  # fmt: skip
    for name in ("naive Bayes", "k-NN"):
        rows += [
            [f"{name}: accuracy", plain[name][0], coded[name][0],
             _yes(plain[name][0] == coded[name][0])],
            [f"{name}: confusion matrix", "", "", _yes(plain[name][1] == coded[name][1])],
        ]  # fmt: skip
    (sse, labels), (coded_sse, coded_labels) = plain["k-means"], coded["k-means"]
    same = miners.same_up_to_names(labels, coded_labels)
    agreement = "yes" if same else f"no (ARI {adjusted_rand_score(labels, coded_labels):.3f})"
    rows += [
        ["k-means: sum of squared errors", sse, coded_sse, _yes(abs(sse / coded_sse - 1) < 1e-9)],
        ["k-means: cluster of each record", "", "", agreement],
    ]  # fmt: skip
    return rows


def main(quick: bool = False) -> None:
    table = adult(quick)
    plain = mine(table)
    columns = []
    for cuts in ("equal", "uneven"):
        encoded, codec = unions(table, cuts)
        assert codec.inverse_transform(encoded).equals(table)
        columns.append(compare(plain, mine(encoded), codec))
    rows = [
        [equal[0], equal[1], equal[2], equal[3], uneven[2], uneven[3]]
        for equal, uneven in zip(*columns)
    ]
    write_table(
        "sites_mining",
        f"Adult at three sites: {len(table):,} records, plain and encoded unions",
        ["what is mined", "plain", "encoded, equal cuts", "equal", "encoded, uneven cuts", "equal"],
        rows,
        notes="All columns are encoded; marital status is the class. Equal cuts are a straight "
        "line of the numbers: every miner finds the same. Uneven cuts keep the order only: rules, "
        "and the tree on the records it was grown from, are the same; distances, means and "
        "thresholds between two values are not. Features are taken in order of appearance, and "
        "distances to nine decimals, so that ties fall alike.",
        packages=("numpy", "scikit-learn", "mlxtend", "polars"),
        seed=SEED,
        quick=quick,
    )


def _text(tree: Any) -> str:
    return str(export_text(tree.fitted, feature_names=tree.features, class_names=tree.classes))


def _decoded(tree: Any, codec: SiteCodec) -> str:
    return codec.decode_tree(tree.fitted, feature_names=tree.features, class_names=tree.classes)


def _yes(equal: bool) -> str:
    return "yes" if equal else "no"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
