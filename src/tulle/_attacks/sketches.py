"""Attacks on sketches: whose is it, and what was in the record?

*Linkage*: the intruder has a public list of candidate records, and perhaps some people whose
record and sketch are both known, but not the key. Under random signs the components of a record
are nearly normal with its squared length as variance, and their covariance with a known person's
components is the dot product of the two records: the candidate with the largest likelihood is
taken. Components of whole numbers also have the parity of the record's sum, which rules out about
half of the candidates.

*Reconstruction*: the intruder believes in some table of signs (the true one, if the key leaked; one
learnt from known people; or a guess), knows how frequent the columns are and how many entries a
record has, and looks for the entries by matching pursuit, the likeliest first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tulle._attacks.records import chosen
from tulle._attacks.result import AttackResult
from tulle._threads import linear_algebra_on_one
from tulle._types import Floats, Ints
from tulle.sketch.sketches import Sketches

_ROUNDS = 12  # in which the entries of a record are found
_CELLS = 1 << 23  # scores held at once
_LANE = 64  # scores of which the largest is looked at first


def sketch_linkage(
    released: Sketches,
    candidates: Any,
    rng: np.random.Generator,
    *,
    known: Ints | None = None,
    attempts: int = 500,
) -> AttackResult:
    """Assign each sketch to the most likely candidate; row i of the list is the record of i.

    ``known`` are the rows of people whose record and sketch the intruder has.
    """
    rows = np.setdiff1d(np.flatnonzero(~released.suppressed), [] if known is None else known)
    targets = rows[chosen(len(rows), attempts, rng)]
    records = candidates.astype(np.float64).tocsr()
    explained, energy_left = _explained_by(released, records, known)
    norms = np.maximum(_squares(records), 1e-9)
    parities = _parities(records)
    right = 0
    step = max(1, _CELLS // records.shape[0])
    for start in range(0, len(targets), step):
        part = targets[start : start + step]
        likelihoods = _likelihoods(released[part], explained, energy_left, norms)
        if parities is not None:
            odd = np.round(released.values[part, 0]).astype(np.int64) % 2
            likelihoods[odd[:, None] != parities] = -np.inf
        for target, likelihood in zip(part, likelihoods):
            best = np.flatnonzero(likelihood >= likelihood.max() - 1e-9)
            right += int(rng.choice(best) == target)
    helpers = 0 if known is None else len(known)
    return AttackResult(
        "sketch_linkage",
        len(targets),
        right,
        len(targets) / records.shape[0],
        story=f"An intruder with a list of {records.shape[0]:,} records, and the sketches of "
        f"{helpers:,} of these people, assigns each sketch to the most likely record of "
        "the list.",
        details={"known people": helpers},
    )


def sketch_reconstruction(
    released: Sketches,
    records: Any,
    signs: npt.NDArray[Any],
    rng: np.random.Generator,
    *,
    attempts: int = 200,
    holder: str = "the signs of the key",
) -> AttackResult:
    """Look for the entries of each record with a table of signs (columns x components).

    Counted are entries; guessing is to name the most frequent columns of the data.
    """
    rows = np.flatnonzero(~released.suppressed)
    targets = rows[chosen(len(rows), attempts, rng)]
    matrix = records.tocsr()
    shares = np.bincount(matrix.indices, minlength=matrix.shape[1]) / matrix.shape[0]
    frequent = np.argsort(-shares, kind="stable")
    shares = np.clip(shares, 0.5 / matrix.shape[0], 1 - 0.5 / matrix.shape[0])
    odds = np.log(shares / (1 - shares)).astype(np.float32)
    size = float(np.mean(matrix.data))
    table = np.asarray(signs, dtype=np.float32)
    right = guessed = entries = whole = 0
    step = max(1, _CELLS // matrix.shape[1])
    for start in range(0, len(targets), step):
        part = targets[start : start + step]
        truths = [matrix.indices[matrix.indptr[t] : matrix.indptr[t + 1]] for t in part]
        counts = [len(truth) for truth in truths]
        for truth, found in zip(truths, _pursue(table, released[part], counts, odds, size)):
            hits = len(np.intersect1d(found, truth))
            guessed += len(np.intersect1d(frequent[: len(truth)], truth))
            right, entries, whole = right + hits, entries + len(truth), whole + (hits == len(truth))
    return AttackResult(
        "sketch_reconstruction",
        entries,
        right,
        guessed,
        independent=min(len(targets), entries),  # the entries of a record hang together
        story=f"An intruder with {holder} and the number of entries of a record looks for them "
        "by sparse reconstruction; each entry found counts.",
        details={"records": len(targets), "records found whole": whole},
    )


def signs_guessed(columns: int, components: int, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """Draw random signs, as an intruder without the key would."""
    return rng.integers(0, 2, (columns, components), dtype=np.int8) * np.int8(2) - np.int8(1)


def signs_learnt(released: Sketches, records: Any, known: Ints) -> Floats:
    """Estimate signs from known people, by ridge regression of sketches on records.

    Exact once as many people as columns are known; near 0 for columns that nobody known has.
    """
    rows = records.astype(np.float64).tocsr()[known]
    learnt = np.zeros((rows.shape[1], released.shape[1]))
    lengths = released.lengths[known]
    for length in np.unique(lengths[lengths > 0]):
        # the components after the next shorter length, from all people that have them
        first = int(lengths[lengths < length].max(initial=0))
        having = lengths >= length
        part = rows[having]
        gram = (part @ part.T).toarray()
        weights = np.linalg.solve(
            gram + 0.01 * np.eye(len(gram)), released.values[known[having], first:length]
        )
        learnt[:, first:length] = part.T @ weights
    return learnt


def _explained_by(released: Sketches, records: Any, known: Ints | None) -> tuple[Floats, Floats]:
    """Predict each candidate's components from known people: their means and remaining variance."""
    norms = np.maximum(_squares(records), 1e-9)
    lengths = np.array([], int) if known is None else released.lengths[known]
    if known is None or not (lengths > 0).any():
        return np.zeros((records.shape[0], 0)), norms
    # as many people times components as possible: few people have the longest sketches
    depth = max(np.unique(lengths).tolist(), key=lambda d: d * int(np.sum(lengths >= d)))
    people = known[lengths >= depth]
    theirs = records[people]
    gram = (theirs @ theirs.T).toarray()
    shared = (records @ theirs.T).toarray()
    weights = np.linalg.solve(
        gram + 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram)), shared.T
    )
    explained = weights.T @ released.values[people, :depth]
    left = norms - np.einsum("ij,ji->i", shared, weights)
    return explained, np.maximum(left, 1e-3 * norms)


