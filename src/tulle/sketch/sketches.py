"""The release of the sketch family: short vectors from which similarities are estimated.

Record i has ``lengths[i]`` components, zero-padded in ``values``. Two records are compared over the
components that both have: their first min(m_i, m_j). No key is needed for any of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from tulle._files import digest
from tulle._types import FilePath, Floats
from tulle.errors import DataError, ParameterError
from tulle.keys import SigningKey
from tulle.releases import Manifest, has_manifest, read_manifest, releasing

if TYPE_CHECKING:
    import polars as pl

# Sketches in files: Parquet (a ragged list a record), with a manifest. They are written part by
# part, so that sketches of a stream need not be held together.


def put_sketches(
    parts: Iterable[Sketches],
    file: BinaryIO,
    *,
    source: Mapping[str, Any] | None = None,
    beside: pl.DataFrame | None = None,
) -> Manifest:
    """Write parts of sketches, made alike; return their manifest.

    The number of records is added to what is said of the ``source``. Columns ``beside`` the
    sketches, a row for each record, are blank where the record is suppressed.
    """
    from tulle.io.write import put_batches

    rest = iter(parts)
    first = next(rest)
    lengths: list[npt.NDArray[np.int64]] = []

    def counted() -> Iterator[Sketches]:
        for part in chain([first], rest):
            lengths.append(part.lengths)
            yield part

    put_batches(_frames(counted(), beside), file, "sketches.parquet")
    counts = counts_of(np.concatenate(lengths))
    return Manifest(
        method="sketch",
        parameters=first.provenance.get("parameters", {}),
        guarantee=first.provenance.get("guarantee", {}),
        verified=first.provenance.get("verified", {}),
        counts=counts,
        source={**(source or {}), "records": counts["records"]},
        seed="key",
    )


def check_kind(path: FilePath) -> None:
    """Raise if sketches cannot be saved under this name."""
    kind = Path(path).suffix.lower()
    if kind != ".parquet":
        raise ParameterError(f"sketches must be saved as .parquet. Got '{kind}'.")


def counts_of(lengths: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Count the records and the suppressed ones, and summarize the lengths of the others."""
    released = lengths[lengths > 0]
    marks = [0, 0.25, 0.5, 0.75, 1]
    spread = np.quantile(released, marks, method="lower").tolist() if len(released) else []
    return {
        "records": len(lengths),
        "suppressed": len(lengths) - len(released),
        "components (min, quartiles, max)": spread,
    }


def read_sketches(path: FilePath) -> tuple[Any, Any, dict[str, Any]]:
    """Return values, lengths and provenance of a file; the manifest may be missing, not wrong."""
    import polars as pl

    if not Path(path).is_file():
        raise DataError(f"the file {path} does not exist")
    try:
        frame = pl.read_parquet(Path(path)).select("length", "sketch")
        own = frame.select((pl.col("sketch").list.len() == pl.col("length")).all()).item()
        own = own and frame["length"].dtype.is_integer() and not frame["length"].null_count()
    except (pl.exceptions.PolarsError, OSError):
        own = False
    if not own or frame.schema["sketch"] not in (pl.List(pl.Float32), pl.List(pl.Float64)):
        raise DataError(f"{path} contains no sketches")
    lengths = frame["length"].to_numpy().astype(np.int64)
    flat = frame.filter(pl.col("length") > 0)["sketch"].explode().to_numpy()
    values = np.zeros((len(lengths), max(1, int(lengths.max(initial=0)))), flat.dtype)
    values[np.arange(values.shape[1]) < lengths[:, None]] = flat
    if not has_manifest(path):
        return values, lengths, {}
    found = read_manifest(path)
    if found.output.get("sha256") != digest(path):
        raise DataError(
            f"{path} does not match its manifest: remove the manifest to load the file without "
            "its guarantees"
        )
    names = ("parameters", "guarantee", "verified")
    return values, lengths, {name: getattr(found, name) for name in names}


