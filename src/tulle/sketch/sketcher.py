"""The estimator of the family: sparse records in, sketches out, row for row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tulle.checks import check_choice, check_int, check_real
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.keys import SecretKey
from tulle.sketch import _delta, _kvariance
from tulle.sketch._build import build
from tulle.sketch._neighbours import nearest
from tulle.sketch._signs import Points, coefficients, sign_table, term_points
from tulle.sketch.matrices import canonical, validated
from tulle.sketch.records import Records, as_records, numbered
from tulle.sketch.sketches import Sketches

_DEFAULT_DELTA = 0.5


class Sketcher(TransformerMixin, BaseEstimator):
    """Short vectors instead of sparse records, with bounded accuracy, from a secret key.

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
        ``"definition"``: the bound sqrt(|x||y| - |x.y|) as the paper prints it; the longer the
        records, the weaker. ``"gap"``: the bound |x||y| - |x.y|: a neighbour cannot be told from
        a record that points the same way; free of scale, and on counts much stricter.
    max_components
        No record gets more components than this.
    graph
        ``"exact"``: every record is compared with every other, in single precision (cosines that
        agree to six digits may be taken for each other); time grows with the square of their
        number. ``"partition"``: nearest within parts of some thousand records; linear, and
        approximate. The promise is about the neighbours found.
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
    The :class:`Sketches`, never the key. Whoever has the key can estimate attributes of every
    record. Real-valued weights (tf-idf) may betray a record to somebody who knows its exact
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
        max_components: int = 256,
        graph: str = "exact",
        key: SecretKey | None = None,
        text: str = "text",
    ) -> None:
        self.model = model
        self.delta = delta
        self.k = k
        self.criterion = criterion
        self.max_components = max_components
        self.graph = graph
        self.key = key
        self.text = text

    def fit(self, X: Any, y: Any = None) -> Sketcher:
        """Checks parameters and records, and takes or makes the key; keeps nothing of X."""
        self.check_parameters()
        records = self._records(X, reset=True)
        if self.model == "k-variance":
            self._filled(records.matrix)
        self.key_ = SecretKey.generate() if self.key is None else self.key
        return self

    def transform(self, X: Any) -> Sketches:
        """The sketches of the records of X, verified before they are returned.

        X: a scipy sparse matrix (a vectoriser's output), an array, Transactions, a list of texts
        (see :mod:`tulle.sketch.text`), of bags of words or of mappings word -> weight, or the
        path of a file (``.dat`` baskets; ``.txt``, ``.jsonl`` or a table of documents).
        """
        (whole,) = self.transform_parts(X)
        return whole

    def transform_parts(self, X: Any, size: int | None = None) -> Iterator[Sketches]:
        """What :meth:`transform` gives, ``size`` records after the other.

        All records are looked at and verified before the first part is made, but only the
        components of one part are in memory.
        """
        check_is_fitted(self, "key_")
        self.check_parameters()
        if size is not None:
            check_int("Sketcher.transform_parts", "size", size, 1)
        records = self._records(X, reset=False)
        if self.model == "delta":
            lengths, verified = self._delta_lengths(records.matrix)
        else:
            lengths, verified = self._k_variance_lengths(records.matrix)
        points, provenance = self._points(records), self._provenance(verified)
        for start in range(0, len(lengths), size or len(lengths)):
            part = slice(start, None if size is None else start + size)
            values = build(records.matrix[part], points, lengths[part], self.key_)
            yield Sketches(values, lengths[part], provenance)

    def reconstruct(self, sketches: Sketches, columns: Any = None) -> Any:
        """Estimates of attributes, for the holder of the key: records x columns.

        ``columns`` are column numbers, or terms if the records were texts or baskets; None means
        all columns that ``fit`` saw. Rows of suppressed records are NaN.
        """
        check_is_fitted(self, "key_")
        if not isinstance(sketches, Sketches):
            raise ParameterError(f"'sketches' are Sketches. Got a {type(sketches).__name__}.")
        if columns is None:
            if not hasattr(self, "n_features_in_"):
                raise ParameterError("records without fixed columns: name the terms in 'columns'")
            columns = np.arange(self.n_features_in_)
        signs = self.signs(columns, sketches.shape[1])
        sums = sketches.values.astype(np.float64) @ signs.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums / np.where(sketches.suppressed, np.nan, sketches.lengths)[:, None]

    def signs(self, columns: Any, components: int) -> npt.NDArray[np.int8]:
        """The secret signs of some columns, columns x components: as secret as the key."""
        check_is_fitted(self, "key_")
        if not hasattr(self, "n_features_in_"):
            terms: list[Any] = [columns] if isinstance(columns, str | int) else list(columns)
            if not all(isinstance(term, str) for term in terms):
                raise ParameterError("records without fixed columns: name the terms in 'columns'")
            points = term_points(self.key_, terms)
        else:
            columns = np.atleast_1d(columns)
            within = columns.dtype.kind in "iu" and np.all(columns >= 0)
            if not within or np.any(columns >= self.n_features_in_):
                raise ParameterError(f"'columns' are numbers from 0 to {self.n_features_in_ - 1}")
            points = columns.astype(np.uint64)
        return sign_table(coefficients(self.key_, 0, components), points)

    # --- the two models -------------------------------------------------------------------

    def _delta_lengths(self, matrix: Any) -> tuple[Any, dict[str, Any]]:
        delta = _DEFAULT_DELTA if self.delta is None else self.delta
        lengths = _delta.delta_lengths(matrix, delta, self.max_components)
        _refuse(_delta.broken_records(matrix, lengths, delta), "records")
        return lengths, {"every attribute's variance is delta or more": True}

    def _k_variance_lengths(self, matrix: Any) -> tuple[Any, dict[str, Any]]:
        lengths = np.zeros(matrix.shape[0], np.int64)
        filled = self._filled(matrix)
        rows = matrix[filled]
        seed = np.frombuffer(self.key_.derive("sketch/partition", 32), np.uint64)
        graph = nearest(rows, self.k, self.graph, np.random.default_rng(seed))
        pairs = _kvariance.pairs_of(rows, graph, self.criterion)
        most = np.where(_delta.spread(rows) > 0, self.max_components, 0)
        if self.delta is not None:
            most = _delta.delta_lengths(rows, self.delta, self.max_components)
        found = _kvariance.k_variance_lengths(pairs, graph.similarities[:, -1], most)
        _refuse(_kvariance.broken_pairs(pairs, found), "pairs")
        verified = {f"every pair of the {self.graph} neighbour graph holds the bound": True}
        if self.delta is not None:
            _refuse(_delta.broken_records(rows, found, self.delta), "records")
            verified["every attribute's variance is delta or more"] = True
        lengths[filled] = found
        return lengths, verified

    # --- the rest -------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """Refuses wrong parameters; ``fit`` and ``transform`` do it too."""
        owner = type(self).__name__
        check_choice(owner, "model", self.model, ("delta", "k-variance"))
        if self.delta is not None:
            check_real(owner, "delta", self.delta, 0, closed="neither")
        check_int(owner, "k", self.k, 1)
        check_choice(owner, "criterion", self.criterion, _kvariance.CRITERIA)
        check_int(owner, "max_components", self.max_components, 1, 2**31 - 1)
        check_choice(owner, "graph", self.graph, ("exact", "partition"))
        if not isinstance(self.text, str):
            raise ParameterError("The 'text' parameter of Sketcher must be the name of a field.")
        if self.key is not None and not isinstance(self.key, SecretKey):
            raise ParameterError(
                "The 'key' parameter of Sketcher must be a SecretKey: SecretKey.generate(), "
                f"SecretKey.load(path). Got a {type(self.key).__name__} instead."
            )

    def _filled(self, matrix: Any) -> npt.NDArray[np.int64]:
        """The records that can have neighbours; there must be more than k of them."""
        filled = np.flatnonzero(np.diff(matrix.indptr) > 0)
        if self.k >= len(filled):
            raise DataError(
                f"k={self.k} neighbours need more than n_samples={len(filled)} records with "
                f"entries (of {matrix.shape[0]}): lower k or add records"
            )
        return filled

    def _records(self, X: Any, *, reset: bool) -> Records:
        records = as_records(X, self.text)
        if records is not None and records.terms is not None:
            if reset:
                self.__dict__.pop("n_features_in_", None)
            elif hasattr(self, "n_features_in_"):
                raise DataError("fit saw a matrix, and these records have terms: fit again")
            return records
        if not reset and not hasattr(self, "n_features_in_"):
            raise DataError("fit saw records with terms, and this is a matrix: fit again")
        X = X if records is None else records.matrix
        return numbered(canonical(validated(self, X, reset=reset)))

    def _points(self, records: Records) -> Points:
        if records.terms is not None:
            return term_points(self.key_, records.terms)
        if records.numbers is not None:
            return records.numbers.astype(np.uint64)
        return np.arange(records.matrix.shape[1], dtype=np.uint64)

    def _provenance(self, verified: dict[str, Any]) -> dict[str, Any]:
        names = ["model", "delta", "max_components"]
        if self.model == "k-variance":
            names += ["k", "criterion", "graph"]
        parameters = {name: getattr(self, name) for name in names}
        if self.model == "delta" and self.delta is None:
            parameters["delta"] = _DEFAULT_DELTA
        asked = {name: parameters[name] for name in names if name != "max_components"}
        return {"parameters": parameters, "guarantee": asked, "verified": verified}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _refuse(broken: int, what: str) -> None:
    if broken:
        raise PrivacyError(f"{broken} {what} break the promise: nothing is released")