def _likelihoods(sketches: Sketches, explained: Floats, left: Floats, norms: Floats) -> Floats:
    """Compute the log likelihood of each sketch (rows) under each candidate (columns).

    Components within ``explained`` have its means and the variance ``left``, those after it have
    mean 0 and the candidate's squared length as variance.
    """
    depth = min(explained.shape[1], sketches.shape[1])
    values = sketches.values.astype(np.float64)
    shared = np.minimum(sketches.lengths, depth)
    energy = np.pad(np.cumsum(explained[:, :depth] ** 2, axis=1), ((0, 0), (1, 0)))
    misfit = energy.T[shared] - 2 * (values[:, :depth] @ explained[:, :depth].T)
    misfit += (values[:, :depth] ** 2).sum(axis=1, keepdims=True)
    rest = (values[:, depth:] ** 2).sum(axis=1, keepdims=True)
    free = (sketches.lengths - shared)[:, None]
    return -(shared[:, None] * np.log(left) + misfit / left + free * np.log(norms) + rest / norms)


def _parities(records: Any) -> Ints | None:
    if not np.array_equal(records.data, np.round(records.data)):
        return None
    return np.asarray(records.sum(axis=1)).ravel().astype(np.int64) % 2


def _squares(records: Any) -> Floats:
    return np.asarray(records.multiply(records).sum(axis=1), dtype=np.float64).ravel()


def _pursue(
    table: Any, sketches: Sketches, counts: list[int], odds: Any, size: float
) -> list[list[int]]:
    """Run matching pursuit with prior odds: the likeliest columns of each sketch, a few at a time.

    An entry of the usual ``size`` in a column moves every component by that much under the
    column's sign; what is not yet explained is taken as noise.
    """
    rests = sketches.values.astype(np.float32)
    found: list[list[int]] = [[] for _ in counts]
    with linear_algebra_on_one:  # thousands of small solves: threads only wait
        for _ in range(_ROUNDS):
            gains = rests @ table.T
            for i, (m, count) in enumerate(zip(sketches.lengths.tolist(), counts)):
                step = min(-(-count // _ROUNDS), count - len(found[i]))
                if step <= 0:
                    continue
                noise = np.float32(max(float(rests[i] @ rests[i]) / m, 1e-6))
                score = gains[i]
                score *= size / noise
                score += odds  # the term -m size² / 2 is equal for all columns
                score[found[i]] = -np.inf
                found[i] += _largest(score, step).tolist()
                if len(found[i]) <= m:
                    rests[i, :m] = _unexplained(table[found[i], :m], sketches.values[i, :m])
    return found


def _largest(scores: Any, count: int) -> Ints:
    """Find the largest scores; of most lanes only the maximum is looked at."""
    tops = np.maximum.reduceat(scores, np.arange(0, len(scores), _LANE))
    if count < len(tops):
        candidates = np.flatnonzero(scores >= np.partition(tops, -count)[-count])
    else:
        candidates = np.arange(len(scores))
    return candidates[np.argpartition(-scores[candidates], count - 1)[:count]]


def _unexplained(rows: Any, sketch: Any) -> Floats:
    """Return what a least-squares fit of columns, whose signs are the rows, leaves of a sketch."""
    gram = rows @ rows.T + 1e-3 * len(sketch) * np.eye(len(rows))
    return sketch - np.linalg.solve(gram, rows @ sketch) @ rows