def _frames(parts: Iterable[Sketches], beside: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    import polars as pl

    done = 0
    for part in parts:
        frame = sketch_frame(part)
        if beside is not None:
            others = beside[done : done + len(part)]
            shown = pl.Series(~part.suppressed)
            frame = frame.with_columns(
                pl.when(shown).then(column).otherwise(None).alias(column.name) for column in others
            )
        done += len(part)
        yield frame
    if beside is not None and done != beside.height:
        raise DataError(
            f"{done} records were sketched, but the columns to keep have {beside.height} rows"
        )


def sketch_frame(sketches: Sketches) -> Any:
    import polars as pl

    lengths = sketches.lengths.astype(np.int32)
    frame = pl.DataFrame({"length": lengths, "sketch": sketches.values})
    return frame.with_columns(pl.col("sketch").arr.to_list().list.head(pl.col("length")))


@dataclass(frozen=True, eq=False, repr=False)
class Sketches:
    """Hold the sketches of records, row i that of record i, as :class:`tulle.Sketcher` makes them.

    Parameters
    ----------
    values
        Components, one row per record, zeros after the record's length.
    lengths
        Number of components of each record; 0 means that the record is suppressed.
    provenance
        What the maker says for the manifest: ``parameters``, ``guarantee``, ``verified``.

    What may leave
    --------------
    Everything in here: it is the release. Suppressed records are rows of length 0.

    Examples
    --------
    >>> import numpy as np
    >>> S = Sketches(np.array([[1., 3., 1.], [1., 1., 0.], [0., 0., 0.]]), np.array([3, 2, 0]))
    >>> S
    Sketches(3 records, 1 suppressed, 2 to 3 components)
    >>> float(S.dot()[0, 1])
    2.0
    >>> S.norms(squared=True)[:2]
    array([3.666..., 1.        ])
    """

    values: npt.NDArray[Any]
    lengths: npt.NDArray[np.int64]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values, lengths = np.asarray(self.values), np.asarray(self.lengths)
        if lengths.dtype.kind not in "iu" and lengths.size:
            raise DataError("the lengths of sketches must be whole numbers")
        if values.ndim != 2 or lengths.shape != values.shape[:1] or values.dtype.kind not in "iuf":
            raise DataError("Sketches need a matrix of numbers and one length per row")
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= values.shape[1]:
            raise DataError("a length is negative, or larger than the number of components")
        if not np.isfinite(values).all():
            raise DataError("the components of sketches must be finite numbers")
        if np.any(values[np.arange(values.shape[1]) >= lengths[:, None]]):
            raise DataError("sketches must be zero beyond their length")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "lengths", lengths.astype(np.int64, copy=False))

    # --- looking --------------------------------------------------------------------------

    @property
    def suppressed(self) -> npt.NDArray[np.bool_]:
        """True for the records that could not be released."""
        return self.lengths == 0

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of records and components."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __getitem__(self, rows: Any) -> Sketches:
        if isinstance(rows, int | np.integer | np.ndarray):
            rows = np.atleast_1d(rows)
        part = object.__new__(Sketches)  # checked as a whole, so not again
        state = {"values": self.values[rows], "lengths": self.lengths[rows]}
        part.__dict__.update(state, provenance=self.provenance)
        return part

    def __repr__(self) -> str:
        released = self.lengths[~self.suppressed]
        span = f"{released.min()} to {released.max()}" if len(released) else "no"
        hidden = int(self.suppressed.sum())
        return f"Sketches({len(self)} records, {hidden} suppressed, {span} components)"

    # --- asking ---------------------------------------------------------------------------

    def dot(self, other: Sketches | None = None) -> Floats:
        """Estimate the dot products of all records with all others.

        Parameters
        ----------
        other : Sketches, optional
            Sketches made with the same key; these themselves by default.

        Returns
        -------
        ndarray of shape (records, other records)
            NaN where one of the two is suppressed.
        """
        other = self._partner(other)
        common = np.minimum(self.lengths[:, None], other.lengths[None, :])
        return _per_component(_products(self, other), common)

    def norms(self, *, squared: bool = False) -> Floats:
        r"""Estimate the lengths of the records.

        Parameters
        ----------
        squared : bool
            Return the unbiased estimate of \|x\|² instead.

        Returns
        -------
        ndarray
        """
        sums = np.einsum("ij,ij->i", self.values, self.values, dtype=np.float64)
        estimates = _per_component(sums, self.lengths)
        return estimates if squared else np.sqrt(estimates)

    def distances(self, other: Sketches | None = None, *, squared: bool = False) -> Floats:
        r"""Estimate the Euclidean distances of all records to all others.

        The estimate is \|x\|² + \|y\|² - 2 x.y with all three taken from the components that both
        records have, so it is never negative; for equal lengths this is the formula of the paper.

        Parameters
        ----------
        other : Sketches, optional
            Sketches made with the same key; these themselves by default.
        squared : bool
            Return the unbiased estimate of \|x - y\|² instead.

        Returns
        -------
        ndarray of shape (records, other records)
        """
        other = self._partner(other)
        common, mine, theirs = _energies(self, other)
        sums = np.maximum(mine + theirs - 2 * _products(self, other), 0.0)
        estimates = _per_component(sums, common)
        return estimates if squared else np.sqrt(estimates)

    def cosines(self, other: Sketches | None = None) -> Floats:
        """Estimate the cosines of all records with all others, from the shared components.

        Parameters
        ----------
        other : Sketches, optional
            Sketches made with the same key; these themselves by default.

        Returns
        -------
        ndarray of shape (records, other records)
        """
        other = self._partner(other)
        common, mine, theirs = _energies(self, other)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines = _products(self, other) / np.sqrt(mine * theirs)
        cosines[(mine == 0) | (theirs == 0)] = 0.0  # a sketch of zeros points nowhere
        cosines[common == 0] = np.nan
        return cosines

    def centroid(self, rows: Any = None) -> Sketches:
        """Compute the sketch of the mean record, over the components that all the rows have.

        Nothing is guaranteed for it, so it cannot be saved as a release.

        Parameters
        ----------
        rows : index, optional
            The records to average; all by default.

        Returns
        -------
        Sketches
        """
        chosen = self if rows is None else self[rows]
        chosen = chosen[~chosen.suppressed]
        if not len(chosen):
            raise DataError("a centroid needs at least one record that is not suppressed")
        length = int(chosen.lengths.min())
        mean = chosen.values[:, :length].mean(axis=0, keepdims=True, dtype=np.float64)
        return Sketches(mean.astype(self.dtype), np.array([length]))

    def _partner(self, other: Sketches | None) -> Sketches:
        if other is not None and not isinstance(other, Sketches):
            raise ParameterError(f"'other' must be Sketches. Got a {type(other).__name__}.")
        return self if other is None else other

    # --- keeping --------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        source: Mapping[str, Any] | None = None,
        sources: tuple[str | os.PathLike[str], ...] = (),
        sign_key: SigningKey | None = None,
        force: bool = False,
    ) -> Manifest:
        """Write the sketches with their manifest, or nothing at all.

        Parameters
        ----------
        path : path-like
            A ``.parquet`` file; the manifest is written next to it.
        source : mapping, optional
            What the manifest says of the source.
        sources : tuple of path-like
            Files that must not be overwritten.
        sign_key : SigningKey, optional
            Signs the manifest.
        force : bool
            Replace a release that exists.

        Returns
        -------
        Manifest
        """
        check_kind(path)
        with releasing(path, sources=sources, sign_key=sign_key, force=force) as draft:
            draft.finish(put_sketches([self], draft.file, source=source))
        assert draft.manifest is not None
        return draft.manifest

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sketches:
        """Read sketches that :meth:`save` wrote; the manifest may be missing.

        Parameters
        ----------
        path : path-like
            The ``.parquet`` file.

        Returns
        -------
        Sketches
        """
        return cls(*read_sketches(path))

    @classmethod
    def stacked(cls, parts: Iterable[Sketches]) -> Sketches:
        """Stack sketches made with one key, one below the other.

        What is guaranteed for each record of all of them is guaranteed for the whole.
        k-variance is about pairs: nothing is guaranteed for parts sketched separately.

        Parameters
        ----------
        parts : iterable of Sketches
            The parts, in order.

        Returns
        -------
        Sketches
        """
        parts = list(parts)
        if not parts:
            raise DataError("there are no sketches to stack")
        widths = [part.shape[1] for part in parts]
        padded = [
            np.pad(part.values, ((0, 0), (0, max(widths) - width)))
            for part, width in zip(parts, widths)
        ]
        lengths = np.concatenate([part.lengths for part in parts])
        made = parts[0].provenance
        alike = all(part.provenance == made for part in parts)
        record_by_record = made.get("guarantee", {}).get("model") == "delta"
        holds = alike and (record_by_record or len(parts) == 1)  # for all parts together
        return cls(np.concatenate(padded), lengths, made if holds else {})

    def counts(self) -> dict[str, Any]:
        """Count the records and the suppressed ones, and summarize the lengths of the others.

        Returns
        -------
        dict
        """
        return counts_of(self.lengths)


