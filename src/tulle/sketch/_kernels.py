"""Compiled loops of the sketches; each has a NumPy twin that small inputs take."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import kernel

LANE = 256  # scores looked at together; most lanes hold nothing good enough


@kernel
def compare_block(
    indptr: Any,
    indices: Any,
    data: Any,
    inverse: Any,
    start: int,
    size: int,
    posting_ptr: Any,
    posting_rows: Any,
    posting_data: Any,
    dense_row: Any,
    dense: Any,
    scores: Any,
    neighbours: Any,
) -> None:
    """Compare ``size`` records from ``start`` on with themselves and with all after them.

    Each pair of different blocks is looked at once: the sums of a query against the block serve
    the query and the block's records. Candidates reach every record in ascending order, so an
    equal score never displaces an earlier record. ``dense`` holds frequent columns of the block,
    padded with zeros to whole lanes.
    """
    n, k, width = len(indptr) - 1, scores.shape[1], dense.shape[1]
    sums = np.empty(width, np.float32)
    own = np.zeros(width, np.float32)
    own[:size] = inverse[start : start + size]
    limits = np.full(width, np.inf, np.float32)
    for query in range(start, n):
        sums[:] = np.float32(0)
        for p in range(indptr[query], indptr[query + 1]):
            column, value = indices[p], data[p]
            place = dense_row[column]
            if place >= 0:
                _add_column(sums, dense[place], value)
            else:
                for q in range(posting_ptr[column], posting_ptr[column + 1]):
                    sums[posting_rows[q]] += value * posting_data[q]
        _offer_block(sums, own, start, size, query, scores, neighbours)
        if query == start + size - 1:
            limits[:size] = scores[start : start + size, k - 1]
        if query >= start + size:
            _offer_query(sums, limits, start, query, inverse[query], scores, neighbours)


@kernel
def _add_column(sums: Any, line: Any, value: Any) -> None:
    for lane in range(0, len(sums), LANE):
        # slices of a constant length are what the compiler turns into vector instructions
        part, more = sums[lane : lane + LANE], line[lane : lane + LANE]
        for j in range(LANE):
            part[j] += value * more[j]


@kernel
def _offer_block(
    sums: Any, own: Any, start: int, size: int, query: int, scores: Any, neighbours: Any
) -> None:
    """Offer the records of the block to the query."""
    last = scores.shape[1] - 1
    for lane in range(0, len(sums), LANE):
        limit = scores[query, last]
        part, scale = sums[lane : lane + LANE], own[lane : lane + LANE]
        better = False
        for j in range(LANE):
            better |= part[j] * scale[j] > limit
        if better:
            for j in range(lane, min(lane + LANE, size)):
                score = sums[j] * own[j]
                if score > scores[query, last] and start + j != query:
                    _insert(scores[query], neighbours[query], score, start + j)


@kernel
def _offer_query(
    sums: Any, limits: Any, start: int, query: int, scale: Any, scores: Any, neighbours: Any
) -> None:
    """Offer the query to the records of the block."""
    last = scores.shape[1] - 1
    for lane in range(0, len(sums), LANE):
        part, limit = sums[lane : lane + LANE], limits[lane : lane + LANE]
        better = False
        for j in range(LANE):
            better |= part[j] * scale > limit[j]
        if better:
            for j in range(LANE):
                score = part[j] * scale
                if score > limit[j]:
                    record = start + lane + j
                    _insert(scores[record], neighbours[record], score, query)
                    limit[j] = scores[record, last]


@kernel
def _insert(scores: Any, neighbours: Any, score: Any, candidate: int) -> None:
    """Insert a candidate into a descending list, after those of equal score."""
    place = len(scores) - 1
    while place > 0 and scores[place - 1] < score:
        scores[place] = scores[place - 1]
        neighbours[place] = neighbours[place - 1]
        place -= 1
    scores[place] = score
    neighbours[place] = candidate


@kernel
def settle_lengths(
    order: Any, starts: Any, others: Any, limits: Any, caps: Any, lengths: Any
) -> None:
    """Pass over the records until no length changes."""
    changed = True
    while changed:
        changed = False
        for record in order:
            largest = caps[record]
            for p in range(starts[record], starts[record + 1]):
                if limits[p] < largest and lengths[others[p]] > limits[p]:
                    largest = limits[p]
            if largest != lengths[record]:
                lengths[record] = largest
                changed = True


@kernel
def add_signs(
    indptr: Any, indices: Any, data: Any, table: Any, lengths: Any, first: int, out: Any
) -> None:
    """Add value times sign for the components from ``first`` on, up to each record's length."""
    for i in range(len(lengths)):
        count = min(lengths[i] - first, table.shape[1])
        if count > 0:
            line = out[i, first : first + count]
            for p in range(indptr[i], indptr[i + 1]):
                value, signs = data[p], table[indices[p]]
                for j in range(count):
                    line[j] += value * signs[j]
