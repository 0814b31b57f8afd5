"""The experiment of the paper: what miners find in a plain and in an encoded union is the same."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from sklearn.tree import export_text

from tests.reference import sites_miners as miners
from tulle import SiteAgreement, SiteCodec
from tulle.sites import SiteSummary

TARGET = "marital-status"


class Experiment:
    """Three sites, a union that they could not make, and the one that they can."""

    def __init__(self, cuts: str) -> None:
        table = miners.adult_like(1500, np.random.default_rng(7))
        parts = [table[:300], table[300:800], table[800:]]
        agreement = SiteAgreement.from_summaries(map(SiteSummary.of, parts), cuts=cuts)
        codecs = [SiteCodec(agreement) for _ in parts]
        self.plain = pl.concat(parts)
        self.encoded = pl.concat([c.transform(part) for c, part in zip(codecs, parts)])
        self.codec = SiteCodec(agreement).learn(self.plain)


@pytest.fixture(scope="module", params=["equal", "uneven"])
def any_cuts(request: pytest.FixtureRequest) -> Experiment:
    return Experiment(request.param)


@pytest.fixture(scope="module")
def equal_cuts() -> Experiment:
    return Experiment("equal")


def test_decoded_union_is_the_plain_one(any_cuts: Experiment) -> None:
    assert any_cuts.codec.inverse_transform(any_cuts.encoded).equals(any_cuts.plain)


def test_association_rules_are_the_same(any_cuts: Experiment) -> None:
    plain = miners.rules(any_cuts.plain, 0.1, 0.8)
    encoded = miners.rules(any_cuts.encoded, 0.1, 0.8)
    assert len(plain) == len(encoded) > 10
    assert any_cuts.codec.decode_rules(encoded) == plain
    assert not any("Husband" in item for rule in encoded for item in rule.antecedent)


def test_decision_trees_split_the_same_records(any_cuts: Experiment) -> None:
    plain, encoded = (miners.tree(t, TARGET) for t in (any_cuts.plain, any_cuts.encoded))
    assert (plain.leaves == encoded.leaves).all()
    decoded = any_cuts.codec.decode_tree(
        encoded.fitted, feature_names=encoded.features, class_names=encoded.classes
    )
    printed = export_text(plain.fitted, feature_names=plain.features, class_names=plain.classes)
    # with uneven cuts a threshold may lie elsewhere between the same two ages: the words are equal
    assert [re.sub(r"[<>].*", "", line) for line in decoded.splitlines()] == [
        re.sub(r"[<>].*", "", line) for line in printed.splitlines()
    ]


def test_decoded_thresholds_split_the_plain_union_alike(any_cuts: Experiment) -> None:
    """Follow every threshold of the decoded text on plain data: it must select what it did."""
    encoded = miners.tree(any_cuts.encoded, TARGET)
    structure = encoded.fitted.tree_
    X, _ = miners.features(any_cuts.encoded, TARGET)
    reached = encoded.fitted.decision_path(X).toarray().astype(bool)
    checked = 0
    for node in np.flatnonzero(structure.feature >= 0):
        name = encoded.features[structure.feature[node]]
        if name not in ("age", "hours-per-week"):
            continue
        line = any_cuts.codec.decode_text(f"{name} <= {structure.threshold[node]:.15f}")
        _, operator, number = line.split(" ")
        plain = any_cuts.plain[name].to_numpy()[reached[:, node]]
        told = plain < float(number) if operator == "<" else plain <= float(number)
        codes = any_cuts.encoded[name].to_numpy().astype(np.float32)[reached[:, node]]
        assert (told == (codes <= structure.threshold[node])).all()
        checked += 1
    assert checked > 3


def test_with_equal_cuts_the_decoded_tree_is_the_plain_tree(equal_cuts: Experiment) -> None:
    plain, encoded = (miners.tree(t, TARGET) for t in (equal_cuts.plain, equal_cuts.encoded))
    assert encoded.accuracy == plain.accuracy
    assert encoded.confusion == plain.confusion
    decoded = equal_cuts.codec.decode_tree(
        encoded.fitted, feature_names=encoded.features, class_names=encoded.classes
    )
    assert decoded == export_text(
        plain.fitted, feature_names=plain.features, class_names=plain.classes
    )


@pytest.mark.slow
def test_with_equal_cuts_distances_are_the_same_for_every_miner(equal_cuts: Experiment) -> None:
    plain, encoded = equal_cuts.plain, equal_cuts.encoded
    assert miners.naive_bayes(encoded, TARGET) == miners.naive_bayes(plain, TARGET)
    assert miners.neighbours(encoded, TARGET) == miners.neighbours(plain, TARGET)
    (sse, labels), (coded_sse, coded_labels) = (
        miners.clusters(table, TARGET) for table in (plain, encoded)
    )
    assert coded_sse == pytest.approx(sse, rel=1e-6)
    assert miners.same_up_to_names(labels, coded_labels)


def test_with_equal_cuts_decoded_centres_are_means_of_the_people(equal_cuts: Experiment) -> None:
    _, labels = miners.clusters(equal_cuts.encoded, TARGET)
    codes = equal_cuts.encoded.select("age", "hours-per-week")
    centres = codes.with_columns(cluster=labels).group_by("cluster").mean().sort("cluster")
    decoded = equal_cuts.codec.decode_centers(centres)
    means = (
        equal_cuts.plain.select("age", "hours-per-week")
        .with_columns(cluster=labels)
        .group_by("cluster")
        .mean()
        .sort("cluster")
    )
    assert decoded["age"].to_numpy() == pytest.approx(means["age"].to_numpy(), abs=1e-9)
