"""The worst case: can someone who knows everybody else tell whether one person was in the data?

The strongest attacker that can be thought of knows all other records, the method and its settings,
and makes releases of their own, with the target and with another person in the target's place. From
them a classifier learns what the target changes: counts of the target's values, tails of columns,
distances to the nearest rows, and how far all of that is from the truth. It is tried on releases it
has not learnt from. What it finds is a lower limit of what can be found with more releases and
better features. It is not a bound: only differential privacy gives one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._attacks.membership import area_under_curve
from tulle._attacks.records import Records, chosen, nearest, spacing
from tulle._attacks.result import AttackResult
from tulle._progress import bar
from tulle._random import spawn
from tulle._types import Floats, Ints
from tulle.auditing._tables import align, without_names
from tulle.errors import DataError, ParameterError, PrivacyWarning
from tulle.table._frames import enter

_FOLDS = 5
_BEST = 20  # features that the linear model sees
_MOST_PAIRS = 100
_TREES = 200


class Releaser(NamedTuple):
    """A release, and the target in the codes of that release."""

    rows: Records
    target: Records  # one record


def worst_case(
    who: str,
    made_with: Sequence[Releaser],
    made_without: Sequence[Releaser],
    truth: Releaser,
    rng: np.random.Generator,
) -> AttackResult:
    """Tell releases made with a target from those made without.

    ``who``: what kind of person the target is: a word in the name of the result. ``made_with``,
    ``made_without``: releases of the same other people. ``truth``: the records themselves, the
    target's included.
    """
    expected = _features(truth)
    seen = np.array([_features(release) for release in (*made_with, *made_without)])
    off = np.abs(seen - expected)
    exact = (off < 1e-9).sum(axis=1, keepdims=True)
    member = np.repeat([True, False], [len(made_with), len(made_without)])
    scores = _scores(np.hstack([seen, off, exact]), member, rng)
    called = np.zeros(len(member), dtype=bool)
    called[np.argsort(-scores, kind="stable")[: len(made_with)]] = True
    return AttackResult(
        f"worst_case:{who}",
        len(made_with),
        int(called[member].sum()),
        len(made_with) ** 2 / len(member),
        int(called[~member].sum()),
        len(made_without),
        story="Someone who knows everybody else's record, the method and its settings makes "
        f"releases with and without one person ({who}) and says of others whether that person "
        "was in. Right if a release with the person is called so; the control are releases "
        "without. This is not a bound: with more releases an attacker does better.",
        details={
            "area under the curve": area_under_curve(scores[member], scores[~member]),
            "releases made with": len(made_with),
            "releases made without": len(made_without),
            "records in each": len(truth.rows),
        },
    )


def outlier_and_ordinary(records: Records) -> dict[str, int]:
    """Return the row of the person farthest from others, and of one at the middle distance."""
    rows: Ints = np.arange(len(records), dtype=np.int64)
    found = nearest(records, records, 6).distances
    apart = found[:, -1] if found.shape[1] > 1 else spacing(rows, records)
    order = np.argsort(apart, kind="stable")
    return {"outlier": int(order[-1]), "ordinary": int(order[len(order) // 2])}


def _features(release: Releaser) -> Floats:
    """Return what a release says where the target is."""
    rows, target = release
    found: list[float] = []
    for column, own in zip(rows.numbers.T, target.numbers[0]):
        ordered, gaps = np.sort(column), np.abs(column - own)
        found += [
            *(column.mean(), column.std(), ordered[0], ordered[-1]),
            *(ordered[:5].mean(), ordered[-5:].mean(), ordered[:20].mean(), ordered[-20:].mean()),
            *((gaps < 0.05).sum(), (gaps < 0.5).sum(), (gaps == 0).sum(), gaps.min()),
            *((column < own).sum(), len(np.unique(column)), (column < 0).sum()),
        ]
    same = (rows.codes == target.codes[0]).astype(np.float64)
    together = same.T @ same
    found += np.diag(together).tolist()
    pairs = list(combinations(range(same.shape[1]), 2))[:_MOST_PAIRS]
    found += [together[a, b] for a, b in pairs]
    found += [float((same.sum(axis=1) >= same.shape[1] - few).sum()) for few in (0, 1, 2)]
    found += [float(len(np.unique(column))) for column in rows.codes.T]
    distances = nearest(target, rows, 20).distances[0]
    found += [distances[0], distances[min(4, len(distances) - 1)], distances[-1]]
    found += [float((distances < reach).sum()) for reach in (0.5, 1.0, 2.0)]
    return np.nan_to_num(np.array(found, dtype=np.float64), posinf=1e9, neginf=-1e9)


def _scores(features: Floats, member: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """Return out-of-fold scores: the mean rank by the best feature, a linear model and trees."""
    from scipy.stats import rankdata
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = features[:, features.std(axis=0) > 0]
    if not features.shape[1]:
        return rng.random(len(member))
    seed = int(rng.integers(2**31))
    folds = StratifiedKFold(
        min(_FOLDS, int(member.sum()), int((~member).sum())), shuffle=True, random_state=seed
    )
    scores = np.zeros(len(member))
    for learn, test in folds.split(features, member):
        ranks = rankdata(features[learn], axis=0)
        inside = member[learn]
        areas = ranks[inside].mean(axis=0) - ranks[~inside].mean(axis=0)
        best = np.argsort(-np.abs(areas), kind="stable")[:_BEST]
        linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
        linear.fit(features[learn][:, best], inside)
        trees = ExtraTreesClassifier(
            _TREES, min_samples_leaf=3, max_features=0.3, random_state=seed, class_weight="balanced"
        ).fit(features[learn], inside)
        ways = (
            np.sign(areas[best[0]]) * features[test, best[0]],
            linear.decision_function(features[test][:, best]),
            trees.predict_proba(features[test])[:, 1],
        )
        scores[test] = np.mean([rankdata(way) for way in ways], axis=0) / len(test)
    return scores


Maker = Callable[[pl.DataFrame, int], pl.DataFrame]  # a table and a seed -> a release of it

FITS = 40  # releases with each target, and as many without
_RECORDS = 400  # in each of them
_LEAST = 60
_FEWEST = 4  # releases: with fewer there is nothing to learn from


def worst_cases(
    table: Any, method: Any, policy: Any, generator: np.random.Generator, *, fits: int = FITS
) -> list[AttackResult]:
    """Try the worst case of a method on the most outlying of some records and an ordinary one.

    Both take each other's place with one of the records that are kept out: plain removal would
    show in the number of rows.
    """
    original, make, fits = enter(table)[0], _maker_of(method), max(fits, _FEWEST)
    draw, attack = spawn(generator, 2)
    original = _one_each(original, policy, draw)
    if original.height < _LEAST:
        raise DataError(
            f"the worst case needs at least {_LEAST} records, there are {original.height}"
        )
    sample = original[chosen(original.height, 2 * _RECORDS, draw)]
    order = draw.permutation(sample.height)
    half = min(_RECORDS, 2 * sample.height // 3)
    base, reserve = sample[order[:half]], sample[order[half:]]
    targets = outlier_and_ordinary(align(base, without_names(base, policy), None, policy).original)
    others = base[[row for row in range(base.height) if row not in targets.values()]]
    people = {who: base[[row]] for who, row in targets.items()}
    with bar("releases", (len(people) + 1) * fits) as advance:

        def made(people: list[pl.DataFrame]) -> list[pl.DataFrame]:
            releases = []
            for person in people:
                table = pl.concat([others, person])
                shuffled = table[draw.permutation(table.height)]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)  # said of the release itself
                    releases.append(make(shuffled, int(draw.integers(2**31))))
                advance(1)
            return releases

        places = draw.integers(reserve.height, size=fits).tolist()
        without = made([reserve[[place]] for place in places])
        found = []
        for (who, person), rng in zip(people.items(), spawn(attack, len(people))):
            whole = pl.concat([others, person])
            shown = without_names(whole, policy)
            mine, theirs = (
                [_release(release, whole, policy) for release in releases]
                for releases in (made([person] * fits), without)
            )
            found.append(worst_case(who, mine, theirs, _release(shown, whole, policy), rng))
    return found


def _one_each(table: pl.DataFrame, policy: Any, rng: np.random.Generator) -> pl.DataFrame:
    """Return one record of each person: how many somebody has would show in the number of rows."""
    records = align(table, without_names(table, policy), None, policy).original
    return table if records.people is None else table[records.sample(len(records), rng)]


def _maker_of(method: Any) -> Maker:
    """Return a function that makes releases: an estimator with new seeds, or the one given."""
    if hasattr(method, "fit_resample"):
        from sklearn.base import clone

        def make(table: pl.DataFrame, seed: int) -> pl.DataFrame:
            return enter(clone(method).set_params(random_state=seed).fit_resample(table))[0]

        return make
    if not callable(method):
        raise ParameterError(
            "The 'worst_case' of audit is a condenser, or a function from a table and a seed to a "
            f"release. Got a {type(method).__name__}."
        )
    return lambda table, seed: enter(method(table, seed))[0]


def _release(release: pl.DataFrame, whole: pl.DataFrame, policy: Any) -> Releaser:
    """Return a release in the codes and units of the records, whose last one is the target."""
    tables = align(whole, release, None, policy)
    return Releaser(tables.release, tables.original.take(np.array([whole.height - 1])))
