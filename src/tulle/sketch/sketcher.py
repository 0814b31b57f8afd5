"""The estimator of the family: sparse records in, sketches out, row for row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tulle._checks import check_choice, check_flag, check_int, check_real, wrong
from tulle._choices import CRITERIA, GRAPHS, MODELS
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.keys import SecretKey
from tulle.sketch._neighbours import Graph, nearest, row_squares, variance_and_bound
from tulle.sketch._records import (
    SparseRecords,
    as_records,
    canonical,
    numbered,
    unit_rows,
    validated,
)
from tulle.sketch.sketches import Sketches

# Four-wise independent signs from a secret key, for any number of columns and components.
#
# Component j has a polynomial of degree 3 over the field of p = 2**61 - 1; the sign of column i is
# the low bit of its value at the column's point. The four coefficients come from the key, so no
# matrix is stored, and two owners with one key produce comparable sketches. The polynomial is
# evaluated once for each column that occurs, never for each non-zero entry.
#
# The point of a column is a keyed BLAKE2b hash of its term (a word, an item), so that the set of
# terms may be open, or of its number in a matrix, so that known signs cannot be continued.

PRIME = (1 << 61) - 1
_P = np.uint64(PRIME)
_LOW32 = np.uint64(0xFFFFFFFF)
_LOW29 = np.uint64((1 << 29) - 1)
_PER_DERIVATION = 128  # components whose coefficients one derivation gives (4 KiB of key stream)

Points = npt.NDArray[np.uint64]


def coefficients(key: SecretKey, first: int, last: int) -> Points:
    """Return the polynomials of components ``first`` to ``last - 1``; shape (components, 4)."""
    blocks = range(first // _PER_DERIVATION, -(-last // _PER_DERIVATION))
    stream = b"".join(key.derive(f"sketch/signs/{b}", 32 * _PER_DERIVATION) for b in blocks)
    words = np.frombuffer(stream, "<u8").reshape(-1, 4)
    start = first - (first // _PER_DERIVATION) * _PER_DERIVATION
    return _once(words[start : start + last - first] & _P)


def term_points(key: SecretKey, terms: Iterable[str]) -> Points:
    """Return the points of terms; without the key nobody can tell which term has which."""
    return _points(key, "sketch/terms", (term.encode("utf-8", "surrogatepass") for term in terms))


def number_points(key: SecretKey, numbers: npt.NDArray[Any]) -> Points:
    """Return the points of numbered columns; without the key nobody knows them.

    The sign of a column is the low bit of a cubic of its point. If the points were the numbers
    themselves, signs that an attacker learns could be continued to columns never seen.
    """
    words = np.ascontiguousarray(numbers, dtype="<u8").tobytes()
    return _points(key, "sketch/numbers", (words[at : at + 8] for at in range(0, len(words), 8)))


def _points(key: SecretKey, use: str, names: Iterable[bytes]) -> Points:
    secret = key.derive(use, 32)
    digests = [hashlib.blake2b(name, digest_size=8, key=secret).digest() for name in names]
    return _once(np.frombuffer(b"".join(digests), "<u8") & _P)


def sign_table(polynomials: Points, points: Points) -> npt.NDArray[np.int8]:
    """Compute the signs of all points in all components; shape (points, components)."""
    x = points.astype(np.uint64)
    square = multiply(x, x)
    cube = multiply(square, x)
    table = np.empty((len(x), len(polynomials)), np.int8)
    for j, (a, b, c, d) in enumerate(polynomials):
        value = _once(multiply(b, x) + a)
        value = _once(multiply(c, square) + value)
        value = _once(multiply(d, cube) + value)
        table[:, j] = (value & np.uint64(1)).astype(np.int8)
    return table * np.int8(2) - np.int8(1)


def multiply(a: Points | np.uint64, b: Points) -> Points:
    """Compute a * b mod p for elements of the field, in limbs of 32 bits.

    With a = a1 2**32 + a0 the product is a1 b1 2**64 + middle 2**32 + a0 b0, and 2**61 is 1.
    """
    shift32, shift29, shift61 = np.uint64(32), np.uint64(29), np.uint64(61)
    a1, a0 = a >> shift32, a & _LOW32
    b1, b0 = b >> shift32, b & _LOW32
    middle = a1 * b0 + a0 * b1  # below 2**62
    low = a0 * b0
    high = (a1 * b1) << np.uint64(3)  # 2**64 is 8
    # middle 2**32 = (middle >> 29) 2**61 + (middle & low 29 bits) 2**32
    total = high + (middle >> shift29) + ((middle & _LOW29) << shift32)
    total = total + (low & _P) + (low >> shift61)
    return _once(_once((total & _P) + (total >> shift61)))


def _once(value: Points) -> Points:
    """Subtract p where the value is p or more."""
    return np.where(value >= _P, value - _P, value)


# delta-anonymity: the number of components of a record, from the record alone. The estimate of
# attribute k from r components has variance (|x|² - x_k²) / r, which must be delta or more for
# every k: r is the *largest* whole number that allows it (the printed 'smallest' would always be
# 1). A record with one non-zero entry has variance 0 and no r at all.

Lengths = npt.NDArray[np.int64]


def spread(matrix: Any) -> npt.NDArray[np.float64]:
    """Compute min over k of |x|² - x_k², summed without the largest entry: nothing cancels."""
    squares = matrix.data.astype(np.float64) ** 2
    counts = np.diff(matrix.indptr)
    result, filled = np.zeros(matrix.shape[0]), counts > 0
    starts = matrix.indptr[:-1][filled]
    if len(starts) == 0:
        return result
    largest = np.maximum.reduceat(squares, starts)
    at_top = np.flatnonzero(squares == np.repeat(largest, counts[filled]))
    squares[at_top[np.searchsorted(at_top, starts)]] = 0.0  # the first one of each row
    result[filled] = np.add.reduceat(squares, starts)
    return result


def delta_lengths(matrix: Any, delta: float, max_components: int) -> Lengths:
    """Return the number of components of each record; 0 if the record must be suppressed."""
    room = spread(matrix)
    with np.errstate(over="ignore"):  # beyond all numbers is beyond max_components too
        lengths = np.minimum(np.floor(room / delta), max_components).astype(np.int64)
    # division rounds: the guarantee is (room / r >= delta), so it is tested as it stands
    broken = (lengths > 0) & (room < lengths * delta)
    return lengths - broken


def broken_records(matrix: Any, lengths: Lengths, delta: float) -> int:
    """Count the records whose lengths break the guarantee."""
    return int(np.sum((lengths > 0) & (spread(matrix) < lengths * delta)))


# k-variance anonymity: the number of components of a record, from its k nearest neighbours. For a
# record i and a neighbour j the standard deviation of the estimated dot product, which uses
# min(m_i, m_j) components, must reach a bound: ``definition`` sqrt(|x_i||x_j| - |x_i.x_j|),
# Definition 3 as printed; depends on the scale. ``gap`` |x_i||x_j| - |x_i.x_j|, the prose below
# it: the estimate cannot tell the neighbour from a record that points the same way. Free of
# scale; on counts much stricter. So every pair limits min(m_i, m_j) to V / bound², V being the
# exact variance for one component. Records are taken outliers first, and each gets the largest m
# that its pairs allow given the others, until nothing changes. Two defects of the printed
# algorithm are repaired: a pair counts for both its records, so that a later pass cannot break
# it; and no record gets more components than the largest limit among its own pairs, or a record
# whose neighbours are all short would have no limit. A pair of records with equal directions has
# no limit, so it does not count there: one duplicate would otherwise free a record from all its
# other neighbours.

_BLOCK = 32_768  # records whose pairs are looked at together
_NO_LIMIT = np.iinfo(np.int32).max
Limits = npt.NDArray[np.int64]


class NeighbourPairs(NamedTuple):
    """For each record i and its neighbours j: variance for one component, and squared bound."""

    neighbours: npt.NDArray[np.int32]
    variance: npt.NDArray[np.float64]
    squared_bound: npt.NDArray[np.float64]


def pairs_of(matrix: Any, graph: Graph, criterion: str) -> NeighbourPairs:
    """Return the directed pairs of the graph, with all that the condition needs."""
    rows = matrix.astype(np.float64)
    squares = row_squares(rows)
    variance, bound = np.empty((2, *graph.neighbours.shape))
    for start in range(0, len(squares), _BLOCK):
        block = slice(start, start + _BLOCK)
        some = rows[block]
        for place, others in enumerate(graph.neighbours[block].T):
            products = squares[block] * squares[others]
            found = variance_and_bound(some, rows[others], products, criterion)
            variance[block, place], bound[block, place] = found
    return NeighbourPairs(graph.neighbours, variance, bound)


def limits_of(pairs: NeighbourPairs) -> Limits:
    """Return the largest min(m_i, m_j) that each pair allows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.floor(pairs.variance / pairs.squared_bound)
    limits[pairs.squared_bound == 0] = _NO_LIMIT
    whole = np.minimum(limits, _NO_LIMIT).astype(np.int64)
    # division rounds: the guarantee is (variance / m >= bound²), so it is tested as it stands
    broken = (whole < _NO_LIMIT) & (pairs.variance < whole * pairs.squared_bound)
    return whole - broken