def _products(one: Sketches, other: Sketches) -> Floats:
    # in double precision: distances are small differences of these
    width = min(one.shape[1], other.shape[1])
    mine = one.values[:, :width].astype(np.float64, copy=False)
    theirs = other.values[:, :width].astype(np.float64, copy=False)
    products: Floats = mine @ theirs.T
    return products


def _energies(one: Sketches, other: Sketches) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Count the components that two records share, and sum the squares of each over these."""
    common = np.minimum(one.lengths[:, None], other.lengths[None, :])
    sums = []
    for sketches, places in ((one, common), (other, common.T)):
        squares = np.cumsum(np.square(sketches.values, dtype=np.float64), axis=1)
        sums.append(np.take_along_axis(np.pad(squares, ((0, 0), (1, 0))), places, axis=1))
    return common, sums[0], sums[1].T


def _per_component(sums: Floats, lengths: Any) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lengths > 0, sums / lengths, np.nan)


# What a miner is given: sketches, or a plain array whose rows all have every component.


def given(estimator: Any, X: Any, *, reset: bool = False) -> Sketches:
    if isinstance(X, Sketches):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        return X
    X = validate_data(estimator, X, reset=reset, dtype=("float64", "float32"))
    return Sketches(X, np.full(len(X), X.shape[1]))
