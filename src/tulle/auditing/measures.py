"""The measures of an audit: what is lost, and how near the release stays to people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle.attacks.copies import closest_distances
from tulle.attacks.nearest import MISMATCH, nearest
from tulle.attacks.records import Records, chosen
from tulle.auditing.alignment import Aligned
from tulle.auditing.design import Design, ranked
from tulle.errors import DataError
from tulle.metrics.covariance import association, covariance_compatibility
from tulle.metrics.loss import interval_width
from tulle.metrics.marginals import range_coverage, total_variation, wasserstein
from tulle.metrics.mining import train_on_release
from tulle.metrics.propensity import propensity
from tulle.tables.schema import Kind

_FEW_CLASSES = 20  # a whole number with no more values than this is a class, not a quantity


def structure(tables: Aligned) -> dict[str, float]:
    """Covariances and associations."""
    design = Design(tables.original)
    original, release = (association(r.numbers, r.codes) for r in (tables.original, tables.release))
    pairs = np.triu_indices(len(original), 1)
    gaps = np.abs(original - release)[pairs]
    gaps = gaps[~np.isnan(gaps)]
    found = {
        "covariance_compatibility": covariance_compatibility(
            design.matrix(tables.original), design.matrix(tables.release)
        )
    }
    if len(gaps):
        found["correlation_difference"] = float(gaps.mean())
        found["correlation_difference_max"] = float(gaps.max())
    return found


def marginals(tables: Aligned) -> dict[str, dict[str, Any]]:
    """For each column its distance, and how often it is missing in original and release."""
    return {name: _marginal(tables, name) for name in tables.columns}


def _marginal(tables: Aligned, name: str) -> dict[str, Any]:
    original, release = tables.original.only([name]), tables.release.only([name])
    if not original.numbers.shape[1]:
        return {
            "distance": total_variation(original.codes[:, 0], release.codes[:, 0]),
            "range": None,
            "missing_original": float((original.codes[:, 0] == 0).mean()),
            "missing_release": float((release.codes[:, 0] == 0).mean()),
        }
    gone = [records.codes.any(axis=1) for records in (original, release)]
    values = [records.numbers[~lost, 0] for records, lost in zip((original, release), gone)]
    rates = [float(lost.mean()) for lost in gone]
    known = all(len(part) for part in values)
    return {
        "distance": (wasserstein(*values) if known else 0.0) + abs(rates[0] - rates[1]),
        "range": range_coverage(*values) if known else None,
        "missing_original": rates[0],
        "missing_release": rates[1],
    }


def nearness(tables: Aligned, rng: np.random.Generator, attempts: int) -> dict[str, float]:
    """How far people are from the nearest released record."""
    people = tables.original.take(chosen(len(tables.original), attempts, rng))
    found = nearest(people, tables.release)
    counterparts = tables.release.take(found.rows[:, 0])
    spread = _total_spread(tables.original)
    figures = {
        "information_loss": 100 * float((found.distances**2).mean()) / spread if spread else 0.0,
        "closest_original": float(np.median(found.distances)),
    }
    if people.numbers.shape[1] and len(people) > 1:
        figures["interval_width"] = interval_width(people.numbers, counterparts.numbers)
    if tables.control is not None:
        outside = closest_distances(tables.control, tables.release, rng, attempts=attempts)
        figures["closest_control"] = float(np.median(outside))
    return {name: value for name, value in figures.items() if not math.isnan(value)}


def _total_spread(records: Records) -> float:
    """The mean squared distance to the middle, in the distance that attacks use."""
    spread = float(records.numbers.var(axis=0).sum())
    for place in range(records.codes.shape[1]):
        shares = np.unique(records.codes[:, place], return_counts=True)[1] / len(records)
        spread += MISMATCH * (1 - float(shares @ shares)) / 2
    return spread


def mining(
    tables: Aligned, target: str, estimator: Any, rng: np.random.Generator
) -> dict[str, float]:
    """Scores of a model trained on the original and on the release."""
    numeric = target in tables.original.number_names
    few = len(np.unique(tables.original.only([target]).numbers)) <= _FEW_CLASSES
    classes = not numeric or (tables.kinds[target] is Kind.INTEGER and few)
    training, test = _split(tables, rng)
    known = tables.original.without(target)
    design = Design(known)
    parts = []
    for records in (training, tables.release, test):
        kept = records.take(_target_known(records, target))
        if not len(kept):
            raise DataError(f"the target '{target}' is missing in every record of a table")
        wanted = kept.only([target])
        truth = wanted.numbers[:, 0] if numeric else wanted.codes[:, 0]
        others = kept.without(target)
        columns = ranked(others, known) if estimator is None else design.matrix(others)
        parts.append((columns, np.rint(truth * 1e6).astype(np.int64) if classes else truth))
    scores = train_on_release(
        *parts, estimator=estimator, classes=classes, seed=int(rng.integers(2**31))
    )
    found = {"accuracy_original": scores.original, "accuracy_release": scores.release}
    return found if math.isnan(scores.ratio) else {**found, "accuracy_ratio": scores.ratio}


def _split(tables: Aligned, rng: np.random.Generator) -> tuple[Records, Records]:
    """Originals to train on and to test on: the control, or three tenths that are kept apart."""
    if tables.control is not None:
        return tables.original, tables.control
    order = rng.permutation(len(tables.original))
    cut = max(1, round(0.3 * len(order)))
    return tables.original.take(order[cut:]), tables.original.take(order[:cut])


def _target_known(records: Records, target: str) -> NDArray[np.int64]:
    wanted = records.only([target])
    gone = wanted.codes.any(axis=1) if wanted.numbers.shape[1] else wanted.codes[:, 0] == 0
    return np.flatnonzero(~gone)


def distinguishability(tables: Aligned, rng: np.random.Generator) -> dict[str, float]:
    """Whether a classifier tells released records from original ones."""
    original, release = (ranked(r, tables.original) for r in (tables.original, tables.release))
    found = propensity(original, release, rng)
    return {"propensity_auc": found.auc, "propensity_pmse": found.pmse}