def k_variance_lengths(pairs: NeighbourPairs, similarity: Any, most: Limits) -> Limits:
    """Return the components of each record, at most ``most[i]``; 0 if it must be suppressed.

    ``similarity[i]`` is the cosine of record i and its k-th neighbour: the least similar first.
    """
    from tulle.sketch._kernels import settle_lengths

    limits = limits_of(pairs)
    lengths = np.minimum(own_caps(limits), most)
    order = np.argsort(similarity, kind="stable")
    n, k = pairs.neighbours.shape
    first = np.repeat(np.arange(n, dtype=np.int32), k)
    second = pairs.neighbours.reshape(-1)
    ends = np.concatenate([first, second])  # the pairs of each record, as first and as second
    by_end = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))])
    others = np.concatenate([second, first])[by_end]
    both = np.concatenate([limits.reshape(-1).astype(np.int32)] * 2)[by_end]
    settle_lengths(order, starts, others, both, lengths.copy(), lengths)
    return lengths


def own_caps(limits: Limits) -> Limits:
    """Return the largest limit among each record's own pairs that have one."""
    caps = np.where(limits < _NO_LIMIT, limits, -1).max(axis=1)
    return np.where(caps < 0, _NO_LIMIT, caps)


def broken_pairs(pairs: NeighbourPairs, lengths: Limits) -> int:
    """Count the directed pairs of released records that break the condition."""
    common = np.minimum(lengths[:, None], lengths[pairs.neighbours])
    return int(np.sum((common > 0) & (pairs.variance < common * pairs.squared_bound)))


# From records and lengths to zero-padded sketches; only non-zero entries cost work.

_TABLE = 1 << 24  # signs held at once
_CELLS = 20_000 * 256  # components of a part: fewer records where they are long


def build(matrix: Any, points: Points, lengths: Any, key: SecretKey) -> npt.NDArray[Any]:
    """Build the first ``lengths[i]`` components of each record, followed by zeros."""
    from tulle.sketch._kernels import add_signs

    width = max(1, int(lengths.max(initial=0)))
    values = np.zeros((matrix.shape[0], width), matrix.dtype)
    occurring = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]))
    if not len(occurring):
        return values
    column_of = np.zeros(matrix.shape[1], np.int32)
    column_of[occurring] = np.arange(len(occurring), dtype=np.int32)
    columns = column_of[matrix.indices]
    indptr = matrix.indptr.astype(np.int64)
    step = int(np.clip(_TABLE // len(occurring), 8, 256))
    for first in range(0, width, step):
        polynomials = coefficients(key, first, min(first + step, width))
        table = sign_table(polynomials, points[occurring])
        add_signs(indptr, columns, matrix.data, table, lengths, first, values)
    return values


_DEFAULT_DELTA = 0.5


class Sketcher(TransformerMixin, BaseEstimator):
    """Sketch sparse records as short vectors of bounded accuracy, made from a secret key.

    A record x becomes m sums of its entries under random signs. They estimate dot products,
    lengths and distances without the key, and single attributes with it; fewer components hide
    more. How many a record gets is the model's choice:

    * ``delta``: so many that the variance of every estimated attribute is ``delta`` or more.
      Looks at one record alone, so it works on streams, on blocks and on a cluster.
    * ``k-variance``: so few that a record's estimated similarity to each of its ``k`` nearest
      neighbours (cosine) has a standard deviation of at least the bound of ``criterion``. Looks
      at all records of one call of :meth:`transform` together.

    A record for which even one component is too much is suppressed: it stays as a row of length
    0, and is counted. So are all-zero records and records with one non-zero entry, whose
    components would each show the entry's value.

    Parameters
    ----------
    model
        ``"delta"`` or ``"k-variance"``.
    delta
        Least variance of an estimated attribute. For ``delta`` None means 0.5; for
        ``k-variance`` None means no such floor, and a number combines both models.
    k
        Number of neighbours (``k-variance`` only).
    criterion
        ``"definition"``: the bound ``sqrt(|x||y| - |x.y|)``, the paper's Definition 3 if its
        radical covers both terms; the longer the records, the weaker. ``"gap"``: the bound
        ``|x||y| - |x.y|``: a neighbour cannot be told from a record that points the same way;
        free of scale, and on counts much stricter.
    max_components
        No record gets more components than this; None: as many as the guarantee allows, which
        for long records are thousands.
    normalize
        Scale every record to length 1 first, as the paper does for clusters: then lengths say
        nothing, and delta is a share of the squared length.
    graph
        ``"exact"``: every record is compared with every other, in single precision (cosines that
        agree to six digits may be taken for each other); time grows with the square of their
        number. ``"partition"``: nearest within parts of some thousand records; linear, and
        approximate. The guarantee covers the neighbours found.
    key
        The secret of the data owner. None: a new one at each ``fit``, in ``key_``.
    text
        Field of JSON lines, or column of a table, that holds the text.

    Attributes
    ----------
    key_ : SecretKey
        The key in use. Keep it with ``key_.save(path)`` to make comparable sketches later or to
        :meth:`reconstruct`. It is never shown and never pickled, so neither is a fitted
        Sketcher.
    n_features_in_ : int
        Columns seen by ``fit``; not there if the records are texts or baskets.

    What may leave
    --------------
    The :class:`Sketches`, never the key. Anyone who has the key can estimate attributes of every
    record. Real-valued weights (tf-idf) may betray a record to someone who knows its exact
    weights: sketch counts, or rounded weights.

    Examples
    --------
    >>> sketcher = Sketcher(delta=0.5).fit(["a cat and a cat sat", "the dog sat"])
    >>> sketcher.transform(["a cat and the dog sat", "dog"])
    Sketches(2 records, 1 suppressed, 8 to 8 components)
    """

    def __init__(
        self,
        model: str = "delta",
        *,
        delta: float | None = None,
        k: int = 10,
        criterion: str = "definition",
        max_components: int | None = 256,
        normalize: bool = False,
        graph: str = "exact",
        key: SecretKey | None = None,
        text: str = "text",
    ) -> None:
        self.model = model
        self.delta = delta
        self.k = k
        self.criterion = criterion
        self.max_components = max_components
        self.normalize = normalize
        self.graph = graph
        self.key = key
        self.text = text

    def fit(self, X: Any, y: Any = None) -> Sketcher:
        """Check parameters and records, and take or create the key; nothing of X is kept.

        Parameters
        ----------
        X : records
            As for :meth:`transform`.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self.check_parameters()
        records = self._records(X, reset=True)
        if self.model == "k-variance":
            self._filled(records.matrix)
        self.key_ = SecretKey.generate() if self.key is None else self.key
        return self

    def transform(self, X: Any) -> Sketches:
        """Sketch the records and verify the guarantee before returning them.

        Parameters
        ----------
        X : records
            A scipy sparse matrix (a vectorizer's output), an array, :class:`Transactions`, a list
            of texts, of bags of words or of mappings word -> weight, or the path of a file
            (``.dat`` baskets; ``.txt``, ``.jsonl`` or a table of documents).

        Returns
        -------
        Sketches
        """
        (whole,) = self.transform_parts(X)
        return whole

    def transform_parts(self, X: Any, size: int | None = None) -> Iterator[Sketches]:
        """Yield what :meth:`transform` returns in parts, to save memory.

        All records are examined and verified before the first part is made, but only the components
        of one part are in memory.

        Parameters
        ----------
        X : records
            As for :meth:`transform`.
        size : int, optional
            Records in a part.

        Yields
        ------
        Sketches
        """
        check_is_fitted(self, "key_")
        self.check_parameters()
        if size is not None:
            check_int("Sketcher.transform_parts", "size", size, 1)
        records = self._records(X, reset=False)
        if self.model == "delta":
            delta = _DEFAULT_DELTA if self.delta is None else self.delta
            lengths = delta_lengths(records.matrix, delta, self._most)
            _refuse(broken_records(records.matrix, lengths, delta), "records")
            verified: dict[str, Any] = {"every attribute's variance is delta or more": True}
        else:
            lengths, verified = self._k_variance_lengths(records.matrix)
        if records.terms is not None:
            points = term_points(self.key_, records.terms)
        else:
            numbers = records.numbers
            width = records.matrix.shape[1]
            points = number_points(self.key_, np.arange(width) if numbers is None else numbers)
        names = ["model", "delta", "max_components", "normalize"]
        if self.model == "k-variance":
            names += ["k", "criterion", "graph"]
        parameters = {name: getattr(self, name) for name in names}
        if self.model == "delta" and self.delta is None:
            parameters["delta"] = _DEFAULT_DELTA
        asked = {name: parameters[name] for name in names if name != "max_components"}
        provenance = {"parameters": parameters, "guarantee": asked, "verified": verified}
        step = max(1, len(lengths))
        if size is not None:
            step = max(1, min(size, _CELLS // max(1, int(lengths.max(initial=0)))))
        for start in range(0, len(lengths), step):
            part = slice(start, start + step)
            values = build(records.matrix[part], points, lengths[part], self.key_)
            yield Sketches(values, lengths[part], provenance)

    def reconstruct(self, sketches: Sketches, columns: Any = None) -> Any:
        """Estimate attributes of the records; this needs the key.

        Parameters
        ----------
        sketches : Sketches
            Sketches made with this key.
        columns : sequence of int or str, optional
            Column numbers, or terms if the records were texts or baskets; by default all columns
            that ``fit`` saw.

        Returns
        -------
        ndarray of shape (records, columns)
            Rows of suppressed records are NaN.
        """
        check_is_fitted(self, "key_")
        if not isinstance(sketches, Sketches):
            raise ParameterError(f"'sketches' must be Sketches. Got a {type(sketches).__name__}.")
        if columns is None:
            if not hasattr(self, "n_features_in_"):
                raise ParameterError(
                    "the records have no fixed columns: name the terms in 'columns'"
                )
            columns = np.arange(self.n_features_in_)
        signs = self.signs(columns, sketches.shape[1])
        sums = sketches.values.astype(np.float64) @ signs.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums / np.where(sketches.suppressed, np.nan, sketches.lengths)[:, None]

    def signs(self, columns: Any, components: int) -> npt.NDArray[np.int8]:
        """Return the secret signs of some columns; they are as secret as the key.

        Parameters
        ----------
        columns : sequence of int or str
            As for :meth:`reconstruct`.
        components : int
            Number of components.

        Returns
        -------
        ndarray of int8, shape (columns, components)
        """
        check_is_fitted(self, "key_")
        if not hasattr(self, "n_features_in_"):
            terms: list[Any] = [columns] if isinstance(columns, str | int) else list(columns)
            if not all(isinstance(term, str) for term in terms):
                raise ParameterError(
                    "the records have no fixed columns: name the terms in 'columns'"
                )
            points = term_points(self.key_, terms)
        else:
            columns = np.atleast_1d(columns)
            within = columns.dtype.kind in "iu" and np.all(columns >= 0)
            if not within or np.any(columns >= self.n_features_in_):
                raise ParameterError(
                    f"'columns' must be numbers from 0 to {self.n_features_in_ - 1}"
                )
            points = number_points(self.key_, columns)
        return sign_table(coefficients(self.key_, 0, components), points)

    def _k_variance_lengths(self, matrix: Any) -> tuple[Any, dict[str, Any]]:
        lengths = np.zeros(matrix.shape[0], np.int64)
        filled = self._filled(matrix)
        rows = matrix[filled]
        seed = np.frombuffer(self.key_.derive("sketch/partition", 32), np.uint64)
        graph = nearest(rows, self.k, self.graph, np.random.default_rng(seed))
        pairs = pairs_of(rows, graph, self.criterion)
        most = np.where(spread(rows) > 0, self._most, 0)
        if self.delta is not None:
            most = delta_lengths(rows, self.delta, self._most)
        found = k_variance_lengths(pairs, graph.similarities[:, -1], most)
        _refuse(broken_pairs(pairs, found), "pairs")
        verified = {f"every pair of the {self.graph} neighbour graph meets the bound": True}
        if self.delta is not None:
            _refuse(broken_records(rows, found, self.delta), "records")
            verified["every attribute's variance is delta or more"] = True
        lengths[filled] = found
        return lengths, verified

    @property
    def _most(self) -> int:
        return _NO_LIMIT if self.max_components is None else self.max_components

    def check_parameters(self) -> None:
        """Raise if parameters are wrong, as ``fit`` and ``transform`` do.

        Raises
        ------
        ParameterError
        """
        owner = type(self).__name__
        check_choice(owner, "model", self.model, MODELS)
        if self.delta is not None:
            check_real(owner, "delta", self.delta, 0, closed="neither")
        check_int(owner, "k", self.k, 1)
        check_choice(owner, "criterion", self.criterion, CRITERIA)
        check_flag(owner, "normalize", self.normalize)
        if self.max_components is not None:
            check_int(owner, "max_components", self.max_components, 1, _NO_LIMIT)
        check_choice(owner, "graph", self.graph, GRAPHS)
        if not isinstance(self.text, str):
            raise wrong(owner, "text", "the name of a field", self.text)
        if self.key is not None and not isinstance(self.key, SecretKey):
            raise ParameterError(
                "The 'key' parameter of Sketcher must be a SecretKey: SecretKey.generate(), "
                f"SecretKey.load(path). Got a {type(self.key).__name__} instead."
            )

    def _filled(self, matrix: Any) -> npt.NDArray[np.int64]:
        """Return the records that can have neighbours; there must be more than k of them."""
        filled = np.flatnonzero(np.diff(matrix.indptr) > 0)
        if self.k >= len(filled):
            raise DataError(
                f"k={self.k} neighbours need more records than the n_samples={len(filled)} that "
                f"have entries (of {matrix.shape[0]}): lower k or add records"
            )
        return filled

    def _records(self, X: Any, *, reset: bool) -> SparseRecords:
        records = as_records(X, self.text)
        if records is not None and records.terms is not None:
            if reset:
                self.__dict__.pop("n_features_in_", None)
            elif hasattr(self, "n_features_in_"):
                raise DataError("fit was given a matrix, but these records have terms: fit again")
            return unit_rows(records) if self.normalize else records
        if not reset and not hasattr(self, "n_features_in_"):
            raise DataError("fit was given records with terms, but this is a matrix: fit again")
        X = X if records is None else records.matrix
        found = numbered(canonical(validated(self, X, reset=reset)))
        return unit_rows(found) if self.normalize else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _refuse(broken: int, what: str) -> None:
    if broken:
        raise PrivacyError(f"{broken} {what} break the guarantee: nothing is released")
